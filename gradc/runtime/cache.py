"""Emitted modules kept in a folder, found again by their content.

The folder's name is a hash of what it holds, and what it holds is compared byte by byte before it
is used, so an altered or cut-off file is written anew. Where nothing can be written, the caller
gets None and goes on without.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Store"]


class Store:
    """A folder of entries, private to the user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, files: Mapping[str, bytes]) -> Path | None:
        """The folder with exactly these files; None where it can't be made."""
        entry = self.folder / self.key(files)
        try:
            for folder in (self.folder, entry):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, content in files.items():
                if not _holds(entry / name, content):
                    _write(entry / name, content)
        except OSError:
            return None
        return entry

    @staticmethod
    def key(files: Mapping[str, bytes]) -> str:
        """The name of the entry of these files."""
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(f"{len(name)} {name} {len(content)} ".encode())
            digest.update(content)
        return digest.hexdigest()[:40]


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _write(path: Path, content: bytes) -> None:
    """Write a file so that others see it whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

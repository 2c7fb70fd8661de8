"""Compiled modules on disk: found by what they were made from, checked before they are used.

    modules/KEY/entry           sha256 of the rest, a line of JSON, the text, its byte code
    modules/KEY/gradc_*.py      the text again, for tracebacks; written anew where it differs
    modules/KEY/__pycache__/    machine code, which the module keeps and checks by itself
    modules/KEY/lock            whose turn it is to write the entry
    machine/*.machine           machine code of modules that can't write beside themselves

Readers take an entry whole or not at all, and never wait.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from gradc.errors import OptionError
from gradc.runtime.lock import turn

__all__ = ["Kept", "Store", "Stored"]

DIGEST = 32
"""Bytes of a sha256."""
LEFT = "left by a process that was killed"


@dataclass(frozen=True, slots=True)
class Stored:
    """A compiled module: its file, its text, its byte code."""

    path: Path
    source: str
    code: CodeType


@dataclass(frozen=True, slots=True)
class Kept:
    """One thing in a store: a module with its machine code, or a file of machine code.

    `about` is what `put` was told of a module, `size` in bytes, `used` the time of its last use
    in seconds since 1970.
    """

    path: Path
    about: Mapping[str, Any]
    size: int
    used: float


class Store:
    """A folder of compiled modules, private to the user, bounded to `limit` bytes.

    Without a folder it is empty, and nothing can be put into it.
    """

    def __init__(self, folder: Path | None, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Store:
        """The user's store: `gradc` in the cache folder of the system, or `GRADC_CACHE_DIR`.

        It holds `GRADC_CACHE_MAX_BYTES` at most, or 1 GiB. Emitted modules go by the same rule.
        """
        most = environment.get("GRADC_CACHE_MAX_BYTES") or str(2**30)
        if not most.isdecimal():
            raise OptionError(
                f"GRADC_CACHE_MAX_BYTES: expected a number of bytes, found {most!r}"
            )
        bases = {"darwin": "~/Library/Caches", "win32": environment.get("LOCALAPPDATA")}
        base = bases.get(sys.platform) or environment.get("XDG_CACHE_HOME")
        folder = Path(os.path.expanduser(base or "~/.cache"), "gradc")
        told = environment.get("GRADC_CACHE_DIR")
        if told:
            folder = Path(told).absolute()
        return cls(folder if folder.is_absolute() else None, int(most))

    # ---------------------------------------------------------- finding and keeping

    def get(self, key: str, name: str) -> Stored | None:
        """The module that was kept under a key; None where there is none that is whole."""
        place = self._place(key)
        if place is None:
            return None
        path = place / f"{name}.py"
        try:
            about, source, packed = _opened(_own(place / "entry"))
            if about["key"] != key or about["name"] != name:
                return None
            if about["path"] == str(path):
                code = marshal.loads(packed)
            else:  # the folder was moved
                code = compile(source, str(path), "exec", dont_inherit=True)
        except (OSError, ValueError):
            return None
        with suppress(OSError):
            os.utime(place / "entry")
            if not _has(path, source.encode()):
                _write(path, source.encode())
        return Stored(path, source, code)

    def put(
        self, key: str, name: str, source: str, about: Mapping[str, Any]
    ) -> Stored | None:
        """Keep a module under a key; None where it is too large for the store.

        OSError where it can't be written.
        """
        place = self._place(key)
        if place is None:
            raise FileNotFoundError("there is no home folder")
        path = place / f"{name}.py"
        code = compile(source, str(path), "exec", dont_inherit=True)
        facts = {**about, "key": key, "name": name, "path": str(path)}
        content = _closed(facts, source, marshal.dumps(code))
        if 2 * len(content) > self.limit:
            return None
        _prepare(place)
        for left in place.glob(".new-*"):  # of a process that was killed
            left.unlink(missing_ok=True)
        _write(path, source.encode())
        _write(place / "entry", content)
        self.trim(place)
        return Stored(path, source, code)

    @contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Have other processes that want to make the same entry wait meanwhile."""
        with ExitStack() as stack:
            place = self._place(key)
            with suppress(OSError):
                if place is not None:
                    _prepare(place)
                    stack.enter_context(turn(place / "lock"))
            yield

    def _place(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / "modules" / key

    # ------------------------------------------------------------- the whole folder

    def kept(self) -> list[Kept]:
        """All that is kept, the most recently used first."""
        found: list[Kept] = []
        if self.folder is None:
            return found
        for path in _listed(self.folder / "modules"):
            entry = path / "entry"
            about: dict[str, Any] = {}
            with suppress(OSError, ValueError):
                about = _opened(_own(entry))[0]
            sizes = [_size(p) for p in path.rglob("*")]
            found.append(Kept(path, about, sum(sizes), _used(entry, path)))
        for path in _listed(self.folder / "machine"):
            found.append(Kept(path, {}, _size(path), _used(path)))
        return sorted(found, key=lambda k: (-k.used, str(k.path)))

    def problems(self) -> list[tuple[Path, str]]:
        """The files that are not whole, and what is wrong with each.

        What a killed process left is among them after an hour; until then it may be at work.
        """
        found = []
        for kept in self.kept():
            files = [kept.path]
            if kept.path.is_dir():
                found += _faults(kept.path)
                files = [*kept.path.glob("__pycache__/*"), *kept.path.glob(".new-*")]
            for path in sorted(files):
                with suppress(OSError):
                    if path.suffix == ".machine":
                        if not _is_whole(path.read_bytes()):
                            found.append((path, "damaged"))
                    elif _is_left(path):
                        found.append((path, LEFT))
        return found

    def delete(self, path: Path) -> bool:
        """Delete a file or folder of the store; whether it is gone."""
        return _delete(path)

    def trim(self, latest: Path | None = None) -> None:
        """Delete what was not used for longest, down to the limit; never `latest`."""
        room = self.limit
        for kept in sorted(self.kept(), key=lambda k: k.path != latest):
            room -= kept.size
            if room < 0 and kept.path != latest:
                _delete(kept.path)


# --------------------------------------------------------------------------- files


def _closed(about: Mapping[str, Any], source: str, code: bytes) -> bytes:
    """The content of a file `entry`."""
    text = source.encode()
    line = json.dumps({**about, "text": len(text)}, sort_keys=True).encode()
    rest = b"\n".join([line, text + code])
    return hashlib.sha256(rest).digest() + rest


def _opened(content: bytes) -> tuple[dict[str, Any], str, bytes]:
    """What `_closed` was given. ValueError where the content is not whole."""
    if not _is_whole(content):
        raise ValueError("not whole")
    line, _, rest = content[DIGEST:].partition(b"\n")
    about = json.loads(line)
    end = about.pop("text")
    return about, rest[:end].decode(), rest[end:]


def _is_whole(content: bytes) -> bool:
    """Whether a file begins with the sha256 of the rest, as entries and machine code do."""
    return hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]


def _faults(folder: Path) -> list[tuple[Path, str]]:
    """What is wrong with the files of an entry."""
    entry = folder / "entry"
    try:
        about, source, _ = _opened(_own(entry))
    except FileNotFoundError:
        return [(folder, LEFT)] if _is_left(folder) else []
    except (OSError, ValueError):
        return [(entry, "damaged")]
    path = folder / f"{about['name']}.py"
    whole = _has(path, source.encode())
    return [] if whole else [(path, "not the text it should be")]


def _is_left(path: Path) -> bool:
    """Whether nobody has changed a file or folder for an hour."""
    return _used(path) < time.time() - 3600


def _own(path: Path) -> bytes:
    """The content of a file. PermissionError where it is neither the user's nor root's."""
    with open(path, "rb") as file:
        found = os.fstat(file.fileno())
        if not _is_own(found) and found.st_uid != 0:
            raise PermissionError(f"{path} belongs to somebody else")
        return file.read()


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def _has(path: Path, content: bytes) -> bool:
    """Whether a file has just this content."""
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _prepare(place: Path) -> None:
    """Make the folder of an entry. PermissionError where it is not the user's alone."""
    place.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in (place.parent, place):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode) or not _is_own(found):
            raise PermissionError(f"{folder} is no folder of this user's")
        if found.st_mode & 0o077:
            folder.chmod(0o700)


def _write(path: Path, content: bytes) -> None:
    """Write a file so that others see it whole or not at all."""
    new = path.with_name(f".new-{os.urandom(8).hex()}")
    try:
        with open(new, "xb") as file:
            file.write(content)
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _size(path: Path) -> int:
    with suppress(OSError):
        found = path.lstat()
        return 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return 0


def _used(*paths: Path) -> float:
    """When the first of the paths that is there was changed."""
    for path in paths:
        with suppress(OSError):
            return path.lstat().st_mtime
    return 0.0


def _delete(path: Path) -> bool:
    """Delete a file or folder, as far as it can be; whether it is gone. Its entry goes first, so that
    nobody takes what is left for whole."""
    with suppress(OSError):
        (path / "entry").unlink(missing_ok=True)
    if path.is_dir():
        import shutil

        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    return not os.path.lexists(path)

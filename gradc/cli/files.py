"""Output files, written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gradc.cli.report import UsageProblem
from gradc.errors import SourceError

__all__ = ["check_output", "write_file", "write_files"]


def check_output(path: Path, source: str = "") -> None:
    """UsageProblem where `path` can't be an output file, or is the file read."""
    folder = path.parent
    if path.is_dir():
        raise UsageProblem(f"{path} is a folder; expected the name of a file")
    if not folder.is_dir():
        raise UsageProblem(f"{path}: there is no folder {folder}")
    if path.exists() and os.path.exists(source) and os.path.samefile(path, source):
        raise UsageProblem(
            f"{path} is the file read; writing it would destroy it",
            hint="give another name with -o",
        )


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that others see the old content or the new, never a part."""
    write_files({path: content})


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files so that others see the old content or the new, never a part.

    All are written beside their places before the first takes its own. A link stays a link, and a
    file keeps its mode. SourceError where one can't be written.
    """
    made: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, content in files.items():
            if path.exists() and not path.is_file():  # a pipe or a device
                path.write_bytes(content)
            else:
                _stage(Path(os.path.realpath(path)), content, made)
        while made:
            os.replace(*made[0])
            del made[0]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SourceError(
            f"{path}: can't be written: {error.strerror or error}", code="bad-output"
        ) from None
    finally:
        for name, _ in made:
            os.unlink(name)


def _stage(path: Path, content: bytes, made: list[tuple[str, Path]]) -> None:
    """Write a new file beside `path`, with its mode, and enter it."""
    if path.exists():
        mode = stat.S_IMODE(path.stat().st_mode)
    else:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}-", dir=path.parent)
    made.append((name, path))
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(name, mode)

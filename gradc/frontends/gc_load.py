"""`load("weights.npz", "W")`: arrays from files beside the graph.

Files are data from anywhere: never unpickled, never outside the graph's folder, and never more
memory than the file holds bytes for.
"""

from __future__ import annotations

import ast
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

import numpy as np

from gradc.errors import SourceError
from gradc.types import DTYPES

__all__ = ["MAX_BYTES", "load_array"]

MAX_BYTES = 2**31
"""Bytes of one array."""
MAX_HEADER = 2**16
CHUNK = 2**20


def load_array(folder: Path | None, name: str, key: str | None) -> Any:
    """The array in file `name` of `folder`, under `key` where it is an `.npz`.

    SourceError says what is wrong with the path, the file or the array.
    """
    path = _path(folder, name)
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy":
                if key is not None:
                    raise SourceError(
                        f"{name} holds one array, which has no name",
                        hint=f'write load("{name}")',
                    )
                return _read(file, path.stat().st_size, name)
            return _member(file, name, key)
    except OSError as error:
        raise SourceError(f"{name}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceError(f"{name} is damaged: {error}") from None
    except RuntimeError as error:  # zipfile's word for an encrypted member
        raise SourceError(f"{name}: {error}") from None


def _path(folder: Path | None, name: str) -> Path:
    if folder is None:
        raise SourceError(
            "load needs a folder: this text is not in a file",
            hint="put the text in a .gc file beside the arrays, or pass folder=",
        )
    parts = (*PurePosixPath(name).parts, *PureWindowsPath(name).parts)
    outside = (
        PurePosixPath(name).is_absolute()
        or PureWindowsPath(name).anchor
        or ".." in parts
        or "\0" in name
    )
    base = folder.resolve()
    path = base if outside else (base / name).resolve()
    if outside or not path.is_relative_to(base):
        raise SourceError(
            f"{name!r} is not inside the folder of the graph",
            code="outside-folder",
            hint="move the file beside the .gc file",
        )
    if path.suffix not in (".npy", ".npz"):
        raise SourceError(
            f"{name!r}: only .npy and .npz files are read",
            hint="numpy.savez writes one",
        )
    if not path.is_file():
        raise SourceError(f"no file {name!r} beside the graph", code="no-file")
    return path


def _member(file: IO[bytes], name: str, key: str | None) -> Any:
    with zipfile.ZipFile(file) as archive:
        keys = [
            n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy")
        ]
        listed = ", ".join(sorted(keys)[:20]) or "nothing"
        if key is None:
            if len(keys) != 1:
                raise SourceError(
                    f"{name} holds {listed}: say which",
                    hint=f'write load("{name}", "name")',
                )
            key = keys[0]
        if key not in keys:
            raise SourceError(f"{name} holds no {key!r}, it holds {listed}")
        info = archive.getinfo(f"{key}.npy")
        with archive.open(info) as member:
            return _read(member, info.file_size, f"{name}: {key}")


def _read(file: IO[bytes], size: int, name: str) -> Any:
    """One array in NumPy's format, out of `size` bytes."""
    shape, fortran, dtype, start = _header(file, name)
    if dtype.name not in DTYPES:
        what = "needs pickle" if dtype.hasobject else f"has dtype {dtype}"
        raise SourceError(
            f"{name} {what}, which is not read",
            code="pickle" if dtype.hasobject else "bad-file",
            hint="save an array of numbers: array.astype(float)",
        )
    count = 1
    for n in shape:
        count *= n
    wanted = count * dtype.itemsize
    if wanted > size - start:
        raise SourceError(
            f"{name} is damaged: its header says {wanted} bytes, it has {max(0, size - start)}"
        )
    if wanted > MAX_BYTES:
        raise SourceError(
            f"{name} has {wanted} bytes, at most {MAX_BYTES} are read",
            code="too-large",
            hint="declare it as an input",
        )
    data = bytearray()
    while len(data) < wanted:
        part = file.read(min(CHUNK, wanted - len(data)))
        if not part:
            raise SourceError(f"{name} is damaged: it ends after {len(data)} bytes")
        data += part
    array = np.frombuffer(data, dtype=dtype).reshape(
        shape, order="F" if fortran else "C"
    )
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise SourceError(f"{name} is damaged: a bool that is neither 0 nor 1")
    return np.ascontiguousarray(
        array.astype(dtype.newbyteorder("="), copy=False)
    ).reshape(shape)


def _header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, Any, int]:
    """(shape, fortran order, dtype, bytes read) of an array in NumPy's format."""
    damaged = SourceError(f"{name} is no array in NumPy's format")
    magic = file.read(8)
    if len(magic) < 8 or magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2, 3):
        raise damaged
    width = 2 if magic[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEADER:
        raise damaged
    text = file.read(length)
    try:
        header = ast.literal_eval(
            text.decode("utf-8" if magic[6] == 3 else "latin1").strip()
        )
        shape, fortran = header["shape"], header["fortran_order"]
        dtype = np.dtype(header["descr"])
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise damaged from None
    good = (
        isinstance(shape, tuple)
        and len(shape) <= 32
        and all(type(n) is int and n >= 0 for n in shape)
        and isinstance(fortran, bool)
        and len(text) == length
    )
    if not good:
        raise damaged
    return shape, fortran, dtype, 8 + width + length

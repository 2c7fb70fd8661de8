"""The arrays and numbers of an emitted module: in the text, or in a file beside it."""

from __future__ import annotations

import base64
import hashlib
import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradc.emit import layout
from gradc.graph import Data
from gradc.types import DType, dtype_of

__all__ = ["Constants", "ConstantsView", "array_text", "definitions", "number_text"]

EMBEDDED = 4096
"""Constants of more bytes than this go to a file beside the module, unless all are embedded."""
INLINE = 8
"""Constants of at most so many elements stand in the text where they are used."""
LISTED = 64
"""Constants of at most so many elements are written as lists."""


class Constants:
    """The arrays of a module that are too large to stand inside a statement."""

    def __init__(self) -> None:
        self.names: dict[Data, str] = {}

    def name(self, data: Data) -> str:
        """The module's name for an array; equal arrays have one."""
        return self.names.setdefault(data, f"_K{len(self.names) + 1}")


# -------------------------------------------------------------------------- numbers


def number_text(value: Any, dtype: DType) -> str:
    """A Python number that converts to `value` in this dtype."""
    if dtype.is_bool:
        return str(bool(value))
    if dtype.is_integer:
        return str(int(value))
    if dtype.is_complex:
        number = complex(value)
        real, imag = (_float_text(p, dtype) for p in (number.real, number.imag))
        if imag == "0.0":  # not -0.0
            return real
        if real == "0.0" and math.isfinite(number.imag) and not imag.startswith("-"):
            return f"{imag}j"
        return f"complex({real}, {imag})"
    return _float_text(value, dtype)


def _float_text(value: Any, dtype: DType) -> str:
    number = float(value)
    if math.isnan(number):
        return "np.nan"
    if math.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    if dtype.bits in (16, 32) or dtype.name == "complex64":
        narrow = np.float16 if dtype.bits == 16 else np.float32
        short = float(str(narrow(number)))
        if narrow(short) == narrow(number):
            number = short
    return repr(number).replace("e+", "e")


def array_text(array: np.ndarray[Any, Any], dtype: DType) -> str:
    """An array as an expression."""
    if array.size == 0:
        return f"np.zeros({array.shape}, np.{dtype.name})"
    tail = "" if dtype.name in ("float64", "int64", "bool") else f", np.{dtype.name}"
    flat = array.reshape(-1)
    if (
        array.size > 1
        and flat.tobytes() == np.broadcast_to(flat[0], flat.shape).tobytes()
    ):
        full = f", np.{dtype.name}" if dtype.name != "float64" else ""
        return f"np.full({array.shape}, {number_text(flat[0], dtype)}{full})"
    parts = [number_text(v, dtype) for v in flat]
    for length in reversed(array.shape):
        parts = [
            f"[{', '.join(parts[k : k + length])}]"
            for k in range(0, len(parts), length)
        ]
    return f"np.array({parts[0]}{tail})"


# ---------------------------------------------------------------------- definitions


@dataclass(frozen=True, slots=True)
class ConstantsView:
    """Definitions of constants; `file` and `sha256` of the one beside the module, or ""."""

    lines: tuple[str, ...]
    file: str
    sha256: str
    has_encoded: bool

    @property
    def imports(self) -> set[str]:
        found = {"import base64"} if self.has_encoded else set()
        return found | (
            {"import hashlib", "import io", "import os"} if self.file else set()
        )


def definitions(
    constants: Constants, embed: bool, file: str
) -> tuple[ConstantsView | None, bytes | None]:
    """The lines that define the module's arrays, and the file with the large ones."""
    lines: list[str] = []
    stored: dict[str, np.ndarray[Any, Any]] = {}
    has_encoded = False
    for data, name in constants.names.items():
        array = data.array
        if not embed and array.nbytes > EMBEDDED:
            stored[name] = array
        elif array.size <= LISTED:
            lines += layout.statement(f"{name} = {_list_text(array)}")
        else:
            lines += _encoded(name, array)
            has_encoded = True
    if not lines and not stored:
        return None, None
    content = _npz(stored) if stored else None
    file = file if stored else ""
    lines += [f'{name} = _DATA["{name}"]' for name in stored]
    digest = hashlib.sha256(content).hexdigest() if content else ""
    return ConstantsView(tuple(lines), file, digest, has_encoded), content


def _list_text(array: np.ndarray[Any, Any]) -> str:
    return array_text(array, dtype_of(array))


def _encoded(name: str, array: np.ndarray[Any, Any]) -> list[str]:
    """An array as the base64 text of its bytes."""
    little = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode("ascii")
    lines = [f"{name} = _decoded("]
    lines.append(f'    "{little.dtype.str}",')
    shape = f"({array.shape[0]},)" if array.ndim == 1 else str(array.shape)
    lines.append(f"    {shape},")
    pieces = [text[k : k + 80] for k in range(0, len(text), 80)]
    lines += [f'    "{piece}"' for piece in pieces]
    lines[-1] += ","
    return [*lines, ")"]


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """An `.npz` file with the same bytes on every machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
            np.lib.format.write_array(
                content, little, version=(1, 0), allow_pickle=False
            )
            information = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            information.create_system = 3
            information.external_attr = 0o644 << 16
            file.writestr(information, content.getvalue())
    return buffer.getvalue()

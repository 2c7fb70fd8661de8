"""Data on the command line: `data.npz X=features.csv y=labels.csv:diagnosis l2=0.1`."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from gradc.cli.report import UsageProblem
from gradc.errors import GradcError, SourceError
from gradc.graph import Graph, Tensor
from gradc.ops.evaluator import bind_sizes
from gradc.types import evaluate_dim, symbols_of

__all__ = ["called", "read_data"]

Array: TypeAlias = "np.ndarray[Any, Any]"

MAX_NDIM = 64
"""Most axes of an array of NumPy."""
MAX_NUMBER = 1000
"""Characters of a number; more is no number."""


def read_data(
    words: Sequence[str], graph: Graph, *, partial: bool = False
) -> dict[Tensor, Array]:
    """The data of a graph's inputs, in their dtypes. Inputs with a default may be left out.

    A word is `FILE.npz` or `FILE.json` (arrays by the names of inputs, others are left alone), or
    `NAME=` a number, a `.npy` file, `FILE.npz:key`, `FILE.json` or `FILE.json:key`, or a `.csv` or
    `.tsv` file, where `:column` takes a column, `:a,b` several. A number fills an array whose
    sizes the others tell. `partial` lets any input be missing.
    """
    inputs = {_name(t): t for t in graph.inputs}
    found: dict[Tensor, Array] = {}
    fills: dict[Tensor, tuple[str, Array]] = {}
    seen: list[str] = []
    given: dict[str, str] = {}  # names of inputs, with the words that gave them
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            arrays = _archive(word, word)
            seen += arrays.files
            for key in arrays.files:
                if key in inputs:
                    if "=" not in given.get(key, "="):
                        raise _twice(key, given[key], word)
                    if key in given:  # NAME=VALUE stands before what an archive has
                        continue
                    given[key] = word
                    tensor = inputs[key]
                    array = _member(arrays, key, word, tensor)
                    found[tensor] = _typed(array, tensor, f"{word}:{key}")
            continue
        if name not in inputs:
            raise _unknown(name, inputs)
        if "=" in given.get(name, ""):
            raise _twice(name, given[name], word)
        given[name] = word
        tensor = inputs[name]
        number = _number(value, tensor)
        if number is None:
            found[tensor] = _typed(_read(value, tensor), tensor, value)
        elif tensor.ndim:
            found.pop(tensor, None)
            fills[tensor] = (value, number)
        else:
            found[tensor] = number
    for tensor, (text, number) in fills.items():
        found[tensor] = _filled(tensor, text, number, graph.inputs, found)
    if not partial:
        for name, tensor in inputs.items():
            if tensor not in found and tensor.attrs.default is None:
                raise _missing(name, tensor, seen)
    return found


def called(entry: Callable[..., Any], module: Any, data: Mapping[Tensor, Any]) -> Any:
    """An entry point of a module, called with data. GradcError where they don't suit it."""
    parameters = dict(zip(module.plan.graph.inputs, module.INPUTS, strict=True))
    arguments = {parameters[t]: v for t, v in data.items()}
    try:
        return entry(**arguments)
    except (TypeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
        raise GradcError(" ".join(str(error).split()), code="bad-data") from error


def _name(tensor: Tensor) -> str:
    return str(tensor.attrs.name)


def _twice(name: str, first: str, second: str) -> UsageProblem:
    return UsageProblem(
        f"{name} is given twice: {first} and {second}", hint="leave one out"
    )


def _unknown(name: str, inputs: Mapping[str, Tensor]) -> UsageProblem:
    near = get_close_matches(name, inputs, 1)
    names = ", ".join(inputs) or "none"
    return UsageProblem(
        f"no input is called {name!r}",
        code="unknown-name",
        hint=f"did you mean {near[0]}?" if near else f"inputs are {names}",
    )


def _missing(name: str, tensor: Tensor, seen: Sequence[str]) -> UsageProblem:
    near = get_close_matches(name, seen, 1)
    a_number = f"{name}=0" if not tensor.ndim else f"{name}=FILE.npy or {name}=FILE.csv"
    return UsageProblem(
        f"no data for the input {name}, which is {tensor.type}",
        code="missing-input",
        hint=f"the file has {near[0]}" if near else f"give {a_number}",
    )


# ---------------------------------------------------------------------------- values


def _number(text: str, tensor: Tensor) -> Array | None:
    """A number as an array of rank 0 in an input's dtype; None where the text is none."""
    dtype = tensor.dtype
    word = text.strip()
    if not word or len(word) > MAX_NUMBER:
        return None
    if word.lower() in ("true", "false"):
        return np.asarray(word.lower() == "true").astype(dtype.name)
    for kind in (int, float, complex):
        try:
            value = kind(word)
        except (ValueError, OverflowError):
            continue
        return _converted(value, tensor, text)
    return None


def _converted(value: Any, tensor: Tensor, text: str, where: str = "") -> Array:
    """A Python number in an input's dtype, which must hold it; only `inf` is infinite."""
    dtype = tensor.dtype
    try:
        with np.errstate(all="ignore"):
            number = np.asarray(dtype.numpy.type(value))
            exact = dtype.is_inexact or number.item() == value
            if np.isinf(number):
                exact = "inf" in text.lower()
    except (OverflowError, ValueError, TypeError):
        exact = False
    if not exact:
        raise GradcError(
            f"{where}{_name(tensor)} is {dtype}, which can't hold {text}",
            code="bad-data",
        )
    return number


def _typed(array: Array, tensor: Tensor, where: str) -> Array:
    """An array in the dtype of an input: floats are rounded, integers must be exact."""
    dtype = tensor.dtype
    if array.dtype.kind in "fc" and not dtype.is_inexact:
        raise GradcError(
            f"{where}: {_name(tensor)} is {tensor.type}, found {array.dtype}",
            code="bad-data",
            hint=f"save it as {dtype}: array.astype(np.{dtype.numpy.name})",
        )
    if array.dtype.kind not in "biufc":
        raise GradcError(
            f"{where}: expected numbers for {_name(tensor)}, found {array.dtype}",
            code="bad-data",
        )
    if array.dtype.kind == "c" and not dtype.is_complex:
        raise GradcError(
            f"{where}: complex numbers for {_name(tensor)}, which is {tensor.type}",
            code="bad-data",
        )
    with np.errstate(all="ignore"):
        result = array.astype(dtype.name)
        if not dtype.is_inexact and not np.array_equal(result, array):
            raise GradcError(
                f"{where}: {_name(tensor)} is {tensor.type}, and not all numbers fit {dtype}",
                code="bad-data",
            )
    return result


def _filled(
    tensor: Tensor,
    text: str,
    number: Array,
    inputs: Sequence[Tensor],
    found: Mapping[Tensor, Array],
) -> Array:
    """An array of one number, where the other data tell its shape."""
    sizes = bind_sizes(inputs, found)
    for dim in tensor.shape:
        for s in symbols_of(dim):
            if s not in sizes:
                raise UsageProblem(
                    f"{_name(tensor)}={text}: {_name(tensor)} is {tensor.type}, and no "
                    f"other data tell {s}",
                    code="missing-input",
                    hint=f"give {_name(tensor)} as a file",
                )
    return np.full(tuple(evaluate_dim(d, sizes) for d in tensor.shape), number)


# ----------------------------------------------------------------------------- files


def _read(word: str, tensor: Tensor) -> Array:
    """The array that a word stands for; what is wrong in the file is told with the input."""
    try:
        return _from_file(word, tensor)
    except GradcError as error:
        name = _name(tensor)
        if error.code == "bad-data" and f"{name} is" not in error.message:
            error.message = f"{name}: {error.message}"
        raise


def _from_file(word: str, tensor: Tensor) -> Array:
    """The array that `FILE`, `FILE:key` or `FILE:column` stands for."""
    path, part = (word, "") if os.path.exists(word) else _split(word)
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".csv", ".tsv"):
        return _table(path, part, suffix, tensor)
    if suffix == ".json" and not part:
        value = _json(path)
        if not isinstance(value, dict):
            return _json_array(value, tensor, path)
    if suffix in (".npz", ".json"):
        arrays = _archive(path, word)
        if not part and len(arrays.files) == 1:
            part = arrays.files[0]
        if part not in arrays.files:
            raise UsageProblem(
                f"{path} has no array {part!r}"
                if part
                else f"{path} has several arrays",
                hint=f"it has {', '.join(arrays.files) or 'none'}: write {path}:NAME",
            )
        return _member(arrays, part, path, tensor)
    if suffix == ".npy" and not part:
        try:
            return np.asarray(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise _unreadable(path, error) from None
    raise UsageProblem(
        f"{_name(tensor)}={word}: expected a number or a file",
        hint="files are .csv, .tsv, .json, .npy, .npz",
    )


def _split(word: str) -> tuple[str, str]:
    """`labels.csv:diagnosis` as file and part; the file ends at its suffix."""
    for suffix in (".csv:", ".tsv:", ".npz:", ".json:"):
        head, colon, part = word.partition(suffix)
        if colon:
            return head + suffix[:-1], part
    return word, ""


def _unreadable(path: str, error: Exception) -> GradcError:
    if isinstance(error, OSError) and error.errno is not None:
        return UsageProblem(f"{path}: {error.strerror}", code="bad-file")
    return SourceError(
        f"{path}: not a NumPy file, or one with pickled objects, which are never read",
        code="bad-data",
    )


def _archive(path: str, word: str) -> _Arrays:
    """The arrays of a `.npz` file, opened, or of a `.json` file."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".json":
        value = _json(path)
        if not isinstance(value, dict):
            raise SourceError(
                f"{path}: expected an object with arrays by the names of inputs, found "
                f"{_json_kind(value)}",
                code="bad-data",
                hint=f"for one array write NAME={path}",
            )
        return _Object(value)
    if suffix != ".npz":
        raise UsageProblem(
            f"{word}: expected NAME=VALUE, a .npz or a .json file",
            hint="X=features.csv, l2=0.1, data.npz",
        )
    try:
        arrays = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from None
    if not hasattr(arrays, "files"):
        raise _unreadable(path, ValueError())
    return cast("_Arrays", arrays)


def _member(arrays: _Arrays, key: str, path: str, tensor: Tensor) -> Array:
    """One of the arrays, for an input."""
    where = f"{path}:{key}"
    if isinstance(arrays, _Object):
        return _json_array(arrays[key], tensor, where)
    try:
        return np.asarray(arrays[key])
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as e:
        raise _unreadable(where, e) from None


class _Arrays(Protocol):
    """Arrays by name."""

    @property
    def files(self) -> list[str]: ...

    def __getitem__(self, key: str) -> Any: ...


# ------------------------------------------------------------------------------ JSON


class _Object(dict[str, Any]):
    """An object of JSON as an archive of arrays."""

    @property
    def files(self) -> list[str]:
        return list(self)


def _json(path: str) -> Any:
    """The value in a `.json` file."""
    text = _text(path)
    try:
        return json.loads(text, parse_float=_float, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise SourceError(
            f"{path}:{error.lineno}:{error.colno}: {what}", code="bad-data"
        ) from None
    except RecursionError:
        raise SourceError(f"{path}: nested too deeply", code="bad-data") from None
    except (
        ValueError
    ) as error:  # of the two below, or an integer of thousands of digits
        raise SourceError(f"{path}: {error}", code="bad-data") from None


def _float(text: str) -> float:
    """A finite number; Infinity has a word of its own."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is outside the range of float64")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is given twice")
        found[key] = value
    return found


def _json_kind(value: Any) -> str:
    """What a value of JSON is, in its words."""
    kinds = {dict: "an object", list: "an array", str: "a string", type(None): "null"}
    return kinds.get(type(value), "true or false" if value is True else "a number")


def _json_array(value: Any, tensor: Tensor, where: str) -> Array:
    """A number or nested arrays of numbers, in the dtype of an input, which must hold them."""
    shape: list[int] = []
    row = value
    while isinstance(row, list) and len(shape) < MAX_NDIM:
        shape.append(len(row))
        row = row[0] if row else None
    rows = [value]
    for axis, size in enumerate(shape):
        for k, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != size:
                place = np.unravel_index(k, shape[:axis]) if axis else ()
                found = f"{len(row)}" if isinstance(row, list) else _json_kind(row)
                at = "".join(f"[{i}]" for i in place)
                raise SourceError(
                    f"{where}{at}: expected {size} elements as in the first, found {found}",
                    code="bad-data",
                )
        rows = [item for row in rows for item in row]
    out = np.empty(shape, tensor.dtype.name)
    for k, item in enumerate(rows):
        place = np.unravel_index(k, shape) if shape else ()
        at = f"{where}{''.join(f'[{i}]' for i in place)}"
        if not isinstance(item, int | float):
            raise SourceError(
                f"{at}: expected a number, found {_json_kind(item)}", code="bad-data"
            )
        out[place] = _converted(item, tensor, json.dumps(item), f"{at}: ")
    return out


# ---------------------------------------------------------------------------- tables


def _table(path: str, columns: str, suffix: str, tensor: Tensor) -> Array:
    """The columns of a table: one for an input of rank 1, any number for rank 2."""
    rows = _rows(path, "\t" if suffix == ".tsv" else ",")
    header: list[str] = []
    if rows and any(_number_in(c) is None for c in rows[0][1]):
        header = [c.strip() for c in rows[0][1]]
        del rows[0]
    width = len(header) if header else len(rows[0][1]) if rows else 0
    picked = [_column(c, header, width, path) for c in columns.split(",") if columns]
    picked = picked or list(range(width))
    if tensor.ndim not in (1, 2) or (tensor.ndim == 1 and len(picked) != 1):
        names = ", ".join(header[:8]) + (", ..." if len(header) > 8 else "")
        raise GradcError(
            f"{path}: {_name(tensor)} is {tensor.type}; a table of {len(picked)} columns "
            "does not fit",
            code="bad-data",
            hint=f"choose a column with {path}:NAME"
            + (f"; it has {names}" * bool(names))
            if tensor.ndim == 1
            else "give the array as a .npy file",
        )
    out = np.empty((len(rows), len(picked)), tensor.dtype.name)
    for i, (line, cells) in enumerate(rows):
        if len(cells) != width:
            raise GradcError(
                f"{path}:{line}: expected {width} cells, found {len(cells)}",
                code="bad-data",
            )
        for j, k in enumerate(picked):
            place = f"{path}:{line}, column {header[k] if header else k}"
            value = _number_in(cells[k])
            if value is None:
                raise GradcError(
                    f"{place}: expected a number, found {cells[k]!r}", code="bad-data"
                )
            out[i, j] = _converted(value, tensor, cells[k].strip(), f"{place}: ")
    return out[:, 0] if tensor.ndim == 1 else out


def _number_in(cell: str) -> int | float | bool | None:
    """The number in a cell; None where there is none."""
    text = cell.strip()
    if len(text) > MAX_NUMBER:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def _column(name: str, header: Sequence[str], width: int, path: str) -> int:
    """The number of a column, by its name or its number."""
    word = name.strip()
    if word in header:
        return header.index(word)
    if word.isascii() and word.isdigit() and int(word) < width:
        return int(word)
    near = get_close_matches(word, header, 1)
    shown = ", ".join(header[:8]) + (", ..." if len(header) > 8 else "")
    raise UsageProblem(
        f"{path} has no column {word!r}",
        hint=f"did you mean {near[0]}?"
        if near
        else f"columns are {shown}"
        if header
        else f"columns are 0 to {width - 1}",
    )


def _rows(path: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """The rows that are not empty, with their lines."""
    reader = csv.reader(io.StringIO(_text(path), newline=""), delimiter=delimiter)
    rows = []
    try:
        for cells in reader:
            if any(c.strip() for c in cells):
                rows.append((reader.line_num, cells))
    except csv.Error as error:
        raise SourceError(
            f"{path}:{reader.line_num}: {error}", code="bad-data"
        ) from None
    if not rows:
        raise SourceError(f"{path}: the table is empty", code="bad-data")
    return rows


def _text(path: str) -> str:
    """The text of a file; UTF-8 with or without a mark."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{path}: not UTF-8 at byte {error.start}", code="bad-data"
        ) from None

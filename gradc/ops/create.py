"""Functions that make tensors from numbers and sizes: zeros, ranges, grids, one-hot rows, `array`.

Sizes may be symbolic wherever NumPy takes an int. Where the shape of a result would depend on a
symbol in a way that no dimension can say, the error tells another way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradc.errors import OptionError, ShapeError, TypeMismatch
from gradc.graph import Data, Tensor
from gradc.ops.arrange import MAX_RANK, band, nested_depth, nested_leaves
from gradc.ops.basic import constant, iota
from gradc.ops.basic import copy as copy_op
from gradc.ops.elementwise import scalar_value
from gradc.ops.functions import (
    Nested,
    TensorLike,
    apply,
    as_tensor,
    axis_of,
    broadcast_to,
    convert,
    function,
    number,
    type_of,
)
from gradc.ops.shape import (
    concatenate_op,
    dtype_from,
    found_text,
    permuted,
    reshaped,
    sizes_of,
)
from gradc.types import (
    Dim,
    DType,
    Poly,
    Shape,
    broadcast_shapes,
    dim_floordiv,
    dim_text,
    float64,
    int64,
    is_nonnegative,
    promote,
    shape_text,
)

__all__ = ["arange", "array", "eye", "full", "one_hot"]

# ---------------------------------------------------------------------- one value


@function("full")
def full(shape: Any, fill_value: TensorLike, dtype: Any = None) -> Tensor:
    """A tensor of this shape with the value in every place."""
    kind = type_of(fill_value).dtype if dtype is None else dtype_from(dtype)
    return broadcast_to(convert(fill_value, kind), sizes_of(shape))


@function("zeros")
def zeros(shape: Any, dtype: Any = float64) -> Tensor:
    """Zeros."""
    kind = dtype_from(dtype)
    return full(shape, False if kind.is_bool else 0, kind)


@function("ones")
def ones(shape: Any, dtype: Any = float64) -> Tensor:
    """Ones."""
    kind = dtype_from(dtype)
    return full(shape, True if kind.is_bool else 1, kind)


@function("empty")
def empty(shape: Any, dtype: Any = float64) -> Tensor:
    """A tensor to be filled; it holds zeros, so that no result depends on what was there."""
    return zeros(shape, dtype)


# --------------------------------------------------------------- arrays of values


@function("array")
def array(values: Nested, dtype: Any = None) -> Tensor:
    """A constant from nested lists of numbers, or a tensor from nested lists of tensors.

    The innermost entries must have one shape; they are promoted to one dtype.
    """
    kind = None if dtype is None else dtype_from(dtype)
    if isinstance(values, Tensor):
        return copy_op(convert(values, kind or values.dtype))
    leaves = nested_leaves(values)
    if not any(isinstance(leaf, Tensor | Poly) for leaf in leaves):
        return _numbers(values, kind)
    if nested_depth(values) < 0:
        raise ShapeError(
            f"array: lists are nested to different depths, or deeper than {MAX_RANK}"
        )
    lengths = _lengths(values)
    common = kind or promote([type_of(leaf) for leaf in leaves])[0]
    tensors = [convert(leaf, common) for leaf in leaves]
    first = tensors[0].shape
    for t in tensors:
        if t.shape != first:
            raise ShapeError(
                f"array: entries have shapes {shape_text(first)} and {shape_text(t.shape)}",
                hint="block([...]) joins parts of different sizes",
            )
    rows = [reshaped(t, (1, *first)) for t in tensors]
    joined = rows[0] if len(rows) == 1 else concatenate_op(*rows, axis=0)
    return reshaped(joined, (*lengths, *first))


@function("asarray")
def asarray(values: Nested, dtype: Any = None) -> Tensor:
    """Like `array`, but a tensor stays the same tensor."""
    if isinstance(values, Tensor):
        return values if dtype is None else convert(values, dtype_from(dtype))
    return array(values, dtype)


def _numbers(values: Any, dtype: DType | None) -> Tensor:
    try:
        with np.errstate(all="ignore"):
            found = np.array(values, dtype=dtype.name if dtype else None)
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(
            f"array: {str(error).split('. ')[0].rstrip('.')}",
            hint="rows must have one length; numbers must fit the dtype",
        ) from None
    if found.dtype.kind not in "biufc":
        raise TypeMismatch(
            f"array: expected numbers, found {found_text(nested_leaves(values)[0])}"
        )
    return constant(value=Data(found), weak=False)


def _lengths(values: Any) -> tuple[int, ...]:
    """The lengths of nested lists, level by level. ShapeError where those of a level differ."""
    lengths = []
    level = [values]
    while isinstance(level[0], list | tuple):
        if len({len(v) for v in level}) > 1:
            raise ShapeError(
                "array: rows have different lengths",
                hint="concatenate joins parts of different lengths",
            )
        lengths.append(len(level[0]))
        level = [item for v in level for item in v]
    return tuple(lengths)


# ----------------------------------------------------------------------- ranges


@function("arange")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers from `start` (0 where one argument is given) up to `stop`, which is left out."""
    if stop is None:
        start, stop = 0, start
    given = (start, stop, step)
    for value in given:
        _static("arange", value)
    if step == 0:
        raise ShapeError("arange: the step is 0")
    whole = all(isinstance(v, int | np.integer | Poly) for v in given)
    kind = dtype_from(dtype) if dtype is not None else int64 if whole else float64
    length: Dim
    if whole:
        if isinstance(step, Poly) and not is_nonnegative(step):
            raise ShapeError(
                f"arange: the step {step} may be negative",
                hint="multiply arange(n) by the step",
            )
        length = -dim_floordiv(start - stop, step)
    else:
        if any(isinstance(v, Poly) for v in given):
            raise ShapeError(
                "arange: a length from floating-point steps and a dimension is not known",
                hint="write start + step * arange(n), or linspace(start, stop, n)",
            )
        quotient = np.ceil((stop - start) / step)
        if not np.isfinite(quotient):
            raise ShapeError(f"arange: no length from {start}, {stop}, {step}")
        length = int(quotient)
    if isinstance(length, int):
        length = max(length, 0)
    number_kind = int64 if kind.is_bool else kind
    along = iota(shape=(length,), axis=0, dtype=int64 if whole else number_kind)
    if step != 1:
        along = along * (step if whole else (start + step) - start)
    if start != 0:
        along = along + start
    return convert(along, kind)


def _static(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(
        value, int | float | np.integer | np.floating | Poly
    ):
        raise TypeMismatch(
            f"{name}: expected a number known when the graph is compiled, found "
            f"{found_text(value)}",
            hint=f"scale and shift {name} of known numbers",
        )


@function("linspace")
def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor | tuple[Tensor, Tensor]:
    """`num` numbers, evenly spaced, from `start` to `stop` (left out if not `endpoint`)."""
    (count,) = sizes_of(num, "linspace: num")
    a, b = type_of(start), type_of(stop)
    common, _ = promote([a, b, type_of(1.0)])
    shape = broadcast_shapes(a.shape, b.shape)
    first = broadcast_to(convert(start, common), shape)
    last = broadcast_to(convert(stop, common), shape)
    gaps: Any
    if isinstance(count, int):
        gaps = max(count - endpoint, 1)
    else:
        gaps = apply("maximum", number(count - int(endpoint), common), 1)
    step = (last - first) / gaps
    whole = (count, *shape)
    real = float64 if common.is_complex else common
    places = convert(iota(shape=whole, axis=0, dtype=real), common)
    result = broadcast_to(first, whole) + places * broadcast_to(step, whole)
    if endpoint and count != 1:
        where_last = apply("equal", iota(shape=whole, axis=0, dtype=int64), count - 1)
        if isinstance(count, Poly):  # of a single number the first stays
            where_last = apply("logical_and", where_last, apply("greater", count, 1))
        result = apply("where", where_last, broadcast_to(last, whole), result)
    if dtype is not None:
        kind = dtype_from(dtype)
        if kind.is_integer:
            result = apply("floor", result)
        result = convert(result, kind)
    k = axis_of(axis, len(whole))
    perm = [*range(1, k + 1), 0, *range(k + 1, len(whole))]
    result = permuted(result, perm)
    return (result, step) if retstep else result


@function("logspace")
def logspace(
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    base: TensorLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """Powers of `base` whose exponents are `num` numbers, evenly spaced, from `start` to `stop`."""
    kinds = [type_of(v) for v in (start, stop, base)]
    shape = broadcast_shapes(*(t.shape for t in kinds))
    first = broadcast_to(as_tensor(start), shape)
    exponents = linspace(first, stop, num, endpoint, axis=axis)
    assert isinstance(exponents, Tensor)
    common, _ = promote([exponents.type, kinds[2]])
    of = broadcast_to(convert(base, common), shape)
    k = axis_of(axis, exponents.ndim)
    line = reshaped(of, (*shape[:k], 1, *shape[k:]))
    result = apply("power", broadcast_to(line, exponents.shape), exponents)
    return _in_dtype(result, dtype)


def _in_dtype(x: Tensor, dtype: Any) -> Tensor:
    """Numbers in a dtype that was asked for; for integers their integral parts."""
    return x if dtype is None else convert(x, dtype_from(dtype))


@function("geomspace")
def geomspace(
    start: TensorLike,
    stop: TensorLike,
    num: Any = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """`num` numbers from `start` to `stop` (left out if not `endpoint`) that grow by one factor.

    Both ends have one sign; from 0 there is no way, and the results are NaN.
    """
    a, b = as_tensor(start), as_tensor(stop)
    common, _ = promote([a.type, b.type, type_of(1.0)])
    if common.is_complex:
        raise TypeMismatch("geomspace: complex ends are not in this version")
    for end in (a, b):
        if scalar_value(end) == 0:
            raise OptionError("geomspace: an end is 0", hint="linspace goes through 0")
    shape = broadcast_shapes(a.shape, b.shape)
    first = broadcast_to(convert(a, common), shape)
    last = broadcast_to(convert(b, common), shape)
    low, high = (apply("log10", apply("abs", v)) for v in (first, last))
    exponents = linspace(low, high, num, endpoint)
    assert isinstance(exponents, Tensor)
    whole = exponents.shape
    signs = apply("sign", first)
    same = apply("equal", signs, apply("sign", last))
    signs = apply("where", same, signs, np.nan)
    result = apply("power", 10.0, exponents) * broadcast_to(signs, whole)
    place = iota(shape=whole, axis=0, dtype=int64)
    if endpoint:
        is_last = apply("equal", place, whole[0] - 1)
        result = apply("where", is_last, broadcast_to(last, whole), result)
    is_first = apply("equal", place, 0)
    result = apply("where", is_first, broadcast_to(first, whole), result)
    k = axis_of(axis, len(whole))
    perm = [*range(1, k + 1), 0, *range(k + 1, len(whole))]
    return _in_dtype(permuted(result, perm), dtype)


# ----------------------------------------------------------------------- matrices


@function("eye")
def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = float64) -> Tensor:
    """Ones on diagonal `k` of an `n` by `m` matrix, zeros elsewhere."""
    rows, columns = sizes_of((n, n if m is None else m), "eye")
    i, j = (iota(shape=(rows, columns), axis=a, dtype=int64) for a in (0, 1))
    if isinstance(k, Tensor):
        raise TypeMismatch(f"eye: k must be an int, found {found_text(k)}")
    mask = apply("equal", i + k if k else i, j)
    return convert(mask, dtype_from(dtype))


@function("identity")
def identity(n: Any, dtype: Any = float64) -> Tensor:
    """The identity matrix."""
    return eye(n, dtype=dtype)


@function("tri")
def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = float64) -> Tensor:
    """Ones on diagonal `k` and below it, zeros elsewhere."""
    rows, columns = sizes_of((n, n if m is None else m), "tri")
    return convert(band(rows, columns, k), dtype_from(dtype))


@function("vander")
def vander(x: TensorLike, n: Any = None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns, the highest first unless `increasing`."""
    t = as_tensor(x)
    if t.ndim != 1:
        raise ShapeError(f"vander: expected a vector, found {t.type}")
    (columns,) = sizes_of(t.shape[0] if n is None else n, "vander: n")
    if t.dtype.is_bool:
        t = convert(t, int64)
    real = float64 if t.dtype.is_complex else t.dtype
    shape = (t.shape[0], columns)
    powers = iota(shape=shape, axis=1, dtype=real)
    if not increasing:
        powers = (columns - 1) - powers
    base = broadcast_to(reshaped(t, (t.shape[0], 1)), shape)
    result = apply("power", base, convert(powers, t.dtype))
    assert isinstance(result, Tensor)
    return result


@function("one_hot")
def one_hot(i: TensorLike, depth: Any, dtype: Any = float64) -> Tensor:
    """A row of `depth` numbers for each index: 1 at the index, else 0 (all 0 outside)."""
    t = as_tensor(i)
    if not t.dtype.is_integer:
        raise TypeMismatch(
            f"one_hot: expected integers, found {t.type}", hint="write .astype(int64)"
        )
    (width,) = sizes_of(depth, "one_hot: depth")
    shape = (*t.shape, width)
    index = broadcast_to(reshaped(convert(t, int64), (*t.shape, 1)), shape)
    mask = apply("equal", index, iota(shape=shape, axis=t.ndim, dtype=int64))
    return convert(mask, dtype_from(dtype))


# -------------------------------------------------------------------------- grids


@function("meshgrid")
def meshgrid(
    *xs: TensorLike, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> tuple[Tensor, ...]:
    """The coordinates of a grid: each vector along an axis of its own."""
    if indexing not in ("xy", "ij"):
        raise TypeMismatch(
            f"meshgrid: indexing must be 'xy' or 'ij', found {indexing!r}"
        )
    vectors = [as_tensor(x) for x in xs]
    for v in vectors:
        if v.ndim > 1:
            raise ShapeError(f"meshgrid: expected vectors, found {v.type}")
    n = len(vectors)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    lengths: list[Dim] = [1] * n
    for k, v in zip(order, vectors, strict=True):
        lengths[k] = v.shape[0] if v.ndim else 1
    result = []
    for k, v in zip(order, vectors, strict=True):
        thin = reshaped(v, tuple(lengths[k] if i == k else 1 for i in range(n)))
        result.append(thin if sparse else broadcast_to(thin, tuple(lengths)))
    return tuple(result)


@function("indices")
def indices(
    dimensions: Any, dtype: Any = int64, sparse: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """The index along each axis of a grid, stacked; a tuple of thin ones where `sparse`."""
    shape, kind = sizes_of(dimensions, "indices"), dtype_from(dtype)
    n = len(shape)
    if sparse:
        return tuple(iota(shape=_thin(shape, k), axis=k, dtype=kind) for k in range(n))
    if not n:
        return zeros((0,), kind)
    planes = [iota(shape=(1, *shape), axis=k + 1, dtype=kind) for k in range(n)]
    return planes[0] if n == 1 else concatenate_op(*planes, axis=0)


def _thin(shape: Shape, k: int) -> Shape:
    return tuple(d if i == k else 1 for i, d in enumerate(shape))


@function("tril_indices")
def tril_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements on diagonal `k` and below it."""
    return _triangle("tril", np.tril_indices, n, k, m)


@function("triu_indices")
def triu_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Tensor, Tensor]:
    """Rows and columns of the elements on diagonal `k` and above it."""
    return _triangle("triu", np.triu_indices, n, k, m)


MAX_TRIANGLE = 1 << 24


def _triangle(
    name: str, numpy: Callable[..., Any], n: Any, k: int, m: Any
) -> tuple[Tensor, Tensor]:
    rows, columns = sizes_of((n, n if m is None else m), f"{name}_indices")
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(
            f"{name}_indices: the size {dim_text(rows)} is not known",
            hint=f"declare it as a number, or work on the whole matrix with {name}(x)",
        )
    if rows * columns > MAX_TRIANGLE:
        raise ShapeError(
            f"{name}_indices: {rows} rows and {columns} columns are too many for constants",
            hint=f"work on the whole matrix with {name}(x)",
        )
    i, j = numpy(rows, k, columns)
    return array(i), array(j)


@function("diag_indices")
def diag_indices(n: Any, ndim: int = 2) -> tuple[Tensor, ...]:
    """The indices of the main diagonal of a cube with `ndim` axes."""
    if not 0 <= ndim <= MAX_RANK:
        raise ShapeError(f"diag_indices: {ndim} axes, at most {MAX_RANK} are possible")
    return tuple([arange(*sizes_of(n, "diag_indices"))] * ndim)

"""Sorting, what is read off sorted values, and search in them.

NaN stands behind all numbers, as in NumPy; equal elements keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import constant, iota
from gradc.ops.elementwise import (
    equal,
    filled,
    floor,
    greater,
    greater_equal,
    isnan,
    less_equal,
    logical_and,
    minimum,
    scalar_value,
    select,
)
from gradc.ops.functions import (
    Axes,
    Nested,
    TensorLike,
    apply,
    as_tensor,
    axes_of,
    axis_of,
    broadcast_to,
    convert,
    function,
    number,
    type_of,
)
from gradc.ops.index import gather, scatter_add, take
from gradc.ops.keys import index_constant
from gradc.ops.loops import Call
from gradc.ops.reduce import kept, total
from gradc.ops.registry import BOOL, REAL, Bar, Constant, Explicit, Op, primitive
from gradc.ops.shape import flip_op, permuted, reshaped, slice_op
from gradc.types import (
    Dim,
    Poly,
    TensorType,
    dim_floordiv,
    float64,
    int64,
    is_nonnegative,
    promote,
    size_of,
)

__all__ = ["argsort", "median", "quantile", "sort", "top_k"]

ORDERED = REAL | BOOL
COUNTED = "its result is an index"

# ------------------------------------------------------------------------ the ops


def _sort_vjp(node: Node, bar: Tensor | None, _: Tensor | None) -> Sequence[Bar]:
    """Each value's cotangent goes to the place where the value stood."""
    if bar is None:
        return [None]
    (x,), order = node.inputs, node.outputs[1]
    axes = tuple(range(x.ndim))
    key = [iota(shape=x.shape, axis=k, dtype=int64) for k in axes[:-1]]
    return [scatter_add(bar, *key, order, shape=x.shape, axes=axes, at=0)]


sort_op: Op = primitive(
    "sort",
    type=lambda x: (x, x.with_dtype(int64)),
    numpy=arraylib._sorted,
    derivative=Explicit(_sort_vjp, through=(0,)),
    form=lambda node: Call("sort", core=1),
    text=lambda node, args: f"_sorted({args[0]})",
    accepts=ORDERED,
    doc="The elements of the last axis in ascending order, NaN last, and where each stood; equal "
    "ones keep their order. The cotangent of a value goes where it stood.",
)


def _search_type(a: TensorType, v: TensorType, *, side: str) -> TensorType:
    if a.ndim != 1 or v.ndim != 1 or a.dtype != v.dtype:
        raise InternalError(f"searchsorted: {a} and {v}")
    return v.with_dtype(int64)


search_op: Op = primitive(
    "searchsorted",
    type=_search_type,
    numpy=lambda a, v, *, side: np.searchsorted(a, v, side),
    derivative=Constant(COUNTED),
    form=lambda node: Call("search", core=1),
    text=lambda node, args: (
        f'np.searchsorted({args[0]}, {args[1]}, "{node.attrs.side}")'
    ),
    accepts=ORDERED,
    doc="Where each of a vector's elements would stand in a sorted vector, before its equals "
    "(`left`) or behind them (`right`).",
)


# ---------------------------------------------------------------------- in order


def _ordered(name: str, x: TensorLike) -> Tensor:
    """A tensor whose elements have an order."""
    tensor = as_tensor(x)
    if tensor.dtype.is_complex:
        raise TypeMismatch(
            f"{name}: complex numbers have no order",
            hint=f"{name}(abs(x)), or of x.real",
        )
    return convert(tensor, tensor.dtype)


def _options(name: str, kind: str | None, order: Any) -> None:
    kinds = ("quicksort", "mergesort", "heapsort", "stable", None)
    if kind not in kinds:
        raise OptionError(f"{name}: no kind {kind!r}", hint="every kind is stable here")
    if order is not None:
        raise OptionError(f"{name}: order= is for records, which gradc has none of")


def _pair(x: Tensor, axis: int | None) -> tuple[Tensor, Tensor]:
    """(values, order) along an axis; of all elements where that is None."""
    if axis is None:
        x, axis = reshaped(x, (x.type.size,)), 0
    k = axis_of(axis, x.ndim)
    to_last = [i for i in range(x.ndim) if i != k] + [k]
    back = sorted(range(x.ndim), key=to_last.__getitem__)
    values, order = sort_op.many(permuted(x, to_last))
    return permuted(values, back), permuted(order, back)


@function("sort")
def sort(
    x: TensorLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: bool | None = None,
) -> Tensor:
    """The elements of an axis (None: all) in ascending order, NaN last. Every sort is stable."""
    _options("sort", kind, order)
    return _pair(_ordered("sort", x), axis)[0]


@function("argsort", method=True)
def argsort(
    x: TensorLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
    *,
    stable: bool | None = None,
) -> Tensor:
    """The indices that sort an axis (None: all elements): equal ones in their order, NaN last."""
    _options("argsort", kind, order)
    tensor = _ordered("argsort", x)
    return _pair(tensor, axis if tensor.ndim else None)[1]


def _check_places(name: str, kth: Any, count: Dim) -> None:
    """Each of `kth` is a place of the axis, where that can be known."""
    for place in kth if isinstance(kth, tuple | list) else (kth,):
        if isinstance(place, bool) or not isinstance(place, int | Poly):
            raise TypeMismatch(
                f"{name}: kth must be known when the graph is compiled, found {place}"
            )
        if not isinstance(place, int) or not isinstance(count, int):
            continue
        if not -count <= place < count:
            raise ShapeError(
                f"{name}: kth is {place}, the axis has {count} elements",
                code="bad-axis",
            )


def _length(x: Tensor, axis: int | None) -> Dim:
    return x.type.size if axis is None else x.shape[axis_of(axis, x.ndim)]


@function("partition")
def partition(
    x: TensorLike,
    kth: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
) -> Tensor:
    """The elements of an axis with the `kth` where it stands in sorted order, smaller ones before
    it; here all are in order."""
    tensor = _ordered("partition", x)
    _check_places("partition", kth, _length(tensor, axis))
    return sort(tensor, axis)


@function("argpartition", method=True)
def argpartition(
    x: TensorLike,
    kth: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: Any = None,
) -> Tensor:
    """The indices that partition an axis as `partition` does; here they sort it."""
    tensor = _ordered("argpartition", x)
    _check_places("argpartition", kth, _length(tensor, axis))
    return argsort(tensor, axis)


@function("top_k")
def top_k(x: TensorLike, k: Any) -> tuple[Tensor, Tensor]:
    """The `k` largest of the last axis and their int64 indices, largest first, ties by position.

    NaN counts as larger than all numbers. ShapeError where the axis is known to be too short.
    """
    tensor = _ordered("top_k", x)
    if not tensor.ndim:
        raise ShapeError("top_k: a number has no axis")
    if (
        isinstance(k, bool)
        or not isinstance(k, int | Poly)
        or (isinstance(k, int) and k < 0)
    ):
        raise TypeMismatch(f"top_k: k must be a size, found {k}")
    count, last = tensor.shape[-1], tensor.ndim - 1
    if isinstance(k, int) and isinstance(count, int) and k > count:
        raise ShapeError(f"top_k: k is {k}, the last axis has {count} elements")
    # ascending from the end: of equals, the first is the last
    values, order = sort_op.many(flip_op(tensor, axes=(last,)))
    order = filled(count - 1, order) - order
    return _first(flip_op(values, axes=(last,)), k), _first(
        flip_op(order, axes=(last,)), k
    )


def _first(x: Tensor, k: Dim) -> Tensor:
    """The first `k` elements of the last axis."""
    lead = x.shape[:-1]
    return slice_op(x, start=(0,) * x.ndim, stop=(*lead, k), step=(1,) * x.ndim)


# ------------------------------------------------------------- middle and quantiles


def _real(name: str, x: TensorLike) -> Tensor:
    """A tensor of floats; of integers as float64."""
    tensor = _ordered(name, x)
    return tensor if tensor.dtype.is_inexact else convert(tensor, float64)


def _lined_up(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The elements of `axes` as the last axis."""
    free = [k for k in range(x.ndim) if k not in axes]
    count = size_of(x.shape[k] for k in axes)
    moved = permuted(x, [*free, *axes])
    return reshaped(moved, (*(x.shape[k] for k in free), count))


def _element(x: Tensor, place: Dim) -> Tensor:
    """The element of the last axis at a place; 0 where a symbolic axis has none."""
    count, lead = x.shape[-1], x.shape[:-1]
    if isinstance(count, int):
        start, stop = (*[0] * len(lead), place), (*lead, place + 1)
        return reshaped(slice_op(x, start=start, stop=stop, step=(1,) * x.ndim), lead)
    index = iota(shape=x.shape, axis=x.ndim - 1, dtype=int64)
    hit = equal(index, filled(place, index))
    return total(select(hit, x, filled(0, x)), (x.ndim - 1,))


@function("median")
def median(x: TensorLike, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The middle element over `axis` (None: over all), or the mean of the middle two; of none NaN.

    It is NaN where an element is. The derivative follows the stable order.
    """
    tensor = _real("median", x)
    axes = axes_of(axis, tensor.ndim)
    row = _lined_up(tensor, axes)
    count = row.shape[-1]
    if count == 0:
        empty = total(row, (row.ndim - 1,))
        return kept(empty + math.nan, tensor, axes, keepdims)
    values, _ = sort_op.many(row)
    found = low = _element(values, dim_floordiv(count - 1, 2))
    if not isinstance(count, int) or count % 2 == 0:
        found = (low + _element(values, dim_floordiv(count, 2))) * 0.5
    if not isinstance(count, int):
        rest = number(count - 2 * dim_floordiv(count, 2), int64)
        found = select(equal(rest, 1), low, found)
    last = _element(values, count - 1)
    found = select(isnan(last), last, found)
    if not is_nonnegative(count - 1):
        found = select(equal(number(count, int64), 0), math.nan, found)
    return kept(found, tensor, axes, keepdims)


def _numbers(q: Tensor) -> Any:
    """The probabilities where they are known when the graph is compiled, else None."""
    if q.op is not constant:
        return None
    values = q.attrs.value.array
    if not np.all((values >= 0) & (values <= 1)):
        raise OptionError("quantile: q must be in [0, 1]")
    return values


def _places(q: Tensor, count: Dim) -> tuple[Tensor, Tensor, Tensor]:
    """Between which two of the sorted elements each quantile lies, and how far behind the first.

    A q outside [0, 1] gives an index outside.
    """
    known = _numbers(q)
    if known is not None and isinstance(count, int):
        place = known * (count - 1)
        low = np.floor(place).astype(np.int64)
        at, behind = index_constant(low), index_constant(np.minimum(low + 1, count - 1))
        return at, behind, as_tensor(np.asarray(place - low, known.dtype))
    virtual = q * number(count - 1, q.dtype)
    floored = floor(virtual)
    at = convert(floored, int64)
    if known is None:
        inside = logical_and(greater_equal(q, 0), less_equal(q, 1))
        at = select(inside, at, filled(count, at))
    return at, minimum(at + 1, filled(count - 1, at)), virtual - floored


@function("quantile")
def quantile(
    x: TensorLike,
    q: Nested,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The quantiles at `q` (a number or a vector in [0, 1]) over `axis`, by linear interpolation.

    The axis of `q` comes first in the result. It is NaN where an element is, an IndexError of the
    call where there are none. The derivative by `x` follows the stable order.
    """
    if method != "linear":
        raise OptionError(f"quantile: no method {method!r}", hint="method='linear'")
    tensor = _real("quantile", x)
    chance = (
        as_tensor(apply("array", q)) if isinstance(q, list | tuple) else as_tensor(q)
    )
    if chance.ndim > 1:
        raise ShapeError(
            f"quantile: expected q as a number or a vector, found {chance.type}"
        )
    common, _ = promote([tensor.type, chance.type])
    if not chance.dtype.is_inexact or chance.type.weak:
        value = scalar_value(chance)
        chance = convert(chance if value is None else value, float64)
    axes = axes_of(axis, tensor.ndim)
    row = _lined_up(tensor, axes)
    count, last = row.shape[-1], row.ndim - 1
    if count == 0:
        raise ShapeError(f"quantile: {tensor.type} has no elements along its axes")
    values = convert(sort_op.many(row)[0], common)
    at, behind, gamma = _places(chance, count)
    low = gather(values, at, axes=(last,), at=0)
    high = gather(values, behind, axes=(last,), at=0)
    part = broadcast_to(
        reshaped(convert(gamma, common), (*chance.shape, *[1] * last)), low.shape
    )
    d = high - low
    found = select(greater_equal(part, 0.5), high - d * (1 - part), low + d * part)
    end = gather(values, filled(count - 1, number(0, int64)), axes=(last,), at=0)
    end = broadcast_to(end, found.shape)
    found = select(isnan(end), end, found)
    if not keepdims:
        return found
    ones = tuple(1 if k in axes else d for k, d in enumerate(tensor.shape))
    return reshaped(found, (*chance.shape, *ones))


# ------------------------------------------------------------------------- search


@function("searchsorted")
def searchsorted(
    a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None
) -> Tensor:
    """Where each of `v` would stand in the sorted vector `a`, before (`left`) or behind equals.

    `sorter` has the indices that sort `a`. What is not sorted gives indices without meaning.
    """
    if side not in ("left", "right"):
        raise OptionError(f"searchsorted: side is 'left' or 'right', found {side!r}")
    row = _ordered("searchsorted", a)
    if row.ndim != 1:
        raise ShapeError(f"searchsorted: expected a sorted vector, found {row.type}")
    if sorter is not None:
        row = take(row, sorter, 0)
    wanted = _ordered("searchsorted", v)
    common, _ = promote([type_of(a), type_of(v)])
    flat = reshaped(convert(wanted, common), (wanted.type.size,))
    return reshaped(search_op(convert(row, common), flat, side=side), wanted.shape)


@function("digitize")
def digitize(x: TensorLike, bins: TensorLike, right: bool = False) -> Tensor:
    """The number of the bin that each of `x` lies in; `bins` are edges that rise or fall.

    An edge belongs to the bin behind it, with `right` to that before it.
    """
    edges = _ordered("digitize", bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: expected bins as a vector, found {edges.type}")
    count = edges.shape[0]
    if count == 0:
        return filled(0, convert(as_tensor(x), int64))
    known = edges.attrs.value.array if edges.op is constant else None
    falls: Tensor | bool
    if known is not None:
        falls = bool(known[0] > known[-1])
        if not np.all(known[1:] <= known[:-1] if falls else known[1:] >= known[:-1]):
            raise OptionError("digitize: bins must rise or fall throughout")
        rising = flip_op(edges, axes=(0,)) if falls else edges
    else:
        falls = greater(_element(edges, 0), _element(edges, count - 1))
        rising = select(falls, flip_op(edges, axes=(0,)), edges)
    found = searchsorted(rising, x, "left" if right else "right")
    if falls is False:
        return found
    turned = filled(count, found) - found
    return turned if falls is True else select(falls, turned, found)

"""What is gathered at places, and what is combined at them: segments, extremes and products.

Sums at places are `scatter_add` of `index.py`; here are the other ways to combine. A place that
nothing goes to holds the value that changes nothing: -inf, inf or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import iota, numpy_shape, pull
from gradc.ops.complex import conjugate
from gradc.ops.elementwise import (
    divide,
    filled,
    greater,
    isnan,
    less,
    logical_not,
    maximum,
    minimum,
    select,
)
from gradc.ops.functions import (
    Key,
    TensorLike,
    as_tensor,
    broadcast_to,
    convert,
    function,
)
from gradc.ops.index import (
    changed,
    check_indices,
    gather,
    gathered_shape,
    scatter_add,
    scatter_text,
)
from gradc.ops.loops import Cumulate, Scatter
from gradc.ops.reduce import highest, lowest, mean_dtype, sum_dtype
from gradc.ops.registry import COMPLEX, REAL, Bar, Explicit, Op, primitive
from gradc.ops.shape import fill_text, reshaped, sizes_of
from gradc.types import (
    DType,
    Shape,
    TensorType,
    dtype_of,
    float32,
    int64,
    shape_text,
    size_of,
)

__all__ = [
    "INDEXED",
    "scatter_max",
    "scatter_min",
    "scatter_multiply",
    "segment_recurrence",
]

INDEXED = frozenset(
    (
        "gather",
        "scatter_add",
        "scatter_set",
        "scatter_max",
        "scatter_min",
        "scatter_multiply",
        "segment_recurrence",
    )
)
"""Ops whose last operands are indices, which must lie inside their axes."""

# ------------------------------------------------------------------- combined at places


def _parts(node: Node) -> tuple[Tensor | None, Tensor, tuple[Tensor, ...]]:
    """(what it is written over, the updates, the indices)."""
    if node.attrs.over:
        return node.inputs[0], node.inputs[1], node.inputs[2:]
    return None, node.inputs[0], node.inputs[1:]


def _type(
    *operands: TensorType,
    shape: Shape,
    axes: tuple[int, ...],
    at: int,
    over: bool,
) -> TensorType:
    base, (updates, *indices) = operands[:over], operands[over:]
    index = check_indices("scatter", len(shape), indices, axes)
    whole = TensorType(updates.dtype, shape)
    if updates.shape != gathered_shape(shape, index, axes, at) or base not in (
        (),
        (whole,),
    ):
        raise InternalError(f"scatter: {operands} into {shape_text(shape)}")
    return whole


def _at_places(node: Node, x: Tensor) -> Tensor:
    """What of a tensor like the result the updates went to."""
    return gather(x, *_parts(node)[2], axes=node.attrs.axes, at=node.attrs.at)


def _summed(node: Node, updates: Tensor) -> Tensor:
    a = node.attrs
    indices = _parts(node)[2]
    return scatter_add(updates, *indices, shape=a.shape, axes=a.axes, at=a.at)


def _extreme_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """Those that are the extreme of their place share its cotangent; a NaN among them spoils it."""
    base, updates, indices = _parts(node)
    out = node.out
    beats = less if node.op is scatter_max else greater
    beaten = beats(updates, _at_places(node, out))
    wide = (
        float32 if out.dtype.bits == 16 else out.dtype
    )  # float16 can't count to 100,000
    winners = _summed(node, convert(logical_not(beaten), wide))
    lost = None
    if base is not None:
        lost = beats(base, out)
        winners = winners + convert(logical_not(lost), wide)
    each = convert(1.0 / maximum(winners, 1), out.dtype)
    share = pull(g, select(isnan(out), np.nan, each))
    bars = [select(beaten, 0, _at_places(node, share)), *[None] * len(indices)]
    return bars if lost is None else [select(lost, 0, share), *bars]


def _product_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """Each update's cotangent is the product of the others that go to its place."""
    _, updates, indices = _parts(node)
    sides = [
        segment_recurrence(
            updates,
            filled(0, updates),
            *indices,
            shape=node.attrs.shape[:1],
            axis=0,
            reverse=reverse,
            start=1.0,
        )
        for reverse in (False, True)
    ]
    others = conjugate(sides[0] * sides[1])
    return [pull(_at_places(node, g), others), *[None] * len(indices)]


def _product_type(*operands: TensorType, **attrs: Any) -> TensorType:
    """Products are of segments alone: rows at the indices of the first axis."""
    whole = _type(*operands, **attrs)
    if attrs["over"] or attrs["axes"] != (0,) or operands[-1].ndim != 1:
        raise InternalError(f"scatter_multiply: {operands} at {attrs}")
    return whole


def _scatter(
    name: str,
    ufunc: np.ufunc,
    start: Callable[[DType], Any],
    vjp: Callable[..., Sequence[Bar]],
    accepts: frozenset[str],
    doc: str,
    type: Callable[..., TensorType] = _type,
) -> Op:
    def evaluate(
        *operands: Any,
        shape: Shape,
        axes: tuple[int, ...],
        at: int,
        over: bool,
        sizes: dict[str, int],
    ) -> Any:
        updates, *indices = operands[over:]
        dtype = dtype_of(updates)
        base = operands[0] if over else None
        if base is None:
            base = np.full(numpy_shape(shape, sizes), start(dtype), dtype.name)
        rank = np.ndim(indices[0])
        places = tuple(indices)
        return arraylib._scattered(ufunc, base, updates, places, axes, at, rank)

    def text(node: Node, args: Sequence[str]) -> str:
        dtype = node.out.dtype
        base = args[0]
        if not node.attrs.over:
            value = fill_text(start(dtype))
            base = f"np.full({shape_text(node.attrs.shape)}, {value}, np.{dtype.name})"
        rest = args[1:] if node.attrs.over else args
        call = f"np.{ufunc.__name__}"
        return scatter_text("_scattered", node, rest, (call, base, rest[0]))

    def form(node: Node) -> Scatter:
        a = node.attrs
        rank = node.inputs[-1].ndim
        init = start(node.out.dtype)
        if node.out.dtype.is_integer and init != 1:
            init = -np.inf if init <= 0 else np.inf
        return Scatter(a.axes, a.at, rank, ufunc.__name__, float(init), a.over)

    return primitive(
        name,
        type=type,
        numpy=evaluate,
        derivative=Explicit(
            vjp, active=lambda node: range(2 if node.attrs.over else 1)
        ),
        form=form,
        text=text,
        accepts=accepts,
        doc=doc,
    )


scatter_max: Op = _scatter(
    "scatter_max",
    np.maximum,
    lowest,
    _extreme_vjp,
    REAL,
    "At each place of `shape` the largest of the updates whose indices it has, and of the first "
    "operand where `over`; of none the lowest value there is. Ties share the cotangent.",
)

scatter_min: Op = _scatter(
    "scatter_min",
    np.minimum,
    highest,
    _extreme_vjp,
    REAL,
    "At each place of `shape` the smallest of the updates whose indices it has, and of the first "
    "operand where `over`; of none the highest value there is. Ties share the cotangent.",
)

scatter_multiply: Op = _scatter(
    "scatter_multiply",
    np.multiply,
    lambda dtype: 1,
    _product_vjp,
    REAL | COMPLEX,
    "At each place of `shape` the product of the updates whose indices it has, 1 of none.",
    _product_type,
)


# ------------------------------------------------------------------------- recurrences


def _recurrence_type(
    factor: TensorType,
    term: TensorType,
    index: TensorType,
    *,
    shape: Shape,
    axis: int,
    reverse: bool,
    start: float,
) -> TensorType:
    if factor != term or axis != 0 or len(shape) != 1 or not factor.ndim:
        raise InternalError(f"segment_recurrence: {factor}, {term} at {axis}")
    if index != TensorType(int64, factor.shape[:1]):
        raise InternalError(f"segment_recurrence: places {index} for {factor}")
    return factor


def _recurrence_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The adjoint states run the other way, by the same factors."""
    factor, _, index = node.inputs
    attrs = {**node.attrs.as_dict(), "reverse": not node.attrs.reverse, "start": 0.0}
    back = segment_recurrence(conjugate(factor), g, index, **attrs)
    return [back * conjugate(node.out), back, None]


segment_recurrence: Op = primitive(
    "segment_recurrence",
    type=_recurrence_type,
    numpy=lambda factor, term, index, *, shape, axis, reverse, start, sizes: (
        arraylib._segment_recurrence(
            factor, term, index, numpy_shape(shape, sizes)[0], reverse, start
        )
    ),
    derivative=Explicit(_recurrence_vjp, active=(0, 1)),
    form=lambda node: Cumulate(
        "recurrence",
        node.attrs.axis,
        node.attrs.reverse,
        node.attrs.start,
        node.attrs.shape[0],
    ),
    text=lambda node, args: (
        f"_segment_recurrence({', '.join(args)}, {shape_text(node.attrs.shape)[1:-2]}, "
        f"reverse={node.attrs.reverse}, start={node.attrs.start})"
    ),
    accepts=REAL | COMPLEX,
    doc="The states of recurrences s = factor * s + term, each before its step, along axis 0 or "
    "from its end where `reverse`; there is one state from `start` for each of so many places, and "
    "the third operand tells which one steps.",
)


# --------------------------------------------------------------------- the user's segments


def _segments(
    name: str, data: TensorLike, ids: TensorLike, n: Any
) -> tuple[Tensor, Tensor, Shape]:
    """(data with one axis for those of the ids, the ids as a vector, the result's shape)."""
    t, places = as_tensor(data), as_tensor(ids)
    t = convert(t, t.dtype)
    if not places.dtype.is_integer:
        raise TypeMismatch(
            f"{name}: ids are {places.type}, not integers",
            hint="write .astype(int64) for whole numbers held as floats",
        )
    (count,) = sizes_of(n, f"{name}: n")
    rank = places.ndim
    if places.shape != t.shape[:rank]:
        raise ShapeError(
            f"{name}: the ids are {shape_text(places.shape)}, the data's first axes "
            f"{shape_text(t.shape[:rank])}",
            notes=(f"data: {t.type}", f"ids: {places.type}"),
            hint="there is an id for each element, or for each row",
        )
    rest = t.shape[rank:]
    if rank != 1:
        flat = size_of(places.shape)
        t, places = reshaped(t, (flat, *rest)), reshaped(places, (flat,))
    return t, convert(places, int64), (count, *rest)


@function("segment_sum")
def segment_sum(data: TensorLike, ids: TensorLike, n: int) -> Tensor:
    """The sum of the data of each of `n` segments; 0 for an empty one.

    `ids` tells the segment of each element of the first axes of `data`, in any order; negative
    ones count from the end.
    """
    t, places, shape = _segments("segment_sum", data, ids, n)
    t = convert(t, sum_dtype(t.dtype, None))
    return scatter_add(t, places, shape=shape, axes=(0,), at=0)


@function("segment_mean")
def segment_mean(data: TensorLike, ids: TensorLike, n: int) -> Tensor:
    """The mean of the data of each of `n` segments; 0 for an empty one. Ids as in `segment_sum`."""
    t, places, shape = _segments("segment_mean", data, ids, n)
    t = convert(t, mean_dtype(t.dtype, None))
    total = scatter_add(t, places, shape=shape, axes=(0,), at=0)
    wide = float32 if t.dtype.bits == 16 else t.dtype
    ones = broadcast_to(convert(1, wide), places.shape)
    count = scatter_add(ones, places, shape=shape[:1], axes=(0,), at=0)
    count = convert(maximum(count, 1), t.dtype)
    return divide(total, reshaped(count, (shape[0], *[1] * (len(shape) - 1))))


def _segment_function(name: str, op: Op, doc: str) -> None:
    def call(data: TensorLike, ids: TensorLike, n: int) -> Tensor:
        t, places, shape = _segments(name, data, ids, n)
        if op is scatter_multiply:
            t = convert(t, sum_dtype(t.dtype, None))
        return op(t, places, shape=shape, axes=(0,), at=0, over=False)

    call.__name__ = name
    call.__doc__ = doc
    function(name)(call)


_segment_function(
    "segment_max",
    scatter_max,
    "The largest of the data of each of `n` segments; -inf (of integers the lowest) for an empty "
    "one.\n\nIds as in `segment_sum`; ties share the cotangent.",
)
_segment_function(
    "segment_min",
    scatter_min,
    "The smallest of the data of each of `n` segments; inf (of integers the highest) for an empty "
    "one.\n\nIds as in `segment_sum`; ties share the cotangent.",
)
_segment_function(
    "segment_prod",
    scatter_multiply,
    "The product of the data of each of `n` segments; 1 for an empty one.\n\nIds as in "
    "`segment_sum`; the derivative is exact with zeros.",
)


def _index_function(
    name: str, op: Op, combine: Callable[..., Tensor], doc: str
) -> None:
    def call(x: TensorLike, idx: Key, v: TensorLike) -> Tensor:
        def change(
            old: Tensor, value: Tensor, *indices: Tensor, **attrs: Any
        ) -> Tensor:
            if not indices:
                return combine(old, value)
            return op(old, value, *indices, shape=old.shape, over=True, **attrs)

        return changed(name, x, idx, v, change)

    call.__name__ = name
    call.__doc__ = doc
    function(name)(call)


_index_function(
    "index_max",
    scatter_max,
    maximum,
    "A copy of `x` with the larger of `v` and `x[idx]` there, the largest where indices repeat.",
)
_index_function(
    "index_min",
    scatter_min,
    minimum,
    "A copy of `x` with the smaller of `v` and `x[idx]` there, the smallest where indices repeat.",
)


@function("gather_nd")
def gather_nd(x: TensorLike, indices: TensorLike, batch_dims: int = 0) -> Tensor:
    """The elements, or parts, of `x` at positions along the last axis of `indices`.

    The first `batch_dims` axes of both are the same, and so are the positions along them.
    """
    t, places = as_tensor(x), as_tensor(indices)
    if not places.dtype.is_integer:
        raise TypeMismatch(f"gather_nd: indices are {places.type}, not integers")
    depth = places.shape[-1] if places.ndim else None
    if not isinstance(depth, int):
        raise ShapeError(
            f"gather_nd: the last axis of the indices {places.type} is a position, its length "
            "must be known",
            hint="x[i, j] takes a tensor of indices for each axis",
        )
    if (
        isinstance(batch_dims, bool)
        or not isinstance(batch_dims, int)
        or not (0 <= batch_dims < places.ndim)
    ):
        raise ShapeError(
            f"gather_nd: batch_dims {batch_dims!r} of indices of rank {places.ndim}",
            code="bad-axis",
        )
    if batch_dims + depth > t.ndim:
        raise ShapeError(
            f"gather_nd: positions of {batch_dims + depth} numbers in {t.type}"
        )
    for k in range(batch_dims):
        if t.shape[k] != places.shape[k]:
            raise ShapeError(
                f"gather_nd: axis {k} of {t.type} and of the indices {places.type} differ"
            )
    shape = places.shape[:-1]
    key = [iota(shape=shape, axis=k, dtype=int64) for k in range(batch_dims)]
    for j in range(depth):
        key.append(convert(_part(places, j), int64))
    if not key:
        return broadcast_to(t, (*shape, *t.shape))
    return gather(t, *key, axes=tuple(range(len(key))), at=0)


def _part(x: Tensor, j: int) -> Tensor:
    """`x[..., j]`."""
    from gradc.ops.index import index

    return index(x, (..., j))


@function("embedding")
def embedding(table: TensorLike, ids: TensorLike) -> Tensor:
    """The row of `table` for each id: `table[ids]`."""
    t, places = as_tensor(table), as_tensor(ids)
    if not places.dtype.is_integer:
        raise TypeMismatch(
            f"embedding: ids are {places.type}, not integers",
            hint="write .astype(int64) for whole numbers held as floats",
        )
    if not t.ndim:
        raise ShapeError(f"embedding: expected a table with rows, found {t.type}")
    return gather(t, convert(places, int64), axes=(0,), at=0)

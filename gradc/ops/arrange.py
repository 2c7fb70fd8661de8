"""NumPy's functions that arrange elements: shapes, axes, joins, splits, repeats, pads, diagonals.

All are written with the ops of `shape.py`; none copies by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradc.errors import OptionError, ShapeError, TypeMismatch
from gradc.graph import Tensor
from gradc.ops.basic import broadcast as broadcast_op
from gradc.ops.basic import copy as copy_op
from gradc.ops.basic import iota, reduce_sum
from gradc.ops.functions import (
    Nested,
    TensorLike,
    apply,
    as_tensor,
    axes_of,
    axis_of,
    convert,
    function,
    number,
)
from gradc.ops.functions import broadcast_to as broadcast
from gradc.ops.shape import (
    concatenate_op,
    diagonal_op,
    dtype_from,
    embed,
    embed_diagonal,
    flip_op,
    found_text,
    permuted,
    reshaped,
    shape_of,
    sizes_of,
    slice_along,
    whole_shape,
)
from gradc.types import (
    Dim,
    DType,
    Shape,
    broadcast_shapes,
    dim_floordiv,
    dim_text,
    exact_quotient,
    int64,
    is_nonnegative,
    promote,
    shape_text,
    size_of,
    uint64,
)

# ------------------------------------------------------------------ shapes and axes


@function("reshape", method=True)
def reshape(x: TensorLike, shape: Any, *more: Any, order: str = "C") -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1."""
    t = as_tensor(x)
    if order != "C":
        raise TypeMismatch(
            f"reshape: order must be 'C', found {order!r}", hint="transpose first"
        )
    listed = shape_of((shape, *more) if more else shape)
    return reshaped(t, whole_shape(t.shape, listed))


@function("transpose", "permute_dims", method=True)
def transpose(x: TensorLike, axes: Any = None, *more: Any) -> Tensor:
    """The axes in another order: reversed, or as `axes` lists them."""
    t = as_tensor(x)
    if more:
        axes = (axes, *more)
    if axes is None:
        perm = tuple(reversed(range(t.ndim)))
    else:
        listed = axes if isinstance(axes, tuple | list) else (axes,)
        perm = tuple(axis_of(a, t.ndim) for a in listed)
        if sorted(perm) != list(range(t.ndim)):
            raise ShapeError(
                f"transpose: axes {tuple(listed)} are no order of the {t.ndim} axes of "
                f"{shape_text(t.shape)}",
                code="bad-axis",
            )
    return permuted(t, perm)


@function("ravel", method=True)
def ravel(x: TensorLike, order: str = "C") -> Tensor:
    """All elements in row-major order, as one axis."""
    return reshape(x, (-1,), order=order) if as_tensor(x).ndim else reshape(x, (1,))


@function("flatten", method=True)
def flatten(x: TensorLike, order: str = "C") -> Tensor:
    """All elements in row-major order, as one axis."""
    return ravel(x, order)


@function("swapaxes", method=True)
def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    t = as_tensor(x)
    a, b = axis_of(axis1, t.ndim), axis_of(axis2, t.ndim)
    perm = list(range(t.ndim))
    perm[a], perm[b] = b, a
    return permuted(t, perm)


@function("matrix_transpose")
def matrix_transpose(x: TensorLike) -> Tensor:
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


@function("moveaxis")
def moveaxis(
    x: TensorLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> Tensor:
    """Axes moved to other positions; the others keep their order."""
    t = as_tensor(x)
    sources, targets = (
        [axis_of(a, t.ndim) for a in _axis_list(listed)]
        for listed in (source, destination)
    )
    if len(sources) != len(targets):
        raise ShapeError(
            f"moveaxis: {len(sources)} axes for {len(targets)} positions",
            code="bad-axis",
        )
    if len(set(sources)) < len(sources) or len(set(targets)) < len(targets):
        raise ShapeError("moveaxis: an axis is named twice", code="bad-axis")
    perm = [k for k in range(t.ndim) if k not in sources]
    for target, k in sorted(zip(targets, sources, strict=True)):
        perm.insert(target, k)
    return permuted(t, perm)


@function("rollaxis")
def rollaxis(x: TensorLike, axis: int, start: int = 0) -> Tensor:
    """An axis rolled back until it lies before position `start`."""
    t = as_tensor(x)
    k = axis_of(axis, t.ndim)
    if not -t.ndim <= start <= t.ndim:
        raise ShapeError(f"rollaxis: start {start} is out of bounds", code="bad-axis")
    target = start + t.ndim if start < 0 else start
    return moveaxis(t, k, target - (k < target))


def _axis_list(axis: Any) -> list[Any]:
    return list(axis) if isinstance(axis, tuple | list) else [axis]


@function("expand_dims")
def expand_dims(x: TensorLike, axis: int | tuple[int, ...]) -> Tensor:
    """New axes of length 1 at these positions of the result."""
    t = as_tensor(x)
    listed = _axis_list(axis)
    ndim = t.ndim + len(listed)
    new = {axis_of(a, ndim) for a in listed}
    if len(new) < len(listed):
        raise ShapeError(
            f"expand_dims: axis {axis} names an axis twice", code="bad-axis"
        )
    dims = iter(t.shape)
    return reshaped(t, tuple(1 if k in new else next(dims) for k in range(ndim)))


@function("squeeze", method=True)
def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Without the axes of length 1: all of them, or those named."""
    t = as_tensor(x)
    if axis is None:
        gone = {k for k, d in enumerate(t.shape) if d == 1}
    else:
        gone = {axis_of(a, t.ndim) for a in _axis_list(axis)}
    for k in sorted(gone):
        if t.shape[k] != 1:
            raise ShapeError(
                f"squeeze: axis {k} of {shape_text(t.shape)} has length "
                f"{dim_text(t.shape[k])}, not 1"
            )
    return reshaped(t, tuple(d for k, d in enumerate(t.shape) if k not in gone))


@function("broadcast_to")
def broadcast_to(x: TensorLike, shape: Any) -> Tensor:
    """The tensor repeated to this shape by NumPy's broadcasting."""
    return broadcast(as_tensor(x), sizes_of(shape))


@function("broadcast_arrays")
def broadcast_arrays(*xs: TensorLike) -> tuple[Tensor, ...]:
    """The tensors broadcast to their common shape, each in its own dtype."""
    tensors = [as_tensor(x) for x in xs]
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast(t, shape) for t in tensors)


def _at_least(rank: int, xs: Sequence[TensorLike]) -> Tensor | tuple[Tensor, ...]:
    found = []
    for x in xs:
        t = as_tensor(x)
        if t.ndim < rank:
            front = {0: rank, 1: min(rank - 1, 1), 2: 0}[t.ndim]
            back = rank - t.ndim - front
            t = reshaped(t, (*[1] * front, *t.shape, *[1] * back))
        found.append(t)
    return found[0] if len(found) == 1 else tuple(found)


@function("atleast_1d")
def atleast_1d(*xs: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """The tensors with at least one axis."""
    return _at_least(1, xs)


@function("atleast_2d")
def atleast_2d(*xs: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """The tensors with at least two axes; a vector becomes a row."""
    return _at_least(2, xs)


@function("atleast_3d")
def atleast_3d(*xs: TensorLike) -> Tensor | tuple[Tensor, ...]:
    """The tensors with at least three axes; a vector becomes `(1, N, 1)`."""
    return _at_least(3, xs)


def _ranked(rank: int, x: TensorLike) -> Tensor:
    found = _at_least(rank, [x])
    assert isinstance(found, Tensor)
    return found


@function("astype", method=True)
def astype(x: TensorLike, dtype: Any) -> Tensor:
    """The values in another dtype."""
    return convert(as_tensor(x), dtype_from(dtype))


@function("copy", method=True)
def copy(x: TensorLike) -> Tensor:
    """The same values as a new tensor."""
    t = as_tensor(x)
    return copy_op(convert(t, t.dtype))


@function("shape")
def shape(x: TensorLike) -> Shape:
    """The dimensions of a tensor, as compile-time values."""
    return as_tensor(x).shape


@function("ndim")
def ndim(x: TensorLike) -> int:
    """The number of axes."""
    return as_tensor(x).ndim


@function("size")
def size(x: TensorLike, axis: int | None = None) -> Dim:
    """The number of elements, or the length of one axis, as a compile-time value."""
    t = as_tensor(x)
    return size_of(t.shape) if axis is None else t.shape[axis_of(axis, t.ndim)]


# --------------------------------------------------------------- functions: joins


@function("concatenate", "concat")
def concatenate(
    arrays: Sequence[TensorLike], axis: int | None = 0, dtype: Any = None
) -> Tensor:
    """Tensors one behind the other along an axis; None joins them as they are raveled."""
    return _joined("concatenate", [as_tensor(x) for x in arrays], axis, dtype)


def _joined(
    name: str, xs: Sequence[Tensor], axis: int | None, dtype: Any = None
) -> Tensor:
    if not xs:
        raise ShapeError(f"{name}: there is nothing to join")
    target = promote([x.type for x in xs])[0] if dtype is None else dtype_from(dtype)
    tensors = [convert(x, target) for x in xs]
    if axis is None:
        tensors, axis = [ravel(t) for t in tensors], 0
    first = tensors[0]
    if not first.ndim:
        raise ShapeError(
            f"{name}: numbers have no axis to be joined along",
            hint="stack([a, b]) makes a vector of numbers",
        )
    k = axis_of(axis, first.ndim)
    for t in tensors[1:]:
        if t.ndim != first.ndim:
            raise ShapeError(
                f"{name}: ranks differ: {shape_text(first.shape)} and {shape_text(t.shape)}"
            )
        for i, (a, b) in enumerate(zip(first.shape, t.shape, strict=True)):
            if i != k and a != b:
                raise ShapeError(
                    f"{name}: sizes differ along axis {i}: {dim_text(a)} and {dim_text(b)}",
                    hint=""
                    if isinstance(a, int) and isinstance(b, int)
                    else f"where they are the same, write: assert {dim_text(a)} == {dim_text(b)}",
                )
    return tensors[0] if len(tensors) == 1 else concatenate_op(*tensors, axis=k)


@function("stack")
def stack(arrays: Sequence[TensorLike], axis: int = 0, dtype: Any = None) -> Tensor:
    """Tensors of one shape side by side along a new axis."""
    tensors = [as_tensor(x) for x in arrays]
    if not tensors:
        raise ShapeError("stack: there is nothing to stack")
    first = tensors[0]
    for t in tensors[1:]:
        if t.shape != first.shape:
            raise ShapeError(
                f"stack: shapes differ: {shape_text(first.shape)} and {shape_text(t.shape)}"
            )
    k = axis_of(axis, first.ndim + 1)
    return _joined("stack", [expand_dims(t, k) for t in tensors], k, dtype)


@function("vstack", "row_stack")
def vstack(arrays: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 0; vectors are rows."""
    return _joined("vstack", [_ranked(2, x) for x in arrays], 0)


@function("hstack")
def hstack(arrays: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 1; vectors along axis 0."""
    tensors = [_ranked(1, x) for x in arrays]
    return _joined("hstack", tensors, 0 if tensors and tensors[0].ndim == 1 else 1)


@function("dstack")
def dstack(arrays: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 2."""
    return _joined("dstack", [_ranked(3, x) for x in arrays], 2)


@function("column_stack")
def column_stack(arrays: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 1; vectors are columns."""
    tensors = [_ranked(1, x) for x in arrays]
    columns = [expand_dims(t, 1) if t.ndim == 1 else t for t in tensors]
    return _joined("column_stack", columns, 1)


@function("block")
def block(arrays: Nested) -> Tensor:
    """A tensor put together from blocks in nested lists: the innermost join along the last axis."""
    depth = nested_depth(arrays)
    if depth < 0:
        raise ShapeError(
            f"block: lists are nested to different depths, or deeper than {MAX_RANK}"
        )
    ranks = [as_tensor(x).ndim for x in nested_leaves(arrays)]
    return _block(arrays, depth, max([depth, *ranks]))


MAX_RANK = 64
"""NumPy's limit for the number of axes."""


def nested_depth(value: Any) -> int:
    """How deep the lists are nested; -1 where they are so to different depths."""
    depth, level = 0, [value]
    while any(isinstance(item, list | tuple) for item in level):
        if depth == MAX_RANK or not all(isinstance(v, list | tuple) for v in level):
            return -1
        depth, level = depth + 1, [item for v in level for item in v]
    return depth


def nested_leaves(value: Any) -> list[Any]:
    """The values in nested lists, in reading order."""
    found, waiting = [], [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list | tuple):
            waiting += reversed(item)
        else:
            found.append(item)
    return found


def _block(value: Any, depth: int, rank: int) -> Tensor:
    if not isinstance(value, list | tuple):
        t = as_tensor(value)
        return reshaped(t, (*[1] * (rank - t.ndim), *t.shape))
    parts = [_block(item, depth - 1, rank) for item in value]
    return _joined("block", parts, rank - depth)


@function("append")
def append(x: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """`values` behind `x` along an axis; None ravels both."""
    return _joined("append", [as_tensor(x), as_tensor(values)], axis)


# -------------------------------------------------------------- functions: splits


MAX_PARTS = 10_000
"""Each part is a tensor of its own."""


@function("split")
def split(x: TensorLike, indices_or_sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts along an axis: so many equal ones, or cut at the positions listed."""
    return _split("split", x, indices_or_sections, axis)


@function("array_split")
def array_split(
    x: TensorLike, indices_or_sections: Any, axis: int = 0
) -> tuple[Tensor, ...]:
    """Parts along an axis; where the number of parts does not divide it, the first are longer."""
    return _split("array_split", x, indices_or_sections, axis)


@function("vsplit")
def vsplit(x: TensorLike, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along axis 0."""
    return _split("vsplit", x, indices_or_sections, 0, least=2)


@function("hsplit")
def hsplit(x: TensorLike, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along axis 1, or along axis 0 of a vector."""
    along = 0 if as_tensor(x).ndim == 1 else 1
    return _split("hsplit", x, indices_or_sections, along)


@function("dsplit")
def dsplit(x: TensorLike, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along axis 2."""
    return _split("dsplit", x, indices_or_sections, 2, least=3)


def _split(
    name: str, x: TensorLike, sections: Any, axis: int, least: int = 1
) -> tuple[Tensor, ...]:
    t = as_tensor(x)
    if t.ndim < least:
        raise ShapeError(f"{name}: a tensor of rank {t.ndim}, expected {least} or more")
    k = axis_of(axis, t.ndim)
    d = t.shape[k]
    if isinstance(sections, tuple | list):
        cuts = [_cut(c, d) for c in shape_of(sections, f"{name}: positions")]
        bounds: list[Dim] = [0, *cuts, d]
    else:
        (n,) = shape_of(sections, f"{name}: the number of parts")
        if not isinstance(n, int) or not 0 < n <= MAX_PARTS:
            raise ShapeError(
                f"{name}: the number of parts must be an int from 1 to {MAX_PARTS}, found {n}",
                hint="reshape to a new axis of that length and index it",
            )
        if name != "array_split" and exact_quotient(d, n) is None:
            raise ShapeError(
                f"{name}: {n} equal parts of an axis of length {dim_text(d)}",
                hint="array_split takes any number of parts"
                if isinstance(d, int)
                else f"declare the axis as {n} * M, or use array_split",
            )
        bounds = [0]
        for i in range(n - 1):
            bounds.append(bounds[-1] + dim_floordiv(d + (n - 1 - i), n))
        bounds.append(d)
    return tuple(
        slice_along(t, k, a, a if _below(b, a) else b) for a, b in pairwise(bounds)
    )


def _cut(c: Dim, d: Dim) -> Dim:
    """A position to cut at, as a slice would take it."""
    if isinstance(c, int) and c < 0:
        c = d + c
    if is_nonnegative(-c):
        return 0
    return d if is_nonnegative(c - d) else c


def _below(a: Dim, b: Dim) -> bool:
    """True where a < b for all sizes."""
    return is_nonnegative(b - a - 1)


# --------------------------------------------------- functions: orders and repeats


@function("flip")
def flip(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements of an axis, of several or of all, in reverse order."""
    t = as_tensor(x)
    axes = axes_of(axis, t.ndim)
    return flip_op(t, axes=axes) if axes else t


@function("fliplr")
def fliplr(x: TensorLike) -> Tensor:
    """The columns in reverse order."""
    return flip(x, 1)


@function("flipud")
def flipud(x: TensorLike) -> Tensor:
    """The rows in reverse order."""
    return flip(x, 0)


@function("roll")
def roll(
    x: TensorLike, shift: Any, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """The elements moved on by `shift` along an axis, those that leave it coming in again.

    On an axis of symbolic length the call checks that it is at least as long as the shift.
    """
    t = as_tensor(x)
    if axis is None:
        return reshaped(roll(ravel(t), shift, 0), t.shape)
    shifts, axes = shape_of(shift, "roll: shift"), _axis_list(axis)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    count = max(len(shifts), len(axes))
    for s, a in zip(
        shifts * (count // len(shifts)), axes * (count // len(axes)), strict=True
    ):
        t = _rolled(t, s, axis_of(a, t.ndim))
    return t


def _rolled(x: Tensor, shift: Dim, axis: int) -> Tensor:
    d = x.shape[axis]
    if isinstance(d, int) and isinstance(shift, int):
        shift = shift % d if d else 0
    if shift in (0, d):
        return x
    cut = -shift if isinstance(shift, int) and shift < 0 else d - shift
    parts = [slice_along(x, axis, cut), slice_along(x, axis, 0, cut)]
    return concatenate_op(*parts, axis=axis)


@function("rot90")
def rot90(x: TensorLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """A quarter turn, `k` times, from the first of the two axes towards the second."""
    t = as_tensor(x)
    a, b = (axis_of(n, t.ndim) for n in axes)
    if a == b:
        raise ShapeError("rot90: the two axes must differ", code="bad-axis")
    turns = k % 4
    if turns == 0:
        return t
    if turns == 2:
        return flip(t, (a, b))
    return swapaxes(flip(t, b), a, b) if turns == 1 else flip(swapaxes(t, a, b), b)


@function("repeat", method=True)
def repeat(x: TensorLike, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element several times: the same number of times, or a number an element."""
    t = as_tensor(x)
    if axis is None:
        t, axis = ravel(t), 0
    k = axis_of(axis, t.ndim)
    if isinstance(repeats, np.ndarray):
        repeats = repeats.tolist()
    counts = sizes_of(repeats, "repeat: repeats")
    d = t.shape[k]
    if len(counts) == 1:
        (n,) = counts
        if n == 1:
            return t
        wide = (*t.shape[: k + 1], n, *t.shape[k + 1 :])
        spread = broadcast_op(t, shape=wide, along=(k + 1,))
        return reshaped(spread, (*t.shape[:k], d * n, *t.shape[k + 1 :]))
    if len(counts) != d:
        raise ShapeError(
            f"repeat: {len(counts)} numbers for an axis of length {dim_text(d)}"
        )
    if not all(isinstance(n, int) for n in counts):
        raise ShapeError(
            "repeat: a list of repeats must be of ints",
            hint="concatenate pieces that are repeated one by one",
        )
    numbers = [int(n) for n in counts if isinstance(n, int)]
    if sum(numbers) > MAX_PLACES:
        parts = [slice_along(t, k, i, i + 1) for i in range(len(numbers))]
        pieces = [repeat(part, n, k) for part, n in zip(parts, numbers, strict=True)]
        return _joined("repeat", pieces, k)
    return _picked(t, np.repeat(np.arange(d), numbers), k)


MAX_PLACES = 1 << 20
"""Places known at compile time are a constant of the module up to so many."""


def _picked(x: Tensor, places: Any, axis: int) -> Tensor:
    """`x` at positions of an axis that are known when the graph is compiled."""
    from gradc.ops.index import gather
    from gradc.ops.keys import index_constant

    return gather(x, index_constant(places), axes=(axis,), at=axis)


@function("tile")
def tile(x: TensorLike, reps: Any) -> Tensor:
    """The whole tensor repeated along each axis; a shorter list of repeats counts for the last."""
    t = as_tensor(x)
    counts = sizes_of(reps, "tile: reps")
    rank = max(len(counts), t.ndim)
    counts = (*[1] * (rank - len(counts)), *counts)
    t = reshaped(t, (*[1] * (rank - t.ndim), *t.shape))
    whole = tuple(n * d for n, d in zip(counts, t.shape, strict=True))
    wide: list[Dim] = []
    along: list[int] = []
    for n, d in zip(counts, t.shape, strict=True):
        if n != 1:
            along.append(len(wide))
            wide.append(n)
        wide.append(d)
    if along:
        t = broadcast_op(t, shape=tuple(wide), along=tuple(along))
    return reshaped(t, whole)


# ---------------------------------------------------------------- functions: pad

PAD_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@function("pad")
def pad(
    x: TensorLike,
    pad_width: Any,
    mode: str = "constant",
    constant_values: Nested = 0,
) -> Tensor:
    """Elements put in before and behind along each axis: a constant, or taken from the tensor.

    Modes are `constant`, `edge`, `reflect`, `symmetric` and `wrap`. On an axis of symbolic length
    the call checks that it is long enough to be reflected or wrapped once.
    """
    t = as_tensor(x)
    if mode not in PAD_MODES:
        raise OptionError(
            f"pad: expected a mode of {', '.join(PAD_MODES)}, found {mode!r}"
        )
    widths = _pairs("pad: pad_width", pad_width, t.ndim)
    for pair in widths:
        sizes_of(pair, "pad: pad_width")
    if mode == "constant":
        return _pad_constant(t, widths, constant_values)
    for k, (before, after) in enumerate(widths):
        if (before, after) != (0, 0):
            t = _pad_copied(t, k, before, after, mode)
    return t


def _pairs(what: str, value: Any, rank: int) -> list[tuple[Any, Any]]:
    """NumPy's ways to give a value before and behind each axis: `v`, `(v,)`, `(a, b)`,
    `((a, b),)`, `((a, b), (c, d), ...)`."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, tuple | list):
        return [(value, value)] * rank
    if not any(isinstance(v, tuple | list) for v in value):
        if len(value) == 1:
            return [(value[0], value[0])] * rank
        if len(value) == 2:
            return [(value[0], value[1])] * rank
    elif len(value) in (1, rank):
        pairs = []
        for v in value:
            both = list(v) if isinstance(v, tuple | list) else [v]
            if len(both) not in (1, 2):
                break
            pairs.append((both[0], both[-1]))
        else:
            return pairs * (rank if len(value) == 1 else 1)
    raise ShapeError(
        f"{what}: expected a number, a pair, or a pair for each of {rank} axes"
    )


def _pad_constant(x: Tensor, widths: Sequence[tuple[Dim, Dim]], values: Any) -> Tensor:
    pairs = _pairs("pad: constant_values", values, x.ndim)
    kinds = (bool, int, float, np.bool_, np.integer, np.floating)
    numbers = [v for pair in pairs for v in pair]
    if not x.dtype.is_complex and all(isinstance(v, kinds) for v in numbers):
        fills = {np.asarray(v).astype(x.dtype.name).item() for v in numbers}
        if len(fills) == 1 and not x.dtype.is_bool:
            return _surrounded(x, widths, fills.pop())
    for k, ((before, after), (low, high)) in enumerate(zip(widths, pairs, strict=True)):
        parts = [x]
        if before != 0:
            parts.insert(0, _filled(x, k, before, low))
        if after != 0:
            parts.append(_filled(x, k, after, high))
        if len(parts) > 1:
            x = concatenate_op(*parts, axis=k)
    return x


def _surrounded(
    x: Tensor, widths: Sequence[tuple[Dim, Dim]], fill: float = 0
) -> Tensor:
    """`x` with a constant before and behind it."""
    if all(pair == (0, 0) for pair in widths):
        return x
    sides = zip(x.shape, widths, strict=True)
    extra = {} if fill == 0 else {"fill": fill}
    return embed(
        x,
        shape=tuple(a + d + b for d, (a, b) in sides),
        start=tuple(a for a, _ in widths),
        step=(1,) * x.ndim,
        **extra,
    )


def _filled(x: Tensor, axis: int, width: Dim, value: TensorLike) -> Tensor:
    """A piece that fits `x` along an axis, of one value."""
    whole = tuple(width if k == axis else d for k, d in enumerate(x.shape))
    return broadcast(convert(value, x.dtype), whole)


def _pad_copied(x: Tensor, axis: int, before: Dim, after: Dim, mode: str) -> Tensor:
    d = x.shape[axis]
    if d == 0:
        raise ShapeError(
            f"pad: axis {axis} is empty, there is nothing to take in mode {mode!r}",
            hint="mode 'constant' pads empty axes",
        )
    inner = 1 if mode == "reflect" else 0
    lengths = [n for n in (d, before, after) if isinstance(n, int)]
    if mode != "edge" and len(lengths) == 3 and max(lengths[1:]) > lengths[0] - inner:
        return _pad_around(x, axis, mode, *lengths)
    parts = []
    for width, is_front in ((before, True), (after, False)):
        if width == 0:
            continue
        if mode == "edge":
            at = 0 if is_front else d - 1
            one = slice_along(x, axis, at, at + 1)
            whole = tuple(width if k == axis else n for k, n in enumerate(x.shape))
            parts.append(broadcast(one, whole))
        elif mode == "wrap":
            taken = (d - width, d) if is_front else (0, width)
            parts.append(slice_along(x, axis, *taken))
        else:
            start = inner if is_front else d - inner - width
            piece = slice_along(x, axis, start, start + width)
            parts.append(flip_op(piece, axes=(axis,)))
    parts.insert(0 if before == 0 else 1, x)
    return concatenate_op(*parts, axis=axis) if len(parts) > 1 else x


def _pad_around(
    x: Tensor, axis: int, mode: str, length: int, before: int, after: int
) -> Tensor:
    """A pad that goes through the axis more than once: a gather at computed places."""
    from gradc.ops.index import gather

    period = {"wrap": length, "symmetric": 2 * length, "reflect": 2 * length - 2}[mode]
    place = iota(shape=(before + length + after,), axis=0, dtype=int64)
    place = apply("remainder", place - before, max(period, 1))
    if mode != "wrap":
        back = (period if mode == "reflect" else period - 1) - place
        place = apply("minimum", place, back)
    return gather(x, place, axes=(axis,), at=axis)


# ---------------------------------------------------- functions: diagonals, triangles


@function("diagonal", method=True)
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """A diagonal of two axes, as the last axis."""
    t = _of_rank("diagonal", as_tensor(x), 2)
    a, b = axis_of(axis1, t.ndim), axis_of(axis2, t.ndim)
    if a == b:
        raise ShapeError("diagonal: the two axes must differ", code="bad-axis")
    rest = [k for k in range(t.ndim) if k not in (a, b)]
    return diagonal_op(permuted(t, (*rest, a, b)), offset=_offset(offset))


def _of_rank(name: str, x: Tensor, least: int) -> Tensor:
    if x.ndim < least:
        raise ShapeError(
            f"{name}: expected a tensor of rank {least} or more, found {x.type}"
        )
    return x


def _offset(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer):
        raise TypeMismatch(
            f"the number of a diagonal must be an int, found {found_text(k)}"
        )
    return int(k)


@function("diag")
def diag(v: TensorLike, k: int = 0) -> Tensor:
    """The matrix with a vector as diagonal, or the diagonal of a matrix."""
    t = as_tensor(v)
    if t.ndim == 2:
        return diagonal(t, k)
    if t.ndim != 1:
        raise ShapeError(
            f"diag: expected a vector or a matrix, found {t.type}",
            hint="diagonal(x, axis1=-2, axis2=-1) takes any rank",
        )
    n = t.shape[0] + abs(_offset(k))
    return embed_diagonal(t, shape=(n, n), offset=_offset(k))


@function("diagflat")
def diagflat(v: TensorLike, k: int = 0) -> Tensor:
    """The matrix that has all elements, in row-major order, as its diagonal."""
    return diag(ravel(v), k)


@function("trace", method=True)
def trace(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sum of a diagonal of two axes."""
    t = diagonal(x, offset, axis1, axis2)
    if not t.dtype.is_inexact:
        t = convert(t, sum_dtype(t.dtype))
    return reduce_sum(t, axes=(t.ndim - 1,))


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy sums: int64 (uint64) for narrower integers."""
    if dtype.kind == "b" or (dtype.kind == "i" and dtype.bits < 64):
        return int64
    return uint64 if dtype.kind == "u" else dtype


def band(rows: Dim, columns: Dim, k: int) -> Tensor:
    """A bool matrix: True on diagonal `k` and below it."""
    both = (rows, columns)
    i, j = (iota(shape=both, axis=axis, dtype=int64) for axis in (0, 1))
    if k == -1:
        below = apply("greater", i, j)
    elif isinstance(k, int) and k < 0:
        below = apply("greater_equal", i, j + -k)
    else:
        below = apply("greater_equal", i, j - k if k else j)
    assert isinstance(below, Tensor)
    return below


@function("tril")
def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The lower triangle of the last two axes: zeros above diagonal `k`."""
    t = _of_rank("tril", as_tensor(x), 1)
    if t.ndim == 1:  # NumPy repeats a vector as the rows of a square
        t = broadcast(t, (t.shape[0], t.shape[0]))
    return _masked(t, band(t.shape[-2], t.shape[-1], _offset(k)), True)


@function("triu")
def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The upper triangle of the last two axes: zeros below diagonal `k`."""
    t = _of_rank("triu", as_tensor(x), 1)
    if t.ndim == 1:
        t = broadcast(t, (t.shape[0], t.shape[0]))
    return _masked(t, band(t.shape[-2], t.shape[-1], _offset(k) - 1), False)


def _masked(x: Tensor, mask: Tensor, keep: bool) -> Tensor:
    zero = number(False if x.dtype.is_bool else 0, x.dtype)
    result = apply("where", mask, x, zero) if keep else apply("where", mask, zero, x)
    assert isinstance(result, Tensor)
    return result

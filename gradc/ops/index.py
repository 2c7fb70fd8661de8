"""Indexing by integer tensors: gather, its transpose, and NumPy's brackets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops.basic import broadcast, constant, iota, numpy_shape, reshape
from gradc.ops.basic import zeros as zeros_of
from gradc.ops.functions import (
    Key,
    Nested,
    TensorLike,
    apply,
    as_tensor,
    axis_of,
    broadcast_to,
    convert,
    function,
    number,
)
from gradc.ops.keys import (
    Selection,
    checked_indices,
    index_constant,
    key_item,
    not_an_index,
    select,
)
from gradc.ops.loops import Gather, Scatter
from gradc.ops.registry import Op, linear
from gradc.ops.shape import (
    embed,
    flip_op,
    reshaped,
    slice_op,
    update_slice,
)
from gradc.types import (
    Dim,
    DType,
    Poly,
    Shape,
    TensorType,
    broadcast_shapes,
    int64,
    shape_text,
)

__all__ = [
    "gather",
    "index",
    "index_add",
    "index_update",
    "scatter_add",
    "scatter_set",
]

# --------------------------------------------------------------------- the ops


def gathered_shape(
    shape: Shape, index: Shape, axes: Sequence[int], at: int
) -> tuple[Dim, ...]:
    """The shape of a gather: the axes that are not indexed, with the index's shape at `at`."""
    free = [d for k, d in enumerate(shape) if k not in axes]
    return (*free[:at], *index, *free[at:])


def check_indices(
    name: str, ndim: int, indices: Sequence[TensorType], axes: Any
) -> Shape:
    good = (
        len(indices) == len(axes) > 0
        and sorted(set(axes)) == list(axes)
        and axes[-1] < ndim
        and all(i.dtype == int64 and i.shape == indices[0].shape for i in indices)
    )
    if not good:
        raise InternalError(f"{name}: indices {indices} for axes {axes} of {ndim}")
    return indices[0].shape


def _gather_type(
    x: TensorType, *indices: TensorType, axes: tuple[int, ...], at: int
) -> TensorType:
    index = check_indices("gather", x.ndim, indices, axes)
    return x.with_shape(gathered_shape(x.shape, index, axes, at))


def _moved(x: Any, axes: Sequence[int]) -> Any:
    """A view of `x` with `axes` in front."""
    return np.moveaxis(x, tuple(axes), tuple(range(len(axes))))


def _settled(moved: Any, rank: int, at: int) -> Any:
    """A gather by NumPy, which has the index's axes in front, with them at `at`."""
    return np.moveaxis(moved, tuple(range(rank)), tuple(range(at, at + rank)))


def _fronted(updates: Any, rank: int, at: int) -> Any:
    """The inverse of `_settled`."""
    return np.moveaxis(updates, tuple(range(at, at + rank)), tuple(range(rank)))


def _numpy_gather(x: Any, *indices: Any, axes: Sequence[int], at: int) -> Any:
    taken = _moved(x, axes)[tuple(indices)]
    return np.array(_settled(taken, np.ndim(indices[0]), at), order="C")


def _gather_text(node: Node, args: Sequence[str]) -> str:
    axes, at = node.attrs.axes, node.attrs.at
    rank = node.inputs[1].ndim
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    stands = axes[0] if adjacent else 0
    picks = dict(zip(axes, args[1:], strict=True))
    key = ", ".join(picks.get(k, ":") for k in range(axes[-1] + 1))
    text = f"{args[0]}[{key}]"
    if stands == at or rank == 0:
        return text
    source, target = range(stands, stands + rank), range(at, at + rank)
    if rank == 1:
        return f"np.moveaxis({text}, {source[0]}, {target[0]})"
    return f"np.moveaxis({text}, {tuple(source)}, {tuple(target)})"


gather: Op = linear(
    "gather",
    type=_gather_type,
    numpy=_numpy_gather,
    transpose=lambda out_bar, x, *indices, axes, at: [
        scatter_add(out_bar, *indices, shape=x.shape, axes=axes, at=at),
        *[None] * len(indices),
    ],
    form=lambda node: Gather(node.attrs.axes, node.attrs.at, node.inputs[1].ndim),
    text=_gather_text,
    doc="`x` at integer indices of some axes; negative ones wrap, others outside are an error.",
)


def _scatter_add_type(
    updates: TensorType,
    *indices: TensorType,
    shape: Shape,
    axes: tuple[int, ...],
    at: int,
) -> TensorType:
    index = check_indices("scatter_add", len(shape), indices, axes)
    if updates.shape != gathered_shape(shape, index, axes, at):
        raise InternalError(f"scatter_add: {updates} into {shape_text(shape)}")
    return updates.with_shape(shape)


def _numpy_scatter_add(
    updates: Any,
    *indices: Any,
    shape: Shape,
    axes: Sequence[int],
    at: int,
    sizes: dict[str, int],
) -> Any:
    out = np.zeros(numpy_shape(shape, sizes), np.asarray(updates).dtype)
    rank = np.ndim(indices[0])
    np.add.at(_moved(out, axes), tuple(indices), _fronted(updates, rank, at))
    return out


def scatter_text(name: str, node: Node, args: Sequence[str], first: Any) -> str:
    axes, at, rank = node.attrs.axes, node.attrs.at, node.inputs[-1].ndim
    listed = ", ".join(args[-len(axes) :])
    tail = "," if len(axes) == 1 else ""
    return f"{name}({', '.join(first)}, ({listed}{tail}), {axes}, {at}, {rank})"


scatter_add: Op = linear(
    "scatter_add",
    type=_scatter_add_type,
    numpy=_numpy_scatter_add,
    transpose=lambda out_bar, updates, *indices, shape, axes, at: [
        gather(out_bar, *indices, axes=axes, at=at),
        *[None] * len(indices),
    ],
    form=lambda node: Scatter(
        node.attrs.axes, node.attrs.at, node.inputs[1].ndim, "add"
    ),
    text=lambda node, args: scatter_text(
        "_scatter_add", node, args, (shape_text(node.attrs.shape), args[0])
    ),
    doc="Zeros of `shape` with the updates added at the indices; repeated ones add up.",
)


def _scatter_set_type(
    x: TensorType,
    updates: TensorType,
    *indices: TensorType,
    axes: tuple[int, ...],
    at: int,
) -> TensorType:
    index = check_indices("scatter_set", x.ndim, indices, axes)
    if updates.shape != gathered_shape(x.shape, index, axes, at):
        raise InternalError(f"scatter_set: {updates} into {x}")
    return x.with_shape(x.shape)


def _numpy_scatter_set(
    x: Any, updates: Any, *indices: Any, axes: Sequence[int], at: int
) -> Any:
    out = np.array(x)
    rank = np.ndim(indices[0])
    _moved(out, axes)[tuple(indices)] = _fronted(updates, rank, at)
    return out


def _scatter_set_transpose(
    out_bar: Tensor,
    x: Tensor,
    updates: Tensor,
    *indices: Tensor,
    axes: tuple[int, ...],
    at: int,
) -> list[Tensor | None]:
    taken = gather(out_bar, *indices, axes=axes, at=at)
    if not _are_distinct(indices):
        taken = _where_last(taken, x.shape, indices, axes, at)
    cleared = scatter_set(out_bar, zeros_of(updates.type), *indices, axes=axes, at=at)
    return [cleared, taken, *[None] * len(indices)]


def _are_distinct(indices: Sequence[Tensor]) -> bool:
    """True where no place is indexed twice, for all that is known."""
    if indices[0].type.size in (0, 1):
        return True
    if any(i.op is not constant for i in indices):
        return False
    rows = np.stack([i.attrs.value.array.ravel() for i in indices], axis=1)
    return bool(rows.min() >= 0) and len(np.unique(rows, axis=0)) == len(rows)


def _where_last(
    taken: Tensor,
    shape: Shape,
    indices: Sequence[Tensor],
    axes: Sequence[int],
    at: int,
) -> Tensor:
    """`taken` where the index is the last one of its place, 0 elsewhere.

    Of repeated indices the last update stands: each update writes its number, and the one that
    reads its own number back is the one that stood.
    """
    index = indices[0].shape
    count = indices[0].type.size
    numbers = reshape(iota(shape=(count,), axis=0, dtype=int64), shape=index)
    every = tuple(range(len(axes)))
    board = zeros_of(TensorType(int64, tuple(shape[k] for k in axes)))
    board = scatter_set(board, numbers, *indices, axes=every, at=0)
    read = gather(board, *indices, axes=every, at=0)
    mask = apply("equal", read, numbers)
    along = tuple(k for k in range(taken.ndim) if not at <= k < at + len(index))
    mask = broadcast(mask, shape=taken.shape, along=along) if along else mask
    result = apply("where", mask, taken, 0)
    assert isinstance(result, Tensor)
    return result


scatter_set: Op = linear(
    "scatter_set",
    type=_scatter_set_type,
    numpy=_numpy_scatter_set,
    transpose=_scatter_set_transpose,
    form=lambda node: Scatter(
        node.attrs.axes, node.attrs.at, node.inputs[-1].ndim, "set", over=True
    ),
    text=lambda node, args: scatter_text("_scatter_set", node, args, args[:2]),
    doc="`x` with its elements at the indices replaced; of repeated indices the last stands.",
)


# ------------------------------------------------------------------- brackets


def _block(selection: Selection, x: Tensor) -> Tensor:
    """What slices and ints take."""
    if not selection.is_whole:
        x = slice_op(x, start=selection.start, stop=selection.stop, step=selection.step)
    if selection.flipped:
        x = flip_op(x, axes=selection.flipped)
    return reshaped(x, selection.block)


def _selected(selection: Selection, x: Tensor) -> Tensor:
    """`x[key]`."""
    x = _block(selection, x)
    if selection.indices:
        x = gather(x, *selection.indices.values(), **selection.gathering)
    return reshaped(x, selection.result)


def _settled_value(
    selection: Selection, v: TensorLike, dtype: DType, name: str
) -> Tensor:
    """A value to be written at the key: in the dtype and the shape of the gather."""
    value = _converted(v, dtype, name)
    while value.ndim > len(selection.result) and value.shape[0] == 1:
        value = reshaped(value, value.shape[1:])
    try:
        value = broadcast_to(value, selection.result)
    except ShapeError:
        raise ShapeError(
            f"{name}: a value of shape {shape_text(value.shape)} does not fit the place, "
            f"which has {shape_text(selection.result)}"
        ) from None
    return reshaped(value, selection.gathered)


def _unblocked(selection: Selection, block: Tensor) -> Tensor:
    """The inverse of dropping and reversing: a block as the slices took it."""
    block = reshaped(block, selection.sliced)
    return flip_op(block, axes=selection.flipped) if selection.flipped else block


def _converted(v: TensorLike, dtype: DType, name: str) -> Tensor:
    value = as_tensor(v)
    order = "biufc"
    kinds = order.index(value.dtype.kind), order.index(dtype.kind)
    if kinds[0] > max(kinds[1], 2 if dtype.is_integer else 0):
        raise TypeMismatch(
            f"{name}: a value of {value.dtype} does not go into a tensor of {dtype}",
            hint=f"write .astype({dtype}) behind the value, or make the tensor {value.dtype}",
        )
    return convert(v, dtype)


def index(x: TensorLike, key: Key) -> Tensor:
    """`x[key]` as in NumPy: ints, dimensions, slices, `...`, None, integer arrays, constant masks.

    The result is `x` itself where the key takes all of it.
    """
    t = as_tensor(x)
    return _selected(select(t.shape, key), t)


def changed(
    name: str,
    x: TensorLike,
    idx: Key,
    v: TensorLike,
    change: Callable[..., Tensor],
) -> Tensor:
    """A copy of `x` with `x[idx]` changed by `v`.

    `change(old, value)` gives what slices take anew; with integer indices
    `change(old, value, *indices, axes=, at=)` does, where `value` has the shape of the gather.
    """
    t = as_tensor(x)
    selection = select(t.shape, idx)
    value = _settled_value(selection, v, t.dtype, name)
    indices = selection.indices.values()
    if indices:
        block = change(_block(selection, t), value, *indices, **selection.gathering)
    else:
        old = _block(selection, t) if change is not _replaced else value
        block = change(old, value)
    block = _unblocked(selection, block)
    if selection.is_whole:
        return block
    return update_slice(t, block, start=selection.start, step=selection.step)


def _replaced(old: Tensor, value: Tensor, *indices: Tensor, **attrs: Any) -> Tensor:
    return scatter_set(old, value, *indices, **attrs) if indices else value


@function("index_update")
def index_update(x: TensorLike, idx: Key, v: TensorLike) -> Tensor:
    """A copy of `x` with `x[idx] = v`; of repeated indices the last stands."""
    return changed("index_update", x, idx, v, _replaced)


@function("index_add")
def index_add(x: TensorLike, idx: Key, v: TensorLike) -> Tensor:
    """A copy of `x` with `v` added at `x[idx]`; repeated indices add up (`np.add.at`)."""
    t = as_tensor(x)
    selection = select(t.shape, idx)
    block = _settled_value(selection, v, t.dtype, "index_add")
    if selection.indices:
        indices = selection.indices.values()
        shape = selection.block
        block = scatter_add(block, *indices, shape=shape, **selection.gathering)
    block = _unblocked(selection, block)
    if not selection.is_whole:
        block = embed(block, shape=t.shape, start=selection.start, step=selection.step)
    return t + block


@function("slice")
def slice_key(start: Any, *more: Any) -> slice:
    """A slice as a value, for the functions that take what may stand in brackets."""
    return slice(start, *more)


@function("take", method=True)
def take(
    x: TensorLike, indices: TensorLike, axis: int | None = None, mode: str = "raise"
) -> Tensor:
    """The elements (None: of the raveled tensor) at integer positions of an axis.

    Outside the axis, `raise` is an IndexError of the call, `clip` takes the nearest end, `wrap`
    counts on from the other end.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise OptionError(f"take: expected raise, clip or wrap, found mode {mode!r}")
    t = as_tensor(x)
    if axis is None:
        t, axis = reshaped(t, (t.type.size,)), 0
    k = axis_of(axis, t.ndim)
    at = key_item(indices if isinstance(indices, list) else as_tensor(indices))
    if isinstance(at, int | Poly):
        at = number(at, int64)
    elif isinstance(at, np.ndarray):
        at = index_constant(at)
    d = t.shape[k]
    at = convert(at, int64)
    if mode == "clip":
        at = apply("minimum", apply("maximum", at, 0), d - 1)
    elif mode == "wrap":
        at = apply("remainder", at, d)
    elif at.op is constant:
        at = index_constant(checked_indices(at.attrs.value.array, d, k))
    return gather(t, at, axes=(k,), at=k)


@function("take_along_axis")
def take_along_axis(
    x: TensorLike, indices: TensorLike, axis: int | None = -1
) -> Tensor:
    """Along an axis, for each place its own element: what `argsort` and `argmax` give."""
    t, places = as_tensor(x), as_tensor(indices)
    if axis is None:
        t, axis = reshaped(t, (t.type.size,)), 0
    key, axes = _along(t, places, axis, "take_along_axis")
    return gather(t, *key, axes=axes, at=0)


@function("put_along_axis")
def put_along_axis(
    x: TensorLike, indices: TensorLike, values: TensorLike, axis: int | None
) -> Tensor:
    """A copy of `x` with values written where `take_along_axis` would read."""
    t, places = as_tensor(x), as_tensor(indices)
    if axis is None:
        flat = reshaped(t, (t.type.size,))
        return reshaped(put_along_axis(flat, places, values, 0), t.shape)
    key, axes = _along(t, places, axis, "put_along_axis")
    updates = broadcast_to(_converted(values, t.dtype, "put_along_axis"), key[0].shape)
    return scatter_set(t, updates, *key, axes=axes, at=0)


def _along(
    x: Tensor, places: Tensor, axis: int, name: str
) -> tuple[list[Tensor], tuple[int, ...]]:
    """Indices of every axis for indices of one; axes of length 1 of either broadcast."""
    if not places.dtype.is_integer:
        raise not_an_index(f"a tensor {places.type}")
    if places.ndim != x.ndim:
        raise ShapeError(
            f"{name}: indices of rank {places.ndim} for a tensor of rank {x.ndim}"
        )
    k = axis_of(axis, x.ndim)
    others = tuple(1 if i == k else d for i, d in enumerate(x.shape))
    shape = broadcast_shapes(others, places.shape)
    key = []
    for i, d in enumerate(x.shape):
        if i == k:
            key.append(broadcast_to(convert(places, int64), shape))
        elif d == 1:
            key.append(broadcast_to(number(0, int64), shape))
        else:
            key.append(iota(shape=shape, axis=i, dtype=int64))
    return key, tuple(range(x.ndim))


@function("compress")
def compress(condition: Any, x: TensorLike, axis: int | None = None) -> Tensor:
    """The elements of an axis where a constant condition is True."""
    t = as_tensor(x)
    mask = key_item(condition) if isinstance(condition, Tensor) else np.array(condition)
    if not isinstance(mask, np.ndarray) or mask.ndim != 1:
        raise TypeMismatch(
            "compress: expected a vector of bools known when the graph is compiled",
            hint="where(mask, x, 0) keeps the shape",
        )
    return take(t, index_constant(np.nonzero(mask)[0]), axis)


@function("choose", method=True)
def choose(a: TensorLike, choices: Nested, mode: str = "raise") -> Tensor:
    """At each place the element of the choice whose number stands in `a`; all broadcast.

    A number of no choice is an IndexError of the call; with `clip` it counts as the nearest one,
    with `wrap` on from the other end.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise OptionError(f"choose: expected raise, clip or wrap, found mode {mode!r}")
    places = as_tensor(a)
    if not (places.dtype.is_integer or places.dtype.is_bool):
        raise not_an_index(f"a tensor {places.type}")
    if isinstance(choices, Tensor):
        if not choices.ndim:
            raise ShapeError("choose: expected choices, found a number")
        lead, count = choices.shape[1:], choices.shape[0]
        shape = broadcast_shapes(places.shape, lead)
        rows = reshaped(choices, (count, *[1] * (len(shape) - len(lead)), *lead))
        table = broadcast_to(rows, (count, *shape))
    else:
        if not isinstance(choices, list | tuple):
            raise ShapeError("choose: expected choices, found a number")
        parts = list(choices)
        if not parts:
            raise ShapeError("choose: there are no choices", code="length-mismatch")
        tensors = [as_tensor(apply("asarray", part)) for part in parts]
        shape = broadcast_shapes(places.shape, *(t.shape for t in tensors))
        count = len(tensors)
        table = apply("stack", [broadcast_to(t, shape) for t in tensors])
    at = broadcast_to(convert(places, int64), shape)
    if mode == "clip":
        at = apply("minimum", apply("maximum", at, 0), count - 1)
    elif mode == "wrap":
        at = apply("remainder", at, count)
    else:  # what is negative is outside, too
        at = apply("where", apply("less", at, 0), count, at)
    along = [iota(shape=shape, axis=k, dtype=int64) for k in range(len(shape))]
    return gather(table, at, *along, axes=tuple(range(table.ndim)), at=0)

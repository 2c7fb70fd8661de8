"""Indexing by integer tensors: gather, its transpose, and NumPy's brackets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError, TypeMismatch
from gradc.graph import Data, Node, Tensor, ordered
from gradc.ops.basic import broadcast, constant, dim, iota, numpy_shape, reshape
from gradc.ops.basic import zeros as zeros_of
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import (
    Key,
    TensorLike,
    apply,
    as_tensor,
    axis_of,
    broadcast_to,
    convert,
    function,
    number,
)
from gradc.ops.loops import Gather, Scatter
from gradc.ops.registry import Op, linear
from gradc.ops.shape import (
    embed,
    flip_op,
    reshaped,
    slice_length,
    slice_op,
    update_slice,
)
from gradc.types import (
    Dim,
    DType,
    Poly,
    Shape,
    TensorType,
    bool_,
    broadcast_shapes,
    dim_text,
    int64,
    is_nonnegative,
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


def _check(name: str, ndim: int, indices: Sequence[TensorType], axes: Any) -> Shape:
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
    index = _check("gather", x.ndim, indices, axes)
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
    index = _check("scatter_add", len(shape), indices, axes)
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


def _scatter_text(name: str, node: Node, args: Sequence[str], first: Any) -> str:
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
    text=lambda node, args: _scatter_text(
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
    index = _check("scatter_set", x.ndim, indices, axes)
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
        node.attrs.axes, node.attrs.at, node.inputs[-1].ndim, "set"
    ),
    text=lambda node, args: _scatter_text("_scatter_set", node, args, args[:2]),
    doc="`x` with its elements at the indices replaced; of repeated indices the last stands.",
)


# ------------------------------------------------------------------- brackets


@dataclass(frozen=True, slots=True)
class _Axis:
    """What a slice or an int takes of one axis: `start:stop:step`, then reversed where `flipped`,
    then without the axis where `dropped`."""

    start: Dim
    stop: Dim
    step: int = 1
    flipped: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class _Selection:
    """A key worked out for a shape.

    `axes` has an entry an axis of the tensor, `indices` the integer tensors by axis. `parts` is
    the result from left to right: the number of an axis, "new", or "index" for the axes of the
    indices, which stand together.
    """

    shape: Shape
    axes: tuple[_Axis, ...]
    indices: dict[int, Tensor]
    parts: tuple[int | str, ...]

    @property
    def start(self) -> tuple[Dim, ...]:
        return tuple(a.start for a in self.axes)

    @property
    def stop(self) -> tuple[Dim, ...]:
        return tuple(a.stop for a in self.axes)

    @property
    def step(self) -> tuple[int, ...]:
        return tuple(a.step for a in self.axes)

    @property
    def flipped(self) -> tuple[int, ...]:
        return tuple(k for k, a in enumerate(self.axes) if a.flipped)

    @property
    def sliced(self) -> Shape:
        """The shape of what the slices take, dropped axes still there."""
        return tuple(slice_length(a.start, a.stop, a.step) for a in self.axes)

    @property
    def block(self) -> Shape:
        """The same without the dropped axes: what the indices index."""
        return tuple(
            d for d, a in zip(self.sliced, self.axes, strict=True) if not a.dropped
        )

    @property
    def is_whole(self) -> bool:
        """True where the slices take everything."""
        return all(
            a.start == 0 and a.stop == d and a.step == 1
            for a, d in zip(self.axes, self.shape, strict=True)
        )

    @property
    def gathering(self) -> dict[str, Any]:
        """The attributes of the gather."""
        number = 0
        axes = []
        for k, a in enumerate(self.axes):
            if k in self.indices:
                axes.append(number)
            number += not a.dropped
        solid = [p for p in self.parts if p != "new"]
        return {"axes": tuple(axes), "at": solid.index("index")}

    @property
    def gathered(self) -> Shape:
        """The result's shape without its new axes."""
        return tuple(self._dims(new=False))

    @property
    def result(self) -> Shape:
        """The result's shape."""
        return tuple(self._dims(new=True))

    def _dims(self, new: bool) -> Iterator[Dim]:
        sliced = self.sliced
        for part in self.parts:
            if isinstance(part, int):
                yield sliced[part]
            elif part == "index":
                yield from next(iter(self.indices.values())).shape
            elif new:
                yield 1

    def block_of(self, x: Tensor) -> Tensor:
        """What slices and ints take."""
        if not self.is_whole:
            x = slice_op(x, start=self.start, stop=self.stop, step=self.step)
        if self.flipped:
            x = flip_op(x, axes=self.flipped)
        return reshaped(x, self.block)

    def of(self, x: Tensor) -> Tensor:
        """`x[key]`."""
        x = self.block_of(x)
        if self.indices:
            x = gather(x, *self.indices.values(), **self.gathering)
        return reshaped(x, self.result)

    def settled(self, v: TensorLike, dtype: DType, name: str) -> Tensor:
        """A value to be written at the key: in the dtype and the shape of the gather."""
        value = _converted(v, dtype, name)
        while value.ndim > len(self.result) and value.shape[0] == 1:
            value = reshaped(value, value.shape[1:])
        try:
            value = broadcast_to(value, self.result)
        except ShapeError:
            raise ShapeError(
                f"{name}: a value of shape {shape_text(value.shape)} does not fit the place, "
                f"which has {shape_text(self.result)}"
            ) from None
        return reshaped(value, self.gathered)

    def unblocked(self, block: Tensor) -> Tensor:
        """The inverse of dropping and reversing: a block as the slices took it."""
        block = reshaped(block, self.sliced)
        return flip_op(block, axes=self.flipped) if self.flipped else block


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
    return _select(t.shape, key).of(t)


@function("index_update")
def index_update(x: TensorLike, idx: Key, v: TensorLike) -> Tensor:
    """A copy of `x` with `x[idx] = v`; of repeated indices the last stands."""
    t = as_tensor(x)
    selection = _select(t.shape, idx)
    block = selection.settled(v, t.dtype, "index_update")
    if selection.indices:
        old = selection.block_of(t)
        indices = selection.indices.values()
        block = scatter_set(old, block, *indices, **selection.gathering)
    block = selection.unblocked(block)
    if selection.is_whole:
        return block
    return update_slice(t, block, start=selection.start, step=selection.step)


@function("index_add")
def index_add(x: TensorLike, idx: Key, v: TensorLike) -> Tensor:
    """A copy of `x` with `v` added at `x[idx]`; repeated indices add up (`np.add.at`)."""
    t = as_tensor(x)
    selection = _select(t.shape, idx)
    block = selection.settled(v, t.dtype, "index_add")
    if selection.indices:
        indices = selection.indices.values()
        shape = selection.block
        block = scatter_add(block, *indices, shape=shape, **selection.gathering)
    block = selection.unblocked(block)
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
    at = _item(indices if isinstance(indices, list) else as_tensor(indices))
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
        at = index_constant(_checked(at.attrs.value.array, d, k))
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
        raise _not_an_index(f"a tensor {places.type}")
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
    mask = _item(condition) if isinstance(condition, Tensor) else np.array(condition)
    if not isinstance(mask, np.ndarray) or mask.ndim != 1:
        raise TypeMismatch(
            "compress: expected a vector of bools known when the graph is compiled",
            hint="where(mask, x, 0) keeps the shape",
        )
    return take(t, index_constant(np.nonzero(mask)[0]), axis)


def index_constant(values: Any) -> Tensor:
    """Indices known at compile time."""
    return constant(value=Data(np.asarray(values, np.int64)), weak=False)


# -------------------------------------------------------------- working out a key


def _select(shape: Shape, key: Key) -> _Selection:
    items = _whole_key(shape, [_item(k) for k in _listed(key)])
    axes: list[_Axis] = []
    arrays: dict[int, Any] = {}
    parts: list[int | str] = []
    stands: list[int] = []  # where in `parts` ints and arrays stand
    for item in items:
        k = len(axes)
        if item is None:
            parts.append("new")
        elif isinstance(item, slice):
            axes.append(_slice_of(item, shape[k], k))
            parts.append(k)
        elif isinstance(item, int | Poly):
            position = _position(item, shape[k], k)
            axes.append(_Axis(position, position + 1, dropped=True))
            stands.append(len(parts))
            parts.append("int")
        else:
            for values in _masked(item, shape, k):
                arrays[len(axes)] = _checked(values, shape[len(axes)], len(axes))
                axes.append(_Axis(0, shape[len(axes)]))
                stands.append(len(parts))
                parts.append("int")
    solid = [p for p in parts if p != "int"]
    if arrays:
        adjacent = stands == list(range(stands[0], stands[0] + len(stands)))
        solid.insert(stands[0] if adjacent else 0, "index")
    return _Selection(shape, tuple(axes), _aligned(arrays), tuple(solid))


def _listed(key: Key) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]


def _item(item: Any) -> Any:
    """One part of a key in a canonical form; TypeMismatch for what may not stand in brackets."""
    if isinstance(item, list):
        item = _list_item(item)
    if isinstance(item, Tensor) and not item.ndim and item.dtype.is_integer:
        item = static_number(item)
    if isinstance(item, np.integer):
        return int(item)
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_) or (
        isinstance(item, Tensor | np.ndarray)
        and item.dtype == (bool_ if isinstance(item, Tensor) else np.bool_)
        and not item.ndim
    ):
        raise TypeMismatch(
            "index: a single bool in brackets", hint="where(p, x, 0) selects by a bool"
        )
    if isinstance(item, int | Poly):
        return item
    if isinstance(item, Tensor):
        known = constant_value(item) if item.dtype.is_bool else None
        if item.op is constant:
            known = item.attrs.value.array
        if known is not None:
            item = known
        elif item.dtype.is_integer:
            return item
        elif item.dtype.is_bool:
            raise TypeMismatch(
                "index: the shape of the result would depend on the values of the mask",
                code="boolean-mask",
                hint="where(mask, x, 0) keeps the shape; sum it, or count with sum(mask)",
            )
        else:
            raise _not_an_index(f"a tensor {item.type}")
    if isinstance(item, np.ndarray):
        if item.dtype.kind in "iub" or not item.size:
            return item if item.dtype.kind in "iub" else item.astype(np.int64)
        raise _not_an_index(f"an array of {item.dtype}")
    raise _not_an_index(f"{type(item).__name__} {item!r}")


def _not_an_index(found: str) -> TypeMismatch:
    return TypeMismatch(
        f"index: expected ints, slices, ..., None or integer tensors, found {found}",
        hint="write .astype(int64) for whole numbers held as floats",
    )


def _list_item(item: list[Any]) -> Any:
    """A list in brackets: an array where it is of numbers, else a tensor of indices."""
    from gradc.ops.create import array

    stack = list(item)
    while stack:
        value = stack.pop()
        if isinstance(value, list | tuple):
            stack += value
        elif isinstance(value, Tensor | Poly):
            return array(item)
    return np.array(item)


def static_number(x: Tensor) -> Any:
    """The int or dimension that a tensor of rank 0 is known to be, else the tensor."""
    if x.op is constant:
        return int(x.attrs.value.item())
    if x.op is dim:
        return x.attrs.value
    return x


FOLDED_NODES, FOLDED_SIZE = 200, 1_000_000


def constant_value(x: Tensor) -> Any:
    """The value of a tensor that is computed from constants alone, else None."""
    nodes = ordered([x])
    for node in nodes:
        leaf = not node.inputs and node.op is not constant and node.op is not iota
        if leaf or len(nodes) > FOLDED_NODES:
            return None
        for t in node.outputs:
            if not isinstance(t.type.size, int) or t.type.size > FOLDED_SIZE:
                return None
    return evaluate([x], {})[0]


def _rank_of(item: Any) -> int:
    """How many axes a part of a key takes."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, np.ndarray) and item.dtype.kind == "b":
        return item.ndim
    return 1


def _whole_key(shape: Shape, items: list[Any]) -> list[Any]:
    """The key with full slices for `...` and for the axes it does not mention."""
    taken = sum(map(_rank_of, items))
    if taken > len(shape):
        raise ShapeError(
            f"index: too many indices: {taken} for a tensor of rank {len(shape)} "
            f"and shape {shape_text(shape)}",
            code="bad-index",
        )
    places = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise ShapeError("index: '...' may stand in brackets once", code="bad-index")
    rest = [slice(None)] * (len(shape) - taken)
    at = places[0] if places else len(items)
    return [*items[:at], *rest, *items[at + 1 :]]


def _is_negative(d: Dim) -> bool:
    """True where the dimension is below 0 for all sizes (a symbol alone counts as 1 or more)."""
    return d < 0 if isinstance(d, int) else is_nonnegative(-d)


def _position(i: Dim, d: Dim, k: int) -> Dim:
    """An int index of axis `k` as a position; ShapeError where it is outside for all sizes."""
    position = d + i if _is_negative(i) else i
    if (
        is_nonnegative(position - d)
        or _is_below(position)
        or (isinstance(position, int) and position < 0)
    ):
        raise _outside(i, d, k)
    return position


def _is_below(d: Dim) -> bool:
    return is_nonnegative(-1 - d)


def _outside(i: Dim, d: Dim, k: int) -> ShapeError:
    return ShapeError(
        f"index {dim_text(i)} is out of bounds for axis {k} with size {dim_text(d)}",
        code="index-out-of-range",
    )


def _bound(value: Dim | None, d: Dim, default: Dim, low: Dim, high: Dim) -> Dim:
    """A bound of a slice as a position between `low` and `high`, as far as that is known."""
    if value is None:
        return default
    if isinstance(value, Tensor):
        value = static_number(value) if not value.ndim else value
    if isinstance(value, np.integer):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | Poly):
        raise TypeMismatch(
            f"index: a bound of a slice must be known when the graph is compiled, found "
            f"{value.type if isinstance(value, Tensor) else repr(value)}",
            hint="x[i + arange(n)] takes n elements from a computed position",
        )
    position = d + value if _is_negative(value) else value
    if is_nonnegative(low - position):
        return low
    return high if is_nonnegative(position - high) else position


def _slice_of(item: slice, d: Dim, k: int) -> _Axis:
    step = 1 if item.step is None else item.step
    if isinstance(step, Tensor) and not step.ndim:
        step = static_number(step)
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step == 0:
        raise TypeMismatch(
            f"index: the step of a slice must be an int and not 0, found {step!r}"
        )
    step = int(step)
    if step > 0:
        start = _bound(item.start, d, 0, 0, d)
        stop = _bound(item.stop, d, d, 0, d)
        if is_nonnegative(start - stop):
            return _Axis(0, 0)
        return _Axis(start, stop, step)
    # start, start + step, ... above stop, which read from its other end is a forward slice
    start = _bound(item.start, d, d - 1, -1, d - 1)
    stop = _bound(item.stop, d, -1, -1, d - 1)
    if is_nonnegative(stop - start):
        return _Axis(0, 0)
    length = slice_length(stop, start, -step)
    return _Axis(start + (length - 1) * step, start + 1, -step, flipped=True)


def _masked(item: Any, shape: Shape, k: int) -> Sequence[Any]:
    """The integer arrays that an array in brackets is: several for a mask of several axes."""
    if not isinstance(item, np.ndarray) or item.dtype.kind != "b":
        return (item,)
    axes = shape[k : k + item.ndim]
    if item.shape != axes:
        raise ShapeError(
            f"index: a mask of shape {item.shape} for axes of shape {shape_text(axes)}",
            hint="a mask must have the shape of the axes it selects from",
        )
    return np.nonzero(item)


def _checked(values: Any, d: Dim, k: int) -> Any:
    """Constant indices of an axis of known size: wrapped, and all of them inside."""
    if not isinstance(values, np.ndarray):
        return values
    numbers = values.astype(np.int64)
    if not isinstance(d, int):
        return numbers
    for wrong in numbers[(numbers < -d) | (numbers >= d)].flat:
        raise _outside(int(wrong), d, k)
    return np.where(numbers < 0, numbers + d, numbers)


def _aligned(arrays: dict[int, Any]) -> dict[int, Tensor]:
    """Index arrays as int64 tensors of one shape."""
    if not arrays:
        return {}
    if all(isinstance(a, np.ndarray) for a in arrays.values()):
        together: Any = _broadcast_numpy(list(arrays.values()))
        return dict(zip(arrays, map(index_constant, together), strict=True))
    tensors = [
        convert(index_constant(a) if isinstance(a, np.ndarray) else a, int64)
        for a in arrays.values()
    ]
    try:
        shape = broadcast_shapes(*(t.shape for t in tensors))
    except ShapeError as error:
        error.message = f"index: {error.message}"
        raise
    return {k: broadcast_to(t, shape) for k, t in zip(arrays, tensors, strict=True)}


def _broadcast_numpy(arrays: list[Any]) -> Any:
    try:
        return np.broadcast_arrays(*arrays)
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ShapeError(
            f"index: shapes of the index arrays do not broadcast: {shapes}"
        ) from None

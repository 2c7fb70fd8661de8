"""What stands in brackets: a NumPy key worked out for a shape.

`x[key]` is at most one slice, one flip, one gather and two reshapes; `Selection` says which.
Symbolic sizes are decided as far as they can be; the rest the slice requires of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradc.errors import ShapeError, TypeMismatch
from gradc.graph import Data, Tensor, ordered
from gradc.ops.basic import constant, dim, iota
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import Key, broadcast_to, convert
from gradc.ops.shape import slice_length
from gradc.types import (
    Dim,
    Poly,
    Shape,
    bool_,
    broadcast_shapes,
    dim_text,
    int64,
    is_nonnegative,
    shape_text,
)

__all__ = [
    "Axis",
    "Selection",
    "checked_indices",
    "index_constant",
    "key_item",
    "not_an_index",
    "select",
]


@dataclass(frozen=True, slots=True)
class Axis:
    """What a slice or an int takes of one axis: `start:stop:step`, then reversed where `flipped`,
    then without the axis where `dropped`."""

    start: Dim
    stop: Dim
    step: int = 1
    flipped: bool = False
    dropped: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """A key worked out for a shape.

    `axes` has an entry an axis of the tensor, `indices` the integer tensors by axis. `parts` is
    the result from left to right: the number of an axis, "new", or "index" for the axes of the
    indices, which stand together.
    """

    shape: Shape
    axes: tuple[Axis, ...]
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


def index_constant(values: Any) -> Tensor:
    """Indices known at compile time."""
    return constant(value=Data(np.asarray(values, np.int64)), weak=False)


def select(shape: Shape, key: Key) -> Selection:
    items = _whole_key(shape, [key_item(k) for k in _listed(key)])
    axes: list[Axis] = []
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
            axes.append(Axis(position, position + 1, dropped=True))
            stands.append(len(parts))
            parts.append("int")
        else:
            for values in _masked(item, shape, k):
                arrays[len(axes)] = checked_indices(values, shape[len(axes)], len(axes))
                axes.append(Axis(0, shape[len(axes)]))
                stands.append(len(parts))
                parts.append("int")
    solid = [p for p in parts if p != "int"]
    if arrays:
        adjacent = stands == list(range(stands[0], stands[0] + len(stands)))
        solid.insert(stands[0] if adjacent else 0, "index")
    return Selection(shape, tuple(axes), _aligned(arrays), tuple(solid))


def _listed(key: Key) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]


def key_item(item: Any) -> Any:
    """One part of a key in a canonical form; TypeMismatch for what may not stand in brackets."""
    if isinstance(item, list):
        item = _listkey_item(item)
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
            raise not_an_index(f"a tensor {item.type}")
    if isinstance(item, np.ndarray):
        if item.dtype.kind in "iub" or not item.size:
            return item if item.dtype.kind in "iub" else item.astype(np.int64)
        raise not_an_index(f"an array of {item.dtype}")
    raise not_an_index(f"{type(item).__name__} {item!r}")


def not_an_index(found: str) -> TypeMismatch:
    return TypeMismatch(
        f"index: expected ints, slices, ..., None or integer tensors, found {found}",
        hint="write .astype(int64) for whole numbers held as floats",
    )


def _listkey_item(item: list[Any]) -> Any:
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


def _slice_of(item: slice, d: Dim, k: int) -> Axis:
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
            return Axis(0, 0)
        return Axis(start, stop, step)
    # start, start + step, ... above stop, which read from its other end is a forward slice
    start = _bound(item.start, d, d - 1, -1, d - 1)
    stop = _bound(item.stop, d, -1, -1, d - 1)
    if is_nonnegative(stop - start):
        return Axis(0, 0)
    length = slice_length(stop, start, -step)
    return Axis(start + (length - 1) * step, start + 1, -step, flipped=True)


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


def checked_indices(values: Any, d: Dim, k: int) -> Any:
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

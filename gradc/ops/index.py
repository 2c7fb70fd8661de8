"""Indexing by integer tensors: gather, its transpose, and NumPy's brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError
from gradc.graph import Data, Node, Tensor
from gradc.ops.basic import broadcast, constant, numpy_shape
from gradc.ops.basic import zeros as zeros_of
from gradc.ops.loops import Gather, Scatter
from gradc.ops.registry import Op, linear
from gradc.types import Dim, Shape, TensorType, int64, shape_text

__all__ = ["gather", "scatter_add", "scatter_set"]

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
    from gradc.ops.basic import iota, reshape
    from gradc.ops.functions import lookup_function

    index = indices[0].shape
    count = indices[0].type.size
    numbers = reshape(iota(shape=(count,), axis=0, dtype=int64), shape=index)
    every = tuple(range(len(axes)))
    board = zeros_of(TensorType(int64, tuple(shape[k] for k in axes)))
    board = scatter_set(board, numbers, *indices, axes=every, at=0)
    read = gather(board, *indices, axes=every, at=0)
    equal, where = lookup_function("equal"), lookup_function("where")
    assert equal is not None and where is not None
    mask = equal.call(read, numbers)
    along = tuple(k for k in range(taken.ndim) if not at <= k < at + len(index))
    mask = broadcast(mask, shape=taken.shape, along=along) if along else mask
    result = where.call(mask, taken, 0)
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


def index_constant(values: Any) -> Tensor:
    """Indices known at compile time."""
    return constant(value=Data(np.asarray(values, np.int64)), weak=False)

"""Running totals along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import reshape
from gradc.ops.elementwise import filled
from gradc.ops.functions import TensorLike, as_tensor, axis_of, convert, function
from gradc.ops.loops import Cumulate
from gradc.ops.registry import (
    ANY_NUMBER,
    REAL,
    Bar,
    Explicit,
    Op,
    linear,
    primitive,
)
from gradc.types import DType, int64, uint64

__all__ = ["cumulative_sum", "exclusive_product", "recurrence"]


# ----------------------------------------------------------------------- running sums


def _numpy_cumsum(x: Any, *, axis: int, reverse: bool) -> Any:
    source = np.flip(x, axis) if reverse else x
    found = np.cumsum(source, axis=axis, dtype=x.dtype)
    return np.array(np.flip(found, axis) if reverse else found)


def _cumsum_text(node: Node, args: Sequence[str]) -> str:
    axis = node.attrs.axis
    if not node.attrs.reverse:
        return f"np.cumsum({args[0]}, axis={axis})"
    return f"np.flip(np.cumsum(np.flip({args[0]}, {axis}), axis={axis}), {axis})"


cumulative_sum: Op = linear(
    "cumsum",
    type=lambda x, *, axis, reverse: x,
    numpy=_numpy_cumsum,
    transpose=lambda out_bar, x, *, axis, reverse: cumulative_sum(
        out_bar, axis=axis, reverse=not reverse
    ),
    form=lambda node: Cumulate("add", node.attrs.axis, node.attrs.reverse),
    text=_cumsum_text,
    accepts=ANY_NUMBER,
    doc="Running sum along `axis`, from its end where `reverse`.",
)


# ------------------------------------------------------------------------- recurrences


def _recurrence_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The adjoint state runs the other way, by the same factors."""
    factor, _ = node.inputs
    back = recurrence(
        factor, g, axis=node.attrs.axis, reverse=not node.attrs.reverse, start=0.0
    )
    return [back * node.out, back]


def _recurrence_text(node: Node, args: Sequence[str]) -> str:
    a = node.attrs
    return (
        f"_recurrence({args[0]}, {args[1]}, axis={a.axis}, reverse={a.reverse}, "
        f"start={a.start})"
    )


recurrence: Op = primitive(
    "recurrence",
    type=lambda factor, term, *, axis, reverse, start: factor,
    numpy=arraylib._recurrence,
    derivative=Explicit(_recurrence_vjp),
    form=lambda node: Cumulate(
        "recurrence", node.attrs.axis, node.attrs.reverse, node.attrs.start
    ),
    text=_recurrence_text,
    accepts=REAL,
    doc="The states s of s[i + 1] = factor[i] * s[i] + term[i], from s[0] = start; along `axis`, "
    "from its end where `reverse`. The last step's state is left out.",
)


def exclusive_product(x: Tensor, axis: int) -> Tensor:
    """At each place the product of all other elements along `axis`."""
    zero = filled(0, x)
    before = recurrence(x, zero, axis=axis, reverse=False, start=1.0)
    behind = recurrence(x, zero, axis=axis, reverse=True, start=1.0)
    return before * behind


# -------------------------------------------------------------- the user's running totals


def _running(
    x: TensorLike, axis: int | None, dtype: DType | None
) -> tuple[Tensor, int]:
    """The operand in the dtype NumPy accumulates in, and the axis; flat where that is None."""
    tensor = as_tensor(x)
    if dtype is None:
        given = tensor.dtype
        dtype = int64 if given.kind in "bi" else uint64 if given.kind == "u" else given
    tensor = convert(tensor, dtype)
    if axis is None:
        return reshape(tensor, shape=(tensor.type.size,)), 0
    return tensor, axis_of(axis, tensor.ndim)


@function("cumsum", method=True)
def cumsum(
    x: TensorLike, axis: int | None = None, dtype: DType | None = None
) -> Tensor:
    """The running sum along `axis` (None: of the elements in row-major order)."""
    tensor, k = _running(x, axis, dtype)
    return cumulative_sum(tensor, axis=k, reverse=False)


@function("cumprod", method=True)
def cumprod(
    x: TensorLike, axis: int | None = None, dtype: DType | None = None
) -> Tensor:
    """The running product along `axis`, with a derivative that is exact with zeros."""
    tensor, k = _running(x, axis, dtype)
    zero = filled(0, tensor)
    return tensor * recurrence(tensor, zero, axis=k, reverse=False, start=1.0)

"""Running totals and extremes along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import pull, reshape, stop_gradient
from gradc.ops.complex import conjugate
from gradc.ops.elementary import exp, log
from gradc.ops.elementwise import (
    clip,
    equal,
    filled,
    greater,
    isfinite,
    isnan,
    less,
    minimum,
    select,
)
from gradc.ops.functions import TensorLike, as_tensor, axis_of, convert, function
from gradc.ops.loops import Cumulate
from gradc.ops.registry import (
    ANY_NUMBER,
    BOOL,
    COMPLEX,
    FLOATS,
    REAL,
    Bar,
    Explicit,
    Op,
    composite,
    linear,
    primitive,
)
from gradc.ops.shape import embed, slice_op
from gradc.types import DType, float64, int64, uint64

__all__ = [
    "cumulative_sum",
    "exclusive_product",
    "recurrence",
    "running_max",
    "running_min",
]


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
        conjugate(factor),
        g,
        axis=node.attrs.axis,
        reverse=not node.attrs.reverse,
        start=0.0,
    )
    return [back * conjugate(node.out), back]


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
    accepts=REAL | COMPLEX,
    doc="The states s of s[i + 1] = factor[i] * s[i] + term[i], from s[0] = start; along `axis`, "
    "from its end where `reverse`. The last step's state is left out.",
)


def exclusive_product(x: Tensor, axis: int) -> Tensor:
    """At each place the product of all other elements along `axis`."""
    zero = filled(0, x)
    before = recurrence(x, zero, axis=axis, reverse=False, start=1.0)
    behind = recurrence(x, zero, axis=axis, reverse=True, start=1.0)
    return before * behind


# ---------------------------------------------------------------------- running extremes


def _behind(x: Tensor, axis: int) -> Tensor:
    """At each place the element before it; 0 at the first."""
    longer = tuple(d + 1 if k == axis else d for k, d in enumerate(x.shape))
    first = tuple(1 if k == axis else 0 for k in range(x.ndim))
    step = (1,) * x.ndim
    moved = embed(x, shape=longer, start=first, step=step)
    return slice_op(moved, start=(0,) * x.ndim, stop=x.shape, step=step)


def _running(factor: Tensor, term: Tensor, axis: int) -> Tensor:
    """s with s[i] = factor[i] * s[i - 1] + term[i], from s[-1] = 0."""
    before = recurrence(factor, term, axis=axis, reverse=False, start=0.0)
    return factor * before + term


def _from_end(factor: Tensor, term: Tensor, axis: int) -> Tensor:
    """s with s[i] = term[i] + factor[i + 1] * s[i + 1], from 0 behind the end."""
    return term + recurrence(factor, factor * term, axis=axis, reverse=True, start=0.0)


def _extreme_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """At each place the elements up to it that are the extreme share its cotangent.

    They stand in the run of places that have this extreme: the elements at and before each place
    of the run are counted, and the shares of the places at and behind each element summed.
    """
    (x,), out, axis = node.inputs, node.out, node.attrs.axis
    beaten = less(x, out) if node.op.name == "cummax" else greater(x, out)
    one, zero = filled(1, out), filled(0, out)
    goes_on = select(equal(_behind(out, axis), out), one, zero)
    count = _running(goes_on, select(beaten, zero, one), axis)
    share = pull(g, select(isnan(out), math.nan, 1.0 / count))
    return [select(beaten, zero, _from_end(goes_on, share, axis))]


def _extreme(name: str, ufunc: np.ufunc, start: float, doc: str) -> Op:
    return primitive(
        name,
        type=lambda x, *, axis: x,
        numpy=lambda x, *, axis: ufunc.accumulate(x, axis),
        derivative=Explicit(_extreme_vjp),
        form=lambda node: Cumulate(ufunc.__name__, node.attrs.axis, False, start),
        text=lambda node, args: (
            f"np.{ufunc.__name__}.accumulate({args[0]}, axis={node.attrs.axis})"
        ),
        accepts=REAL | BOOL,
        doc=doc,
    )


running_max = _extreme(
    "cummax",
    np.maximum,
    -math.inf,
    "The largest element so far along `axis`, NaN from the first NaN on. Those that are equal to "
    "it share its cotangent, as in `max`.",
)

running_min = _extreme(
    "cummin",
    np.minimum,
    math.inf,
    "The smallest element so far along `axis`, NaN from the first NaN on. Those that are equal to "
    "it share its cotangent, as in `min`.",
)


# ------------------------------------------------------- running sums of exponentials


def _sums(x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The running largest element m (0 where it is infinite), exp(x - m), the running sums of
    exp(x) over exp(m), and how they fall from place to place, exp(m[i - 1] - m[i]).

    m is a shift that cancels in every result, so it is a constant for the derivative.
    """
    top = running_max(stop_gradient(x), axis=axis)
    before = _behind(top, axis)
    decay = select(equal(before, top), 1, exp(minimum(before - top, 0)))
    shift = select(isfinite(top), top, 0)
    e = exp(x - shift)
    return shift, e, _running(decay, e, axis), decay


def _logcumsumexp_expand(node: Node) -> Tensor:
    shift, _, sums, _ = _sums(node.inputs[0], node.attrs.axis)
    return log(sums) + shift


def _logcumsumexp_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The shares of each element in the sums at its place and behind it."""
    (x,), axis = node.inputs, node.attrs.axis
    _, e, sums, decay = _sums(x, axis)
    # the sums are 1 at least, but where all terms are 0, and so their shares
    share = pull(g, 1.0 / clip(sums, min=1.0))
    return [pull(_from_end(decay, share, axis), e)]


_logcumsumexp = composite(
    "logcumsumexp",
    type=lambda x, *, axis: x,
    numpy=lambda x, *, axis: np.logaddexp.accumulate(x, axis),
    vjp=_logcumsumexp_vjp,
    expand=_logcumsumexp_expand,
    accepts=FLOATS,
    doc="log of the running sum of exp along `axis`, without overflow; where all are -inf the "
    "slopes are 0.",
)


# -------------------------------------------------------------- the user's running totals


def _accumulated(
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
    tensor, k = _accumulated(x, axis, dtype)
    return cumulative_sum(tensor, axis=k, reverse=False)


@function("cumprod", method=True)
def cumprod(
    x: TensorLike, axis: int | None = None, dtype: DType | None = None
) -> Tensor:
    """The running product along `axis`, with a derivative that is exact with zeros."""
    tensor, k = _accumulated(x, axis, dtype)
    zero = filled(0, tensor)
    return tensor * recurrence(tensor, zero, axis=k, reverse=False, start=1.0)


def _line(x: TensorLike, axis: int | None) -> tuple[Tensor, int]:
    """The operand and the axis; flat where that is None."""
    tensor = as_tensor(x)
    return _accumulated(tensor, axis, tensor.dtype)


@function("cummax")
def cummax(x: TensorLike, axis: int | None = None) -> Tensor:
    """The largest element so far along `axis` (None: of the elements in row-major order)."""
    tensor, k = _line(x, axis)
    return running_max(tensor, axis=k)


@function("cummin")
def cummin(x: TensorLike, axis: int | None = None) -> Tensor:
    """The smallest element so far along `axis` (None: of the elements in row-major order)."""
    tensor, k = _line(x, axis)
    return running_min(tensor, axis=k)


@function("logcumsumexp")
def logcumsumexp(x: TensorLike, axis: int | None = None) -> Tensor:
    """log of the running sum of exp along `axis` (None: in row-major order), without overflow."""
    tensor, k = _line(x, axis)
    if not tensor.dtype.is_inexact:
        tensor = convert(tensor, float64)
    return _logcumsumexp(tensor, axis=k)

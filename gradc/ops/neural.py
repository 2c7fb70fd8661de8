"""The curves of neural networks, element by element.

Those that are stable and right at their kinks when written out are plain functions; the others
are ops with slopes of their own, expanded after differentiation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import pull
from gradc.ops.elementary import exp, expm1, tanh
from gradc.ops.elementwise import (
    absolute,
    clip,
    greater,
    less,
    maximum,
    minimum,
    select,
    square,
    step,
    typed_operands,
)
from gradc.ops.functions import TensorLike, function, operands
from gradc.ops.registry import FLOATS, Bar, Explicit, elementwise
from gradc.ops.special import (
    ndtr,
    sigmoid,
    sigmoid_values,
    softplus,
    softplus_values,
)

__all__ = ["gelu", "huber", "relu", "relu6", "silu"]


def _float(x: TensorLike) -> Tensor:
    """x as floats."""
    return typed_operands(np.exp, x)[0]


def _curve(
    name: str,
    numpy: Callable[..., Any],
    slope: Callable[[Tensor, Tensor], Tensor],
    expand: Callable[[Tensor], Tensor],
    *,
    doc: str,
    aliases: Sequence[str] = (),
    cost: int = 20,
    public: bool = True,
) -> Callable[[TensorLike], Tensor]:
    """An op with a slope of its own, and its function (of the language where `public`)."""
    op = elementwise(
        name,
        numpy=numpy,
        partials=lambda x, out: [lambda: slope(x, out)],
        accepts=FLOATS,
        expand=lambda node: expand(node.inputs[0]),
        finite=True,
        cost=cost,
        doc=doc,
    )

    def call(x: TensorLike) -> Tensor:
        return op(_float(x))

    call.__doc__ = doc
    call.__name__ = name
    if public:
        function(name, *aliases)(call)
    return call


# ------------------------------------------------------------------------------ ramps


def _ramp_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The slope meets the cotangent as a strong zero: what is cut off passes nothing back, not
    even from an infinite cotangent. The slope is a step of x, so x stays connected."""
    (x,) = node.inputs
    slope = step(x)
    if node.op.name == "relu6":
        slope = slope * step(6.0 - x)
    return [pull(slope, g)]


_relu = elementwise(
    "relu",
    numpy=lambda x: np.maximum(x, 0),
    derivative=Explicit(_ramp_vjp),
    accepts=FLOATS,
    expand=lambda node: maximum(node.inputs[0], 0),
    finite=True,
    doc="max(x, 0); its slope at 0 is 0.",
)

_relu6 = elementwise(
    "relu6",
    numpy=lambda x: np.minimum(np.maximum(x, 0), 6),
    derivative=Explicit(_ramp_vjp),
    accepts=FLOATS,
    expand=lambda node: minimum(maximum(node.inputs[0], 0), 6),
    finite=True,
    sample=(-2.0, 8.0),
    doc="min(max(x, 0), 6); its slope at both kinks is 0.",
)


@function("relu")
def relu(x: TensorLike) -> Tensor:
    """max(x, 0), with slope 0 at 0. Integers stay integers."""
    (tensor,) = typed_operands(np.maximum, x, 0)[:1]
    return _relu(tensor) if tensor.dtype.is_float else maximum(tensor, 0)


@function("relu6")
def relu6(x: TensorLike) -> Tensor:
    """min(max(x, 0), 6), with slope 0 at 0 and at 6."""
    return _relu6(_float(x))


@function("leaky_relu")
def leaky_relu(x: TensorLike, alpha: TensorLike = 0.01) -> Tensor:
    """x where x > 0, else alpha * x; the slope at 0 is alpha."""
    tensor, rate = operands(_float(x), alpha)
    return tensor * select(greater(tensor, 0), 1, rate)


@function("elu")
def elu(x: TensorLike, alpha: TensorLike = 1.0) -> Tensor:
    """x where x >= 0, else alpha * (exp(x) - 1); the slope at 0 is 1."""
    tensor, rate = operands(_float(x), alpha)
    below = less(tensor, 0)
    return select(below, rate * expm1(select(below, tensor, 0)), tensor)


@function("celu")
def celu(x: TensorLike, alpha: TensorLike = 1.0) -> Tensor:
    """x where x >= 0, else alpha * (exp(x / alpha) - 1)."""
    tensor, rate = operands(_float(x), alpha)
    below = less(tensor, 0)
    return select(below, rate * expm1(select(below, tensor, 0) / rate), tensor)


@function("selu")
def selu(x: TensorLike) -> Tensor:
    """The self-normalising elu of Klambauer and others (2017)."""
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


@function("hard_sigmoid")
def hard_sigmoid(x: TensorLike) -> Tensor:
    """relu6(x + 3) / 6."""
    return relu6(_float(x) + 3.0) / 6.0


@function("hard_tanh")
def hard_tanh(x: TensorLike) -> Tensor:
    """x within [-1, 1]; the slope on the bounds is 1."""
    return clip(_float(x), -1, 1)


# ----------------------------------------------------------------------- smooth curves


def _silu_slope(x: Tensor, out: Tensor) -> Tensor:
    s = sigmoid(x)
    return s + out * sigmoid(-x)


silu = _curve(
    "silu",
    lambda x: x * sigmoid_values(x),
    _silu_slope,
    lambda x: x * sigmoid(x),
    aliases=("swish",),
    doc="x * sigmoid(x).",
)


def _mish_slope(x: Tensor, out: Tensor) -> Tensor:
    t = tanh(softplus(x))
    return t + x * sigmoid(x) * (1.0 - t * t)


_curve(
    "mish",
    lambda x: x * np.tanh(softplus_values(x)),
    _mish_slope,
    lambda x: x * tanh(softplus(x)),
    cost=50,
    doc="x * tanh(softplus(x)).",
)

_curve(
    "softsign",
    lambda x: x / (1 + np.abs(x)),
    lambda x, out: square(1.0 / (1.0 + absolute(x))),
    lambda x: x / (1.0 + absolute(x)),
    doc="x / (1 + |x|).",
)


_TANH_RATE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715
_TANH_END = 10.0
"""Beyond it the tanh in gelu is 1 to the last bit, and x**3 must not overflow."""


def _gelu_slope(x: Tensor, out: Tensor) -> Tensor:
    density = exp(x * x * -0.5) * (1.0 / math.sqrt(2 * math.pi))
    return ndtr(x) + x * density


def _gelu_numpy(x: Any) -> Any:
    return x * arraylib._ndtr(x)


_gelu = _curve(
    "gelu",
    _gelu_numpy,
    _gelu_slope,
    lambda x: x * ndtr(x),
    cost=60,
    public=False,
    doc="x times the normal distribution function of x.",
)


def _gelu_tanh_slope(x: Tensor, out: Tensor) -> Tensor:
    near = clip(x, -_TANH_END, _TANH_END)
    square_of = near * near
    t = tanh(near * (1.0 + _TANH_CUBIC * square_of) * _TANH_RATE)
    inner = (1.0 + 3 * _TANH_CUBIC * square_of) * _TANH_RATE
    return 0.5 * (1.0 + t) + 0.5 * near * (1.0 - t * t) * inner


def _gelu_tanh_expand(x: Tensor) -> Tensor:
    near = clip(x, -_TANH_END, _TANH_END)
    t = tanh(near * (1.0 + _TANH_CUBIC * (near * near)) * _TANH_RATE)
    return 0.5 * x * (1.0 + t)


def _gelu_tanh_numpy(x: Any) -> Any:
    near = np.clip(x, -_TANH_END, _TANH_END)
    return 0.5 * x * (1 + np.tanh(near * (1 + _TANH_CUBIC * near * near) * _TANH_RATE))


_gelu_tanh = _curve(
    "gelu_tanh",
    _gelu_tanh_numpy,
    _gelu_tanh_slope,
    _gelu_tanh_expand,
    cost=40,
    public=False,
    doc="The approximation of gelu by a tanh.",
)


@function("gelu")
def gelu(x: TensorLike, approximate: bool = False) -> Tensor:
    """x times the normal distribution function of x; `approximate` takes the form with tanh."""
    return _gelu_tanh(x) if approximate else _gelu(x)


# ------------------------------------------------------------------------------- huber


def _huber_numpy(x: Any, delta: Any) -> Any:
    near = np.clip(x, -delta, delta)
    return near * (x - 0.5 * near)


def _huber_expand(node: Node) -> Tensor:
    x, delta = node.inputs
    near = clip(x, -delta, delta)
    return near * (x - 0.5 * near)


_huber = elementwise(
    "huber",
    numpy=_huber_numpy,
    partials=lambda x, delta, out: [
        lambda: clip(x, -delta, delta),
        lambda: maximum(absolute(x) - delta, 0),
    ],
    accepts=FLOATS,
    expand=_huber_expand,
    finite=True,
    doc="x**2 / 2 where |x| <= delta, else delta (|x| - delta / 2).",
)


@function("huber")
def huber(x: TensorLike, delta: TensorLike = 1.0) -> Tensor:
    """x**2 / 2 where |x| <= delta, else delta (|x| - delta / 2)."""
    return _huber(*operands(_float(x), delta))

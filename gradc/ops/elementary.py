"""Powers, roots, exponentials, logarithms and trigonometry, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops.elementwise import (
    FIELD,
    Binary,
    Unary,
    binary,
    equal,
    filled,
    floor_divide,
    less_equal,
    logical_and,
    maximum,
    minimum,
    scalar_value,
    select,
    typed_operands,
    unary,
)
from gradc.ops.functions import TensorLike, convert, function, operands, type_of
from gradc.ops.registry import (
    COMPLEX,
    FLOATS,
    INTEGER,
    REAL,
    ZERO,
    Op,
    Slope,
    elementwise,
)
from gradc.types import float64, int64

__all__ = [
    "arctan2",
    "cos",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log",
    "log1p",
    "power",
    "sin",
    "sqrt",
    "tanh",
]

# ----------------------------------------------------------------------------- powers


def _power_partials(x: Tensor, y: Tensor, out: Tensor) -> Sequence[Slope]:
    """y x**(y - 1) and x**y log x; a known exponent keeps its own power, down to x**0."""
    c = scalar_value(y)

    def by_base() -> Any:
        if c is not None:
            return ZERO if c == 0 else c * power_op(x, filled(c - 1, x))
        # 0**(y - 1) is infinite at y = 0, where the slope is 0 all the same
        base = select(logical_and(equal(x, 0), equal(y, 0)), 1, x)
        return y * power_op(base, y - 1)

    def by_exponent() -> Tensor:
        outside = equal(x, 0) if x.dtype.is_complex else less_equal(x, 0)
        return select(outside, 0, out * log(select(outside, 1, x)))

    return [by_base, by_exponent]


def _power_numpy(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind in "iu" and np.any(np.asarray(y) < 0):
        raise ValueError("power: an integer to a negative power")
    return np.power(x, y)


power_op = elementwise(
    "power",
    numpy=_power_numpy,
    partials=_power_partials,
    accepts=REAL | COMPLEX,
    text="**",
    scalar="_power",
    sample=(0.3, 2.0),
    cost=20,
    doc="x to the power y. The slope by x is 0 for y = 0, that by y is 0 for x <= 0.",
)


@function("power", "pow", operator="power")
def power(x: TensorLike, y: TensorLike) -> Tensor:
    """x to the power y. TypeMismatch for an integer to a negative integer."""
    a, b = typed_operands(np.power, x, y, accepts=power_op.accepts)
    exponent = scalar_value(b)
    if a.dtype.is_integer and exponent is not None and exponent < 0:
        raise TypeMismatch(
            f"power: an integer to the negative power {exponent}",
            hint=f"write the exponent as a float: {float(exponent)}",
        )
    return power_op(a, b)


@function("float_power")
def float_power(x: TensorLike, y: TensorLike) -> Tensor:
    """x to the power y, computed in float64."""
    return power_op(*typed_operands(np.float_power, x, y, accepts=FIELD))


# ----------------------------------------------------- roots, exponentials, logarithms

sqrt: Unary = unary(
    "sqrt",
    np.sqrt,
    lambda x, out: 0.5 / out,
    accepts=FIELD,
    scalar="np.sqrt",
    sample=(0.2, 3.0),
    cost=4,
    doc="The square root; its slope at 0 is infinite.",
)

unary(
    "cbrt",
    np.cbrt,
    lambda x, out: 1.0 / (3.0 * (out * out)),
    scalar="_cbrt",
    sample=(0.2, 3.0),
    cost=12,
    doc="The cube root.",
)

exp: Unary = unary(
    "exp",
    np.exp,
    lambda x, out: out,
    accepts=FIELD,
    scalar="_exp",
    cost=10,
    doc="e to the power x.",
)

exp2: Unary = unary(
    "exp2",
    np.exp2,
    lambda x, out: out * math.log(2),
    accepts=FIELD,
    scalar="_exp2",
    cost=10,
    doc="2 to the power x.",
)

expm1: Unary = unary(
    "expm1",
    np.expm1,
    lambda x, out: exp(x),
    accepts=FIELD,
    scalar="_expm1",
    cost=12,
    doc="exp(x) - 1, exact near 0.",
)

log: Unary = unary(
    "log",
    np.log,
    lambda x, out: 1.0 / x,
    accepts=FIELD,
    scalar="_log",
    sample=(0.2, 3.0),
    cost=12,
    doc="The natural logarithm.",
)

unary(
    "log2",
    np.log2,
    lambda x, out: (1.0 / math.log(2)) / x,
    accepts=FIELD,
    scalar="_log2",
    sample=(0.2, 3.0),
    cost=12,
    doc="The logarithm to base 2.",
)

unary(
    "log10",
    np.log10,
    lambda x, out: (1.0 / math.log(10)) / x,
    accepts=FIELD,
    scalar="_log10",
    sample=(0.2, 3.0),
    cost=12,
    doc="The logarithm to base 10.",
)

log1p: Unary = unary(
    "log1p",
    np.log1p,
    lambda x, out: 1.0 / (1.0 + x),
    accepts=FIELD,
    scalar="_log1p",
    sample=(-0.7, 3.0),
    cost=14,
    doc="log(1 + x), exact near 0.",
)


# ------------------------------------------------------------------------ trigonometry


def _root_within(x: Tensor) -> Tensor:
    """sqrt(1 - x**2); of a complex number on the side of the branch cuts that it is on."""
    if x.dtype.is_complex:
        return sqrt(1.0 - x) * sqrt(1.0 + x)
    return sqrt((1.0 - x) * (1.0 + x))


sin: Unary = unary(
    "sin",
    np.sin,
    lambda x, out: cos(x),
    accepts=FIELD,
    scalar="_sin",
    finite=True,
    cost=12,
    doc="The sine.",
)

cos: Unary = unary(
    "cos",
    np.cos,
    lambda x, out: -sin(x),
    accepts=FIELD,
    scalar="_cos",
    finite=True,
    cost=12,
    doc="The cosine.",
)

unary(
    "tan",
    np.tan,
    lambda x, out: 1.0 + out * out,
    accepts=FIELD,
    scalar="_tan",
    sample=(-1.2, 1.2),
    cost=16,
    doc="The tangent.",
)

unary(
    "arcsin",
    np.arcsin,
    lambda x, out: 1.0 / _root_within(x),
    aliases=("asin",),
    accepts=FIELD,
    scalar="_arcsin",
    sample=(-0.8, 0.8),
    cost=16,
    doc="The inverse sine.",
)

unary(
    "arccos",
    np.arccos,
    lambda x, out: -1.0 / _root_within(x),
    aliases=("acos",),
    accepts=FIELD,
    scalar="_arccos",
    sample=(-0.8, 0.8),
    cost=16,
    doc="The inverse cosine.",
)

unary(
    "arctan",
    np.arctan,
    lambda x, out: 1.0 / (1.0 + x * x),
    aliases=("atan",),
    accepts=FIELD,
    scalar="_arctan",
    finite=True,
    cost=16,
    doc="The inverse tangent.",
)


def _arctan2_partials(y: Tensor, x: Tensor, out: Tensor) -> Sequence[Slope]:
    """x / r**2 and -y / r**2, without overflow; 0 at the origin."""

    def over_square(z: Tensor) -> Tensor:
        r = hypot(x, y)
        return select(equal(r, 0), 0, (z / r) / r)

    return [lambda: over_square(x), lambda: -over_square(y)]


arctan2: Binary = binary(
    "arctan2",
    np.arctan2,
    _arctan2_partials,
    aliases=("atan2",),
    accepts=FLOATS,
    scalar="_arctan2",
    cost=20,
    doc="The angle of the point (y, x); its slopes at the origin are 0.",
)

hypot: Binary = binary(
    "hypot",
    np.hypot,
    lambda x, y, out: [lambda: _share(x, out), lambda: _share(y, out)],
    accepts=FLOATS,
    scalar="_hypot",
    finite=True,
    cost=12,
    doc="sqrt(x**2 + y**2) without overflow; its slopes at the origin are 0.",
)


def _share(x: Tensor, whole: Tensor) -> Tensor:
    """x / whole, 0 where whole is 0."""
    return select(equal(whole, 0), 0, x / whole)


_sinh: Unary = unary(
    "sinh",
    np.sinh,
    lambda x, out: cosh(x),
    accepts=FIELD,
    scalar="_sinh",
    cost=14,
    doc="The hyperbolic sine.",
)

cosh: Unary = unary(
    "cosh",
    np.cosh,
    lambda x, out: _sinh(x),
    accepts=FIELD,
    scalar="_cosh",
    cost=14,
    doc="The hyperbolic cosine.",
)

tanh: Unary = unary(
    "tanh",
    np.tanh,
    lambda x, out: 1.0 - out * out,
    accepts=FIELD,
    scalar="_tanh",
    finite=True,
    cost=14,
    doc="The hyperbolic tangent.",
)

unary(
    "arcsinh",
    np.arcsinh,
    lambda x, out: 1.0 / sqrt(x * x + 1.0),
    aliases=("asinh",),
    accepts=FIELD,
    scalar="_arcsinh",
    finite=True,
    cost=20,
    doc="The inverse hyperbolic sine.",
)

unary(
    "arccosh",
    np.arccosh,
    lambda x, out: 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)),
    aliases=("acosh",),
    accepts=FIELD,
    scalar="_arccosh",
    sample=(1.2, 3.0),
    cost=20,
    doc="The inverse hyperbolic cosine.",
)

unary(
    "arctanh",
    np.arctanh,
    lambda x, out: 1.0 / ((1.0 - x) * (1.0 + x)),
    aliases=("atanh",),
    accepts=FIELD,
    scalar="_arctanh",
    sample=(-0.8, 0.8),
    cost=20,
    doc="The inverse hyperbolic tangent.",
)


@function("deg2rad", "radians")
def deg2rad(x: TensorLike) -> Tensor:
    """Degrees as radians."""
    (degrees,) = typed_operands(np.deg2rad, x)
    return degrees * (math.pi / 180)


@function("rad2deg", "degrees")
def rad2deg(x: TensorLike) -> Tensor:
    """Radians as degrees."""
    (radians,) = typed_operands(np.rad2deg, x)
    return radians * (180 / math.pi)


# -------------------------------------------------------------- products with powers of 2

_EXPONENTS = {"float64": 3000, "float32": 300, "float16": 45}


def _ldexp_expand(node: Node) -> Tensor:
    """x times 2**n in three factors, none of which overflows."""
    x, n = node.inputs
    limit = _EXPONENTS[x.dtype.name]
    bounded = minimum(maximum(n, -limit), limit)
    first = floor_divide(bounded, 3)
    second = floor_divide(bounded - first, 2)
    third = bounded - first - second
    for part in (first, second, third):
        x = x * exp2(convert(part, x.dtype))
    return x


_ldexp: Op = elementwise(
    "ldexp",
    numpy=lambda x, n: np.ldexp(x, n),
    partials=lambda x, n, out: [lambda: _ldexp(filled(1, x), n), ZERO],
    type=lambda x, n: x,
    accepts=FLOATS | INTEGER,
    expand=_ldexp_expand,
    doc="x * 2**n for an integer n.",
)


@function("ldexp")
def ldexp(x: TensorLike, n: TensorLike) -> Tensor:
    """x * 2**n for an integer n."""
    if not type_of(n).dtype.is_integer:
        raise TypeMismatch(
            f"ldexp: the exponent is {type_of(n)}, expected an integer",
            hint="x * exp2(n) takes any n",
        )
    (mantissa,) = typed_operands(np.square, x)
    if not mantissa.dtype.is_inexact:
        mantissa = convert(mantissa, float64)
    if mantissa.type.weak:
        mantissa = convert(mantissa, mantissa.dtype)
    return _ldexp(*operands(mantissa, n, dtypes=(mantissa.dtype, int64)))


# ------------------------------------------------------------------------------- sinc


def _sinc_series_terms(n: int) -> list[float]:
    """Coefficients of the n-th derivative of sin(z) / z, in powers of z**2 after z**(n % 2)."""
    terms = []
    for k in range((n + 1) // 2, (n + 1) // 2 + 12 + n // 2):
        # (-1)^k z^(2k) / (2k + 1)!, differentiated n times
        falling = math.prod(range(2 * k - n + 1, 2 * k + 1))
        terms.append((-1) ** k * falling / math.factorial(2 * k + 1))
    return terms


def _sinc_derivative(x: Any, n: int, ops: Any) -> Any:
    """The n-th derivative of sin(pi x) / (pi x), by its series near 0 and by recurrence elsewhere.

    z f(n) + n f(n-1) = the n-th derivative of sin z; upwards that is stable for |z| > n. `ops`
    gives sin, cos and where, so that the same formula serves arrays and tensors.
    """
    z = x * math.pi
    square = z * z
    terms = _sinc_series_terms(n)
    series = square * 0.0 + terms[-1]
    for coefficient in reversed(terms[:-1]):
        series = series * square + coefficient
    if n % 2:
        series = series * z
    near = square < (1.5 + n) ** 2
    far = ops.where(near, 1.5 + n, z)
    sine, cosine = ops.sin(far), ops.cos(far)
    cycle = (sine, cosine, -sine, -cosine)
    value = sine / far
    for k in range(1, n + 1):
        value = (cycle[k % 4] - k * value) / far
    return ops.where(near, series, value) * math.pi**n


class _TensorOps:
    """What `_sinc_derivative` needs, on tensors."""

    @staticmethod
    def sin(x: Tensor) -> Tensor:
        return sin(x)

    @staticmethod
    def cos(x: Tensor) -> Tensor:
        return cos(x)

    @staticmethod
    def where(condition: Tensor, x: TensorLike, y: TensorLike) -> Tensor:
        return select(condition, x, y)


_sinc: Op = elementwise(
    "sinc",
    numpy=lambda x, *, n: _sinc_derivative(np.asarray(x), n, np),
    partials=lambda x, n, out: [lambda: _sinc(x, n=n + 1)],
    type=lambda x, *, n: x,
    accepts=FLOATS,
    expand=lambda node: _sinc_derivative(node.inputs[0], node.attrs.n, _TensorOps),
    finite=True,
    cost=40,
    doc="The n-th derivative of sin(pi x) / (pi x), exact near 0.",
)


@function("sinc")
def sinc(x: TensorLike) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0; its derivatives are exact near 0."""
    return _sinc(*typed_operands(np.sin, x), n=0)

"""Special functions of `scipy.special` and the logistic curve, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.errors import TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.elementary import exp, exp2, log, log1p
from gradc.ops.elementwise import (
    Binary,
    Unary,
    absolute,
    binary,
    divide,
    equal,
    filled,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    logical_and,
    logical_not,
    maximum,
    negative_op,
    select,
    typed_operands,
    unary,
)
from gradc.ops.functions import TensorLike, function
from gradc.ops.registry import FLOATS, ZERO, Op, Slope, elementwise

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "gammaln",
    "log_sigmoid",
    "logaddexp",
    "ndtr",
    "polygamma",
    "sigmoid",
    "softplus",
    "xlog1py",
    "xlogy",
]


def _special(
    name: str,
    numpy: Callable[..., Any],
    partial: Callable[[Tensor, Tensor], Tensor],
    *,
    doc: str,
    finite: bool = False,
    sample: tuple[float, float] = (-2.0, 2.0),
    cost: int = 30,
    aliases: Sequence[str] = (),
) -> Unary:
    """An op and a function for a function of one operand in scipy.special."""
    op = elementwise(
        name,
        numpy=numpy,
        partials=lambda x, out: [lambda: partial(x, out)],
        accepts=FLOATS,
        text=lambda node, args: f"_{name}({args[0]})",
        scalar=f"_{name}",
        finite=finite,
        sample=sample,
        cost=cost,
        doc=doc,
    )

    def call(x: TensorLike) -> Tensor:
        return op(*typed_operands(np.exp, x))

    call.__doc__ = doc
    call.__name__ = name
    function(name, *aliases)(call)
    return call


# ------------------------------------------------- logistic curve, sums of exponentials


def decay(x: Tensor) -> Tensor:
    """exp(-|x|): what the stable forms of softplus(x), sigmoid(x) and sigmoid(-x) share."""
    while x.op is negative_op:
        x = x.inputs[0]
    return exp(-absolute(x))


def sigmoid_values(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return (np.where(x >= 0, 1, e) / (1 + e)).astype(np.asarray(x).dtype)


def _sigmoid_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    e = decay(x)
    return select(greater_equal(x, 0), 1, e) / (1.0 + e)


sigmoid: Unary = unary(
    "sigmoid",
    np.exp,
    lambda x, out: out * sigmoid(-x),  # 1 - out would lose the right tail
    numpy=sigmoid_values,
    aliases=("expit",),
    expand=_sigmoid_expand,
    finite=True,
    cost=16,
    doc="1 / (1 + exp(-x)), without overflow.",
)


def softplus_values(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


softplus: Unary = unary(
    "softplus",
    np.exp,
    lambda x, out: sigmoid(x),
    numpy=softplus_values,
    expand=lambda node: maximum(node.inputs[0], 0) + log1p(decay(node.inputs[0])),
    finite=True,
    cost=26,
    doc="log(1 + exp(x)), without overflow.",
)


def _difference(x: Tensor, y: Tensor) -> Tensor:
    """x - y, 0 where both are the same infinity."""
    return select(logical_and(equal(x, y), isinf(x)), 0, x - y)


def _log_sum_partials(
    x: Tensor, y: Tensor, out: Tensor, base: float
) -> Sequence[Slope]:
    """The shares of both terms in the sum; 0 where the sum is empty (both are -inf)."""

    def share(d: Tensor) -> Tensor:
        return select(equal(out, -np.inf), 0, sigmoid(d * base))

    return [lambda: share(_difference(x, y)), lambda: share(_difference(y, x))]


def _logaddexp_expand(node: Node) -> Tensor:
    x, y = node.inputs
    return maximum(x, y) + log1p(decay(_difference(x, y)))


def _logaddexp2_expand(node: Node) -> Tensor:
    x, y = node.inputs
    e = exp2(-absolute(_difference(x, y)))
    return maximum(x, y) + log1p(e) * (1.0 / math.log(2))


logaddexp: Binary = binary(
    "logaddexp",
    np.logaddexp,
    lambda x, y, out: _log_sum_partials(x, y, out, 1.0),
    accepts=FLOATS,
    expand=_logaddexp_expand,
    finite=True,
    cost=26,
    doc="log(exp(x) + exp(y)), without overflow.",
)

binary(
    "logaddexp2",
    np.logaddexp2,
    lambda x, y, out: _log_sum_partials(x, y, out, math.log(2)),
    accepts=FLOATS,
    expand=_logaddexp2_expand,
    finite=True,
    cost=26,
    doc="log2(2**x + 2**y), without overflow.",
)


# ------------------------------------------------------------- the normal distribution


erf = _special(
    "erf",
    arraylib._erf,
    lambda x, out: exp(-(x * x)) * (2.0 / math.sqrt(math.pi)),
    finite=True,
    doc="The error function.",
)

erfc = _special(
    "erfc",
    arraylib._erfc,
    lambda x, out: exp(-(x * x)) * (-2.0 / math.sqrt(math.pi)),
    finite=True,
    doc="1 - erf(x), exact in its right tail.",
)

ndtr = _special(
    "ndtr",
    arraylib._ndtr,
    lambda x, out: exp(x * x * -0.5) * (1.0 / math.sqrt(2 * math.pi)),
    finite=True,
    doc="The distribution function of the standard normal distribution.",
)


# --------------------------------------------------------------------- gamma functions

gammaln = _special(
    "gammaln",
    arraylib._gammaln,
    lambda x, out: digamma(x),
    sample=(0.5, 4.0),
    cost=40,
    doc="log |gamma(x)|.",
)

digamma: Unary = _special(
    "digamma",
    arraylib._digamma,
    lambda x, out: _polygamma(x, filled(1, x)),
    sample=(0.5, 4.0),
    cost=40,
    aliases=("psi",),
    doc="The derivative of gammaln.",
)


_polygamma: Op = elementwise(
    "polygamma",
    numpy=arraylib._polygamma,
    partials=lambda x, n, out: [lambda: _polygamma(x, n + 1), ZERO],
    accepts=FLOATS,
    text=lambda node, args: f"_polygamma({args[0]}, {args[1]})",
    scalar="_polygamma",
    sample=(0.5, 4.0),
    cost=80,
    doc="The derivative number n of digamma; its operands are x and then n, a whole number.",
)


@function("polygamma")
def polygamma(n: int, x: TensorLike) -> Tensor:
    """The derivative number `n` (from 0, known at compile time) of digamma."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise TypeMismatch(f"polygamma: n must be an int that is not negative, got {n}")
    (tensor,) = typed_operands(np.exp, x)
    return digamma(tensor) if n == 0 else _polygamma(tensor, filled(n, tensor))


@function("betaln")
def betaln(a: TensorLike, b: TensorLike) -> Tensor:
    """log |beta(a, b)|."""
    x, y = typed_operands(np.logaddexp, a, b)
    return gammaln(x) + gammaln(y) - gammaln(x + y)


# --------------------------------------------------------------------------- entropies


def _no_term(x: Tensor, y: Tensor) -> Tensor:
    """Where a product x log y is 0 because x is, whatever log y is."""
    return logical_and(equal(x, 0), logical_not(isnan(y)))


def _numpy_term(x: Any, y: Any, logarithm: np.ufunc) -> Any:
    return np.where((x == 0) & ~np.isnan(y), x * 0, x * logarithm(y))


def _log_slope(x: Tensor, logarithm: Tensor) -> Tensor:
    """The logarithm, but 0 where it is not finite and x is 0."""
    empty = logical_and(equal(x, 0), logical_not(isfinite(logarithm)))
    return select(empty, 0, logarithm)


def _xlogy_expand(node: Node) -> Tensor:
    x, y = node.inputs
    return select(_no_term(x, y), 0, x * log(y))


def _xlog1py_expand(node: Node) -> Tensor:
    x, y = node.inputs
    return select(_no_term(x, y), 0, x * log1p(y))


_xlogy = elementwise(
    "xlogy",
    numpy=lambda x, y: _numpy_term(x, y, np.log),
    partials=lambda x, y, out: [
        lambda: _log_slope(x, log(y)),
        lambda: select(equal(x, 0), 0, x / y),
    ],
    accepts=FLOATS,
    expand=_xlogy_expand,
    sample=(0.2, 3.0),
    cost=14,
    doc="x log y, 0 where x is 0.",
)

_xlog1py = elementwise(
    "xlog1py",
    numpy=lambda x, y: _numpy_term(x, y, np.log1p),
    partials=lambda x, y, out: [
        lambda: _log_slope(x, log1p(y)),
        lambda: select(equal(x, 0), 0, x / (1.0 + y)),
    ],
    accepts=FLOATS,
    expand=_xlog1py_expand,
    sample=(0.2, 3.0),
    cost=16,
    doc="x log(1 + y), 0 where x is 0.",
)


@function("xlogy")
def xlogy(x: TensorLike, y: TensorLike) -> Tensor:
    """x log y, 0 where x is 0; there its slopes are log y where that is finite, else 0, and 0."""
    return _xlogy(*typed_operands(np.logaddexp, x, y))


@function("xlog1py")
def xlog1py(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(1 + y), 0 where x is 0, with slopes as those of `xlogy`."""
    return _xlog1py(*typed_operands(np.logaddexp, x, y))


@function("entr")
def entr(x: TensorLike) -> Tensor:
    """-x log x; 0 at 0 and -inf below."""
    (tensor,) = typed_operands(np.exp, x)
    return select(greater(0, tensor), -np.inf, -_xlogy(tensor, tensor))


def _relative(x: Tensor, y: Tensor) -> Tensor:
    """x log(x / y) for positive x and y, 0 for x = 0 <= y, else inf."""
    inside = logical_and(greater(x, 0), greater(y, 0))
    edge = logical_and(equal(x, 0), logical_not(greater(0, y)))
    ratio = divide(select(inside, x, 1), select(inside, y, 1))
    return select(inside, x * log(ratio), select(edge, filled(0, x), np.inf))


@function("rel_entr")
def rel_entr(x: TensorLike, y: TensorLike) -> Tensor:
    """x log(x / y) for positive x and y, 0 for x = 0 <= y, else inf."""
    a, b = typed_operands(np.logaddexp, x, y)
    unknown = logical_not(logical_and(equal(a, a), equal(b, b)))
    return select(unknown, np.nan, _relative(a, b))


@function("kl_div")
def kl_div(x: TensorLike, y: TensorLike) -> Tensor:
    """rel_entr(x, y) - x + y."""
    a, b = typed_operands(np.logaddexp, x, y)
    found = rel_entr(a, b)
    return select(equal(found, np.inf), np.inf, found - a + b)


# --------------------------------------------------------------------- logistic curves


@function("logit")
def logit(x: TensorLike) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid."""
    (tensor,) = typed_operands(np.exp, x)
    return log(tensor) - log1p(-tensor)


def _log_sigmoid_numpy(x: Any) -> Any:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


_log_sigmoid = elementwise(
    "log_sigmoid",
    numpy=_log_sigmoid_numpy,
    partials=lambda x, out: [lambda: sigmoid(-x)],
    accepts=FLOATS,
    expand=lambda node: -softplus(-node.inputs[0]),
    finite=True,
    cost=26,
    doc="log(sigmoid(x)), without overflow.",
)


@function("log_sigmoid", "log_expit")
def log_sigmoid(x: TensorLike) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return _log_sigmoid(*typed_operands(np.exp, x))

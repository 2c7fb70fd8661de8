"""What is known of the elements of tensors: an interval analysis.

Two questions are asked of it. What holds whatever the inputs are (`trust=False`: they may be
infinite or NaN); and what holds where the inputs are finite and arithmetic on them does not
overflow (`trust=True`: sums, products and small powers of finite values count as finite; `exp`, a
division by what may be tiny, a narrowing cast and all of float16 do not).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradc.graph import Node, Tensor
from gradc.types import DType, is_nonnegative, size_of

__all__ = ["UNKNOWN", "Range", "Ranges"]

INF = math.inf
COUNT = 2.0**63
"""More elements than an axis can have."""
SMALL_POWER = 8
"""Exponents up to this are no cause of overflow in `trust`."""


class Range(NamedTuple):
    """The elements of a tensor lie in `low` .. `high`, where they are not NaN; `nan`: they may be.
    Of complex numbers both parts do.

    `zero` says that elements may be exactly 0 by structure: selected, placed, compared, a constant.
    `generic` says that they vary with continuous data and are not: a sum with them, or a function
    of them that crosses 0, is 0 by accident alone.
    """

    low: float = -INF
    high: float = INF
    nan: bool = True
    zero: bool = True
    generic: bool = False

    @property
    def finite(self) -> bool:
        """No element is infinite or NaN."""
        return not self.nan and self.low > -INF and self.high < INF

    @property
    def nonzero(self) -> bool:
        """No element is 0."""
        return self.low > 0 or self.high < 0


UNKNOWN = Range()


class _Float(NamedTuple):
    """A floating-point type: its largest number, one above those that underflow, a safe smallest
    one to divide by, exp's limit, how far a result may be beyond its bounds (relatively), and
    whether arithmetic is trusted not to overflow."""

    largest: float
    smallest: float
    divisor: float
    exponent: float
    slack: float
    trusted: bool


FLOATS: dict[str, _Float] = {
    "float64": _Float(float(np.finfo("f8").max), 1e-300, 1e-30, 700.0, 1e-5, True),
    "float32": _Float(float(np.finfo("f4").max), 1e-37, 1e-12, 88.0, 1e-5, True),
    "float16": _Float(float(np.finfo("f2").max), 1e-4, 1e-2, 11.0, 1e-2, False),
}
FLOATS["complex128"] = FLOATS["float64"]
FLOATS["complex64"] = FLOATS["float32"]


class Ranges:
    """The ranges of tensors, each derived when it is asked for, and once.

    `sure` has those that hold whatever the inputs are, `calm` those that hold where `exp` does not
    overflow either.
    """

    def __init__(self, trust: bool, *, calm: bool = False) -> None:
        self.trust = trust
        self.is_calm = calm
        self.known: dict[Tensor, Range] = {}

    @cached_property
    def sure(self) -> Ranges:
        return Ranges(trust=False)

    @cached_property
    def calm(self) -> Ranges:
        return Ranges(trust=True, calm=True)

    def of(self, tensor: Tensor) -> Range:
        """The range of a tensor."""
        known = self.known
        if tensor not in known:
            stack = [tensor.node]
            while stack:
                node = stack[-1]
                missing = [t.node for t in node.inputs if t not in known]
                if missing:
                    stack += missing
                else:
                    stack.pop()
                    if node.outputs[0] not in known:
                        self._derive(node)
        return known[tensor]

    def _derive(self, node: Node) -> None:
        known = self.known
        operands = [known[t] for t in node.inputs]
        name = node.op.name
        if len(node.outputs) > 1:
            found = operands if name == "gate" else [UNKNOWN] * len(node.outputs)
            known.update(zip(node.outputs, found, strict=True))
            return
        output = node.outputs[0]
        dtype = output.type.dtype
        range = UNKNOWN
        if dtype.is_inexact:
            rule = (COMPLEX if dtype.is_complex else RULES).get(name)
            if rule is not None:
                range = rule(_Case(node, FLOATS[dtype.name], self), *operands)
        else:
            range = _integers(node, dtype)
        known[output] = range


class _Case(NamedTuple):
    """A node whose range is derived: its floating-point type, and the analysis it is part of."""

    node: Node
    kind: _Float
    ranges: Ranges

    def range(
        self,
        low: float,
        high: float,
        nan: bool,
        zero: bool,
        generic: bool,
        *,
        trusted: bool = False,
    ) -> Range:
        """Bounds as the float type can hold them, with room for rounding; `trusted` ones do not
        overflow."""
        kind = self.kind
        low -= abs(low) * kind.slack
        high += abs(high) * kind.slack
        if 0 < low < kind.smallest:
            low = 0.0
        if -kind.smallest < high < 0:
            high = 0.0
        largest = kind.largest
        beyond = largest if trusted else INF
        if not low >= -largest:  # or NaN
            low = -beyond
        elif low > largest:
            low = largest
        if not high <= largest:
            high = beyond
        elif high < -largest:
            high = -largest
        return Range(low, high, nan, zero and not (low > 0 or high < 0), generic)

    def arithmetic(
        self,
        low: float,
        high: float,
        nan: bool,
        zero: bool,
        generic: bool,
        *operands: Range,
    ) -> Range:
        """The range of a sum or product, which in `trust` overflows only where an operand may."""
        trusted = (
            self.ranges.trust
            and self.kind.trusted
            and not any(map(_is_infinite, operands))
        )
        return self.range(low, high, nan, zero, generic, trusted=trusted)


Rule: TypeAlias = "Callable[..., Range]"


def _integers(node: Node, dtype: DType) -> Range:
    if dtype.is_bool:
        return Range(0.0, 1.0, False)
    if node.op.name == "constant":
        return _array(node.attrs.value.array)
    if node.op.name in ("dim", "iota") and dtype.bits == 64:
        return Range(0.0 if node.op.name == "iota" else -COUNT, COUNT, False)
    info = np.iinfo(dtype.name)
    return Range(float(info.min), float(info.max), False)


def _array(values: np.ndarray[Any, Any]) -> Range:
    if not values.size:
        return Range(0.0, 0.0, False)
    if values.dtype.kind == "c":
        parts = _array(np.stack([values.real, values.imag]))
        return parts._replace(zero=bool((values == 0).any()))
    missing = np.isnan(values)
    nan = bool(missing.any())
    if nan and missing.all():
        return UNKNOWN
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return Range(low, high, nan, bool((values == 0).any()))


# ----------------------------------------------------------------------------- leaves


def _input(case: _Case) -> Range:
    if case.ranges.trust:
        return Range(-case.kind.largest, case.kind.largest, False, False, True)
    return Range(-INF, INF, True, False, True)


def _dim(case: _Case) -> Range:
    low = 0.0 if case.node.op.name == "iota" else -COUNT
    high = COUNT if case.kind.largest > COUNT else INF
    return Range(max(low, -high), high, False)


# ------------------------------------------------------------------------- index maps


def _same(case: _Case, a: Range, *rest: Range) -> Range:
    return a


def _union(*parts: Range) -> Range:
    """What may be of any of the parts."""
    return Range(
        min(p.low for p in parts),
        max(p.high for p in parts),
        any(p.nan for p in parts),
        any(p.zero for p in parts),
        all(p.generic for p in parts),
    )


def _joined(case: _Case, *parts: Range) -> Range:
    return _union(*parts)


def _embed(case: _Case, a: Range) -> Range:
    attrs = case.node.attrs
    fill = float(attrs.fill) if "fill" in attrs else 0.0
    return _union(a, _array(np.asarray(fill)))


def _updated(case: _Case, x: Range, v: Range, *indices: Range) -> Range:
    return _union(x, v)


def _scatter_add(case: _Case, a: Range, *indices: Range) -> Range:
    total = _sum(case, a)
    return _union(total, _array(np.zeros(())))


def _select(case: _Case, condition: Range, x: Range, y: Range) -> Range:
    return _union(x, y)


def _cast(case: _Case, a: Range) -> Range:
    if case.node.out.dtype.is_complex and not case.node.inputs[0].dtype.is_complex:
        return a._replace(low=min(a.low, 0.0), high=max(a.high, 0.0))
    if case.node.inputs[0].type.dtype.is_inexact:
        return case.range(a.low, a.high, a.nan, a.zero, a.generic)
    return case.range(a.low, a.high, False, True, False)


# ------------------------------------------------------------------------- arithmetic


def _add(case: _Case, *terms: Range) -> Range:
    """a + b + ...: 0 by accident alone where a term is generic.

    Two terms may cancel (x - where(m, x, 0)), but then both see the data: a NaN shows."""
    low, high = terms[0].low, terms[0].high
    nan = terms[0].nan
    for t in terms[1:]:
        nan |= (
            t.nan or (high == INF and t.low == -INF) or (low == -INF and t.high == INF)
        )
        low, high = low + t.low, high + t.high
    generic = any(t.generic for t in terms)
    return case.arithmetic(low, high, nan, not generic, generic, *terms)


def _opposite(a: Range) -> Range:
    return Range(-a.high, -a.low, a.nan, a.zero, a.generic)


def _subtract(case: _Case, a: Range, b: Range) -> Range:
    found = _add(case, a, _opposite(b))
    if found.high > 0 and _largest(case.node, case.ranges) is not None:
        return found._replace(high=0.0)
    return found


def _negative(case: _Case, a: Range) -> Range:
    return _opposite(a)


def _absolute(case: _Case, a: Range) -> Range:
    if case.node.inputs[0].dtype.is_complex:
        high = 1.5 * max(abs(a.low), abs(a.high))
        return case.arithmetic(0.0, high, a.nan, a.zero, a.generic, a)
    low = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Range(low, max(abs(a.low), abs(a.high)), a.nan, a.zero, a.generic)


def _corner(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _is_infinite(a: Range) -> bool:
    return a.low == -INF or a.high == INF


def _multiply(case: _Case, a: Range, b: Range) -> Range:
    nan = a.nan or b.nan
    nan |= _is_infinite(b) and a.low <= 0 <= a.high
    nan |= _is_infinite(a) and b.low <= 0 <= b.high
    return _product(case, a, b, nan)


def _pull(case: _Case, g: Range, slope: Range) -> Range:
    nan = g.nan or slope.nan or (_is_infinite(g) and slope.low <= 0 <= slope.high)
    return _product(case, g, slope, nan)


def _product(case: _Case, a: Range, b: Range, nan: bool) -> Range:
    corners = (
        _corner(a.low, b.low),
        _corner(a.low, b.high),
        _corner(a.high, b.low),
        _corner(a.high, b.high),
    )
    low, high = min(corners), max(corners)
    x, y = case.node.inputs
    if x is y and case.node.op.elementwise:
        low = max(low, 0.0)
    zero = a.zero or b.zero
    generic = not zero and (a.generic or b.generic)
    return case.arithmetic(low, high, nan, zero, generic, a, b)


def _divide(case: _Case, a: Range, b: Range) -> Range:
    zero = a.zero
    generic = not zero and (a.generic or b.generic)
    if b.low <= 0 <= b.high:
        return Range(zero=zero, generic=generic)
    nan = a.nan or b.nan or (_is_infinite(a) and _is_infinite(b))
    corners = [
        0.0 if math.isinf(y) else x / y
        for x in (a.low, a.high)
        for y in (b.low, b.high)
    ]
    low, high = min(corners), max(corners)
    if min(abs(b.low), abs(b.high)) >= case.kind.divisor:
        return case.arithmetic(low, high, nan, zero, generic, a)
    return case.range(low, high, nan, zero, generic)


def _power(case: _Case, a: Range, b: Range) -> Range:
    zero = a.zero
    generic = not zero and (a.generic or b.generic)
    if b.low != b.high or b.nan or math.isinf(b.low):
        positive = a.low >= 0 and not a.nan
        return Range(0.0 if positive else -INF, INF, True, zero, generic)
    p = b.low
    whole = p == int(p)
    if p == 0:
        return Range(1.0, 1.0, False, False, False)
    if p > 0 and (whole or a.low >= 0):
        even = whole and p % 2 == 0
        ends = _absolute(case, a) if even else a
        low, high = _raised(ends.low, p), _raised(ends.high, p)
        if p <= SMALL_POWER:
            return case.arithmetic(low, high, a.nan, zero, generic, a)
        return case.range(low, high, a.nan, zero, generic)
    if p < 0 and a.low > 0:
        low, high = _raised(a.high, p), _raised(a.low, p)
        return case.range(low, high, a.nan, zero, generic)
    return Range(-INF, INF, True, zero, generic)


def _raised(x: float, p: float) -> float:
    try:
        return float(x**p)
    except (OverflowError, ZeroDivisionError):
        return INF if x > 0 or p % 2 == 0 else -INF


# ------------------------------------------------------------------------------- sums


def _sum(case: _Case, a: Range) -> Range:
    nan = a.nan or (a.low == -INF and a.high == INF)
    low = 0.0 if a.low >= 0 else a.low * COUNT
    high = 0.0 if a.high <= 0 else a.high * COUNT
    return case.arithmetic(low, high, nan, a.zero, a.generic, a)


def _reduce_sum(case: _Case, a: Range) -> Range:
    total = _sum(case, a)
    x, axes = case.node.inputs[0], case.node.attrs.axes
    if is_nonnegative(size_of(x.shape[k] for k in axes) - 1):
        return _filled(case, case.node, total)
    return total


def _filled(case: _Case, node: Node, total: Range) -> Range:
    """The range of a sum over axes that are not empty."""
    if total.low < 1 and _holds_a_one(node, case.ranges):
        return total._replace(low=1.0 - case.kind.slack, zero=False)
    return total


def _broadcast(case: _Case, a: Range) -> Range:
    """A sum, or the logarithm of one, that is repeated along the axes it was taken over: where it
    has elements, these are not empty."""
    x = case.node.inputs[0].node
    total = x.inputs[0].node if x.op.name == "log" else x
    if total.op.name != "reduce_sum" or total.attrs.axes != case.node.attrs.along:
        return a
    found = _filled(case, total, case.ranges.of(total.outputs[0]))
    return found if total is x else RULES["log"](case, found)


def _contract(case: _Case, a: Range, b: Range) -> Range:
    product = _multiply(case, a, b)
    nan = product.nan or (product.low == -INF and product.high == INF)
    low = 0.0 if product.low >= 0 else product.low * COUNT
    high = 0.0 if product.high <= 0 else product.high * COUNT
    return case.arithmetic(low, high, nan, product.zero, product.generic, a, b)


def _largest(node: Node, ranges: Ranges) -> Node | None:
    """The maximum m of x over some axes where `node` is x - m, with 0 in the place of an
    infinite m (as softmax has it); x - m is at most 0 where x is not NaN or infinitely large."""
    x, shift = node.inputs
    if shift.op.name != "broadcast":
        return None
    guarded = shift.inputs[0]
    if guarded.op.name != "select":
        return None
    condition, largest, _ = guarded.inputs
    if condition.op.name != "isfinite" or condition.inputs[0] is not largest:
        return None
    if largest.op.name != "reduce_max" or largest.inputs[0] is not x:
        return None
    if largest.attrs.axes != shift.attrs.along:
        return None
    known = ranges.of(x)
    return None if known.nan or known.high == INF else largest.node


def _holds_a_one(node: Node, ranges: Ranges) -> bool:
    """Whether the terms of a sum are exp(x - m), of which the largest is 1."""
    terms = node.inputs[0]
    if terms.op.name != "exp" or terms.inputs[0].op.name != "subtract":
        return False
    shifted = terms.inputs[0]
    largest = _largest(shifted.node, ranges)
    if largest is None or largest.attrs.axes != node.attrs.axes:
        return False
    return ranges.of(shifted.inputs[0]).finite


# -------------------------------------------------------------------------- functions


def _bounded(low: float, high: float, at_zero: bool) -> Rule:
    """A function with values in low .. high that is 0 at 0 alone (`at_zero`), or crosses 0."""

    def rule(case: _Case, a: Range, *rest: Range) -> Range:
        nan = a.nan or any(b.nan for b in rest)
        zero = a.zero if at_zero else not a.generic
        return case.range(low, high, nan, zero, a.generic)

    return rule


def _wave(case: _Case, a: Range) -> Range:
    zero = a.zero if case.node.op.name == "sin" else not a.generic
    return case.range(-1.0, 1.0, a.nan or _is_infinite(a), zero, a.generic)


def _positive(low: float, high: float) -> Rule:
    """A function that is positive, but for underflow."""

    def rule(case: _Case, a: Range) -> Range:
        return case.range(low, high, a.nan, False, a.generic)

    return rule


def _sign(case: _Case, a: Range) -> Range:
    return Range(-1.0, 1.0, a.nan, a.zero or not a.generic)


def _heaviside(case: _Case, a: Range, b: Range) -> Range:
    return Range(min(0.0, b.low), max(1.0, b.high), a.nan or b.nan)


def _sinh(case: _Case, a: Range) -> Range:
    limit = case.kind.exponent
    low = math.sinh(min(a.low, limit)) if a.low > -limit else -INF
    high = math.sinh(max(a.high, -limit)) if a.high < limit else INF
    return case.range(low, high, a.nan, a.zero, a.generic)


def _exp(function: Callable[[float], float], scale: float, less: float) -> Rule:
    """exp, exp2 and expm1: function(x), which is about exp(scale * x) - less."""

    def rule(case: _Case, a: Range) -> Range:
        limit = case.kind.exponent / scale
        high = function(a.high) if a.high < limit else INF
        low = -less if a.low < -limit else function(min(a.low, limit))
        zero = a.zero if less else False
        calm = case.ranges.is_calm
        return case.range(low, high, a.nan, zero, a.generic, trusted=calm)

    return rule


def _log(function: Callable[[float], float], start: float, at_zero: bool) -> Rule:
    """A logarithm: of what is above `start`; -inf there, NaN below."""

    def rule(case: _Case, a: Range) -> Range:
        nan = a.nan or a.low < start
        low = function(a.low) if start < a.low < INF else -INF
        high = function(a.high) if start < a.high < INF else INF
        zero = a.zero if at_zero else not a.generic
        return case.range(low, high, nan, zero, a.generic)

    return rule


def _sqrt(case: _Case, a: Range) -> Range:
    low = math.sqrt(a.low) if a.low > 0 else 0.0
    high = math.sqrt(a.high) if 0 < a.high < INF else max(a.high, 0.0)
    return case.range(low, high, a.nan or a.low < 0, a.zero, a.generic)


def _monotone(function: Callable[[float], float]) -> Rule:
    """An increasing function that is 0 at 0 and finite where its operand is."""

    def rule(case: _Case, a: Range) -> Range:
        low = function(a.low) if math.isfinite(a.low) else a.low
        high = function(a.high) if math.isfinite(a.high) else a.high
        return case.range(low, high, a.nan, a.zero, a.generic)

    return rule


def _cosh(case: _Case, a: Range) -> Range:
    limit = case.kind.exponent
    widest = max(abs(a.low), abs(a.high))
    high = math.cosh(widest) if widest < limit else INF
    return case.range(1.0, high, a.nan, False, a.generic)


def _inside(low: float, high: float, at_zero: bool) -> Rule:
    """arcsin and arccos: NaN outside -1 .. 1."""

    def rule(case: _Case, a: Range) -> Range:
        nan = a.nan or a.low < -1 or a.high > 1
        return case.range(
            low, high, nan, a.zero if at_zero else not a.generic, a.generic
        )

    return rule


def _hypot(case: _Case, a: Range, b: Range) -> Range:
    x, y = _absolute(case, a), _absolute(case, b)
    # the hypotenuse of an infinite side is infinite, whatever the other is
    return case.arithmetic(
        max(x.low, y.low),
        x.high + y.high,
        a.nan or b.nan,
        a.zero and b.zero,
        a.generic or b.generic,
        a,
        b,
    )


def _extremum(case: _Case, a: Range, b: Range) -> Range:
    name = case.node.op.name
    pick = max if name in ("maximum", "fmax") else min
    low, high = pick(a.low, b.low), pick(a.high, b.high)
    nan = a.nan or b.nan
    if name in ("fmax", "fmin"):
        nan = a.nan and b.nan
        if a.nan or b.nan:  # the other operand stands for a NaN
            low, high = min(a.low, b.low), max(a.high, b.high)
    zero = (a.zero or b.zero) and not (low > 0 or high < 0)
    return Range(low, high, nan, zero, a.generic and b.generic)


def _rounded(case: _Case, a: Range) -> Range:
    return case.range(a.low - 1, a.high + 1, a.nan, True, False)


def _copysign(case: _Case, a: Range, b: Range) -> Range:
    widest = max(abs(a.low), abs(a.high))
    return Range(-widest, widest, a.nan, a.zero, a.generic)


# -------------------------------------------------------------------- complex numbers


def _part(case: _Case, z: Range) -> Range:
    """A part of what is given varies as that does; any other part may be 0 by structure."""
    if case.node.inputs[0].op.name == "input":
        return z
    return z._replace(zero=True, generic=False)


def _conj(case: _Case, z: Range) -> Range:
    widest = max(abs(z.low), abs(z.high))
    return z._replace(low=-widest, high=widest)


def _whole(case: _Case, a: Range, b: Range) -> Range:
    both = _union(a, b)
    return both._replace(zero=a.zero and b.zero, generic=a.generic or b.generic)


def _complex_product(case: _Case, a: Range, b: Range) -> Range:
    return _scaled_product(case, a, b, 2.0)


def _complex_contract(case: _Case, a: Range, b: Range) -> Range:
    return _scaled_product(case, a, b, 2.0 * COUNT)


def _scaled_product(case: _Case, a: Range, b: Range, count: float) -> Range:
    """A sum of so many products of parts."""
    widest = max(abs(a.low), abs(a.high)), max(abs(b.low), abs(b.high))
    high = count * _corner(*widest)
    nan = a.nan or b.nan or _is_infinite(a) or _is_infinite(b)
    zero = a.zero or b.zero
    generic = not zero and (a.generic or b.generic)
    return case.arithmetic(-high, high, nan, zero, generic, a, b)


def _complex_difference(case: _Case, a: Range, b: Range) -> Range:
    return _add(case, a, _opposite(b))


RULES: Mapping[str, Rule] = {
    "input": _input,
    "constant": lambda case: _array(case.node.attrs.value.array),
    "dim": _dim,
    "iota": _dim,
    **dict.fromkeys(
        (
            "copy",
            "stop_gradient",
            "prevent_gradient",
            "opaque",
            "reshape",
            "transpose",
            "slice",
            "flip",
            "diagonal",
            "window",
            "demand",
            "gather",
            "reduce_max",
            "reduce_min",
        ),
        _same,
    ),
    "broadcast": _broadcast,
    "concatenate": _joined,
    "embed": _embed,
    "embed_diagonal": _embed,
    "update_slice": _updated,
    "scatter_set": _updated,
    "scatter_add": _scatter_add,
    "fold": _scatter_add,
    "select": _select,
    "cast": _cast,
    "add": _add,
    "add_n": _add,
    "subtract": _subtract,
    "negative": _negative,
    "absolute": _absolute,
    "multiply": _multiply,
    "pull": _pull,
    "divide": _divide,
    "power": _power,
    "reduce_sum": _reduce_sum,
    "cumsum": _sum,
    "contract": _contract,
    "tanh": _bounded(-1.0, 1.0, True),
    "erf": _bounded(-1.0, 1.0, True),
    "arctan": _bounded(-math.pi / 2, math.pi / 2, True),
    "arctan2": _bounded(-math.pi, math.pi, True),
    "sin": _wave,
    "cos": _wave,
    "erfc": _positive(0.0, 2.0),
    "ndtr": _positive(0.0, 1.0),
    "sign": _sign,
    "heaviside": _heaviside,
    "exp": _exp(math.exp, 1.0, 0.0),
    "exp2": _exp(lambda x: 2.0**x, math.log(2), 0.0),
    "expm1": _exp(math.expm1, 1.0, 1.0),
    "sinh": _sinh,
    "cosh": _cosh,
    "log": _log(math.log, 0.0, False),
    "log2": _log(math.log2, 0.0, False),
    "log10": _log(math.log10, 0.0, False),
    "log1p": _log(math.log1p, -1.0, True),
    "sqrt": _sqrt,
    "cbrt": _monotone(lambda x: math.copysign(abs(x) ** (1 / 3), x)),
    "arcsinh": _monotone(math.asinh),
    "arcsin": _inside(-math.pi / 2, math.pi / 2, True),
    "arccos": _inside(0.0, math.pi, False),
    "hypot": _hypot,
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _extremum),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint"), _rounded),
    "copysign": _copysign,
    "real": _part,
    "imag": _part,
}

COMPLEX: Mapping[str, Rule] = {
    **{name: RULES[name] for name in ("input", "constant", "add", "add_n", "negative")},
    **{name: RULES[name] for name in ("select", "cast", "reduce_sum", "cumsum")},
    **{name: rule for name, rule in RULES.items() if rule in (_same, _joined, _embed)},
    **{name: rule for name, rule in RULES.items() if rule in (_updated, _scatter_add)},
    "subtract": _complex_difference,
    "conj": _conj,
    "complex": _whole,
    "multiply": _complex_product,
    "pull": _complex_product,
    "contract": _complex_contract,
}
"""The rules where the result is complex."""

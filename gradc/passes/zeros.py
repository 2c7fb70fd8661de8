"""Turn strong zeros into plain products where that cannot show.

`pull(g, slope)` is 0 where g is 0, whatever the slope. It is `g * slope` wherever the slope is
finite, which an interval analysis decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gradc.graph import Graph, Node, Tensor

__all__ = ["Range", "ranges", "relax_pulls"]

INF = math.inf


@dataclass(frozen=True, slots=True)
class Range:
    """What is known of a tensor's elements: bounds, and whether NaN and infinities are excluded.

    `sure` is the same as `finite` but without the assumption that the graph's inputs are finite.
    `masked` says that elements may be 0 by structure: selected, placed or compared.
    """

    low: float = -INF
    high: float = INF
    finite: bool = False
    sure: bool = False
    masked: bool = False


UNKNOWN = Range()

PASS_ON = frozenset(
    [
        "copy",
        "stop_gradient",
        "prevent_gradient",
        "opaque",
        "broadcast",
        "reshape",
        "transpose",
        "slice",
        "flip",
        "diagonal",
        "gather",
    ]
)
PLACING = frozenset(
    [
        "embed",
        "embed_diagonal",
        "scatter_add",
        "scatter_set",
        "update_slice",
        "concatenate",
    ]
)
BOUNDED: Mapping[str, tuple[float, float]] = {
    "tanh": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "arctan": (-1.6, 1.6),
    "erf": (-1.0, 1.0),
    "erfc": (0.0, 2.0),
    "ndtr": (0.0, 1.0),
    "expit": (0.0, 1.0),
    "sigmoid": (0.0, 1.0),
    "sign": (-1.0, 1.0),
    "heaviside": (0.0, 1.0),
}
COMPARISONS = frozenset(
    [
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_not",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
    ]
)
ROUNDING = frozenset(["floor", "ceil", "trunc", "rint", "round"])


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _products(a: Range, b: Range) -> tuple[float, float]:
    corners = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(corners), max(corners)


def _both(a: Range, b: Range, low: float, high: float, masked: bool) -> Range:
    return Range(low, high, a.finite and b.finite, a.sure and b.sure, masked)


def _constant(node: Node) -> Range:
    values = node.attrs.value.array
    if not values.size or values.dtype.kind == "c":
        return UNKNOWN
    finite = bool(np.all(np.isfinite(values)))
    if not finite:
        return UNKNOWN
    return Range(
        float(values.min()), float(values.max()), True, True, bool(np.any(values == 0))
    )


def _exp(high: float) -> float:
    return math.exp(high) if high < 700 else INF


def _divide(a: Range, b: Range) -> Range:
    if b.low <= 0 <= b.high:
        return Range(masked=a.masked)
    corners = [
        x / y
        for x in (a.low, a.high)
        for y in (b.low, b.high)
        if not math.isinf(y) and not math.isinf(x)
    ]
    whole = len(corners) == 4
    low, high = (min(corners), max(corners)) if whole else (-INF, INF)
    if not whole and a.low >= 0 and b.low > 0:
        low = 0.0
        high = INF if math.isinf(a.high) else a.high / b.low
    return _both(a, b, low, high, a.masked)


def _node_range(node: Node, of: Callable[[Tensor], Range]) -> Range:
    """The range of a node's (first) output from those of its operands."""
    name = node.op.name
    if not node.inputs:
        if name == "constant":
            return _constant(node)
        if name == "input":
            exact = node.out.dtype.kind in "biu"
            return Range(finite=True, sure=exact)
        if name in ("dim", "iota"):
            return Range(
                0.0 if name == "iota" else -INF, INF, True, True, name == "iota"
            )
        return UNKNOWN
    a = of(node.inputs[0])
    if name in PASS_ON:
        return a
    if name == "cast":
        return Range(
            a.low, a.high, a.finite, a.sure, a.masked or node.inputs[0].dtype.is_bool
        )
    if name in COMPARISONS:
        return Range(0.0, 1.0, True, True, True)
    if name in PLACING:
        parts = [of(t) for t in node.inputs if t.dtype.is_inexact]
        return Range(
            min([0.0, *(p.low for p in parts)]),
            max([0.0, *(p.high for p in parts)]),
            all(p.finite for p in parts),
            all(p.sure for p in parts),
            True,
        )
    if name in BOUNDED:
        low, high = BOUNDED[name]
        masked = name in ("sign", "heaviside") or a.masked
        return Range(low, high, a.finite, a.sure, masked)
    if name == "select":
        x, y = of(node.inputs[1]), of(node.inputs[2])
        masked = x.masked or y.masked
        return _both(x, y, min(x.low, y.low), max(x.high, y.high), masked)
    if name in ("add", "subtract"):
        b = of(node.inputs[1])
        low, high = (
            (a.low + b.low, a.high + b.high)
            if name == "add"
            else (a.low - b.high, a.high - b.low)
        )
        low, high = (
            (-INF if math.isnan(low) else low),
            (INF if math.isnan(high) else high),
        )
        if _largest(node) is not None:
            high = min(high, 0.0)
        return _both(a, b, low, high, a.masked and b.masked)
    if name == "add_n":
        total = a
        for t in node.inputs[1:]:
            b = of(t)
            total = _both(
                total,
                b,
                total.low + b.low,
                total.high + b.high,
                total.masked and b.masked,
            )
        return total
    if name == "negative":
        return Range(-a.high, -a.low, a.finite, a.sure, a.masked)
    if name == "absolute":
        low = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return Range(low, max(abs(a.low), abs(a.high)), a.finite, a.sure, a.masked)
    if name in ("multiply", "pull"):
        b = of(node.inputs[1])
        if node.inputs[0] is node.inputs[1]:
            return Range(0.0, INF, a.finite, a.sure, a.masked)
        low, high = _products(a, b)
        return _both(a, b, low, high, a.masked or b.masked)
    if name == "square":
        return Range(0.0, INF, a.finite, a.sure, a.masked)
    if name == "power":
        exponent = of(node.inputs[1])
        if (
            exponent.low == exponent.high
            and exponent.low >= 1
            and exponent.low == int(exponent.low)
        ):
            low = 0.0 if exponent.low % 2 == 0 else -INF
            return Range(low, INF, a.finite, a.sure, a.masked)
        return UNKNOWN
    if name == "divide":
        return _divide(a, of(node.inputs[1]))
    if name == "exp":
        if a.high < 700:
            return Range(0.0, _exp(a.high), a.finite, a.sure)
        return Range(0.0, INF)
    if name == "log" and a.low > 0:
        return Range(math.log(a.low), INF, a.finite, a.sure, True)
    if name == "log1p" and a.low > -1:
        return Range(math.log1p(a.low), INF, a.finite, a.sure, True)
    if name == "sqrt" and a.low > 0:
        return Range(math.sqrt(a.low), INF, a.finite, a.sure)
    if name in ("maximum", "minimum"):
        b = of(node.inputs[1])
        pick = max if name == "maximum" else min
        return _both(
            a, b, pick(a.low, b.low), pick(a.high, b.high), a.masked or b.masked
        )
    if name in ROUNDING:
        return Range(a.low - 1, a.high + 1, a.finite, a.sure, True)
    if name == "reduce_sum":
        if _holds_a_one(node):
            return Range(1.0, INF, a.finite, a.sure)
        return Range(
            0.0 if a.low >= 0 else -INF,
            0.0 if a.high <= 0 else INF,
            a.finite,
            a.sure,
            a.masked,
        )
    if name in ("reduce_max", "reduce_min"):
        return a
    if name in ("contract", "cumsum"):
        b = of(node.inputs[-1])
        positive = a.low >= 0 and b.low >= 0
        return _both(a, b, 0.0 if positive else -INF, INF, a.masked or b.masked)
    return UNKNOWN


def _largest(node: Node) -> Node | None:
    """The maximum m of x's elements where `node` is x - m, with 0 for an infinite m (softmax)."""
    x, shift = node.inputs
    if node.op.name != "subtract" or shift.op.name != "broadcast":
        return None
    guarded = shift.inputs[0]
    if guarded.op.name != "select":
        return None
    condition, largest, _ = guarded.inputs
    if condition.op.name != "isfinite" or condition.inputs[0] is not largest:
        return None
    if largest.op.name != "reduce_max" or largest.inputs[0] is not x:
        return None
    return largest.node


def _holds_a_one(node: Node) -> bool:
    """Whether the terms of a sum are exp(x - m), of which the largest is 1."""
    terms = node.inputs[0]
    if terms.op.name != "exp" or terms.inputs[0].op.name != "subtract":
        return False
    largest = _largest(terms.inputs[0].node)
    return largest is not None and bool(largest.attrs.axes == node.attrs.axes)


def ranges(graph: Graph) -> dict[Tensor, Range]:
    """The range of every tensor of a graph."""
    known: dict[Tensor, Range] = {}
    for node in graph.nodes():
        first = _node_range(node, known.__getitem__)
        for k, output in enumerate(node.outputs):
            known[output] = first if k == 0 else UNKNOWN
    return known


def relax_pulls(graph: Graph) -> Graph:
    """pull(g, slope) -> g * slope where the slope is finite.

    Inputs count as finite unless g has structural zeros (what a `where`, slice or comparison did
    not select), for then a NaN of the data may be what was masked. Also pull(g, 1 / y) -> g / y
    under the same condition. Keeps types and names; idempotent.
    """
    if not any(n.op.name == "pull" for n in graph.nodes()):
        return graph
    known = ranges(graph)
    plain: set[Node] = set()
    for node in graph.nodes():
        if node.op.name == "pull":
            g, slope = (known[t] for t in node.inputs)
            nonzero = (g.low > 0 or g.high < 0) and g.sure
            if nonzero or slope.sure or (slope.finite and not g.masked):
                plain.add(node)
    # rewriting rebuilds nodes, so the decision is carried over by position
    order = [n in plain for n in graph.nodes() if n.op.name == "pull"]
    decisions = iter(order)

    def relax(node: Node) -> Tensor | None:
        if not next(decisions):
            return None
        g, slope = node.inputs
        return g * slope

    return graph.rewrite({"pull": relax})

"""Local rewrites that keep every value, but for the rounding of sums and contractions.

Each rule is a function of one node; `simplify` applies them until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from gradc.graph import (
    Data,
    Graph,
    Node,
    Tensor,
    at,
    collector_paused,
    here,
    move,
    rebuild,
    renewed,
    replace_outputs,
)
from gradc.ops.basic import (
    broadcast,
    constant,
    dim,
    reduce_sum,
    reshape,
    transpose,
)
from gradc.ops.elementwise import scalar_value
from gradc.ops.functions import convert, number
from gradc.ops.registry import Op, lookup
from gradc.passes.merge import Equals
from gradc.passes.ranges import Ranges
from gradc.passes.zeros import relax_pull
from gradc.types import Dim, Shape, int64, is_nonnegative, size_of

__all__ = ["simplify"]

EXACT_HALF = 2048
"""Whole numbers up to this are exact in float16."""
MAX_STEPS = 1000
"""Rewrites that one node of the graph may set off; rules that end don't come near it."""


def simplify(graph: Graph) -> Graph:
    """Make equal nodes one, fold constants, push broadcasts outwards, compose index maps, sums and
    contractions, turn strong zeros that can't show into products.

    Keeps values but for rounding in sums and contractions, and the first of equal nodes' name and
    place. Idempotent: what a rule answers is simplified too before anything reads it, and rules
    look at nodes and what they are computed from alone. All nodes but inputs are
    new.
    """
    settled = _Settled()
    with at(here()), collector_paused():
        for node in graph.nodes():
            settled.settle(node)
    return graph.mapped(settled.tensors)


class _Settled:
    """What stands for the tensors seen so far, in its simplest form."""

    def __init__(self) -> None:
        self.tensors: dict[Tensor, Tensor] = {}
        self.rules: dict[Op, tuple[Rule, ...]] = {}
        self.ranges = Ranges(trust=True)
        self.equals = Equals()

    def settle(self, start: Node) -> None:
        """Simplify a node whose operands are settled, and what its rules answer."""
        tensors, steps = self.tensors, 0
        answers: dict[Node, Tensor] = {}
        stack = [start]
        while stack:
            node = stack[-1]
            if node.outputs[0] in tensors:
                stack.pop()
                continue
            answer = answers.get(node)
            if answer is not None:  # which was put on the stack, and is settled by now
                self.enter(node, (tensors[answer],))
                continue
            missing = [t.node for t in node.inputs if t not in tensors]
            if missing:
                stack += missing
                continue
            operands = tuple([tensors[t] for t in node.inputs])
            fresh = (renewed if node is start else rebuild)(node, operands)
            rules = self.rules_of(node.op)
            if rules and steps < MAX_STEPS:
                move(node.place)
                for rule in rules:
                    answer = rule(fresh)
                    if answer is not None and answer is not fresh.outputs[0]:
                        break
                else:
                    answer = None
            if answer is None:
                first = self.equals.first(fresh)
                self.enter(node, first.outputs)
                self.enter(fresh, first.outputs)
            else:
                steps += 1
                answers[node] = answer
                stack.append(answer.node)

    def enter(self, node: Node, results: tuple[Tensor, ...]) -> None:
        replace_outputs(node, results, self.tensors)

    def rules_of(self, op: Op) -> tuple[Rule, ...]:
        """The rules by an op's name; elementwise ops share some."""
        rules = self.rules.get(op)
        if rules is None:
            shared = ELEMENTWISE if op.elementwise else ()
            rules = self.rules[op] = (
                *RULES.get(op.name, ()),
                *[_bound(rule, self.ranges) for rule in RANGED.get(op.name, ())],
                *shared,
            )
        return rules


def _bound(rule: RangedRule, ranges: Ranges) -> Rule:
    return lambda node: rule(node, ranges)


# ------------------------------------------------------------------------ constants


def _filled(value: Any, like: Tensor) -> Tensor:
    fresh = number(value, like.dtype)
    if not like.shape:
        return fresh
    return broadcast(fresh, shape=like.shape, along=tuple(range(like.ndim)))


def fold(node: Node) -> Tensor | None:
    """op(constants of rank 0) -> constant; one whose evaluation fails is left to fail at a call."""
    if not node.inputs or node.outputs[0].type.shape:
        return None
    for t in node.inputs:
        if t.node.op is not constant:
            return None
    values = [t.attrs.value.array for t in node.inputs]
    try:
        with np.errstate(all="ignore"):
            value = node.op.evaluate(*values, **node.attrs.as_dict())
    except (ValueError, ArithmeticError):  # an integer to a negative power
        return None
    data = Data(np.asarray(value, dtype=node.out.dtype.name))
    return constant(value=data, weak=node.out.type.weak)


def fold_cast(node: Node) -> Tensor | None:
    """cast(dim) -> dim of that dtype; cast(broadcast) -> broadcast(cast); a cast to itself -> x."""
    x = node.inputs[0]
    dtype, weak = node.out.dtype, node.out.type.weak
    if x.type == node.out.type:
        return x
    if x.op is dim and not weak and x.dtype is int64 and dtype.is_float:
        return dim(value=x.attrs.value, dtype=dtype, weak=False)
    if x.op is broadcast and not weak:
        inner = convert(x.inputs[0], dtype)
        assert isinstance(inner, Tensor)
        return broadcast(inner, shape=x.attrs.shape, along=x.attrs.along)
    return None


def drop_neutral(node: Node) -> Tensor | None:
    """x * 1, x / 1, x ** 1 -> x; x * -1 -> -x; -(-x) -> x; x ** 2 -> x * x;
    x ** 0 -> 1; x ** -1 -> 1 / x."""
    name = node.op.name
    if name == "negative":
        x = node.inputs[0]
        return x.inputs[0] if x.op.name == "negative" else None
    a, b = node.inputs
    if name == "power":
        exponent = scalar_value(b)
        if exponent == 1:
            return a
        if exponent == 2:
            return a * a
        if exponent == 0:
            return _filled(1, node.out)
        if exponent == -1 and a.dtype.is_float:
            return 1.0 / a
        if exponent == 0.5 and _nonnegative(a):
            op = lookup("sqrt")
            assert op is not None
            return op(a)
        return None
    value = scalar_value(b)
    if value == 1 and type(value) is not bool:
        return a
    if name in ("multiply", "divide") and value == -1:
        return -a
    if name == "multiply":
        value = scalar_value(a)
        if value == 1 and type(value) is not bool:
            return b
        if value == -1:
            return -b
    return None


def _nonnegative(x: Tensor) -> bool:
    """Known not to be negative nor -0."""
    return x.op.name == "exp"


def pull_out_signs(node: Node) -> Tensor | None:
    """(-a) * b -> -(a * b), and so for a quotient; exact."""
    a, b = node.inputs
    negative = [t.op.name == "negative" for t in (a, b)]
    if not any(negative):
        return None
    x, y = (t.inputs[0] if n else t for t, n in zip((a, b), negative, strict=True))
    result = node.op(x, y)
    return result if all(negative) else -result


def join_equal_terms(node: Node) -> Tensor | None:
    """add_n(t, t, u, 0) -> add_n(2 * t, u)."""
    if node.attrs.method:
        return None
    inputs = [t for t in node.inputs if scalar_value(t) != 0] or list(node.inputs[:1])
    counts: dict[Tensor, int] = {}
    for t in inputs:
        counts[t] = counts.get(t, 0) + 1
    if len(counts) == len(node.inputs) and len(counts) > 1:
        return None
    terms = [t if n == 1 else t * _filled(n, t) for t, n in counts.items()]
    return terms[0] if len(terms) == 1 else node.op(*terms, method="")


def drop_zero_term(node: Node) -> Tensor | None:
    """An adjoint's x + 0 -> x."""
    if not node.place.scope:
        return None
    a, b = node.inputs
    if scalar_value(b) == 0:
        return a
    return b if scalar_value(a) == 0 else None


def pull_constant(node: Node) -> Tensor | None:
    """pull(0, slope) -> 0, pull(1, slope) -> slope, pull(-1, slope) -> -slope."""
    g, slope = node.inputs
    value = scalar_value(g)
    if value == 0:
        return g
    if value == 1:
        return slope
    return -slope if value == -1 else None


def select_constant(node: Node) -> Tensor | None:
    """select(True, a, b) -> a; select(False, a, b) -> b; select(c, a, a) -> a."""
    condition, a, b = node.inputs
    value = scalar_value(condition)
    if value is None:
        return a if a is b else None
    return a if value else b


def drop_whole(node: Node) -> Tensor | None:
    """A slice that takes everything, an embed that fills everything -> x."""
    x = node.inputs[0]
    attrs = node.attrs
    if x.shape != node.out.shape or any(s != 0 for s in attrs.start):
        return None
    return x if all(s == 1 for s in attrs.step) else None


def pull_by_mask(node: Node) -> Tensor | None:
    """pull(select(c, 1, 0), slope) -> select(c, slope, 0): what a ramp's step lets through."""
    mask, slope = node.inputs
    if mask.op.name != "select":
        return None
    condition, yes, no = mask.inputs
    if scalar_value(yes) != 1 or scalar_value(no) != 0:
        return None
    return mask.op(condition, slope, no)


def multiply_reciprocal(node: Node) -> Tensor | None:
    """An adjoint's g * (1 / y) -> g / y."""
    if not node.place.scope:
        return None
    a, b = node.inputs
    for g, slope in ((a, b), (b, a)):
        if not slope.node.place.scope:
            continue
        if slope.op.name == "divide" and scalar_value(slope.inputs[0]) == 1:
            return g / slope.inputs[1]
        if slope.op.name == "reciprocal":
            return g / slope.inputs[0]
    return None


def take_parts(node: Node) -> Tensor | None:
    """real(complex(a, b)) -> a; imag(complex(a, b)) -> b; conj(conj(z)) -> z; real(conj(z)) ->
    real(z); imag(conj(z)) -> -imag(z); of a z that is cast from real x: x, 0 and z."""
    name = node.op.name
    z = node.inputs[0]
    if z.op.name == "complex" and name != "conj":
        return z.inputs[0 if name == "real" else 1]
    if z.op.name == "conj":
        inner = z.inputs[0]
        if name == "conj":
            return inner
        part = node.op(inner)
        return part if name == "real" else -part
    if z.op.name == "cast" and not z.inputs[0].dtype.is_complex:
        if name == "conj":
            return z
        return convert(z.inputs[0], node.out.dtype) if name == "real" else None
    return None


# ----------------------------------------------------------------------- broadcasts


def lift_broadcast(node: Node) -> Tensor | None:
    """f(broadcast(a), broadcast(b)) -> broadcast(f(a, b)), along the axes that all of them repeat.

    A value is computed once for all the elements that share it.
    """
    inputs = node.inputs
    if not inputs or not node.out.ndim:
        return None
    along: set[int] | None = None
    for t in inputs:
        if t.node.op is not broadcast:
            return None
        own = set(t.attrs.along)
        along = own if along is None else along & own
    if not along:
        return None
    shape = node.out.shape
    kept = [k for k in range(len(shape)) if k not in along]
    inner_shape: Shape = tuple(shape[k] for k in kept)
    operands = []
    for t in inputs:
        rest = tuple(kept.index(k) for k in t.attrs.along if k not in along)
        x = t.inputs[0]
        operands.append(broadcast(x, shape=inner_shape, along=rest) if rest else x)
    inner = node.op(*operands, **node.attrs.as_dict())
    return broadcast(inner, shape=shape, along=tuple(sorted(along)))


def compose_broadcast(node: Node) -> Tensor | None:
    """broadcast(broadcast(x)) -> one broadcast."""
    x = node.inputs[0]
    if not node.attrs.along:
        return x
    if x.op is not broadcast:
        return None
    shape, along = node.attrs.shape, node.attrs.along
    kept = [k for k in range(len(shape)) if k not in along]
    inner = tuple(kept[k] for k in x.attrs.along)
    return broadcast(x.inputs[0], shape=shape, along=tuple(sorted((*along, *inner))))


# ----------------------------------------------------------------------- index maps


def compose_transpose(node: Node) -> Tensor | None:
    """transpose(transpose(x, p), q) -> transpose(x, p[q]); an identity -> x."""
    perm = node.attrs.perm
    x = node.inputs[0]
    if perm == tuple(range(len(perm))):
        return x
    if x.op is transpose:
        inner = x.attrs.perm
        return transpose(x.inputs[0], perm=tuple(inner[k] for k in perm))
    if x.op is broadcast:
        # the transposed broadcast of an operand whose own axes keep their order is a broadcast
        along = set(x.attrs.along)
        order = [k for k in perm if k not in along]
        if order == sorted(order):
            shape = tuple(x.shape[k] for k in perm)
            new = tuple(i for i, k in enumerate(perm) if k in along)
            return broadcast(x.inputs[0], shape=shape, along=new)
    if x.op.name == "contract" and x.op is not None:
        attrs = x.attrs
        out = tuple(attrs.out[k] for k in perm)
        return x.op(*x.inputs, lhs=attrs.lhs, rhs=attrs.rhs, out=out)
    return None


def compose_reshape(node: Node) -> Tensor | None:
    """reshape(reshape(x)) -> one reshape; to its own shape -> x; of a full broadcast -> broadcast."""
    shape = node.attrs.shape
    x = node.inputs[0]
    if x.shape == shape:
        return x
    if x.op is reshape:
        return reshape(x.inputs[0], shape=shape)
    if x.op is broadcast and not x.inputs[0].ndim:
        if not shape:
            return x.inputs[0]
        return broadcast(x.inputs[0], shape=shape, along=tuple(range(len(shape))))
    if x.op is broadcast:
        # axes of length 1 that come or go: a broadcast along them
        operand = x.inputs[0]
        along = set(x.attrs.along)
        if all(x.shape[k] == 1 for k in along) and operand.shape == shape:
            return operand
    return None


# ------------------------------------------------------------------------------ sums


def compose_sum(node: Node) -> Tensor | None:
    """sum(sum(x)) -> one sum; sum(-x) -> -sum(x); no axes -> x."""
    axes = node.attrs.axes
    x = node.inputs[0]
    if not axes:
        return x
    if x.op is reduce_sum:
        kept = [k for k in range(x.inputs[0].ndim) if k not in x.attrs.axes]
        outer = tuple(kept[k] for k in axes)
        return reduce_sum(x.inputs[0], axes=tuple(sorted((*x.attrs.axes, *outer))))
    if x.op is transpose:
        perm = x.attrs.perm
        gone = tuple(sorted(perm[k] for k in axes))
        summed = reduce_sum(x.inputs[0], axes=gone)
        left = [k for k in range(len(perm)) if k not in gone]
        order = [left.index(perm[k]) for k in range(len(perm)) if k not in axes]
        return transpose(summed, perm=tuple(order))
    if x.op.name == "negative":
        return -reduce_sum(x.inputs[0], axes=axes)
    return None


def sum_broadcast(node: Node, ranges: Ranges) -> Tensor | None:
    """sum(broadcast(x)) -> x * n. The sum of no elements is 0, also of an x like 1 / n."""
    axes = node.attrs.axes
    x = node.inputs[0]
    if x.op is not broadcast or not x.dtype.is_inexact:
        return None
    shared = tuple(k for k in axes if k in x.attrs.along)
    if not shared:
        return None
    if scalar_value(x) == 0:
        return _filled(0, node.out)
    count = size_of(x.shape[k] for k in shared)
    if count == 0:
        return _filled(0, node.out)
    if x.dtype.bits == 16 and not (isinstance(count, int) and count <= EXACT_HALF):
        return None  # the product would round or overflow where the sum does not
    inner = _without(x, shared)
    rest = tuple(k - sum(1 for s in shared if s < k) for k in axes if k not in shared)
    summed = reduce_sum(inner, axes=rest) if rest else inner
    size = convert_size(count, summed)
    if is_nonnegative(count - 1) or ranges.of(inner).finite:
        return summed * size
    strong = lookup("pull")
    assert strong is not None
    return strong(size, summed)


def convert_size(count: Any, like: Tensor) -> Tensor:
    """A dimension as a tensor like another."""
    value = number(count, like.dtype)
    if not like.ndim:
        return value
    return broadcast(value, shape=like.shape, along=tuple(range(like.ndim)))


def _without(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A broadcast with some of its repeated axes left out."""
    kept = [k for k in range(x.ndim) if k not in axes]
    rest = tuple(kept.index(k) for k in x.attrs.along if k not in axes)
    operand = x.inputs[0]
    if not rest:
        return operand
    return broadcast(operand, shape=tuple(x.shape[k] for k in kept), along=rest)


# ---------------------------------------------------------------------- contractions


def sum_contract(node: Node, ranges: Ranges) -> Tensor | None:
    """sum(contract(a, b)) -> contract with more contracted labels; a label of one operand alone
    is summed there first. The sum of no elements is 0, also where the other operand is infinite
    (but for an `exp` that overflows)."""
    x = node.inputs[0]
    if x.op.name != "contract" or x.node.place.section != node.place.section:
        return None
    attrs = x.attrs
    gone = {attrs.out[k] for k in node.attrs.axes}
    out = tuple(label for label in attrs.out if label not in gone)
    inputs, labels = list(x.inputs), [attrs.lhs, attrs.rhs]
    total: Dim = 1
    for side in (0, 1):
        operand, other = x.inputs[side], labels[1 - side]
        own = labels[side]
        lone = tuple(k for k, v in enumerate(own) if v in gone and v not in other)
        if not lone:
            continue
        count = size_of(operand.shape[k] for k in lone)
        if not ranges.calm.of(x.inputs[1 - side]).finite:
            total *= count
        inputs[side] = reduce_sum(operand, axes=lone)
        labels[side] = tuple(v for k, v in enumerate(own) if k not in lone)
    product = x.op(*inputs, lhs=labels[0], rhs=labels[1], out=out)
    if is_nonnegative(total - 1):
        return product
    greater, select = lookup("greater"), lookup("select")
    assert greater is not None and select is not None
    is_filled = greater(number(total, int64), number(0, int64))
    along = tuple(range(product.ndim))
    if along:
        is_filled = broadcast(is_filled, shape=product.shape, along=along)
    return select(is_filled, product, _filled(0, product))


def absorb_into_contract(node: Node) -> Tensor | None:
    """contract(transpose(a), b) -> relabelled."""
    attrs = node.attrs
    inputs, labels = list(node.inputs), [attrs.lhs, attrs.rhs]
    for side in (0, 1):
        x = inputs[side]
        if x.op is transpose:
            perm = x.attrs.perm
            own = [0] * len(perm)
            for k, source in enumerate(perm):
                own[source] = labels[side][k]
            inputs[side], labels[side] = x.inputs[0], tuple(own)
            return node.op(*inputs, lhs=labels[0], rhs=labels[1], out=attrs.out)
    return None


def absorb_broadcast(node: Node, ranges: Ranges) -> Tensor | None:
    """contract(broadcast(a), b) -> without the label, the other side summed over it first where it
    is contracted. A product of no elements is 0, also of an a like 1 / n."""
    attrs = node.attrs
    inputs, labels = list(node.inputs), [attrs.lhs, attrs.rhs]
    for side in (0, 1):
        x, other = inputs[side], labels[1 - side]
        if x.op is not broadcast:
            continue
        drop = [k for k in x.attrs.along if labels[side][k] in other]
        if not drop:
            continue
        dropped = {labels[side][k] for k in drop}
        lone = tuple(
            k for k, v in enumerate(other) if v in dropped and v not in attrs.out
        )
        count = size_of(inputs[1 - side].shape[k] for k in lone)
        if not is_nonnegative(count - 1) and not ranges.of(x).finite:
            continue
        inputs[side] = _without(x, tuple(drop))
        labels[side] = tuple(v for k, v in enumerate(labels[side]) if k not in drop)
        if lone:
            inputs[1 - side] = reduce_sum(inputs[1 - side], axes=lone)
            labels[1 - side] = tuple(v for k, v in enumerate(other) if k not in lone)
        return node.op(*inputs, lhs=labels[0], rhs=labels[1], out=attrs.out)
    return None


def number_labels(node: Node) -> Tensor | None:
    """contract with labels 0, 1, ... in the order in which they appear: equal ones are merged."""
    attrs = node.attrs
    order = {v: k for k, v in enumerate(dict.fromkeys((*attrs.lhs, *attrs.rhs)))}
    lhs, rhs, out = (
        tuple([order[v] for v in labels])
        for labels in (attrs.lhs, attrs.rhs, attrs.out)
    )
    if (lhs, rhs) == (attrs.lhs, attrs.rhs):
        return None
    return node.op(*node.inputs, lhs=lhs, rhs=rhs, out=out)


def contract_to_multiply(node: Node) -> Tensor | None:
    """A contract with nothing contracted and a scalar side -> an elementwise product."""
    attrs = node.attrs
    for side in (0, 1):
        if not node.inputs[side].ndim:
            other = node.inputs[1 - side]
            labels = attrs.rhs if side == 0 else attrs.lhs
            if set(labels) != set(attrs.out):
                return None
            factor = node.inputs[side]
            if other.ndim:
                factor = broadcast(
                    factor, shape=other.shape, along=tuple(range(other.ndim))
                )
            product = other * factor
            perm = tuple(labels.index(v) for v in attrs.out)
            return transpose(product, perm=perm) if other.ndim else product
    return None


Rule: TypeAlias = "Callable[[Node], Tensor | None]"
RangedRule: TypeAlias = "Callable[[Node, Ranges], Tensor | None]"

ELEMENTWISE: tuple[Rule, ...] = (fold, lift_broadcast)
RULES: Mapping[str, tuple[Rule, ...]] = {
    "cast": (fold_cast,),
    "negative": (drop_neutral,),
    "add": (drop_zero_term,),
    "add_n": (join_equal_terms,),
    "multiply": (drop_neutral, pull_out_signs, multiply_reciprocal),
    "divide": (drop_neutral, pull_out_signs),
    "power": (drop_neutral,),
    "pull": (pull_constant, pull_by_mask),
    "select": (select_constant,),
    **dict.fromkeys(("real", "imag", "conj"), (take_parts,)),
    "slice": (drop_whole,),
    "embed": (drop_whole,),
    "broadcast": (compose_broadcast,),
    "transpose": (compose_transpose,),
    "reshape": (compose_reshape,),
    "reduce_sum": (compose_sum,),
    "contract": (contract_to_multiply, absorb_into_contract, number_labels),
}
RANGED: Mapping[str, tuple[RangedRule, ...]] = {
    "pull": (relax_pull,),
    "reduce_sum": (sum_broadcast, sum_contract),
    "contract": (absorb_broadcast,),
}

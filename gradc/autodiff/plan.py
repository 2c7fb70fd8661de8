"""The backward plan: which nodes get an adjoint, what is cut and why.

`plan` walks forward from the xs through everything the ys are computed from. Reverse mode reads
its result and nothing else; `why` and the reports print it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gradc.graph import Node, Request, Tensor, ordered
from gradc.ops.registry import Constant, Explicit

__all__ = ["BackwardPlan", "Cut", "plan"]


@dataclass(frozen=True, slots=True)
class Cut:
    """An edge that carries no derivative: from `operand` into `node`, for `reason`.

    `reason` is `stop_gradient` (the op), `stop` (`tensor` is in stop_gradients), `integer`
    (`tensor` is no floating-point tensor), `constant` (the op is, or its output `tensor`),
    `inactive` (the op has no derivative by `operand`) or `vjp` (a custom gradient gave None).
    """

    operand: Tensor
    node: Node
    tensor: Tensor
    reason: str

    def __str__(self) -> str:
        span = self.node.place.span
        return f"at {span.place} {self._what()}" if span else self._what()

    def _what(self) -> str:
        op = _op_name(self.node)
        name, dtype = _name(self.operand), self.tensor.dtype
        if self.reason == "stop_gradient":
            return f"by stop_gradient({name})"
        if self.reason == "stop":
            return f"at {_name(self.tensor)}, which is in stop_gradients"
        if self.reason == "inactive":
            return f"by {op}, which has no derivative by {name}"
        if self.reason == "vjp":
            return f"by {op}, whose vjp gives None for {name}"
        if self.reason == "constant":
            derivative = self.node.op.derivative
            if isinstance(derivative, Constant):
                return f"by {op}: {derivative.why}"
            return f"by {op}, whose output {self.tensor.index} is constant"
        if self.tensor is self.operand:
            return f"by {op} on {dtype} ({name})"
        if op == "cast":
            return f"by the cast to {dtype}"
        return f"by {op}, whose result is {dtype}"


@dataclass(frozen=True, slots=True)
class BackwardPlan:
    """What one `gradients` request needs.

    `nodes` are all that the ys are computed from, operands first; `wanted` gives for each node
    that lies behind some x the operands that a derivative may flow to; `cuts` are the edges where
    one may not; `stops` end it at tensors. `dropped` are edges, by node and operand, for which a
    custom gradient gave None: known once the adjoint is built.
    """

    request: Request
    nodes: tuple[Node, ...]
    wanted: Mapping[Node, tuple[int, ...]]
    stops: frozenset[Tensor]
    cuts: tuple[Cut, ...]
    dropped: frozenset[tuple[Node, int]] = frozenset()

    def active(self) -> tuple[Node, ...]:
        """The nodes on a path from an x to a y that nothing cuts, operands first."""
        live = set(self.request.ys)
        found: list[Node] = []
        for node in reversed(self.nodes):
            if node in self.wanted and any(t in live for t in node.outputs):
                found.append(node)
                live.update(node.inputs[k] for k in self.wanted[node])
        return tuple(reversed(found))

    def why(self, x: Tensor) -> str:
        """Why no path leads from `x` to a y, in one line."""
        if not x.dtype.is_inexact:
            return f"{_name(x)} is {x.dtype}: integer and bool tensors are constants"
        ys = ", ".join(map(_name, self.request.ys)) or "an empty list of ys"
        reached = {x}
        reasons: dict[str, None] = {}
        used = _used(self.nodes, self.request.ys)
        for node in self.nodes:
            live = [k for k, t in enumerate(node.inputs) if t in reached]
            lost = [k for k in live if (node, k) in self.dropped]
            for k in lost:
                cut = Cut(node.inputs[k], node, node.outputs[0], "vjp")
                reasons[str(cut)] = None
            live = [k for k in live if k not in lost]
            if live:
                cuts, _, results = _flow(node, live, self.stops, used)
                reasons.update(dict.fromkeys(map(str, cuts)))
                reached.update(results)
        if not reasons:
            return f"{ys} does not depend on {_name(x)}"
        paths = f"every path is cut: {', '.join(reasons)}"
        return f"{_name(x)} never reaches {ys}: {paths}"


def _name(tensor: Tensor) -> str:
    """What a tensor is called in a message: its name, its text, or its op."""
    if tensor.name:
        return tensor.name
    span = tensor.span
    return span.text if span and span.text else _op_name(tensor.node)


def _op_name(node: Node) -> str:
    return "custom_gradient" if node.op.name == "custom" else node.op.name


def _used(nodes: Sequence[Node], ys: Sequence[Tensor]) -> set[Tensor]:
    """The tensors that something reads."""
    used = set(ys)
    for node in nodes:
        used.update(node.inputs)
    return used


def _flow(
    node: Node, live: list[int], stops: frozenset[Tensor], used: Collection[Tensor]
) -> tuple[list[Cut], list[int], list[Tensor]]:
    """At a node whose operands `live` carry a derivative: the cuts, the operands that it may flow
    to, and the outputs that carry it on, of those that something reads."""
    cuts: list[Cut] = []
    carried: list[int] = []
    inputs = node.inputs
    derivative = node.op.derivative
    active: Collection[int] | None = None
    if isinstance(derivative, Explicit):
        told = derivative.active
        active = told(node) if callable(told) else told
    for k in live:
        operand = inputs[k]
        if not operand.type.dtype.is_inexact:
            cuts.append(Cut(operand, node, operand, "integer"))
        elif isinstance(derivative, Constant):
            # an integer result says more than that the op is constant
            integer = all(not o.dtype.is_inexact for o in node.outputs)
            reason = "integer" if integer else "constant"
            if node.op.name == "stop_gradient":
                reason = "stop_gradient"
            cuts.append(Cut(operand, node, node.outputs[0], reason))
        elif active is not None and k not in active:
            cuts.append(Cut(operand, node, operand, "inactive"))
        else:
            carried.append(k)
    results: list[Tensor] = []
    if carried:
        operand = inputs[carried[0]]
        through = derivative.through if isinstance(derivative, Explicit) else None
        for i, output in enumerate(node.outputs):
            if output not in used:
                continue
            if not output.type.dtype.is_inexact:
                reason = "integer"
            elif through is not None and i not in through:
                reason = "constant"
            elif output in stops:
                reason = "stop"
            else:
                results.append(output)
                continue
            cuts.append(Cut(operand, node, output, reason))
    return cuts, carried, results


def plan(request: Request) -> BackwardPlan:
    """Find the nodes between the xs and the ys, and the edges that carry no derivative.

    Linear in the number of nodes; the order of everything is that of `ordered`.
    """
    nodes = ordered(request.ys)
    stops = frozenset(request.stop_gradients)
    used = _used(nodes, request.ys)
    reached: set[Tensor] = set(request.xs)
    wanted: dict[Node, tuple[int, ...]] = {}
    found: list[Cut] = []
    for node in nodes:
        live = [k for k, t in enumerate(node.inputs) if t in reached]
        if live:
            cuts, carried, results = _flow(node, live, stops, used)
            found += cuts
            if results:
                wanted[node] = tuple(carried)
                reached.update(results)
    return BackwardPlan(request, tuple(nodes), wanted, stops, tuple(found))

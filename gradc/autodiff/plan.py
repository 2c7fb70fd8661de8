"""The backward plan: which nodes get an adjoint, what is cut and why.

`plan` walks forward from the xs through everything the ys are computed from. Reverse mode reads
its result and nothing else; `why` and the reports print it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradc.graph import Node, Request, Tensor, ordered
from gradc.ops.registry import Constant, Explicit

__all__ = ["BackwardPlan", "Cut", "plan"]


@dataclass(frozen=True, slots=True)
class Cut:
    """An edge that carries no derivative: from `operand` into `node`, for `reason`.

    `reason` is `stop_gradient` (the op), `stop` (`tensor` is in stop_gradients), `integer`
    (`tensor` is no floating-point tensor) or `constant` (the op is).
    """

    operand: Tensor
    node: Node
    tensor: Tensor
    reason: str

    def __str__(self) -> str:
        op = self.node.op.name
        if self.reason == "stop_gradient":
            what = f"by stop_gradient({_name(self.operand)})"
        elif self.reason == "stop":
            what = f"at {_name(self.tensor)}, which is in stop_gradients"
        elif self.reason == "integer":
            dtype = self.tensor.dtype
            cast = self.tensor is not self.operand and op == "cast"
            what = (
                f"by the cast to {dtype}"
                if cast
                else f"by {op} on {dtype} ({_name(self.tensor)})"
            )
            if self.tensor is not self.operand and not cast:
                what = f"by {op}, whose result is {dtype}"
        else:
            derivative = self.node.op.derivative
            assert isinstance(derivative, Constant)
            what = f"by {op}: {derivative.why}"
        span = self.node.place.span
        return f"at {span.place} {what}" if span else what


@dataclass(frozen=True, slots=True)
class BackwardPlan:
    """What one `gradients` request needs.

    `nodes` are all that the ys are computed from, operands first; `wanted` gives for each node
    that lies behind some x the operands that a derivative may flow to; `cuts` are the edges where
    one may not; `stops` end it at tensors.
    """

    request: Request
    nodes: tuple[Node, ...]
    wanted: Mapping[Node, tuple[int, ...]]
    stops: frozenset[Tensor]
    cuts: tuple[Cut, ...]

    def why(self, x: Tensor) -> str:
        """Why no path leads from `x` to a y, in one line."""
        ys = ", ".join(_name(y) for y in self.request.ys) or "an empty list of ys"
        reached = {x}
        reasons: dict[str, None] = {}
        read = False
        if not x.dtype.is_inexact:
            return f"{_name(x)} is {x.dtype}: integer and bool tensors are constants"
        for node in self.nodes:
            live = [k for k, t in enumerate(node.inputs) if t in reached]
            if not live:
                continue
            read = True
            cuts, results = _flow(node, live, self.stops)
            for cut in cuts:
                reasons[str(cut)] = None
            reached.update(results)
        if not read:
            return f"{ys} does not depend on {_name(x)}"
        return f"{_name(x)} never reaches {ys}: every path is cut: {', '.join(reasons)}"


def _name(tensor: Tensor) -> str:
    if tensor.name:
        return tensor.name
    span = tensor.span
    return span.text if span and span.text else tensor.op.name


def _flow(
    node: Node, live: list[int], stops: frozenset[Tensor]
) -> tuple[list[Cut], list[Tensor]]:
    """The cuts at a node whose operands `live` carry a derivative, and the outputs that do."""
    cuts: list[Cut] = []
    carried: list[int] = []
    derivative = node.op.derivative
    for k in live:
        operand = node.inputs[k]
        if not operand.dtype.is_inexact:
            cuts.append(Cut(operand, node, operand, "integer"))
        elif isinstance(derivative, Constant):
            # an integer result says more than that the op is constant
            integer = all(not o.dtype.is_inexact for o in node.outputs)
            reason = "integer" if integer else "constant"
            if node.op.name == "stop_gradient":
                reason = "stop_gradient"
            cuts.append(Cut(operand, node, node.outputs[0], reason))
        elif isinstance(derivative, Explicit) and not (
            derivative.active is None or k in derivative.active
        ):
            continue
        else:
            carried.append(k)
    results: list[Tensor] = []
    if carried:
        operand = node.inputs[carried[0]]
        for i, output in enumerate(node.outputs):
            through = derivative.through if isinstance(derivative, Explicit) else None
            if through is not None and i not in through:
                continue
            if not output.dtype.is_inexact:
                if len(node.outputs) == 1:
                    cuts.append(Cut(operand, node, output, "integer"))
            elif output in stops:
                cuts.append(Cut(operand, node, output, "stop"))
            else:
                results.append(output)
    return cuts, results


def plan(request: Request) -> BackwardPlan:
    """Find the nodes between the xs and the ys, and the edges that carry no derivative.

    Linear in the number of nodes; the order of everything is that of `ordered`.
    """
    nodes = ordered(request.ys)
    stops = frozenset(request.stop_gradients)
    reached: set[Tensor] = set(request.xs)
    wanted: dict[Node, tuple[int, ...]] = {}
    found: list[Cut] = []
    for node in nodes:
        live = [k for k, t in enumerate(node.inputs) if t in reached]
        if not live:
            continue
        cuts, results = _flow(node, live, stops)
        found += cuts
        if results:
            blocked = {
                id(c.operand)
                for c in cuts
                if c.reason != "stop" and c.tensor is c.operand
            }
            wanted[node] = tuple(k for k in live if id(node.inputs[k]) not in blocked)
            reached.update(results)
    return BackwardPlan(request, tuple(nodes), wanted, stops, tuple(found))

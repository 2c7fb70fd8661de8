"""Replace composites by the primitives they stand for, once differentiation is done."""

from __future__ import annotations

from gradc.errors import InternalError
from gradc.graph import Graph, Node, Tensor

__all__ = ["expand", "strip_identities"]

MAX_DEPTH = 20
IDENTITIES = ("copy", "stop_gradient", "prevent_gradient", "opaque")


def expand(graph: Graph) -> Graph:
    """composite(x) -> its primitives, until only primitives are left. Keeps values; idempotent."""
    for _ in range(MAX_DEPTH):
        found = {n.op.name for n in graph.nodes() if n.op.expand is not None}
        if not found:
            return graph
        graph = graph.rewrite(dict.fromkeys(found, _expand))
    raise InternalError(f"composites that never end: {', '.join(sorted(found))}")


def _expand(node: Node) -> Tensor | tuple[Tensor, ...] | None:
    return None if node.op.expand is None else node.op.expand(node)


def strip_identities(graph: Graph) -> Graph:
    """copy(x), stop_gradient(x), ... -> x. They matter to the planner alone. Idempotent."""
    return graph.rewrite(dict.fromkeys(IDENTITIES, lambda node: node.inputs[0]))

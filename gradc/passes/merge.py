"""Make equal nodes one node."""

from __future__ import annotations

import math
from typing import Any

from gradc.graph import (
    Attrs,
    Graph,
    Node,
    Tensor,
    collector_paused,
    rebuild,
    replace_outputs,
)

__all__ = ["Equals", "merge"]


def merge(graph: Graph) -> Graph:
    """exp(x), exp(x) -> one exp(x). Removes nodes, adds none; keeps values and the first node's
    name and place. Idempotent. Sections keep their own nodes."""
    done: dict[Tensor, Tensor] = {}
    equals = Equals()
    with collector_paused():
        for node in graph.nodes():
            fresh = rebuild(node, tuple([done[t] for t in node.inputs]))
            replace_outputs(node, equals.first(fresh).outputs, done)
    return graph.mapped(done)


class Equals:
    """The nodes met so far, by what they compute and in which section."""

    def __init__(self) -> None:
        self.known: dict[Any, Node] = {}

    def first(self, node: Node) -> Node:
        """The first node met that is equal to this one; itself where there is none. No input is
        equal to another."""
        if node.op.name == "input":
            return node
        key: tuple[Any, ...] = (node.op, node.inputs, node.place.section)
        attrs = node.attrs
        if attrs:
            key = (*key, attrs, _signs(attrs))
        return self.known.setdefault(key, node)


def _signs(attrs: Attrs) -> tuple[Any, ...]:
    """What tells attributes apart that compare equal: 0.0 and -0.0, 1 and 1.0 and True."""
    return tuple(
        [
            (name, type(value), math.copysign(1.0, value))
            for name, value in attrs.items()
            if isinstance(value, float | bool)
        ]
    )

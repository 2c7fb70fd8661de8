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

__all__ = ["merge"]


def merge(graph: Graph) -> Graph:
    """exp(x), exp(x) -> one exp(x). Removes nodes, adds none; keeps values and the first node's
    name and place. Idempotent. Sections keep their own nodes."""
    done: dict[Tensor, Tensor] = {}
    known: dict[Any, Node] = {}
    with collector_paused():
        for node in graph.nodes():
            operands = tuple([done[t] for t in node.inputs])
            if node.op.name == "input":
                kept = node
            else:
                attrs = node.attrs
                key = (
                    node.op,
                    operands,
                    attrs,
                    _signs(attrs) if attrs else (),
                    node.place.section,
                )
                found = known.get(key)
                if found is None:
                    known[key] = found = rebuild(node, operands)
                kept = found
            replace_outputs(node, kept.outputs, done)
    return graph.mapped(done)


def _signs(attrs: Attrs) -> tuple[Any, ...]:
    """What tells attributes apart that compare equal: 0.0 and -0.0, 1 and 1.0 and True."""
    return tuple(
        [
            (name, type(value), math.copysign(1.0, value))
            for name, value in attrs.items()
            if isinstance(value, float | bool)
        ]
    )

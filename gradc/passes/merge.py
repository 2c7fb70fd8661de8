"""Make equal nodes one node."""

from __future__ import annotations

from typing import Any

from gradc.graph import Graph, Node, Tensor, rebuild

__all__ = ["merge"]


def merge(graph: Graph) -> Graph:
    """exp(x), exp(x) -> one exp(x). Removes nodes, adds none; keeps values and the first node's
    name and place. Idempotent. Sections keep their own nodes."""
    done: dict[Tensor, Tensor] = {}
    known: dict[Any, Node] = {}
    for node in graph.nodes():
        fresh = rebuild(node, tuple(done[t] for t in node.inputs))
        if fresh.op.name == "input":
            kept = fresh
        else:
            key = (
                fresh.op,
                fresh.attrs,
                fresh.inputs,
                fresh.types,
                fresh.place.section,
            )
            kept = known.setdefault(key, fresh)
        for old, new in zip(node.outputs, kept.outputs, strict=True):
            if old.name and not new.name:
                new.name = old.name
            done[old] = new
    return graph.mapped(done)

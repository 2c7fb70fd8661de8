"""Compute numbers that depend on no input."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradc.errors import GradcError
from gradc.graph import Graph, Tensor, at, rebuild, replace_outputs
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import number
from gradc.types import Poly, size_of, symbols_of

__all__ = ["fold_numbers"]

LARGEST = 100_000
"""The most elements that an array on the way may have."""


def fold_numbers(graph: Graph) -> Graph:
    """sum(gammaln((5 - arange(4)) / 2)) -> 1.93...: what has rank 0 and follows from constants alone.

    Arrays of constants stay as they are. Keeps names and places; idempotent.
    """
    numbers = _numbers(graph)
    if not numbers:
        return graph
    done: dict[Tensor, Tensor] = {}
    for node in graph.nodes():
        if node.outputs[0] in numbers:
            with at(node.place):
                fresh = number(numbers[node.out], node.out.dtype)
            if not fresh.name:
                fresh.name = node.out.name
            done[node.out] = fresh
        else:
            rebuilt = rebuild(node, tuple([done[t] for t in node.inputs]))
            replace_outputs(node, rebuilt.outputs, done)
    return graph.mapped(done)


def _is_open(attr: Any) -> bool:
    """Whether an attribute speaks of the size of a symbol."""
    if isinstance(attr, tuple):
        return any(map(_is_open, attr))
    return isinstance(attr, Poly) and bool(symbols_of(attr))


def _is_small(tensor: Tensor) -> bool:
    size = size_of(tensor.shape)
    return isinstance(size, int) and size <= LARGEST


def _numbers(graph: Graph) -> dict[Tensor, bool | int | float | complex]:
    """The values of the tensors of rank 0 that follow from constants and that something else uses."""
    fixed: set[Tensor] = set()
    used: dict[Tensor, None] = {o.tensor: None for o in graph.outputs if o.tensor}
    for node in graph.nodes():
        known = [t for t in node.inputs if t in fixed]
        if (
            len(known) == len(node.inputs)
            and node.op.name not in ("input", "opaque", "gate")
            and all(_is_small(t) for t in node.outputs)
            and not any(_is_open(value) for _, value in node.attrs.items())
        ):
            fixed.update(node.outputs)
        else:
            used.update(dict.fromkeys(known))
    wanted = [t for t in used if t in fixed and not t.ndim and t.node.inputs]
    found: dict[Tensor, bool | int | float | complex] = {}
    for t in wanted:
        try:
            (value,) = evaluate([t], {}, {})
        except (GradcError, ArithmeticError, IndexError, np.linalg.LinAlgError):
            continue  # the module says so when it runs
        found[t] = value.item()
    return found

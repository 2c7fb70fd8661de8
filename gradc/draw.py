"""Data drawn for a graph that has none: small sizes, indices within their axes, likely values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import ShapeError
from gradc.graph import Graph, Tensor
from gradc.ops.evaluator import bind_sizes
from gradc.ops.segment import INDEXED
from gradc.types import Dim, evaluate_dim, symbols_of

__all__ = ["ATTEMPTS", "draw", "index_bounds", "sizes_for"]

Array: TypeAlias = "np.ndarray[Any, Any]"

ATTEMPTS = 24
"""How many draws there are to be had, each in another way."""
TRIALS = 5000
NO_SIZES: Mapping[str, int] = {}
LARGEST = 12
"""Where the first sizes don't suit a graph's facts, others up to this are tried."""

CARRIERS = frozenset(
    [
        "broadcast",
        "cast",
        "concatenate",
        "copy",
        "flip",
        "reshape",
        "slice",
        "transpose",
    ]
)
"""Ops whose result holds elements of their operands."""


def draw(
    graph: Graph,
    given: Mapping[Tensor, Array],
    seed: int,
    attempt: int,
    wanted: Mapping[str, int] = NO_SIZES,
) -> tuple[dict[Tensor, Array], dict[str, int]]:
    """Arrays for all inputs, and the sizes of the symbols.

    What is given stays, and so do defaults. The same seed and attempt draw the same; attempts
    differ in sizes and in where the values lie: around 0, in (0, 1), above it; square matrices
    are positive definite in some. `wanted` fixes sizes. ShapeError where no small sizes suit.
    """
    rng = np.random.default_rng([seed, attempt])
    sizes = sizes_for(graph, given, attempt, rng, wanted=wanted)
    bounds = index_bounds(graph)
    feeds: dict[Tensor, Array] = {}
    for tensor in graph.inputs:
        if tensor in given:
            feeds[tensor] = given[tensor]
        elif tensor.attrs.default is None:
            shape = tuple(evaluate_dim(d, sizes) for d in tensor.shape)
            values: Array
            if tensor.dtype.is_bool:
                values = rng.random(shape) < 0.5
            elif tensor.dtype.is_integer:
                inside = [evaluate_dim(d, sizes) for d in bounds.get(tensor, ())]
                limit = min([*inside, 4 if attempt < ATTEMPTS // 2 else 1])
                values = rng.integers(0, max(limit, 1), shape)
            else:
                values = _floats(shape, attempt, rng)
                if tensor.dtype.is_complex:
                    values = values + 1j * _floats(shape, attempt, rng)
            feeds[tensor] = np.asarray(values).astype(tensor.dtype.name)
    return feeds, sizes


def _floats(shape: tuple[int, ...], attempt: int, rng: np.random.Generator) -> Array:
    way = attempt if attempt < 4 else int(rng.integers(0, 6))
    if way == 3 and len(shape) > 1 and shape[-1] == shape[-2]:
        root = rng.normal(size=shape)
        return np.asarray(
            root @ np.swapaxes(root, -1, -2) + shape[-1] * np.eye(shape[-1])
        )
    if way in (0, 3):
        return np.asarray(rng.normal(size=shape))
    low, high = {1: (0.1, 0.9), 2: (0.5, 2.0), 4: (1.5, 4.0), 5: (-0.9, -0.1)}[way]
    return np.asarray(rng.uniform(low, high, shape))


# ----------------------------------------------------------------------------- sizes


def sizes_for(
    graph: Graph,
    given: Mapping[Tensor, Array],
    attempt: int = 0,
    rng: np.random.Generator | None = None,
    *,
    wanted: Mapping[str, int] = NO_SIZES,
) -> dict[str, int]:
    """Sizes for the symbols: those of the data given, those wanted, else small and distinct ones
    that the graph's facts allow. ShapeError where none are found."""
    known = {**wanted, **bind_sizes(graph.inputs, given)}
    shapes = [t.shape for t in graph.inputs]
    dims = list(dict.fromkeys(d for shape in shapes for d in shape))
    symbols = list(dict.fromkeys(s for d in dims for s in symbols_of(d)))
    for s, value in graph.facts.values.items():
        symbols += [t for t in (s, *symbols_of(value)) if t not in symbols]
    free = [s for s in symbols if s not in known and s not in graph.facts.values]
    static = {d for d in dims if isinstance(d, int)}
    usual = [n for n in range(3 + attempt % 4, 100) if n not in static][: len(free)]
    sizes = _completed(graph, dims, {**known, **dict(zip(free, usual, strict=True))})
    rng = rng or np.random.default_rng(0)
    for trial in range(TRIALS if free else 0):
        if sizes is not None:
            break
        distinct = trial < TRIALS // 2 and len(free) <= LARGEST
        chosen = rng.choice(LARGEST, len(free), replace=not distinct) + 1
        tried = dict(zip(free, map(int, chosen), strict=True))
        sizes = _completed(graph, dims, {**known, **tried})
    if sizes is None:
        raise ShapeError("no small sizes suit the facts of the graph", code="no-sizes")
    return sizes


def _completed(
    graph: Graph, dims: Sequence[Dim], sizes: dict[str, int]
) -> dict[str, int] | None:
    """The sizes with those that the facts give; None where a fact or a dimension is broken."""
    for s, value in graph.facts.values.items():
        if all(t in sizes for t in symbols_of(value)):
            n = evaluate_dim(value, sizes)
            if sizes.setdefault(s, n) != n or n < 0:
                return None
    if any(evaluate_dim(z, sizes) != 0 for z in graph.facts.zeros):
        return None
    return None if any(evaluate_dim(d, sizes) < 0 for d in dims) else sizes


def index_bounds(graph: Graph) -> dict[Tensor, list[Dim]]:
    """For integer inputs that index an axis, as they are or rearranged: the axes' lengths."""
    bounds: dict[Tensor, list[Dim]] = {}
    pending: list[tuple[Tensor, Dim]] = []
    for node in graph.nodes():
        if node.op.name not in INDEXED or node.op.name == "segment_recurrence":
            continue
        axes = node.attrs.axes
        shape = node.out.shape if node.op.name != "gather" else node.inputs[0].shape
        indices = node.inputs[len(node.inputs) - len(axes) :]
        pending += zip(indices, (shape[a] for a in axes), strict=True)
    seen: set[tuple[Tensor, Dim]] = set()
    while pending:
        tensor, length = pending.pop()
        if (tensor, length) in seen:
            continue
        seen.add((tensor, length))
        if tensor.op.name == "input":
            bounds.setdefault(tensor, []).append(length)
        elif tensor.op.name in CARRIERS:
            pending += [(t, length) for t in tensor.inputs]
    return bounds

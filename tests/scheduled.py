"""Graphs with their gradients as Programs, and a way to run those."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradc.driver import Options, plan, simplified
from gradc.graph import Graph, Output
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret
from gradc.schedule.lower import Scheduled, schedule
from gradc.schedule.program import Stmt, statements
from gradc.types import evaluate_dim


def gradient_graph(text: str) -> Graph:
    """The ys and the gradients of a text, before the passes."""
    made = plan(text, Options())
    assert made.request is not None and made.gradients is not None
    outputs = [Output(y.name, y) for y in made.request.ys]
    outputs += [
        Output(f"{x.name}_bar", t)
        for x, t in zip(made.request.xs, made.gradients.tensors, strict=True)
    ]
    return Graph(
        made.graph.name, made.graph.inputs, tuple(outputs), facts=made.graph.facts
    )


def run(made: Scheduled, given: dict[str, Any], sizes: dict[str, int]) -> list[Any]:
    """The outputs of a Program by the interpreter, after the checker."""
    check(made.program)
    arrays = {n: given[t.attrs.name] for n, t in made.inputs.items()}
    arrays |= {n: t.attrs.value.array for n, t in made.constants.items()}
    for name, t in made.outputs.items():
        shape = [evaluate_dim(d, sizes) for d in t.shape]
        arrays[name] = np.full(shape, 7, t.dtype.name)
    assert interpret(made.program, arrays, sizes) == 0
    return [arrays[n] for n in made.outputs]


def drawn(graph: Graph, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for t in graph.inputs:
        shape = [evaluate_dim(d, sizes) for d in t.shape]
        if t.dtype.is_integer:
            values[t.attrs.name] = rng.integers(0, 3, shape)
        else:
            values[t.attrs.name] = np.asarray(rng.normal(size=shape), t.dtype.name)
    return values


def program_of(text: str, level: int = 1) -> list[Stmt]:
    return list(
        statements(schedule(simplified(gradient_graph(text)), "f", level).program.body)
    )

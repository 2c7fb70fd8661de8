"""Large graphs: no recursion, and work that grows with the graph, not faster."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

import gradc
from gradc.autodiff.reverse import Gradients, gradients
from gradc.driver import PASSES
from gradc.graph import Graph, Output, Tensor, label, ordered
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.passes.check import check
from gradc.passes.split import _names
from gradc.types import TensorType, float32, float64, symbol


def variable() -> Tensor:
    kind = TensorType(float64, (symbol("N"),))
    return label(input_(name="x", type=kind, default=None), "x")


def chain(length: int) -> tuple[Tensor, Tensor]:
    """sin(...) * 1.5 of itself, and its sum."""
    x = h = variable()
    for _ in range(length):
        h = apply("sin", h) * 1.5
    return x, apply("sum", h)


def diamond(depth: int) -> tuple[Tensor, Tensor]:
    """h * h + h of itself: 2**depth paths, or rather 3**depth."""
    x = h = variable()
    for _ in range(depth):
        h = h * h + h
    return x, apply("sum", h)


def compiled(x: Tensor, y: Tensor) -> tuple[Gradients, Graph]:
    """The gradient, and the graph with it after all passes."""
    found = gradients(y, x)
    graph = Graph("g", (x,), (Output("y", y), Output("g", found.tensors[0])))
    for run in PASSES:
        graph = run(graph)
    return found, graph


def test_a_long_chain() -> None:
    x, y = chain(10_000)
    found, graph = compiled(x, y)
    check(graph)
    assert found.tensors[0] is not None
    assert len(graph.nodes()) < 51_000
    data = np.array([0.3, -1.0])
    h, slope = data, np.ones(2)
    for _ in range(10_000):
        h, slope = np.sin(h) * 1.5, slope * np.cos(h) * 1.5
    outputs = [o.tensor for o in graph.outputs if o.tensor is not None]
    value, bar = evaluate(outputs, {graph.inputs[0]: data})
    np.testing.assert_allclose(value, h.sum())
    np.testing.assert_allclose(bar, slope, atol=1e-300)


def test_a_deep_diamond() -> None:
    x, y = diamond(3_000)
    _, graph = compiled(x, y)
    check(graph)
    assert len(graph.nodes()) < 20_000
    data = np.array([1e-5, -0.5])
    h, slope = data, np.ones(2)
    with np.errstate(all="ignore"):
        for _ in range(3_000):
            slope, h = slope * (2 * h + 1), h * h + h
    outputs = [o.tensor for o in graph.outputs if o.tensor is not None]
    value, bar = evaluate(outputs, {graph.inputs[0]: data})
    np.testing.assert_allclose(value, h.sum())
    np.testing.assert_allclose(bar, slope)


def test_a_long_chain_that_is_cut_tells_why() -> None:
    x = h = variable()
    for _ in range(20_000):
        h = apply("sin", h)
    y = label(apply("sum", apply("stop_gradient", h)), "y")
    found = gradients(y, x)
    assert found.tensors == (None,)
    assert "stop_gradient" in found.why(0)


@pytest.mark.parametrize("make", [chain, diamond])
def test_work_is_linear(make: Callable[[int], tuple[Tensor, Tensor]]) -> None:
    """Four times the nodes take at most five times as many calls."""

    def calls(count: int) -> int:
        x, y = make(count)
        made = 0

        def tick(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event == "call"

        sys.setprofile(tick)
        try:
            compiled(x, y)
        finally:
            sys.setprofile(None)
        return made

    assert calls(800) < 5 * calls(200)


@pytest.mark.parametrize("op", ["negative", "stop_gradient", "sqrt", "cast"])
def test_long_chains_of_one_op_need_no_stack(op: str) -> None:
    h = variable()
    for k in range(4_000):
        if op == "cast":
            h = apply("astype", h, float32 if k % 2 == 0 else float64)
        else:
            h = apply(op, h)
    x = ordered([h])[0].out
    compiled(x, apply("sum", h * 3.0))


# ------------------------------------------------------------------ from text to source

STEPS = ["sin(y)", "exp(y) * 0.5", "y * y + y", "-y", "where(y > 0, y, y * s)"]


def text(step: str, count: int) -> str:
    lines = ["x: float[N]", "s: float", "y = x", *[f"y = {step}"] * count]
    return "\n".join([*lines, "z = sum(y)", "differentiate(z, [x, s])", "return z", ""])


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python run."""
    count = 0

    def tick(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return tick

    sys.settrace(tick)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    ("step", "target", "count"),
    [
        *((step, "numpy", 40) for step in STEPS),
        *((step, "numba", 16) for step in STEPS[1:3]),
    ],
)
def test_the_way_from_text_to_source_is_linear(
    step: str, target: str, count: int
) -> None:
    """Per statement, four times as long a text takes at most a sixth more work."""

    def work(count: int) -> int:
        return lines_run(lambda: gradc.emit(text(step, count), target=target))

    work(2)
    none = work(0)
    assert work(4 * count) - none < 4 * 7 / 6 * (work(count) - none)


def test_the_names_of_what_backward_needs_take_no_search() -> None:
    """Of many tensors that the source calls the same."""
    kept = [label(apply("sin", variable()), "y") for _ in range(4000)]
    found: list[str] = []
    assert lines_run(lambda: found.extend(_names(kept, ["y"]))) < 15 * 4000
    assert found[:2] == ["y_2", "y_3"]
    assert len(set(found)) == 4000

"""Why a gradient is None: one line, with the place of every cut."""

from __future__ import annotations

import pytest

from gradc.autodiff.reverse import gradients
from gradc.driver import Options, plan
from gradc.frontends.gc import parse
from gradc.graph import Graph
from gradc.ops.basic import input_
from gradc.ops.functions import apply
from gradc.types import TensorType, float64


def why(text: str, x: str = "x") -> str:
    """The reason that the request of a text gives for x."""
    return plan(parse(text, "m.gc"), Options()).why(x)


CASES = [
    (
        "no path at all",
        """x: float[2]
w: float[2]
y = sum(w * w)
differentiate(y, [x, w])
""",
        "y does not depend on x",
    ),
    (
        "stop_gradient",
        """x: float[2]
h = exp(x)
y = sum(stop_gradient(h))
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:3:9 by stop_gradient(h)",
    ),
    (
        "a stop in the list",
        """x: float[2]
h = exp(x)
y = sum(h * h)
differentiate(y, x, stop_gradients=h)
""",
        "x never reaches y: every path is cut: at m.gc:2:5 at h, which is in stop_gradients",
    ),
    (
        "a cast to integers",
        """x: float[2]
k = astype(x, int32)
y = sum(astype(k, float64))
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:2:5 by the cast to int32",
    ),
    (
        "rounding",
        """x: float[2]
y = sum(floor(x) * 2.0)
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:2:9 by floor: ",
    ),
    (
        "an op with an integer result",
        """x: float[2]
t: float[2]
y = sum(take(t, argmax(x)))
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:3:17 by ",
    ),
    (
        "a comparison",
        """x: float[2]
y = sum(where(x > 0.0, 1.0, 2.0))
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:2:15 by greater, whose result is bool",
    ),
    (
        "an integer x",
        """x: int[2]
y = sum(x * 2.0)
differentiate(y, x)
""",
        "x is int64: integer and bool tensors are constants",
    ),
    (
        "a custom gradient that gives None",
        """x: float[2]
def f(a):
    return a**2
def vjp(a, g):
    return None
y = sum(custom_gradient(f, vjp)(x))
differentiate(y, x)
""",
        (
            "x never reaches y: every path is cut: at m.gc:6:9 by custom_gradient, "
            "whose vjp gives None for x"
        ),
    ),
    (
        "what a custom gradient's function reads besides its arguments",
        """w: float[2]
x: float[2]
def f(a):
    return a * x
def vjp(a, g):
    return g
y = sum(custom_gradient(f, vjp)(w))
differentiate(y, x)
""",
        (
            "x never reaches y: every path is cut: at m.gc:7:9 by custom_gradient, "
            "which has no derivative by a * x"
        ),
    ),
    (
        "the constant output of an op with several",
        """x: float[2, 2]
y, l = slogdet(x)
differentiate(y, x)
""",
        "x never reaches y: every path is cut: at m.gc:2:8 by slogdet, whose output 0 is constant",
    ),
    (
        "behind y",
        """w: float[2]
y = sum(w)
x = exp(y)
differentiate(y, [x])
return x
""",
        "y does not depend on x",
    ),
]


@pytest.mark.parametrize(("name", "text", "reason"), CASES, ids=[c[0] for c in CASES])
def test_one_cause(name: str, text: str, reason: str) -> None:
    found = why(text)
    assert "\n" not in found
    assert found.startswith(reason)


def test_every_path_is_told_once_in_the_order_of_the_text() -> None:
    found = why(
        """x: float[2]
a = stop_gradient(x)
b = astype(x, int64)
c = x**2
y = sum(a) + sum(b * 2.0) + sum(stop_gradient(x)) + sum(c) + sum(c * c) + sum(rint(x))
differentiate(y, x, stop_gradients=c)
"""
    )
    head, _, reasons = found.partition("every path is cut: ")
    assert head == "x never reaches y: "
    cuts = [
        "at m.gc:2:5 by stop_gradient(x)",
        "at m.gc:3:5 by the cast to int64",
        "at m.gc:5:33 by stop_gradient(x)",
        "at m.gc:4:5 at c, which is in stop_gradients",
        "at m.gc:5:79 by rint",
    ]
    assert all(reasons.count(cut) == 1 for cut in cuts)
    assert reasons.count("at m.gc") == len(cuts)


def test_only_cuts_on_the_paths_of_x_are_told() -> None:
    found = why(
        """x: float[2]
w: float[2]
h = stop_gradient(w) * floor(x)
y = sum(h)
differentiate(y, [x, w])
"""
    )
    assert "floor" in found
    assert "stop_gradient" not in found


def test_a_gradient_that_is_there_has_no_reason() -> None:
    text = "x: float[2]\ny = sum(x * stop_gradient(x))\ndifferentiate(y, x)\n"
    assert why(text) == ""


def test_the_reason_is_in_the_output() -> None:
    graph: Graph = parse(
        "x: float\ny = floor(x)\na, = gradients(y, x)\nreturn y, a\n", "m.gc"
    )
    assert graph.outputs[1].tensor is None
    assert graph.outputs[1].why.startswith("x never reaches y")


def test_several_and_no_ys() -> None:
    x = input_(name="x", type=TensorType(float64, (2,)), default=None)
    w = input_(name="w", type=TensorType(float64, (2,)), default=None)
    found = gradients([w * 1.0, apply("exp", w)], x).why(0)
    assert "does not depend on input" in found or "does not depend on x" in found
    assert "an empty list of ys" in gradients([], x).why(0)


def test_tensors_without_a_name_are_quoted() -> None:
    found = why("x: float[2]\nw: float[2]\ndifferentiate(sum(w * w), [x])\n")
    assert found == "sum(w * w) does not depend on x"


def test_a_plan_of_a_gradient_of_a_gradient() -> None:
    found = why(
        """x: float
g, = gradients(3.0 * x, x)
y = g * 2.0
differentiate(y, x)
"""
    )
    assert found == "y does not depend on x"

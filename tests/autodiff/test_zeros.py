"""Rule 12: a zero cotangent is strong. And the conventions where the derivative is a choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradc.autodiff.reverse import adjoint
from gradc.errors import GradcError
from gradc.frontends.gc import parse
from gradc.graph import Graph, Output
from gradc.ops.evaluator import evaluate
from gradc.passes.expand import expand, strip_identities
from gradc.passes.simplify import simplify
from tests.autodiff.helpers import check

inf, nan = np.inf, np.nan
PASSES = (expand, strip_identities, simplify)


def gradient(expression: str, x: Any, zero_adjoints: str = "strong") -> list[Any]:
    """The derivative of an expression of x, as it is built and after the passes."""
    data = np.asarray(x, float)
    dims = ", ".join(map(str, data.shape))
    graph = parse(
        f"x: float64[{dims}]\ny = {expression}\n"
        f'g, = gradients(y, x, zero_adjoints="{zero_adjoints}")\nreturn g\n'
        if data.ndim
        else f"x: float64\ny = {expression}\ng, = gradients(y, x)\nreturn g\n"
    )
    found = []
    for passes in ((), PASSES):
        made = graph
        for run in passes:
            made = run(made)
        (output,) = made.outputs
        assert output.tensor is not None
        found.append(evaluate([output.tensor], {made.inputs[0]: data})[0])
    return found


# expression of x, data, derivative: what was not selected contributes nothing
SELECTED: list[tuple[str, Any, Any]] = [
    ("where(x > 0, sqrt(x), 0.0)", [0.0, 4.0, -1.0], [0, 0.25, 0]),
    ("where(x > 0, log(x), 0.0)", [0.0, 2.0, -1.0], [0, 0.5, 0]),
    ("where(x > 0, 1 / x, 0.0)", [0.0, 2.0, nan], [0, -0.25, 0]),
    ("where(x < 1, exp(x), x)", [1e3, 0.0, inf], [1, 1, 1]),
    ("where(x < 1, exp(exp(x)), x)", [1e3, 0.0], [1, np.e]),
    ("where(isnan(x), 0.0, x**2)", [nan, 3.0], [0, 6]),
    ("where(x > 0, x**0.5, 0.0)", [0.0, 4.0], [0, 0.25]),
    ("where(x > 0, x**-2, 0.0)", [0.0, 1.0], [0, -2]),
    ("where(abs(x) < 1, arcsin(x), 0.0)", [1.0, 0.0, 2.0], [0, 1, 0]),
    ("where(abs(x) < 1, arctanh(x), 0.0)", [1.0, 0.0], [0, 1]),
    ("where(x > 1, arccosh(x), 0.0)", [1.0, 2.0, 0.0], [0, 3**-0.5, 0]),
    ("where(x != 0, sin(x) / x, 1.0)", [0.0, np.pi], [0, -1 / np.pi]),
    ("where(x != 0, x / abs(x), 0.0)", [0.0, 2.0], [0, 0]),
    ("maximum(log(x), 0.0)", [0.0, 0.5, 2.0], [0, 0, 0.5]),
    ("maximum(1 / x, 2.0)", [-0.0, 1.0, 0.25], [0, 0, -16]),
    ("minimum(exp(x), 1.0)", [1e3, -1.0], [0, np.exp(-1)]),
    ("clip(sqrt(x), 0.5, 1.5)", [0.0, 1.0, 9.0], [0, 0.5, 0]),
    ("clip(exp(x), 0.5, 1.5)", [1e3, 0.0, -1e3], [0, 1, 0]),
    ("relu(log(x))", [0.0, 2.0], [0, 0.5]),
    ("relu6(exp(x))", [1e3, 0.0], [0, 1]),
    ("sqrt(x)[1:]", [0.0, 4.0], [0, 0.25]),
    ("(1 / x)[::2]", [1.0, 0.0, 2.0, 0.0], [-1, 0, -0.25, 0]),
    ("log(x)[array([1, 1])]", [0.0, 2.0], [0, 1]),
    ("take(log(x), array([1]))", [0.0, 2.0], [0, 0.5]),
    ("sum(max(log(x)))", [0.0, 2.0], [0, 0.5]),
    ("min(1 / x)", [0.0, 2.0], [0, -0.25]),
    ("concatenate([sqrt(x), x])[2:]", [0.0, 4.0], [1, 1]),
    ("sum(sqrt(x) * array([0.0, 1.0]))", [0.0, 4.0], [0, 0.25]),
    ("tril(1 / reshape(x, (2, 2)))", [1.0, 0.0, 2.0, 4.0], [-1, 0, -0.25, -1 / 16]),
    ("diagonal(log(reshape(x, (2, 2))))", [1.0, 0.0, 0.0, 4.0], [1, 0, 0, 0.25]),
    (
        "sum(where(x > 0, where(x > 1, log(x - 1), 0.0), 0.0))",
        [1.0, 2.0, 0.0],
        [0, 1, 0],
    ),
    ("where(x > 0, sqrt(sum(x * 0.0)), 0.0)", [-1.0, -2.0], [0, 0]),
    ("index_update(sqrt(x), 0, 1.0)", [0.0, 4.0], [0, 0.25]),
    ("roll(where(x > 0, sqrt(x), 0.0), 1)", [0.0, 4.0], [0, 0.25]),
    ("prod(where(x > 0, sqrt(x), 1.0))", [0.0, 4.0], [0, 0.25]),
    ("cumsum(where(x > 0, sqrt(x), 0.0))", [0.0, 4.0], [0, 0.25]),
    ("logsumexp(where(x > 0, log(x), -inf))", [0.0, 2.0], [0, 0.5]),
    ("where(x > 0, hypot(x, 0.0), 0.0)", [0.0, 2.0], [0, 1]),
    ("where(x > 0, arctan2(x, x), 0.0)", [0.0, 2.0], [0, 0]),
    ("where(x > 0, logaddexp(log(x), 0.0), 0.0)", [0.0, 1.0], [0, 0.5]),
    ("where(x > 0, gammaln(x), 0.0)", [0.0, 1.0], [0, -np.euler_gamma]),
    ("where(x > 0, xlogy(2.0, x), 0.0)", [0.0, 1.0], [0, 2]),
]


@pytest.mark.parametrize(
    ("expression", "x", "slope"), SELECTED, ids=[s[0] for s in SELECTED]
)
def test_what_was_not_selected_contributes_nothing(
    expression: str, x: Any, slope: Any
) -> None:
    for found in gradient(expression, x):
        np.testing.assert_allclose(found, slope, rtol=1e-12, atol=1e-15)


IEEE = [
    ("where(x > 0, sqrt(x), 0.0)", [0.0, 4.0], [nan, 0.25]),
    ("where(x > 0, log(x), 0.0)", [0.0, 2.0], [nan, 0.5]),
    ("where(x < 1, exp(x), x)", [1e3, 0.0], [nan, 1]),
    ("maximum(log(x), 0.0)", [0.0, 2.0], [nan, 0.5]),
    ("(1 / x)[1:]", [0.0, 2.0], [nan, -0.25]),
]


@pytest.mark.parametrize(("expression", "x", "slope"), IEEE, ids=[s[0] for s in IEEE])
def test_ieee_zeros_on_request(expression: str, x: Any, slope: Any) -> None:
    for found in gradient(expression, x, "ieee"):
        np.testing.assert_allclose(found, slope, rtol=1e-12)
    graph = parse(
        f"x: float64[2]\ny = {expression}\ng, = gradients(y, x, zero_adjoints='ieee')\nreturn g\n"
    )
    assert "pull" not in {n.op.name for n in graph.nodes()}


def test_zero_adjoints_of_other_names_are_errors() -> None:
    with pytest.raises(GradcError, match='expected "strong", "ieee", found \'weak\''):
        parse('x: float\ny, = gradients(x, x, zero_adjoints="weak")\nreturn y\n')


def test_a_seed_of_zero_is_strong() -> None:
    check(
        """
x: float[3]
g: float[3]
a, = gradients(sqrt(x), x, grad_ys=g)
return a
""",
        {"a": [0.0, inf, 0.5]},
        x=[0.0, 0.0, 1.0],
        g=[0.0, 1.0, 1.0],
    )


def test_sums_inside_products_keep_ieee() -> None:
    """Rule 12 is for elementwise ops: 0 * inf inside a contraction is NaN, as in NumPy."""
    check(
        """
A: float[2, 2]
x: float[2]
g: float[2]
a, = gradients(A @ x, x, grad_ys=g)
return a
""",
        {"a": [nan, 1.0]},
        A=[[inf, 2.0], [1.0, 1.0]],
        x=[1.0, 1.0],
        g=[0.0, 1.0],
    )


def test_second_derivatives_are_strong_too() -> None:
    check(
        """
x: float[3]
y = where(x > 0, x ** 1.5, 0.0)
a, = gradients(y, x)
b, = gradients(a, x)
c, = gradients(b, x)
return a, b, c
""",
        {
            "a": [0.0, 3.0, 0.0],
            "b": [0.0, 0.375, 0.0],
            "c": [0.0, -0.375 * 0.5 / 4, 0.0],
        },
        x=[0.0, 4.0, -1.0],
    )


def test_the_request_of_a_graph_is_strong_or_not_as_it_says() -> None:
    for option, wanted in (("strong", 0.0), ("ieee", nan)):
        graph = parse(
            "x: float64\ny = where(x > 0, sqrt(x), 0.0)\n"
            f"differentiate(y, x, zero_adjoints='{option}')\n"
        )
        assert graph.request is not None
        (bar,) = adjoint(graph.request).tensors
        assert bar is not None
        (found,) = evaluate([bar], {graph.inputs[0]: np.asarray(0.0)})
        np.testing.assert_array_equal(found, wanted)
        assert isinstance(Graph("g", graph.inputs, (Output("g", bar),)), Graph)


# expression, x, derivative: the conventions at kinks, ties and edges
CONVENTIONS: list[tuple[str, Any, Any]] = [
    ("abs(x)", [0.0, -1.0], [0, -1]),
    ("sign(x)", [0.0, -1.0], [0, 0]),
    ("relu(x)", [0.0, 1.0], [0, 1]),
    ("relu6(x)", [0.0, 6.0, 3.0], [0, 0, 1]),
    ("norm(x)", [0.0, 0.0], [0, 0]),
    ("std(x)", [2.0, 2.0], [0, 0]),
    ("std(x)", [0.1, 0.1, 0.1], [0, 0, 0]),  # the mean is 0.1 and a rounding error
    ("std(x, where=x < 1.0)", [0.1, 0.1, 0.1, 2.0], [0, 0, 0, 0]),
    ("max(x)", [1.0, 3.0, 3.0], [0, 0.5, 0.5]),
    ("min(x)", [1.0, 1.0, 1.0, 3.0], [1 / 3, 1 / 3, 1 / 3, 0]),
    ("maximum(x, 1.0)", [1.0, 2.0, 0.0], [0.5, 1, 0]),
    ("minimum(x, 1.0)", [1.0, 2.0, 0.0], [0.5, 0, 1]),
    ("clip(x, -1.0, 1.0)", [-1.0, 1.0, 0.0, 2.0], [1, 1, 1, 0]),
    ("sqrt(x)", [0.0, 4.0], [inf, 0.25]),
    ("prod(x)", [2.0, 0.0, 3.0], [0, 6, 0]),
    ("prod(x)", [0.0, 0.0, 3.0], [0, 0, 0]),
    ("cumprod(x)", [2.0, 0.0, 3.0], [1, 8, 0]),
    ("x**2.5", [0.0, 1.0], [0, 2.5]),
    ("x**1", [0.0, 1.0], [1, 1]),
    ("x**0", [0.0, 1.0], [0, 0]),
    ("2.0 ** x", [0.0], [np.log(2)]),
    ("0.0 ** x", [0.0, 1.0, 2.0], [0, 0, 0]),
    ("arctan2(x, 0.0 * x)", [0.0], [0]),
    ("logsumexp(x)", [-inf, -inf], [0, 0]),
    ("logsumexp(x)", [-inf, 0.0], [0, 1]),
    ("logsumexp(x)", [1e3, 1e3], [0.5, 0.5]),
    ("softplus(x)", [800.0, -800.0, 0.0], [1, 0, 0.5]),
    ("sigmoid(x)", [800.0, -800.0, 0.0], [0, 0, 0.25]),
    ("log_softmax(x)[0]", [1e4, -1e4], [0, 0]),
    ("leaky_relu(x, 0.1)", [0.0, 1.0], [0.1, 1]),
]


@pytest.mark.parametrize(
    ("expression", "x", "slope"),
    CONVENTIONS,
    ids=[f"{c[0]} at {c[1]}" for c in CONVENTIONS],
)
def test_conventions(expression: str, x: Any, slope: Any) -> None:
    for found in gradient(expression, x):
        np.testing.assert_allclose(found, slope, rtol=1e-12, atol=1e-15)

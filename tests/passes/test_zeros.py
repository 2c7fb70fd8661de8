"""Strong zeros become products where that can't show, and only there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gradc.autodiff.reverse import gradients
from gradc.frontends.gc import parse
from gradc.graph import Graph, Output, Tensor, label
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.ops.index import index
from gradc.passes.check import check
from gradc.passes.expand import expand, strip_identities
from gradc.passes.merge import merge
from gradc.passes.simplify import simplify
from gradc.types import TensorType, float32, float64

inf, nan = np.inf, np.nan
BEFORE = (expand, strip_identities, merge)


def prepared(graph: Graph) -> Graph:
    for run in BEFORE:
        graph = run(graph)
    return graph


def finished(graph: Graph) -> Graph:
    graph = simplify(graph)
    check(graph)
    return graph


def names(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes()]


def values(graph: Graph, **feeds: Any) -> list[Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given_ = {
            t: np.asarray(feeds[t.attrs.name], t.dtype.name) for t in graph.inputs
        }
        tensors = [o.tensor for o in graph.outputs if o.tensor is not None]
        return evaluate(tensors, given_)


# ------------------------------------------------------- what the loss does not see

# functions of one element: what is masked behind them does not reach the loss
INNER: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: apply("sqrt", a),
    lambda a, b: apply("log", a),
    lambda a, b: 1.0 / a,
    lambda a, b: apply("exp", a),
    lambda a, b: a * a,
    lambda a, b: a * b,
    lambda a, b: a + b,
    lambda a, b: a - 2.0 * b,
    lambda a, b: a / (1.0 + b * b),
    lambda a, b: apply("tanh", a),
    lambda a, b: apply("sigmoid", a),
    lambda a, b: apply("softplus", a),
    lambda a, b: apply("relu", a),
    lambda a, b: apply("sin", a),
    lambda a, b: a**3,
    lambda a, b: apply("abs", a) ** 0.5,
    lambda a, b: apply("abs", a) ** b,
    lambda a, b: apply("maximum", a, b),
    lambda a, b: apply("clip", a, -1.0, 1.5),
    lambda a, b: apply("where", a > b, a, b),
    lambda a, b: apply("where", a > 0, apply("sqrt", a), 0.0),
    lambda a, b: apply("log1p", a * a),
    lambda a, b: apply("hypot", a, b),
    lambda a, b: apply("arctan2", a, b),
    lambda a, b: apply("logaddexp", a, b),
    lambda a, b: 1.0 - apply("tanh", a) ** 2,
    lambda a, b: apply("exp", -(a * a)),
    lambda a, b: apply("cosh", a),
    lambda a, b: apply("cbrt", a),
    lambda a, b: apply("stop_gradient", a) * b,
]
# what is done with the elements that were let through
OUTER: list[Callable[[Tensor, Tensor], Tensor]] = [
    *INNER[4:14],
    lambda a, b: apply("softmax", a),
    lambda a, b: apply("cumsum", a),
    lambda a, b: apply(
        "concatenate", [index(a, slice(1, None)), index(b, slice(0, 1))]
    ),
    lambda a, b: apply("flip", a),
    lambda a, b: apply("outer", a, b) @ a,
    lambda a, b: apply("diag", a) @ b,
    lambda a, b: apply("tril", apply("outer", a, b)) @ a,
    lambda a, b: apply("max", a) * b,
    lambda a, b: apply("sum", a) * b,
    lambda a, b: apply("norm", a) * b,
    lambda a, b: apply("index_update", a, 0, 1.5),
    lambda a, b: apply("take", a, apply("array", [2, 1, 2])),
    lambda a, b: apply("logsumexp", a) + b,
    lambda a, b: apply("maximum", a, 0.0) - apply("minimum", b, 0.0),
]
NASTY = [0.0, -0.0, inf, -inf, nan, 1e200, -1e200, 1e3, -1e3, 1e-320, -1.0]
MASKS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda m, a: apply("where", m, a, 0.0),
    lambda m, a: apply("where", m, a, 1.0),
    lambda m, a: apply("where", apply("logical_not", m), -0.5, a),
    lambda m, a: apply("log", apply("where", m, apply("abs", a) + 1.0, 1.0)),
    lambda m, a: apply("tanh", apply("where", m, a, -30.0)),
    lambda m, a: apply("softmax", apply("where", m, a, -inf)),
    lambda m, a: apply("exp", apply("where", m, -(a * a), -inf)),
    lambda m, a: 1.0 / apply("where", m, a * a + 1.0, inf),
    lambda m, a: apply("maximum", apply("where", m, a, -inf), 0.1),
]


@st.composite
def masked(draw: st.DrawFn) -> Graph:
    """The gradient by x of a function that sees x only where the mask m is set."""
    dtype = draw(st.sampled_from([float64, float64, float32]))
    x, w, c = (
        label(input_(name=n, type=TensorType(dtype, (3,)), default=None), n)
        for n in ("x", "w", "c")
    )
    mask = c > 0.0

    def grow(functions: Any, pool: list[Tensor], most: int) -> list[Tensor]:
        for _ in range(draw(st.integers(1, most))):
            a = draw(st.sampled_from(pool[-2:]))
            b = draw(st.sampled_from(pool))
            pool.append(draw(st.sampled_from(functions))(a, b))
        return pool

    inner = grow(INNER, [x], 5)
    seen = [draw(st.sampled_from(MASKS))(mask, inner[-1])]
    if draw(st.booleans()):
        seen.append(draw(st.sampled_from(MASKS))(mask, draw(st.sampled_from(inner))))
    total = apply("sum", grow(OUTER, [w, *seen], 4)[-1] * w)
    for t in seen[1:]:
        total = total + apply("sum", t)
    bars = gradients(total, [x, w], unconnected_gradients="zero").tensors
    outputs = (Output("y", total), Output("x", bars[0]), Output("w", bars[1]))
    return Graph("g", (x, w, c), outputs)


def check_hidden(graph: Graph, x: Any, w: Any, mask: Any, hidden: Any) -> None:
    """The gradients before and after the passes are the same where the loss is finite."""
    feeds = {"x": np.where(mask, x, hidden), "w": w, "c": np.where(mask, 1.0, -1.0)}
    plain = prepared(graph)
    wanted = values(plain, **feeds)
    assume(np.isfinite(wanted[0]))
    after = finished(plain)
    for name, found, want in zip("yxw", values(after, **feeds), wanted, strict=True):
        scale = 1e-3 if want.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(found, want, rtol=scale, atol=scale, err_msg=name)


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    masked(),
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.floats(-3, 3), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.sampled_from(NASTY), min_size=3, max_size=3),
)
def test_hidden_data_does_not_show(
    graph: Graph, x: Any, w: Any, mask: Any, hidden: Any
) -> None:
    check_hidden(graph, x, w, mask, hidden)


# ------------------------------------------------------------------ what becomes of pulls


def relaxed(expression: str, *, seed: str = "", dtype: str = "float64") -> list[str]:
    """The ops of the gradient by x after the passes."""
    option = f", grad_ys={seed}" if seed else ""
    graph = parse(
        f"x: {dtype}[3]\nw: {dtype}[3]\ns: {dtype}[3]\ny = {expression}\n"
        f"g, = gradients(y, x{option})\nreturn g\n"
    )
    return names(finished(prepared(graph)))


# nothing is paid where slopes are finite
PRODUCTS = [
    "sum((x * w - 1)**2)",
    "sum(tanh(x * w)**2)",
    "sum(softplus(x) - w * x)",
    "sum(sigmoid(tanh(x) * w) * x)",
    "softmax(x) @ w",
    "logsumexp(x * w) * 2.0",
    "sum(log(1 + x * x) / (1 + w * w))",
    "sum(sqrt(x * x + 1e-6))",
    "sum(exp(-x**2 / 2) * w)",
    "sum(where(w > 0, x, -x) * w)",
    "sum(log(x))",
    "sum(exp(x))",
    "sum(1 / x)",
    "mean(sqrt(x))",
]


@pytest.mark.parametrize("expression", PRODUCTS)
def test_nothing_is_paid_where_it_cannot_show(expression: str) -> None:
    assert "pull" not in relaxed(expression)


KEPT = [
    "sum(sqrt(x * w) * w)",
    "sum(log(relu(x)) * w)",
    "sum(exp(x) * w * w)",
    "sum(where(w > 0, log(x) * log(x), 0.0))",
]


@pytest.mark.parametrize("expression", KEPT)
def test_strong_zeros_stay_where_they_may_show(expression: str) -> None:
    assert "pull" in relaxed(expression)


def test_a_mask_is_selected_by_once() -> None:
    """The chain behind a `where` is products; one select puts the zeros in."""
    found = relaxed("sum(where(w > 0, sin(tanh(x * s)**2), 0.0))")
    assert "pull" not in found
    assert found.count("select") == 1


def test_a_mask_of_both_kinds() -> None:
    for expression in (
        "sum(where(w > 0, 0.0, sin(x * x)))",
        "sum(where(w > 0, sin(x * x), 0.0))",
        "sum(relu(sin(x * x)))",
    ):
        found = relaxed(expression)
        assert "pull" not in found
        assert found.count("select") == 1


def test_seeds_of_the_user_may_be_zero() -> None:
    assert "pull" not in relaxed("x * x")
    assert "pull" in relaxed("x * x", seed="s")
    assert "pull" not in relaxed("x * 3.0", seed="s")
    assert "pull" not in relaxed("sum(x * x)", seed="[2.0]")


def test_exp_in_float32_and_float16() -> None:
    for dtype, limit in (("float64", 600), ("float32", 80), ("float16", 9)):
        text = "sum(exp(minimum(x, {0}.0)) * w)"
        assert "pull" not in relaxed(text.format(limit), dtype=dtype)
        assert "pull" in relaxed(text.format(int(limit * 1.3)), dtype=dtype)


def test_it_is_idempotent_and_keeps_names() -> None:
    graph = parse(
        "x: float[3]\nw: float[3]\ny = sum(where(w > 0, sqrt(x * w) * tanh(x), 0.0))\n"
        "g, = gradients(y, x)\nreturn y, g\n"
    )
    once = simplify(prepared(graph))
    twice = simplify(once)
    assert names(once) == names(twice)
    assert [o.tensor.name for o in once.outputs if o.tensor] == ["y", "x_bar"]


def test_a_graph_without_pulls_stays_as_it_is() -> None:
    graph = parse("x: float[3]\ny = sum(x)\nreturn y\n")
    assert names(simplify(graph)) == names(graph)


# ------------------------------------------------- faults that were: values before and after

FAULTS = [
    # a cotangent 1 - mask has zeros, though neither 1 nor a sum need have any
    ("sum((1 - where(w > 0, 1.0, 0.0)) * s * x**2)", [nan, 1, 2], [1, -1, -1]),
    # heaviside(x, y) is y at 0
    ("sum(1 / (2 - heaviside(w, 2.0)) * x * 0.0)", [1, 1, 1], [0, 1, -1]),
    # a sum of many at one place is beyond the bounds of each
    ("sum(index_add(w, array([0, 0, 0]), w)**2 * x * 0)", [1, 2, 3], [3, 3, 3]),
    ("sum(where(w > 0, exp(x) * x, 0.0))", [1e3, 1, 2], [-1, 1, 1]),
    ("sum(where(w > 0, (x * x)**9, 0.0))", [1e30, 1, 2], [-1, 1, 1]),
]


@pytest.mark.parametrize(("expression", "x", "w"), FAULTS, ids=[f[0] for f in FAULTS])
def test_values_are_kept(expression: str, x: Any, w: Any) -> None:
    graph = parse(
        f"x: float[3]\nw: float[3]\ns: float[3]\ny = {expression}\n"
        "g, = gradients(y, x)\nreturn g\n"
    )
    plain = prepared(graph)
    feeds = {"x": x, "w": w, "s": [0.5, 1.0, 2.0]}
    feeds = {k: v for k, v in feeds.items() if k in {t.name for t in plain.inputs}}
    for found, want in zip(
        values(finished(plain), **feeds), values(plain, **feeds), strict=True
    ):
        np.testing.assert_allclose(found, want)


def test_a_seed_of_zero_hides_a_nan() -> None:
    graph = parse(
        "x: float[2]\ns: float[2]\ng, = gradients(x**3, x, grad_ys=s)\nreturn g\n"
    )
    (found,) = values(finished(prepared(graph)), x=[nan, 2.0], s=[0.0, 1.0])
    np.testing.assert_array_equal(found, [0, 12])

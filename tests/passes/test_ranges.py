"""The interval analysis: what it says of a tensor is so, for any data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradc.frontends.gc import parse
from gradc.graph import Graph, Output, Tensor, label
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.ops.index import index
from gradc.passes.expand import expand, strip_identities
from gradc.passes.ranges import RULES, Range, Ranges
from gradc.passes.simplify import simplify
from gradc.types import TensorType, float16, float32, float64, int64

inf, nan = np.inf, np.nan
SETTINGS = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ONE = [
    "abs",
    "tanh",
    "sin",
    "cos",
    "arctan",
    "erf",
    "erfc",
    "ndtr",
    "sign",
    "exp",
    "exp2",
    "expm1",
    "sinh",
    "cosh",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "cbrt",
    "arcsinh",
    "arcsin",
    "arccos",
    "arctanh",
    "arccosh",
    "tan",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "sigmoid",
    "softplus",
    "relu",
    "relu6",
    "gelu",
    "silu",
    "softsign",
    "square",
    "reciprocal",
    "gammaln",
    "digamma",
    "log_sigmoid",
    "elu",
    "selu",
    "mish",
    "sinc",
    "softmax",
    "log_softmax",
    "cumsum",
    "flip",
    "negative",
    "nan_to_num",
]
TWO = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "hypot",
    "arctan2",
    "power",
    "copysign",
    "heaviside",
    "logaddexp",
    "remainder",
    "floor_divide",
    "fmod",
    "xlogy",
    "xlog1py",
]
REDUCE = ["sum", "mean", "max", "min", "prod", "var", "std", "norm", "logsumexp"]
MORE: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: apply("where", a > b, a, b),
    lambda a, b: apply("where", a > 0.0, apply("sqrt", a), 0.0),
    lambda a, b: apply("where", b > 0.5, a, -inf),
    lambda a, b: apply("where", apply("isfinite", a), a, 1.0),
    lambda a, b: apply("clip", a, -1.0, 2.0),
    lambda a, b: apply(
        "concatenate", [index(a, slice(1, None)), index(b, slice(0, 1))]
    ),
    lambda a, b: apply("roll", a, 1),
    lambda a, b: apply("index_add", a, apply("array", [0, 0, 1]), b),
    lambda a, b: apply("index_update", a, 1, 0.5),
    lambda a, b: index(apply("pad", a, ((1, 0),), constant_values=-inf), slice(0, 3)),
    lambda a, b: apply("take", a, apply("array", [2, 0, 0])),
    lambda a, b: apply("astype", apply("astype", a, float32), float64),
    lambda a, b: apply("astype", a > b, float64) + b,
    lambda a, b: 1.0 - apply("tanh", a) ** 2,
    lambda a, b: 1.0 / (1.0 + a * a),
    lambda a, b: a / (apply("sqrt", a * a) + 1e-8),
    lambda a, b: apply("exp", -(a * a)),
    lambda a, b: a * a,
    lambda a, b: a**3 - a**-2,
    lambda a, b: apply("abs", a) ** 0.5,
    lambda a, b: apply("maximum", a, 1e-6) ** -0.5,
    lambda a, b: apply("outer", a, b) @ a,
    lambda a, b: index(apply("diag", a), 0) + b,
    lambda a, b: apply("exp", a - apply("max", a)),
    lambda a, b: apply("ones_like", a) * 3.0,
    lambda a, b: apply("arange", 3) * a,
]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs of three elements, and what is computed from them."""
    dtype = draw(st.sampled_from([float64, float64, float32, float16]))
    inputs = [
        label(input_(name=n, type=TensorType(dtype, (3,)), default=None), n)
        for n in "xw"
    ]
    k = label(input_(name="k", type=TensorType(int64, (3,)), default=None), "k")
    pool = [*inputs, apply("astype", k, dtype)]
    for _ in range(draw(st.integers(1, 7))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        kind = draw(st.sampled_from(["one", "two", "more", "reduce"]))
        if kind == "one":
            made = apply(draw(st.sampled_from(ONE)), a)
        elif kind == "two":
            made = apply(draw(st.sampled_from(TWO)), a, b)
        elif kind == "more":
            made = draw(st.sampled_from(MORE))(a, b)
        else:
            made = a * apply(draw(st.sampled_from(REDUCE)), b)
        pool.append(made if made.dtype == dtype else apply("astype", made, dtype))
    return [*inputs, k], pool[3:]


def expanded(inputs: list[Tensor], tensors: list[Tensor]) -> Graph:
    """Only primitives, as the analysis sees them."""
    outputs = tuple(Output(f"y{k}", t) for k, t in enumerate(tensors))
    graph = Graph("g", tuple(inputs), outputs)
    for run in (expand, strip_identities, simplify):
        graph = run(graph)
    return graph


def check(graph: Graph, data: list[Any], trust: bool) -> None:
    """Every tensor's values are in its range."""
    feeds = {
        x: np.asarray(v, x.dtype.name) for x, v in zip(graph.inputs, data, strict=True)
    }
    tensors = [t for n in graph.nodes() for t in n.outputs]
    ranges = Ranges(trust)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = evaluate(tensors, feeds)
    for tensor, value in zip(tensors, values, strict=True):
        found = ranges.of(tensor)
        if value.dtype.kind == "c":
            continue
        v = value.astype(float)
        what = f"{tensor} = {v} in {found}: {tensor.inputs}"
        if not found.nan:
            assert not np.isnan(v).any(), what
        v = v[~np.isnan(v)]
        assert (v >= found.low).all(), what
        assert (v <= found.high).all(), what


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.0, inf, -inf, nan, 1e-310, 1e300, -1e300, 88.0, 710.0, -746.0, 1e-30]  # fmt: skip


@SETTINGS
@given(
    graphs(),
    st.lists(st.sampled_from(SPECIAL), min_size=6, max_size=6),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
)
def test_any_data(case: Any, data: list[float], whole: list[int]) -> None:
    with np.errstate(all="ignore"):
        check(expanded(*case), [data[:3], data[3:], whole], trust=False)


@SETTINGS
@given(
    graphs(),
    st.lists(st.floats(-30, 30), min_size=6, max_size=6),
    st.lists(st.integers(-20, 20), min_size=3, max_size=3),
)
def test_finite_data(case: Any, data: list[float], whole: list[int]) -> None:
    check(expanded(*case), [data[:3], data[3:], whole], trust=True)


def test_the_rules_are_of_ops_that_exist() -> None:
    from gradc.ops.registry import lookup

    assert all(lookup(name) is not None for name in RULES)


def ranges_of(text: str) -> tuple[Range, Range]:
    """The range of the output y of a text: trusting, and sure."""
    graph = parse(text)
    for run in (expand, strip_identities, simplify):
        graph = run(graph)
    tensor = graph.outputs[0].tensor
    assert tensor is not None
    return Ranges(trust=True).of(tensor), Ranges(trust=False).of(tensor)


def test_the_terms_of_softmax_may_be_none() -> None:
    """Its sum is at least 1 where it has terms; logsumexp of none is -inf."""
    text = "x: float[2, {}]\ny = {}\nreturn y\n"
    assert ranges_of(text.format("3", "logsumexp(x, axis=1)"))[0].finite
    assert not ranges_of(text.format("N", "logsumexp(x, axis=1)"))[0].finite
    assert ranges_of(text.format("N", "softmax(x, axis=1)"))[0].finite
    assert ranges_of(text.format("N", "log_softmax(x, axis=1)"))[0].finite


FINITE = [
    "x * x + w",
    "tanh(x) * w",
    "1 - tanh(x)**2",
    "sigmoid(x)",
    "1 / (1 + exp(-abs(x)))",
    "softmax(x)",
    "softplus(x) * sigmoid(w)",
    "exp(minimum(x, 3.0))",
    "exp(-x * x)",
    "log(1 + x * x)",
    "log1p(x**2)",
    "sqrt(x * x + w * w)",
    "x / sqrt(x * x + 1e-6)",
    "x @ w",
    "cumsum(x * w)",
    "clip(exp(x), 0.0, 5.0)[1:]",
    "log(maximum(x, 1e-8))",
    "arctan2(x, w)",
    "maximum(x, 2.0) ** -1.5",
    "softmax(where(w > 0, x, -100.0))",
    "where(x > 0, x, w)",
    "sin(x) + cos(w)",
    "exp(where(w > 0, -x * x, -inf))",
]
NOT_FINITE = [
    "exp(x)",
    "1 / x",
    "log(x)",
    "sqrt(x)",
    "x**-1",
    "x**0.5",
    "x / (x * x)",
    "sinh(x)",
    "cosh(x)",
    "expm1(x)",
    "exp2(x)",
    "x * exp(w)",
    "gammaln(x)",
    "tan(x) * 0.0",
    "arcsin(x)",
    "x ** w",
    "where(w > 0, x, inf)",
    "log(1 - tanh(x))",
    "1 / exp(-x * x)",
    "x**20",
    "x / 1e-300",
    "x * array([inf, 1.0, nan])",
    "mod(x, w)",
]


@pytest.mark.parametrize("expression", FINITE)
def test_finite_where_the_inputs_are(expression: str) -> None:
    text = f"x: float[3]\nw: float[3]\ny = {expression}\nreturn y\n"
    trusting, sure = ranges_of(text)
    assert trusting.finite
    assert not sure.finite


@pytest.mark.parametrize("expression", NOT_FINITE)
def test_not_finite_though_the_inputs_are(expression: str) -> None:
    text = f"x: float[3]\nw: float[3]\ny = {expression}\nreturn y\n"
    trusting, sure = ranges_of(text)
    assert not trusting.finite
    assert not sure.finite


SURE = [
    "astype(k, float64) * 3",
    "where(x > 0, 1.0, 0.25)",
    "astype(x > w, float64) - 0.5",
    "one_hot(k, 4)",
    "tanh(astype(k, float64))",
    "1 / (2 + astype(isnan(x), float64))",
    "sum(where(x > 0, 1.0, 0.0))",
]


@pytest.mark.parametrize("expression", SURE)
def test_finite_whatever_the_inputs_are(expression: str) -> None:
    text = f"x: float[3]\nw: float[3]\nk: int[3]\ny = {expression}\nreturn y\n"
    assert ranges_of(text)[1].finite


def test_exp_overflows_earlier_in_narrow_types() -> None:
    text = "x: {0}[3]\ny = exp(minimum(x, {1}))\nreturn y\n"
    for dtype, limit in (("float64", 600), ("float32", 80), ("float16", 10)):
        assert ranges_of(text.format(dtype, float(limit)))[0].finite
        assert not ranges_of(text.format(dtype, limit * 1.2))[0].finite


def test_half_precision_overflows_in_products() -> None:
    assert not ranges_of("x: float16[3]\ny = x * x\nreturn y\n")[0].finite
    assert ranges_of("x: float16[3]\ny = tanh(x) * tanh(x)\nreturn y\n")[0].finite


def test_a_narrowing_cast_may_overflow() -> None:
    text = "x: float64[3]\ny = astype({}, float32)\nreturn y\n"
    assert not ranges_of(text.format("x"))[0].finite
    assert ranges_of(text.format("tanh(x)"))[0].finite
    assert ranges_of(text.format("x").replace("64", "16"))[0].finite


ZERO = [
    ("x", False),
    ("x * w", False),
    ("2 * x - 1", False),
    ("1 - tanh(x)**2", False),
    ("exp(x)", False),
    ("softmax(x)", False),
    ("log(x * x)", False),
    ("x[1:] * w[:2]", False),
    ("where(x > w, x, w)", False),
    ("where(w > 0, x, 2.0)", False),
    ("maximum(x, 2.0)", False),
    ("x @ w", False),
    ("array([1.0, -2.0, 3.0]) * x", False),
    ("where(w > 0, x, 0.0)", True),
    ("where(w > 0, x, 0.0) * w", True),
    ("1 - where(w > 0, 1.0, 0.0)", True),
    ("where(w > 0, x, 1.0) - 1", True),
    ("log(where(w > 0, x, 1.0))", True),
    ("exp(where(w > 0, x, -inf))", False),
    ("softmax(where(w > 0, x, -inf))", False),
    ("x / where(w > 0, 1.0, inf)", False),
    ("x + where(w > 0, x, 0.0)", False),
    ("array([1.0, 0.0, 3.0]) * x", True),
    ("maximum(x, 0.0)", True),
    ("astype(x > 0, float64) * x", True),
    ("floor(x)", True),
    ("sign(where(w > 0, 1.0, 0.0))", True),
    ("clip(x, -1.0, 1.0) - 1", True),
    ("concatenate([x, zeros(2)])", True),
    ("pad(x, 1)", True),
    ("one_hot(k, 3) @ x", True),
    ("astype(k, float64) * x", True),
    ("tril(outer(x, w))", True),
    ("index_update(x, 0, 0.0)", True),
    ("gammaln(x)", True),
]


@pytest.mark.parametrize(("expression", "zero"), ZERO, ids=[z[0] for z in ZERO])
def test_zeros_by_structure(expression: str, zero: bool) -> None:
    text = f"x: float[3]\nw: float[3]\nk: int[3]\ny = {expression}\nreturn y\n"
    assert ranges_of(text)[0].zero == zero

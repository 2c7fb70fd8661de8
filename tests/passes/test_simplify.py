"""Simplification: what becomes of small graphs, and that every value stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from gradc.driver import PASSES
from gradc.errors import InternalError
from gradc.frontends.gc import parse
from gradc.graph import Data, Graph, Output, Tensor, label
from gradc.ops.basic import broadcast, constant, dim, input_, reduce_sum
from gradc.ops.evaluator import evaluate
from gradc.ops.registry import lookup
from gradc.ops.shape import embed
from gradc.passes.check import check
from gradc.passes.expand import expand, strip_identities
from gradc.passes.merge import merge
from gradc.passes.simplify import simplify
from gradc.types import TensorType, float16, float32, float64, int8, int64, symbol
from tests.graphs import Case, cases

inf, nan = np.inf, np.nan
N = symbol("N")


def graph_of(text: str) -> Graph:
    """The graph of a text, of primitives only."""
    return strip_identities(expand(parse(text)))


def body(graph: Graph) -> list[str]:
    """The text of a graph without its inputs: one line a node."""
    count = len(graph.inputs)
    lines = str(graph).splitlines()[count:]
    return [line for line in lines if line and not line.startswith("gc.names")]


def tensor(*shape: Any, name: str = "x", dtype: Any = float64) -> Tensor:
    made = input_(name=name, type=TensorType(dtype, shape), default=None)
    return label(made, name)


def value(graph: Graph, **feeds: Any) -> Any:
    tensors = [o.tensor for o in graph.outputs if o.tensor is not None]
    given_ = {t: np.asarray(feeds[t.attrs.name], t.dtype.name) for t in graph.inputs}
    return evaluate(tensors, given_)[0]


BOTH = pytest.mark.parametrize("run", [merge, simplify])

# ------------------------------------------------------------------- before and after

# the expression of x[N, M], w[N, M] and s, and what it becomes
SAME = ["return gc.outputs(('y', x))"]
GOLDEN: list[tuple[str, list[str]]] = [
    ("x * 1.0", SAME),
    ("1 * x", SAME),
    ("x / 1", SAME),
    ("x ** 1", SAME),
    ("x ** 2", ["y = x * x", "return y"]),
    ("--x", SAME),
    ("x * -1", ["y = gc.negative(x)", "return y"]),
    ("(-x) * w", ["_1 = x * w", "y = gc.negative(_1)", "return y"]),
    ("(-x) / (-w)", ["y = x / w", "return y"]),
    ("x.T.T", SAME),
    ("reshape(reshape(x, -1), (M, N))", ["y = gc.reshape(x, shape=(M, N))", "return y"]),
    ("sum(sum(x, 0))", ["y = gc.reduce_sum(x, axes=(0, 1))", "return y"]),
    ("sum(x.T, 0)", ["y = gc.reduce_sum(x, axes=(1,))", "return y"]),
    ("sum(2 * 3 * s + 0 * s)", [
        "_1: float64 = 6.0", "_2 = _1 * s", "_3: float64 = 0.0", "_4 = _3 * s",
        "y = _2 + _4", "return y"]),
    ("sum(broadcast_to(s, (N, M)))", [
        "_1 = gc.dim(value=M * N, dtype=gc.float64, weak=False)", "y = s * _1", "return y"]),
    ("exp(broadcast_to(s, (N, M)))", [
        "_1 = gc.exp(s)", "y = gc.broadcast(_1, shape=(N, M), along=(0, 1))", "return y"]),
    ("sum(x @ w.T)", [
        "_1 = gc.reduce_sum(x, axes=(0,))", "_2 = gc.reduce_sum(w, axes=(0,))",
        "y = gc.contract(_1, _2, lhs=(0,), rhs=(0,), out=())", "return y"]),
    ("x @ w.T", ["y = gc.contract(x, w, lhs=(0, 1), rhs=(2, 1), out=(0, 2))", "return y"]),
    ("where(True, x, w)", SAME),
    ("x[:, :]", SAME),
    ("x[0:N]", SAME),
    ("-sum(-x)", ["y = gc.reduce_sum(x, axes=(0, 1))", "return y"]),
    ("sqrt(4.0) * x", [
        "_1: float64 = 2.0", "_2 = gc.broadcast(_1, shape=(N, M), along=(0, 1))",
        "y = _2 * x", "return y"]),
    ("x ** 0", [
        "_1: float64 = 1.0", "y = gc.broadcast(_1, shape=(N, M), along=(0, 1))", "return y"]),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "after"), GOLDEN, ids=[g[0] for g in GOLDEN])
def test_before_and_after(expression: str, after: list[str]) -> None:
    graph = graph_of(
        f"x: float[N, M]\nw: float[N, M]\ns: float\ny = {expression}\nreturn y\n"
    )
    made = simplify(graph)
    check(made)
    assert body(made) == after


def test_adjoints_share_what_they_can() -> None:
    graph = graph_of(
        "x: float[N]\nw: float[N]\ny = sum(exp(x) * w)\ng, = gradients(y, x)\nreturn y, g\n"
    )
    for run in PASSES:
        graph = run(graph)
    names = [n.op.name for n in graph.nodes()]
    assert names.count("exp") == 1
    assert names.count("multiply") + names.count("pull") == 2


# ------------------------------------------------------------------------ every value stays


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(cases())
def test_each_pass_keeps_values_and_graphs_well_formed(case: Case) -> None:
    def values(graph: Graph) -> list[Any]:
        feeds = dict(zip(graph.inputs, case.feeds.values(), strict=True))
        tensors = [o.tensor for o in graph.outputs if o.tensor is not None]
        return evaluate(tensors, feeds, case.sizes)

    graph = case.graph
    check(graph)
    wanted = values(graph)
    for run in PASSES:
        made = run(graph)
        check(made)
        assert [o.name for o in made.outputs] == [o.name for o in graph.outputs]
        for found, want in zip(values(made), wanted, strict=True):
            rtol = 1e-3 if "32" in str(want.dtype) or "32" in str(found.dtype) else 1e-8
            finite = np.abs(want[np.isfinite(want)])
            scale = rtol * float(np.max(finite, initial=1.0))
            np.testing.assert_allclose(found, want, rtol=rtol, atol=scale)
        graph = made
    for run in PASSES:  # at the end nothing is left to do
        assert str(run(graph)) == str(graph)


PASS_TEXTS = [
    "x: float[N]\nw: float[N]\ny = sum(softmax(x * w) * x)\ng, = gradients(y, x)\nreturn y, g\n",
    "x: float[N, M]\ny = std(x) + norm(x) + max(x)\ng, = gradients(y, x)\nreturn y, g\n",
    "A: float[N, N]\nb: float[N]\ny = sum(solve(A, b)**2)\ng, h = gradients(y, [A, b])\nreturn g, h\n",
    "x: float[5]\ny = where(x > 0, x[::-1], 0.0)\ng, = gradients(y, x)\nh, = gradients(g * x, x)\nreturn h\n",
]


@pytest.mark.parametrize("text", PASS_TEXTS)
def test_each_pass_is_idempotent(text: str) -> None:
    graph = parse(text)
    for run in PASSES:
        graph = run(graph)
        assert str(run(graph)) == str(graph), run.__name__


# ---------------------------------------------------------------- faults that were, and edges


@pytest.mark.parametrize("y", [inf, nan, 2.0])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_sum_of_no_elements_is_zero(y: float, n: int) -> None:
    """sum(broadcast(1 / N)) is 0 for N = 0, not inf * 0."""
    graph = graph_of(
        "x: float[N]\nw: float\ny = sum(broadcast_to(w / N, (N,)))\nreturn y\n"
    )
    made = simplify(graph)
    check(made)
    feeds = {"x": np.ones(n), "w": y}
    np.testing.assert_array_equal(value(made, **feeds), value(graph, **feeds))


def test_a_product_of_no_elements_is_zero() -> None:
    graph = graph_of("X: float[N, 2]\ny = broadcast_to(1 / N, (N,)) @ X\nreturn y\n")
    made = simplify(graph)
    for n in (0, 4):
        x = np.arange(2.0 * n).reshape(n, 2)
        np.testing.assert_array_equal(value(made, X=x), value(graph, X=x))


def test_a_sum_over_a_length_that_is_never_zero() -> None:
    graph = graph_of(
        "x: float[N]\nw: float\ny = sum(broadcast_to(exp(w), (N + 1,)))\nreturn y\n"
    )
    assert "pull" not in {n.op.name for n in simplify(graph).nodes()}
    graph = graph_of(
        "x: float[N]\nw: float\ny = sum(broadcast_to(exp(w), (0,)))\nreturn y\n"
    )
    np.testing.assert_array_equal(value(simplify(graph), x=[1.0], w=1e4), 0.0)


def test_a_count_that_half_precision_cannot_hold() -> None:
    """70000 elements of 1e-3: the count is infinite in float16, the sum is not."""
    x, w = tensor(N, dtype=float16), tensor(name="w", dtype=float16)
    y = reduce_sum(broadcast(w, shape=(N,), along=(0,)), axes=(0,))
    graph = Graph("g", (x, w), (Output("y", y),))
    feeds = {"x": np.zeros(70000), "w": 1e-4}
    found = value(simplify(graph), **feeds)
    assert found.dtype == np.float16
    assert np.isfinite(found)
    assert found == value(graph, **feeds)


def test_an_integer_to_a_negative_power_fails_at_the_call() -> None:
    power = lookup("power")
    assert power is not None
    two, minus = (constant(value=Data(np.int64(k)), weak=False) for k in (2, -1))
    graph = Graph("g", (), (Output("y", power(two, minus)),))
    made = simplify(graph)
    with pytest.raises(ValueError, match="negative power"):
        value(made)


def test_a_length_in_a_narrow_integer_wraps() -> None:
    x = tensor(N)
    narrow = dim(value=N, dtype=int64, weak=False)
    cast = lookup("cast")
    assert cast is not None
    y = cast(cast(narrow, dtype=int8), dtype=float64)
    graph = Graph("g", (x,), (Output("y", y),))
    feeds = {"x": np.zeros(300)}
    assert value(simplify(graph), **feeds) == value(graph, **feeds) == 44


def test_large_integers_keep_their_rounding() -> None:
    text = """
k: int[2]
y = astype(astype(k, float64), int64)
z = astype(k, float32)
return y, z
"""
    graph = graph_of(text)
    made = simplify(graph)
    k = np.array([2**53 + 1, -(2**53) - 1])
    np.testing.assert_array_equal(value(made, k=k), k.astype(float).astype(int))


@BOTH
def test_the_sign_of_zero_stays(run: Any) -> None:
    zero = label(tensor(2), "x")
    parts = [
        embed(zero, shape=(3,), start=(0,), step=(1,), fill=fill)
        for fill in (0.0, -0.0)
    ]
    graph = Graph("g", (zero,), tuple(Output(f"y{k}", t) for k, t in enumerate(parts)))
    made = run(graph)
    found = evaluate(
        [o.tensor for o in made.outputs if o.tensor is not None],
        {made.inputs[0]: np.ones(2)},
    )
    assert [bool(np.signbit(v[-1])) for v in found] == [False, True]
    for expression in ("x * 1", "x / 1", "--x", "x * -1", "x ** 1", "(-x) * 1.0"):
        graph = graph_of(f"x: float[2]\ny = {expression}\nreturn y\n")
        data = np.array([0.0, -0.0])
        found = [value(graph, x=data), value(simplify(graph), x=data)]
        np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(found[1]))


@pytest.mark.parametrize(
    "expression",
    [
        "x * 1",
        "x / 1",
        "x**2",
        "x**0",
        "x**-1",
        "x**1",
        "-x / -x",
        "0 * x",
        "x - x",
        "x**0.5",
    ],
)
def test_nan_and_infinities_stay(expression: str) -> None:
    graph = graph_of(f"x: float[6]\ny = {expression}\nreturn y\n")
    data = [nan, inf, -inf, 0.0, -0.0, -2.5]
    np.testing.assert_array_equal(value(simplify(graph), x=data), value(graph, x=data))


EMPTY = [
    ("sum((1 / v) @ x)", [0.0]),
    ("sum(logsumexp(x, axis=1) @ x)", [0.0]),
    ("sum(broadcast_to((1 / v)[:, None], (1, N)))", [0.0]),
]


@pytest.mark.parametrize(("expression", "v"), EMPTY, ids=[e[0] for e in EMPTY])
def test_the_sum_of_no_elements_is_zero(expression: str, v: Any) -> None:
    """Also where a factor that was summed over does not exist, and the other is infinite."""
    graph = graph_of(
        f"x: float[1, N]\nv: float[1]\ny = {expression} + 0 * sum(v)\nreturn y\n"
    )
    feeds = {"x": np.zeros((1, 0)), "v": v}
    assert value(graph, **feeds) == 0
    assert value(simplify(graph), **feeds) == 0


def test_python_numbers_are_folded_in_double() -> None:
    """c * c of a Python number is a Python number: 0.01, not the square of float32(0.1)."""
    graph = graph_of("x: float32[2]\nc = 0.1\ny = c * c * x\nreturn y\n")
    made = simplify(graph)
    check(made)
    found = value(made, x=[1.0, 3.0])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32(0.1 * 0.1) * np.float32([1, 3]))


def test_products_of_booleans() -> None:
    graph = graph_of(
        "p: bool[3]\nq: bool[3]\nk: int[3]\ny = (p * q) * k * True\nz = p * 1\nreturn y, z\n"
    )
    made = simplify(graph)
    check(made)
    feeds = {"p": [True, False, True], "q": [True, True, False], "k": [2, 3, 4]}
    np.testing.assert_array_equal(value(made, **feeds), [2, 0, 0])
    assert [str(o.tensor.dtype) for o in made.outputs if o.tensor] == ["int64", "int64"]


def test_integers_wrap_as_they_did() -> None:
    graph = graph_of("k: int8[3]\ny = -(-k) * -1\nz = (-k) * k\nreturn y, z\n")
    data = np.array([-128, 127, 1], np.int8)
    np.testing.assert_array_equal(value(simplify(graph), k=data), value(graph, k=data))


# ------------------------------------------------------------------------------- merging


@BOTH
def test_equal_nodes_become_one(run: Any) -> None:
    graph = graph_of("x: float[2]\ny = exp(x) + exp(x)\nreturn y\n")
    assert [n.op.name for n in run(graph).nodes()] == ["input", "exp", "add"]


@BOTH
def test_sections_keep_their_own_nodes(run: Any) -> None:
    graph = graph_of(
        'x: float[2]\nwith section("a"):\n    p = exp(x)\nwith section("b"):\n'
        "    q = exp(x)\nreturn p, q\n"
    )
    assert [n.op.name for n in run(graph).nodes()].count("exp") == 2


@BOTH
def test_inputs_are_never_merged(run: Any) -> None:
    graph = graph_of("x: float[2]\nw: float[2]\ny = x * w\nreturn y\n")
    assert len(run(graph).inputs) == 2


def test_what_rules_make_equal_is_one() -> None:
    graph = graph_of("x: float[2]\ny = exp(x * 1) + exp(x / 1) + sin(--x)\nreturn y\n")
    made = simplify(graph)
    expected = ["input", "exp", "add", "sin", "add"]
    assert [n.op.name for n in made.nodes()] == expected
    assert str(simplify(made)) == str(made)


# ------------------------------------------------------------------------------ the check


def test_the_check_finds_what_is_broken() -> None:
    x, w = tensor(N), tensor(N, name="w")
    y = x * w

    def graph(inputs: Any, output: Tensor = y) -> Graph:
        return Graph("g", inputs, (Output("y", output),))

    check(graph((x, w)))
    with pytest.raises(InternalError, match="no input of the graph"):
        check(graph((x,)))
    with pytest.raises(InternalError, match="is made by multiply"):
        check(graph((x, w, y)))
    with pytest.raises(InternalError, match="two inputs are called x"):
        check(graph((x, w, tensor(N))))
    with pytest.raises(InternalError, match="no input has the size M"):
        check(graph((x,), broadcast(x, shape=(symbol("M"), N), along=(0,))))
    with pytest.raises(InternalError, match="two outputs are called y"):
        check(Graph("g", (x, w), (Output("y", y), Output("y", y))))
    wrong = x * w
    wrong.type = TensorType(float32, (N,))
    with pytest.raises(InternalError, match="has type float32"):
        check(graph((x, w), wrong))
    stray = Tensor(y.node, 1, y.type)
    with pytest.raises(InternalError, match="no output of its node"):
        check(graph((x, w), stray))

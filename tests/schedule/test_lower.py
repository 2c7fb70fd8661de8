"""What the schedule makes of graphs: golden Programs, and values at awkward sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scheduled import drawn, gradient_graph, program_of, run

from gradc.driver import Options, plan, simplified
from gradc.ops.evaluator import evaluate
from gradc.schedule.fuse import BLOCK
from gradc.schedule.lower import schedule
from gradc.schedule.program import Call, If, Loop, Note, Store, statement_lines

GOLDEN = Path(__file__).parent.parent / "golden" / "programs"

GRAPHS = {
    "logistic": """
X: float[N, D]
y: float[N]
w: float[D]
l2: float = input(0.1)
z = X @ w
loss = sum(softplus(z) - y * z) / N + l2 * sum(w**2)
differentiate(loss, [w])
""",
    "logsumexp": """
x: float[N]
y = logsumexp(x)
differentiate(y, [x])
""",
    "softmax_rows": """
X: float[N, D]
y: float[N, D]
loss = mean(softmax_cross_entropy(X, y))
differentiate(loss, [X])
""",
    "mixture": """
alphas: float[K]
means: float[K, D]
qs: float[K, D]
L: float[K, D, D]
x: float[N, D]
Q = tril(L, -1) + exp(qs)[:, :, None] * eye(D)
y = einsum("kij,nkj->nki", Q, x[:, None, :] - means)
beta = alphas + sum(qs, axis=1) - 0.5 * sum(y**2, axis=2)
F = sum(logsumexp(beta, axis=1)) - N * logsumexp(alphas)
differentiate(F, [alphas, means, qs, L])
""",
    "net": """
x: float32[N, 784]
y: int[N]
W1: float32[784, 128]
b1: float32[128]
W2: float32[128, 10]
b2: float32[10]
h = tanh(x @ W1 + b1)
loss = mean(sparse_softmax_cross_entropy(h @ W2 + b2, y))
differentiate(loss, [W1, b1, W2, b2])
""",
    "rotated": """
r: float[3]
x: float[N, 3]
th = sqrt(sum(r * r))
a = r / th
cr = stack([a[1] * x[:, 2] - a[2] * x[:, 1], a[2] * x[:, 0] - a[0] * x[:, 2], a[0] * x[:, 1] - a[1] * x[:, 0]], axis=1)
y = x * cos(th) + cr * sin(th) + a * (x @ a)[:, None] * (1.0 - cos(th))
loss = sum(y[:, 0] ** 2 / (1.0 + y[:, 2] ** 2))
differentiate(loss, [r, x])
""",
    "gathered": """
table: float[M, 3]
ids: int[N]
w: float[N]
rows = table[ids]
loss = sum(w * sum(rows**2, axis=1))
differentiate(loss, [table, w])
""",
    "running": """
x: float[N, D]
y = sum(cumsum(x, axis=0) ** 2) + sum(cumprod(x, axis=1))
differentiate(y, [x])
""",
}
SIZES = (0, 1, 3)


@pytest.mark.parametrize("name", GRAPHS)
def test_program_is_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    text = str(schedule(simplified(gradient_graph(GRAPHS[name])), "f").program) + "\n"
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", [n for n in GRAPHS if n != "net"])
def test_values_at_awkward_sizes(name: str, level: int) -> None:
    graph = gradient_graph(GRAPHS[name])
    made = schedule(simplified(graph), "f", level)
    for n in SIZES:
        sizes = {"N": n, "D": 2, "K": 3, "M": 3}
        values = drawn(graph, sizes, n)
        feeds = {t: values[t.attrs.name] for t in graph.inputs}
        expected = evaluate([o.tensor for o in graph.outputs if o.tensor], feeds, sizes)
        for got, want in zip(run(made, values, sizes), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_blocks_have_tails() -> None:
    graph = gradient_graph(GRAPHS["logistic"])
    made = schedule(simplified(graph), "f")
    for n in (BLOCK - 1, BLOCK, 2 * BLOCK + 1):
        sizes = {"N": n, "D": 1}
        values = drawn(graph, sizes, n)
        feeds = {t: values[t.attrs.name] for t in graph.inputs}
        expected = evaluate([o.tensor for o in graph.outputs if o.tensor], feeds, sizes)
        for got, want in zip(run(made, values, sizes), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9)


def test_a_chain_is_one_loop() -> None:
    body = program_of(
        "x: float[N]\ny = sum(tanh(x) * exp(-x * x))\ndifferentiate(y, [x])\n"
    )
    assert sum(isinstance(s, Loop) for s in body) == 1


def test_level_0_is_a_loop_a_node() -> None:
    body = program_of(
        "x: float[N]\ny = sum(tanh(x) * exp(x))\ndifferentiate(y, [x])\n", 0
    )
    assert sum(isinstance(s, Loop) for s in body) >= 4


def test_large_products_are_calls_and_add_up_in_place() -> None:
    body = program_of("x: float[N, M]\ny = sum(sin(x @ x.T))\ndifferentiate(y, [x])\n")
    calls = [s for s in body if isinstance(s, Call)]
    assert [c.routine for c in calls] == ["gemm"] * 3
    betas = [c.args[5].value for c in calls]  # type: ignore[union-attr]
    assert betas == [0.0, 0.0, 1.0]


def test_a_matrix_times_a_vector_reads_rows() -> None:
    body = program_of(
        "x: float[N, M]\nu: float[N]\ny = sum(sin(u @ x))\ndifferentiate(y, [x])\n"
    )
    outer = next(
        s
        for s in body
        if isinstance(s, Loop) and any(isinstance(i, Loop) for i in s.body)
    )
    inner = next(i for i in outer.body if isinstance(i, Loop))
    store = next(s for s in inner.body if isinstance(s, Store))
    assert store.mode == "+" and inner.mode == "lanes"


def test_sections_are_not_fused() -> None:
    text = """
x: float[N]
with section("encoder"):
    h = tanh(x)
with section("{}"):
    y = sum(h * h)
differentiate(y, [x], colocate_gradients_with_ops=True)
"""

    def loops(text: str) -> int:
        return sum(isinstance(s, Loop) for s in program_of(text))

    assert loops(text.format("encoder")) == 1
    assert loops(text.format("decoder")) == 2


@pytest.mark.parametrize("level", [0, 1])
def test_sections_are_named_and_compute_their_own(level: int) -> None:
    """What is cheap is computed anew where it is needed, but for another section's."""
    text = """
x: float[N]
a: float
with section("encoder"):
    s = exp(a)
    h = x * 2.0 + 1.0
with section("decoder"):
    z = tanh(h) * s
y = sum(z * h)
differentiate(y, [x, a], colocate_gradients_with_ops=True)
"""
    parts: dict[str, str] = {}
    section = ""
    for stmt in schedule(simplified(gradient_graph(text)), "f", level).program.body:
        if isinstance(stmt, Note) and stmt.is_section:
            assert stmt.text != section
            section = stmt.text
        else:
            lines = "\n".join(statement_lines([stmt]))
            parts[section] = parts.get(section, "") + lines + "\n"
    assert list(parts) == ["section encoder", "section decoder", "end of section"]
    assert "exp(a)" in parts["section encoder"]
    assert "x[i] * 2.0" in parts["section encoder"]
    others = parts["section decoder"] + parts["end of section"]
    assert "x[" not in others and "exp" not in others
    assert "tanh" not in parts["section encoder"] + parts["end of section"]


def test_what_a_gate_holds_back_is_computed_before_it() -> None:
    text = """
x: float[N]
y: float[N]
w = x * y * 2.0 + x
loss = sum(w * w)
differentiate(loss, [x, y], gate_gradients=True)
"""
    *_, before, first, second = [
        "\n".join(statement_lines([s]))
        for s in schedule(simplified(gradient_graph(text)), "f").program.body
        if isinstance(s, Loop)
    ]
    assert "* y[i]" in before and "* x[i]" in before
    assert "*" not in first + second


def test_aggregation_methods_differ_in_the_order_of_operations() -> None:
    text = """
x: float[N, M]
y = sum(sin(x @ x.T)) + sum(exp(x) * x) + sum(cumsum(x, axis=0) * x)
differentiate(y, [x], aggregation_method="{}")
"""
    programs = {
        m: str(schedule(simplified(gradient_graph(text.format(m))), "f").program)
        for m in ("add_n", "tree", "accumulate_n")
    }
    assert len(set(programs.values())) == 3
    one_buffer = programs["accumulate_n"]
    assert one_buffer.count("x_bar[i, j] +=") >= 3
    assert "x_bar[i, j] +=" not in programs["add_n"]
    # the products' terms need memory of their own where all are added at once
    assert programs["add_n"].count("workspace") > one_buffer.count("workspace")


def test_scalars_of_rotations_need_no_loops() -> None:
    body = program_of(GRAPHS["rotated"])
    loops = [s for s in body if isinstance(s, Loop) and s.mode != "block"]
    assert all(not isinstance(i, Loop) for s in loops for i in s.body)
    assert not any(isinstance(s, If | Call) for s in body)


@pytest.mark.parametrize("dims", ["N, D", "4, 3", "2, D", "N, 3"])
@pytest.mark.parametrize("product", ["z @ z.T", "z[:, None, :] - z", "z[::-1] * z"])
def test_what_is_read_by_rows_and_whole_at_once_is_kept_whole(
    dims: str, product: str
) -> None:
    made = plan(f"x: float[{dims}]\nz = sin(x)\ny = {product}\nreturn y\n", Options())
    x = np.random.default_rng(0).normal(
        size=(2 if dims[0] == "2" else 4, 3 if dims[-1] == "3" else 5)
    )
    z = np.sin(x)
    expected = eval(product, {"z": z})
    [found] = run(
        schedule(simplified(made.graph), "f"),
        {"x": x},
        dict(zip(("N", "D"), x.shape, strict=True)),
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


LOOKED_UP = {
    "a row that is broadcast": "broadcast_to(u[:1] * v, (3, M))[k]",
    "a broadcast axis beside another": "broadcast_to((a * 2.0)[:1], (3, M))[k, l]",
    "a number": "broadcast_to(exp(u[0]), (3,))[k]",
    "an input's number": "broadcast_to(s, (3,))[k]",
    "transposed": "(a * 2.0).T[l, k]",
    "an input transposed": "a.T[l, k]",
    "axes apart": "transpose(stack([a, a * a]), (2, 0, 1))[l, :, k]",
    "counted": "arange(5)[k] * s",
    "counted along one axis": "broadcast_to(arange(5)[:, None], (5, M))[k, l] * s",
    "one value": "ones((5,))[k] * s",
    "a size": "broadcast_to(M, (5,))[k] * s",
    "backwards": "sin(v)[::-1][k]",
    "reshaped": "sin(a).reshape(3 * M)[k * 2]",
    "looked up twice": "sin(a)[k][::-1][l - l, l]",
    "a sum": "sum(a * a, axis=1)[k]",
    "a sum, broadcast": "broadcast_to(sum(a * a, axis=0), (3, M))[k]",
    "by computed indices": "sin(v)[broadcast_to(k[0] + 1, (3,))]",
    "by transposed indices": "sin(a)[stack([k, l]).T, stack([l, k]).T]",
    "into what is written": "index_add(a * 2.0, (k, l), u[k] * s)[:, l]",
}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("kind", LOOKED_UP)
def test_what_is_looked_up_may_be_a_view_of_anything(kind: str, level: int) -> None:
    graph = gradient_graph(f"""
a: float[3, M]
u: float[3]
v: float[M]
s: float
k: int[3]
l: int[3]
y = {LOOKED_UP[kind]}
differentiate([y], [a, u, v, s], grad_ys=[cos(y)], unconnected_gradients="zero")
""")
    made = schedule(simplified(graph), "f", level)
    values = drawn(graph, {"M": 5}, 0)
    values |= {"k": np.array([0, 2, 1]), "l": np.array([2, -1, 2])}
    feeds = {t: values[t.attrs.name] for t in graph.inputs}
    expected = evaluate([o.tensor for o in graph.outputs if o.tensor], feeds, {"M": 5})
    for got, want in zip(run(made, values, {"M": 5}), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)

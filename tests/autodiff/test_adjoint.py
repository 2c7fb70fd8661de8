"""Rules 6 to 9, 11: how the adjoint is written. Sums of terms, gates, sections, names, pruning."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gradc.autodiff.reverse import adjoint, gradients
from gradc.driver import emit
from gradc.errors import GradcError
from gradc.frontends.gc import parse
from gradc.graph import Graph, Node, Place, Tensor, at, label, ordered
from gradc.ops.basic import input_, opaque
from gradc.ops.control import prevent_gradient, stop_gradient
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.types import TensorType, float32, float64
from tests.autodiff.helpers import adjoint_source, check, made_by

METHODS = ["add_n", "tree", "accumulate_n"]


def tensor(*shape: Any, name: str = "x", dtype: Any = float64) -> Tensor:
    made = input_(name=name, type=TensorType(dtype, shape), default=None)
    return label(made, name)


def sums(bar: Tensor | None) -> list[Node]:
    """The nodes that add terms, in order."""
    return [n for n in made_by([bar]) if n.op.name == "add_n"]


# ------------------------------------------------------------------- 6: aggregation_method


def fan(method: str | None, count: int = 5) -> tuple[Tensor, Tensor, Tensor | None]:
    """x, a sum of `count` functions of x, and its gradient."""
    x = tensor(3)
    y = x * 0.0
    for k in range(count - 1):
        y = y + apply("sin", x * (k + 1.0))
    (bar,) = gradients(y, x, aggregation_method=method).tensors
    return x, y, bar


@pytest.mark.parametrize("method", [None, *METHODS])
def test_values_agree(method: str | None) -> None:
    x, _, bar = fan(method)
    assert bar is not None
    data = np.array([0.3, -1.0, 2.0])
    (found,) = evaluate([bar], {x: data})
    wanted = sum(k * np.cos(k * data) for k in range(1, 5))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("method", ["add_n", "accumulate_n"])
def test_all_terms_in_one_sum_in_the_order_of_consumers(method: str) -> None:
    _, _, bar = fan(method)
    (total,) = sums(bar)
    assert (len(total.inputs), total.attrs.method) == (5, method)
    # consumers in the order in which the graph computes them: x * 0, x * 1, ...
    factors = [t.inputs[1].inputs[0].attrs.value.item() for t in total.inputs]
    assert factors == [0, 1, 2, 3, 4]


def test_tree_adds_pairs_as_they_come() -> None:
    _, _, bar = fan("tree")
    totals = sums(bar)
    assert [len(n.inputs) for n in totals] == [2, 2, 2, 2]
    for earlier, later in pairwise(totals):
        assert later.inputs[0].node is earlier  # one running sum
    assert {n.attrs.method for n in totals} == {"tree"}


def test_the_order_shows_in_rounding() -> None:
    """1e8 - 1e8 + 1 + 3.25 in float32: the tree begins at the end, where the adjoint does."""
    found = {}
    for method in METHODS:
        x = tensor(dtype=float32)
        y = x * 1e8
        for factor in (-1e8, 1.0, 3.25):
            y = y + x * factor
        (bar,) = gradients(y, x, aggregation_method=method).tensors
        assert bar is not None
        found[method] = float(evaluate([bar], {x: np.float32(1)})[0])
    assert found["add_n"] == found["accumulate_n"] == 4.25
    assert found["tree"] == 8.0


def test_unknown_methods_are_errors() -> None:
    x = tensor(3)
    for bad in (7, "ADD_N", ""):
        with pytest.raises(
            GradcError, match='expected "add_n", "tree", "accumulate_n"'
        ):
            gradients(x, x, aggregation_method=bad)  # type: ignore[arg-type]


STEPS = """
W: float[N, N]
h: float[N, M]
h1 = tanh(W @ h)
h2 = tanh(W @ h1)
h3 = tanh(W @ h2)
h4 = tanh(W @ h3)
h5 = tanh(W @ h4)
h6 = tanh(W @ h5)
z = sum(h6)
differentiate(z, W, aggregation_method={method!r})
return z
"""


def arena(source: str, **sizes: int) -> int:
    """The doubles that the emitted entry borrows for a call."""
    found = re.search(
        r"def value_and_gradients\(.*?_borrow\((.*?)\)\n", source, re.DOTALL
    )
    return 0 if found is None else int(eval(found[1], {}, sizes))


def test_order_and_memory_in_the_emitted_source() -> None:
    """Six terms of N x N each: side by side, two and their sum at a time, or in place."""
    products, memory = {}, {}
    for method in METHODS:
        text = STEPS.format(method=method)
        memory[method] = arena(emit(text), N=800, M=8) / 800**2
        # the products t @ h.T: the later factor, what is added to, where it goes
        products[method] = re.findall(
            r"_gemm\(_N, _T, 1\.0, \w+, (h\d?)\w*, ([01])\.0, (\w+)",
            adjoint_source(text),
        )
    assert 6 < memory["add_n"] < 6.5
    assert 3 < memory["tree"] < 3.5
    assert memory["accumulate_n"] < 0.5
    assert [beta for _, beta, _ in products["accumulate_n"]] == ["0", *"11111"]
    assert {out for _, _, out in products["accumulate_n"]} == {"W_bar"}
    for method in ("add_n", "tree"):
        assert {beta for _, beta, _ in products[method]} == {"0"}
        assert len({out for _, _, out in products[method]}) == 6
    added = {
        method: re.findall(
            r"= \(?\s*(t\w+\[i, j\](?:\s+\+ t\w+\[i, j\])+)",
            adjoint_source(STEPS.format(method=method)),
        )
        for method in METHODS
    }
    assert [line.count("+") for line in added["add_n"]] == [5]
    assert [line.count("+") for line in added["tree"]] == [1] * 5
    assert added["accumulate_n"] == []


def test_the_order_in_the_numpy_source() -> None:
    for method, order in (
        ("add_n", ["h", "h1", "h2", "h3", "h4", "h5"]),
        ("accumulate_n", ["h", "h1", "h2", "h3", "h4", "h5"]),
        ("tree", ["h5", "h4", "h3", "h2", "h1", "h"]),
    ):
        source = adjoint_source(STEPS.format(method=method), target="numpy")
        assert re.findall(r"@ (h\d?)\.T", source) == order


# ----------------------------------------------------------------------- 7: gate_gradients


def test_gates_hold_all_adjoints_of_an_op() -> None:
    x, w = tensor(2, 2), tensor(2, 2, name="w")
    h = apply("exp", x)
    y = apply("sum", apply("tanh", h @ w))
    a, b = gradients(y, [x, w], gate_gradients=True).tensors
    gates = [n for n in made_by([a, b]) if n.op.name == "gate"]
    (gate,) = gates  # only the product has several
    assert len(gate.inputs) == 2
    assert {t.op.name for t in gate.inputs} == {"contract"}
    assert b is not None
    assert b.node is gate
    data = {x: np.ones((2, 2)), w: np.arange(4.0).reshape(2, 2)}
    plain = gradients(y, [x, w]).tensors
    for found, wanted in zip((a, b), plain, strict=True):
        assert found is not None
        assert wanted is not None
        np.testing.assert_array_equal(
            evaluate([found], data)[0], evaluate([wanted], data)[0]
        )


def test_no_gates_where_one_adjoint_is_wanted() -> None:
    x, w = tensor(2), tensor(2, name="w")
    bars = gradients(apply("tanh", x * w), x, gate_gradients=True).tensors
    assert [n for n in made_by(bars) if n.op.name == "gate"] == []
    assert not any(
        n.op.name == "gate" for n in made_by(gradients(x * w, [x, w]).tensors)
    )


GATED = """
u: float[N]
w: float[N]
x = exp(u)
h = x * w
z = sum(h * h)
differentiate(z, [u, w], gate_gradients={gate})
return z
"""


def loops(source: str) -> list[str]:
    """The bodies of the outermost loops of a kernel."""
    return re.findall(r"\n    for .*?:\n((?:        .*\n)+)", source + "\n")


def test_gates_in_the_emitted_source() -> None:
    """With a gate, h's two adjoints are stored before exp's adjoint reads one of them."""
    plain = loops(adjoint_source(GATED.format(gate=False)))
    assert any("u_bar[" in body and "w_bar[" in body for body in plain)
    gated = loops(adjoint_source(GATED.format(gate=True)))
    (uses,) = [k for k, body in enumerate(gated) if "u_bar[" in body]
    made = [k for k, body in enumerate(gated) if "h_bar" in body]
    assert made
    assert max(made) < uses
    assert "h_bar" not in gated[uses]


# --------------------------------------------------------------- 8: sections and colocation

SECTIONS = """
x: float[N]
w: float[N]
with section("encoder"):
    h = tanh(x * w)
with section("decoder"):
    q = exp(h) * h
z = sum(q)
differentiate(z, [w], colocate_gradients_with_ops={colocate})
return z
"""


@pytest.mark.parametrize("colocate", [False, True])
def test_adjoint_nodes_lie_in_sections(colocate: bool) -> None:
    graph = parse(SECTIONS.format(colocate=colocate))
    request = graph.request
    assert request is not None
    nodes = made_by(adjoint(request).tensors)
    found = {n.place.section for n in nodes}
    assert found == ({"", "encoder", "decoder"} if colocate else {""})
    if colocate:
        for node in nodes:
            statement = node.place.statement
            assert statement is not None
            wanted = {"h": "encoder", "q": "decoder", "z": ""}[
                statement.text.strip()[0]
            ]
            assert node.place.section == wanted


def test_sections_in_the_emitted_source() -> None:
    plain = adjoint_source(SECTIONS.format(colocate=False), target="numpy")
    colocated = adjoint_source(SECTIONS.format(colocate=True), target="numpy")

    def parts(source: str) -> list[str]:
        found = re.findall(r"# (section \w+|end of section|adjoint)", source)
        return [word.replace("section ", "") for word in found]

    assert parts(plain) == ["encoder", "decoder", "end of section", "adjoint"]
    assert parts(colocated)[:3] == ["encoder", "decoder", "end of section"]
    after = colocated.split("# end of section")[1]
    assert "# section encoder" in after


def test_fusion_does_not_cross_sections() -> None:
    source = adjoint_source(SECTIONS.format(colocate=True))
    for body in loops(source):
        assert not ("_tanh" in body and "_exp" in body)
    whole = re.sub(r"with section.*\n", "", SECTIONS.format(colocate=True))
    whole = whole.replace("    h =", "h =").replace("    q =", "q =")
    assert any("_tanh" in b and "_exp" in b for b in loops(adjoint_source(whole)))


# --------------------------------------------------------------------- 9: names and scopes


def test_the_scope_goes_before_names_and_comments() -> None:
    text = GATED.format(gate="False").replace(
        "gate_gradients", 'name="bp", gate_gradients'
    )
    for target in ("numba", "numpy"):
        source = adjoint_source(text, target=target)
        assert "bp_h_bar" in source
        assert re.search(r"# (bp: adjoint|adjoint: bp)", source)
        assert not re.search(r"\bh_bar", source)
    assert "bp" not in adjoint_source(GATED.format(gate="False"))


def test_names_of_adjoint_nodes() -> None:
    x = tensor(2)
    h = label(apply("exp", x), "h")
    y = label(h * h, "y")
    (a,) = gradients(y, x, name="bp").tensors
    assert a is not None
    assert a.name == "bp/x_bar"
    nodes = made_by([a], "bp")
    assert {n.place.scope for n in nodes} == {"bp"}
    assert "bp/h_bar" in {t.name for n in nodes for t in n.outputs}
    for empty in ("", None):
        (b,) = gradients(y, x, name=empty).tensors
        assert b is not None
        assert b.node.place.scope == "gradients"
        assert b.name == "x_bar"


def test_a_name_is_a_text() -> None:
    x = tensor(2)
    with pytest.raises(GradcError, match="name: expected a str, found int") as caught:
        gradients(x * x, x, name=5)  # type: ignore[arg-type]
    assert caught.value.code == "bad-option"


def test_a_second_derivative_has_a_scope_of_its_own() -> None:
    x = tensor(2)
    (a,) = gradients(apply("exp", x), x, name="first").tensors
    (b,) = gradients(a, x, name="second").tensors
    scopes = {n.place.scope for n in ordered([b])}
    assert scopes == {"", "first", "second"}


def test_adjoint_nodes_tell_the_statement_they_belong_to() -> None:
    graph = parse(GATED.format(gate="False"), "m.gc")
    assert graph.request is not None
    nodes = made_by(adjoint(graph.request).tensors)
    lines = {n.place.statement.line for n in nodes if n.place.statement is not None}
    assert lines == {4, 5, 6}
    assert all(n.place.statement is not None for n in nodes)


# ---------------------------------------------------------------- 10, 11: what is emitted


def test_no_node_for_the_adjoint_of_copies_and_stops() -> None:
    x, g = tensor(2), tensor(2, name="g")
    y = apply("copy", apply("copy", x))
    assert gradients(y, x, grad_ys=g).tensors == (g,)


def test_only_nodes_on_a_path_get_an_adjoint() -> None:
    x, w, u = tensor(2, 2), tensor(2, 2, name="w"), tensor(2, 2, name="u")
    side = apply("exp", u)
    y = apply("sum", (x @ w) * side)
    (bar,) = gradients(y, x).tensors
    names = [n.op.name for n in made_by([bar])]
    # seed, adjoint of sum and of the product, one contraction: nothing for w, u and exp
    assert names.count("contract") == 1
    assert "exp" not in names
    (only,) = gradients(apply("exp", u) + 0.0 * u, u).tensors
    assert only is not None


def test_the_unwanted_side_of_an_elementwise_op_is_not_built() -> None:
    x, w = tensor(2), tensor(2, name="w")
    (bar,) = gradients(x**w, x).tensors
    assert "log" not in {n.op.name for n in made_by([bar])}
    (bar,) = gradients(x**w, w).tensors
    assert "log" in {n.op.name for n in ordered([bar])}  # type: ignore[list-item]


def test_an_op_without_derivative_is_an_error_on_a_path_only() -> None:
    x, w = tensor(2), tensor(2, name="w")
    hidden = label(opaque(x), "hidden")
    with pytest.raises(GradcError) as caught:
        gradients(label(hidden * w, "y"), x)
    assert caught.value.code == "no-gradient"
    assert "the gradient of y needs it" in str(caught.value)
    assert "stop_gradient" in caught.value.hint
    with pytest.raises(GradcError):
        gradients(hidden * w, [w, x], unconnected_gradients="zero")
    fine = [
        gradients(hidden * w, w),  # upstream of no x
        gradients(hidden * w, [w, hidden]),  # above the xs
        gradients(hidden * w, [hidden, x], stop_gradients=[hidden]),
        gradients(stop_gradient(hidden) * w, [w, x]),
        gradients(apply("floor", hidden) * w, [w, x]),
        gradients(opaque(apply("floor", x)) * x, x),
        gradients(opaque(apply("astype", x, float32)) * 1.0, w),
        gradients(hidden, hidden),
        gradients(x * x, x),  # beside y
    ]
    assert fine[2].tensors[1] is None


def test_a_prevented_gradient_tells_its_message() -> None:
    x, w = tensor(2), tensor(2, name="w")
    table = prevent_gradient(x, "the table is fixed")
    with pytest.raises(GradcError, match="the table is fixed") as caught:
        gradients(table * w, x)
    assert caught.value.code == "gradient-prevented"
    assert gradients(table * w, [w, table]).tensors[1] is not None
    assert gradients(table * w, [x, w], stop_gradients=table).tensors[0] is None


def test_errors_of_paths_have_the_place_of_the_op() -> None:
    text = """x: float[2]
h = prevent_gradient(exp(x), "no")
y = h * 2.0
a, = gradients(y, x)
return a
"""
    with pytest.raises(GradcError) as caught:
        parse(text, "m.gc")
    assert caught.value.location is not None
    assert caught.value.location.place == "m.gc:2:5"


def test_stop_gradient_and_a_custom_gradient_in_a_text() -> None:
    check(
        """
x: float[2]
def f(a):
    return floor(a)
def straight(a, g):
    return g
q = custom_gradient(f, straight)(x)
a, = gradients(q * q, x)
b, = gradients(stop_gradient(x) * x, x)
return q, a, b
""",
        {"q": [1.0, -2.0], "a": [2.0, -4.0], "b": [1.5, -1.5]},
        x=[1.5, -1.5],
    )


# ------------------------------------------------------------------ 13: tensors, not ops


def test_empty_xs_duplicates_and_an_x_behind_y() -> None:
    x = tensor(2)
    y = apply("sin", x)
    assert gradients(y, []).tensors == ()
    a, b = gradients(y, [x, x]).tensors
    assert a is not None
    assert a is b
    assert gradients(y, apply("exp", y)).tensors == (None,)
    seed, bar = gradients(y, [y, x]).tensors
    assert seed is not None
    assert bar is not None
    np.testing.assert_array_equal(evaluate([seed], {x: np.zeros(2)})[0], np.ones(2))


def test_a_copy_of_what_y_reads_is_another_tensor() -> None:
    x = tensor(2)
    other = apply("copy", x)
    assert gradients(x * x, other).tensors == (None,)


def test_equal_expressions_are_two_tensors() -> None:
    check(
        """
x: float
a = exp(x)
b = exp(x)
y = a * b
p, = gradients(y, x, stop_gradients=a)
q, r = gradients(y, [a, b])
return p, q, r
""",
        {"p": np.exp(2.0), "q": np.exp(1.0), "r": np.exp(1.0)},
        x=1.0,
    )


def test_a_graph_is_not_changed_by_its_gradients() -> None:
    x = tensor(2)
    y = apply("sum", apply("tanh", x * x))
    before = [id(n) for n in ordered([y])]
    gradients(y, x)
    assert [id(n) for n in ordered([y])] == before
    assert isinstance(Graph("g", (x,), ()), Graph)


def test_every_option_in_one_call() -> None:
    x, g = tensor(2), tensor(2, name="g")
    with at(Place(section="s")):
        y = x * x * x
    (bar,) = gradients(
        y,
        x,
        grad_ys=g,
        name="n",
        colocate_gradients_with_ops=True,
        gate_gradients=True,
        aggregation_method="tree",
        stop_gradients=[g],
        unconnected_gradients="zero",
        zero_adjoints="ieee",
        sparse=None,
    ).tensors
    assert bar is not None
    found = evaluate([bar], {x: np.array([1.0, 2.0]), g: np.array([1.0, 10.0])})[0]
    np.testing.assert_allclose(found, [3, 120])


def test_sparse_gradients_are_not_yet() -> None:
    x = tensor(2)
    with pytest.raises(GradcError) as caught:
        gradients(x * x, x, sparse=True)
    assert caught.value.code == "not-yet"

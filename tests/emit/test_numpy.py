"""The numpy target against the evaluator: every op, and how the text reads."""

import re
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import gradc

sys.path.insert(0, str(Path(__file__).parent.parent / "ops"))

import cases
import test_contract
import test_create
import test_index
import test_linalg
from rows import SIZES, Row, arrays, inputs, listed

from gradc.autodiff.reverse import gradients
from gradc.driver import simplified
from gradc.emit.constants import Constants
from gradc.emit.numpy import NumpyTarget, numpy_function
from gradc.frontends.gc import parse
from gradc.graph import Graph, Output, Tensor
from gradc.ops import arraylib
from gradc.ops.evaluator import evaluate

GOLDEN = Path(__file__).parent.parent / "golden"
ROWS = {
    str(row): row
    for module in (cases, test_contract, test_create, test_index, test_linalg)
    for table in vars(module).values()
    if isinstance(table, list | tuple)
    for row in table
    if isinstance(row, Row)
}


def function(graph, results):
    """The emitted function of a graph, and the text."""
    constants = Constants()
    source = numpy_function("f", graph, results, constants)
    text = "\n".join(source.lines)
    scope = {"np": np, "Any": object, "_statement": lambda text: np.errstate()}
    scope |= {n: getattr(arraylib, n) for n in dir(arraylib) if n.startswith("_")}
    scope |= {name: data.array for data, name in constants.names.items()}
    exec(compile(text, "<f>", "exec"), scope)  # noqa: S102
    return scope["f"], source, text


@pytest.mark.parametrize("name", ROWS)
def test_ops_and_their_adjoints_have_the_evaluators_values(name):
    row = ROWS[name]
    for dtype in row.dtypes:
        xs = inputs(row, dtype, None)
        data = arrays(row, dtype, SIZES)
        ys = [y for y in listed(row.build(*xs)) if isinstance(y, Tensor)]
        smooth = [y for y in ys if y.dtype.is_inexact]
        bars = gradients(smooth, xs).tensors if dtype.is_inexact and smooth else ()
        results = [*ys, *(b for b in bars if b is not None)]
        wanted = evaluate(results, dict(zip(xs, data, strict=True)), SIZES)
        graph = simplified(
            Graph(
                "g", tuple(xs), tuple(Output(f"o{k}", t) for k, t in enumerate(results))
            )
        )
        call, source, text = function(graph, [o.tensor for o in graph.outputs])
        given = dict(zip(graph.inputs, data, strict=True))
        arguments = [given[t] for t in source.inputs]
        found = call(*arguments, *(SIZES[s] for s in source.symbols))
        for value, want in zip(found, wanted, strict=True):
            assert np.shape(value) == want.shape, text
            assert np.asarray(value).dtype == want.dtype, text
            tolerance = (1e-9 if want.dtype.itemsize >= 8 else 1e-3) * row.tolerance
            np.testing.assert_allclose(value, want, rtol=tolerance, atol=tolerance)


def statements(text, target="value_and_gradients"):
    """The statements of an entry's function, without indents."""
    graph = parse(text)
    results = [o.tensor for o in graph.outputs]
    final = simplified(graph)
    del results
    _, source, _ = function(final, [o.tensor for o in final.outputs])
    return [line.strip() for line in source.lines[2:]]


def test_statements_read_like_the_source():
    assert statements("x: float[N, D]\nw: float[D]\nz = tanh(x @ w)\nreturn z") == [
        "z = np.tanh(x @ w)",
        "return (z,)",
    ]


def test_broadcasts_are_left_to_numpy():
    lines = statements(
        "x: float[N, D]\nc: float[N]\nr: float[D]\nreturn x * c[:, None] + r"
    )
    assert lines == ["return (x * c[:, None] + r,)"]


def test_a_broadcast_that_nothing_covers_is_written_out():
    assert statements("x: float[N]\nreturn broadcast_to(exp(x), (2, N))") == [
        "return (np.broadcast_to(np.exp(x), (2, N)),)"
    ]


def test_numbers_are_bare_beside_an_array_and_typed_alone():
    assert statements("x: float32[N]\nreturn 0.1 * x / N") == ["return (0.1 * x / N,)"]
    lines = statements(
        "b: bool[N]\nx: float32\nreturn where(b, float32(1.0), float32(2.0))"
    )
    assert lines == ["return (np.where(b, np.float32(1.0), 2.0),)"]


def test_long_expressions_are_named():
    terms = " + ".join(f"tanh(x * {k}.5)" for k in range(12))
    lines = statements(f"x: float[N]\ny = {terms}\nreturn y")
    assert all(len(line) <= 84 for line in lines)
    assert sum(line.startswith("t") for line in lines) >= 1


def test_statements_that_say_more_than_the_text_are_quoted():
    lines = statements("x: float[N]\ny = softplus(x)\nz = y * 2.0\nreturn z")
    assert "# y = softplus(x)" in lines
    assert "# z = y * 2.0" not in lines


def test_sums_of_many_terms_are_cut():
    graph = parse(
        "x: float[N]\n"
        + "".join(f"y{k} = x * {k}.0\n" for k in range(100))
        + "return x"
    )
    ys = [graph.names[f"y{k}"] for k in range(100)]
    g = gradients(ys, [graph.inputs[0]]).tensors[0]
    call, source, text = function(graph, [g])
    assert max(map(len, text.split("\n"))) <= 88
    x = np.arange(3.0)
    given = {t: x for t in graph.inputs}
    (value,) = call(*(given[t] for t in source.inputs), *(3 for _ in source.symbols))
    np.testing.assert_allclose(np.broadcast_to(value, (3,)), np.full(3, 4950.0))


def test_target_has_no_leftovers():
    target = NumpyTarget()
    assert target.view()["helpers"] == ()


# ----------------------------------------------------------------------------- costs


@pytest.mark.parametrize(
    ("name", "flops"),
    [("logistic", "2 * D * N + 2 * D + 36 * N + 6"), ("embedding", "11 * B")],
)
def test_the_docstring_tells_the_flops_and_bounds_the_memory(
    name: str, flops: str
) -> None:
    module = gradc.compile(gradc.load(GOLDEN / f"{name}.gc"), target="numpy")
    text = " ".join(module.source.partition('"""\n\nfrom')[0].split())
    assert f" run: {flops} flops, " in text
    sizes = {"N": 300, "D": 4, "V": 50, "B": 2000}
    rng = np.random.default_rng(0)
    feeds = {}
    for key, row in module.INPUTS.items():
        shape = tuple(sizes.get(d, d) for d in row["shape"])
        drawn = rng.integers(0, 40, shape) if row["dtype"] == "int64" else None
        feeds[key] = rng.random(shape).astype(row["dtype"]) if drawn is None else drawn
    for entry in ("run", "value_and_gradients"):
        call = getattr(module, entry)
        found = re.search(
            rf" {entry}: [^.]*? flops, at most ([^.]*?) bytes in arrays beyond", text
        )
        assert found is not None
        memory = eval(found[1], {}, sizes)
        call(**feeds)
        tracemalloc.start()
        result = call(**feeds)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        parts = [result] if entry == "run" else result
        kept = sum(np.asarray(v).nbytes for r in parts for v in r if v is not None)
        assert peak <= memory + kept + 20_000  # objects, and NumPy's buffers
        assert memory <= 4 * peak


def test_sections_compute_their_own():
    text = """
x: float[N]
with section("encoder"):
    h = x * 2.0
    z = tanh(h)
with section("decoder"):
    e = exp(h * z)
y = sum(e)
differentiate(y, [x], colocate_gradients_with_ops=True)
"""
    source = gradc.emit(text, target="numpy")
    body = source[source.index("def _value_and_gradients") :].split("return")[0]
    decoder, encoder = body.split("# adjoint")[1].split("# section encoder")
    assert decoder.split() == ["z_bar", "=", "e", "*", "h", "t1", "=", "e", "*", "z"]
    assert "h_bar = z_bar * (1.0 - z * z) + t1" in encoder

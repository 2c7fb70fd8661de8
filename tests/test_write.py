"""Graphs as text: names, constants, and everything else that must read back."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import gradc.ops  # noqa: F401  (enters the ops)
from gradc.errors import InternalError
from gradc.frontends.gc import parse
from gradc.graph import Data, Graph, Output, Place, Request, Tensor, at, label
from gradc.ops.basic import add_n, cast, constant, dim, gate, input_, reduce_sum
from gradc.ops.functions import lookup_function
from gradc.types import (
    DTYPES,
    Facts,
    TensorType,
    float16,
    float32,
    float64,
    int64,
    symbol,
)
from gradc.write import write

N = symbol("N")


def made(name: str, type: TensorType, default: Any = None) -> Tensor:
    return label(input_(name=name, type=type, default=default), name)


def graph_of(inputs: list[Tensor], **outputs: Tensor) -> Graph:
    return Graph(
        "g",
        tuple(inputs),
        tuple(Output(n, t) for n, t in outputs.items()),
        names={t.name: t for t in inputs},
    )


def shape_of(graph: Graph) -> list[Any]:
    """What must be the same after reading back: ops, attributes, types and how they hang together."""
    nodes = graph.nodes()
    number = {t: (k, t.index) for k, node in enumerate(nodes) for t in node.outputs}
    request = graph.request
    return [
        [
            (node.op.name, node.attrs, node.types, [number[t] for t in node.inputs])
            for node in nodes
        ],
        [node.place.section for node in nodes],
        [
            (o.name, None if o.tensor is None else number[o.tensor], o.why)
            for o in graph.outputs
        ],
        {n: number[t] for n, t in graph.names.items() if t in number},
        graph.doc,
        request and request.mapped(lambda t: number[t]),  # type: ignore[arg-type, return-value]
    ]


def check(graph: Graph) -> str:
    """The text, once it is seen to read back to the same graph and to the same text."""
    text = write(graph)
    again = parse(text)
    assert shape_of(again) == shape_of(graph)
    assert write(again) == text
    return text


def test_a_graph_as_text() -> None:
    graph = parse(
        '"""A sum."""\nx: float[N]\nk: float = input(2)\nwith section("a"):\n    y = x * k\n'
        "s = sum(y)\ndifferentiate(s, x, unconnected_gradients='zero')\nreturn s, y"
    )
    assert check(graph) == (
        '"""A sum."""\n'
        "x: float64[N]\n"
        "k: float64 = input(2)\n"
        "with section('a'):\n"
        "    _1 = gc.broadcast(k, shape=(N,), along=(0,))\n"
        "    y = x * _1\n"
        "s = gc.reduce_sum(y, axes=(0,))\n"
        "differentiate([s], [x], unconnected_gradients='zero')\n"
        "return s, y\n"
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 1), (0,), (2, 0, 1), (65,)])
def test_constants(dtype: str, shape: tuple[int, ...]) -> None:
    values = (np.arange(np.prod(shape, dtype=int)) / 3).reshape(shape).astype(dtype)
    check(graph_of([], c=constant(value=Data(values), weak=False)))


@pytest.mark.parametrize(
    "value",
    [
        0.0,
        -0.0,
        1e-320,
        1.7976931348623157e308,
        0.1,
        -3,
        2**62,
        True,
        1j,
        np.inf,
        -np.inf,
    ],
)
def test_weak_constants(value: complex) -> None:
    check(graph_of([], c=constant(value=Data(value), weak=not isinstance(value, bool))))


def test_payloads_of_nan_are_kept() -> None:
    bits = np.array(
        [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001], np.uint64
    )
    check(graph_of([], c=constant(value=Data(bits.view(np.float64)), weak=False)))


def test_large_constants_are_short_texts() -> None:
    values = np.random.default_rng(0).standard_normal((100, 100))
    text = check(graph_of([], c=constant(value=Data(values), weak=False)))
    assert len(text) < 1.4 * values.nbytes


@pytest.mark.parametrize(
    "name",
    [
        *(
            "dense/kernel:0",
            "lambda",
            "None",
            "gc",
            "a b",
            "",
            "ﬁ",
            "a\nb",
            "'; import os",
            '"""',
        ),
        *(
            "N",
            "differentiate",
            "load",
            "\\",
            "x\0y",
            "_1",
            "_2",
            "input",
            "été",
            "e",
            "np",
        ),
    ],
)
def test_names_of_inputs(name: str) -> None:
    x = made(name, TensorType(float64, (N,)))
    y = label(x * 2.0, name)
    graph = Graph("g", (x,), (Output("y", y), Output(name or "z", x)), names={name: y})
    text = write(graph)
    ast.parse(text)
    again = parse(text)
    assert write(again) == text
    assert [t.attrs.name for t in again.inputs] == [name]
    assert [o.name for o in again.outputs] == ["y", name or "z"]
    assert again.names[name] is again.outputs[0].tensor


def test_names_that_clash() -> None:
    """A rebound name, a dimension of the same name, labels that are alike."""
    x = made("x", TensorType(float64, (N,)))
    first = label(x + x, "y")
    second = label(first + x, "y")
    third = label(second + x, "N")
    fourth = label(third + x, "scope/y")
    graph = Graph(
        "g",
        (x,),
        (Output("y", first), Output("x", fourth)),
        names={"x": x, "y": second, "N": third, "z": x},
    )
    assert shape_of(parse(write(graph)))[0] == shape_of(graph)[0]
    again = parse(write(graph))
    assert again.names["z"] is again.inputs[0]
    assert [o.name for o in again.outputs] == ["y", "x"]
    assert [again.names[n].node.op.name for n in ("y", "N")] == ["add", "add"]


def test_defaults() -> None:
    inputs = [
        made("a", TensorType(float64), 0.1),
        made("b", TensorType(int64), 3),
        made("c", TensorType(float32, (2,)), Data(np.float32([0.1, 2]))),
        made("d", TensorType(float64, (N,)), Data(np.arange(100.0))),
        made("e", TensorType(float64), float("inf")),
        made("f", TensorType(float16), Data(np.float16(0.1))),
        made("g", TensorType(DTYPES["bool"]), True),
        made("h", TensorType(DTYPES["complex128"]), 1 + 2j),
    ]
    text = write(graph_of(inputs, y=inputs[0] * 2.0))
    again = parse(text)
    assert [t.attrs for t in again.inputs] == [t.attrs for t in inputs]


def test_none_outputs_and_requests() -> None:
    x = made("x", TensorType(float64, (3,)))
    y = label(reduce_sum(x, axes=(0,)), "y")
    seed = constant(value=Data(2.0), weak=False)
    request = Request(
        ys=(y, y),
        xs=(x,),
        grad_ys=(None, seed),
        stop_gradients=(y,),
        name="it's",
        colocate_gradients_with_ops=True,
        gate_gradients=True,
        aggregation_method="tree",
        unconnected_gradients="zero",
        zero_adjoints="ieee",
    )
    graph = Graph(
        "g",
        (x,),
        (Output("y", y), Output("grad_w", None, 'w isn\'t "there"\n')),
        request,
        {"x": x, "y": y},
    )
    text = check(graph)
    assert "gc.outputs" in text


def test_ops_of_the_compiler() -> None:
    x = made("x", TensorType(float64, (N, 3)))
    a, b = gate.many(x, x)
    y = add_n(a, b, x, method="tree")
    z = cast(
        dim(value=2 * N + N // 2 - 1, dtype=int64, weak=True), dtype=float64, weak=True
    )
    check(graph_of([x], y=y, z=z))


def test_facts_that_are_not_solved() -> None:
    m, k = symbol("M"), symbol("K")
    x = made("x", TensorType(float64, (N, m)))
    y = made("y", TensorType(float64, (k,)))
    zero = N * m - 2 * k * k
    graph = Graph(
        "g", (x, y), (Output("z", x + x),), names={}, facts=Facts({"J": N}, (zero,))
    )
    again = parse(write(graph))
    assert again.facts.equal(N * m, 2 * k * k)


@pytest.mark.parametrize(
    "doc",
    [
        "one line",
        "two\n\nlines\n  more",
        '"""',
        "\\",
        "a\\n",
        "'",
        'ends with "',
        "été\u2028",
        "\0",
    ],
)
def test_docs(doc: str) -> None:
    x = made("x", TensorType(float64))
    graph = Graph("g", (x,), (Output("x", x),), names={"x": x}, doc=doc)
    assert parse(write(graph)).doc == doc


@pytest.mark.parametrize(
    "section", ["a", "a/b", "it's", 'x"y', "line\nend", "\\", "été"]
)
def test_sections(section: str) -> None:
    x = made("x", TensorType(float64))
    with at(Place(section=section)):
        y = x * x
    check(graph_of([x], y=y, z=x + y))


def test_a_value_without_text() -> None:
    x = made("x", TensorType(float64))
    graph = graph_of([x], y=x * 2.0)
    node = graph.outputs[0].tensor
    assert node is not None
    broken = add_n(node, node, method=object())
    with pytest.raises(InternalError, match="no text for an attribute of type object"):
        write(graph_of([x], y=broken))


def test_custom_gradients_are_defs() -> None:
    text = (
        "x: float[3]\nk: float\ns = k * 2\ndef f(a, b):\n    return a * b, a\n"
        "def inner(a):\n    return a * 3\ndef inner_back(a, g):\n    return g * s\n"
        "def back(a, b, g, h):\n    t = custom_gradient(inner, inner_back)(b)\n"
        "    return g * t + h, None\n"
        "u, v = custom_gradient(f, back)(x, x)\ndifferentiate([u, v], x)\nreturn u, s"
    )
    graph = parse(text)
    written = write(graph)
    assert written.count("def vjp_") == 2
    assert write(parse(written)) == written
    from gradc.autodiff.reverse import adjoint
    from gradc.ops.evaluator import evaluate

    results = []
    for g in (graph, parse(written)):
        assert g.request is not None
        (gradient,) = adjoint(g.request).tensors
        assert gradient is not None
        feeds = dict(
            zip(g.inputs, [np.array([1.0, 2.0, 3.0]), np.float64(4)], strict=True)
        )
        results.append(evaluate([gradient], feeds)[0])
    np.testing.assert_array_equal(results[0], 3 * np.array([1.0, 2.0, 3.0]) + 1)
    np.testing.assert_array_equal(results[0], results[1])


def test_arithmetic_stands_for_the_op_alone() -> None:
    """Infix only where the language builds the very op: one type on all sides."""
    x = made("x", TensorType(float64, (3,)))
    text = check(graph_of([x], a=x + x, b=x - x, c=x * x, d=x / x, e=-x))
    for line in ("x + x", "x - x", "x * x", "x / x", "gc.negative(x)"):
        assert f"= {line}\n" in text
    less = lookup_function("less")
    assert less is not None
    weak = constant(value=Data(1.0), weak=True)
    assert "gc.add(" in check(graph_of([], y=weak + weak))
    assert "gc.less(x, x)" in check(graph_of([x], y=less.call(x, x)))


def test_a_long_chain() -> None:
    x = made("x", TensorType(float64, (N,)))
    y = x
    for _ in range(5000):
        y = y + x
    assert len(check(graph_of([x], y=y)).splitlines()) == 5002

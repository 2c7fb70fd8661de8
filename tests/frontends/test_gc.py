"""The text language: what each of its forms means, by the value it gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_files import FILES, static_sizes

from gradc.errors import GradcErrors, OptionError
from gradc.frontends.gc import parse
from gradc.graph import Graph
from gradc.ops.evaluator import evaluate
from gradc.types import float32, float64, int64

A = np.arange(6.0).reshape(2, 3)
V = np.array([1.0, 2.0, 3.0])


def values(graph: Graph, feeds: dict[str, Any]) -> dict[str, Any]:
    """The graph's outputs by name."""
    fed = {t: feeds[t.name] for t in graph.inputs if t.name in feeds}
    return {
        o.name: None if o.tensor is None else evaluate([o.tensor], fed)[0]
        for o in graph.outputs
    }


@dataclass(frozen=True)
class Case:
    """A text, what is fed, and what it must give."""

    id: str
    text: str
    feeds: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(
        "dimensions are weak ints",
        "x: float32[N]\nm = sum(x) / N\nreturn m, N, x.shape[0], x.size, len(x), x.ndim",
        {"x": np.float32([1, 2, 3])},
        {"m": np.float32(2), "N": 3, "out_2": 3, "out_3": 3, "out_4": 3, "out_5": 1},
    ),
    Case(
        "arithmetic of dimensions",
        "x: float[N, 4]\nk = 2 * N + 1\nreturn k, N // 2, N % 2, N - 1, N * N, N**2, k / 2, +N, -N",
        {"x": np.zeros((5, 4))},
        {
            "k": 11,
            "out_1": 2,
            "out_2": 1,
            "out_3": 4,
            "out_4": 25,
            "out_5": 25,
            "out_6": 5.5,
            "out_7": 5,
            "out_8": -5,
        },
    ),
    Case(
        "dimension arithmetic in a type",
        "x: float[2 * N + 1]\ny: float[N]\nz: float[N] = x[1::2] + y\nreturn z",
        {"x": np.arange(7.0), "y": np.ones(3)},
        {"z": [2, 4, 6]},
    ),
    Case(
        "facts make dimensions the same",
        "assert M == 2 * N\nx: float[N]\ny: float[M]\nreturn concatenate([x, x]) + y",
        {"x": V, "y": np.ones(6)},
        {"out_0": [2, 3, 4, 2, 3, 4]},
    ),
    Case(
        "a fact behind the inputs",
        "x: float[N]\ny: float[M]\nassert N == M, 'one length'\nreturn x * y",
        {"x": V, "y": V},
        {"out_0": [1, 4, 9]},
    ),
    Case(
        "a known size",
        "assert N == 3\nx: float[N]\ny = x\nfor i in range(N):\n    y = y * 2\nreturn y",
        {"x": V},
        {"y": [8, 16, 24]},
    ),
    Case(
        "assertions that hold",
        "x: float[N, 3]\nassert x.shape[1] == 3\nassert x.shape == (N, 3)\n"
        "assert x.dtype == float64\nassert 2 * N - N == N\nreturn x",
        {"x": A},
        {"x": A},
    ),
    Case(
        "defaults of inputs",
        "x: float\nl: float = input(0.1)\nk: int = input(3)\nw: float[2] = input([1, 2])\n"
        "return x + l, k, w",
        {"x": 1.0},
        {"out_0": 1.1, "k": 3, "w": [1.0, 2.0]},
    ),
    Case(
        "constants",
        "k: int[3] = [1, 2, 3]\nc: float32 = 2\nm: bool[2] = [True, False]\nx: float32\n"
        "a = array([[1., 2.], [3., 4.]])\n"
        "return k, c, m, a, x * 0.5, float32(0.5), 2.5, inf, nan, pi, e, x.copy()",
        {"x": np.float32(1.5)},
        {
            "k": np.int64([1, 2, 3]),
            "c": np.float32(2),
            "m": [True, False],
            "a": [[1.0, 2.0], [3.0, 4.0]],
            "out_4": np.float32(0.75),
            "out_5": np.float32(0.5),
            "out_6": 2.5,
            "inf": math.inf,
            "nan": math.nan,
            "pi": math.pi,
            "e": math.e,
            "out_11": np.float32(1.5),
        },
    ),
    Case(
        "named numbers are tensors and numbers",
        "n = 2\na = 0.5\nb = a * n\nx: float[3]\ny = zeros((n, 3)) + x\nz = sum(y, axis=n - 2)\n"
        "g, = gradients(b, [a])\nreturn b, z, g, leaky_relu(-x, b)",
        {"x": V},
        {"b": 1.0, "z": 2 * V, "g": 2.0, "out_3": -V},
    ),
    Case(
        "total and partial derivatives",
        "a = 0.\nb = 2*a\nda, db = gradients(a + b, [a, b])\n"
        "ea, eb = gradients(a + b, [a, b], stop_gradients=[a, b])\nreturn da, db, ea, eb",
        {},
        {"da": 3.0, "db": 1.0, "ea": 1.0, "eb": 1.0},
    ),
    Case(
        "static arithmetic",
        "a = 7 // 2\nb = -7 % 3\nc = 2**10\nd = 1 << 3\nf = ~1\ng = not True\nh = 2 < 3 < 4\n"
        "i = 3 / 2\nj = 2**-1\nk = True and 3\nl = 0 or 5\nreturn a, b, c, d, f, g, h, i, j, k, l",
        {},
        {
            "a": 3,
            "b": 2,
            "c": 1024,
            "d": 8,
            "f": -2,
            "g": False,
            "h": True,
            "i": 1.5,
            "j": 0.5,
            "k": 3,
            "l": 5,
        },
    ),
    Case(
        "division of a named number by zero is NumPy's",
        "a = 0.\nreturn 1 / a, -1 / a, a / a",
        {},
        {"out_0": math.inf, "out_1": -math.inf, "out_2": math.nan},
    ),
    Case(
        "operators",
        "x: float[3]\ni: int[3]\nreturn (x > 1) & (x < 3), (x == 1) | (x != 2), ~(x >= 2), "
        "x <= 2, -x, +x, abs(-x), x % 2, x // 2, x**2, i ^ 1, i << 1, 1 - x, 2 / x",
        {"x": V, "i": [1, 2, 3]},
        {
            "out_0": [False, True, False],
            "out_1": [True, False, True],
            "out_2": [True, False, False],
            "out_3": [True, True, False],
            "out_4": -V,
            "out_5": V,
            "out_6": V,
            "out_7": [1, 0, 1],
            "out_8": [0, 1, 1],
            "out_9": [1, 4, 9],
            "out_10": [0, 3, 2],
            "out_11": [2, 4, 6],
            "out_12": [0, -1, -2],
            "out_13": [2, 1, 2 / 3],
        },
    ),
    Case(
        "a choice known when the graph is compiled",
        "x: float[3]\nreturn x if x.ndim == 1 else undefined, 1.0 if x.shape[0] > 5 else -x",
        {"x": V},
        {"x": V, "out_1": -V},
    ),
    Case(
        "rebinding",
        "x: float[3]\ny = x\nx = x * 2\nx += y\nx -= 1\nx *= x\ny = x\nreturn x, y",
        {"x": V},
        {"x": (3 * V - 1) ** 2, "y": (3 * V - 1) ** 2},
    ),
    Case(
        "a copy is another tensor",
        "x: float\na = x\nb = copy(x)\ny = a * b\nda, db = gradients(y, [a, b])\nreturn da, db",
        {"x": 3.0},
        {"da": 6.0, "db": 3.0},
    ),
    Case(
        "item assignment",
        "x: float[4]\nx[0] = 5.\nx[1] += 2\nx[2:] *= 3\nx[3] -= 1\nx[-1] **= 2\nreturn x",
        {"x": np.ones(4)},
        {"x": [5, 3, 3, 4]},
    ),
    Case(
        "item assignment, several levels",
        "x: float[2, 3]\ni: int[2]\nx[0][1] = 9.0\nx[1, i] += 1.0\nx[:, 0], y = 7.0, 8.0\nreturn x, y",
        {"x": A, "i": [2, 2]},
        {"x": [[7, 9, 2], [7, 4, 7]], "y": 8.0},
    ),
    Case(
        "unpacking",
        "x: float[4]\na, *b, c = x\n(d, f), [g] = (1, 2), [3]\n*h, k = (1, 2)\nreturn a, *b, c, d + f, g, *h, k",
        {"x": np.arange(4.0)},
        {
            "a": 0,
            "out_1": 1,
            "out_2": 2,
            "c": 3,
            "out_4": 3,
            "g": 3,
            "out_6": 1,
            "k": 2,
        },
    ),
    Case(
        "tensors of tensors",
        "c: float\ns: float\nR = array([[c, -s], [s, c]])\nreturn R @ R, stack([c, s]), array([R, R])[0]",
        {"c": 1.0, "s": 2.0},
        {"out_0": [[-3, -4], [4, -3]], "out_1": [1, 2], "out_2": [[1, -2], [2, 1]]},
    ),
    Case(
        "lists where tensors stand",
        "x: float[3]\nreturn x + array([1, 2, 3]), dot(x, [1, 1, 1]), where([True, False, True], x, 0)",
        {"x": V},
        {"out_0": 2 * V, "out_1": 6, "out_2": [1, 0, 3]},
    ),
    Case(
        "def",
        "x: float\nk = 10\ndef f(a, b=2.0, *, c=k):\n    '''doc'''\n    t = a * b\n    return t + c, a\n"
        "k = 20\nreturn f(x)[0], f(x, 3)[0], f(b=1, a=x, c=0)[0]",
        {"x": 2.0},
        {"out_0": 14.0, "out_1": 16.0, "out_2": 2.0},
    ),
    Case(
        "a def sees outer names as they are at the call",
        "x: float\nk = 1.0\ndef f(a):\n    return a * k\ny = f(x)\nk = 5.0\nz = f(x)\nreturn y, z",
        {"x": 2.0},
        {"y": 2.0, "z": 10.0},
    ),
    Case(
        "defs as arguments, in defs, of defs",
        "x: float\ndef twice(f, a):\n    return f(f(a))\ndef outer(a):\n    b = a + 1\n"
        "    def inner(c):\n        return c * b\n    return twice(inner, a)\n"
        "g = exp\nreturn outer(x), twice(sin, x), twice(outer, 1.0), g(x)",
        {"x": 2.0},
        {
            "out_0": 18.0,
            "out_1": np.sin(np.sin(2.0)),
            "out_2": 4.0 * 25.0,
            "out_3": np.exp(2.0),
        },
    ),
    Case(
        "parameters with types",
        "x: float[N]\ndef f(a: float[N], b: float = 1):\n    c: float[N] = a * b\n    return c\n"
        "return f(x), f(x, 2.0)",
        {"x": V},
        {"out_0": V, "out_1": 2 * V},
    ),
    Case(
        "a loop",
        "x: float[3]\nout = zeros(4)\ns = 0.0\nfor t in range(4):\n    s = s + x[t % 3]\n    out[t] = s\n"
        "for t in range(3, 0, -2):\n    for u in range(t):\n        s = s * 2\nreturn out, s",
        {"x": V},
        {"out": [1, 3, 6, 7], "s": 7 * 2**4},
    ),
    Case(
        "a loop of no steps",
        "x: float\ny = x\nfor t in range(0):\n    y = undefined\nreturn y",
        {"x": 2.0},
        {"y": 2.0},
    ),
    Case(
        "np. and its like",
        "import numpy as np\nx: np.float64[2]\nreturn np.exp(x), np.linalg.norm(x), np.sum(x, axis=0), "
        "np.pi * x, x[np.newaxis], np.array([1.0]), scipy.special.erf(x), x.astype(np.float32)",
        {"x": [3.0, 4.0]},
        {
            "out_0": np.exp([3.0, 4.0]),
            "out_1": 5.0,
            "out_2": 7.0,
            "out_3": np.pi * np.array([3.0, 4.0]),
            "out_4": [[3.0, 4.0]],
            "out_5": [1.0],
            "out_6": [math.erf(3.0), math.erf(4.0)],
            "out_7": np.float32([3, 4]),
        },
    ),
    Case(
        "attributes and methods",
        "x: float[2, 3]\nreturn x.T, x.mT, x.shape[1], x.sum(axis=0), x.mean(), x.reshape(3, 2), "
        "x.reshape((-1,)), x.astype(float32), x.astype(int), x.max(axis=-1, keepdims=True), x.T.T.sum()",
        {"x": A},
        {
            "out_0": A.T,
            "out_1": A.T,
            "out_2": 3,
            "out_3": A.sum(0),
            "out_4": 2.5,
            "out_5": A.reshape(3, 2),
            "out_6": A.ravel(),
            "out_7": A.astype("f4"),
            "out_8": A.astype(int),
            "out_9": A.max(-1, keepdims=True),
            "out_10": 15.0,
        },
    ),
    Case(
        "indexing",
        "x: float[2, 3]\ni: int[2]\nn = 1\nreturn x[0], x[-1, -1], x[:, 1], x[::-1], x[..., None], "
        "x[1:, ::2], x[[0, 1]], x[i, i], x[n], x[:, n:], x[None, 0, ..., 1:2], x[i][:, i], "
        "x[slice(0, 1)], x[array([0])]",
        {"x": A, "i": [1, 0]},
        {
            "out_0": A[0],
            "out_1": A[-1, -1],
            "out_2": A[:, 1],
            "out_3": A[::-1],
            "out_4": A[..., None],
            "out_5": A[1:, ::2],
            "out_6": A,
            "out_7": A[[1, 0], [1, 0]],
            "out_8": A[1],
            "out_9": A[:, 1:],
            "out_10": A[None, 0, ..., 1:2],
            "out_11": A[[1, 0]][:, [1, 0]],
            "out_12": A[:1],
            "out_13": A[:1],
        },
    ),
    Case(
        "names of all kinds",
        "sum: float[3]\nnp = sum * 2\nfloat32 = np + 1\nété = sum(sum)\nlen = 3\nprint = exp(np)\n"
        "_k0 = np.sum()\ngradients = sum(np)\nfloat = float64(2)\nN = 1.0\ngc = np\n"
        "return été, _k0, len(sum), print, float32, gradients, float, N, gc.sum()",
        {"sum": V},
        {
            "été": 6.0,
            "k0": 12.0,
            "out_2": 3,
            "print": np.exp(2 * V),
            "float32": 2 * V + 1,
            "gradients": 12.0,
            "float": 2.0,
            "N": 1.0,
            "out_8": 12.0,
        },
    ),
    Case(
        "look-alike names are one after normalisation",
        "ﬁ: float\nfi2 = fi * 2\nreturn fi2",
        {"fi": 2.0},
        {"fi2": 4.0},
    ),
    Case(
        "names of outputs",
        "_a: float\n__ = _a * 2\n_1 = __ + 1\n_class = _1\nreturn _a, __, _1, _a, _class, _a * 2",
        {"_a": 1.0},
        {"a": 1, "out_1": 2, "out_2": 3, "a_2": 1, "out_4": 3, "out_5": 2},
    ),
    Case(
        "names of gradients",
        "x: float[2]\nw: float[2]\nh = x * w\nloss = sum(h**2)\ng = gradients(loss, [x, w, h, h[0]])\n"
        "k = gradients(loss, h)\nreturn loss, *g[:2], k[0], g[3]",
        {"x": [1.0, 2.0], "w": [3.0, 4.0]},
        {
            "loss": 73.0,
            "grad_x": [18, 64],
            "grad_w": [6, 32],
            "grad_h": [6, 16],
            "grad_3": None,
        },
    ),
    Case(
        "a list of gradients is returned whole",
        "x: float\ny: float\ng = gradients(x * x, [x, y], unconnected_gradients='zero')\nreturn g",
        {"x": 2.0, "y": 0.0},
        {"grad_x": 4.0, "grad_y": 0.0},
    ),
    Case(
        "None among the outputs",
        "x: float\ny: float\ndx, dy = gradients(x * x, [x, y])\nreturn dx, dy",
        {"x": 2.0, "y": 1.0},
        {"dx": 4.0, "dy": None},
    ),
    Case(
        "gradients of gradients",
        "x: float[3]\nv: float[3]\n(g,) = gradients(sum(x**3), [x])\n(h,) = gradients(sum(g * v), x)\n"
        "(t,) = gradients(sum(h * v), x)\nreturn g, h, t",
        {"x": V, "v": [1.0, 0.0, 1.0]},
        {"g": 3 * V**2, "h": [6, 0, 18], "t": [6, 0, 6]},
    ),
    Case(
        "grad_ys",
        "x: float[3]\n(a,) = gradients(x**2, x, grad_ys=x)\n(b,) = gradients([x, x * 2], x, grad_ys=[None, [[1., 0., 2.]][0]])\n"
        "(c,) = gradients([sum(x)], [x], grad_ys=[2.0])\nreturn a, b, c",
        {"x": V},
        {"a": 2 * V**2, "b": [3, 1, 5], "c": [2, 2, 2]},
    ),
    Case(
        "custom gradients",
        "x: float[3]\ns: float\ndef f(x):\n    return x**2\ndef back(x, g):\n    return 10 * g * x * s\n"
        "square = custom_gradient(f, back)\ny = square(x)\nreturn y, gradients(sum(y), x)[0]",
        {"x": V, "s": 2.0},
        {"y": V**2, "grad_x": 20 * V},
    ),
    Case(
        "tuples that functions return",
        "A: float[2, 2]\nr = slogdet(A)\nsign, logdet = r\na, b = split(A, 2)\nreturn sign, logdet, a, b",
        {"A": [[2.0, 0.0], [0.0, 3.0]]},
        {"sign": 1.0, "logdet": np.log(6.0), "a": [[2, 0]], "b": [[0, 3]]},
    ),
    Case(
        "constant arrays where numbers known beforehand stand",
        "x: float[3]\nk: int[3] = [1, 0, 2]\ns = array([3, 1])\nreturn repeat(x, k), x.reshape(s), "
        "sum(x.reshape(s), axis=array(0)), x[k]",
        {"x": V},
        {"out_0": [1, 3, 3], "out_1": V[:, None], "out_2": [6], "out_3": [2, 1, 3]},
    ),
    Case(
        "tuples of sizes",
        "x: float[2, N]\ns = x.shape[::-1] + (1,)\nreturn x.T.reshape(s), zeros(x.shape), ones(s[:2])",
        {"x": A},
        {"out_0": A.T[..., None], "out_1": np.zeros((2, 3)), "out_2": np.ones((3, 2))},
    ),
    Case(
        "a comparison of sizes that depends on the call is a tensor",
        "x: float[N]\nreturn where(N > 2, 1.0, 0.0), N == 3",
        {"x": V},
        {"out_0": 1.0, "out_1": True},
    ),
    Case(
        "line ends, a mark at the front, comments, continued lines, form feeds",
        '\ufeff"""doc"""\r\nx: float[3]  # an input\r\n\x0c\r\n# more\r\ny = (x +\r\n  x)\\\r\n  * 2\r\nreturn y; \r\n',
        {"x": V},
        {"y": 4 * V},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_value(case: Case) -> None:
    graph = parse(case.text, "model.gc")
    found = values(graph, case.feeds)
    assert list(found) == list(case.expect)
    for name, expected in case.expect.items():
        if expected is None:
            assert found[name] is None
            continue
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, err_msg=name)
        if isinstance(expected, np.ndarray | np.generic):
            assert found[name].dtype == np.asarray(expected).dtype, name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_text_reads_back(case: Case) -> None:
    """The graph's text gives the same values, names, request and text."""
    graph = parse(case.text, "model.gc")
    text = str(graph)
    again = parse(text, "model.gc")
    assert str(again) == text
    np.testing.assert_equal(values(again, case.feeds), values(graph, case.feeds))
    assert [o.name for o in again.outputs] == [o.name for o in graph.outputs]
    assert [o.why for o in again.outputs] == [o.why for o in graph.outputs]
    assert [(t.name, t.type) for t in again.inputs] == [
        (t.name, t.type) for t in graph.inputs
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_examples_read_back(file: Path) -> None:
    given = file.read_text(encoding="utf-8")
    sizes = static_sizes(file)
    graph = parse(given, file.name, folder=file.parent, static=sizes)
    text = str(graph)
    again = parse(text, file.name, folder=file.parent)
    assert str(again) == text
    assert [n.op for n in again.nodes()] == [n.op for n in graph.nodes()]


# ------------------------------------------------------------------- what a graph holds


def test_the_parts_of_a_graph() -> None:
    graph = parse(
        '"""Logistic\n\n    regression."""\nX: float[N, D]\ny: float[N]\nw: float[D]\n'
        "z = X @ w\nloss = sum(softplus(z) - y * z) / N\n"
        "differentiate(loss, [w], grad_ys=[2.0], stop_gradients=[y], name='back', "
        "gate_gradients=True)\nreturn loss\n",
        "folder/logistic.gc",
    )
    assert graph.name == "logistic"
    assert graph.doc == "Logistic\n\nregression."
    assert [t.name for t in graph.inputs] == ["X", "y", "w"]
    assert list(graph.names) == ["X", "y", "w", "z", "loss"]
    assert graph.source is not None and graph.source.name == "folder/logistic.gc"
    request = graph.request
    assert request is not None
    assert [t.name for t in (*request.ys, *request.xs, *request.stop_gradients)] == [
        "loss",
        "w",
        "y",
    ]
    assert request.name == "back" and request.gate_gradients
    assert request.grad_ys[0] is not None
    again = parse(str(graph)).request
    assert again is not None
    assert (
        again.name == "back" and again.gate_gradients and again.grad_ys[0] is not None
    )


def test_the_ys_are_the_outputs_where_nothing_is_returned() -> None:
    graph = parse("x: float\ny = x * x\ndifferentiate([y, x + 1], x)\n")
    assert [o.name for o in graph.outputs] == ["y", "out_1"]


def test_plans_are_kept_in_order() -> None:
    graph = parse(
        "x: float\n(g,) = gradients(x**3, x)\n(h,) = gradients(g, x, name='second')\nreturn h"
    )
    assert [p.request.name for p in graph.plans] == ["gradients", "second"]


def test_places_and_sections() -> None:
    graph = parse(
        'x: float[3]\nwith section("enc"):\n    y = tanh(x)\n    with section("in"):\n'
        "        z = (y +\n             1)\ndef f(a):\n    return sin(a)\n"
        'with section("dec"):\n    u = f(z)\nv = u * 2\nreturn v\n',
        "m.gc",
    )
    places = {n.op.name: n.place for n in graph.nodes()}
    assert places["tanh"].section == "enc"
    assert places["add"].section == "enc/in"
    assert places["sin"].section == "dec"
    assert places["multiply"].section == ""
    add = places["add"]
    assert add.span is not None and add.statement is not None
    assert (add.span.line, add.span.column, add.span.end_line) == (5, 14, 6)
    assert (add.statement.line, add.statement.column) == (5, 9)
    sin = places["sin"]
    assert sin.span is not None and sin.span.place == "m.gc:8:12"
    again = parse(str(graph))
    assert [n.place.section for n in again.nodes()] == [
        n.place.section for n in graph.nodes()
    ]


def test_columns_count_characters() -> None:
    graph = parse("été: float\nß = été * été + exp(été)\nreturn ß", "m.gc")
    spans = {n.op.name: n.place.span for n in graph.nodes()}
    assert spans["exp"] is not None
    assert (spans["exp"].column, spans["exp"].end_column) == (17, 25)
    assert spans["exp"].text == "exp(été)"


def test_a_name_is_one_tensor() -> None:
    graph = parse("x: float[3]\na = exp(x)\nb = a\nc = exp(x)\nreturn a, b, c")
    a, b, c = (o.tensor for o in graph.outputs)
    assert a is b
    assert a is not c


def test_names_are_the_newest() -> None:
    graph = parse("x: float\ny = x + 1\ny = y * 2\nreturn y")
    assert graph.names["y"].op.name == "multiply"


def test_default_float() -> None:
    text = (
        "x: float[N]\nc: float = 0.5\na = array([0.5, 1.5])\nz = zeros(2)\nk: float64\n"
        "f = full(2, 0.5)\nl = linspace(0, 1, 3)\ni = array([1, 2])\n"
        "return x * c, a, z, k, f, l, float(k), i, eye(2)"
    )
    graph = parse(text, default_float="float32")
    kinds = [o.tensor.dtype for o in graph.outputs if o.tensor is not None]
    assert kinds == [
        float32,
        float32,
        float32,
        float64,
        float32,
        float32,
        float32,
        int64,
        float32,
    ]
    kinds = [o.tensor.dtype for o in parse(text).outputs if o.tensor is not None]
    assert kinds == [float64] * 7 + [int64, float64]


def test_default_float_is_checked() -> None:
    with pytest.raises(Exception, match="default_float: expected float64, float32"):
        parse("x: float\nreturn x", default_float="double")


def test_a_custom_gradient_that_fails_when_it_is_asked_for() -> None:
    """A request is met after the reading; the errors of a def it calls are told then."""
    from gradc.autodiff.reverse import adjoint

    graph = parse(
        "x: float[3]\ndef f(a):\n    return a**2\ndef back(a, g):\n    return g * undefined\n"
        "y = sum(custom_gradient(f, back)(x))\ndifferentiate(y, x)\nreturn y",
        "m.gc",
    )
    assert graph.request is not None
    with pytest.raises(
        GradcErrors, match=r"m.gc:5:16: error: no tensor is called undefined"
    ):
        adjoint(graph.request)


# ------------------------------------------------------------------------- given sizes


def test_given_sizes_are_known_while_reading() -> None:
    text = (
        "x: float[N, N]\nr, c = tril_indices(N, -1)\nassert M == 2 * N\ny: float[M]\n"
    )
    graph = parse(text + "return x[r, c], y[:N]\n", static={"N": 3})
    assert [o.tensor.shape for o in graph.outputs if o.tensor] == [(3,), (3,)]
    assert [t.shape for t in graph.inputs] == [(3, 3), (6,)]


def test_given_sizes_must_be_of_symbols_and_fit_the_facts() -> None:
    text = "x: float[N]\ny: float[M]\nassert N == 2 * M\nreturn sum(x) + sum(y)\n"
    with pytest.raises(OptionError, match="static: no dimension is called 'K'"):
        parse(text, static={"K": 3})
    with pytest.raises(GradcErrors, match="can't hold together with those before it"):
        parse(text, static={"N": 3, "M": 2})

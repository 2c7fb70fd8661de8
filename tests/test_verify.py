"""Verification itself: it passes what is right and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradc
from gradc.draw import ATTEMPTS, draw, sizes_for
from gradc.errors import ShapeError
from gradc.graph import Graph
from gradc.ops.evaluator import evaluate
from gradc.verify import Verdict, in_float64, verify


def checked(text: str, /, **given: Any) -> Verdict:
    """The verdict on a text, with data by the names of inputs."""
    graph = gradc.parse(text)
    data = {t: np.asarray(given[t.name]) for t in graph.inputs if t.name in given}
    return verify(graph, data, target="numpy")


def statuses(text: str, /, **given: Any) -> list[str]:
    return [c.status for c in checked(text, **given).checks]


RIGHT = {
    "stop": "x: float[N]\ny = sum(stop_gradient(x) * x)\ndifferentiate(y, [x])\nreturn y\n",
    "stop list": (
        "a: float[N]\nb = 2 * a\ny = sum(a * b)\n"
        "differentiate(y, [a, b], stop_gradients=[a, b])\nreturn y\n"
    ),
    "integers": (
        "x: float[N]\nn = x.astype(int)\ny = sum(n * x)\ndifferentiate(y, [x])\nreturn y\n"
    ),
    "floor": "x: float[N]\ny = sum(floor(x) * x)\ndifferentiate(y, [x])\nreturn y\n",
    "indices": (
        "x: float[N, 3]\nk: int[M]\ny = sum(x[k] ** 2)\ndifferentiate(y, [x])\nreturn y\n"
    ),
    "seeds": (
        "x: float[N]\ng: float[N]\ny = sin(x)\n"
        "differentiate([y], [x], grad_ys=[g])\nreturn y\n"
    ),
    "inner": "x: float[N]\nh = sin(x)\ny = sum(h * x)\ndifferentiate(y, [h, x])\nreturn y\n",
    "second": (
        "x: float[N]\ny = sum(sin(x) ** 2)\n(g,) = gradients(y, [x])\nz = sum(g * g)\n"
        "differentiate(z, [x])\nreturn z\n"
    ),
    "positive": "x: float[N]\ny = sum(log(x))\ndifferentiate(y, [x])\nreturn y\n",
    "cholesky": (
        "A: float[N, N]\ny = sum(cholesky(A))\ndifferentiate(y, [A])\nreturn y\n"
    ),
    "facts": (
        "x: float[N]\nw: float[M]\nassert N == 2 * M\n"
        "y = sum(x[::2] * w)\ndifferentiate(y, [x, w])\nreturn y\n"
    ),
    "float32": "x: float32[N]\ny = sum(exp(x))\ndifferentiate(y, [x])\nreturn y\n",
    "custom": (
        "x: float[N]\ndef f(a):\n    return a * a\ndef df(a, c):\n    return 2 * a * c\n"
        "square = custom_gradient(f, df)\ny = sum(square(x))\ndifferentiate(y, [x])\nreturn y\n"
    ),
    "long": "x: float[N]\ny = sum(x[5:])\ndifferentiate(y, [x])\nreturn y\n",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_agrees(name: str) -> None:
    verdict = checked(RIGHT[name])
    assert verdict.passed, verdict
    assert {c.status for c in verdict.checks} == {"agrees"}


def test_none_is_checked_too() -> None:
    text = (
        "x: float[N]\nv: float[N]\nk: int[N]\n"
        "y = sum(x * stop_gradient(v) * k)\ndifferentiate(y, [v, k, x])\nreturn y\n"
    )
    assert statuses(text) == ["none", "none", "agrees"]


@pytest.mark.parametrize("factor", ["2.002", "-2.0", "0.0", "nan", "inf"])
def test_a_wrong_gradient_is_found(factor: str) -> None:
    text = RIGHT["custom"].replace("2 * a * c", f"{factor} * a * c")
    (check,) = checked(text).checks
    assert check.status == "wrong"


def test_a_missing_gradient_is_found() -> None:
    text = RIGHT["custom"].replace("2 * a * c", "None")
    (check,) = checked(text).checks
    assert check.status == "wrong" and check.gradient == 0.0


# -------------------------------------------------------------- what can't be told


def test_values_that_are_not_finite_are_never_a_pass() -> None:
    text = "x: float[N]\ny = sum(log(-1.0 - x * x))\ndifferentiate(y, [x])\nreturn y\n"
    (check,) = checked(text).checks
    assert check.status == "inconclusive" and check.reason == "y is not finite"


def test_a_point_on_a_kink_can_t_be_told() -> None:
    text = "x: float[N]\ny = sum(relu(x))\ndifferentiate(y, [x])\nreturn y\n"
    (check,) = checked(text, x=np.zeros(3)).checks
    assert check.status == "inconclusive" and check.reason == "the point lies on a kink"


def test_no_elements_can_t_be_told() -> None:
    text = "x: float[N]\ny = sum(x)\ndifferentiate(y, [x])\nreturn y\n"
    assert statuses(text, x=np.zeros(0)) == ["inconclusive"]


def test_a_matrix_that_is_not_symmetric_can_t_be_told() -> None:
    text = RIGHT["cholesky"]
    (check,) = checked(text, A=[[2.0, 1.0], [0.5, 2.0]]).checks
    assert check.status == "inconclusive"
    assert check.reason == "a matrix to be factorised is not symmetric"


def test_an_index_that_is_computed_is_drawn_small_in_the_end() -> None:
    text = (
        "x: float[N]\nk: int[M]\ny = sum(x[3 * k])\ndifferentiate(y, [x])\nreturn y\n"
    )
    assert statuses(text) == ["agrees"]


# ---------------------------------------------------------------------------- draws


def graph_of(dims: str, facts: str = "") -> Graph:
    inputs = "".join(f"x{k}: float[{d}]\n" for k, d in enumerate(dims.split(";")))
    return gradc.parse(f"{inputs}{facts}return x0\n")


@pytest.mark.parametrize(
    ("dims", "facts", "known"),
    [
        ("N, M;M, K", "", {"N": 3, "M": 4, "K": 5}),
        ("N, 3;M, 4", "", {"N": 5, "M": 6}),
        ("N;M", "assert M == 2 * N\n", {"N": 3, "M": 6}),
    ],
)
def test_sizes_are_small_and_distinct(
    dims: str, facts: str, known: dict[str, int]
) -> None:
    assert sizes_for(graph_of(dims, facts), {}) == known


def test_sizes_that_facts_make_hard_to_find() -> None:
    sizes = sizes_for(graph_of("N;M", "assert N * M == 35\n"), {})
    assert sizes["N"] * sizes["M"] == 35


def test_sizes_that_there_are_not() -> None:
    with pytest.raises(ShapeError, match="no small sizes suit"):
        sizes_for(graph_of("N;M", "assert N * M == 10007\n"), {})


def test_draws_are_the_same_again_and_differ_between_attempts() -> None:
    graph = gradc.parse("x: float[N]\nk: int[N]\nb: bool[N]\nreturn x, k, b\n")
    (x, k, b) = graph.inputs
    first, again = (draw(graph, {}, 7, 0)[0] for _ in range(2))
    for t in graph.inputs:
        np.testing.assert_array_equal(first[t], again[t])
    every = [draw(graph, {}, 7, attempt)[0] for attempt in range(ATTEMPTS)]
    assert len({f[x].tobytes() for f in every}) == ATTEMPTS
    assert all(f[k].dtype == np.int64 and f[b].dtype == np.bool_ for f in every)
    assert all((f[k] == 0).all() for f in every[ATTEMPTS // 2 :])


def test_narrow_types_are_widened_everywhere() -> None:
    text = (
        "x: float32[N]\nc: float16 = input(0.5)\nk: float32[2] = [0.1, 0.2]\n"
        "y = sum(x).astype(float32) * c * sum(k)\ndifferentiate(y, [x])\nreturn y\n"
    )
    graph = in_float64(gradc.parse(text))
    names = {t.dtype.name for node in graph.nodes() for t in node.outputs}
    assert names == {"float64"}
    x, _ = graph.inputs
    assert graph.outputs[0].tensor is not None
    (y,) = evaluate([graph.outputs[0].tensor], {x: np.array([1.0, 2.0])})
    np.testing.assert_allclose(y, 3.0 * 0.5 * np.sum(np.float32([0.1, 0.2])))

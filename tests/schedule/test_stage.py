"""Packing what a vector loop reads and writes with a stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scheduled import drawn, gradient_graph, program_of, run

import gradc
from gradc.driver import simplified
from gradc.ops.evaluator import evaluate
from gradc.schedule.lower import schedule
from gradc.schedule.program import Check, Loop, Store

TURNED = """\
axes: float[K, 3]
x: float[N, 3]
w: float[N]
k: int[N]

a = axes[k]
t = sqrt(sum(a**2, axis=1, keepdims=True) + 1)
y = x * cos(t) + cross(a, x) * sin(t) + a * sum(a * x, axis=1, keepdims=True)
e = w[:, None] * (y[:, :2] / (1 + y[:, 2:] ** 2))
loss = sum(sqrt(1 + e**2))
differentiate(loss, [axes, x, w])
return loss, e
"""
SIZES = [0, 1, 63, 64, 65, 513]


def block_of(text: str) -> Loop:
    (block,) = (s for s in program_of(text) if isinstance(s, Loop) and s.step == 64)
    return block


def test_rows_are_packed_computed_and_unpacked() -> None:
    pack, compute, unpack = (s for s in block_of(TURNED).body if isinstance(s, Loop))
    assert [loop.mode for loop in (pack, compute, unpack)] == [
        "serial",
        "lanes",
        "serial",
    ]
    assert any(isinstance(s, Check) for s in pack.body)
    assert not any(isinstance(s, Check) for s in (*compute.body, *unpack.body))
    modes = {s.mode for s in unpack.body if isinstance(s, Store)}
    assert modes == {"=", "+"}  # rows of e and x_bar are set, looked-up ones added to


@pytest.mark.parametrize("n", SIZES)
def test_values(n: int) -> None:
    graph = gradient_graph(TURNED)
    made = schedule(simplified(graph), "f")
    sizes = {"N": n, "K": 3}
    values = drawn(graph, sizes, n)
    feeds = {t: values[t.attrs.name] for t in graph.inputs}
    expected = evaluate([o.tensor for o in graph.outputs if o.tensor], feeds, sizes)
    for got, want in zip(run(made, values, sizes), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_compiled_values() -> None:
    made = gradc.compile(TURNED)
    plain = gradc.compile(TURNED, target="numpy")
    rng = np.random.default_rng(5)
    for n in SIZES:
        given: list[Any] = [rng.normal(size=s) for s in ((4, 3), (n, 3), (n,))]
        given.append(rng.integers(-4, 4, n))
        values, bars = made.value_and_gradients(*given)
        wanted, slopes = plain.value_and_gradients(*given)
        for got, want in zip((values, *bars), (wanted, *slopes), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    given[3][7] = 4
    with pytest.raises(IndexError, match=r"axes\[k\]"):
        made.value_and_gradients(*given)


@pytest.mark.parametrize(
    "text",
    [
        # little work for what would be moved
        "x: float[N, 3]\ny = x[:, 0] * x[:, 1] + x[:, 2]\nreturn y\n",
        # neighbours in neighbouring rows
        "x: float[N]\ny = tanh(exp(sin(x) * cos(x)) * erf(x) * x)\nreturn y\n",
        # few rows
        "x: float[100, 3]\ny = sin(x[:, 0]) * cos(x[:, 1]) * tanh(x[:, 2])\nreturn y\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    graph = gradc.parse(text)
    program = schedule(simplified(graph), "f").program
    assert "block" not in str(program)

"""Transposes, broadcasts, reshapes, sums and products in random order: simplification keeps them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradc.autodiff.reverse import gradients
from gradc.graph import Graph, Output, Tensor, label
from gradc.ops.basic import broadcast, input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.passes.check import check
from gradc.passes.expand import expand, strip_identities
from gradc.passes.merge import merge
from gradc.passes.simplify import simplify
from gradc.types import Dim, TensorType, evaluate_dim, float64, symbol

N, M = symbol("N"), symbol("M")
DIMS: tuple[Dim, ...] = (N, M, N + 1, 1, 2)
LETTERS = "abcdefgh"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Tensors of two symbols, moved about and multiplied; outputs and a gradient."""
    inputs = []
    for name in ("x", "w"):
        shape = tuple(draw(st.lists(st.sampled_from(DIMS), min_size=1, max_size=3)))
        made = input_(name=name, type=TensorType(float64, shape), default=None)
        inputs.append(label(made, name))
    # the sizes of the symbols are those of these
    sizes = [
        label(input_(name=n, type=TensorType(float64, (d,)), default=None), n)
        for n, d in (("n", N), ("m", M))
    ]
    pool: list[Tensor] = list(inputs)
    for _ in range(draw(st.integers(2, 8))):
        pool.append(draw(moved(draw(st.sampled_from(pool[-3:])), pool)))
    total = apply("sum", pool[-1])
    bars = gradients(total, inputs, unconnected_gradients="zero").tensors
    outputs = [
        Output("last", pool[-1]),
        Output("x_bar", bars[0]),
        Output("w_bar", bars[1]),
    ]
    return Graph("g", (*inputs, *sizes), tuple(outputs))


@st.composite
def moved(draw: st.DrawFn, x: Tensor, pool: list[Tensor]) -> Tensor:
    kind = draw(st.integers(0, 7))
    if kind == 0 and x.ndim > 1:
        return apply("transpose", x, tuple(draw(st.permutations(range(x.ndim)))))  # type: ignore[no-any-return]
    if kind == 1 and x.ndim < 4:
        along = draw(st.integers(0, x.ndim))
        shape = list(x.shape)
        shape.insert(along, draw(st.sampled_from(DIMS)))
        return broadcast(x, shape=tuple(shape), along=(along,))
    if kind == 2 and x.ndim:
        axes = draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))
        return apply("sum", x, axis=tuple(axes), keepdims=draw(st.booleans()))  # type: ignore[no-any-return]
    if kind == 3:
        return apply("ravel", x)  # type: ignore[no-any-return]
    if kind == 4 and x.ndim < 4:
        return apply("expand_dims", x, draw(st.integers(0, x.ndim)))  # type: ignore[no-any-return]
    if kind == 5:
        return draw(products(x, draw(st.sampled_from(pool))))
    if kind == 6:
        return apply("sin", x) * draw(st.sampled_from([1.0, -1.0, 0.5]))  # type: ignore[no-any-return]
    return -x * draw(st.sampled_from([t for t in pool if t.shape == x.shape]))


@st.composite
def products(draw: st.DrawFn, a: Tensor, b: Tensor) -> Tensor:
    """An einsum of two: labels are shared where sizes are the same, as it is drawn."""
    free = iter(LETTERS)
    lhs = [(next(free), d) for d in a.shape]
    rhs: list[tuple[str, Dim]] = []
    for d in b.shape:
        fits = [v for v, e in lhs if e == d and v not in [u for u, _ in rhs]]
        shared = draw(st.sampled_from([*fits, ""]))
        rhs.append((shared or next(free), d))
    names = list(dict.fromkeys(v for v, _ in (*lhs, *rhs)))
    kept = (
        draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
    )
    text = f"{''.join(v for v, _ in lhs)},{''.join(v for v, _ in rhs)}->{''.join(kept)}"
    return apply("einsum", text, a, b)  # type: ignore[no-any-return]


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    graphs(), st.sampled_from([0, 1, 3]), st.sampled_from([1, 2]), st.integers(0, 99)
)
def test_index_maps(graph: Graph, n: int, m: int, seed: int) -> None:
    sizes = {"N": n, "M": m}
    rng = np.random.default_rng(seed)
    data: list[Any] = [
        rng.normal(size=[evaluate_dim(d, sizes) for d in t.shape]) for t in graph.inputs
    ]

    def values(graph: Graph) -> list[Any]:
        tensors = [o.tensor for o in graph.outputs if o.tensor is not None]
        return evaluate(tensors, dict(zip(graph.inputs, data, strict=True)), sizes)

    plain = merge(strip_identities(expand(graph)))
    made = simplify(plain)
    check(made)
    assert str(simplify(made)) == str(made)
    for found, want in zip(values(made), values(graph), strict=True):
        scale = float(np.max(np.abs(want), initial=1.0))
        assert math.isfinite(scale)
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9 * scale)

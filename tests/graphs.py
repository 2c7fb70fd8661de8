"""Random graphs for property tests, and running them on every target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gradc.ops  # noqa: F401  (fills the registry)
from gradc.autodiff.reverse import gradients
from gradc.graph import Graph, Output, Place, Tensor, at, label
from gradc.ops.basic import input_
from gradc.ops.functions import lookup_function
from gradc.ops.index import index, index_update
from gradc.ops.keys import index_constant
from gradc.types import (
    Dim,
    DType,
    Shape,
    TensorType,
    evaluate_dim,
    float32,
    float64,
    int64,
    symbol,
)

N, M = symbol("N"), symbol("M")
DIMS: tuple[Dim, ...] = (N, M, 3, 2)
SHAPES: tuple[Shape, ...] = (
    (N,),
    (M,),
    (N, M),
    (M, N),
    (3,),
    (N, 3),
    (3, M),
    (2, 3),
    (N, M, 2),
    (),
)


def call(name: str, *args: Any, **options: Any) -> Any:
    """A function of the language."""
    found = lookup_function(name)
    assert found is not None, name
    return found.call(*args, **options)


UNARY: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: call("tanh", x),
    lambda x: call("sin", x),
    lambda x: call("exp", -(x * x)),
    lambda x: call("sqrt", abs(x) + 1.0),
    lambda x: call("log1p", x * x),
    lambda x: call("sigmoid", x),
    lambda x: call("softplus", x),
    lambda x: call("relu", x),
    lambda x: abs(x),
    lambda x: call("arctan", x) * 2.0,
    lambda x: call("where", x > 0.25, call("sqrt", x), 0.5),
    lambda x: x / (1.0 + x * x),
    lambda x: call("stop_gradient", x),
    lambda x: x**3,
    lambda x: call("clip", x, -1.0, 1.5),
)
BINARY: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: call("maximum", a, b),
    lambda a, b: call("minimum", a, call("tanh", b)),
    lambda a, b: call("where", a > b, a, b * 0.5),
    lambda a, b: a / (2.0 + call("cos", b)),
    lambda a, b: call("hypot", a, b + 3.0),
    lambda a, b: call("logaddexp", a, b),
)
REDUCTIONS = ("sum", "mean", "max", "min", "logsumexp", "var", "prod")
ALONG = ("softmax", "cumsum", "log_softmax")


@dataclass(frozen=True)
class Case:
    """A graph with its gradients, and the arrays to run it on."""

    graph: Graph
    feeds: Mapping[Tensor, np.ndarray[Any, Any]]
    sizes: Mapping[str, int]
    y: Tensor
    xs: Sequence[Tensor]


def _is_free(x: Tensor) -> bool:
    return x.ndim <= 3 and x.dtype.is_float


@st.composite
def cases(draw: st.DrawFn, *, size: int = 12) -> Case:
    """A random graph over two symbols, float64, float32 and int64, its gradients and data."""
    dtype: DType = draw(st.sampled_from((float64, float64, float32)))
    inputs: list[Tensor] = []
    for k in range(draw(st.integers(1, 3))):
        shape = draw(st.sampled_from(SHAPES))
        x = input_(name=f"x{k}", type=TensorType(dtype, shape), default=None)
        inputs.append(label(x, f"x{k}"))
    if draw(st.booleans()):
        k_type = TensorType(int64, draw(st.sampled_from(SHAPES)))
        inputs.append(label(input_(name="k", type=k_type, default=None), "k"))
    pool = list(inputs)
    for _ in range(draw(st.integers(2, size))):
        with at(Place(section=draw(st.sampled_from(("", "", "a", "b"))))):
            pool.append(draw(_steps(pool)))
    used = [t for t in pool[len(inputs) :] if t.dtype.is_float][-4:] or [pool[0] * 1.0]
    total: Tensor | None = None
    for t in used:
        part = call("sum", t) if t.ndim else t
        part = call("astype", part, dtype) if part.dtype != dtype else part
        total = part if total is None else total + part
    assert total is not None
    xs = [t for t in inputs if t.dtype.is_float]
    found = gradients(
        total,
        xs,
        colocate_gradients_with_ops=draw(st.booleans()),
        unconnected_gradients="zero",
    )
    outputs = [Output("y", total), Output("last", used[-1])]
    outputs += [Output(f"g{k}", t) for k, t in enumerate(found.tensors)]
    graph = Graph("random", tuple(inputs), tuple(outputs))
    sizes = {
        "N": draw(st.sampled_from((0, 1, 2, 5))),
        "M": draw(st.sampled_from((1, 3, 4))),
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    feeds = {}
    for t in inputs:
        shape = tuple(evaluate_dim(d, sizes) for d in t.shape)
        if t.dtype.is_float:
            feeds[t] = np.asarray(rng.normal(size=shape), dtype=t.dtype.name)
        else:
            feeds[t] = np.asarray(rng.integers(-3, 4, size=shape))
    return Case(graph, feeds, sizes, total, xs)


@st.composite
def _steps(draw: st.DrawFn, pool: Sequence[Tensor]) -> Tensor:
    """One more tensor from those there are."""
    x = draw(st.sampled_from(list(pool)))
    kind = draw(
        st.sampled_from(
            ("unary", "binary", "reduce", "shape", "along", "product", "join", "look")
        )
    )
    if kind == "unary" or not _is_free(x):
        if not x.dtype.is_float:
            return x * 0.5
        return draw(st.sampled_from(UNARY))(x)
    if kind == "binary":
        return draw(st.sampled_from(BINARY))(x, _partner(draw, x, pool))
    if kind == "reduce" and x.ndim:
        axis = draw(st.integers(-x.ndim, x.ndim - 1))
        name = draw(st.sampled_from(REDUCTIONS))
        keep = draw(st.booleans())
        if name in ("max", "min", "mean", "var") and not isinstance(x.shape[axis], int):
            name = "sum" if name in ("mean", "var") else "logsumexp"
        return call(name, x, axis=axis, keepdims=keep)  # type: ignore[no-any-return]
    if kind == "along" and x.ndim:
        axis = draw(st.integers(0, x.ndim - 1))
        return call(draw(st.sampled_from(ALONG)), x, axis=axis)  # type: ignore[no-any-return]
    if kind == "product":
        for other in pool:
            if other.dtype == x.dtype and other.ndim and x.ndim and x.ndim <= 2:
                inner = other.shape[-2] if other.ndim > 1 else other.shape[0]
                if other.ndim <= 2 and x.shape[-1] == inner:
                    return call("matmul", x, other)  # type: ignore[no-any-return]
        return x * x
    if kind == "join" and x.ndim:
        axis = draw(st.integers(0, x.ndim - 1))
        return call("concatenate", [x, call("flip", x, axis) * 2.0], axis=axis)  # type: ignore[no-any-return]
    if kind == "look" and x.ndim:
        return _looked_up(draw, x, pool)
    return _reshaped(draw, x)


def _looked_up(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """Elements of x, or of a view of x, at integers of the graph or at constant ones."""
    axes = [k for k, d in enumerate(x.shape) if isinstance(d, int)]
    if draw(st.booleans()) or not axes:
        x = call("broadcast_to", call("expand_dims", x, 0), (3, *x.shape))
        axes = [0, *(k + 1 for k in axes)]
        if draw(st.booleans()):
            x = call("swapaxes", x, 0, draw(st.sampled_from(axes)))
    given = [t for t in pool if t.dtype == int64 and t.ndim == 1]
    given.append(index_constant(np.array([1, 0, -1])))
    numbers = draw(st.sampled_from(given))
    chosen = draw(st.lists(st.sampled_from(axes), min_size=1, max_size=2, unique=True))
    key: list[Any] = [slice(None)] * x.ndim
    for axis in chosen:
        key[axis] = call("remainder", numbers, x.shape[axis])
    return index(x, tuple(key))


def _partner(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A tensor that broadcasts with x: of its shape, of a suffix of it, or a number."""
    fits = [
        t for t in pool if t.shape == x.shape or t.shape == x.shape[1:] or not t.ndim
    ]
    return draw(st.sampled_from(fits))


def _reshaped(draw: st.DrawFn, x: Tensor) -> Tensor:
    choice = draw(st.integers(0, 8))
    if not x.ndim:
        return x * 1.5
    last = x.shape[-1]
    if choice >= 6 and isinstance(last, int):
        if choice == 6:
            return index(x, (..., draw(st.integers(0, last - 1))))
        parts = [
            index(x, (..., draw(st.integers(0, last - 1)))) * (k + 0.5)
            for k in range(2)
        ]
        if choice == 7:
            return call("stack", [parts[0] * parts[1], *parts], axis=-1)  # type: ignore[no-any-return]
        return index_update(x, (..., 0), parts[1])
    if choice == 0:
        return call("transpose", x)  # type: ignore[no-any-return]
    if choice == 1:
        return call("ravel", x)  # type: ignore[no-any-return]
    if choice == 2:
        return call("flip", x, draw(st.integers(0, x.ndim - 1)))  # type: ignore[no-any-return]
    if choice == 3:
        return (
            call("expand_dims", x, draw(st.integers(0, x.ndim)))
            if x.ndim < 3
            else x + 1.0
        )
    if choice == 4 or choice >= 6:
        return call("pad", x, 1)  # type: ignore[no-any-return]
    axis = draw(st.integers(0, x.ndim - 1))
    if not isinstance(
        x.shape[axis], int
    ):  # a roll of a symbolic axis asks for a length
        return x * 0.75
    return call("roll", x, 1, axis=axis)  # type: ignore[no-any-return]

"""The rows of the op tables, and what is checked of each.

A row builds tensors from inputs; its shapes are texts (`"N 3"`), whose letters are run as symbols
and as numbers. Values are compared to NumPy's, cotangents to central differences, twice, and the
NumPy text of each node to its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradc.ops  # noqa: F401  (enters all ops)
from gradc.autodiff.reverse import gradients
from gradc.graph import Graph, Output, Tensor, ordered
from gradc.ops import arraylib
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.ops.registry import Op
from gradc.passes.expand import expand
from gradc.passes.merge import merge
from gradc.types import (
    DType,
    TensorType,
    complex128,
    evaluate_dim,
    float32,
    float64,
    int64,
    symbol,
)

SIZES = {"N": 4, "M": 3, "K": 2, "B": 2}
TOLERANCE = {  # integers: exact
    "float64": 1e-11,
    "float32": 2e-4,
    "complex128": 1e-11,
    "complex64": 2e-4,
}
HELPERS = {
    **{name: getattr(arraylib, name) for name in dir(arraylib) if name[0] == "_"},
    "np": np,
}


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `build` makes the result (a tensor or a tuple) from the inputs, `numpy` from arrays; without
    it both are `build`'s. `zero` runs it with all symbols 0, `static` with numbers for symbols.
    `draw(rng, shapes)` makes the arrays where any will not do; `along(arrays)` projects the
    directions of the differences. `order` is how many derivatives are checked.
    """

    name: str
    shapes: tuple[str, ...]
    build: Callable[..., Any]
    numpy: Callable[..., Any]
    order: int = 2
    zero: bool = True
    static: bool = True
    dtypes: tuple[DType, ...] = (float64, float32)
    draw: Callable[..., Sequence[Any]] | None = None
    along: Callable[[Any], Any] | None = None
    tolerance: float = 1.0
    text: bool = True

    def __str__(self) -> str:
        return self.name


def dims(text: str, sizes: dict[str, int] | None) -> tuple[Any, ...]:
    """The dimensions of a shape's text: numbers where `sizes` has them, else symbols."""
    found: list[Any] = []
    for word in text.split():
        if word.isdigit():
            found.append(int(word))
        else:
            found.append(symbol(word) if sizes is None else sizes[word])
    return tuple(found)


def inputs(row: Row, dtype: DType, sizes: dict[str, int] | None) -> list[Tensor]:
    return [
        input_(name=f"x{k}", type=TensorType(dtype, dims(text, sizes)), default=None)
        for k, text in enumerate(row.shapes)
    ]


def arrays(row: Row, dtype: DType, sizes: dict[str, int]) -> list[Any]:
    rng = np.random.default_rng(7)
    shapes = [dims(text, sizes) for text in row.shapes]
    if dtype.is_complex:
        draw = row.draw or (lambda rng, shapes: [rng.normal(size=s) for s in shapes])
        parts = zip(draw(rng, shapes), draw(rng, shapes), strict=True)
        drawn = [a + 1j * b for a, b in parts]
    elif row.draw is not None:
        drawn = row.draw(rng, shapes)
    elif dtype.is_inexact:
        drawn = [rng.normal(size=shape) for shape in shapes]
    else:
        drawn = [rng.integers(-5, 6, size=shape) for shape in shapes]
    return [np.asarray(a, dtype.name) for a in drawn]


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def _smooth(ys: Sequence[Tensor]) -> list[Tensor]:
    """The results that have derivatives, real parts of complex ones."""
    found = [y for y in ys if y.dtype.is_inexact]
    return [apply("real", y) if y.dtype.is_complex else y for y in found]


def check_values(row: Row, dtype: DType, sizes: dict[str, int], symbolic: bool) -> None:
    """Values, dtypes and shapes are NumPy's; what the ops require of the sizes holds."""
    xs = inputs(row, dtype, None if symbolic else sizes)
    data = arrays(row, dtype, sizes)
    ys = listed(row.build(*xs))
    wanted = [np.asarray(a) for a in listed(row.numpy(*data))]
    assert len(ys) == len(wanted)
    feeds = dict(zip(xs, data, strict=True))
    for y, found, want in zip(ys, evaluate(ys, feeds, sizes), wanted, strict=True):
        assert found.shape == want.shape
        assert found.dtype == want.dtype, (found.dtype, want.dtype)
        assert y.shape == want.shape or symbolic
        tolerance = TOLERANCE.get(dtype.name, 0) * row.tolerance
        np.testing.assert_allclose(found, want, rtol=tolerance, atol=tolerance)
    for node in ordered(ys):
        if node.op.requires is not None:
            for d in node.op.requires(node):
                assert evaluate_dim(d, sizes) >= 0, (node, d)


def check_text(row: Row, dtype: DType, sizes: dict[str, int]) -> None:
    """The NumPy text of each node, adjoint included, gives its value."""
    xs = inputs(row, dtype, None)
    data = arrays(row, dtype, sizes)
    ys = [y for y in listed(row.build(*xs)) if isinstance(y, Tensor)]
    smooth = _smooth(ys)
    bars = gradients(smooth, xs).tensors if dtype.is_inexact and smooth else ()
    nodes = ordered([*ys, *(b for b in bars if b is not None)])
    feeds = dict(zip(xs, data, strict=True))
    tensors = [t for node in nodes for t in node.outputs]
    values = dict(zip(tensors, evaluate(tensors, feeds, sizes), strict=True))
    for node in nodes:
        op = node.op
        if op.text is None or not node.inputs:
            continue
        names = [f"v{k}" for k in range(len(node.inputs))]
        scope = {**HELPERS, **sizes}
        scope.update(zip(names, (values[t] for t in node.inputs), strict=True))
        text = op.text(node, names)
        assert "  " not in text
        with np.errstate(all="ignore"):
            found = eval(text, scope)
        if len(node.outputs) == 1:
            found = (found,)
        for t, value in zip(node.outputs, found, strict=True):
            assert np.shape(value) == values[t].shape, text
            tolerance = 1e-9 if dtype in (float64, complex128) else 1e-3
            np.testing.assert_allclose(
                value, values[t], rtol=tolerance, atol=tolerance, err_msg=text
            )


def _drawn(rng: np.random.Generator, like: Any) -> Any:
    """Random numbers in the shape of an array, complex where it is."""
    found = rng.normal(size=np.shape(like))
    if np.iscomplexobj(like):
        return found + 1j * rng.normal(size=np.shape(like))
    return found


def _inner(a: Any, b: Any) -> float:
    """The inner product of two arrays, where parts of complex numbers count as numbers."""
    return float(np.sum(np.real(np.conj(a) * b)))


def check_derivatives(
    row: Row, sizes: dict[str, int], symbolic: bool, dtype: DType = float64
) -> None:
    """<bar, direction> is the central difference of <seed, value>, to `row.order`."""
    xs = inputs(row, dtype, None if symbolic else sizes)
    data = arrays(row, dtype, sizes)
    rng = np.random.default_rng(11)
    ys = [y for y in listed(row.build(*xs)) if y.dtype.is_inexact]
    feeds: dict[Tensor, Any] = dict(zip(xs, data, strict=True))
    for order in range(1, row.order + 1):
        seeds = [
            input_(name=f"g{order}{k}", type=y.type, default=None)
            for k, y in enumerate(ys)
        ]
        values = evaluate(ys, feeds, sizes)
        feeds.update((s, _drawn(rng, v)) for s, v in zip(seeds, values, strict=True))
        found = gradients(ys, xs, grad_ys=seeds).tensors
        reached = [
            (x, bar) for x, bar in zip(xs, found, strict=True) if bar is not None
        ]
        assert reached or order > 1
        bars = [bar for _, bar in reached]
        at = evaluate(bars, feeds, sizes)
        for (x, bar), value in zip(reached, at, strict=True):
            assert bar.type == x.type
            direction = _drawn(rng, feeds[x])
            if row.along is not None:
                direction = row.along(direction)
            exact = _inner(value, direction)
            near = _difference(ys, seeds, feeds, x, direction, sizes)
            np.testing.assert_allclose(exact, near, rtol=2e-6, atol=2e-6)
        if not reached:
            return
        ys = bars


def _difference(
    ys: Sequence[Tensor],
    seeds: Sequence[Tensor],
    feeds: dict[Tensor, Any],
    x: Tensor,
    direction: Any,
    sizes: dict[str, int],
) -> float:
    """The derivative of <seeds, ys> in a direction of x, of fourth order in the step."""

    def total(step: float) -> float:
        moved = {**feeds, x: feeds[x] + step * direction}
        values = evaluate(ys, moved, sizes)
        return sum(_inner(feeds[s], v) for s, v in zip(seeds, values, strict=True))

    h = 2e-3
    near = total(h) - total(-h)
    far = total(2 * h) - total(-2 * h)
    return (8 * near - far) / (12 * h)


def check(row: Row) -> None:
    """All that holds for a row."""
    for dtype in row.dtypes:
        check_values(row, dtype, SIZES, symbolic=True)
        if row.static:
            check_values(row, dtype, SIZES, symbolic=False)
        if row.zero and dtype in (float64, complex128):
            check_values(row, dtype, dict.fromkeys(SIZES, 0), symbolic=True)
        if row.text:
            check_text(row, dtype, SIZES)
    for dtype in (float64, complex128):
        if dtype in row.dtypes and row.order:
            check_derivatives(row, SIZES, symbolic=True, dtype=dtype)
            if row.static:
                check_derivatives(row, SIZES, symbolic=False, dtype=dtype)


def with_cotangents(row: Row, dtype: DType) -> Graph:
    """The row's graph with its first cotangents."""
    xs = inputs(row, dtype, None)
    ys = [y for y in listed(row.build(*xs)) if isinstance(y, Tensor)]
    smooth = [y for y in ys if y.dtype.is_inexact]
    bars = gradients(smooth, xs).tensors if smooth else ()
    roots = [*ys, *(b for b in bars if b is not None)]
    outputs = tuple(Output(f"o{k}", t) for k, t in enumerate(roots))
    return Graph("row", tuple(xs), outputs)


def check_expansion(row: Row) -> None:
    """What an op is expanded into has its value, and is of ops that have loops and a spelling."""
    for dtype in row.dtypes:
        graph = with_cotangents(row, dtype)
        simple = merge(expand(graph))
        data = arrays(row, dtype, SIZES)
        found = []
        for version in (graph, simple):
            outputs = [o.tensor for o in version.outputs if o.tensor is not None]
            feeds = dict(zip(version.inputs, data, strict=True))
            found.append(evaluate(outputs, feeds, SIZES))
        for whole, parts in zip(*found, strict=True):
            assert whole.dtype == parts.dtype
            tolerance = 1e-5 if whole.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(parts, whole, rtol=tolerance, atol=tolerance)
        for node in simple.nodes():
            op = node.op
            assert op.expand is None
            assert op.form is not None or op.name == "input"
            assert op.text is not None or op.name in ("input", "constant")
            if op.elementwise:
                assert op.spell or op.name in ("cast", "add_n"), op.name


INTEGERS = (int64, float64)


def ops_of(module: Any) -> set[str]:
    """The names of the ops that a family file defines."""
    return {v.name for v in vars(module).values() if isinstance(v, Op) and v.name}


def ops_in(rows: Sequence[Row]) -> set[str]:
    """The names of the ops that rows build, their adjoints included."""
    found: set[str] = set()
    for row in rows:
        xs = inputs(row, row.dtypes[0], SIZES if row.static else None)
        ys = [y for y in listed(row.build(*xs)) if isinstance(y, Tensor)]
        smooth = _smooth(ys)
        bars = gradients(smooth, xs).tensors if smooth else ()
        roots = [*ys, *(b for b in bars if b is not None)]
        found |= {node.op.name for node in ordered(roots)}
    return found

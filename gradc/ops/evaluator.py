"""The meaning of a graph in NumPy: the oracle that every target is tested against."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import InternalError, ShapeError
from gradc.graph import Data, Node, Tensor, ordered
from gradc.ops.basic import numpy_shape
from gradc.ops.registry import Op
from gradc.types import (
    Dim,
    Poly,
    dim_text,
    evaluate_dim,
    shape_text,
    symbols_of,
)

__all__ = ["bind_sizes", "evaluate"]

Array: TypeAlias = "np.ndarray[Any, Any]"


def evaluate(
    tensors: Sequence[Tensor],
    feeds: Mapping[Tensor, Any],
    sizes: Mapping[str, int] | None = None,
) -> list[Array]:
    """The values of `tensors`, where `feeds` gives those of inputs (or of any tensors on the way).

    Inputs without a value take their default. `sizes` gives the symbols' values; None binds them
    from the shapes of the inputs fed. Floating-point exceptions are silent. ShapeError where a
    slice needs a longer axis, InternalError where an op's value is not of its derived type.
    """
    bound = dict(sizes if sizes is not None else bind_sizes(tuple(feeds), feeds))
    values: dict[Tensor, Array] = {
        t: _checked(t, np.asarray(v, t.dtype.name), bound) for t, v in feeds.items()
    }
    nodes = ordered(tensors, frozenset(feeds))
    uses: Counter[Tensor] = Counter(tensors)
    for node in nodes:
        uses.update(node.inputs)
    takes_sizes: dict[Op, bool] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            found = _node_values(node, values, bound, takes_sizes)
            for output, value in zip(node.outputs, found, strict=True):
                if uses[output] and output not in values:
                    values[output] = _checked(output, value, bound)
            for operand in node.inputs:
                uses[operand] -= 1
                if not uses[operand]:
                    del values[operand]
    return [values[t] for t in tensors]


def _node_values(
    node: Node,
    values: Mapping[Tensor, Array],
    sizes: dict[str, int],
    takes_sizes: dict[Op, bool],
) -> Sequence[Any]:
    """The values of a node's outputs."""
    op = node.op
    if op.name == "input":
        return (_default(node, sizes),)
    if op.requires is not None:
        _check_sizes(node, op.requires(node), sizes)
    if op not in takes_sizes:
        takes_sizes[op] = "sizes" in inspect.signature(op.evaluate).parameters
    arguments = node.attrs.as_dict()
    if takes_sizes[op]:
        arguments["sizes"] = sizes
    result = op.evaluate(*(values[t] for t in node.inputs), **arguments)
    return result if isinstance(result, tuple) else (result,)


def _check_sizes(node: Node, wanted: Sequence[Dim], sizes: dict[str, int]) -> None:
    """ShapeError where a size that an op needs is not there."""
    for dim in wanted:
        if evaluate_dim(dim, sizes) < 0:
            span = node.place.statement
            known = ", ".join(f"{s} = {sizes[s]}" for s in symbols_of(dim))
            raise ShapeError(
                f"{dim_text(dim)} >= 0, which {span.text.strip() if span else node.op.name} "
                f"needs: not so with {known}"
            )


def _default(node: Node, sizes: dict[str, int]) -> Array:
    default = node.attrs.default
    if default is None:
        raise ShapeError(
            f"no value for the input {node.attrs.name}", code="missing-input"
        )
    value = default.array if isinstance(default, Data) else default
    out = node.out
    return np.array(
        np.broadcast_to(
            np.asarray(value, out.dtype.name), numpy_shape(out.shape, sizes)
        )
    )


def _checked(tensor: Tensor, value: Any, sizes: dict[str, int]) -> Array:
    """The value as an array, which must have the tensor's dtype and shape."""
    array = np.asarray(value)
    shape = numpy_shape(tensor.shape, sizes)
    if array.dtype != tensor.dtype.numpy or array.shape != shape:
        raise InternalError(
            f"{tensor.op.name}: expected {tensor.type} of shape {shape}, "
            f"found {array.dtype} of shape {array.shape}"
        )
    return array


def bind_sizes(inputs: Sequence[Tensor], feeds: Mapping[Tensor, Any]) -> dict[str, int]:
    """The symbols' values from the shapes of the inputs fed. ShapeError where two disagree.

    A symbol is bound by a dimension that is that symbol, else by one that is a multiple of it
    plus a number; all dimensions are checked.
    """
    found: list[tuple[Tensor, int, Dim, int]] = []
    for x in inputs:
        if x not in feeds:
            continue
        shape = np.shape(feeds[x])
        if len(shape) != x.ndim:
            raise ShapeError(f"{_name(x)}: expected {x.type}, got shape {shape}")
        found += [
            (x, k, d, n) for k, (d, n) in enumerate(zip(x.shape, shape, strict=True))
        ]
    sizes: dict[str, int] = {}
    for _, _, dim, n in found:
        if isinstance(dim, Poly) and dim_text(dim) in symbols_of(dim):
            sizes.setdefault(dim_text(dim), n)
    for _, _, dim, n in found:
        symbols = symbols_of(dim)
        if len(symbols) == 1 and symbols[0] not in sizes:
            solution = _solve(dim, symbols[0], n)
            if solution is not None:
                sizes[symbols[0]] = solution
    for x, k, dim, n in found:
        if all(s in sizes for s in symbols_of(dim)) and evaluate_dim(dim, sizes) != n:
            raise ShapeError(
                f"{_name(x)}: axis {k} of {shape_text(x.shape)} is "
                f"{evaluate_dim(dim, sizes)}, got {n}"
            )
    return sizes


def _name(x: Tensor) -> str:
    return x.name or str(x.attrs.as_dict().get("name", x.op.name))


def _solve(dim: Dim, symbol: str, n: int) -> int | None:
    """The value of `symbol` for which the linear `dim` is `n`, None where that is no integer."""
    base = evaluate_dim(dim, {symbol: 0})
    step = evaluate_dim(dim, {symbol: 1}) - base
    if step == 0 or (n - base) % step:
        return None
    value = (n - base) // step
    return value if evaluate_dim(dim, {symbol: value}) == n else None

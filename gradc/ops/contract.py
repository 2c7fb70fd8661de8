"""Sums of products: one op, `contract`, and NumPy's products over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError
from gradc.graph import Node, Tensor
from gradc.ops.basic import reduce_sum
from gradc.ops.functions import (
    TensorLike,
    apply,
    function,
)
from gradc.ops.loops import Contract
from gradc.ops.registry import Op, bilinear
from gradc.types import Dim, TensorType, broadcast_shapes, dim_text

__all__ = ["contract", "dot", "matmul"]

Labels = tuple[int, ...]

# ---------------------------------------------------------------------- the op


def _contract_type(
    a: TensorType, b: TensorType, *, lhs: Labels, rhs: Labels, out: Labels
) -> TensorType:
    sizes: dict[int, Dim] = {}
    for labels, t in ((lhs, a), (rhs, b)):
        if len(labels) != t.ndim or len(set(labels)) != t.ndim:
            raise InternalError(f"contract: labels {labels} for {t}")
        for label, d in zip(labels, t.shape, strict=True):
            if sizes.setdefault(label, d) != d:
                raise ShapeError(
                    f"contract: sizes differ: {dim_text(sizes[label])} and {dim_text(d)}"
                )
    alone = set(lhs) ^ set(rhs)
    if a.dtype != b.dtype or not alone <= set(out) or not set(out) <= set(sizes):
        raise InternalError(f"contract: {a} and {b} by {lhs}, {rhs} -> {out}")
    return a.with_shape(sizes[label] for label in out)


def _numpy_contract(a: Any, b: Any, *, lhs: Labels, rhs: Labels, out: Labels) -> Any:
    number = {label: k for k, label in enumerate(dict.fromkeys((*lhs, *rhs)))}
    left, right, result = ([number[k] for k in part] for part in (lhs, rhs, out))
    found = np.einsum(a, left, b, right, result, optimize=True)
    return np.array(found, dtype=np.asarray(a).dtype, order="C")


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; a real tensor as it is."""
    if not x.dtype.is_complex:
        return x
    result = apply("conj", x)
    assert isinstance(result, Tensor)
    return result


def _contract_form(node: Node) -> Contract:
    return Contract(node.attrs.lhs, node.attrs.rhs, node.attrs.out)


contract: Op = bilinear(
    "contract",
    type=_contract_type,
    numpy=_numpy_contract,
    lhs=lambda out_bar, rhs, node: contract(
        out_bar,
        conjugate(rhs),
        lhs=node.attrs.out,
        rhs=node.attrs.rhs,
        out=node.attrs.lhs,
    ),
    rhs=lambda out_bar, lhs, node: contract(
        conjugate(lhs),
        out_bar,
        lhs=node.attrs.lhs,
        rhs=node.attrs.out,
        out=node.attrs.rhs,
    ),
    form=_contract_form,
    text=lambda node, args: _contract_text(node, args),
    doc="The sum of products over the labels that `out` lacks; axes are named by labels.",
)

# --------------------------------------------------------------- NumPy's text


def _contract_text(node: Node, args: Sequence[str]) -> str:
    """`a @ b` with `.T` where it is exactly that, else `np.einsum`."""
    lhs, rhs, out = node.attrs.lhs, node.attrs.rhs, node.attrs.out
    return (
        _product_text(args[0], args[1], lhs, rhs, out)
        or _product_text(args[1], args[0], rhs, lhs, out)
        or _einsum_text(args, lhs, rhs, out)
    )


def _product_text(a: str, b: str, lhs: Labels, rhs: Labels, out: Labels) -> str:
    """The matrix product that this is, with `a` at the left, or ""."""
    shared = set(lhs) & set(rhs)
    summed = shared - set(out)
    batch = tuple(k for k in out if k in shared)
    if batch != out[: len(batch)]:
        return ""
    rows = tuple(k for k in out if k not in rhs)
    columns = tuple(k for k in out if k not in lhs)
    if (
        (*batch, *rows, *columns) != out
        or len(rows) > 1
        or len(columns) > 1
        or len(summed) != 1
    ):
        if (
            not batch
            and not summed
            and len(lhs) == len(rhs) == 1
            and (*lhs, *rhs) == out
        ):
            return f"np.outer({a}, {b})"
        return ""
    inner = tuple(summed)
    n = len(batch)
    if n and (not rows or not columns or lhs[:n] != batch or rhs[:n] != batch):
        return ""
    left, right = lhs[n:], rhs[n:]
    swap = ".T" if not n else ".swapaxes(-1, -2)"
    first = a if left == (*rows, *inner) else f"{a}{swap}"
    second = b if right == (*inner, *columns) else f"{b}{swap}"
    return f"{first} @ {second}"


def _einsum_text(args: Sequence[str], *parts: Labels) -> str:
    letters: dict[int, str] = {}
    for label in (*parts[0], *parts[1]):
        letters.setdefault(label, "ijklmnopqrstuvwxyzabcdefgh"[len(letters) % 26])
    if len(letters) > 26:
        listed = ", ".join(
            f"{arg}, {list(labels)}" for arg, labels in zip(args, parts, strict=False)
        )
        return f"np.einsum({listed}, {list(parts[2])})"
    left, right, out = ("".join(letters[k] for k in part) for part in parts)
    return f'np.einsum("{left},{right}->{out}", {args[0]}, {args[1]})'


# ------------------------------------------------------------------- products


def contracted(a: Tensor, b: Tensor, lhs: Labels, rhs: Labels, out: Labels) -> Tensor:
    """`contract` of operands that may have labels of their own to be summed first."""
    a, lhs = _summed(a, lhs, {*rhs, *out})
    b, rhs = _summed(b, rhs, {*lhs, *out})
    return contract(a, b, lhs=lhs, rhs=rhs, out=out)


def _summed(x: Tensor, labels: Labels, kept: set[int]) -> tuple[Tensor, Labels]:
    axes = tuple(k for k, label in enumerate(labels) if label not in kept)
    if not axes:
        return x, labels
    return reduce_sum(x, axes=axes), tuple(k for k in labels if k in kept)


def numbers(name: str, *values: TensorLike) -> tuple[Tensor, ...]:
    """The values in their common dtype, each in its own shape; bools count as int64."""
    from gradc.ops.functions import convert, type_of
    from gradc.types import int64, promote

    dtype, _ = promote([type_of(v) for v in values])
    if dtype.is_bool:
        dtype = int64
    return tuple(convert(v, dtype) for v in values)


def _inner_error(name: str, a: Tensor, b: Tensor, m: Dim, n: Dim) -> ShapeError:
    hint = "transpose one operand"
    if not isinstance(m, int) or not isinstance(n, int):
        hint += f", or where they are the same, write: assert {dim_text(m)} == {dim_text(n)}"
    return ShapeError(
        f"{name}: inner sizes differ: {dim_text(m)} and {dim_text(n)}",
        notes=(f"left: {a.type}", f"right: {b.type}"),
        hint=hint,
    )


def _batch_labels(
    a: Tensor, b: Tensor, name: str
) -> tuple[Tensor, Tensor, Labels, Labels, Labels]:
    """Labels of the axes before the last two, operands stripped of the axes of length 1 that
    broadcast, and the labels of the result's."""
    try:
        shape = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ShapeError as error:
        raise ShapeError(f"{name}: batch {error.message}", hint=error.hint) from None
    sides = []
    for x in (a, b):
        lead = len(shape) - (x.ndim - 2)
        gone = [
            k for k, d in enumerate(x.shape[:-2]) if d == 1 and shape[lead + k] != 1
        ]
        labels = tuple(lead + k for k in range(x.ndim - 2) if k not in gone)
        sides.append((without_axes(x, gone), labels))
    (a, lhs), (b, rhs) = sides
    return a, b, lhs, rhs, tuple(range(len(shape)))


def without_axes(x: Tensor, axes: Sequence[int]) -> Tensor:
    """`x` without these axes of length 1."""
    from gradc.ops.basic import reshape

    if not axes:
        return x
    return reshape(x, shape=tuple(d for k, d in enumerate(x.shape) if k not in axes))


@function("matmul", operator="matmul")
def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """The matrix product `a @ b`, broadcast over leading axes; vectors are rows and columns."""
    a, b = numbers("matmul", a, b)
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"matmul: operands must have an axis, found {a.type} and {b.type}",
            hint="multiply by a number with *",
        )
    inner_a, inner_b = a.shape[-1], b.shape[-2 if b.ndim > 1 else 0]
    if inner_a != inner_b:
        raise _inner_error("matmul", a, b, inner_a, inner_b)
    i, j, k = -1, -2, -3
    if a.ndim > 1 and b.ndim > 1:
        a, b, lhs, rhs, out = _batch_labels(a, b, "matmul")
        return contract(a, b, lhs=(*lhs, i, k), rhs=(*rhs, k, j), out=(*out, i, j))
    lead_a, lead_b = tuple(range(a.ndim - 1)), tuple(range(max(b.ndim - 2, 0)))
    if b.ndim == 1:
        return contract(a, b, lhs=(*lead_a, k), rhs=(k,), out=lead_a)
    return contract(a, b, lhs=(k,), rhs=(*lead_b, k, j), out=(*lead_b, j))


@function("dot", method=True)
def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """NumPy's dot: over the last axis of `a` and the last but one of `b`; numbers multiply."""
    a, b = numbers("dot", a, b)
    if not a.ndim or not b.ndim:
        return a * b
    inner_a, inner_b = a.shape[-1], b.shape[-2 if b.ndim > 1 else 0]
    if inner_a != inner_b:
        raise _inner_error("dot", a, b, inner_a, inner_b)
    k = -1
    lhs = tuple(range(a.ndim - 1))
    rhs = tuple(range(a.ndim - 1, a.ndim - 1 + b.ndim - 1))
    right = (*rhs[:-1], k, rhs[-1]) if b.ndim > 1 else (k,)
    return contract(a, b, lhs=(*lhs, k), rhs=right, out=(*lhs, *rhs))

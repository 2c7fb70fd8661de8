"""Sums of products: one op, `contract`, and NumPy's products over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops.basic import reduce_sum
from gradc.ops.complex import conjugate
from gradc.ops.functions import (
    Nested,
    TensorLike,
    apply,
    as_tensor,
    axis_of,
    broadcast_to,
    convert,
    function,
    operands,
    type_of,
)
from gradc.ops.loops import Contract
from gradc.ops.registry import Op, bilinear
from gradc.ops.shape import (
    concatenate_op,
    diagonal_op,
    permuted,
    reshaped,
    slice_along,
)
from gradc.types import (
    Dim,
    TensorType,
    broadcast_shapes,
    dim_text,
    evaluate_dim,
    int64,
    promote,
    symbols_of,
)

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
    """`a @ b` with `.T` where it is exactly that, `np.tensordot` without batch, else `np.einsum`."""
    lhs, rhs, out = node.attrs.lhs, node.attrs.rhs, node.attrs.out
    return (
        _product_text(args[0], args[1], lhs, rhs, out)
        or _product_text(args[1], args[0], rhs, lhs, out)
        or _turned_text(args[0], args[1], lhs, rhs, out)
        or _einsum_text(args, lhs, rhs, out)
    )


def _product_text(a: str, b: str, lhs: Labels, rhs: Labels, out: Labels) -> str:
    """The product that NumPy has for this, with `a` at the left, or ""."""
    summed = tuple(k for k in lhs if k not in out)
    free = tuple(k for k in lhs if k not in rhs), tuple(k for k in rhs if k not in lhs)
    if not summed:
        vectors = len(lhs) == len(rhs) == 1 and (*lhs, *rhs) == out
        return f"np.outer({a}, {b})" if vectors else ""
    if len(summed) == 1:
        first, left = _facing(a, lhs, summed[0], first=True)
        second, right = _facing(b, rhs, summed[0], first=False)
        lead_a, lead_b = left[:-2], right[:-2]
        lead = max(lead_a, lead_b, key=len)
        aligned = all(lead[len(lead) - len(x) :] == x for x in (lead_a, lead_b))
        row, column = left[-2:-1], right[-1:] if len(right) > 1 else ()
        if first and second and aligned and (*lead, *row, *column) == out:
            return f"{first} @ {second}"
    if (*free[0], *free[1]) == out and len(lhs) + len(rhs) == len(out) + 2 * len(
        summed
    ):
        axes = [tuple(labels.index(k) for k in summed) for labels in (lhs, rhs)]
        count = len(summed)
        matching = lhs[-count:] == rhs[:count] == summed
        return f"np.tensordot({a}, {b}, axes={count if matching else tuple(axes)})"
    return ""


def _facing(x: str, labels: Labels, k: int, first: bool) -> tuple[str, Labels]:
    """An operand of `@` with label `k` where `@` sums it; ("", ()) where it is elsewhere."""
    if len(labels) == 1 or k not in labels[-2:]:
        return (x, labels) if labels == (k,) else ("", ())
    if labels.index(k) == len(labels) - (1 if first else 2):
        return x, labels
    swap = ".T" if len(labels) == 2 else ".swapaxes(-1, -2)"
    return f"{x}{swap}", (*labels[:-2], labels[-1], labels[-2])


def _turned_text(a: str, b: str, lhs: Labels, rhs: Labels, out: Labels) -> str:
    """`np.tensordot`, which is a product of matrices, with the axes of its result in order; ""
    where there are labels of a batch, or nothing that would gain from it."""
    summed = [k for k in lhs if k not in out]
    made = [k for k in (*lhs, *rhs) if k not in summed]
    if not summed or len(set(made)) < len(made) or len(lhs) + len(rhs) < 5:
        return ""
    axes = [tuple(labels.index(k) for k in summed) for labels in (lhs, rhs)]
    product = f"np.tensordot({a}, {b}, axes={tuple(axes)})"
    perm = tuple(made.index(k) for k in out)
    return f"np.transpose({product}, {perm})"


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


def numbers(*values: TensorLike) -> tuple[Tensor, ...]:
    """The values in their common dtype, each in its own shape; bools count as int64."""
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
    return reshaped(x, tuple(d for k, d in enumerate(x.shape) if k not in axes))


@function("matmul", operator="matmul")
def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """The matrix product `a @ b`, broadcast over leading axes; vectors are rows and columns."""
    a, b = numbers(a, b)
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
    a, b = numbers(a, b)
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


@function("vdot")
def vdot(a: TensorLike, b: TensorLike) -> Tensor:
    """The sum of products of all elements, `a` conjugated."""
    a, b = numbers(a, b)
    m, n = a.type.size, b.type.size
    if m != n:
        raise _inner_error("vdot", a, b, m, n)
    if a.shape != b.shape:
        a, b = reshaped(a, (m,)), reshaped(b, (m,))
    labels = tuple(range(a.ndim))
    return contract(conjugate(a), b, lhs=labels, rhs=labels, out=())


@function("inner")
def inner(a: TensorLike, b: TensorLike) -> Tensor:
    """The sum of products over the last axis of both; numbers multiply."""
    a, b = numbers(a, b)
    if not a.ndim or not b.ndim:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise _inner_error("inner", a, b, a.shape[-1], b.shape[-1])
    lhs = tuple(range(a.ndim - 1))
    rhs = tuple(range(a.ndim - 1, a.ndim + b.ndim - 2))
    return contract(a, b, lhs=(*lhs, -1), rhs=(*rhs, -1), out=(*lhs, *rhs))


@function("outer")
def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """All products of an element of `a` (a row) and one of `b` (a column)."""
    a, b = (reshaped(t, (t.type.size,)) for t in numbers(a, b))
    return contract(a, b, lhs=(0,), rhs=(1,), out=(0, 1))


@function("tensordot")
def tensordot(a: TensorLike, b: TensorLike, axes: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last of `a` and first of `b`, or as listed."""
    a, b = numbers(a, b)
    if isinstance(axes, tuple | list):
        if len(axes) != 2:
            raise ShapeError(
                "tensordot: axes must be a number or two lists, one an operand"
            )
        pairs = [list(x) if isinstance(x, tuple | list) else [x] for x in axes]
        left = [axis_of(k, a.ndim) for k in pairs[0]]
        right = [axis_of(k, b.ndim) for k in pairs[1]]
        if len(left) != len(right):
            raise ShapeError(
                f"tensordot: {len(left)} axes for {len(right)}", code="bad-axis"
            )
    else:
        if not isinstance(axes, int) or not 0 <= axes <= min(a.ndim, b.ndim):
            raise ShapeError(
                f"tensordot: {axes} axes of tensors of rank {a.ndim} and {b.ndim}",
                code="bad-axis",
            )
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    for i, j in zip(left, right, strict=True):
        if a.shape[i] != b.shape[j]:
            raise _inner_error("tensordot", a, b, a.shape[i], b.shape[j])
    lhs = tuple(range(a.ndim))
    pair = {j: i for i, j in zip(left, right, strict=True)}
    rhs = tuple(pair.get(j, a.ndim + j) for j in range(b.ndim))
    out = (*(k for k in lhs if k not in left), *(k for k in rhs if k >= a.ndim))
    return contract(a, b, lhs=lhs, rhs=rhs, out=out)


@function("kron")
def kron(a: TensorLike, b: TensorLike) -> Tensor:
    """The Kronecker product: each element of `a` times the whole of `b`."""
    a, b = numbers(a, b)
    rank = max(a.ndim, b.ndim)
    a = reshaped(a, (*[1] * (rank - a.ndim), *a.shape))
    b = reshaped(b, (*[1] * (rank - b.ndim), *b.shape))
    lhs, rhs = tuple(range(rank)), tuple(range(rank, 2 * rank))
    out = tuple(k for pair in zip(lhs, rhs, strict=True) for k in pair)
    product = contract(a, b, lhs=lhs, rhs=rhs, out=out)
    return reshaped(
        product, tuple(m * n for m, n in zip(a.shape, b.shape, strict=True))
    )


@function("cross")
def cross(
    a: TensorLike,
    b: TensorLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Tensor:
    """The cross product of vectors of 3 (or 2) elements along an axis."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = numbers(a, b)
    parts = []
    for x, k in ((a, axisa), (b, axisb)):
        along = axis_of(k, x.ndim)
        d = x.shape[along]
        if d not in (2, 3):
            raise ShapeError(
                f"cross: vectors have 2 or 3 elements, found {dim_text(d)}",
                hint="declare the axis as 3" if not isinstance(d, int) else "",
            )
        parts.append(
            [
                without_axes(slice_along(x, along, i, i + 1), [along])
                for i in range(int(d) if isinstance(d, int) else 0)
            ]
        )
    (a0, a1, *za), (b0, b1, *zb) = parts
    if not za and not zb:
        return a0 * b1 - a1 * b0
    x = _difference(a1, zb, za, b1)
    y = _difference(b0, za, zb, a0)
    z = a0 * b1 - a1 * b0
    rows = [expand_at(t, axisc) for t in operands(x, y, z)]
    return concatenate_op(*rows, axis=axis_of(axisc, rows[0].ndim))


def _difference(p: Tensor, q: list[Tensor], r: list[Tensor], s: Tensor) -> Tensor:
    """`p * q - r * s`, where a missing third component is 0."""
    if q and r:
        return p * q[0] - r[0] * s
    return p * q[0] if q else -(r[0] * s)


def expand_at(x: Tensor, axis: int) -> Tensor:
    """`x` with a new axis of length 1 at this position of the result."""
    k = axis_of(axis, x.ndim + 1)
    return reshaped(x, (*x.shape[:k], 1, *x.shape[k:]))


@function("matrix_power")
def matrix_power(a: TensorLike, n: int) -> Tensor:
    """A square matrix multiplied by itself `n` times; its inverse where `n` is negative."""
    t = as_tensor(a)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise ShapeError(f"matrix_power: expected square matrices, found {t.type}")
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeMismatch(f"matrix_power: the power must be an int, found {n!r}")
    if n == 0:
        one = apply("eye", t.shape[-1], dtype=t.dtype)
        return broadcast_to(one, t.shape)
    if n < 0:
        t, n = apply("inv", t), -n
    result: Tensor | None = None
    square = t
    while True:
        if n % 2:
            result = square if result is None else matmul(result, square)
        n //= 2
        if not n:
            assert result is not None
            return result
        square = matmul(square, square)


NOMINAL_SIZE = 1000
"""What a symbol counts as where the cheaper of two orders is chosen."""


def nominal(dims: Iterable[Dim]) -> int:
    """The product of dimensions, symbols counted as `NOMINAL_SIZE`."""
    total = 1
    for d in dims:
        total *= evaluate_dim(d, dict.fromkeys(symbols_of(d), NOMINAL_SIZE))
    return total


@function("multi_dot")
def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """A product of matrices in the order that costs least; the outer two may be vectors."""
    tensors = list(numbers(*arrays))
    if len(tensors) < 2:
        raise ShapeError("multi_dot: expected two or more matrices")
    for k, t in enumerate(tensors):
        if t.ndim != 2 and not (t.ndim == 1 and k in (0, len(tensors) - 1)):
            raise ShapeError(f"multi_dot: operand {k + 1} is no matrix: {t.type}")
    for a, b in pairwise(tensors):
        if a.shape[-1] != b.shape[0]:
            raise _inner_error("multi_dot", a, b, a.shape[-1], b.shape[0])
    first = 1 if tensors[0].ndim == 1 else tensors[0].shape[0]
    last = 1 if tensors[-1].ndim == 1 else tensors[-1].shape[-1]
    sizes = [nominal([d]) for d in (first, *(t.shape[0] for t in tensors[1:]), last)]
    n = len(tensors)
    if n > MAX_OPERANDS:
        return reduce(matmul, tensors)
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(n)}
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            best[i, j] = min(
                (
                    best[i, k][0]
                    + best[k + 1, j][0]
                    + sizes[i] * sizes[k + 1] * sizes[j + 1],
                    k,
                )
                for k in range(i, j)
            )
    products = {(i, i): t for i, t in enumerate(tensors)}
    waiting = [(0, n - 1)]
    while waiting:  # a product is made when both of its parts are
        i, j = waiting[-1]
        k = best[i, j][1]
        parts = [] if i == j else [(i, k), (k + 1, j)]
        missing = [part for part in parts if part not in products]
        if missing:
            waiting += missing
            continue
        if parts:
            products[i, j] = matmul(products[i, k], products[k + 1, j])
        waiting.pop()
    return products[0, n - 1]


# --------------------------------------------------------------------- einsum


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand of an einsum with the labels of its axes: letters are positive, axes of `...`
    negative, counted from the last."""

    tensor: Tensor
    labels: Labels


@function("einsum")
def einsum(subscripts: Any, *arrays: Nested, optimize: Any = None) -> Tensor:
    """Einstein's sums in NumPy's notation: `einsum("bij,bjk->bik", a, b)`.

    Takes `...`, repeated letters (diagonals), an implicit result and the form with lists of
    numbers. More than two operands meet pair by pair, the cheapest pair first.
    """
    if isinstance(subscripts, str):
        parts, result = _parsed(subscripts)
        listed = list(arrays)
    else:
        listed, parts, result = _numbered([subscripts, *arrays])
    if len(listed) != len(parts):
        raise ShapeError(
            f"einsum: {len(parts)} operands in the subscripts, {len(listed)} given"
        )
    values = numbers(*(array_like(x) for x in listed))
    terms = [_term(t, part) for t, part in zip(values, parts, strict=True)]
    out = _result_labels(terms, result)
    terms = [_diagonals(t) for t in _broadcasting(terms)]
    while len(terms) > 1:
        i, j = _cheapest(terms)
        a, b = terms[i], terms[j]
        rest = [t for k, t in enumerate(terms) if k not in (i, j)]
        kept = {*out, *(k for t in rest for k in t.labels)}
        terms = [_meeting(a, b, out if not rest else None, kept), *rest]
    return _final(terms[0], out)


def array_like(x: Any) -> TensorLike:
    """A tensor or number as it is, nested lists as a tensor."""
    if isinstance(x, list | tuple):
        result = apply("array", x)
        assert isinstance(result, Tensor)
        return result
    return as_tensor(x)


def _parsed(text: str) -> tuple[list[str], str | None]:
    """The operands' subscripts and the result's (None: implicit), without blanks."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    parts = left.split(",")
    for part in (*parts, right):
        letters = part.replace("...", "", 1)
        wrong = [c for c in letters if not (c.isascii() and c.isalpha())]
        if wrong:
            raise ShapeError(
                f"einsum: {wrong[0]!r} in the subscripts {text!r}",
                code="bad-subscripts",
                hint="subscripts are letters, '...', ',' and one '->'",
            )
    return parts, right if arrow else None


def _numbered(items: list[Any]) -> tuple[list[Any], list[str], str | None]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` as operands and subscripts."""
    pairs, tail = len(items) // 2, items[-1] if len(items) % 2 else None
    names = [_letters(items[2 * k + 1]) for k in range(pairs)]
    return items[: 2 * pairs : 2], names, None if tail is None else _letters(tail)


def _letters(labels: Any) -> str:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if not isinstance(labels, list | tuple):
        raise ShapeError(
            "einsum: expected subscripts, or operands with lists of numbers",
            code="bad-subscripts",
        )
    text = ""
    for k in labels:
        if k is Ellipsis:
            text += "..."
        elif isinstance(k, int) and 0 <= k < len(letters):
            text += letters[k]
        else:
            raise ShapeError(
                f"einsum: a label must be an int from 0 to 51, found {k!r}",
                code="bad-subscripts",
            )
    return text


def _term(x: Tensor, part: str) -> _Term:
    before, dots, behind = part.partition("...")
    named = len(before) + len(behind)
    rest = x.ndim - named
    if rest < 0 or (rest and not dots):
        raise ShapeError(
            f"einsum: {part!r} names {named} axes of a tensor of rank {x.ndim}",
            notes=(f"operand: {x.type}",),
            hint="'...' stands for the axes that are not named" if rest > 0 else "",
        )
    return _Term(
        x,
        (
            *map(ord, before),
            *range(-rest, 0),
            *map(ord, behind),
        ),
    )


def _result_labels(terms: Sequence[_Term], result: str | None) -> Labels:
    counts = Counter(k for t in terms for k in t.labels)
    width = -min([0, *counts])
    dots = tuple(range(-width, 0))
    if result is None:
        return (*dots, *sorted(k for k, n in counts.items() if n == 1 and k > 0))
    before, ellipsis, behind = result.partition("...")
    letters = [*map(ord, before), *map(ord, behind)]
    for k in letters:
        if k not in counts or letters.count(k) > 1:
            what = "stands twice in the result" if k in counts else "is in no operand"
            raise ShapeError(f"einsum: {chr(k)!r} {what}", code="bad-subscripts")
    if width and not ellipsis:
        raise ShapeError(
            "einsum: the result must have '...', as the operands do",
            code="bad-subscripts",
        )
    return (*map(ord, before), *dots, *map(ord, behind))


def _broadcasting(terms: Sequence[_Term]) -> list[_Term]:
    """The terms without the axes of length 1 whose label is longer in another term.

    ShapeError where a label has two sizes.
    """
    sizes: dict[int, Dim] = {}
    for t in terms:
        for k, d in zip(t.labels, t.tensor.shape, strict=True):
            known = sizes.get(k, 1)
            if known not in (1, d) and d != 1:
                name = repr(chr(k)) if k > 0 else f"axis {k} of '...'"
                raise ShapeError(
                    f"einsum: sizes of {name} differ: {dim_text(known)} and {dim_text(d)}",
                    notes=tuple(f"operand: {u.tensor.type}" for u in terms),
                )
            sizes[k] = d if known == 1 else known
    result = []
    for t in terms:
        gone = [
            i
            for i, (k, d) in enumerate(zip(t.labels, t.tensor.shape, strict=True))
            if d != sizes[k]
        ]
        labels = tuple(k for i, k in enumerate(t.labels) if i not in gone)
        result.append(_Term(without_axes(t.tensor, gone), labels))
    return result


def _diagonals(t: _Term) -> _Term:
    """A term in which each label stands once: of one that repeats, the diagonal is taken."""
    x, labels = t.tensor, t.labels
    while len(set(labels)) < len(labels):
        twice = next(k for k in labels if labels.count(k) > 1)
        i = labels.index(twice)
        j = labels.index(twice, i + 1)
        rest = [k for k in range(x.ndim) if k not in (i, j)]
        x = diagonal_op(permuted(x, (*rest, i, j)), offset=0)
        labels = (*(labels[k] for k in rest), twice)
    return _Term(x, labels)


MAX_OPERANDS = 64
"""More operands than this meet from left to right."""


def _cheapest(terms: Sequence[_Term]) -> tuple[int, int]:
    """The pair whose product costs least, the leftmost of equals."""
    if len(terms) == 2 or len(terms) > MAX_OPERANDS:
        return 0, 1

    def cost(pair: tuple[int, int]) -> int:
        sizes: dict[int, Dim] = {}
        for k in pair:
            sizes.update(zip(terms[k].labels, terms[k].tensor.shape, strict=True))
        return nominal(sizes.values())

    return min(combinations(range(len(terms)), 2), key=cost)


def _meeting(a: _Term, b: _Term, out: Labels | None, kept: set[int]) -> _Term:
    """The product of two terms, summed over the labels that nothing else needs."""
    either = tuple(dict.fromkeys((*a.labels, *b.labels)))
    if out is None or not set(out) <= set(either):
        out = tuple(k for k in either if k in kept)
    x, lhs = _summed(a.tensor, a.labels, {*b.labels, *out})
    y, rhs = _summed(b.tensor, b.labels, {*a.labels, *out})
    if lhs == rhs == out:
        return _Term(x * y, out)
    return _Term(contract(x, y, lhs=lhs, rhs=rhs, out=out), out)


def _final(t: _Term, out: Labels) -> Tensor:
    x, labels = _summed(t.tensor, t.labels, set(out))
    return permuted(x, [labels.index(k) for k in out])

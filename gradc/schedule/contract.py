"""Unroll, loop or BLAS: how a contraction is computed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradc.graph import Node
from gradc.ops.loops import Contract
from gradc.types import Dim, size_of

__all__ = ["Product", "matrix_product", "why_loops"]

UNROLLED = 64
"""The most multiplications of a product that is written out."""
BLAS = ("float32", "float64", "complex64", "complex128")
SMALL = 8
"""A size up to which two static sizes make a product a loop."""


EXTRA = 2
"""How many axes of one operand alone may be looped over, to leave a matrix product inside."""


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction as `out = op(a) @ op(b)` for each item of the batch.

    `swap` says that the node's second operand is the left factor; `rows`, `columns` and `inner`
    are the labels of the three groups, `batch` those that stand outside; `left` and `right` say
    whether a factor is transposed.
    """

    swap: bool
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    inner: tuple[int, ...]
    left: bool
    right: bool


def matrix_product(node: Node) -> Product | None:
    """How BLAS computes a contraction, or None where loops are better or BLAS can't.

    Loops are better for a matrix times a vector, for products of at most `UNROLLED`
    multiplications, and where two of the three sizes are static and at most `SMALL`; a symbolic
    size counts as large.
    """
    found = _choice(node)
    return found if isinstance(found, Product) else None


def why_loops(node: Node) -> str:
    """Why a contraction is computed by loops; "" where BLAS does it."""
    found = _choice(node)
    return found if isinstance(found, str) else ""


def _choice(node: Node) -> Product | str:
    form = node.op.form(node) if node.op.form is not None else None
    if not isinstance(form, Contract):
        return "it is no contraction"
    if node.out.dtype.name not in ("float32", "float64"):
        return f"BLAS has no {node.out.dtype}"
    a, b = node.inputs
    sizes: dict[int, Dim] = {}
    for labels, t in ((form.lhs, a), (form.rhs, b)):
        sizes.update(zip(labels, t.shape, strict=True))
    inner = tuple(v for v in form.lhs if v not in form.out)
    if not inner:
        return "nothing is summed"
    both = [v for v in form.out if v in form.lhs and v in form.rhs]
    lone = [v for v in form.out if v not in both]
    for count in range(min(len(lone) - 1, EXTRA + 1)):
        for extra in itertools.combinations(lone, count):
            found = _as_product(form, sizes, {*both, *extra}, inner)
            if isinstance(found, Product):
                return found
    return _as_product(form, sizes, set(both), inner)


def _as_product(
    form: Contract, sizes: Mapping[int, Dim], outside: set[int], inner: tuple[int, ...]
) -> Product | str:
    """The product with the labels `outside` as its batch, or why it is none."""
    batch = tuple(v for v in form.out if v in outside)
    lone_lhs = tuple(v for v in form.out if v not in outside and v in form.lhs)
    lone_rhs = tuple(v for v in form.out if v not in outside and v in form.rhs)
    if not lone_lhs or not lone_rhs:
        vectors = not lone_lhs and not lone_rhs
        return "of two vectors" if vectors else "of a matrix and a vector"
    groups = [size_of(sizes[v] for v in g) for g in (lone_lhs, lone_rhs, inner)]
    total = size_of(groups)
    if isinstance(total, int) and total <= UNROLLED:
        return f"of {total} multiplications"
    if sum(isinstance(g, int) and g <= SMALL for g in groups) >= 2:
        return f"two of its sizes are at most {SMALL}"
    rest = [v for v in form.out if v not in batch]
    swap = rest != [*lone_lhs, *lone_rhs]
    if swap and rest != [*lone_rhs, *lone_lhs]:
        return "its axes are in no order that BLAS takes"
    rows, columns = (lone_rhs, lone_lhs) if swap else (lone_lhs, lone_rhs)
    first, second = (form.rhs, form.lhs) if swap else (form.lhs, form.rhs)
    left = _transposed(first, batch, rows, inner)
    right = _transposed(second, batch, inner, columns)
    if left is None or right is None or not _is_matrix(form.out, (rows, columns)):
        return "its axes are in no order that BLAS takes"
    return Product(swap, batch, rows, columns, inner, left, right)


def _transposed(
    labels: Sequence[int],
    batch: Sequence[int],
    rows: Sequence[int],
    columns: Sequence[int],
) -> bool | None:
    """Whether a factor lies transposed, or None where it is no matrix for BLAS."""
    if not _is_matrix(labels, (rows, columns)):
        return None
    rest = [v for v in labels if v not in batch]
    if rest == [*rows, *columns]:
        return False
    return True if rest == [*columns, *rows] else None


def _is_matrix(labels: Sequence[int], groups: Sequence[Sequence[int]]) -> bool:
    """Whether each group of labels lies together, and the last label is one of theirs."""
    for group in groups:
        first = labels.index(group[0])
        if tuple(labels[first : first + len(group)]) != tuple(group):
            return False
    return any(labels[-1] in group for group in groups)

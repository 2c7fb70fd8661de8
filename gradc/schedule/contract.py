"""Unroll, loop or BLAS: how a contraction is computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gradc.graph import Graph, Node, Tensor
from gradc.ops.loops import Contract, Reshape, View
from gradc.ops.shape import permuted
from gradc.types import Dim, evaluate_dim, size_of, symbols_of

__all__ = [
    "Product",
    "is_windowed",
    "matrix_product",
    "turn_products",
    "why_loops",
]

UNROLLED = 64
"""The most multiplications of a product that is written out."""
BLAS = ("float32", "float64", "complex64", "complex128")
SMALL = 8
"""A size up to which two static sizes make a product a loop."""


WORTH = 2048
"""The fewest multiplications of products that are added up in a loop, or made by turning."""
GAIN = 4
"""By how much a product must be larger to be worth turning its result."""
NOMINAL = 1000
"""The size that a symbol counts as."""
EXTRA = 2
"""How many axes of one operand alone may be looped over, to leave a matrix product inside."""


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction as `out = op(a) @ op(b)` for each item of the batch.

    `swap` says that the node's second operand is the left factor; `rows`, `columns` and `inner`
    are the labels of the three groups, `batch` those of the result that stand outside (a factor
    may lack some), `repeated` those over which such products are added up; `left` and `right` say
    whether a factor is transposed. `lhs` and `rhs` are the labels of the node's operands in the
    order in which they lie in memory, where operands that are views are laid out for this.
    """

    swap: bool
    batch: tuple[int, ...]
    repeated: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    inner: tuple[int, ...]
    left: bool
    right: bool
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]


def matrix_product(node: Node) -> Product | None:
    """How BLAS computes a contraction, or None where loops are better or BLAS can't.

    Loops are better for a matrix times a vector, for products of at most `UNROLLED`
    multiplications, and where two of the three sizes are static and at most `SMALL`; a symbolic
    size counts as large. Windows are a product for each index of the label that stands first, where
    they have one: they are laid out as a matrix before, which then is that of one image.
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
    if node.out.dtype.name not in BLAS:
        return f"BLAS has no {node.out.dtype}"
    sizes = _sizes(node, form)
    inner = tuple(v for v in form.lhs if v not in form.out)
    if not inner:
        return "nothing is summed"
    both = [v for v in form.out if v in form.lhs and v in form.rhs]
    lone = [v for v in form.out if v not in both]
    first = _leading(form)
    choices: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        (extra, ())
        for count in range(min(len(lone) - 1, EXTRA + 1))
        for extra in itertools.combinations(lone, count)
    ]
    if first is not None and any(map(is_windowed, node.inputs)):
        choices.insert(0, ((first,), ()) if first in form.out else ((), (first,)))
    elif first in inner:
        choices.append(((), (first,)))
    for extra, repeated in choices:
        found = _as_product(node, form, sizes, {*both, *extra}, repeated)
        if isinstance(found, Product):
            return found
    return _as_product(node, form, sizes, set(both), ())


def _sizes(node: Node, form: Contract) -> dict[int, Dim]:
    """The size of each label."""
    sizes: dict[int, Dim] = {}
    for labels, t in zip((form.lhs, form.rhs), node.inputs, strict=True):
        sizes.update(zip(labels, t.shape, strict=True))
    return sizes


def _leading(form: Contract) -> int | None:
    """A label that stands first in two of operands and result and is not in the third, but for
    those that are in all."""
    shared = set(form.lhs) & set(form.rhs) & set(form.out)
    parts = [
        [v for v in labels if v not in shared]
        for labels in (form.lhs, form.rhs, form.out)
    ]
    firsts = [labels[0] for labels in parts if labels]
    return next((v for v in firsts if firsts.count(v) == 2), None)


def _as_product(
    node: Node,
    form: Contract,
    sizes: Mapping[int, Dim],
    outside: set[int],
    repeated: tuple[int, ...],
) -> Product | str:
    """The product with the labels `outside` as its batch, added up over those `repeated`, or why
    it is none."""
    batch = tuple(v for v in form.out if v in outside)
    lone_lhs = tuple(v for v in form.out if v not in outside and v in form.lhs)
    lone_rhs = tuple(v for v in form.out if v not in outside and v in form.rhs)
    if not lone_lhs or not lone_rhs:
        vectors = not lone_lhs and not lone_rhs
        return "of two vectors" if vectors else "of a matrix and a vector"
    a, b = node.inputs
    fixed = form.rhs if _is_view(a) and not _is_view(b) else form.lhs
    inner = tuple(v for v in fixed if v not in form.out and v not in repeated)
    if not inner:
        return "a sum of products of vectors"
    groups = [size_of(sizes[v] for v in g) for g in (lone_lhs, lone_rhs, inner)]
    total = size_of(groups)
    if isinstance(total, int) and total <= (WORTH if repeated else UNROLLED):
        return f"of {total} multiplications"
    if sum(isinstance(g, int) and g <= SMALL for g in groups) >= 2:
        return f"two of its sizes are at most {SMALL}"
    rest = [v for v in form.out if v not in batch]
    swap = rest != [*lone_lhs, *lone_rhs]
    if swap and rest != [*lone_rhs, *lone_lhs]:
        return "its axes are in no order that BLAS takes"
    loops = (*batch, *repeated)
    lhs = _laid_out(a, form.lhs, loops, lone_lhs, inner)
    rhs = _laid_out(b, form.rhs, loops, lone_rhs, inner)
    rows, columns = (lone_rhs, lone_lhs) if swap else (lone_lhs, lone_rhs)
    first, second = (rhs, lhs) if swap else (lhs, rhs)
    left = _transposed(first, loops, rows, inner)
    right = _transposed(second, loops, inner, columns)
    if left is None or right is None or not _is_matrix(form.out, (rows, columns)):
        return "its axes are in no order that BLAS takes"
    return Product(swap, batch, repeated, rows, columns, inner, left, right, lhs, rhs)


# ------------------------------------------------------------------ operands and results


def is_windowed(tensor: Tensor) -> bool:
    """Whether a tensor is a view of windows, which have elements in common."""
    while tensor.op.name != "window":
        form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
        if not isinstance(form, View | Reshape):
            return False
        tensor = tensor.inputs[0]
    return True


def _is_view(tensor: Tensor) -> bool:
    """Whether a tensor is read through an index map, so that a library needs a copy of it."""
    form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
    return isinstance(form, View)


def _laid_out(
    tensor: Tensor,
    labels: tuple[int, ...],
    loops: Sequence[int],
    lone: Sequence[int],
    inner: Sequence[int],
) -> tuple[int, ...]:
    """The labels of a factor in the order in which it lies in memory.

    A view is copied anyway: where it is no matrix as it stands, or windows, its groups of labels
    are put together, the one last along which the memory behind it runs on.
    """
    form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
    if not isinstance(form, View):
        return labels
    if not is_windowed(tensor) and _transposed(labels, loops, lone, inner) is not None:
        return labels
    running = form.map[-1].terms if form.map else ()
    along = [labels[k] for k, step in running if step == 1]
    outer = tuple(v for v in labels if v in loops)
    if along and along[0] in lone:
        return (*outer, *inner, *lone)
    return (*outer, *lone, *inner)


def turn_products(graph: Graph) -> Graph:
    """contract(a, b) -> transpose(contract(a, b)), where that is a larger product for BLAS.

    What reads the result reads it through the transpose. Keeps types and values. Idempotent.
    """
    return graph.rewrite({"contract": _turned})


def _turned(node: Node) -> Tensor | None:
    form = node.op.form(node) if node.op.form is not None else None
    if not isinstance(form, Contract):
        return None
    sizes = _sizes(node, form)
    found = matrix_product(node)
    if found is not None and any(map(is_windowed, node.inputs)):
        return None
    least = max(GAIN * _work(found, sizes), WORTH)
    if _nominal(sizes.values()) < least:
        return None
    shared = [v for v in form.out if v in form.lhs and v in form.rhs]
    lone = [v for own in (form.lhs, form.rhs) for v in own if v in form.out]
    lone = [v for v in lone if v not in shared]
    for first in ([], *([v] for v in lone)):
        order = [*first, *shared, *(v for v in lone if v not in first)]
        attrs = {**node.attrs.as_dict(), "out": tuple(order)}
        turned = node.op.node(node.inputs, attrs)
        if _work(matrix_product(turned), sizes) >= least:
            return permuted(turned.out, [order.index(v) for v in form.out])
    return None


def _work(product: Product | None, sizes: Mapping[int, Dim]) -> int:
    """The multiplications of one call."""
    if product is None:
        return 0
    labels = (*product.rows, *product.columns, *product.inner)
    return _nominal(sizes[v] for v in labels)


def _nominal(sizes: Iterable[Dim]) -> int:
    total = size_of(sizes)
    return evaluate_dim(total, dict.fromkeys(symbols_of(total), NOMINAL))


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

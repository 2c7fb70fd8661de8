"""Library calls: the statements that compute a node by BLAS or LAPACK."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradc.errors import InternalError
from gradc.graph import Node
from gradc.schedule.contract import Product, matrix_product
from gradc.schedule.program import Call, Lit, Stmt, View
from gradc.types import Dim, DType, size_of

__all__ = ["call_statements"]


def call_statements(
    node: Node,
    inputs: Sequence[View],
    outputs: Sequence[View],
    code: int,
    adds: bool,
    workspace: Callable[[DType, tuple[Dim, ...], str], View],
    fresh: Callable[[str], str],
) -> list[Stmt]:
    """The statements of a call node for one item of its batch.

    `adds`: the product is added to what the output holds.
    """
    product = matrix_product(node)
    if product is not None:
        return [
            _gemm(product, inputs, outputs[0], node.out.dtype, 1.0 if adds else 0.0)
        ]
    raise InternalError(f"{node.op.name} has no library call")


def _gemm(
    product: Product, inputs: Sequence[View], out: View, dtype: DType, beta: float
) -> Stmt:
    """out = op(a) @ op(b) + beta * out."""
    a, b = reversed(inputs) if product.swap else inputs
    rows, columns, inner = len(product.rows), len(product.columns), len(product.inner)
    left = _matrix(a, inner if product.left else rows)
    right = _matrix(b, columns if product.right else inner)
    return Call(
        "gemm",
        (
            "T" if product.left else "N",
            "T" if product.right else "N",
            Lit(1.0, dtype),
            left,
            right,
            Lit(beta, dtype),
            _matrix(out, rows),
        ),
    )


def _matrix(view: View, rows: int) -> View:
    """A view of several dimensions as a matrix whose rows are the first `rows` of them."""
    if len(view.dims) == 2 and rows == 1:
        return view
    dims = (size_of(view.dims[:rows]), size_of(view.dims[rows:]))
    return View(view.buffer, view.index, dims, (view.strides[rows - 1], 1))

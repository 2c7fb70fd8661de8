"""Library calls: the statements that compute a node by BLAS or LAPACK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gradc.errors import InternalError
from gradc.graph import Node
from gradc.schedule.contract import Product, matrix_product
from gradc.schedule.program import (
    Apply,
    Call,
    Check,
    Expr,
    Index,
    Lin,
    Lit,
    Load,
    Loop,
    Stmt,
    Store,
    View,
)
from gradc.types import Dim, DType, bool_, int64, size_of

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
    maker = MAKERS.get(node.op.name)
    if maker is None:
        raise InternalError(f"{node.op.name} has no library call")
    return maker(_Site(node, inputs, outputs, code, workspace, fresh))


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


# ------------------------------------------------------------------- linear algebra


@dataclass(frozen=True, slots=True)
class _Site:
    """What a call is made from: its node, the views of one batch item, and names to take."""

    node: Node
    inputs: Sequence[View]
    outputs: Sequence[View]
    code: int
    workspace: Callable[[DType, tuple[Dim, ...], str], View]
    fresh: Callable[[str], str]

    @property
    def dtype(self) -> DType:
        return self.node.outputs[0].dtype

    def axes(self) -> tuple[str, str]:
        """Two loop variables."""
        return self.fresh("r"), self.fresh("c")

    def element(self, view: View, axes: Sequence[str]) -> tuple[Index, ...]:
        """The index of element `axes` of a matrix view in its buffer.

        The view's axes are the last ones of its buffer.
        """
        fixed = len(view.index) - len(view.dims)
        own = tuple(Lin(0, ((a, 1),)) for a in axes)
        return (*view.index[:fixed], *own)

    def copy(self, source: View, target: View) -> Stmt:
        """target = source, element by element."""
        r, c = self.axes()
        load = Load(source.buffer, self.element(source, (r, c)), self.dtype)
        store = Store(target.buffer, self.element(target, (r, c)), "=", load)
        inner = Loop(c, source.dims[1], (store,), "lanes")
        return Loop(r, source.dims[0], (inner,))


def _cholesky(site: _Site) -> list[Stmt]:
    (out,) = site.outputs
    return [site.copy(site.inputs[0], out), Call("potrf", (out,), site.code)]


def _solve_triangular(site: _Site) -> list[Stmt]:
    a, b = site.inputs
    (out,) = site.outputs
    attrs = site.node.attrs
    statements: list[Stmt] = []
    if not attrs.unit_diagonal:
        r = site.fresh("r")
        diagonal = Load(a.buffer, site.element(a, (r, r)), site.dtype)
        regular: Expr = Apply("not_equal", (diagonal, Lit(0.0, site.dtype)), bool_)
        statements.append(Loop(r, a.dims[0], (Check(regular, site.code),)))
    flags = (
        "L" if attrs.lower else "U",
        "T" if attrs.trans else "N",
        "U" if attrs.unit_diagonal else "N",
    )
    return [*statements, site.copy(b, out), Call("trsm", (*flags, a, out))]


def _factors(site: _Site, code: int) -> tuple[list[Stmt], View, View]:
    """The statements that factorise the first input, its factors and pivots."""
    a = site.inputs[0]
    lu = site.workspace(site.dtype, a.dims, "lu")
    pivots = site.workspace(int64, a.dims[:1], "pivots")
    return [site.copy(a, lu), Call("getrf", (lu, pivots), code)], lu, pivots


def _solve(site: _Site) -> list[Stmt]:
    statements, lu, pivots = _factors(site, site.code)
    (out,) = site.outputs
    return [
        *statements,
        site.copy(site.inputs[1], out),
        Call("getrs", ("N", lu, pivots, out)),
    ]


def _inv(site: _Site) -> list[Stmt]:
    statements, lu, pivots = _factors(site, site.code)
    return [*statements, Call("getri", (lu, pivots, site.outputs[0]))]


def _det(site: _Site) -> list[Stmt]:
    statements, lu, pivots = _factors(site, 0)
    return [*statements, Call("det", (lu, pivots, site.outputs[0]))]


def _slogdet(site: _Site) -> list[Stmt]:
    statements, lu, pivots = _factors(site, 0)
    return [*statements, Call("slogdet", (lu, pivots, *site.outputs))]


def _cofactor(site: _Site) -> list[Stmt]:
    a = site.inputs[0]
    work = site.workspace(site.dtype, a.dims, "work")
    adjugate = site.workspace(site.dtype, a.dims, "adjugate")
    order = site.workspace(int64, (2, a.dims[0]), "order")
    return [
        site.copy(a, work),
        Call("cofactor", (work, adjugate, order, site.outputs[0])),
    ]


def _sort(site: _Site) -> list[Stmt]:
    (x,) = site.inputs
    spare = site.workspace(site.dtype, x.dims, "spare")
    places = site.workspace(int64, x.dims, "places")
    return [Call("sort", (x, *site.outputs, spare, places))]


def _search(site: _Site) -> list[Stmt]:
    routine = f"search_{site.node.attrs.side}"
    return [Call(routine, (*site.inputs, *site.outputs))]


MAKERS: Mapping[str, Callable[[_Site], list[Stmt]]] = {
    "cholesky": _cholesky,
    "solve_triangular": _solve_triangular,
    "solve": _solve,
    "inv": _inv,
    "det": _det,
    "slogdet": _slogdet,
    "cofactor": _cofactor,
    "sort": _sort,
    "searchsorted": _search,
}

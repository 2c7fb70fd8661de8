"""Linear algebra on the last two axes: factorisations, solutions, determinants.

The ops take float32 and float64, batched over leading axes; both operands of an op have the same
leading axes and right-hand sides are matrices, which the functions see to. A matrix that an
algorithm cannot take (singular, not positive definite) is `numpy.linalg.LinAlgError` when the
graph is evaluated. One that holds a NaN has NaN throughout its inverse and its solutions; it is
not positive definite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.arrange import tril, triu
from gradc.ops.basic import broadcast as broadcast_op
from gradc.ops.basic import reduce_sum
from gradc.ops.contract import contract, matmul
from gradc.ops.functions import (
    Nested,
    TensorLike,
    as_tensor,
    broadcast_to,
    convert,
    function,
    number,
    type_of,
)
from gradc.ops.loops import Call
from gradc.ops.registry import Bar, Explicit, Op, primitive
from gradc.ops.shape import permuted, reshaped, slice_op
from gradc.types import (
    DType,
    Shape,
    TensorType,
    broadcast_shapes,
    dim_text,
    float64,
    promote,
)

__all__ = [
    "cholesky_op",
    "cofactor",
    "det_op",
    "inv_op",
    "slogdet_op",
    "solve_op",
    "solve_triangular_op",
]

LAPACK = frozenset({"float32", "float64"})


def _turned(x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    return permuted(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _over_matrices(x: Tensor, like: Tensor) -> Tensor:
    """A number a matrix, repeated over the elements of the matrices of `like`."""
    return broadcast_op(x, shape=like.shape, along=(like.ndim - 2, like.ndim - 1))


def _square_type(a: TensorType) -> TensorType:
    """The type of square matrices. InternalError for others."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise InternalError(f"no square matrices: {a}")
    return a


def _system_type(a: TensorType, b: TensorType) -> TensorType:
    """The type of the solutions of `a x = b`, `b` in columns, both of the same leading axes."""
    _square_type(a)
    if a.dtype != b.dtype or b.shape[:-1] != a.shape[:-1]:
        raise InternalError(f"no system: {a} and {b}")
    return b


# ------------------------------------------------------------------ factorisation


def _numpy_cholesky(a: Any) -> Any:
    return np.linalg.cholesky(a) if a.size else np.zeros_like(a)


def _cholesky_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    """Murray, Differentiation of the Cholesky decomposition (2016), equation 10, symmetrised."""
    factor = node.out
    half = tril(matmul(_turned(factor), out_bar))
    # tril and its part below the diagonal add to twice the matrix with a halved diagonal
    half = (half + tril(half, -1)) * 0.5
    left = solve_triangular_op(factor, half, lower=True, trans=1, unit_diagonal=False)
    both = solve_triangular_op(
        factor, _turned(left), lower=True, trans=1, unit_diagonal=False
    )
    return [(both + _turned(both)) * 0.5]


cholesky_op: Op = primitive(
    "cholesky",
    type=_square_type,
    numpy=_numpy_cholesky,
    derivative=Explicit(_cholesky_vjp),
    form=lambda node: Call("cholesky"),
    text=lambda node, args: f"np.linalg.cholesky({args[0]})",
    accepts=LAPACK,
    doc="The lower factor L with L @ L.T = a; reads the lower triangle of a only.",
)


# --------------------------------------------------------------- triangular systems


def _solve_triangular_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    a, _ = node.inputs
    attrs = node.attrs
    b_bar = solve_triangular_op(
        a,
        out_bar,
        lower=attrs.lower,
        trans=1 - attrs.trans,
        unit_diagonal=attrs.unit_diagonal,
    )
    x = node.out
    outer = (
        _product(x, b_bar, "transposed")
        if attrs.trans
        else _product(b_bar, x, "transposed")
    )
    beyond = 1 if attrs.unit_diagonal else 0
    return [-(tril(outer, -beyond) if attrs.lower else triu(outer, beyond)), b_bar]


def _product(a: Tensor, b: Tensor, second: str = "") -> Tensor:
    """`a @ b`, or `a @ b.T` where the second is `transposed`, matrix by matrix."""
    n = a.ndim - 2
    batch = tuple(range(n))
    i, j, k = n, n + 1, n + 2
    rhs = (*batch, j, k) if second else (*batch, k, j)
    return contract(a, b, lhs=(*batch, i, k), rhs=rhs, out=(*batch, i, j))


def _solve_triangular_text(node: Node, args: Sequence[str]) -> str:
    attrs = node.attrs
    options = f"{attrs.lower}, {attrs.trans}, {attrs.unit_diagonal}"
    return f"_solve_triangular({', '.join(args)}, {options})"


solve_triangular_op: Op = primitive(
    "solve_triangular",
    type=lambda a, b, *, lower, trans, unit_diagonal: _system_type(a, b),
    numpy=lambda a, b, *, lower, trans, unit_diagonal: arraylib._solve_triangular(
        a, b, lower, trans, unit_diagonal
    ),
    derivative=Explicit(_solve_triangular_vjp),
    form=lambda node: Call("solve_triangular"),
    text=_solve_triangular_text,
    accepts=LAPACK,
    doc="x with op(a) @ x = b for a triangular a; op is the identity (trans 0) or the transpose "
    "(1). The other triangle, and the diagonal where it is of ones, is never read.",
)


# -------------------------------------------------------------------- general systems


def _solve_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    a, _ = node.inputs
    b_bar = solve_op(_turned(a), out_bar)
    return [-_product(b_bar, node.out, "transposed"), b_bar]


solve_op: Op = primitive(
    "solve",
    type=_system_type,
    numpy=lambda a, b: np.linalg.solve(arraylib._spoiled(a), b),
    derivative=Explicit(_solve_vjp),
    form=lambda node: Call("solve"),
    text=lambda node, args: f"np.linalg.solve(_spoiled({args[0]}), {args[1]})",
    accepts=LAPACK,
    doc="x with a @ x = b.",
)


def _inv_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    turned = _turned(node.out)
    return [-_product(_product(turned, out_bar), turned)]


inv_op: Op = primitive(
    "inv",
    type=_square_type,
    numpy=lambda a: np.linalg.inv(arraylib._spoiled(a)),
    derivative=Explicit(_inv_vjp),
    form=lambda node: Call("inv"),
    text=lambda node, args: f"np.linalg.inv(_spoiled({args[0]}))",
    accepts=LAPACK,
    doc="The inverse.",
)


# ------------------------------------------------------------------- determinants


def _cofactor_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    """From C = det(a) inv(a).T, where a has an inverse."""
    (a,) = node.inputs
    turned = _turned(inv_op(a))
    axes = (a.ndim - 2, a.ndim - 1)
    inside = _over_matrices(reduce_sum(out_bar * turned, axes=axes), a)
    chain = _product(_product(turned, out_bar, "transposed"), node.out)
    return [inside * node.out - chain]


cofactor: Op = primitive(
    "cofactor",
    type=_square_type,
    numpy=arraylib._cofactor,
    derivative=Explicit(_cofactor_vjp),
    form=lambda node: Call("cofactor"),
    text=lambda node, args: f"_cofactor({args[0]})",
    accepts=LAPACK,
    doc="The matrix of cofactors, the derivative of the determinant; singular matrices too.",
)


def _det_vjp(node: Node, out_bar: Tensor) -> list[Bar]:
    (a,) = node.inputs
    return [_over_matrices(out_bar, a) * cofactor(a)]


det_op: Op = primitive(
    "det",
    type=lambda a: _square_type(a).with_shape(a.shape[:-2]),
    numpy=lambda a: np.asarray(np.linalg.det(a), a.dtype),
    derivative=Explicit(_det_vjp),
    form=lambda node: Call("det"),
    text=lambda node, args: f"np.linalg.det({args[0]})",
    accepts=LAPACK,
    doc="The determinant.",
)


def _numpy_slogdet(a: Any) -> tuple[Any, Any]:
    sign, log = np.linalg.slogdet(a)
    return np.asarray(sign, a.dtype), np.asarray(log, a.dtype)


def _slogdet_vjp(
    node: Node, sign_bar: Tensor | None, log_bar: Tensor | None
) -> list[Bar]:
    (a,) = node.inputs
    if log_bar is None:
        return [None]
    return [_over_matrices(log_bar, a) * _turned(inv_op(a))]


slogdet_op: Op = primitive(
    "slogdet",
    type=lambda a: (_square_type(a).with_shape(a.shape[:-2]),) * 2,
    numpy=_numpy_slogdet,
    derivative=Explicit(_slogdet_vjp, through=(1,)),
    form=lambda node: Call("slogdet"),
    text=lambda node, args: f"np.linalg.slogdet({args[0]})",
    accepts=LAPACK,
    doc="The sign of the determinant, which is constant, and the logarithm of its size.",
)


# ---------------------------------------------------------------------- functions


def _lapack_dtype(name: str, *values: TensorLike) -> DType:
    """float32 or float64, in which the values are computed; integers count as float64."""
    types = [type_of(v) for v in values]
    types = [t if t.dtype.is_inexact else TensorType(float64, t.shape) for t in types]
    dtype, _ = promote(types)
    if dtype.name not in LAPACK:
        raise TypeMismatch(
            f"{name}: a matrix of {dtype}",
            hint=f"{name} takes float32 and float64: write .astype(float64)",
        )
    return dtype


def _square(name: str, a: Tensor) -> Tensor:
    if a.ndim < 2:
        raise ShapeError(f"{name}: expected a matrix, found {a.type}")
    if a.shape[-1] != a.shape[-2]:
        m, n = dim_text(a.shape[-2]), dim_text(a.shape[-1])
        symbolic = not (m + n).isdigit()
        raise ShapeError(
            f"{name}: the matrix is not square: {m} and {n}",
            notes=(f"matrix: {a.type}",),
            hint=f"where they are the same, write: assert {m} == {n}"
            if symbolic
            else "",
        )
    return a


def _matrix(name: str, a: TensorLike) -> Tensor:
    """A square matrix in a dtype of LAPACK's."""
    return _square(name, convert(as_tensor(a), _lapack_dtype(name, a)))


def _system(name: str, a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor, bool]:
    """Matrix and right-hand side of one batch and dtype; True where `b` was a vector."""
    dtype = _lapack_dtype(name, a, b)
    matrix, rhs = _square(name, convert(a, dtype)), convert(b, dtype)
    if not rhs.ndim:
        raise ShapeError(f"{name}: the right-hand side is a number")
    is_vector = rhs.ndim == 1
    if is_vector:
        rhs = reshaped(rhs, (*rhs.shape, 1))
    n, m = matrix.shape[-1], rhs.shape[-2]
    if n != m:
        raise ShapeError(
            f"{name}: a matrix of size {dim_text(n)} with a right-hand side of "
            f"{dim_text(m)} rows",
            notes=(f"matrix: {matrix.type}", f"right-hand side: {as_tensor(b).type}"),
        )
    batch = broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    return (
        broadcast_to(matrix, (*batch, *matrix.shape[-2:])),
        broadcast_to(rhs, (*batch, *rhs.shape[-2:])),
        is_vector,
    )


def _solution(x: Tensor, is_vector: bool) -> Tensor:
    return reshaped(x, x.shape[:-1]) if is_vector else x


@function("cholesky")
def cholesky(a: TensorLike, upper: bool = False) -> Tensor:
    """The triangular factor of a symmetric positive definite matrix, of which it reads only the
    triangle that the factor has; the adjoint is symmetric."""
    matrix = _matrix("cholesky", a)
    if upper:
        return _turned(cholesky_op(_turned(matrix)))
    return cholesky_op(matrix)


@function("cho_factor")
def cho_factor(a: TensorLike, lower: bool = False) -> tuple[Tensor, bool]:
    """The pair that `cho_solve` takes: a Cholesky factor and whether it is the lower one."""
    return cholesky(a, upper=not lower), lower


@function("cho_solve")
def cho_solve(c_and_lower: Nested, b: TensorLike) -> Tensor:
    """The solution of `a @ x = b` from `(c, lower)`, the Cholesky factor of `a`."""
    if not isinstance(c_and_lower, tuple | list) or len(c_and_lower) != 2:
        raise TypeMismatch(
            "cho_solve: expected a pair (c, lower) and b",
            hint="cho_solve((cholesky(a), True), b)",
        )
    c, lower = c_and_lower
    first = solve_triangular(c, b, lower=bool(lower), trans=0 if lower else 1)
    return solve_triangular(c, first, lower=bool(lower), trans=1 if lower else 0)


@function("solve_triangular")
def solve_triangular(
    a: TensorLike,
    b: TensorLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """The solution of `a @ x = b` (`trans=1`: of `a.T @ x = b`) for a triangular matrix; its
    other triangle is never read."""
    codes = {0: 0, 1: 1, 2: 1, "N": 0, "T": 1, "C": 1}
    if trans not in codes:
        raise OptionError(
            f"solve_triangular: trans is 0, 1, 'N' or 'T', found {trans!r}"
        )
    matrix, rhs, is_vector = _system("solve_triangular", a, b)
    x = solve_triangular_op(
        matrix,
        rhs,
        lower=bool(lower),
        trans=codes[trans],
        unit_diagonal=bool(unit_diagonal),
    )
    return _solution(x, is_vector)


@function("solve")
def solve(a: TensorLike, b: TensorLike) -> Tensor:
    """The solution of `a @ x = b`."""
    matrix, rhs, is_vector = _system("solve", a, b)
    return _solution(solve_op(matrix, rhs), is_vector)


@function("inv")
def inv(a: TensorLike) -> Tensor:
    """The inverse of a matrix."""
    return inv_op(_matrix("inv", a))


@function("det")
def det(a: TensorLike) -> Tensor:
    """The determinant; its derivative is right for singular matrices too.

    Up to three rows it is written out, so that derivatives of every order are.
    """
    matrix = _matrix("det", a)
    n = matrix.shape[-1]
    if n == 0:
        return broadcast_to(number(1, matrix.dtype), matrix.shape[:-2])
    if n == 1:
        return _element(matrix, 0, 0)
    if n == 2:
        return _minor(matrix, (0, 1), (0, 1))
    if n == 3:
        first = _element(matrix, 0, 0) * _minor(matrix, (1, 2), (1, 2))
        second = _element(matrix, 0, 1) * _minor(matrix, (1, 2), (0, 2))
        third = _element(matrix, 0, 2) * _minor(matrix, (1, 2), (0, 1))
        return first - second + third
    return det_op(matrix)


def _element(a: Tensor, i: int, j: int) -> Tensor:
    lead: Shape = a.shape[:-2]
    taken = slice_op(
        a,
        start=(*[0] * len(lead), i, j),
        stop=(*lead, i + 1, j + 1),
        step=(1,) * a.ndim,
    )
    return reshaped(taken, lead)


def _minor(a: Tensor, rows: tuple[int, int], columns: tuple[int, int]) -> Tensor:
    (i, j), (k, n) = rows, columns
    return _element(a, i, k) * _element(a, j, n) - _element(a, i, n) * _element(a, j, k)


@function("slogdet")
def slogdet(a: TensorLike) -> tuple[Tensor, Tensor]:
    """The sign of the determinant, which is constant, and the logarithm of its size."""
    sign, log = slogdet_op.many(_matrix("slogdet", a))
    return sign, log

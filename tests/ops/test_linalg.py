"""Factorisations, systems and determinants."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from rows import SIZES, Row, check, ops_in

import gradc
from gradc.autodiff.reverse import gradients
from gradc.errors import GradcError
from gradc.ops import linalg
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import as_tensor
from gradc.ops.linalg import (
    cho_factor,
    cho_solve,
    cholesky,
    cofactor,
    det,
    det_op,
    inv,
    slogdet,
    solve,
    solve_triangular,
)
from gradc.types import TensorType, complex128, float32, float64, int64, symbol

N, D = symbol("N"), symbol("D")


def regular(rng, shapes):
    """Matrices far from singular, other operands any."""
    first, *others = shapes
    a = rng.normal(size=first) * 0.5 + 2 * np.eye(first[-1])
    return [a, *(rng.normal(size=s) for s in others)]


def definite(rng, shapes):
    first, *others = shapes
    a = rng.normal(size=first)
    a = a @ np.swapaxes(a, -1, -2) + first[-1] * np.eye(first[-1])
    return [a, *(rng.normal(size=s) for s in others)]


def symmetric(x):
    return (
        x + np.swapaxes(x, -1, -2) if x.ndim > 1 and x.shape[-1] == x.shape[-2] else x
    )


def triangular(lower, trans, unit):
    """SciPy's triangular solution, matrix by matrix."""

    def solve_one(a, b):
        if not b.size:
            return b.copy()
        return scipy.linalg.solve_triangular(
            a, b, lower=lower, trans=trans, unit_diagonal=unit
        )

    def solve_all(a, b):
        if b.ndim == 1 or a.ndim == 2 == b.ndim:
            return solve_one(a, b)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = np.broadcast_to(a, (*batch, *a.shape[-2:]))
        b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
        out = np.array(b)
        for k in np.ndindex(*batch):
            out[k] = solve_one(a[k], b[k])
        return out

    return solve_all


def slog(a):
    sign, log = np.linalg.slogdet(a)
    return np.asarray(sign, a.dtype), np.asarray(log, a.dtype)


ROWS = [
    Row(
        "cholesky",
        ("N N",),
        cholesky,
        lambda a: np.linalg.cholesky(a) if a.size else a,
        draw=definite,
        along=symmetric,
    ),
    Row(
        "cholesky of a batch, upper",
        ("B 3 3",),
        lambda a: cholesky(a, upper=True),
        lambda a: np.linalg.cholesky(a, upper=True) if a.size else a,
        draw=definite,
        along=symmetric,
    ),
    *[
        Row(
            f"solve_triangular lower={lower} trans={trans} unit={unit} {shapes}",
            shapes,
            lambda a, b, lower=lower, trans=trans, unit=unit: solve_triangular(
                a, b, lower=lower, trans=trans, unit_diagonal=unit
            ),
            triangular(lower, trans, unit),
            draw=regular,
            tolerance=10,
        )
        for lower in (False, True)
        for trans in (0, 1)
        for unit in (False, True)
        for shapes in (("N N", "N M"), ("N N", "N"), ("B 3 3", "3 M"))
    ],
    Row("solve", ("N N", "N M"), solve, np.linalg.solve, draw=regular),
    Row("solve of a vector", ("N N", "N"), solve, np.linalg.solve, draw=regular),
    Row("solve of a batch", ("B 3 3", "3 2"), solve, np.linalg.solve, draw=regular),
    Row(
        "solve of a batch of sides",
        ("3 3", "B 3 2"),
        solve,
        np.linalg.solve,
        draw=regular,
    ),
    Row("inv", ("N N",), inv, np.linalg.inv, draw=regular),
    Row("inv of a batch", ("B N N",), inv, np.linalg.inv, draw=regular),
    Row("det", ("N N",), det, np.linalg.det, draw=regular, tolerance=10),
    Row("det of a batch", ("B N N",), det, np.linalg.det, draw=regular, tolerance=10),
    *[
        Row(
            f"det of {n} rows",
            (f"B {n} {n}",),
            det,
            np.linalg.det,
            order=3 if 0 < n < 4 else 2 if n else 0,
            tolerance=10,
        )
        for n in (0, 1, 2, 3, 5)
    ],
    Row("slogdet", ("B N N",), slogdet, slog, draw=regular, order=0),
    Row(
        "the logarithm of slogdet",
        ("N N",),
        lambda a: slogdet(a)[1],
        lambda a: slog(a)[1],
        draw=regular,
    ),
    Row(
        "cho_solve",
        ("N N", "N M"),
        lambda a, b: cho_solve((cholesky(a), True), b),
        np.linalg.solve,
        draw=definite,
        along=symmetric,
        tolerance=10,
    ),
    Row(
        "cho_factor, upper",
        ("N N", "N"),
        lambda a, b: cho_solve(cho_factor(a), b),
        np.linalg.solve,
        draw=definite,
        along=symmetric,
        tolerance=10,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row):
    check(row)


def test_every_op_has_a_row(monkeypatch):
    found = ops_in(ROWS)
    assert {
        "cholesky",
        "solve_triangular",
        "solve",
        "inv",
        "det",
        "slogdet",
        "cofactor",
    } <= found


def tensor(*shape, dtype=float64):
    return input_(name="x", type=TensorType(dtype, shape), default=None)


# ---------------------------------------------------------- singular determinants


def adjugate_turned(a):
    """Cofactors by minors."""
    n = len(a)
    out = np.zeros_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, 0), j, 1)
            out[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_the_derivative_of_a_singular_determinant(n, lost):
    rng = np.random.default_rng(n)
    rank = max(n - lost, 0)
    a = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, n))
    for x in (tensor(N, N), tensor(n, n)):
        (bar,) = gradients(det(x), x).tensors
        (found,) = evaluate([bar], {x: a})
        np.testing.assert_allclose(found, adjugate_turned(a), rtol=1e-10, atol=1e-12)


def test_second_derivatives_of_singular_determinants_of_three_rows():
    a = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
    x, v = tensor(3, 3), np.arange(9.0).reshape(3, 3)
    (bar,) = gradients(det(x), x).tensors
    (twice,) = gradients(bar, x, grad_ys=as_tensor(v)).tensors
    (found,) = evaluate([twice], {x: a})
    h = 1e-5
    near = (adjugate_turned(a + h * v) - adjugate_turned(a - h * v)) / (2 * h)
    np.testing.assert_allclose(found, near, rtol=1e-7, atol=1e-7)


def test_cofactors_of_a_float32_batch():
    a = np.random.default_rng(0).normal(size=(2, 4, 4)).astype(np.float32)
    (found,) = evaluate([cofactor(as_tensor(a))], {})
    assert found.dtype == np.float32
    wanted = [adjugate_turned(m.astype(float)) for m in a]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------ what is never read


def test_the_other_triangle_is_never_read():
    a = np.array([[2.0, np.nan], [1.0, 3.0]])
    b = np.array([4.0, 5.0])
    lower = np.tril(np.where(np.isnan(a), 0, a))
    x = tensor(2, 2)
    y = solve_triangular(x, b_of := tensor(2), lower=True)
    bars = gradients(y, [x, b_of]).tensors
    found, a_bar, _ = evaluate([y, *bars], {x: a, b_of: b})
    np.testing.assert_allclose(found, np.linalg.solve(lower, b))
    assert a_bar[0, 1] == 0
    unit = np.array([[np.nan, 1.0], [np.inf, np.nan]])
    y = solve_triangular(x, b_of, unit_diagonal=True, trans="T")
    (found,) = evaluate([y], {x: unit, b_of: b})
    np.testing.assert_allclose(found, [4, 1])


def test_cholesky_reads_the_lower_triangle():
    a = np.array([[4.0, np.nan], [2.0, 5.0]])
    x = tensor(2, 2)
    factor = cholesky(x)
    found, bar = evaluate([factor, gradients(factor, x).tensors[0]], {x: a})
    np.testing.assert_allclose(found, [[2, 0], [1, 2]])
    np.testing.assert_array_equal(bar, bar.T)


# ------------------------------------------------------------- failing matrices

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize(
    "build, a",
    [
        (lambda x: cholesky(x), -np.eye(2)),
        (lambda x: solve(x, as_tensor(np.ones(2))), SINGULAR),
        (lambda x: inv(x), SINGULAR),
        (lambda x: solve_triangular(x, as_tensor(np.ones(2))), np.diag([1.0, 0.0])),
    ],
)
def test_failing_matrices(build, a):
    x = tensor(2, 2)
    with pytest.raises(np.linalg.LinAlgError):
        evaluate([build(x)], {x: a})


def test_the_sign_of_slogdet_is_constant():
    x = tensor(N, N)
    sign, log = slogdet(x)
    assert gradients(sign, x).tensors == (None,)
    assert gradients(sign * log, x).tensors[0] is not None
    s, value = evaluate([sign, log], {x: SINGULAR})
    assert s == 0
    assert value == -np.inf


# ------------------------------------------------------------------------- types


def test_dtypes():
    assert inv(tensor(2, 2, dtype=int64)).dtype == float64
    assert solve(tensor(2, 2, dtype=float32), tensor(2, dtype=float32)).dtype == float32
    assert solve(tensor(2, 2, dtype=float32), tensor(2)).dtype == float64


ERRORS = [
    (lambda: inv(tensor(2, 3)), "inv: the matrix is not square: 2 and 3"),
    (lambda: det(tensor(N, D)), "write: assert N == D"),
    (lambda: cholesky(tensor(3)), "cholesky: expected a matrix, found float64[3]"),
    (lambda: inv(tensor(2, 2, dtype=complex128)), "takes float32 and float64"),
    (
        lambda: solve(tensor(N, N), tensor(3)),
        "a matrix of size N with a right-hand side of 3 rows",
    ),
    (lambda: solve(tensor(2, 2), 1.0), "the right-hand side is a number"),
    (
        lambda: solve_triangular(tensor(2, 2), tensor(2), trans=3),
        "trans is 0, 1, 'N' or 'T'",
    ),
    (lambda: cho_solve(tensor(2, 2), tensor(2)), "cho_solve((cholesky(a), True), b)"),
]


@pytest.mark.parametrize("make, message", ERRORS, ids=[e[1] for e in ERRORS])
def test_errors(make, message):
    with pytest.raises(GradcError) as caught:
        make()
    assert message in str(caught.value)


def test_loop_forms_name_their_routines():
    calls = {
        make(tensor(*shape)).op.form(make(tensor(*shape)).node).routine
        for make, shape in ((inv, (N, N)), (cholesky, (N, N)), (det_op, (N, N)))
    }
    assert calls == {"inv", "cholesky", "det"}
    assert linalg.LAPACK == {"float32", "float64"}
    assert SIZES["N"] == 4


SPOILED = """
a: float[4, 4]
b: float[4]
x, i, d = solve(a, b), inv(a), det(a)
log = slogdet(a)[1]
return x, i, d, log, *gradients([x, i, log], [a]), *gradients(d, [a])
"""


def test_a_nan_spoils_what_is_made_of_its_matrix(tmp_path, monkeypatch):
    """Which elements LAPACK itself spoils depends on the order of the elements."""
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path))
    graph = gradc.parse(SPOILED)
    modules = [gradc.compile(graph, target=target) for target in ("numpy", "numba")]
    b = np.ones(4)
    for place in ((0, 0), (0, 3), (2, 1), (3, 3)):
        a = np.arange(16.0).reshape(4, 4) + 9 * np.eye(4)
        a[place] = np.nan
        feeds = dict(zip(graph.inputs, (a, b), strict=True))
        results = [m.run(a, b) for m in modules]
        results.append(evaluate([o.tensor for o in graph.outputs], feeds))
        assert all(np.isnan(value).all() for found in results for value in found)
    a[place] = np.inf
    assert all(np.isnan(m.run(a, b)[-1]).all() for m in modules)
    lower = "a: float[3, 3]\nb: float[3]\nreturn solve_triangular(a, b, lower=True)"
    a = np.array([[1.0, np.nan, np.inf], [np.inf, 2.0, np.nan], [1.0, 1.0, 1.0]])
    (found,) = gradc.compile(lower, target="numpy").run(a, b[:3])
    np.testing.assert_array_equal(found, [1.0, -np.inf, np.inf])

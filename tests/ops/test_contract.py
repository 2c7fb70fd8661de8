"""Sums of products: the op and NumPy's functions over it."""

from __future__ import annotations

import numpy as np
import pytest
from rows import Row, check, ops_in

from gradc.errors import GradcError
from gradc.graph import ordered
from gradc.ops import contract as family
from gradc.ops.basic import input_
from gradc.ops.contract import (
    contract,
    cross,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    matrix_power,
    multi_dot,
    outer,
    tensordot,
    vdot,
)
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import as_tensor
from gradc.types import TensorType, complex128, float64, symbol

N, D, K = symbol("N"), symbol("D"), symbol("K")


def contracted(a, b, lhs, rhs, out, **options) -> Row:
    """A row for the op itself."""
    return Row(
        f"contract {lhs} {rhs} {out}",
        (a, b),
        lambda x, y: contract(x, y, lhs=lhs, rhs=rhs, out=out),
        lambda x, y: np.einsum(x, lhs, y, rhs, out),
        **options,
    )


def same(name: str, *shapes: str, **options) -> Row:
    """A row for a function that is called like NumPy's of its name."""
    keywords = options.pop("kw", {})
    theirs = getattr(np, name, None) or getattr(np.linalg, name)
    return Row(
        f"{name} {shapes} {keywords}",
        shapes,
        lambda *xs: getattr(family, name)(*xs, **keywords),
        lambda *xs: theirs(*xs, **keywords),
        **options,
    )


def summed(subscripts: str, *shapes: str, **options) -> Row:
    """A row for an einsum."""
    return Row(
        f"einsum {subscripts}",
        shapes,
        lambda *xs: einsum(subscripts, *xs),
        lambda *xs: np.einsum(subscripts, *xs),
        **options,
    )


OPS = [
    contracted("N M", "M K", (0, 1), (1, 2), (0, 2)),
    contracted("M N", "K M", (1, 0), (2, 1), (0, 2)),
    contracted("M N", "M K", (1, 0), (1, 2), (2, 0)),
    contracted("N", "M", (0,), (1,), (0, 1)),
    contracted("N", "M", (0,), (1,), (1, 0)),
    contracted("N M", "N M", (0, 1), (0, 1), ()),
    contracted("N M", "N M", (0, 1), (0, 1), (0,)),
    contracted("N M", "M", (0, 1), (1,), (0,)),
    contracted("M", "M N", (0,), (0, 1), (1,)),
    contracted("B N M", "B M K", (0, 1, 2), (0, 2, 3), (0, 1, 3)),
    contracted("B M N", "B K M", (0, 2, 1), (0, 3, 2), (0, 3, 1)),
    contracted("B N M", "M K", (0, 1, 2), (2, 3), (0, 1, 3)),
    contracted("N M", "B M K", (1, 2), (0, 2, 3), (0, 1, 3)),
    contracted("B N M", "B N K", (0, 1, 2), (0, 1, 3), (2, 3)),
    contracted("B N M", "B N K", (0, 1, 2), (0, 1, 3), (3, 2)),
    contracted("N M B", "B K M", (0, 1, 2), (2, 3, 1), (0, 3)),
    contracted("N M", "N", (0, 1), (0,), (1, 0)),
    contracted("N", "", (0,), (), (0,)),
]

FUNCTIONS = [
    same("matmul", "N M", "M K"),
    same("matmul", "N M", "M"),
    same("matmul", "M", "M K"),
    same("matmul", "M", "M"),
    same("matmul", "B N M", "M K"),
    same("matmul", "N M", "B M K"),
    same("matmul", "B 1 N M", "3 M K"),
    same("matmul", "B N M", "M"),
    same("matmul", "M", "B M K"),
    same("dot", "N M", "M K"),
    same("dot", "N M 2", "3 2 K"),
    same("dot", "N M", ""),
    same("dot", "M", "M"),
    same("vdot", "N M", "N M"),
    same("inner", "N M", "K M"),
    same("inner", "M", ""),
    same("inner", "N 2 M", "M"),
    same("outer", "N", "M"),
    same("outer", "N 2", "M"),
    same("tensordot", "N 2 3", "2 3 M"),
    same("tensordot", "N M 2", "2 M K", kw={"axes": ([1, 2], [1, 0])}),
    same("tensordot", "N M", "K M", kw={"axes": (1, -1)}),
    same("tensordot", "N", "M", kw={"axes": 0}),
    same("kron", "N M", "K 2"),
    same("kron", "N", "K 2"),
    same("cross", "N 3", "N 3"),
    same("cross", "3 N", "3", kw={"axisa": 0, "axisc": 0}),
    same("cross", "B 1 3", "N 3"),
    same("matrix_power", "N N", kw={"n": 3}),
    same("matrix_power", "B N N", kw={"n": 0}, order=0),
    same("matrix_power", "N N", kw={"n": 1}),
    Row(
        "matrix_power -2",
        ("3 3",),
        lambda x: matrix_power(x, -2),
        lambda x: np.linalg.matrix_power(x, -2),
        draw=lambda rng, shapes: [rng.normal(size=(3, 3)) + 4 * np.eye(3)],
    ),
    Row(
        "multi_dot",
        ("N", "N M", "M 50", "50 2", "2 K"),
        lambda *xs: multi_dot(xs),
        lambda *xs: np.linalg.multi_dot(xs),
        order=1,
        tolerance=10,
    ),
]

EINSUMS = [
    summed("ij,jk->ik", "N M", "M K"),
    summed("ij,jk", "N M", "M K"),
    summed("ba", "N M"),
    summed("ii", "N N"),
    summed("ii->i", "N N"),
    summed("iji->j", "N M N"),
    summed("ijij", "N M N M"),
    summed("ij->", "N M"),
    summed("ij->j", "N M"),
    summed("i,i->i", "N", "N"),
    summed("i,i", "N", "N"),
    summed("i,j", "N", "M"),
    summed("i,j->", "N", "M"),
    summed("ij,kj->ik", "N M", "K M"),
    summed("...ij,...jk->...ik", "B N M", "M K"),
    summed("...ij,...jk", "B 1 N M", "3 M K"),
    summed("i...->...i", "N M K"),
    summed("...,...", "N M", "M"),
    summed("i...,i...->...", "N M", "N M"),
    summed("bij,bjk,bkl->il", "B N M", "B M K", "B K N"),
    summed("ij,jk,kl,lm->im", "N M", "M K", "K M", "M N"),
    summed("i,ij,j", "N", "N M", "M"),
    summed("a,b,c->cab", "N", "M", "K"),
    summed("ij,ij,ij->i", "N M", "N M", "N M"),
    summed("Zz,zZ", "N M", "M N"),
    summed(" i j , j -> i ", "N M", "M"),
    summed("ij,jk->ik", "1 M", "M K"),
    summed("ij,ij->ij", "1 M", "N M"),
    Row(
        "einsum by lists",
        ("N M", "M K"),
        lambda a, b: einsum(a, [0, 1], b, [1, 2], [2, 0]),
        lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]),
    ),
    Row(
        "einsum by lists, implicit",
        ("N M", "M K"),
        lambda a, b: einsum(a, [..., 1], b, [1, 2]),
        lambda a, b: np.einsum(a, [..., 1], b, [1, 2]),
    ),
]


@pytest.mark.parametrize("row", [*OPS, *FUNCTIONS, *EINSUMS], ids=str)
def test_row(row):
    check(row)


def test_every_op_has_a_row():
    assert "contract" in ops_in(OPS)


@pytest.mark.parametrize("name", ["matmul", "dot", "vdot", "inner", "outer"])
@pytest.mark.parametrize("kind", ["int64", "float32", "uint8"])
def test_operands_are_promoted(name, kind):
    a, b = np.arange(4).astype(kind), np.arange(4)
    ours = getattr(family, name)(as_tensor(a), as_tensor(b))
    (found,) = evaluate([ours], {})
    wanted = getattr(np, name)(a, b)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def tensor(*shape, dtype=float64):
    return input_(name="x", type=TensorType(dtype, shape), default=None)


TEXTS = [
    (lambda a, b: matmul(a, b), (N, D), (D, K), "a @ b"),
    (lambda a, b: einsum("ji,jk->ik", a, b), (D, N), (D, K), "a.T @ b"),
    (lambda a, b: einsum("ij,kj->ki", a, b), (N, D), (K, D), "b @ a.T"),
    (lambda a, b: matmul(a, b), (N, D), (D,), "a @ b"),
    (lambda a, b: einsum("ji,j->i", a, b), (N, D), (N,), "a.T @ b"),
    (lambda a, b: outer(a, b), (N,), (D,), "np.outer(a, b)"),
    (lambda a, b: dot(a, b), (N,), (N,), "a @ b"),
    (lambda a, b: matmul(a, b), (3, N, D), (3, D, K), "a @ b"),
    (
        lambda a, b: einsum("bij,bkj->bik", a, b),
        (3, N, D),
        (3, K, D),
        "a @ b.swapaxes(-1, -2)",
    ),
    (lambda a, b: tensordot(a, b), (N, 2, 3), (2, 3, K), "np.tensordot(a, b, axes=2)"),
    (
        lambda a, b: einsum("bij,bik->jk", a, b),
        (3, N, D),
        (3, N, K),
        "np.tensordot(a, b, axes=((0, 1), (0, 1)))",
    ),
    (
        lambda a, b: einsum("ij,ij->i", a, b),
        (N, D),
        (N, D),
        'np.einsum("ij,ij->i", a, b)',
    ),
]


@pytest.mark.parametrize("make, a, b, text", TEXTS, ids=[t[3] for t in TEXTS])
def test_text(make, a, b, text):
    product = make(tensor(*a), tensor(*b))
    assert product.op.text(product.node, ["a", "b"]) == text


def test_cheap_pairs_meet_first():
    x, w = tensor(N, D), tensor(D)
    chain = einsum("ij,jk,k->i", x, tensor(D, K), tensor(K))
    assert all(node.out.ndim < 2 for node in ordered([chain]) if node.op is contract)
    chain = multi_dot([x, tensor(D, K), tensor(K)])
    assert all(node.out.ndim < 2 for node in ordered([chain]) if node.op is contract)
    assert matmul(x, w).shape == (N,)


def test_lone_indices_are_summed_first():
    total = einsum("ij,kl->", tensor(N, D), tensor(K, 3))
    assert [t.ndim for t in total.inputs] == [0, 0]
    rows = einsum("ij,jk->i", tensor(N, D), tensor(D, K))
    assert [t.ndim for t in rows.inputs] == [2, 1]


def test_complex_products_have_values():
    a, b = tensor(2, 3, dtype=complex128), tensor(3, dtype=complex128)
    x = np.arange(6.0).reshape(2, 3) * (1 + 2j)
    y = np.array([1, 1j, -2])
    (found,) = evaluate([matmul(a, b)], {a: x, b: y})
    np.testing.assert_allclose(found, x @ y)


ERRORS = [
    (lambda: matmul(tensor(N, D), tensor(K, 2)), "matmul: inner sizes differ: D and K"),
    (lambda: matmul(tensor(2, 3), tensor(4)), "matmul: inner sizes differ: 3 and 4"),
    (lambda: matmul(tensor(2, 3), 2.0), "multiply by a number with *"),
    (
        lambda: matmul(tensor(N, 2, 3), tensor(D, 3, 2)),
        "matmul: batch shapes do not broadcast: N and D",
    ),
    (lambda: dot(tensor(N), tensor(D)), "dot: inner sizes differ: N and D"),
    (lambda: vdot(tensor(2), tensor(3)), "vdot: inner sizes differ"),
    (lambda: inner(tensor(2), tensor(3)), "inner: inner sizes differ"),
    (lambda: tensordot(tensor(2, 3), tensor(2, 3), 1), "inner sizes differ: 3 and 2"),
    (lambda: tensordot(tensor(2), tensor(2), 3), "3 axes of tensors of rank 1 and 1"),
    (lambda: einsum("ij,jk", tensor(2, 3)), "2 operands in the subscripts, 1 given"),
    (lambda: einsum("ij", tensor(3)), "names 2 axes of a tensor of rank 1"),
    (lambda: einsum("i", tensor(2, 3)), "'...' stands for the axes"),
    (lambda: einsum("i->k", tensor(2)), "'k' is in no operand"),
    (lambda: einsum("ij->ii", tensor(2, 2)), "'i' stands twice in the result"),
    (lambda: einsum("i,i", tensor(N), tensor(3)), "sizes of 'i' differ: N and 3"),
    (lambda: einsum("i%", tensor(2, 2)), "'%' in the subscripts"),
    (lambda: einsum("...->", tensor(2, 2)), "the result must have '...'"),
    (lambda: einsum(tensor(2), [99]), "a label must be an int from 0 to 51"),
    (lambda: cross(tensor(N), tensor(3)), "vectors have 2 or 3 elements, found N"),
    (lambda: matrix_power(tensor(2, 3), 2), "expected square matrices"),
    (lambda: matrix_power(tensor(2, 2), 0.5), "the power must be an int"),
    (lambda: multi_dot([tensor(2, 2)]), "two or more"),
    (lambda: multi_dot([tensor(2, 3), tensor(2, 3)]), "inner sizes differ: 3 and 2"),
]


@pytest.mark.parametrize("make, message", ERRORS, ids=[e[1] for e in ERRORS])
def test_errors(make, message):
    with pytest.raises(GradcError) as caught:
        make()
    assert message in str(caught.value)


def test_two_component_cross_products():
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0, 7.0])
    plane, mixed, turned = evaluate(
        [cross(*map(as_tensor, pair)) for pair in ((a, a[::-1]), (a, b), (b, a))], {}
    )
    np.testing.assert_allclose(plane, -3)
    np.testing.assert_allclose(mixed, np.cross([1, 2, 0], b))
    np.testing.assert_allclose(turned, np.cross(b, [1, 2, 0]))


def test_kron_of_numbers_and_matrices():
    (found,) = evaluate([kron(as_tensor(np.eye(2)), 3.0)], {})
    np.testing.assert_array_equal(found, np.eye(2) * 3)

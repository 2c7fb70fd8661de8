"""Tensors made from numbers and sizes."""

from __future__ import annotations

import numpy as np
import pytest
from rows import Row, check

from gradc.errors import GradcError
from gradc.graph import Tensor
from gradc.ops.basic import copy as copy_op
from gradc.ops.basic import input_
from gradc.ops.create import (
    arange,
    array,
    asarray,
    diag_indices,
    empty,
    eye,
    full,
    geomspace,
    identity,
    indices,
    linspace,
    logspace,
    meshgrid,
    one_hot,
    ones,
    tri,
    tril_indices,
    triu_indices,
    vander,
    zeros,
)
from gradc.ops.evaluator import evaluate
from gradc.types import TensorType, bool_, float32, float64, int64, symbol

N = symbol("N")


def values(result, **sizes):
    tensors = list(result) if isinstance(result, tuple) else [result]
    found = evaluate(tensors, {}, sizes)
    return tuple(found) if isinstance(result, tuple) else found[0]


def one_hot_numpy(i, depth):
    return (np.asarray(i)[..., None] == np.arange(depth)).astype(float)


MADE = [
    (zeros((N, 2)), lambda n: np.zeros((n, 2))),
    (zeros(3, "float32"), lambda n: np.zeros(3, np.float32)),
    (zeros((), bool), lambda n: np.zeros((), bool)),
    (ones((2, N), int), lambda n: np.ones((2, n), int)),
    (empty(N), lambda n: np.zeros(n)),
    (full((N, 2), 7), lambda n: np.full((n, 2), 7)),
    (full(2, N), lambda n: np.full(2, n)),
    (full((2, 3), array([1.0, 2.0, 3.0])), lambda n: np.full((2, 3), [1.0, 2.0, 3.0])),
    (eye(N), lambda n: np.eye(n)),
    (eye(3, N, 1, "int64"), lambda n: np.eye(3, n, 1, int)),
    (eye(N, k=-2), lambda n: np.eye(n, k=-2)),
    (identity(2), lambda n: np.identity(2)),
    (tri(N, 3), lambda n: np.tri(n, 3)),
    (tri(3, N, -1, bool), lambda n: np.tri(3, n, -1, bool)),
    (arange(N), lambda n: np.arange(n)),
    (arange(2, N + 3), lambda n: np.arange(2, n + 3)),
    (arange(0, N, 2), lambda n: np.arange(0, n, 2)),
    (arange(N, 0, -1), lambda n: np.arange(n, 0, -1)),
    (arange(N, -1, -2, float), lambda n: np.arange(n, -1, -2, float)),
    (arange(5, 2), lambda n: np.arange(5, 2)),
    (arange(10, 0, -3, "float32"), lambda n: np.arange(10, 0, -3, np.float32)),
    (arange(0.1, 0.95, 0.2), lambda n: np.arange(0.1, 0.95, 0.2)),
    (arange(3.0), lambda n: np.arange(3.0)),
    (linspace(0, 1, N), lambda n: np.linspace(0, 1, n)),
    (linspace(2.0, -1.0, 7), lambda n: np.linspace(2.0, -1.0, 7)),
    (linspace(1, 2, 1), lambda n: np.linspace(1, 2, 1)),
    (linspace(0, 1, 4, endpoint=False), lambda n: np.linspace(0, 1, 4, endpoint=False)),
    (linspace(0, 1, N, endpoint=False), lambda n: np.linspace(0, 1, n, endpoint=False)),
    (linspace(0, 3, 5, dtype=int), lambda n: np.linspace(0, 3, 5, dtype=int)),
    (linspace(0, 1, 3, retstep=True), lambda n: np.linspace(0, 1, 3, retstep=True)),
    (
        linspace(array([0.0, 1.0]), 3, 4, axis=-1),
        lambda n: np.linspace(np.array([0.0, 1.0]), 3, 4, axis=-1),
    ),
    (
        linspace(array([0, 1], dtype="float32"), 3, 4),
        lambda n: np.linspace(np.array([0, 1], np.float32), 3, 4),
    ),
    (indices((2, N)), lambda n: np.indices((2, n))),
    (indices((2, N), sparse=True), lambda n: np.indices((2, n), sparse=True)),
    (indices(()), lambda n: np.indices(())),
    (
        meshgrid(arange(N), arange(2.0), arange(3)),
        lambda n: np.meshgrid(np.arange(n), np.arange(2.0), np.arange(3)),
    ),
    (
        meshgrid(arange(N), arange(2.0), indexing="ij"),
        lambda n: np.meshgrid(np.arange(n), np.arange(2.0), indexing="ij"),
    ),
    (
        meshgrid(arange(N), 5, sparse=True),
        lambda n: np.meshgrid(np.arange(n), 5, sparse=True),
    ),
    (one_hot(array([0, 2, 7, -1]), N), lambda n: one_hot_numpy([0, 2, 7, -1], n)),
    (one_hot(1, 3), lambda n: one_hot_numpy(1, 3)),
    (tril_indices(4), lambda n: np.tril_indices(4)),
    (triu_indices(3, 1, 5), lambda n: np.triu_indices(3, 1, 5)),
    (diag_indices(N), lambda n: np.diag_indices(n)),
    (vander(array([1, 2, 3])), lambda n: np.vander([1, 2, 3])),
    (array([[1, 2], [3, 4]]), lambda n: np.array([[1, 2], [3, 4]])),
    (array([1, 2.5]), lambda n: np.array([1, 2.5])),
    (array([True, False]), lambda n: np.array([True, False])),
    (array([1, 2], "float32"), lambda n: np.array([1, 2], np.float32)),
    (array([]), lambda n: np.array([])),
    (array([1j, 2]), lambda n: np.array([1j, 2])),
    (array([[1, N], [N - 1, 0]]), lambda n: np.array([[1, n], [n - 1, 0]])),
    (asarray([1, 2]), lambda n: np.array([1, 2])),
]


@pytest.mark.parametrize("k", range(len(MADE)))
@pytest.mark.parametrize("n", [0, 1, 4])
def test_made(k, n):
    ours, numpy = MADE[k]
    found, wanted = values(ours, N=n), numpy(n)
    assert isinstance(found, tuple) == isinstance(wanted, tuple | list)
    pairs = (
        [(found, wanted)]
        if not isinstance(found, tuple)
        else zip(found, wanted, strict=True)
    )
    for f, w in pairs:
        assert f.dtype == np.asarray(w).dtype
        np.testing.assert_allclose(f, w, rtol=1e-15, atol=1e-16)


ROWS = [
    Row(
        "array of numbers and tensors",
        ("", ""),
        lambda a, b: array([[a, b, 1], [0, a, 2.5]]),
        lambda a, b: np.array([[a, b, 1], [0, a, 2.5]], a.dtype),
    ),
    Row(
        "array of vectors",
        ("N", "N"),
        lambda a, b: array([a, b]),
        lambda a, b: np.array([a, b]),
    ),
    Row(
        "full",
        ("M",),
        lambda a: full((3, a.shape[0]), a),
        lambda a: np.full((3, len(a)), a),
    ),
    Row(
        "linspace",
        ("M", ""),
        lambda a, b: linspace(a, b, 4),
        lambda a, b: np.linspace(a, b, 4, dtype=a.dtype),
    ),
    Row(
        "meshgrid",
        ("N", "M"),
        lambda a, b: meshgrid(a, b),
        lambda a, b: tuple(np.meshgrid(a, b)),
    ),
    Row(
        "vander",
        ("N",),
        lambda a: vander(a, 3),
        lambda a: np.vander(a, 3).astype(a.dtype),
    ),
    Row(
        "vander increasing",
        ("3",),
        lambda a: vander(a, increasing=True),
        lambda a: np.vander(a, increasing=True).astype(a.dtype),
    ),
    Row(
        "logspace",
        ("M", ""),
        lambda a, b: (
            logspace(a, b, 4),
            logspace(a, b, 3, endpoint=False, base=b + 5.0, axis=-1),
        ),
        lambda a, b: (
            np.logspace(a, b, 4, dtype=a.dtype),
            np.logspace(a, b, 3, False, base=b + 5, axis=-1, dtype=a.dtype),
        ),
        tolerance=10,
    ),
    Row(
        "geomspace",
        ("M", ""),
        lambda a, b: (
            geomspace(a, b, 4),
            geomspace(-b, -a, 3, endpoint=False, axis=1),
        ),
        lambda a, b: (
            np.geomspace(a, b, 4, dtype=a.dtype),
            np.geomspace(-b, -a, 3, False, axis=1, dtype=a.dtype),
        ),
        draw=lambda rng, shapes: [rng.uniform(0.5, 2, size=s) for s in shapes],
    ),
    Row("copy of array", ("N",), lambda a: array(a), lambda a: np.array(a)),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row):
    check(row)


def tensor(*shape, dtype=float64):
    return input_(name="x", type=TensorType(dtype, shape), default=None)


def test_asarray_keeps_a_tensor_and_array_copies_it():
    x = tensor(3)
    assert asarray(x) is x
    copy = array(x)
    assert isinstance(copy, Tensor)
    assert copy is not x
    assert asarray(x, float32).dtype == float32


def test_numbers_that_grow_by_one_factor():
    found = values(geomspace(1e-300, 1e300, N), N=7)
    np.testing.assert_allclose(found, [10.0**k for k in range(-300, 301, 100)], 1e-14)
    assert (found[0], found[-1]) == (1e-300, 1e300)
    np.testing.assert_array_equal(
        values(geomspace(1, 1000, 4, dtype=int))[::3], [1, 1000]
    )
    np.testing.assert_array_equal(
        values(logspace(0, 3, 4, base=2, dtype=int)), [1, 2, 4, 8]
    )
    assert np.isnan(values(geomspace(-1.0, tensor_of([2.0]), 3))[1, 0])
    assert values(geomspace(3, 5, 1)).tolist() == [3.0]
    assert values(geomspace(1, 2, 0)).shape == (0,)


def tensor_of(value):
    return copy_op(array(value))


def test_nothing_is_allocated_for_large_sizes():
    assert arange(10**12).shape == (10**12,)
    assert zeros((10**9, 10**9)).shape == (10**9, 10**9)
    assert linspace(0, 1, 10**10).shape == (10**10,)


ERRORS = [
    (lambda: zeros((2, -1)), "negative size -1"),
    (lambda: zeros(2.0), "expected ints and dimensions, found float 2.0"),
    (lambda: zeros((tensor(dtype=int64),)), "found the tensor int64"),
    (lambda: array([[1, 2], [3]]), "array:"),
    (
        lambda: array([[tensor(2)], [tensor(2), tensor(2)]]),
        "rows have different lengths",
    ),
    (lambda: array([tensor(2), tensor(N)]), "entries have shapes (2,) and (N,)"),
    (lambda: array(["a", "b"]), "expected numbers, found str 'a'"),
    (lambda: array([300], "uint8"), "array:"),
    (lambda: arange(0, N, 0.5), "linspace(start, stop, n)"),
    (lambda: arange(tensor()), "found the tensor float64"),
    (lambda: arange(0, 1, 0), "the step is 0"),
    (lambda: tril_indices(N), "the size N is not known"),
    (lambda: one_hot(tensor(2), 3), "expected integers, found float64[2]"),
    (lambda: meshgrid(tensor(2, 2)), "expected vectors"),
    (lambda: meshgrid(tensor(2), indexing="yx"), "found 'yx'"),
    (lambda: vander(tensor(2, 2)), "expected a vector"),
    (lambda: geomspace(0, 1), "an end is 0"),
    (lambda: geomspace(1j, 1), "complex"),
    (lambda: one_hot(tensor(2, dtype=bool_), 3), "expected integers"),
]


@pytest.mark.parametrize(
    "make, message", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, message):
    with pytest.raises(GradcError) as caught:
        make()
    assert message in str(caught.value)

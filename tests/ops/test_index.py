"""Gather and scatter, and what may stand in brackets."""

from __future__ import annotations

import numpy as np
import pytest
from rows import Row, check, ops_in

from gradc.errors import GradcError
from gradc.graph import Data
from gradc.ops.basic import constant, dim, input_
from gradc.ops.create import arange, array
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.ops.index import (
    choose,
    compress,
    gather,
    index,
    index_add,
    index_update,
    put_along_axis,
    scatter_add,
    scatter_set,
    slice_key,
    take,
    take_along_axis,
)
from gradc.ops.keys import index_constant
from gradc.types import TensorType, bool_, dim_text, float64, int64, symbol

N, M = symbol("N"), symbol("M")
I = np.array([2, 0, 2])
J = np.array([[1], [-1]])


def T(value):
    """Indices as a constant."""
    return index_constant(np.asarray(value))


def scattered(shape, key, updates):
    out = np.zeros(shape)
    np.add.at(out, key, updates)
    return out


def written(x, key, v):
    out = x.copy()
    out[key] = v
    return out


def added(x, key, v):
    out = x.copy()
    np.add.at(out, key, v)
    return out


OPS = [
    Row(
        "gather in front",
        ("N M",),
        lambda x: gather(x, T(I), axes=(0,), at=0),
        lambda x: x[I],
        zero=False,
    ),
    Row(
        "gather in the middle",
        ("M N 2",),
        lambda x: gather(x, T(J), axes=(1,), at=1),
        lambda x: x[:, J],
        zero=False,
    ),
    Row(
        "gather of two axes",
        ("N M 2 3",),
        lambda x: gather(x, T([0, 1]), T([1, 0]), axes=(0, 2), at=0),
        lambda x: x[[0, 1], :, [1, 0]],
        zero=False,
    ),
    Row(
        "gather put at another place",
        ("N 3 M",),
        lambda x: gather(x, T(J), axes=(1,), at=2),
        lambda x: np.moveaxis(x[:, J], (1, 2), (2, 3)),
        zero=False,
    ),
    Row(
        "gather with one index",
        ("N M",),
        lambda x: gather(x, T(-1), axes=(1,), at=0),
        lambda x: x[:, -1],
        zero=False,
    ),
    Row(
        "scatter_add",
        ("M 3",),
        lambda u: scatter_add(u, T(I), shape=(u.shape[0], 4), axes=(1,), at=1),
        lambda u: scattered((len(u), 4), np.s_[:, I], u),
        dtypes=(float64,),
    ),
    Row(
        "scatter_set of distinct places",
        ("N M", "M 2"),
        lambda x, u: scatter_set(x, u, T([2, 0]), axes=(0,), at=1),
        lambda x, u: written(x, [2, 0], u.T),
        zero=False,
    ),
    Row(
        "scatter_set of places that repeat",
        ("N M", "3 M"),
        lambda x, u: scatter_set(x, u, T(I), axes=(0,), at=0),
        lambda x, u: written(x, I, u),
        zero=False,
    ),
    Row(
        "scatter_set of places that repeat behind",
        ("M N 2", "M 3 2"),
        lambda x, u: scatter_set(x, u, T([1, -3, 1]), axes=(1,), at=1),
        lambda x, u: written(x, np.s_[:, [1, 1, 1]], u),
        zero=False,
    ),
]


@pytest.mark.parametrize("row", OPS, ids=str)
def test_op(row):
    check(row)


def test_every_op_has_a_row():
    assert {"gather", "scatter_add", "scatter_set"} <= ops_in(OPS)


KEYS = [
    np.s_[1],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::2],
    np.s_[1::2],
    np.s_[::-1],
    np.s_[::-2],
    np.s_[3:0:-2],
    np.s_[-2::-1],
    np.s_[..., 1],
    np.s_[:, None, 1],
    np.s_[None],
    np.s_[...],
    np.s_[1, 2, 0],
    np.s_[1, ..., None, -1],
    np.s_[[0, 2, 2]],
    np.s_[:, [0, 1], [1, 2]],
    np.s_[[0, 1], :, [1, 2]],
    np.s_[0, :, [1, 2]],
    np.s_[:, 0, [1, 2]],
    np.s_[:, [[0], [1]], None, [1, 2]],
    np.s_[:, [[0], [1]], [1, 2], None],
    np.s_[[0, 1], None, :, 1:],
    np.s_[::-1, [1, 1], 2],
    np.s_[[-1, 0], ::-1, 0],
    np.s_[:-1],
    np.s_[-2:],
    np.s_[1:-1, 1:-1],
    np.s_[np.array(2)],
    np.s_[..., np.array([[True, False, True]] * 4)],
    np.s_[:, np.array([True, False, False, True]), 1],
    np.s_[:, [True, False, False, True], 1:],
    np.s_[..., :0],
]
STATIC = [
    np.s_[np.array([True, False, True, False, True])],
    np.s_[10:],
    np.s_[-20:2],
    np.s_[4:1],
    np.s_[-1:0:-3],
    np.s_[20::-2],
    np.s_[1:1],
    np.s_[[]],
]
CASES = [("N", key) for key in KEYS] + [("5", key) for key in KEYS + STATIC]


@pytest.mark.parametrize("n, key", CASES, ids=str)
def test_brackets(n, key, monkeypatch):
    """Every key means what NumPy means, in reading, writing and adding."""
    monkeypatch.setitem(__import__("rows").SIZES, "N", 5)
    row = Row(
        "read",
        (f"{n} 4 3",),
        lambda x: apply("copy", index(x, key)),
        lambda x: x[key],
        zero=False,
        static=n == "5",
    )
    check(row)
    for name, build, numpy in (
        ("update", index_update, written),
        ("add", index_add, added),
    ):
        row = Row(
            name,
            (f"{n} 4 3", ""),
            lambda x, v, build=build: build(x, key, v),
            lambda x, v, numpy=numpy: numpy(x, key, v),
            zero=False,
            static=n == "5",
            order=1,
        )
        check(row)


ROWS = [
    Row(
        "update by a tensor",
        ("4 M", "2 M"),
        lambda x, v: index_update(x, np.s_[1::2], v),
        lambda x, v: written(x, np.s_[1::2], v),
    ),
    Row(
        "update a row backwards",
        ("N 4", "4"),
        lambda x, v: index_update(x, np.s_[-1, ::-1], v),
        lambda x, v: written(x, np.s_[-1, ::-1], v),
        zero=False,
    ),
    Row(
        "update all",
        ("N M", "M"),
        lambda x, v: index_update(x, ..., v),
        lambda x, v: written(x, ..., v),
    ),
    Row(
        "add where indices repeat",
        ("4 M", "3 M"),
        lambda x, v: index_add(x, ([1, 1, 0],), v),
        lambda x, v: added(x, [1, 1, 0], v),
    ),
    Row(
        "add to a part, with indices",
        ("N 5 2", "N 2 2"),
        lambda x, v: index_add(x, np.s_[:, 1:3, [0, 0]], v),
        lambda x, v: added(x, np.s_[:, 1:3, [0, 0]], v),
    ),
    Row(
        "take",
        ("N M",),
        lambda x: take(x, T([[1, 0]]), axis=1),
        lambda x: np.take(x, [[1, 0]], axis=1),
        zero=False,
    ),
    Row(
        "take of the raveled",
        ("N M",),
        lambda x: take(x, T([5, -1])),
        lambda x: np.take(x, [5, -1]),
        zero=False,
    ),
    Row(
        "take clip",
        ("N M",),
        lambda x: take(x, T([-7, 1, 9]), axis=0, mode="clip"),
        lambda x: np.take(x, [-7, 1, 9], axis=0, mode="clip"),
        zero=False,
    ),
    Row(
        "take wrap",
        ("N M",),
        lambda x: take(x, T([-7, 1, 9]), axis=0, mode="wrap"),
        lambda x: np.take(x, [-7, 1, 9], axis=0, mode="wrap"),
        zero=False,
    ),
    Row(
        "take a number",
        ("N M",),
        lambda x: take(x, 2, axis=1),
        lambda x: np.take(x, 2, axis=1),
        zero=False,
    ),
    Row(
        "take_along_axis",
        ("3 M",),
        lambda x: take_along_axis(x, T([[1, 0], [0, 0], [2, 1]]), axis=1),
        lambda x: np.take_along_axis(x, np.array([[1, 0], [0, 0], [2, 1]]), axis=1),
        zero=False,
    ),
    Row(
        "take_along_axis that broadcasts",
        ("1 M",),
        lambda x: take_along_axis(x, T([[1, 0], [0, 0], [2, 1]]), axis=1),
        lambda x: np.take_along_axis(x, np.array([[1, 0], [0, 0], [2, 1]]), axis=1),
        zero=False,
    ),
    Row(
        "put_along_axis",
        ("2 M", "2 1"),
        lambda x, v: put_along_axis(x, T([[1], [0]]), v, axis=1),
        lambda x, v: written(x, ([0, 1], [1, 0]), v[:, 0]),
        zero=False,
    ),
    *(
        Row(
            f"choose {mode}",
            ("M", "2 1", "N M"),
            lambda x, y, z, mode=mode, k=k: (
                choose(T([[1], [k]]), [x, y], mode),
                choose(T(1), [z, x], mode),
                choose(T([0, 1, k]), array([[7, 8, 9], [4, 5, 6]]), mode),
            ),
            lambda x, y, z, mode=mode, k=k: (
                np.choose(np.array([[1], [k]]), [x, y], mode=mode),
                np.choose(np.array(1), [z, x + z * 0], mode=mode),
                np.choose([0, 1, k], [[7, 8, 9], [4, 5, 6]], mode=mode),
            ),
            zero=False,
        )
        for mode, k in (("raise", 0), ("clip", -3), ("wrap", 5))
    ),
    Row(
        "compress",
        ("N 3",),
        lambda x: compress([True, False, True], x, axis=1),
        lambda x: np.compress([True, False, True], x, axis=1),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_function(row):
    check(row)


def tensor(*shape, dtype=float64, name="x"):
    return input_(name=name, type=TensorType(dtype, shape), default=None)


def test_indices_that_are_inputs():
    x, i, j = tensor(N, M), tensor(3, dtype=int64), tensor(2, 1, dtype=int64)
    a = np.arange(12.0).reshape(3, 4)
    feeds = {x: a, i: [0, -1, 2], j: [[1], [-4]]}
    rows, both, one = evaluate(
        [index(x, i), index(x, (i, j)), index(x, (index(i, 1), slice(1, None)))], feeds
    )
    np.testing.assert_array_equal(rows, a[[0, -1, 2]])
    np.testing.assert_array_equal(both, a[[0, -1, 2], [[1], [-4]]])
    np.testing.assert_array_equal(one, a[-1, 1:])
    with pytest.raises(IndexError):
        evaluate([index(x, i)], {**feeds, i: [0, 3, 1]})


def test_small_integers_index_too():
    x, i = tensor(N), tensor(2, dtype=bool_)
    small = apply("astype", i, "uint8")
    (found,) = evaluate([index(x, small)], {x: [4.0, 5.0], i: [True, False]})
    np.testing.assert_array_equal(found, [5, 4])


def test_the_last_of_repeated_updates_stands():
    x, i = tensor(3), tensor(4, dtype=int64)
    y = index_update(x, i, array([1.0, 2.0, 3.0, 4.0]))
    (found,) = evaluate([y], {x: np.zeros(3), i: [0, 2, 0, -1]})
    np.testing.assert_array_equal(found, [3, 0, 4])


def test_dimensions_index():
    x = tensor(N, M)
    last, back = index(x, (N - 1, slice(None, M - 1))), index(x, -N)
    also = index(x, dim(value=N - 1, dtype=int64, weak=True))
    assert dim_text(last.shape[0]) == "M - 1"
    a = np.arange(6.0).reshape(2, 3)
    one, two, three = evaluate([last, back, also], {x: a})
    np.testing.assert_array_equal(one, a[1, :2])
    np.testing.assert_array_equal(two, a[0])
    np.testing.assert_array_equal(three, a[1])


def test_a_mask_made_of_constants():
    x = tensor(5, N)
    kept = index(x, apply("greater", arange(5), 2))
    assert kept.shape == (2, N)


def test_all_of_a_tensor_is_that_tensor():
    x = tensor(N, M)
    for key in (..., (), np.s_[:], np.s_[:, :], np.s_[0:N, :M], np.s_[: N + 1]):
        assert index(x, key) is x


def test_slices_as_values():
    assert slice_key(3) == slice(3)
    assert slice_key(1, None, 2) == slice(1, None, 2)


def key_error(key, *shape):
    return lambda: index(tensor(*shape), key)


ERRORS = [
    (key_error(3, 3), "index 3 is out of bounds for axis 0 with size 3"),
    (key_error(-4, 3), "index -4 is out of bounds for axis 0 with size 3"),
    (key_error(N, N), "index N is out of bounds for axis 0 with size N"),
    (key_error((0, [1, 5]), 2, 3), "index 5 is out of bounds for axis 1 with size 3"),
    (key_error((0, 0), 3), "too many indices: 2 for a tensor of rank 1"),
    (key_error((..., ...), 3, 3), "'...' may stand in brackets once"),
    (key_error(1.0, 3), "found float 1.0"),
    (key_error(True, 3), "a single bool in brackets"),
    (
        key_error(slice(None, None, 0), 3),
        "the step of a slice must be an int and not 0",
    ),
    (key_error(slice(0, 1.5), 3), "a bound of a slice must be known"),
    (
        key_error(np.array([True, False]), 3),
        "a mask of shape (2,) for axes of shape (3,)",
    ),
    (key_error(([0, 1], [0, 1, 2]), 3, 3), "do not broadcast"),
    (
        lambda: index(tensor(3), tensor(3, dtype=bool_)),
        "where(mask, x, 0) keeps the shape",
    ),
    (lambda: index(tensor(3), tensor(3)), "found a tensor float64[3]"),
    (lambda: index(tensor(3), slice(0, tensor(dtype=int64))), "x[i + arange(n)]"),
    (
        lambda: index_update(tensor(3), 0, tensor(2)),
        "a value of shape (2,) does not fit",
    ),
    (
        lambda: index_add(tensor(3, dtype=int64), 0, 0.5),
        "a value of float64 does not go into a tensor of int64",
    ),
    (lambda: take(tensor(3), 0, mode="nearest"), "found mode 'nearest'"),
    (lambda: take(tensor(3), 4), "index 4 is out of bounds"),
    (
        lambda: take_along_axis(tensor(3), tensor(2, 2, dtype=int64)),
        "rank 2 for a tensor of rank 1",
    ),
    (lambda: compress(tensor(3, dtype=bool_), tensor(3)), "where(mask, x, 0)"),
]


@pytest.mark.parametrize(
    "make, message", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, message):
    with pytest.raises(GradcError) as caught:
        make()
    assert message in str(caught.value)


def test_what_an_index_requires():
    third = index(tensor(N), 2)
    requires = [d for n in third.node.inputs for d in n.op.requires(n.node)]
    assert [dim_text(d) for d in requires] == ["N - 3"]


def test_constants_as_indices_are_checked():
    i = constant(value=Data(np.array([0, 7])), weak=False)
    with pytest.raises(GradcError, match="index 7 is out of bounds"):
        index(tensor(3), i)

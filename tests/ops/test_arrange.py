"""Slices, joins, repeats, pads and diagonals: the ops of shape.py and the functions over them."""

from __future__ import annotations

import numpy as np
import pytest
from rows import Row, check, ops_in

from gradc.errors import GradcError
from gradc.graph import Data
from gradc.ops import arrange
from gradc.ops.arrange import (
    array_split,
    astype,
    block,
    broadcast_to,
    concatenate,
    diag,
    diagonal,
    flatten,
    flip,
    moveaxis,
    pad,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    transpose,
    tril,
)
from gradc.ops.basic import constant, input_
from gradc.ops.evaluator import evaluate
from gradc.ops.shape import (
    concatenate_op,
    diagonal_op,
    embed,
    embed_diagonal,
    flip_op,
    slice_along,
    slice_op,
    update_slice,
)
from gradc.types import (
    TensorType,
    dim_text,
    float64,
    int64,
    substitute,
    symbol,
)

N = symbol("N")


def embedded(x: np.ndarray, size: int, start: int, step: int, fill: float = 0.0):
    out = np.full((size, *x.shape[1:]), fill, x.dtype)
    out[start : start + step * len(x) : step][: len(x)] = x
    return out


def updated(x: np.ndarray, v: np.ndarray, key) -> np.ndarray:
    out = x.copy()
    out[key] = v
    return out


OPS = [
    Row(
        "slice",
        ("N M",),
        lambda x: slice_op(x, start=(1, 0), stop=x.shape, step=(2, 1)),
        lambda x: x[1::2],
    ),
    Row(
        "slice inside",
        ("N M",),
        lambda x: slice_op(x, start=(1, 1), stop=(3, 2), step=(1, 1)),
        lambda x: x[1:3, 1:2],
        zero=False,
    ),
    Row(
        "embed",
        ("N M",),
        lambda x: embed(
            x, shape=(x.shape[0] + 3, x.shape[1]), start=(1, 0), step=(1, 1)
        ),
        lambda x: np.pad(x, ((1, 2), (0, 0))),
    ),
    Row(
        "embed with steps",
        ("N",),
        lambda x: embed(x, shape=(3 * x.shape[0] + 2,), start=(1,), step=(3,)),
        lambda x: embedded(x, 3 * len(x) + 2, 1, 3),
    ),
    Row(
        "embed in infinities",
        ("N",),
        lambda x: embed(
            x, shape=(2 * x.shape[0],), start=(0,), step=(2,), fill=-np.inf
        ),
        lambda x: embedded(x, 2 * len(x), 0, 2, -np.inf),
        order=0,
    ),
    Row(
        "update_slice",
        ("N 3", "1 3"),
        lambda x, v: update_slice(x, v, start=(2, 0), step=(1, 1)),
        lambda x, v: updated(x, v, np.s_[2:3]),
        zero=False,
    ),
    Row(
        "update_slice with steps",
        ("N 4", "2 2"),
        lambda x, v: update_slice(x, v, start=(1, 0), step=(2, 3)),
        lambda x, v: updated(x, v, np.s_[1::2, ::3]),
        zero=False,
    ),
    Row("flip", ("N M",), lambda x: flip_op(x, axes=(1,)), lambda x: x[:, ::-1]),
    Row(
        "concatenate",
        ("N M", "N K", "N M"),
        lambda x, y, z: concatenate_op(x, y, z, axis=1),
        lambda x, y, z: np.concatenate([x, y, z], axis=1),
    ),
    Row(
        "diagonal",
        ("B N N",),
        lambda x: diagonal_op(x, offset=0),
        lambda x: np.diagonal(x, 0, -2, -1),
    ),
    Row(
        "diagonal of a wide matrix",
        ("3 5",),
        lambda x: diagonal_op(x, offset=1),
        lambda x: np.diagonal(x, 1),
    ),
    Row(
        "embed_diagonal",
        ("B N",),
        lambda x: embed_diagonal(x, shape=(x.shape[1] + 1, x.shape[1] + 1), offset=-1),
        lambda x: (
            np.eye(x.shape[1] + 1, x.shape[1], -1)
            * x[:, None, :]
            @ np.eye(x.shape[1], x.shape[1] + 1)
        ),
        dtypes=(float64,),
    ),
]


def same(name: str, *shapes: str, numpy=None, **options) -> Row:
    """A row for a function that is called like NumPy's of its name."""
    positional = options.pop("args", ())
    keywords = options.pop("kw", {})
    ours = getattr(arrange, name)
    theirs = numpy or getattr(np, name)
    return Row(
        " ".join(
            [name, *map(str, positional), *(f"{k}={v}" for k, v in keywords.items())]
        ),
        shapes,
        lambda *xs: ours(*xs, *positional, **keywords),
        lambda *xs: theirs(*xs, *positional, **keywords),
        **options,
    )


def joined(name: str, *shapes: str, **options) -> Row:
    """A row for a function of a sequence of tensors."""
    keywords = options.pop("kw", {})
    ours, theirs = getattr(arrange, name), getattr(np, name)
    return Row(
        f"{name} {' '.join(shapes)} {keywords}",
        shapes,
        lambda *xs: ours(xs, **keywords),
        lambda *xs: theirs(xs, **keywords),
        **options,
    )


FUNCTIONS = [
    same("reshape", "4 6", args=((2, -1, 3),), zero=False),
    Row(
        "reshape of symbols",
        ("N M 2",),
        lambda x: reshape(x, (-1, x.shape[1])),
        lambda x: x.reshape(2 * len(x), x.shape[1]),
    ),
    same("ravel", "N M"),
    Row("flatten", ("N M",), lambda x: flatten(x), lambda x: x.flatten()),
    same("transpose", "N M 2"),
    same("transpose", "N M 2", args=((1, 2, 0),)),
    Row(
        "transpose by ints",
        ("N M 2",),
        lambda x: transpose(x, 2, 0, 1),
        lambda x: x.transpose(2, 0, 1),
    ),
    same("swapaxes", "N M 2", args=(0, -1)),
    same("matrix_transpose", "N M 2"),
    same("moveaxis", "N M 2", args=(0, -1)),
    same("moveaxis", "N M 2 3", args=((0, 2), (3, 0))),
    same("rollaxis", "N M 2", args=(2,)),
    same("rollaxis", "N M 2", args=(0, 2)),
    same("expand_dims", "N M", args=((0, -1),)),
    same("squeeze", "1 N 1"),
    same("squeeze", "1 N 1", args=(-1,)),
    Row(
        "broadcast_to",
        ("1 M",),
        lambda x: broadcast_to(x, (3, 2, x.shape[1])),
        lambda x: np.broadcast_to(x, (3, 2, x.shape[1])),
    ),
    same("broadcast_arrays", "N 1", "M"),
    same("atleast_1d", "", "N", zero=False),
    same("atleast_2d", "N"),
    same("atleast_3d", "N"),
    same("atleast_3d", "N M"),
    joined("concatenate", "N M", "K M"),
    joined("concatenate", "N M", "K M", kw={"axis": None}),
    joined("stack", "N M", "N M", kw={"axis": -1}),
    joined("vstack", "M", "N M"),
    joined("hstack", "N", "M"),
    joined("hstack", "N M", "N K"),
    joined("dstack", "N M", "N M"),
    joined("column_stack", "N", "N M"),
    Row(
        "block",
        ("N M", "N K", "K M", "K K"),
        lambda a, b, c, d: block([[a, b], [c, d]]),
        lambda a, b, c, d: np.block([[a, b], [c, d]]),
    ),
    same("append", "N", "M K"),
    same("append", "N M", "K M", kw={"axis": 0}),
    same("split", "6 N", args=(3,), zero=False),
    same("split", "6 N", args=([1, 4],), zero=False),
    same("split", "N 4", args=(2,), kw={"axis": 1}),
    same("split", "5", args=([3, 2, 9, -1],)),
    same("array_split", "N M", args=(3,)),
    same("array_split", "7", args=(3,)),
    same("vsplit", "4 N", args=(2,)),
    same("hsplit", "N 4", args=(2,)),
    same("dsplit", "N 1 4", args=([1],)),
    same("flip", "N M"),
    same("flip", "N M", args=(0,)),
    same("fliplr", "N M"),
    same("flipud", "N M"),
    same("roll", "N M", args=(1, 0), zero=False),
    same("roll", "N M", args=(-1,), zero=False),
    same("roll", "5 3", args=((7, -1), (0, 1))),
    *[same("rot90", "N M", args=(k,)) for k in (0, 1, 2, 3, -1)],
    same("rot90", "N M 2", args=(1, (2, 0))),
    same("repeat", "N M", args=(3,)),
    same("repeat", "N M", args=(2, 1)),
    same("repeat", "3 N", args=([2, 0, 1], 0)),
    same("tile", "N M", args=((2, 1, 3),)),
    same("tile", "N M", args=(2,)),
    same("pad", "N M", args=(1,)),
    same("pad", "N M", args=(((1, 2), (0, 3)),), kw={"constant_values": 7.0}),
    same(
        "pad", "N M", args=((1, 2),), kw={"constant_values": ((1.0, 2.0), (3.0, 4.0))}
    ),
    *[
        same("pad", "N M", args=(((1, 2), (2, 0)), mode), zero=False)
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ],
    *[
        same("pad", "3", args=((5, 7), mode))
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ],
    *[
        same("pad", "1 N", args=(((2, 3), (0, 0)), mode))
        for mode in ("edge", "reflect", "symmetric", "wrap")
    ],
    same("diagonal", "N N 2"),
    same("diagonal", "2 5 3", args=(-1, 2, 1)),
    same("diag", "N", args=(1,)),
    same("diag", "N N"),
    same("diagflat", "N M"),
    same("trace", "N N 2", numpy=np.trace),
    same("tril", "N M"),
    same("tril", "B N M", args=(-1,)),
    same("tril", "N M", args=(-2,)),
    same("triu", "N M", args=(1,)),
    same("tril", "M"),
]


@pytest.mark.parametrize("row", [*OPS, *FUNCTIONS], ids=str)
def test_row(row):
    check(row)


INTEGER_ROWS = [
    joined("concatenate", "N M", "K M", dtypes=(int64,)),
    same("trace", "N N", dtypes=(int64,)),
    same("tril", "N N", dtypes=(int64,)),
    same("pad", "N", args=(2,), dtypes=(int64,)),
    same("diag", "N", dtypes=(int64,)),
]


@pytest.mark.parametrize("row", INTEGER_ROWS, ids=str)
def test_integers(row):
    check(row)


def test_every_op_has_a_row():
    assert {
        "slice",
        "embed",
        "update_slice",
        "flip",
        "concatenate",
        "diagonal",
        "embed_diagonal",
    } <= ops_in(OPS)


def test_nan_above_the_diagonal_stays_out():
    x = constant(value=Data(np.array([[1.0, np.nan], [2.0, 3.0]])), weak=False)
    (found,) = evaluate([tril(x)], {})
    np.testing.assert_array_equal(found, [[1, 0], [2, 3]])


def test_nothing_is_allocated_for_large_pads_and_repeats():
    x = tensor(3)
    assert pad(x, 10**10, "reflect").shape == (2 * 10**10 + 3,)
    assert repeat(x, [10**10, 0, 1]).shape == (10**10 + 1,)
    with pytest.raises(GradcError, match="at most|from 1 to"):
        split(tensor(10**9), 10**9)


def test_deep_lists_need_no_stack():
    deep = [1.0]
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(GradcError, match="deeper than 64"):
        block(deep)


def tensor(*shape, dtype=float64):
    return input_(name="x", type=TensorType(dtype, shape), default=None)


def test_symbolic_lengths_are_exact():
    x = tensor(N)
    odd = slice_along(x, 0, 1, None, 2)
    even = slice_along(x, 0, 0, None, 2)
    assert dim_text(odd.shape[0]) == "N // 2"
    assert [substitute(even.shape[0], {"N": n}) for n in range(5)] == [0, 1, 1, 2, 2]
    parts = array_split(x, 3)
    lengths = [[substitute(p.shape[0], {"N": n}) for p in parts] for n in (0, 1, 7, 8)]
    assert lengths == [
        [len(p) for p in np.array_split(np.zeros(n), 3)] for n in (0, 1, 7, 8)
    ]


def test_what_a_slice_requires():
    (short,) = slice_along(tensor(N), 0, 1).node.op.requires(
        slice_along(tensor(N), 0, 1).node
    )
    assert dim_text(short) == "N - 1"
    whole = slice_along(tensor(N), 0, 1, None, 2)
    assert not whole.op.requires(whole.node)


ERRORS = [
    (
        lambda: reshape(tensor(N, 3), (N, 4)),
        "reshape: (N, 3) has 3 * N elements, (N, 4) has 4 * N",
    ),
    (lambda: reshape(tensor(5), (-1, 2)), "which 2 does not divide"),
    (lambda: reshape(tensor(5), (-1, -1)), "only one size may be -1"),
    (
        lambda: reshape(tensor(4), (2.0, 2)),
        "expected ints and dimensions, found float 2.0",
    ),
    (lambda: transpose(tensor(2, 3), (0, 0)), "axes (0, 0) are no order of the 2 axes"),
    (
        lambda: concatenate([tensor(2, N), tensor(2, 3)]),
        "sizes differ along axis 1: N and 3",
    ),
    (lambda: concatenate([]), "there is nothing to join"),
    (lambda: concatenate([1.0, 2.0]), "numbers have no axis"),
    (lambda: stack([tensor(2), tensor(N)]), "stack: shapes differ: (2,) and (N,)"),
    (lambda: split(tensor(N), 2), "2 equal parts of an axis of length N"),
    (lambda: split(tensor(4), N), "the number of parts must be an int from 1"),
    (lambda: squeeze(tensor(2, N), 1), "axis 1 of (2, N) has length N, not 1"),
    (lambda: pad(tensor(2), 1, "mean"), "found 'mean'"),
    (lambda: pad(tensor(2), ((1, 2), (3, 4))), "a pair for each of 1 axes"),
    (lambda: pad(tensor(2), -1), "negative size -1"),
    (lambda: diagonal(tensor(N, symbol("M"))), "has no known length"),
    (lambda: diag(tensor(2, 2, 2)), "expected a vector or a matrix"),
    (lambda: block([[tensor(2)], tensor(2)]), "nested to different depths"),
    (lambda: astype(tensor(2), "float128"), "expected a dtype"),
    (lambda: flip(tensor(2), 1), "axis 1 is out of bounds"),
    (lambda: repeat(tensor(3), [1, 2]), "2 numbers for an axis of length 3"),
    (lambda: broadcast_to(tensor(2), (N,)), "can't broadcast (2,) to (N,)"),
    (lambda: moveaxis(tensor(2, 3), (0, 0), (0, 1)), "an axis is named twice"),
]


@pytest.mark.parametrize(
    "make, message", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, message):
    with pytest.raises(GradcError) as caught:
        make()
    assert message in str(caught.value)

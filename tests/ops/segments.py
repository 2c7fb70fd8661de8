"""Rows of segments, of extremes at places, and of what is gathered at positions."""

from __future__ import annotations

import numpy as np
from rows import Row

from gradc.ops.functions import lookup_function
from gradc.ops.keys import index_constant as T
from gradc.ops.segment import (
    embedding,
    gather_nd,
    scatter_max,
    scatter_min,
    segment_recurrence,
)
from gradc.types import complex128, int8, int64

IDS = np.array([2, 0, 2, -1, 1, 0])
GRID = np.array([[1, 0, 1], [2, 1, 0]])


def call(name):
    found = lookup_function(name)
    assert found is not None
    return found.call


def apart(rng, shapes):
    """All elements of all inputs differ by an eighth at least."""
    counts = [int(np.prod(s)) for s in shapes]
    values = (rng.permutation(sum(counts)) - sum(counts) / 2 + 0.3) / 8
    parts = np.split(values, np.cumsum(counts)[:-1])
    return [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]


def segments(data, ids, n, combine, start):
    """The data of each segment, combined one after the other."""
    rest = data.shape[ids.ndim :]
    out = np.full((n, *rest), start, data.dtype)
    for place in np.ndindex(ids.shape):
        out[ids[place]] = combine(out[ids[place]], data[place])
    return out


def means(data, ids, n):
    count = np.bincount(ids.ravel() % n, minlength=n)
    total = segments(data, ids, n, np.add, 0)
    shape = (n, *[1] * (total.ndim - 1))
    return total / np.maximum(count, 1).reshape(shape).astype(total.dtype)


def changed(x, key, v, ufunc):
    out = x.copy()
    ufunc.at(out, key, v)
    return out


def stepped(factor, term, ids, n, reverse, start):
    out = np.empty_like(factor)
    states = np.full((n, *factor.shape[1:]), start)
    for i in reversed(range(len(ids))) if reverse else range(len(ids)):
        out[i] = states[ids[i]]
        states[ids[i]] = factor[i] * states[ids[i]] + term[i]
    return out


COMBINED = {
    "segment_sum": (np.add, 0.0),
    "segment_prod": (np.multiply, 1.0),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}

ROWS = [
    *(
        Row(
            f"{name} of rows in {n}",
            ("6 N",),
            lambda x, name=name, n=n: call(name)(x, T(IDS), n),
            lambda x, how=how, n=n: segments(x, IDS, n, *how),
            draw=apart,
        )
        for name, how in COMBINED.items()
        for n in ((4, 6) if np.isfinite(how[1]) else (4,))
    ),
    *(
        Row(
            f"{name} of elements",
            ("2 3",),
            lambda x, name=name, n=n: call(name)(x, T(GRID), n),
            lambda x, how=how, n=n: segments(x, GRID, n, *how),
            draw=apart,
        )
        for name, how in COMBINED.items()
        for n in ((5,) if np.isfinite(how[1]) else (3,))
    ),
    Row(
        "segment_mean",
        ("6 2",),
        lambda x: call("segment_mean")(x, T(IDS), 4),
        lambda x: means(x, IDS, 4),
    ),
    Row(
        "segment_sum of none, into symbolic many",
        ("0 N",),
        lambda x: call("segment_sum")(x, T([]), x.shape[1] + 1),
        lambda x: np.zeros((x.shape[1] + 1, x.shape[1]), x.dtype),
    ),
    *(
        Row(
            f"{name} of small integers",
            ("6",),
            lambda x, name=name: call(name)(x, T(IDS), 4),
            lambda x, how=how: segments(x.astype(how[2]), IDS, 4, *how[:2]),
            dtypes=(int8,),
            order=0,
        )
        for name, how in {
            "segment_sum": (np.add, 0, np.int64),
            "segment_max": (np.maximum, -128, np.int8),
            "segment_min": (np.minimum, 127, np.int8),
        }.items()
    ),
    Row(
        "segment_mean of integers",
        ("6",),
        lambda x: call("segment_mean")(x, T(IDS), 4),
        lambda x: means(x.astype(float), IDS, 4),
        dtypes=(int64,),
        order=0,
    ),
    Row(
        "segment_prod of complex numbers",
        ("6",),
        lambda x: call("real")(call("segment_prod")(x, T(IDS), 4)),
        lambda x: segments(x, IDS, 4, np.multiply, 1).real,
        dtypes=(complex128,),
        order=0,
    ),
    Row(
        "segment_recurrence",
        ("6 N", "6 N"),
        lambda a, b: segment_recurrence(
            a, b, T(IDS % 4), shape=(4,), axis=0, reverse=True, start=0.5
        ),
        lambda a, b: stepped(a, b, IDS % 4, 4, True, 0.5),
        order=3,
    ),
    *(
        Row(
            f"{op.name} over, of two axes",
            ("N 3 M", "M 4"),
            lambda x, u, op=op: op(
                x,
                u,
                T([0, 2, 0, 0]),
                T([1, 1, 1, 2]),
                shape=x.shape,
                axes=(0, 1),
                at=1,
                over=True,
            ),
            lambda x, u, f=f: changed(x, ([0, 2, 0, 0], [1, 1, 1, 2]), u.T, f),
            draw=apart,
            zero=False,
        )
        for op, f in ((scatter_max, np.maximum), (scatter_min, np.minimum))
    ),
    *(
        Row(
            f"{name} at {key}",
            ("4 3", ""),
            lambda x, v, name=name, key=key: call(name)(x, key, v),
            lambda x, v, f=f, key=key: changed(x, key, v, f),
            draw=apart,
        )
        for name, f in (("index_max", np.maximum), ("index_min", np.minimum))
        for key in (np.s_[1:], np.s_[::-2, 1], np.s_[[0, 2, 0]], np.s_[1:, [0, 0]])
    ),
    Row(
        "gather_nd of elements",
        ("N 3",),
        lambda x: gather_nd(x, T([[0, 2], [-1, 0]])),
        lambda x: x[[0, -1], [2, 0]],
        zero=False,
    ),
    Row(
        "gather_nd of rows",
        ("N 3",),
        lambda x: gather_nd(x, T([[[1]], [[1]]])),
        lambda x: x[[[1], [1]]],
        zero=False,
    ),
    Row(
        "gather_nd in a batch",
        ("2 4 3",),
        lambda x: gather_nd(x, T([[[1], [0]], [[3], [3]]]), 1),
        lambda x: np.stack([x[0, [1, 0]], x[1, [3, 3]]]),
    ),
    Row(
        "gather_nd at positions of no numbers",
        ("N",),
        lambda x: gather_nd(x, T(np.zeros((2, 0), int))),
        lambda x: np.stack([x, x]),
    ),
    Row(
        "embedding",
        ("N 3",),
        lambda x: embedding(x, T([[1, 1], [0, -1]])),
        lambda x: x[[[1, 1], [0, -1]]],
        zero=False,
    ),
]

"""Whole-array functions that are copied into the NumPy modules gradc emits.

Each does with two or three statements what NumPy has no expression for. A module gets those it
uses; they call nothing but NumPy and each other.
"""

from typing import Any

import numpy as np


def _embedded(x: Any, shape: Any, key: Any, fill: float = 0) -> Any:
    """x at key of an array of this shape that is fill elsewhere."""
    out = np.full(shape, fill, x.dtype)
    out[key] = x
    return out


def _updated(x: Any, key: Any, v: Any) -> Any:
    """A copy of x with v at key."""
    out = np.array(x)
    out[key] = v
    return out


def _scatter_add(
    shape: Any, updates: Any, indices: Any, axes: Any, at: int, rank: int
) -> Any:
    """Zeros of this shape with the updates added at the indices of some axes.

    The indices' axes (rank of them) stand at position `at` of the updates.
    """
    out = np.zeros(shape, updates.dtype)
    places = np.moveaxis(out, axes, tuple(range(len(axes))))
    first = np.moveaxis(updates, tuple(range(at, at + rank)), tuple(range(rank)))
    np.add.at(places, indices, first)
    return out


def _scatter_set(
    x: Any, updates: Any, indices: Any, axes: Any, at: int, rank: int
) -> Any:
    """A copy of x with the updates written at the indices of some axes."""
    out = np.array(x)
    places = np.moveaxis(out, axes, tuple(range(len(axes))))
    first = np.moveaxis(updates, tuple(range(at, at + rank)), tuple(range(rank)))
    places[indices] = first
    return out


def _cofactor(a: Any) -> Any:
    """The matrix of cofactors of the last two axes, of singular matrices too.

    From a = u diag(s) v: det(u) det(v) u diag(the product of all s but one) v.
    """
    u, s, v = np.linalg.svd(a)
    one = np.ones(s[..., :1].shape, a.dtype)
    before = np.cumprod(np.concatenate((one, s[..., :-1]), axis=-1), axis=-1)
    behind = np.cumprod(np.concatenate((one, s[..., :0:-1]), axis=-1), axis=-1)
    others = before * behind[..., ::-1]
    sign = np.round(np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return sign * (u * others[..., None, :]) @ v

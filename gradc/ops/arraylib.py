"""Whole-array functions that are copied into the NumPy modules gradc emits.

Each does with a few statements what NumPy has no expression for. A module gets those it uses;
they call nothing but NumPy, `math` and each other. They are the ops' meaning here, too.
"""

import math
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


def _fold(y: Any, shape: Any, axes: Any, stride: Any, dilation: Any) -> Any:
    """Zeros of this shape with windows added where they stand; inside them run y's last axes."""
    out = np.zeros(shape, y.dtype)
    for taps in np.ndindex(y.shape[len(shape) :]):
        key = [slice(None)] * len(shape)
        for axis, tap, step, gap in zip(axes, taps, stride, dilation, strict=True):
            first = tap * gap
            last = first + (y.shape[axis] - 1) * step + 1
            key[axis] = slice(first, max(first, last), step)
        out[tuple(key)] += y[(..., *taps)]
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


def _scattered(
    ufunc: Any, x: Any, updates: Any, indices: Any, axes: Any, at: int, rank: int
) -> Any:
    """A copy of x, combined by a ufunc with the updates at the indices of some axes."""
    out = np.array(x)
    places = np.moveaxis(out, axes, tuple(range(len(axes))))
    first = np.moveaxis(updates, tuple(range(at, at + rank)), tuple(range(rank)))
    ufunc.at(places, indices, first)
    return out


def _segment_recurrence(
    factor: Any, term: Any, index: Any, count: int, reverse: bool, start: float
) -> Any:
    """The states of count recurrences s = factor * s + term, each before its step.

    The steps go along axis 0, and index tells which state each of them is of.
    """
    out = np.empty(np.shape(factor), factor.dtype)
    states = np.full((count, *factor.shape[1:]), start, factor.dtype)
    steps = range(len(factor))
    for i in reversed(steps) if reverse else steps:
        out[i] = states[index[i]]
        states[index[i]] = factor[i] * out[i] + term[i]
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


def _spoiled(a: Any) -> Any:
    """Matrices: where an element is NaN, all of that matrix is (and what LAPACK makes of it)."""
    return np.where(np.any(np.isnan(a), axis=(-2, -1), keepdims=True), np.nan, a)


def _solve_triangular(a: Any, b: Any, lower: bool, trans: int, unit: bool) -> Any:
    """x with op(a) @ x = b row by row; op is the identity (trans 0) or the transpose (1).

    The other triangle, and the diagonal where it is of ones (unit), is not read.
    """
    n = a.shape[-1]
    triangle = np.tril(a) if lower else np.triu(a)
    diagonal = np.arange(n)
    if unit:
        triangle[..., diagonal, diagonal] = 1
    elif np.any(triangle[..., diagonal, diagonal] == 0):
        raise np.linalg.LinAlgError("Singular matrix")
    if trans:
        triangle = np.swapaxes(triangle, -1, -2)
    x = np.array(b)
    forward = lower != bool(trans)
    for i in range(n) if forward else range(n - 1, -1, -1):
        known = slice(i) if forward else slice(i + 1, n)
        row = triangle[..., i : i + 1, known] @ x[..., known, :]
        x[..., i, :] = (x[..., i, :] - row[..., 0, :]) / triangle[..., i, i, None]
    return x


def _complex(a: Any, b: Any) -> Any:
    """a + ib, also where a part is infinite."""
    single = np.result_type(a, b) == np.float32
    kind = np.complex64 if single else np.complex128
    out = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), kind)
    out.real, out.imag = a, b
    return out[()]


def _cofactor(a: Any) -> Any:
    """The matrix of cofactors of the last two axes, of singular matrices too.

    From a = u diag(s) v: det(u) det(v) u diag(the product of all s but one) v. Those of a matrix
    with an element that is not finite are NaN.
    """
    finite = np.all(np.isfinite(a), axis=(-2, -1), keepdims=True)
    u, s, v = np.linalg.svd(np.where(finite, a, 0))
    one = np.ones(s[..., :1].shape, a.dtype)
    before = np.cumprod(np.concatenate((one, s[..., :-1]), axis=-1), axis=-1)
    behind = np.cumprod(np.concatenate((one, s[..., :0:-1]), axis=-1), axis=-1)
    others = before * behind[..., ::-1]
    sign = np.round(np.linalg.det(u) * np.linalg.det(v))[..., None, None]
    return np.where(finite, sign * (u * others[..., None, :]) @ v, np.nan)


def _recurrence(factor: Any, term: Any, axis: int, reverse: bool, start: float) -> Any:
    """The states of s = factor * s + term along an axis, each before its step."""
    out = np.empty(np.shape(factor), factor.dtype)
    factors, terms, states = (np.moveaxis(v, axis, 0) for v in (factor, term, out))
    state = np.full(factors.shape[1:], start, factor.dtype)
    steps = range(len(factors))
    for i in reversed(steps) if reverse else steps:
        states[i] = state
        state = factors[i] * state + terms[i]
    return out


def _sorted(x: Any) -> Any:
    """x in ascending order along its last axis, NaN last, and where each element stood."""
    order = np.argsort(x, axis=-1, kind="stable")
    return np.take_along_axis(x, order, -1), order


def _each(function: Any, x: Any) -> Any:
    """A function of a number, of each element."""
    values = [function(value) for value in np.ravel(x).tolist()]
    return np.array(values, np.asarray(x).dtype).reshape(np.shape(x))


def _erf(x: Any) -> Any:
    """The error function."""
    return _each(math.erf, x)


def _erfc(x: Any) -> Any:
    """1 - erf(x)."""
    return _each(math.erfc, x)


def _ndtr(x: Any) -> Any:
    """The distribution function of the standard normal distribution."""
    return 0.5 * _each(math.erfc, -x * math.sqrt(0.5))


def _gammaln(x: Any) -> Any:
    """log |gamma(x)|, inf at 0, -1, -2, ..."""
    pole = (x <= 0) & (np.floor(x) == x)
    found = np.where(pole, np.inf, _each(math.lgamma, np.where(pole, 1, x)))
    return np.where(x == -np.inf, x, found)


def _digamma(x: Any) -> Any:
    """The derivative of log gamma: by reflection, recurrence and its asymptotic series."""
    left = x < 0.5
    z = np.where(left, 1 - x, x)
    total = np.zeros(np.shape(x))
    for _ in range(10):
        low = z < 10
        total = total - np.where(low, 1 / z, 0)
        z = np.where(low, z + 1, z)
    w = 1 / (z * z)
    series = w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w / 132))))
    total = total + np.log(z) - 0.5 / z - series
    part = x - np.floor(x)
    tangent = np.tan(np.pi * part)
    mirrored = total - np.where(part == 0.5, 0, np.pi / tangent)
    found = np.where(left, np.where(part == 0, np.nan, mirrored), total)
    return np.where(x == 0, -np.copysign(np.inf, x), found).astype(np.asarray(x).dtype)


def _polygamma(x: Any, n: Any) -> Any:
    """The derivative number n of digamma: recurrence, then the sum by Euler and Maclaurin."""
    order = int(np.max(n, initial=0))
    power = order + 1
    pole = (x <= 0) & (np.floor(x) == x)
    z = np.where(pole, 1.0, x)
    total = np.zeros(np.shape(x))
    while np.any(z < 10 + order):
        low = z < 10 + order
        total = total + np.where(low, z**-power, 0)
        z = np.where(low, z + 1, z)
    total = total + z**-order / order + 0.5 * z**-power
    lead = power * z ** -(power + 1)
    for k, bernoulli in enumerate((1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66), start=1):
        total = total + lead * (bernoulli / math.factorial(2 * k))
        lead = lead * (power + 2 * k - 1) * (power + 2 * k) / (z * z)
    sign = 1.0 if order % 2 else -1.0
    found = np.where(pole, np.inf, math.factorial(order) * total)
    return (sign * found).astype(np.asarray(x).dtype)

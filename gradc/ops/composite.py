"""Composites: what has a derivative of its own, and is made of primitives after that is taken.

A composite's derivative is written with the same intermediate values as its expansion (the
shifted exponentials of a softmax, the centred values of a variance), so that once both stand in
primitives, equal nodes merge and nothing is computed twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.errors import OptionError, ShapeError, TypeMismatch, UnsupportedError
from gradc.graph import Node, Tensor
from gradc.ops.basic import copy as copy_op
from gradc.ops.basic import iota, pull, reduce_sum, stop_gradient
from gradc.ops.complex import imag, real
from gradc.ops.elementary import exp, hypot, log, power, sqrt
from gradc.ops.elementwise import (
    absolute,
    clip,
    equal,
    filled,
    isfinite,
    less,
    logical_and,
    logical_or,
    maximum,
    mul_no_nan,
    not_equal,
    select,
    truth,
    typed_operands,
)
from gradc.ops.functions import (
    Axes,
    TensorLike,
    as_tensor,
    axes_of,
    axis_of,
    broadcast_to,
    convert,
    function,
    number,
    operands,
    type_of,
)
from gradc.ops.index import gather
from gradc.ops.reduce import (
    count_of,
    kept,
    max_,
    mean,
    min_,
    reduce_max,
    reduce_min,
    restored,
    sum_,
    total,
)
from gradc.ops.registry import FLOATS, Bar, Op, composite
from gradc.ops.special import softplus
from gradc.types import DType, Poly, TensorType, float64, int64

__all__ = ["log_softmax", "logsumexp", "norm", "softmax", "std", "var"]

Axis = tuple[int, ...]


def _float(x: TensorLike) -> Tensor:
    """x as floats with a dtype of their own."""
    (tensor,) = typed_operands(np.exp, x)
    return convert(tensor, tensor.dtype)


# -------------------------------------------------------- sums of exponentials and softmax


def _shifted(x: Tensor, axes: Axis) -> tuple[Tensor, Tensor, Tensor]:
    """The largest element m (0 where it is infinite), exp(x - m), and the sum of those.

    m is a shift that cancels in every result, so it is a constant for the derivative.
    """
    largest = reduce_max(stop_gradient(x), axes=axes, empty=True)
    shift = select(isfinite(largest), largest, 0)
    e = exp(x - restored(shift, x, axes))
    return shift, e, reduce_sum(e, axes=axes)


def _numpy_shifted(x: Any, axes: Axis) -> tuple[Any, Any, Any]:
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0).astype(x.dtype)
    e = np.exp(x - shift)
    return shift, e, np.sum(e, axis=axes, keepdims=True)


def _numpy_logsumexp(x: Any, *, axes: Axis) -> Any:
    shift, _, s = _numpy_shifted(x, axes)
    return np.squeeze(np.log(s) + shift, axis=axes)


def _logsumexp_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The shares of the terms in the sum; 0 where all terms are 0."""
    (x,) = node.inputs
    axes = node.attrs.axes
    _, e, s = _shifted(x, axes)
    # s is 1 at least, but where all terms are 0, and so their shares
    share = pull(g, 1.0 / clip(s, min=1.0))
    return [pull(restored(share, x, axes), e)]


def _logsumexp_expand(node: Node) -> Tensor:
    shift, _, s = _shifted(node.inputs[0], node.attrs.axes)
    return log(s) + shift


_logsumexp = composite(
    "logsumexp",
    type=lambda x, *, axes: x.without(axes),
    numpy=_numpy_logsumexp,
    vjp=_logsumexp_vjp,
    expand=_logsumexp_expand,
    accepts=FLOATS,
    doc="log of the sum of exp over `axes`, without overflow; where all are -inf the slopes are 0.",
)


@function("logsumexp")
def logsumexp(
    x: TensorLike,
    axis: Axes = None,
    b: TensorLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """log(sum(b * exp(x))) over `axis` (None: over all), without overflow."""
    tensor = _float(x)
    if b is not None:
        return _weighted_logsumexp(tensor, b, axis, keepdims)
    axes = axes_of(axis, tensor.ndim)
    found = _logsumexp(tensor, axes=axes) if axes else copy_op(tensor)
    return kept(found, tensor, axes, keepdims)


def _weighted_logsumexp(x: Tensor, b: TensorLike, axis: Axes, keepdims: bool) -> Tensor:
    tensor, weights = operands(x, b)
    axes = axes_of(axis, tensor.ndim)
    seen = select(equal(weights, 0), -np.inf, tensor)
    shift, e, _ = _shifted(seen, axes)
    found = log(total(mul_no_nan(e, weights), axes)) + shift
    return kept(found, tensor, axes, keepdims)


def _softmax_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    axes = node.attrs.axes
    p = node.out
    weighted = pull(g, p)
    inner = restored(reduce_sum(weighted, axes=axes), x, axes)
    return [weighted - p * inner]


def _softmax_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    axes = node.attrs.axes
    _, e, s = _shifted(x, axes)
    return e / restored(s, x, axes)


def _numpy_softmax(x: Any, *, axes: Axis) -> Any:
    _, e, s = _numpy_shifted(x, axes)
    return e / s


_softmax = composite(
    "softmax",
    type=lambda x, *, axes: x,
    numpy=_numpy_softmax,
    vjp=_softmax_vjp,
    expand=_softmax_expand,
    accepts=FLOATS,
    doc="exp(x) divided by its sum over `axes`, without overflow.",
)


def _log_softmax_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    axes = node.attrs.axes
    _, e, s = _shifted(x, axes)
    share = reduce_sum(g, axes=axes) / s
    return [g - pull(restored(share, x, axes), e)]


def _log_softmax_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    axes = node.attrs.axes
    shift, _, s = _shifted(x, axes)
    return (x - restored(shift, x, axes)) - restored(log(s), x, axes)


def _numpy_log_softmax(x: Any, *, axes: Axis) -> Any:
    shift, _, s = _numpy_shifted(x, axes)
    return (x - shift) - np.log(s)


_log_softmax = composite(
    "log_softmax",
    type=lambda x, *, axes: x,
    numpy=_numpy_log_softmax,
    vjp=_log_softmax_vjp,
    expand=_log_softmax_expand,
    accepts=FLOATS,
    doc="log(softmax(x)) over `axes`, without overflow.",
)


@function("softmax")
def softmax(x: TensorLike, axis: Axes = None) -> Tensor:
    """exp(x) divided by its sum over `axis` (None: over all)."""
    tensor = _float(x)
    return _softmax(tensor, axes=axes_of(axis, tensor.ndim))


@function("log_softmax")
def log_softmax(x: TensorLike, axis: Axes = None) -> Tensor:
    """log(softmax(x)) over `axis` (None: over all)."""
    tensor = _float(x)
    return _log_softmax(tensor, axes=axes_of(axis, tensor.ndim))


# -------------------------------------------------------------------- spread of values


def _freedom(x: Tensor, axes: Axis, ddof: float) -> Tensor:
    """The number of elements minus `ddof`, not below 0."""
    count = count_of(x, axes)
    if not isinstance(count, Poly):
        return number(max(count - ddof, 0), x.dtype)
    found = number(count, x.dtype)
    return found if ddof == 0 else maximum(found - ddof, 0)


def _centred(x: Tensor, axes: Axis) -> Tensor:
    mean = reduce_sum(x, axes=axes) / _shaped(
        number(count_of(x, axes), x.dtype), x, axes
    )
    return x - restored(mean, x, axes)


def _shaped(scalar: Tensor, x: Tensor, axes: Axis) -> Tensor:
    """A number in the shape that is left when x is reduced."""
    return broadcast_to(scalar, x.type.without(axes).shape)


def _var_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    axes = node.attrs.axes
    scale = 2.0 * g / _shaped(_freedom(x, axes, node.attrs.ddof), x, axes)
    return [pull(restored(scale, x, axes), _centred(x, axes))]


def _var_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    axes = node.attrs.axes
    d = _centred(x, axes)
    freedom = _shaped(_freedom(x, axes, node.attrs.ddof), x, axes)
    return reduce_sum(d * d, axes=axes) / freedom


_var = composite(
    "var",
    type=lambda x, *, axes, ddof: x.without(axes),
    numpy=lambda x, *, axes, ddof: _quiet(np.var, x, axes, ddof),
    vjp=_var_vjp,
    expand=_var_expand,
    accepts=FLOATS,
    doc="The mean square distance from the mean over `axes`, the count lessened by `ddof`.",
)


def _alike(upper: Tensor, lower: Tensor, axes: Axis) -> Tensor:
    """Whether all elements are equal: their mean may be off by a rounding error then, and their
    distance from it is not 0."""
    return equal(
        reduce_max(upper, axes=axes, empty=True),
        reduce_min(lower, axes=axes, empty=True),
    )


def _std_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    axes, out = node.attrs.axes, node.out
    freedom = _shaped(_freedom(x, axes, node.attrs.ddof), x, axes)
    flat = logical_or(equal(out, 0), logical_and(_alike(x, x, axes), isfinite(out)))
    scale = pull(g, select(flat, 0, 1.0 / (out * freedom)))
    return [pull(restored(scale, x, axes), _centred(x, axes))]


_std = composite(
    "std",
    type=lambda x, *, axes, ddof: x.without(axes),
    numpy=lambda x, *, axes, ddof: _quiet(np.std, x, axes, ddof),
    vjp=_std_vjp,
    expand=lambda node: sqrt(_var(*node.inputs, **node.attrs.as_dict())),
    accepts=FLOATS,
    doc="The square root of `var`; where all elements are equal its slopes are 0.",
)


def _quiet(f: Callable[..., Any], x: Any, axes: Axis, ddof: float) -> Any:
    """NumPy's var or std without its warning about too few elements."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return f(x, axis=axes, ddof=ddof)


def _spread(
    op: Op,
    x: TensorLike,
    axis: Axes,
    dtype: DType | None,
    ddof: float,
    keepdims: bool,
    where: TensorLike | None,
    middle: TensorLike | None,
    correction: float | None,
) -> Tensor:
    given = type_of(x).dtype
    tensor = convert(as_tensor(x), dtype or (given if given.is_inexact else float64))
    axes = axes_of(axis, tensor.ndim)
    if tensor.dtype.is_complex:
        real_part, imag_part = (
            _spread(
                op,
                part(tensor),
                axes,
                None,
                ddof,
                keepdims,
                where,
                None if middle is None else part(middle),
                correction,
            )
            for part in (real, imag)
        )
        if op is _std:
            return hypot(real_part, imag_part)
        return real_part + imag_part
    if correction is not None:
        if ddof:
            raise OptionError(f"{op.name}: give ddof or correction, which is the same")
        ddof = correction
    if where is None and middle is None:
        return kept(op(tensor, axes=axes, ddof=ddof), tensor, axes, keepdims)
    own = middle is None
    if middle is None:
        middle = mean(tensor, axes, keepdims=True, where=where)
    d = tensor - broadcast_to(convert(middle, tensor.dtype), tensor.shape)
    freedom = _freedom(tensor, axes, ddof)
    if where is not None:
        mask = broadcast_to(truth(where), tensor.shape)
        d = select(mask, d, 0)
        if own and op is _std:
            upper, lower = (select(mask, tensor, e) for e in (-math.inf, math.inf))
            flat = restored(_alike(upper, lower, axes), tensor, axes)
            d = select(logical_and(flat, isfinite(d)), 0, d)
        freedom = maximum(sum_(convert(mask, tensor.dtype), axes) - ddof, 0)
    found = _norm(d, axes=axes) if op is _std else _squares(d, axes)
    return kept(
        found / (sqrt(freedom) if op is _std else freedom), tensor, axes, keepdims
    )


def _squares(x: Tensor, axes: Axis) -> Tensor:
    return total(x * x, axes)


@function("var", method=True)
def var(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: TensorLike | None = None,
    mean: TensorLike | None = None,
    correction: float | None = None,
) -> Tensor:
    """The variance over `axis` (None: over all), its divisor the count minus `ddof`."""
    return _spread(_var, x, axis, dtype, ddof, keepdims, where, mean, correction)


@function("std", method=True)
def std(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: TensorLike | None = None,
    mean: TensorLike | None = None,
    correction: float | None = None,
) -> Tensor:
    """The standard deviation over `axis`; its slopes are 0 where all elements are equal."""
    return _spread(_std, x, axis, dtype, ddof, keepdims, where, mean, correction)


# ------------------------------------------------------------------------------- norms


def _norm_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    axes, out = node.attrs.axes, node.out
    scale = pull(g, select(equal(out, 0), 0, 1.0 / out))
    return [pull(restored(scale, x, axes), x)]


def _norm_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    return sqrt(reduce_sum(x * x, axes=node.attrs.axes))


_norm = composite(
    "norm",
    type=lambda x, *, axes: x.without(axes),
    numpy=lambda x, *, axes: np.sqrt(np.sum(x * x, axis=axes)),
    vjp=_norm_vjp,
    expand=_norm_expand,
    accepts=FLOATS,
    doc="The square root of the sum of squares over `axes`; where it is 0 its slopes are 0.",
)


@function("norm")
def norm(
    x: TensorLike,
    ord: float | str | None = None,
    axis: Axes = None,
    keepdims: bool = False,
) -> Tensor:
    """The norm of vectors (axis an int) or matrices (two axes): `ord` as in `np.linalg.norm`.

    With neither `ord` nor `axis` it is that of all elements.
    """
    tensor = as_tensor(x)
    tensor = absolute(tensor) if tensor.dtype.is_complex else _float(tensor)
    if axis is None and ord is None:
        axes = axes_of(None, tensor.ndim)
        return kept(_norm(tensor, axes=axes), tensor, axes, keepdims)
    if axis is None and tensor.ndim not in (1, 2):
        raise ShapeError(
            f"norm: ord={ord} is for vectors and matrices, the operand is {tensor.type}",
            hint="say which axes: axis=-1",
        )
    listed = range(tensor.ndim) if axis is None else axis
    axes = (
        tuple(axis_of(a, tensor.ndim) for a in listed)
        if isinstance(listed, tuple | list | range)
        else (axis_of(listed, tensor.ndim),)
    )
    if len(axes) == 1:
        return _vector_norm(tensor, ord, axes[0], keepdims)
    if len(axes) == 2 and axes[0] != axes[1]:
        return _matrix_norm(tensor, ord, (axes[0], axes[1]), keepdims)
    raise ShapeError(f"norm: axis {axis} is neither one axis nor two", code="bad-axis")


def _vector_norm(
    x: Tensor, ord: float | str | None, axis: int, keepdims: bool
) -> Tensor:
    if ord is None or ord == 2:
        return kept(_norm(x, axes=(axis,)), x, (axis,), keepdims)
    if isinstance(ord, str):
        raise OptionError(f"norm: ord={ord!r} is for matrices, this is over one axis")
    size = absolute(x)
    if ord == math.inf:
        return max_(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return min_(size, axis, keepdims=keepdims)
    if ord == 0:
        count = convert(not_equal(x, 0), x.dtype)
        return sum_(count, axis, keepdims=keepdims)
    if ord == 1:
        return sum_(size, axis, keepdims=keepdims)
    powers = sum_(power(size, ord), axis, keepdims=keepdims)
    empty = equal(powers, 0)  # the root has no slope there
    return select(empty, 0, power(select(empty, 1, powers), 1.0 / ord))


def _matrix_norm(
    x: Tensor, ord: float | str | None, axes: tuple[int, int], keepdims: bool
) -> Tensor:
    rows, columns = axes
    if ord is None or ord == "fro":
        both = tuple(sorted(axes))
        return kept(_norm(x, axes=both), x, both, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        summed = rows if ord in (1, -1) else columns
        other = columns if ord in (1, -1) else rows
        sums = sum_(absolute(x), summed, keepdims=True)
        extreme = max_ if ord in (1, math.inf) else min_
        return extreme(sums, (summed, other), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        raise UnsupportedError(
            f"norm: ord={ord!r} of matrices needs singular values, which are not in this version",
            hint="ord may be None, 'fro', 1, -1, inf, -inf",
        )
    raise OptionError(f"norm: no ord={ord!r} of matrices")


# ------------------------------------------------------------------- cross entropies


@function("softmax_cross_entropy")
def softmax_cross_entropy(
    logits: TensorLike, labels: TensorLike, axis: int = -1
) -> Tensor:
    """-sum(labels * log_softmax(logits)) over `axis`; a label of 0 takes no part."""
    x, p = operands(_float(logits), labels)
    return -sum_(mul_no_nan(log_softmax(x, axis), p), axis)


def _row_of(ids: Tensor, x: Tensor, axis: int) -> Tensor:
    """Whether each element stands at its row's id; negative ids count from the end."""
    count = filled(x.shape[axis], ids)
    at = select(less(ids, 0), ids + count, ids)
    return equal(iota(shape=x.shape, axis=axis, dtype=int64), restored(at, x, (axis,)))


def _picked(x: Tensor, ids: Tensor, axis: int) -> Tensor:
    """The element at each row's id. IndexError in evaluation where an id is outside its axis."""
    indices = [iota(shape=ids.shape, axis=k, dtype=int64) for k in range(ids.ndim)]
    indices.insert(axis, ids)
    return gather(x, *indices, axes=tuple(range(x.ndim)), at=0)


def _sparse_type(x: TensorType, ids: TensorType, *, axis: int) -> TensorType:
    if ids.shape != x.without((axis,)).shape:
        raise ShapeError(
            f"ids are {ids}, the logits {x} without axis {axis} are {x.without((axis,))}"
        )
    return TensorType(x.dtype, ids.shape)


def _numpy_sparse(x: Any, ids: Any, *, axis: int) -> Any:
    at = np.expand_dims(ids, axis)
    if x.size and (np.any(at < -x.shape[axis]) or np.any(at >= x.shape[axis])):
        raise IndexError("sparse_softmax_cross_entropy: an id is outside its axis")
    ls = _numpy_log_softmax(x, axes=(axis,))
    return -np.squeeze(np.take_along_axis(ls, at, axis), axis)


def _sparse_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    x, ids = node.inputs
    axis = node.attrs.axis
    _, e, s = _shifted(x, (axis,))
    shares = pull(restored(pull(g, 1.0 / s), x, (axis,)), e)
    hit = select(_row_of(ids, x, axis), restored(g, x, (axis,)), 0)
    return [shares - hit, None]


def _sparse_expand(node: Node) -> Tensor:
    x, ids = node.inputs
    axis = node.attrs.axis
    shift, _, s = _shifted(x, (axis,))
    return log(s) - (_picked(x, ids, axis) - shift)


_sparse = composite(
    "sparse_softmax_cross_entropy",
    type=_sparse_type,
    numpy=_numpy_sparse,
    vjp=_sparse_vjp,
    expand=_sparse_expand,
    accepts=FLOATS | {"int64"},
    doc="-log_softmax(x) at each row's id along `axis`.",
)


@function("sparse_softmax_cross_entropy")
def sparse_softmax_cross_entropy(
    logits: TensorLike, ids: TensorLike, axis: int = -1
) -> Tensor:
    """-log_softmax(logits) at the id of each row: ids of the logits' shape without `axis`."""
    x, at = _float(logits), as_tensor(ids)
    if not at.dtype.is_integer:
        raise TypeMismatch(
            f"sparse_softmax_cross_entropy: ids are {at.type}, not integers"
        )
    return _sparse(x, convert(at, int64), axis=axis_of(axis, x.ndim))


@function("sigmoid_cross_entropy")
def sigmoid_cross_entropy(logits: TensorLike, labels: TensorLike) -> Tensor:
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), elementwise."""
    x, z = operands(_float(logits), labels)
    return softplus(x) - x * z

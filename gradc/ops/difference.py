"""Differences of neighbours and what is made of them: steps, integrals, derivatives on a grid."""

from __future__ import annotations

from collections.abc import Sequence

from gradc.errors import OptionError, ShapeError, TypeMismatch
from gradc.graph import Tensor
from gradc.ops.basic import copy as copy_op
from gradc.ops.elementwise import divide, not_equal
from gradc.ops.functions import (
    TensorLike,
    apply,
    as_tensor,
    axes_of,
    axis_of,
    broadcast_to,
    convert,
    function,
)
from gradc.ops.reduce import sum_
from gradc.ops.shape import reshaped, slice_op
from gradc.types import Dim, float64

__all__ = ["diff", "ediff1d", "gradient", "trapezoid"]


def _part(x: Tensor, axis: int, start: int, end: int = 0) -> Tensor:
    """`x[start : n - end]` along an axis of n elements, which must have so many."""
    first = tuple(start if k == axis else 0 for k in range(x.ndim))
    stop: list[Dim] = [d - end if k == axis else d for k, d in enumerate(x.shape)]
    return slice_op(x, start=first, stop=tuple(stop), step=(1,) * x.ndim)


def _steps(x: Tensor, axis: int) -> Tensor:
    """Each element less the one before it; of truth values whether they differ."""
    if x.shape[axis] == 0:
        return x
    later, earlier = _part(x, axis, 1), _part(x, axis, 0, 1)
    return not_equal(later, earlier) if x.dtype.is_bool else later - earlier


@function("diff")
def diff(
    x: TensorLike,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    """The differences of neighbours along an axis, `n` times; of truth values whether they differ.

    `prepend` and `append` are put before and behind first: numbers, or tensors as long as they
    like along the axis.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise TypeMismatch(f"diff: n must be an int that is not negative, found {n}")
    tensor = as_tensor(x)
    if n == 0:
        return copy_op(tensor)
    if not tensor.ndim:
        raise ShapeError("diff: a number has no neighbours")
    k = axis_of(axis, tensor.ndim)
    parts = [_edge(prepend, tensor, k), tensor, _edge(append, tensor, k)]
    given = [part for part in parts if part is not None]
    found = apply("concatenate", given, axis=k) if len(given) > 1 else tensor
    for _ in range(n):
        found = _steps(found, k)
    assert isinstance(found, Tensor)
    return found


def _edge(value: TensorLike | None, x: Tensor, axis: int) -> Tensor | None:
    """What is put at an end: a number is one row."""
    if value is None:
        return None
    tensor = as_tensor(value)
    if tensor.ndim:
        return tensor
    row = tuple(1 if k == axis else d for k, d in enumerate(x.shape))
    return broadcast_to(convert(tensor, tensor.dtype), row)


@function("ediff1d")
def ediff1d(
    x: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None
) -> Tensor:
    """The differences of neighbours of all elements in row-major order, between what is given."""
    flat = apply("ravel", as_tensor(x))
    ends = [
        None if v is None else convert(apply("ravel", as_tensor(v)), flat.dtype)
        for v in (to_begin, to_end)
    ]
    parts = [p for p in (ends[0], _steps(flat, 0), ends[1]) if p is not None]
    found = apply("concatenate", parts) if len(parts) > 1 else parts[0]
    assert isinstance(found, Tensor)
    return found


@function("trapezoid", "trapz")
def trapezoid(
    y: TensorLike, x: TensorLike | None = None, dx: TensorLike = 1.0, axis: int = -1
) -> Tensor:
    """The integral over an axis by the trapezoidal rule: at the points `x`, or `dx` apart."""
    values = as_tensor(y)
    if not values.ndim:
        raise ShapeError("trapezoid: a number has no axis to integrate over")
    k = axis_of(axis, values.ndim)
    d: TensorLike = dx
    if x is not None:
        points = as_tensor(x)
        if points.ndim == 1:
            points = _along(points, values.ndim, k)
        d = _steps(points, axis_of(axis, points.ndim))
    if values.shape[k] == 0:
        return sum_(values * 0.5, k)
    means = (_part(values, k, 1) + _part(values, k, 0, 1)) / 2.0
    return sum_(means * d, k)


def _along(x: Tensor, ndim: int, axis: int) -> Tensor:
    """A vector as one axis of several."""
    return reshaped(x, tuple(x.shape[0] if k == axis else 1 for k in range(ndim)))


# ------------------------------------------------------------- derivatives on a grid


@function("gradient")
def gradient(
    f: TensorLike,
    *spacing: TensorLike,
    axis: int | tuple[int, ...] | None = None,
    edge_order: int = 1,
) -> Tensor | tuple[Tensor, ...]:
    """The derivatives of values on a grid along each axis, by second-order differences.

    `spacing` is one step for all axes, or for each axis its step or the coordinates of its points.
    At the ends differences are of order `edge_order`, 1 or 2. One axis gives a tensor, several a
    tuple. (Derivatives of a graph are `gradients`.)
    """
    tensor = as_tensor(f)
    if not tensor.ndim:
        raise ShapeError(
            "gradient: expected values on a grid, found a number",
            hint="gradients(ys, xs) gives a list, one gradient an x: "
            "(dw,) = gradients(loss, [w])",
        )
    if not tensor.dtype.is_inexact:
        tensor = convert(tensor, float64)
    listed = axis if isinstance(axis, tuple | list) else None
    axes = (
        tuple(axis_of(a, tensor.ndim) for a in listed)
        if listed is not None
        else axes_of(axis, tensor.ndim)
    )
    if len(set(axes)) < len(axes):
        raise ShapeError(f"gradient: axis {axis} names an axis twice", code="bad-axis")
    if edge_order not in (1, 2):
        raise OptionError(f"gradient: edge_order is 1 or 2, found {edge_order!r}")
    given: Sequence[TensorLike] = spacing
    if len(spacing) <= 1 and (not spacing or not as_tensor(spacing[0]).ndim):
        given = (spacing[0] if spacing else 1.0,) * len(axes)
    if len(given) != len(axes):
        raise ShapeError(
            f"gradient: {len(given)} spacings for {len(axes)} axes",
            code="length-mismatch",
            hint="give one step, or a step or coordinates for each axis",
        )
    found = tuple(
        _slope(tensor, k, step, edge_order) for k, step in zip(axes, given, strict=True)
    )
    return found[0] if len(found) == 1 else found


def _slope(f: Tensor, k: int, spacing: TensorLike, edge_order: int) -> Tensor:
    """The derivative along one axis."""
    count = f.shape[k]
    if isinstance(count, int) and count < edge_order + 1:
        raise ShapeError(
            f"gradient: axis {k} of {f.type} is too short, it must have "
            f"{edge_order + 1} elements"
        )
    step = as_tensor(spacing)
    if step.ndim > 1:
        raise ShapeError(f"gradient: expected a step or coordinates, found {step.type}")
    if step.ndim and step.shape[0] != count:
        raise ShapeError(
            f"gradient: {step.type} has not one coordinate for each place of axis {k} of {f.type}"
        )
    if not step.type.weak:
        step = convert(step, step.dtype if step.dtype.is_inexact else float64)
    parts = (_uneven if step.ndim else _even)(f, k, step, edge_order)
    found = apply("concatenate", [convert(p, f.dtype) for p in parts], axis=k)
    assert isinstance(found, Tensor)
    return found


def _at(x: Tensor, k: int, place: int) -> Tensor:
    """One place of an axis, from the end where it is negative; the axis stays."""
    if place >= 0:
        return slice_op(
            x,
            start=tuple(place if i == k else 0 for i in range(x.ndim)),
            stop=tuple(place + 1 if i == k else d for i, d in enumerate(x.shape)),
            step=(1,) * x.ndim,
        )
    first: list[Dim] = [d + place if i == k else 0 for i, d in enumerate(x.shape)]
    stop: list[Dim] = [d + (place + 1) if i == k else d for i, d in enumerate(x.shape)]
    return slice_op(x, start=tuple(first), stop=tuple(stop), step=(1,) * x.ndim)


def _even(
    f: Tensor, k: int, h: Tensor, edge_order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The derivative at the first place, between the ends, and at the last."""
    inside = divide(_part(f, k, 2) - _part(f, k, 0, 2), 2.0 * h)
    if edge_order == 1:
        first = divide(_at(f, k, 1) - _at(f, k, 0), h)
        return first, inside, divide(_at(f, k, -1) - _at(f, k, -2), h)
    first = 2.0 * _at(f, k, 1) - 1.5 * _at(f, k, 0) - 0.5 * _at(f, k, 2)
    last = 1.5 * _at(f, k, -1) - 2.0 * _at(f, k, -2) + 0.5 * _at(f, k, -3)
    return divide(first, h), inside, divide(last, h)


def _uneven(
    f: Tensor, k: int, x: Tensor, edge_order: int
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_even`, at coordinates: the slopes between neighbours, weighted by the other's width."""
    h = _along(_steps(x, 0), f.ndim, k)
    slope = _steps(f, k) / broadcast_to(h, _steps(f, k).shape)
    left, right = _part(h, k, 0, 1), _part(h, k, 1)
    before, behind = _part(slope, k, 0, 1), _part(slope, k, 1)
    inside = (right * before + left * behind) / (left + right)
    first, last = _at(slope, k, 0), _at(slope, k, -1)
    if edge_order == 2:
        first = _extended(_at(h, k, 0), _at(h, k, 1), first, _at(slope, k, 1))
        last = _extended(_at(h, k, -1), _at(h, k, -2), last, _at(slope, k, -2))
    return first, inside, last


def _extended(near: Tensor, next_: Tensor, slope: Tensor, further: Tensor) -> Tensor:
    """The derivative at an end of the parabola through three points."""
    return slope + (slope - further) * (near / (near + next_))

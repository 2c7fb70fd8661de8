"""What rearranges the pixels of images, or resizes them."""

from __future__ import annotations

from typing import Any

from gradc.errors import OptionError, ShapeError
from gradc.graph import Tensor
from gradc.ops.arrange import repeat
from gradc.ops.basic import iota
from gradc.ops.elementwise import floor_divide, maximum, minimum
from gradc.ops.functions import (
    TensorLike,
    as_tensor,
    convert,
    function,
    number,
)
from gradc.ops.index import gather
from gradc.ops.shape import permuted, reshaped, sizes_of, slice_along
from gradc.ops.window import channels_last, image_of, whole_numbers
from gradc.types import (
    Dim,
    dim_text,
    exact_quotient,
    float64,
    int64,
)

__all__ = ["depth_to_space", "resize", "space_to_depth"]

# --------------------------------------------------------------------- blocks of pixels


def _divided(name: str, d: Dim, n: int, what: str) -> Dim:
    found = exact_quotient(d, n)
    if found is None:
        raise ShapeError(
            f"{name}: {what} of {dim_text(d)} does not divide into blocks of {n}",
            hint=f"declare it as a multiple of {n}, as in float[N, 3, {n} * H, {n} * W]",
        )
    return found


def _block(name: str, block: Any) -> int:
    (n,) = whole_numbers(name, "block", block, 1)
    return n


@function("space_to_depth")
def space_to_depth(x: TensorLike, block: int, layout: str = "NCHW") -> Tensor:
    """Each block of `block` by `block` pixels as the channels of one pixel: those of its first
    pixel, then those of the next ones in row-major order."""
    t, n = as_tensor(x), _block("space_to_depth", block)
    last = channels_last("space_to_depth", layout, 2)
    image_of("space_to_depth", t, 2)
    b, *rest = t.shape
    c, h, w = (rest[2], rest[0], rest[1]) if last else rest
    rows = _divided("space_to_depth", h, n, "a height")
    columns = _divided("space_to_depth", w, n, "a width")
    if last:
        cells = reshaped(t, (b, rows, n, columns, n, c))
        return reshaped(
            permuted(cells, (0, 1, 3, 2, 4, 5)), (b, rows, columns, n * n * c)
        )
    cells = reshaped(t, (b, c, rows, n, columns, n))
    return reshaped(permuted(cells, (0, 3, 5, 1, 2, 4)), (b, n * n * c, rows, columns))


@function("depth_to_space")
def depth_to_space(x: TensorLike, block: int, layout: str = "NCHW") -> Tensor:
    """The inverse of `space_to_depth`: the channels of each pixel as a block of pixels."""
    t, n = as_tensor(x), _block("depth_to_space", block)
    last = channels_last("depth_to_space", layout, 2)
    image_of("depth_to_space", t, 2)
    b, *rest = t.shape
    c, h, w = (rest[2], rest[0], rest[1]) if last else rest
    each = exact_quotient(c, n * n)
    if each is None:
        raise ShapeError(
            f"depth_to_space: {dim_text(c)} channels are no blocks of {n} by {n}",
            hint=f"declare their number as a multiple of {n * n}",
        )
    if last:
        cells = reshaped(t, (b, h, w, n, n, each))
        return reshaped(permuted(cells, (0, 1, 3, 2, 4, 5)), (b, h * n, w * n, each))
    cells = reshaped(t, (b, n, n, each, h, w))
    return reshaped(permuted(cells, (0, 3, 4, 1, 5, 2)), (b, each, h * n, w * n))


# ------------------------------------------------------------------------------ resizing

COORDINATES = ("half_pixel", "align_corners", "asymmetric")


@function("resize")
def resize(
    x: TensorLike,
    size: Any,
    method: str = "nearest",
    layout: str = "NCHW",
    coordinates: str = "half_pixel",
) -> Tensor:
    """Images of other spatial sizes, by the `nearest` pixel or `linear` between neighbours.

    `size` is a number or one an axis. Pixels are squares whose centres are laid over each other
    (`half_pixel`), or points of which the first and the last ones are (`align_corners`), or the
    first ones alone (`asymmetric`). Of two pixels that are as near the later one is taken.
    """
    t = as_tensor(x)
    rank = len(size) if isinstance(size, tuple | list) else max(t.ndim - 2, 1)
    last = channels_last("resize", layout, min(rank, 3))
    image_of("resize", t, rank)
    listed = size if isinstance(size, tuple | list) else [size] * rank
    sizes = sizes_of(tuple(listed), "resize: size")
    if method not in ("nearest", "linear"):
        raise OptionError(f"resize: expected nearest or linear, found {method!r}")
    if coordinates not in COORDINATES:
        raise OptionError(
            f"resize: expected coordinates of {', '.join(COORDINATES)}, found {coordinates!r}"
        )
    if method == "linear" and not t.dtype.is_inexact:
        t = convert(t, float64)
    for k, d in enumerate(sizes, start=1 if last else 2):
        if t.shape[k] == 0 and d != 0:
            raise ShapeError("resize: images without pixels have no other size")
        if d != t.shape[k]:
            one = _nearest if method == "nearest" else _linear
            t = one(t, k, d, coordinates)
    return t


def _fraction(d: Dim, size: Dim, coordinates: str) -> tuple[Tensor, Tensor]:
    """Where pixels of a new axis lie on an old one of length `d`: numbers over a denominator."""
    place = iota(shape=(size,), axis=0, dtype=int64)
    if coordinates == "half_pixel":
        return (place * 2 + 1) * d - size, number(2 * size, int64)
    if coordinates == "asymmetric":
        return place * d, number(size, int64)
    # of one pixel alone, the first corner
    return place * (d - 1), maximum(number(size - 1, int64), 1)


def _nearest(x: Tensor, axis: int, size: Dim, coordinates: str) -> Tensor:
    d = x.shape[axis]
    if coordinates == "half_pixel":
        factor = exact_quotient(size, d)
        if factor is not None:
            return repeat(x, factor, axis)
        step = exact_quotient(d, size)
        if isinstance(step, int):
            return slice_along(x, axis, step // 2, d, step)
    at, over = _fraction(d, size, coordinates)
    nearest = floor_divide(at * 2 + over, over * 2)
    place = minimum(maximum(nearest, 0), d - 1)
    return gather(x, place, axes=(axis,), at=axis)


def _linear(x: Tensor, axis: int, size: Dim, coordinates: str) -> Tensor:
    d = x.shape[axis]
    at, over = _fraction(d, size, coordinates)
    inside = minimum(maximum(at, 0), over * (d - 1))
    low = floor_divide(inside, over)
    share = convert(inside - low * over, x.dtype) / convert(over, x.dtype)
    high = minimum(low + 1, d - 1)
    weight = reshaped(share, tuple(size if k == axis else 1 for k in range(x.ndim)))
    first = gather(x, low, axes=(axis,), at=axis)
    second = gather(x, high, axes=(axis,), at=axis)
    return first + (second - first) * weight

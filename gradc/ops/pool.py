"""Pooling: the largest or the mean of each window.

What slides over axes here is `window`; short windows are written out tap by tap, so that they are
a line of scalar code. `window_pick` and `window_place`, `window_sum` and `window_spread` are each
other's transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError, UnsupportedError
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import add_n, broadcast, iota, numpy_shape, reduce_sum
from gradc.ops.elementwise import (
    equal,
    isnan,
    logical_or,
    maximum,
    minimum,
    select,
)
from gradc.ops.functions import (
    TensorLike,
    as_tensor,
    broadcast_to,
    convert,
    function,
    number,
)
from gradc.ops.reduce import lowest, reduce_max, reduce_min
from gradc.ops.registry import (
    ANY_NUMBER,
    REAL,
    Bar,
    Constant,
    Explicit,
    Op,
    linear,
    primitive,
)
from gradc.ops.shape import demanded, reshaped, sizes_of, unproved
from gradc.ops.window import (
    Padding,
    Pairs,
    all_taps,
    along,
    channels_last,
    fold,
    image_of,
    padded,
    pairs_of,
    positions,
    spare,
    tap_embed,
    tap_slice,
    whole_numbers,
    windows_of,
)
from gradc.types import (
    Dim,
    Shape,
    TensorType,
    dim_text,
    dtype_of,
    float64,
    int64,
    size_of,
)

__all__ = ["avg_pool", "max_pool"]

Dims = tuple[Dim, ...]

# ------------------------------------------------------------------------ all windows


def _places_type(
    x: TensorType, *, axes: tuple[int, ...], taps: Dims, stride: Dims
) -> TensorType:
    """The type of one value a window."""
    if not len(axes) == len(taps) == len(stride) > 0 or max(axes) >= x.ndim:
        raise InternalError(f"windows of {x} at {axes}, {taps}, {stride}")
    shape = list(x.shape)
    for a, n, s in zip(axes, taps, stride, strict=True):
        shape[a] = positions(shape[a], n, s, 1)
    return x.with_shape(shape)


def _spread_type(y: TensorType, *, shape: Shape, **over: Any) -> TensorType:
    """The type of what has windows with the values `y`."""
    whole = TensorType(y.dtype, shape)
    if _places_type(whole, **over).shape != y.shape:
        raise InternalError(f"windows of {whole} for {y}")
    return whole


def _matched(y: TensorType, place: TensorType) -> TensorType:
    if place != TensorType(int64, y.shape):
        raise InternalError(f"places {place} for {y}")
    return y


def _requires(shape: Shape, node: Node) -> list[Dim]:
    a = node.attrs
    return unproved(
        *(spare(shape[k], n, 1) for k, n in zip(a.axes, a.taps, strict=True)),
        *(n - 1 for n in a.taps),
    )


def _ones(axes: Sequence[int]) -> tuple[int, ...]:
    return (1,) * len(axes)


def _numpy_windows(x: Any, axes: Any, taps: Dims, stride: Dims, sizes: Any) -> Any:
    """The windows of an array, inside them one axis."""
    counts, steps = numpy_shape(taps, sizes), numpy_shape(stride, sizes)
    found = windows_of(x, axes, counts, steps, _ones(axes))
    return found.reshape(*found.shape[: x.ndim], prod(counts))


def _slices(x: Tensor, node: Node) -> list[Tensor] | None:
    """What each tap of all windows meets, in row-major order; None for long windows."""
    a = node.attrs
    known = all_taps(a.taps)
    if known is None:
        return None
    x = demanded(x, *_requires(x.shape, node))  # slices of no length ask for nothing
    counts = [positions(x.shape[k], n, s, 1) for k, n, s in _axes(node)]
    return [tap_slice(x, a.axes, tap, counts, a.stride, _ones(a.axes)) for tap in known]


def _axes(node: Node) -> list[tuple[int, Dim, Dim]]:
    a = node.attrs
    return list(zip(a.axes, a.taps, a.stride, strict=True))


def _windows(x: Tensor, node: Node) -> Tensor:
    a = node.attrs
    return along(x, a.axes, a.taps, a.stride, _ones(a.axes))


def _inside(x: Tensor, node: Node) -> tuple[int, ...]:
    """The axes inside windows of `x`."""
    return tuple(range(x.ndim, x.ndim + len(node.attrs.axes)))


def _repeated(y: Tensor, node: Node) -> Tensor:
    """One value a window for all elements of the window."""
    return broadcast(y, shape=(*y.shape, *node.attrs.taps), along=_inside(y, node))


def _numbers(shape: Shape, taps: Dims) -> Tensor:
    """For windows at places of this shape, the number of each element inside its window."""
    whole = (*shape, *taps)
    total: Tensor | None = None
    for j in range(len(taps)):
        step = size_of(taps[j + 1 :])
        part = iota(shape=whole, axis=len(shape) + j, dtype=int64)
        part = part if step == 1 else part * step
        total = part if total is None else total + part
    assert total is not None
    return total


# --------------------------------------------------------------- picks and their transpose


def _numpy_pick(
    x: Any,
    place: Any,
    *,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    sizes: dict[str, int],
) -> Any:
    windows = _numpy_windows(x, axes, taps, stride, sizes)
    return np.take_along_axis(windows, place[..., None], -1)[..., 0]


def _pick_expand(node: Node) -> Tensor:
    x, place = node.inputs
    parts = _slices(x, node)
    if parts is None:
        hit = equal(_numbers(place.shape, node.attrs.taps), _repeated(place, node))
        return reduce_sum(select(hit, _windows(x, node), 0), axes=_inside(x, node))
    found = parts[-1]
    for k in reversed(range(len(parts) - 1)):
        found = select(equal(place, k), parts[k], found)
    return found


window_pick: Op = linear(
    "window_pick",
    type=lambda x, place, **over: _matched(_places_type(x, **over), place),
    numpy=_numpy_pick,
    transpose=lambda out_bar, x, place, *, axes, taps, stride: [
        window_place(
            out_bar, place, shape=x.shape, axes=axes, taps=taps, stride=stride
        ),
        None,
    ],
    expand=_pick_expand,
    requires=lambda node: _requires(node.inputs[0].shape, node),
    doc="Of each window of `taps` elements at every `stride`-th place of `axes`, the element "
    "whose number, counted in row-major order, is given.",
)


def _numpy_place(
    y: Any,
    place: Any,
    *,
    shape: Shape,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    sizes: dict[str, int],
) -> Any:
    counts, steps = numpy_shape(taps, sizes), numpy_shape(stride, sizes)
    windows = np.zeros((*y.shape, prod(counts)), y.dtype)
    np.put_along_axis(windows, place[..., None], y[..., None], -1)
    whole = windows.reshape(*y.shape, *counts)
    return arraylib._fold(whole, numpy_shape(shape, sizes), axes, steps, _ones(axes))


def _place_expand(node: Node) -> Tensor:
    y, place = node.inputs
    known = all_taps(node.attrs.taps)
    if known is None:
        hit = equal(_numbers(place.shape, node.attrs.taps), _repeated(place, node))
        return _folded(select(hit, _repeated(y, node), 0), node)
    return _embedded([select(equal(place, k), y, 0) for k in range(len(known))], node)


def _folded(windows: Tensor, node: Node) -> Tensor:
    a = node.attrs
    return fold(
        windows, shape=a.shape, axes=a.axes, stride=a.stride, dilation=_ones(a.axes)
    )


def _embedded(parts: Sequence[Tensor], node: Node) -> Tensor:
    """The sum of what each tap puts where it stands."""
    a = node.attrs
    ones = _ones(a.axes)
    taps = all_taps(a.taps) or []
    terms = [
        tap_embed(part, a.shape, a.axes, tap, a.stride, ones)
        for part, tap in zip(parts, taps, strict=True)
    ]
    return terms[0] if len(terms) == 1 else add_n(*terms, method="")


window_place: Op = linear(
    "window_place",
    type=lambda y, place, *, shape, **over: _spread_type(
        _matched(y, place), shape=shape, **over
    ),
    numpy=_numpy_place,
    transpose=lambda out_bar, y, place, *, shape, axes, taps, stride: [
        window_pick(out_bar, place, axes=axes, taps=taps, stride=stride),
        None,
    ],
    expand=_place_expand,
    requires=lambda node: _requires(node.attrs.shape, node),
    doc="The transpose of `window_pick`: each value put back, those for one place added up.",
)


# ---------------------------------------------------------------- sums and their transpose


def _sum_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    parts = _slices(x, node)
    if parts is None:
        return reduce_sum(_windows(x, node), axes=_inside(x, node))
    return reduce(lambda a, b: a + b, parts)


window_sum: Op = linear(
    "window_sum",
    type=_places_type,
    numpy=lambda x, *, axes, taps, stride, sizes: np.sum(
        _numpy_windows(x, axes, taps, stride, sizes), axis=-1, dtype=x.dtype
    ),
    transpose=lambda out_bar, x, *, axes, taps, stride: window_spread(
        out_bar, shape=x.shape, axes=axes, taps=taps, stride=stride
    ),
    expand=_sum_expand,
    accepts=ANY_NUMBER,
    requires=lambda node: _requires(node.inputs[0].shape, node),
    doc="The sum of each window of `taps` elements at every `stride`-th place of `axes`.",
)


def _numpy_spread(
    y: Any,
    *,
    shape: Shape,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    sizes: dict[str, int],
) -> Any:
    counts, steps = numpy_shape(taps, sizes), numpy_shape(stride, sizes)
    tail = (1,) * len(counts)
    windows = np.broadcast_to(y.reshape(*y.shape, *tail), (*y.shape, *counts))
    return arraylib._fold(windows, numpy_shape(shape, sizes), axes, steps, _ones(axes))


def _spread_expand(node: Node) -> Tensor:
    (y,) = node.inputs
    known = all_taps(node.attrs.taps)
    if known is None:
        return _folded(_repeated(y, node), node)
    return _embedded([y] * len(known), node)


window_spread: Op = linear(
    "window_spread",
    type=lambda y, **attrs: _spread_type(y, **attrs),
    numpy=_numpy_spread,
    transpose=lambda out_bar, y, *, shape, axes, taps, stride: window_sum(
        out_bar, axes=axes, taps=taps, stride=stride
    ),
    expand=_spread_expand,
    accepts=ANY_NUMBER,
    requires=lambda node: _requires(node.attrs.shape, node),
    doc="The transpose of `window_sum`: each value added to all elements of its window.",
)


# --------------------------------------------------------------------- the largest of each


def _max_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    a = node.attrs
    over = {"axes": a.axes, "taps": a.taps, "stride": a.stride}
    place = window_argmax(x, padding=a.padding, **over)
    return [window_place(g, place, shape=x.shape, **over)]


def _largest(x: Tensor, node: Node, parts: Sequence[Tensor] | None) -> Tensor:
    if parts is None:
        return reduce_max(_windows(x, node), axes=_inside(x, node), empty=True)
    return reduce(maximum, parts)


_max_pool: Op = primitive(
    "max_pool",
    type=lambda x, *, axes, taps, stride, padding: _places_type(
        x, axes=axes, taps=taps, stride=stride
    ),
    numpy=lambda x, *, axes, taps, stride, padding, sizes: np.max(
        _numpy_windows(x, axes, taps, stride, sizes),
        axis=-1,
        initial=lowest(dtype_of(x)),
    ),
    derivative=Explicit(_max_vjp),
    expand=lambda node: _largest(node.inputs[0], node, _slices(node.inputs[0], node)),
    accepts=REAL,
    requires=lambda node: _requires(node.inputs[0].shape, node),
    doc="The largest element of each window, NaN if one is; a tie goes to the first in row-major "
    "order. `padding` is what of the operand is padding, by the lowest value.",
)


def _first_inside(node: Node, shape: Shape) -> Tensor:
    """The number of the first element in each window that is no padding."""
    total: Tensor | None = None
    a = node.attrs
    for j, (k, _, step) in enumerate(_axes(node)):
        index = iota(shape=(shape[k],), axis=0, dtype=int64)
        before = maximum(-(index * step) + a.padding[j][0], 0)
        part = before * size_of(a.taps[j + 1 :])
        part = reshaped(part, tuple(d if m == k else 1 for m, d in enumerate(shape)))
        total = part if total is None else total + part
    assert total is not None
    return broadcast_to(total, shape)


def _argmax_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    parts = _slices(x, node)
    level = _largest(x, node, parts)
    if parts is None:
        windows, every = _windows(x, node), _repeated(level, node)
        places = _numbers(level.shape, node.attrs.taps)
        far = int(np.iinfo("int64").max)
        hit = _is_largest(windows, every)
        found = reduce_min(select(hit, places, far), axes=_inside(x, node), empty=True)
    else:
        found = broadcast_to(number(len(parts) - 1, int64), level.shape)
        for k in reversed(range(len(parts) - 1)):
            found = select(_is_largest(parts[k], level), k, found)
    if all(pair == (0, 0) for pair in node.attrs.padding):
        return found
    bottom = equal(level, lowest(x.dtype))
    return select(bottom, _first_inside(node, level.shape), found)


def _is_largest(x: Tensor, level: Tensor) -> Tensor:
    hit = equal(x, level)
    return logical_or(hit, isnan(x)) if x.dtype.is_inexact else hit


def _numpy_argmax(
    x: Any,
    *,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    padding: Pairs,
    sizes: dict[str, int],
) -> Any:
    windows = _numpy_windows(x, axes, taps, stride, sizes)
    if not windows.size:
        return np.zeros(windows.shape[:-1], np.int64)
    pairs = [numpy_shape(pair, sizes) for pair in padding]
    real = np.zeros(x.shape, bool)
    key: list[Any] = [slice(None)] * x.ndim
    for a, (before, after) in zip(axes, pairs, strict=True):
        key[a] = slice(before, x.shape[a] - after)
    real[tuple(key)] = True
    inside = _numpy_windows(real, axes, taps, stride, sizes)
    level = np.max(windows, axis=-1, keepdims=True)
    hit = ((windows == level) | np.isnan(windows)) & inside
    return np.asarray(np.argmax(hit, axis=-1), np.int64)


window_argmax: Op = primitive(
    "window_argmax",
    type=lambda x, *, axes, taps, stride, padding: _places_type(
        x, axes=axes, taps=taps, stride=stride
    ).with_dtype(int64),
    numpy=_numpy_argmax,
    derivative=Constant("its result is an index"),
    expand=_argmax_expand,
    accepts=REAL,
    requires=lambda node: _requires(node.inputs[0].shape, node),
    doc="The number of the first largest element in each window, or of the first NaN, padding "
    "left out.",
)


# ------------------------------------------------------------------------- for the user


def _over(
    name: str, x: Tensor, window: Any, stride: Any, padding: Padding, layout: str
) -> tuple[tuple[int, ...], Dims, Dims, Pairs]:
    """(axes, taps, stride, padding) of a pooling."""
    rank = len(window) if isinstance(window, tuple | list) else max(x.ndim - 2, 1)
    if not 1 <= rank <= 3:
        raise UnsupportedError(
            f"{name}: expected one to three spatial axes, found {rank}",
            hint="pool some axes, then the others: the largest of the largest is the largest",
        )
    if x.ndim < 3:
        raise ShapeError(
            f"{name}: expected a batch, channels and spatial axes, found {x.type}",
            hint="x[None, None] puts in a batch of one and one channel",
        )
    last = channels_last(name, layout, rank)
    image_of(name, x, rank)
    listed = window if isinstance(window, tuple | list) else [window] * rank
    taps = sizes_of(tuple(listed), f"{name}: window")
    for n in taps:
        if n == 0:
            raise ShapeError(f"{name}: a window of 0 has no elements")
    axes = tuple(range(1, rank + 1) if last else range(2, rank + 2))
    steps: Dims = (
        taps if stride is None else whole_numbers(name, "stride", stride, rank)
    )
    spatial = [x.shape[a] for a in axes]
    pairs = pairs_of(name, padding, spatial, taps, steps, (1,) * rank)
    for pair, n in zip(pairs, taps, strict=True):
        for p in pair:
            if isinstance(p, int) and isinstance(n, int) and p >= n:
                raise ShapeError(
                    f"{name}: padding of {p} has room for whole windows of {dim_text(n)}",
                    hint="pad by less than the window",
                )
    return axes, taps, steps, pairs


def _pooled(
    x: Tensor,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    pairs: Pairs,
    pool: Callable[..., Tensor],
) -> Tensor:
    """A pooling of axes together, or where windows are long one after the other."""
    moved = [k for k in range(len(axes)) if taps[k] != 1 or stride[k] != 1]
    groups = [moved]
    if all_taps([taps[k] for k in moved]) is None:
        groups = [[k] for k in reversed(moved)]
    for group in groups:
        if group:
            part = [tuple(v[k] for k in group) for v in (axes, taps, stride, pairs)]
            x = pool(x, *part)
    return x


@function("max_pool")
def max_pool(
    x: TensorLike,
    window: Any,
    stride: Any = None,
    padding: Padding = "valid",
    layout: str = "NCHW",
) -> Tensor:
    """The largest element of each window of one to three spatial axes; padding never wins.

    `window` and `stride` (the window where it is not given) are numbers, or one an axis; padding
    and layout are as those of `conv2d`. A tie goes to the first in row-major order.
    """
    t = as_tensor(x)
    t = convert(t, t.dtype)
    axes, taps, steps, pairs = _over("max_pool", t, window, stride, padding, layout)

    def pool(x: Tensor, axes: Any, taps: Any, stride: Any, pairs: Any) -> Tensor:
        whole = padded(x, axes, pairs, lowest(x.dtype))
        return _max_pool(whole, axes=axes, taps=taps, stride=stride, padding=pairs)

    return _pooled(t, axes, taps, steps, pairs, pool)


@function("avg_pool")
def avg_pool(
    x: TensorLike,
    window: Any,
    stride: Any = None,
    padding: Padding = "valid",
    layout: str = "NCHW",
) -> Tensor:
    """The mean of each window of one to three spatial axes; padding does not count.

    Arguments are those of `max_pool`. Where padding should count, `pad` the tensor before.
    """
    t = as_tensor(x)
    t = convert(t, t.dtype if t.dtype.is_inexact else float64)
    axes, taps, steps, pairs = _over("avg_pool", t, window, stride, padding, layout)

    def pool(x: Tensor, axes: Any, taps: Any, stride: Any, pairs: Any) -> Tensor:
        total = window_sum(padded(x, axes, pairs), axes=axes, taps=taps, stride=stride)
        if all(pair == (0, 0) for pair in pairs):
            return total / number(size_of(taps), x.dtype)
        counts = [
            _count(total, a, x.shape[a], n, s, pair)
            for a, n, s, pair in zip(axes, taps, stride, pairs, strict=True)
        ]
        return total / reduce(lambda a, b: a * b, counts)

    return _pooled(t, axes, taps, steps, pairs, pool)


def _count(
    y: Tensor, axis: int, d: Dim, taps: Dim, stride: Dim, pair: tuple[Dim, Dim]
) -> Tensor:
    """How many elements of each window along an axis are no padding, in the rank of `y`."""
    places = y.shape[axis]
    first = iota(shape=(places,), axis=0, dtype=int64)
    first = first * stride
    begin = maximum(first, pair[0])
    end = minimum(first + taps, pair[0] + d)
    shape = tuple(places if k == axis else 1 for k in range(y.ndim))
    return reshaped(convert(end - begin, y.dtype), shape)

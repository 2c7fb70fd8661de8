"""Windows that slide over axes: `window`, an index map, and its transpose `fold`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import numpy_shape
from gradc.ops.functions import TensorLike, as_tensor, axis_of, function
from gradc.ops.loops import Affine, Assemble, Map, View, axis
from gradc.ops.registry import ANY_NUMBER, Op, linear
from gradc.ops.shape import (
    embed,
    permuted,
    sizes_of,
    slice_op,
    unproved,
)
from gradc.types import (
    Dim,
    Shape,
    TensorType,
    dim_floordiv,
    dim_text,
    is_nonnegative,
    shape_text,
)

__all__ = ["fold", "padded", "tap_embed", "tap_slice", "window"]

Dims = tuple[Dim, ...]
Pairs = tuple[tuple[Dim, Dim], ...]

# ------------------------------------------------------------------ the index map


def reach(taps: Dim, dilation: int) -> Dim:
    """How many elements a window of so many taps spans."""
    return (taps - 1) * dilation + 1


def positions(d: Dim, taps: Dim, stride: Dim, dilation: int) -> Dim:
    """How many windows an axis of length `d` has; ShapeError where it is too short for one."""
    left = spare(d, taps, dilation)
    if isinstance(left, int) and left < 0:
        spread = "" if dilation == 1 else f" (dilated by {dilation})"
        raise ShapeError(
            f"a window of {dim_text(taps)}{spread} does not fit in an axis of {dim_text(d)}",
            hint="pad the axis, or take a smaller window",
        )
    return dim_floordiv(d - reach(taps, dilation), stride) + 1


def spare(d: Dim, taps: Dim, dilation: int) -> Dim:
    """What must not be below 0 for an axis of length `d`: it has room for a window, or windows of
    one element."""
    span = reach(taps, dilation)
    return d if span == 1 else d - span


def _window_type(
    x: TensorType,
    *,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    dilation: tuple[int, ...],
) -> TensorType:
    if not len(axes) == len(taps) == len(stride) == len(dilation) > 0 or (
        max(axes) >= x.ndim
    ):
        raise InternalError(f"window: {x} at {axes}, {taps}, {stride}, {dilation}")
    shape = list(x.shape)
    for a, n, s, e in zip(axes, taps, stride, dilation, strict=True):
        shape[a] = positions(shape[a], n, s, e)
    return x.with_shape((*shape, *taps))


def _window_map(
    ndim: int, axes: Sequence[int], stride: Sequence[Dim], dilation: Sequence[int]
) -> Map:
    """The index into the axis for each index of positions and (the last axes) of taps."""
    found = [axis(k) for k in range(ndim)]
    for j, (a, s, e) in enumerate(zip(axes, stride, dilation, strict=True)):
        found[a] = Affine(0, ((a, s), (ndim + j, e)))
    return tuple(found)


def _numpy_window(
    x: Any,
    *,
    axes: tuple[int, ...],
    taps: Dims,
    stride: Dims,
    dilation: tuple[int, ...],
    sizes: dict[str, int],
) -> Any:
    counts, steps = numpy_shape(taps, sizes), numpy_shape(stride, sizes)
    return windows_of(x, axes, counts, steps, dilation)


def windows_of(
    x: Any,
    axes: Sequence[int],
    taps: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> Any:
    """The windows of an array."""
    spans = [(n - 1) * e + 1 for n, e in zip(taps, dilation, strict=True)]
    if any(x.shape[a] < span for a, span in zip(axes, spans, strict=True)):
        shape = list(x.shape)
        for a, span, s in zip(axes, spans, stride, strict=True):
            shape[a] = (x.shape[a] - span) // s + 1
        return np.empty((*shape, *taps), x.dtype)
    view = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(axes))
    key: list[Any] = [slice(None)] * view.ndim
    for j, (a, s, e) in enumerate(zip(axes, stride, dilation, strict=True)):
        key[a] = slice(None, None, s)
        key[x.ndim + j] = slice(None, None, e)
    return np.array(view[tuple(key)])


def _window_text(node: Node, args: Sequence[str]) -> str:
    a = node.attrs
    spans = tuple(map(reach, a.taps, a.dilation))
    ndim = node.inputs[0].ndim
    steps = [dict(zip(a.axes, a.stride, strict=True)).get(k, 1) for k in range(ndim)]
    picks = [":" if s == 1 else f"::{dim_text(s)}" for s in (*steps, *a.dilation)]
    while picks and picks[-1] == ":":
        picks.pop()
    key = f"[{', '.join(picks)}]" if picks else ""
    view = "np.lib.stride_tricks.sliding_window_view"
    return f"{view}({args[0]}, {shape_text(spans)}, {a.axes}){key}"


window: Op = linear(
    "window",
    type=_window_type,
    numpy=_numpy_window,
    transpose=lambda out_bar, x, *, axes, taps, stride, dilation: fold(
        out_bar, shape=x.shape, axes=axes, stride=stride, dilation=dilation
    ),
    form=lambda node: View(
        _window_map(
            node.inputs[0].ndim,
            node.attrs.axes,
            node.attrs.stride,
            node.attrs.dilation,
        )
    ),
    text=_window_text,
    requires=lambda node: _window_requires(node.inputs[0].shape, node),
    doc="Windows of `taps` elements, `dilation` apart, at every `stride`-th place of `axes`: the "
    "axes are those of the places, and behind all axes come those inside the windows.",
)


def _window_requires(shape: Shape, node: Node) -> list[Dim]:
    a = node.attrs
    taps = node.outputs[0].shape[len(shape) :]
    spans = zip(a.axes, taps, a.dilation, strict=True)
    return unproved(*(spare(shape[k], n, e) for k, n, e in spans))


def _fold_type(
    y: TensorType,
    *,
    shape: Shape,
    axes: tuple[int, ...],
    stride: Dims,
    dilation: tuple[int, ...],
) -> TensorType:
    whole = TensorType(y.dtype, shape)
    taps = y.shape[len(shape) :]
    windows = _window_type(
        whole, axes=axes, taps=taps, stride=stride, dilation=dilation
    )
    if windows.shape != y.shape:
        raise InternalError(f"fold: {y} into {shape_text(shape)} at {axes}")
    return whole


fold: Op = linear(
    "fold",
    type=_fold_type,
    numpy=lambda y, *, shape, axes, stride, dilation, sizes: arraylib._fold(
        y, numpy_shape(shape, sizes), axes, numpy_shape(stride, sizes), dilation
    ),
    transpose=lambda out_bar, y, *, shape, axes, stride, dilation: window(
        out_bar,
        axes=axes,
        taps=y.shape[len(shape) :],
        stride=stride,
        dilation=dilation,
    ),
    form=lambda node: Assemble(
        (
            _window_map(
                len(node.attrs.shape),
                node.attrs.axes,
                node.attrs.stride,
                node.attrs.dilation,
            ),
        ),
        0.0,
        False,
        adds=True,
    ),
    text=lambda node, args: (
        f"_fold({args[0]}, {shape_text(node.attrs.shape)}, {node.attrs.axes}, "
        f"{shape_text(node.attrs.stride)}, {node.attrs.dilation})"
    ),
    accepts=ANY_NUMBER,
    doc="The transpose of `window`: windows put back where they stand, what overlaps added up.",
)


def along(
    x: Tensor,
    axes: Sequence[int],
    taps: Sequence[Dim],
    stride: Sequence[Dim],
    dilation: Sequence[int],
) -> Tensor:
    """`window`; the same tensor where there are no axes."""
    if not axes:
        return x
    return window(
        x,
        axes=tuple(axes),
        taps=tuple(taps),
        stride=tuple(stride),
        dilation=tuple(dilation),
    )


def padded(
    x: Tensor, axes: Sequence[int], pairs: Sequence[tuple[Dim, Dim]], fill: Any = 0
) -> Tensor:
    """`x` with so many elements of `fill` before and behind along the axes; numbers below 0 take
    elements away."""
    less = [(_excess(a), _excess(b)) for a, b in pairs]
    more = [(a + c, b + d) for (a, b), (c, d) in zip(pairs, less, strict=True)]
    return _put_around(_taken_away(x, axes, less), axes, more, fill)


def cropped(x: Tensor, axes: Sequence[int], pairs: Sequence[tuple[Dim, Dim]]) -> Tensor:
    """`x` without so many elements before and behind along the axes; numbers below 0 put zeros
    there."""
    more = [(_excess(a), _excess(b)) for a, b in pairs]
    less = [(a + c, b + d) for (a, b), (c, d) in zip(pairs, more, strict=True)]
    return _put_around(_taken_away(x, axes, less), axes, more, 0)


def _excess(d: Dim) -> int:
    """How much a number is below 0."""
    return -d if isinstance(d, int) and d < 0 else 0


def _taken_away(
    x: Tensor, axes: Sequence[int], pairs: Sequence[tuple[Dim, Dim]]
) -> Tensor:
    if all(pair == (0, 0) for pair in pairs):
        return x
    start: list[Dim] = [0] * x.ndim
    stop = list(x.shape)
    for k, (before, after) in zip(axes, pairs, strict=True):
        start[k], stop[k] = before, stop[k] - after
    return slice_op(x, start=tuple(start), stop=tuple(stop), step=(1,) * x.ndim)


def _put_around(
    x: Tensor, axes: Sequence[int], pairs: Sequence[tuple[Dim, Dim]], fill: Any
) -> Tensor:
    if all(pair == (0, 0) for pair in pairs):
        return x
    start: list[Dim] = [0] * x.ndim
    shape = list(x.shape)
    for k, (before, after) in zip(axes, pairs, strict=True):
        start[k], shape[k] = before, before + shape[k] + after
    more = {} if fill == 0 else {"fill": fill}
    ones = (1,) * x.ndim
    return embed(x, shape=tuple(shape), start=tuple(start), step=ones, **more)


def tap_slice(
    x: Tensor,
    axes: Sequence[int],
    tap: Sequence[int],
    counts: Sequence[Dim],
    stride: Sequence[Dim],
    dilation: Sequence[int],
) -> Tensor:
    """The elements that one tap of all windows meets: `window` at a place inside the windows."""
    start: list[Dim] = [0] * x.ndim
    stop = list(x.shape)
    step: list[Dim] = [1] * x.ndim
    for a, t, n, s, e in zip(axes, tap, counts, stride, dilation, strict=True):
        start[a], step[a] = t * e, s
        stop[a] = t * e + (n - 1) * s + 1
    if start == [0] * x.ndim and stop == list(x.shape) and step == [1] * x.ndim:
        return x
    return slice_op(x, start=tuple(start), stop=tuple(stop), step=tuple(step))


def tap_embed(
    y: Tensor,
    shape: Shape,
    axes: Sequence[int],
    tap: Sequence[int],
    stride: Sequence[Dim],
    dilation: Sequence[int],
) -> Tensor:
    """The transpose of `tap_slice`: zeros of `shape` with `y` where the tap meets them."""
    start: list[Dim] = [0] * y.ndim
    step: list[Dim] = [1] * y.ndim
    for a, t, s, e in zip(axes, tap, stride, dilation, strict=True):
        start[a], step[a] = t * e, s
    return embed(y, shape=shape, start=tuple(start), step=tuple(step))


SHORT = 16
"""Windows of so many taps at most are written out, tap by tap."""


def all_taps(taps: Sequence[Dim], limit: int = SHORT) -> list[tuple[int, ...]] | None:
    """The places inside a window in row-major order; None where they are many or unknown."""
    known = [n for n in taps if isinstance(n, int)]
    if len(known) < len(taps) or prod(known) > limit:
        return None
    return list(itertools.product(*map(range, known)))


# --------------------------------------------------------------------- what a user says

Padding = Any
"""`"valid"`, `"same"`, a number, or a pair (before, behind) for each axis."""

LAYOUTS = {
    1: ({"NCW", "NCL", "NCHW"}, {"NWC", "NLC", "NHWC"}),
    2: ({"NCHW"}, {"NHWC"}),
    3: ({"NCDHW", "NCHW"}, {"NDHWC", "NHWC"}),
}


def channels_last(name: str, layout: Any, rank: int) -> bool:
    """Whether the channels are the last axis; OptionError for an unknown layout."""
    first, last = LAYOUTS[rank]
    if layout in first or layout in last:
        return layout in last
    raise OptionError(
        f"{name}: expected a layout of NCHW (channels before the spatial axes) or NHWC (behind "
        f"them), found {layout!r}"
    )


def whole_numbers(name: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    """A positive int, or one an axis."""
    listed = list(value) if isinstance(value, tuple | list) else [value] * rank
    if len(listed) != rank:
        raise OptionError(
            f"{name}: {what} must be a number or {rank}, one an axis, found {len(listed)}"
        )
    for n in listed:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise OptionError(f"{name}: {what} must be an int from 1 on, found {n!r}")
    return tuple(int(n) for n in listed)


def pairs_of(
    name: str,
    padding: Padding,
    spatial: Sequence[Dim],
    taps: Sequence[Dim],
    stride: Sequence[Dim],
    dilation: Sequence[int],
) -> Pairs:
    """The padding before and behind each axis."""
    rank = len(spatial)
    if padding == "valid":
        return ((0, 0),) * rank
    if padding == "same":
        axes = zip(spatial, taps, stride, dilation, strict=True)
        return tuple(_same(name, d, reach(n, e), s) for d, n, s, e in axes)
    if isinstance(padding, str):
        raise OptionError(
            f"{name}: expected a padding of 'valid', 'same' or pairs, found {padding!r}"
        )
    listed = (
        padding if isinstance(padding, tuple | list) else [(padding, padding)] * rank
    )
    if rank == 1 and len(listed) == 2 and not isinstance(listed[0], tuple | list):
        listed = [listed]
    found = []
    for pair in listed:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            break
        sizes = sizes_of(pair, f"{name}: padding")
        found.append((sizes[0], sizes[1]))
    else:
        if len(found) == rank:
            return tuple(found)
    pairs = ", ".join(["(1, 1)"] * rank) + ("," if rank == 1 else "")
    raise OptionError(
        f"{name}: padding must be 'valid', 'same', a number, or {rank} pairs (before, behind)",
        hint=f"write padding=({pairs})",
    )


def _same(name: str, d: Dim, span: Dim, stride: Dim) -> tuple[Dim, Dim]:
    """The padding for which there are `d / stride` places, rounded up; the smaller half first."""
    total = (dim_floordiv(d + (stride - 1), stride) - 1) * stride + span - d
    if isinstance(total, int):
        total = max(total, 0)
    elif not is_nonnegative(span - stride):
        if is_nonnegative(-total):
            total = 0
        else:
            raise ShapeError(
                f"{name}: how far 'same' pads an axis of {dim_text(d)} for windows of "
                f"{dim_text(span)} at every {dim_text(stride)} depends on its size",
                hint=f"give the padding as pairs, or declare the axis as a multiple of "
                f"{dim_text(stride)}",
            )
    before = dim_floordiv(total, 2)
    return before, total - before


def image_of(name: str, x: Tensor, rank: int) -> None:
    """ShapeError where `x` has not a batch, channels and `rank` spatial axes."""
    if x.ndim == rank + 2:
        return
    hint = "x[None] puts in a batch of one" if x.ndim == rank + 1 else ""
    if x.ndim == rank:
        hint = "x[None, None] puts in a batch of one and one channel (NHWC: x[None, ..., None])"
    raise ShapeError(
        f"{name}: expected images of rank {rank + 2} (batch, channels, {rank} spatial axes), "
        f"found {x.type}",
        hint=hint,
    )


@function("sliding_window_view")
def sliding_window_view(
    x: TensorLike, window_shape: Any, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """All windows of this shape over all axes, or over those listed; inside the windows run the
    last axes of the result."""
    t = as_tensor(x)
    taps = sizes_of(window_shape, "sliding_window_view: window_shape")
    listed = range(t.ndim) if axis is None else axis
    axes = [
        axis_of(k, t.ndim)
        for k in (listed if isinstance(listed, tuple | list | range) else (listed,))
    ]
    if len(axes) != len(taps):
        raise ShapeError(
            f"sliding_window_view: {len(taps)} lengths of windows for {len(axes)} axes"
        )
    for k in axes:
        if (
            axes.count(k) > 1
        ):  # windows of windows: the places of the first are those left
            one = sliding_window_view(t, taps[0], axes[0])
            return sliding_window_view(one, tuple(taps[1:]), tuple(axes[1:]))
    order = sorted(range(len(axes)), key=axes.__getitem__)
    ones = (1,) * len(axes)
    found = along(t, sorted(axes), [taps[k] for k in order], ones, ones)
    inside = [t.ndim + order.index(k) for k in range(len(axes))]
    return permuted(found, [*range(t.ndim), *inside])

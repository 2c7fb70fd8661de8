"""Rows of windows, convolutions and pooling; their meaning element by element."""

from __future__ import annotations

import itertools

import numpy as np
from rows import Row

from gradc.ops.arrange import reshape
from gradc.ops.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose2d,
    convolve,
    correlate,
)
from gradc.ops.image import depth_to_space, resize, space_to_depth
from gradc.ops.keys import index_constant as T
from gradc.ops.pool import avg_pool, max_pool, window_pick
from gradc.ops.window import fold, sliding_window_view, window
from gradc.types import int64


def filtered(x, w, stride=1, pads=0, dilation=1, groups=1):
    """A convolution, channels first, one element after the other."""
    rank = x.ndim - 2
    steps = [stride] * rank if isinstance(stride, int) else stride
    gaps = [dilation] * rank if isinstance(dilation, int) else dilation
    pairs = [(pads, pads)] * rank if isinstance(pads, int) else pads
    whole = np.pad(x, [(0, 0), (0, 0), *pairs])
    taps = w.shape[2:]
    spans = [(k - 1) * d + 1 for k, d in zip(taps, gaps)]
    counts = [(n - r) // s + 1 for n, r, s in zip(whole.shape[2:], spans, steps)]
    out = np.zeros((len(x), len(w), *counts), x.dtype)
    each, seen = len(w) // groups, w.shape[1]
    for f in range(len(w)):
        first = f // each * seen
        for place in itertools.product(*map(range, counts)):
            key = tuple(
                slice(i * s, i * s + r, d)
                for i, s, r, d in zip(place, steps, spans, gaps)
            )
            part = whole[(slice(None), slice(first, first + seen), *key)]
            product = part * w[f]
            out[(slice(None), f, *place)] = np.sum(
                product, axis=tuple(range(1, x.ndim))
            )
    return out


def transposed(y, w, stride, pads, shape):
    """The transpose of `filtered` by images with these spatial axes, column by column."""
    size = (1, w.shape[1], *shape)
    out = np.zeros((len(y), *size[1:]), y.dtype)
    for place in np.ndindex(size):
        one = np.zeros(size, y.dtype)
        one[place] = 1
        seen = filtered(one, w, stride, pads)
        out[(slice(None), *place[1:])] = np.sum(seen * y, axis=tuple(range(1, y.ndim)))
    return out


def last(x):
    """Images with the channels behind."""
    return np.moveaxis(x, 1, -1)


def first(x):
    return np.moveaxis(x, -1, 1)


def filters_last(w):
    return np.moveaxis(w, (0, 1), (-1, -2))


def filters_first(w):
    return np.moveaxis(w, (-1, -2), (0, 1))


def folded(y, size, step, gap):
    out = np.zeros((len(y), size), y.dtype)
    for i in range(y.shape[1]):
        for k in range(y.shape[2]):
            out[:, i * step + k * gap] += y[:, i, k]
    return out


OPS = [
    Row(
        "window",
        ("N 9",),
        lambda x: window(x, axes=(1,), taps=(3,), stride=(2,), dilation=(2,)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 5, 1)[:, ::2, ::2],
    ),
    Row(
        "window of two axes, one symbolic",
        ("N 4 M",),
        lambda x: window(x, axes=(0, 2), taps=(2, 3), stride=(1, 2), dilation=(1, 1)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (0, 2))[
            :, :, ::2
        ],
        zero=False,
    ),
    Row(
        "fold",
        ("N 3 2",),
        lambda y: fold(y, shape=(y.shape[0], 7), axes=(1,), stride=(2,), dilation=(2,)),
        lambda y: folded(y, 7, 2, 2),
    ),
    Row(
        "sliding_window_view",
        ("N 3",),
        lambda x: sliding_window_view(x, (2, 2)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2)),
        zero=False,
    ),
    Row(
        "sliding_window_view of windows",
        ("2 7",),
        lambda x: sliding_window_view(x, (2, 3), (1, -1)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3), (1, -1)),
    ),
]


def conv_row(name, shapes, build, numpy, **more):
    more.setdefault("order", 2)
    return Row(name, shapes, build, numpy, **more)


CONVOLUTIONS = [
    conv_row(
        "conv1d, strided, a column unread",
        ("B 2 6", "3 2 3"),
        lambda x, w: conv1d(x, w, 2),
        lambda x, w: filtered(x, w, 2),
    ),
    conv_row(
        "conv2d by products of taps",
        ("B 1 N 5", "2 1 2 3"),
        lambda x, w: conv2d(x, w, padding=((1, 0), (0, 2))),
        lambda x, w: filtered(x, w, 1, [(1, 0), (0, 2)]),
        zero=False,
    ),
    conv_row(
        "conv2d by windows, symbolic",
        ("B 3 N M", "2 3 2 3"),
        lambda x, w: conv2d(x, w, padding="same"),
        lambda x, w: filtered(x, w, 1, [(0, 1), (1, 1)]),
        zero=False,
    ),
    conv_row(
        "conv2d with strides, dilated",
        ("B 3 7 8", "2 3 2 3"),
        lambda x, w: conv2d(x, w, (2, 3), ((1, 1), (0, 1)), (2, 1)),
        lambda x, w: filtered(x, w, (2, 3), [(1, 1), (0, 1)], (2, 1)),
    ),
    conv_row(
        "conv2d in groups",
        ("B 6 4 3", "4 3 2 3"),
        lambda x, w: conv2d(x, w, 1, 1, groups=2),
        lambda x, w: filtered(x, w, 1, 1, groups=2),
    ),
    conv_row(
        "conv2d in groups with strides",
        ("B 6 5 3", "4 3 3 2"),
        lambda x, w: conv2d(x, w, (2, 1), ((0, 0), (1, 0)), groups=2),
        lambda x, w: filtered(x, w, (2, 1), [(0, 0), (1, 0)], groups=2),
    ),
    conv_row(
        "depthwise conv2d",
        ("B 3 N 4", "6 1 2 2"),
        lambda x, w: conv2d(x, w, groups=3),
        lambda x, w: filtered(x, w, groups=3),
        zero=False,
    ),
    conv_row(
        "depthwise conv2d with strides",
        ("B 3 5 4", "3 1 3 2"),
        lambda x, w: conv2d(x, w, 2, "same", groups=3),
        lambda x, w: filtered(x, w, 2, [(1, 1), (0, 0)], groups=3),
    ),
    conv_row(
        "conv2d of one tap",
        ("B 5 3 N", "4 5 1 1"),
        lambda x, w: conv2d(x, w, (2, 1)),
        lambda x, w: filtered(x, w, (2, 1)),
    ),
    conv_row(
        "conv2d of one row",
        ("B 5 3 4", "4 5 1 3"),
        lambda x, w: conv2d(x, w),
        lambda x, w: filtered(x, w),
    ),
    conv_row(
        "conv2d, channels last",
        ("B 4 N 3", "2 3 3 2"),
        lambda x, w: conv2d(x, w, layout="NHWC", padding="same"),
        lambda x, w: last(filtered(first(x), filters_first(w), 1, [(0, 1), (1, 1)])),
        zero=False,
    ),
    conv_row(
        "conv2d, channels last, in groups with strides",
        ("B 5 4 6", "2 3 3 4"),
        lambda x, w: conv2d(x, w, (2, 1), ((1, 0), (0, 0)), 1, 2, "NHWC"),
        lambda x, w: last(
            filtered(first(x), filters_first(w), (2, 1), [(1, 0), (0, 0)], 1, 2)
        ),
    ),
    conv_row(
        "conv2d by products of taps, channels last",
        ("B 3 4 2", "1 2 2 3"),
        lambda x, w: conv2d(x, w, (2, 1), layout="NHWC"),
        lambda x, w: last(filtered(first(x), filters_first(w), (2, 1))),
    ),
    conv_row(
        "conv2d of one row with strides, in groups",
        ("B 6 5 7", "4 3 1 7"),
        lambda x, w: conv2d(x, w, (2, 3), ((1, 0), (2, 1)), groups=2),
        lambda x, w: filtered(x, w, (2, 3), [(1, 0), (2, 1)], groups=2),
    ),
    conv_row(
        "depthwise conv2d, channels last",
        ("B 3 4 3", "2 2 1 3"),
        lambda x, w: conv2d(x, w, groups=3, layout="NHWC"),
        lambda x, w: last(filtered(first(x), filters_first(w), groups=3)),
    ),
    conv_row(
        "conv3d",
        ("B 2 3 4 3", "2 2 2 3 2"),
        lambda x, w: conv3d(x, w, (1, 2, 1), 1),
        lambda x, w: filtered(x, w, (1, 2, 1), 1),
        order=1,
    ),
    conv_row(
        "conv1d with symbolic filters",
        ("B K N", "3 K M"),
        lambda x, w: conv1d(x, w),
        lambda x, w: filtered(x, w),
        zero=False,
    ),
    conv_row(
        "conv2d of integers",
        ("1 2 4 4", "2 2 3 3"),
        conv2d,
        filtered,
        dtypes=(int64,),
        order=0,
    ),
    conv_row(
        "conv_transpose2d",
        ("B 2 3 4", "2 3 2 3"),
        lambda y, w: conv_transpose2d(y, w, (2, 1), ((0, 1), (1, 1))),
        lambda y, w: transposed(y, w, (2, 1), [(0, 1), (1, 1)], (5, 4)),
    ),
    conv_row(
        "conv_transpose2d, same, channels last",
        ("B M 3 2", "3 2 3 2"),
        lambda y, w: conv_transpose2d(y, w, 2, "same", layout="NHWC"),
        lambda y, w: last(
            transposed(
                first(y),
                filters_first(w),
                2,
                [(0, 1), (0, 0)],
                [2 * d for d in y.shape[1:3]],
            )
        ),
        zero=False,
    ),
    *(
        conv_row(
            f"{name.__name__}, {mode}, {a} and {v}",
            (a, v),
            lambda x, y, name=name, mode=mode: name(x, y, mode),
            lambda x, y, name=name, mode=mode: getattr(np, name.__name__)(x, y, mode),
            zero=False,
            tolerance=10,
        )
        for name in (convolve, correlate)
        for mode in ("full", "same", "valid")
        for a, v in (("N", "M"), ("2", "5"), ("20", "18"))
    ),
]


# ----------------------------------------------------------------------------- pooling


def pooled(x, window, stride, pads, combine):
    """A pooling, channels first, one window after the other, of what is no padding."""
    rank = x.ndim - 2
    counts = [
        (n + a + b - k) // s + 1
        for n, k, s, (a, b) in zip(x.shape[2:], window, stride, pads)
    ]
    out = np.zeros((*x.shape[:2], *counts), x.dtype)
    for place in itertools.product(*map(range, counts)):
        key = tuple(
            slice(max(i * s - a, 0), i * s - a + k)
            for i, s, k, (a, _) in zip(place, stride, window, pads)
        )
        part = x[(slice(None), slice(None), *key)]
        out[(slice(None), slice(None), *place)] = combine(
            part, axis=tuple(range(2, 2 + rank))
        )
    return out


def apart(rng, shapes):
    """Elements that differ by an eighth at least."""
    count = int(np.prod(shapes[0]))
    return [(rng.permutation(count) / 8 - 1).reshape(shapes[0])]


def rows_of(name, combine, draw):
    call = {"max": max_pool, "mean": avg_pool}[name]

    def row(what, shape, window, stride=None, padding="valid", **more):
        pads = more.pop("pads", [(0, 0)] * len(window))
        layout = more.pop("layout", "NCHW")
        steps = stride or window
        steps = (steps,) * len(window) if isinstance(steps, int) else steps

        def numpy(x):
            if layout == "NCHW":
                return pooled(x, window, steps, pads, combine)
            first = pooled(np.moveaxis(x, -1, 1), window, steps, pads, combine)
            return np.moveaxis(first, 1, -1)

        return Row(
            f"{name}, {what}",
            (shape,),
            lambda x: call(x, window, stride, padding, layout),
            numpy,
            draw=draw,
            **more,
        )

    return [
        row("tiles", "B 3 4 6", (2, 2)),
        row("tiles, the last column unread", "B 1 5 N", (2, 2), zero=False),
        row(
            "overlapping, same",
            "B 2 5 N",
            (3, 3),
            2,
            "same",
            pads=[(1, 1), (0, 1)],
            zero=False,
        ),
        row(
            "padded on one side, channels last",
            "B 4 5 2",
            (2, 3),
            1,
            ((1, 0), (0, 2)),
            pads=[(1, 0), (0, 2)],
            layout="NHWC",
        ),
        row("of one axis", "B 2 9", (3,), 2),
        row("long windows", "1 2 6 7", (5, 4), (1, 2), 1, pads=[(1, 1), (1, 1)]),
        row("very long windows", "1 1 2 40", (1, 18), (1, 5), "valid", order=1),
        row("of three axes", "1 2 3 4 4", (2, 1, 2), (1, 2, 2)),
        row("without windows", "B 2 3", (1,)),
    ]


POOLING = [
    Row(
        "window_pick",
        ("4 5",),
        lambda x: window_pick(x, T([[1, 0]] * 4), axes=(1,), taps=(3,), stride=(2,)),
        lambda x: x[:, [1, 2]],
        zero=False,
    ),
    *rows_of("max", np.max, apart),
    *rows_of("mean", np.mean, None),
    Row(
        "max of all, by symbols",
        ("B 2 N M",),
        lambda x: max_pool(x, x.shape[2:]),
        lambda x: np.max(x, axis=(2, 3), keepdims=True),
        draw=apart,
        zero=False,
    ),
    Row(
        "max of integers",
        ("1 1 4 4",),
        lambda x: max_pool(x, 2, 1, 1),
        lambda x: pooled(x, (2, 2), (1, 1), [(1, 1), (1, 1)], np.max),
        dtypes=(int64,),
        order=0,
    ),
    Row(
        "mean of integers",
        ("1 1 4 4",),
        lambda x: avg_pool(x, 2),
        lambda x: pooled(1.0 * x, (2, 2), (2, 2), [(0, 0)] * 2, np.mean),
        dtypes=(int64,),
        order=0,
    ),
]


# ----------------------------------------------------------------------------- images


def in_blocks(x, n):
    """`space_to_depth`, pixel by pixel."""
    b, c, h, w = x.shape
    out = np.zeros((b, n * n * c, h // n, w // n), x.dtype)
    for i, j in np.ndindex(n, n):
        out[:, (i * n + j) * c : (i * n + j + 1) * c] = x[:, :, i::n, j::n]
    return out


def out_of_blocks(x, n):
    b, c, h, w = x.shape
    each = c // (n * n)
    out = np.zeros((b, each, h * n, w * n), x.dtype)
    for i, j in np.ndindex(n, n):
        out[:, :, i::n, j::n] = x[:, (i * n + j) * each : (i * n + j + 1) * each]
    return out


def places(d, size, coordinates):
    """Where the pixels of an axis of `size` lie on one of `d`."""
    k = np.arange(size)
    if coordinates == "half_pixel":
        return (k + 0.5) * d / size - 0.5
    if coordinates == "asymmetric":
        return k * d / size
    return k * (d - 1) / max(size - 1, 1)


def resized(x, sizes, method, coordinates, first=2):
    for k, size in enumerate(sizes, start=first):
        at = np.clip(places(x.shape[k], size, coordinates), 0, x.shape[k] - 1)
        if method == "nearest":
            x = np.take(x, np.floor(at + 0.5 + 1e-9).astype(int), k)
            continue
        low = np.floor(at + 1e-9).astype(int)
        kind = x.dtype if x.dtype.kind == "f" else np.float64
        share = (
            (at - low)
            .astype(kind)
            .reshape([-1 if m == k else 1 for m in range(x.ndim)])
        )
        high = np.minimum(low + 1, x.shape[k] - 1)
        x = (1 - share) * np.take(x, low, k) + share * np.take(x, high, k)
    return x


IMAGES = [
    Row(
        "space_to_depth",
        ("B 2 4 6",),
        lambda x: space_to_depth(x, 2),
        lambda x: in_blocks(x, 2),
    ),
    Row(
        "space_to_depth, channels last",
        ("B 4 2 3",),
        lambda x: space_to_depth(x, 2, "NHWC"),
        lambda x: last(in_blocks(first(x), 2)),
    ),
    Row(
        "depth_to_space",
        ("B 8 N 3",),
        lambda x: depth_to_space(x, 2),
        lambda x: out_of_blocks(x, 2),
    ),
    Row(
        "depth_to_space, channels last",
        ("B N 2 8",),
        lambda x: depth_to_space(x, 2, "NHWC"),
        lambda x: last(out_of_blocks(first(x), 2)),
    ),
    *(
        Row(
            f"resize {n} to {size}, {method}, {coordinates}",
            (f"2 {n}",),
            lambda x, size=size, method=method, coordinates=coordinates: resize(
                reshape(x, (1, *x.shape)), size, method, "NCW", coordinates
            ),
            lambda x, size=size, method=method, coordinates=coordinates: resized(
                x[None], (size,), method, coordinates
            ),
            zero=False,
            tolerance=10,
        )
        for n, size in (("N", 6), ("5", 3), ("6", 2), ("4", 1), ("3", 7))
        for method in ("nearest", "linear")
        for coordinates in ("half_pixel", "align_corners", "asymmetric")
    ),
    Row(
        "resize to twice the size",
        ("B N 3 2",),
        lambda x: resize(x, (2 * x.shape[1], 6), layout="NHWC"),
        lambda x: np.repeat(np.repeat(x, 2, 1), 2, 2),
    ),
    Row(
        "resize of integers",
        ("1 1 2 2",),
        lambda x: resize(x, 3, "linear"),
        lambda x: resized(x, (3, 3), "linear", "half_pixel"),
        dtypes=(int64,),
        order=0,
    ),
]

ROWS = [*OPS, *CONVOLUTIONS, *POOLING, *IMAGES]

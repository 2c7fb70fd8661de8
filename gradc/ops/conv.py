"""Convolutions and correlations.

A convolution is an op of its own, as are the two maps that its derivative is: by the images and
by the filters. The three are closed under differentiation, and only then become windows and
contractions, or products of a few taps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradc.errors import InternalError, OptionError, ShapeError
from gradc.graph import Node, Tensor
from gradc.ops import arraylib
from gradc.ops.basic import add_n, numpy_dim, numpy_shape
from gradc.ops.complex import conjugate
from gradc.ops.contract import contracted, numbers
from gradc.ops.functions import TensorLike, function
from gradc.ops.registry import Op, bilinear
from gradc.ops.shape import (
    concatenate_op,
    demanded,
    flip_op,
    permuted,
    reshaped,
    slice_op,
    unproved,
)
from gradc.ops.window import (
    SHORT,
    Padding,
    Pairs,
    all_taps,
    along,
    channels_last,
    cropped,
    fold,
    image_of,
    padded,
    pairs_of,
    positions,
    reach,
    spare,
    tap_embed,
    tap_slice,
    whole_numbers,
    windows_of,
)
from gradc.types import (
    Dim,
    Poly,
    Shape,
    TensorType,
    dim_floordiv,
    dim_text,
    exact_quotient,
    is_nonnegative,
)

__all__ = ["conv", "conv_filter", "conv_input"]


# ---------------------------------------------------------------- convolutions: geometry


@dataclass(frozen=True, slots=True)
class Geometry:
    """How filters go over images: attributes of the three ops, one entry a spatial axis.

    `groups` divides the channels; `last` says that they are the last axis (and in filters the
    last two), else the first behind the batch (in filters: the first two).
    """

    stride: tuple[int, ...]
    padding: Pairs
    dilation: tuple[int, ...]
    groups: int
    last: bool

    @classmethod
    def of(cls, node: Node) -> Geometry:
        a = node.attrs
        return cls(a.stride, a.padding, a.dilation, a.groups, a.last)

    @property
    def rank(self) -> int:
        return len(self.stride)

    @property
    def axes(self) -> tuple[int, ...]:
        """The spatial axes of images."""
        first = 1 if self.last else 2
        return tuple(range(first, first + self.rank))

    @property
    def channel(self) -> int:
        """The axis of the channels of images."""
        return self.rank + 1 if self.last else 1

    def attrs(self) -> dict[str, Any]:
        return {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "last": self.last,
        }

    def image(self, batch: Dim, channels: Dim, spatial: Sequence[Dim]) -> Shape:
        """The shape of images."""
        inside = (*spatial, channels) if self.last else (channels, *spatial)
        return (batch, *inside)

    def filters(self, out: Dim, inside: Dim, taps: Sequence[Dim]) -> Shape:
        """The shape of filters."""
        return (*taps, inside, out) if self.last else (out, inside, *taps)

    def spatial(self, shape: Shape) -> Shape:
        """The spatial axes of images of this shape."""
        return tuple(shape[a] for a in self.axes)

    def parts(self, shape: Shape) -> tuple[Dim, Dim, Shape]:
        """(filters, channels that each of them sees, taps) of filters of this shape."""
        if self.last:
            return shape[-1], shape[-2], shape[:-2]
        return shape[0], shape[1], shape[2:]

    def out(self, spatial: Sequence[Dim], taps: Sequence[Dim]) -> Shape:
        """The spatial axes of the result."""
        padded_ = [a + d + b for d, (a, b) in zip(spatial, self.padding, strict=True)]
        return tuple(map(positions, padded_, taps, self.stride, self.dilation))


def _conv_type(
    x: TensorType,
    w: TensorType,
    *,
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int,
    last: bool,
) -> TensorType:
    g = Geometry(stride, padding, dilation, groups, last)
    ranks = {len(stride), len(padding), len(dilation), x.ndim - 2, w.ndim - 2}
    if len(ranks) > 1 or not stride:
        raise InternalError(f"conv: {x} and {w} by {g}")
    out, inside, taps = g.parts(w.shape)
    if inside * groups != x.shape[g.channel] or exact_quotient(out, groups) is None:
        raise InternalError(f"conv: filters {w} for {x} in {groups} groups")
    return x.with_shape(g.image(x.shape[0], out, g.out(g.spatial(x.shape), taps)))


def _conv_input_type(
    y: TensorType,
    w: TensorType,
    *,
    shape: Shape,
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int,
    last: bool,
) -> TensorType:
    g = Geometry(stride, padding, dilation, groups, last)
    if not len(shape) == len(stride) == y.ndim - 2 == w.ndim - 2:
        raise InternalError(f"conv_input: {y} and {w} by {g}")
    x = TensorType(y.dtype, g.image(y.shape[0], g.parts(w.shape)[1] * g.groups, shape))
    if _conv_type(x, w, **g.attrs()).shape != y.shape:
        raise InternalError(f"conv_input: {y} and {w} for {x}")
    return x


def _conv_filter_type(
    x: TensorType,
    y: TensorType,
    *,
    shape: Shape,
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int,
    last: bool,
) -> TensorType:
    g = Geometry(stride, padding, dilation, groups, last)
    if not len(shape) == len(stride) == x.ndim - 2 == y.ndim - 2:
        raise InternalError(f"conv_filter: {x} and {y} by {g}")
    inside = exact_quotient(x.shape[g.channel], g.groups)
    if inside is None:
        raise InternalError(f"conv_filter: {x} in {g.groups} groups")
    w = TensorType(y.dtype, g.filters(y.shape[g.channel], inside, shape))
    if _conv_type(x, w, **g.attrs()).shape != y.shape:
        raise InternalError(f"conv_filter: {x} and {y} for {w}")
    return w


# ------------------------------------------------------------- convolutions: in NumPy


def _first(x: Any, g: Geometry) -> Any:
    """Images with the channels in front, split into groups."""
    moved = np.moveaxis(x, g.channel, 1)
    each = moved.shape[1] // g.groups
    return moved.reshape(len(moved), g.groups, each, *moved.shape[2:])


def _first_filters(w: Any, g: Geometry) -> Any:
    """Filters as (group, filter, channel, taps)."""
    moved = np.moveaxis(w, (-1, -2), (0, 1)) if g.last else w
    return moved.reshape(g.groups, len(moved) // g.groups, *moved.shape[1:])


def _settled(y: Any, g: Geometry) -> Any:
    """The inverse of `_first`."""
    whole = y.reshape(len(y), y.shape[1] * y.shape[2], *y.shape[3:])
    return np.ascontiguousarray(np.moveaxis(whole, 1, g.channel))


N, G, O, C, P, T = 0, 1, 2, 3, 10, 30
"""Labels: batch, group, filter, channel; from P on places, from T on taps."""


def _labels(g: Geometry) -> tuple[list[int], list[int]]:
    return [P + k for k in range(g.rank)], [T + k for k in range(g.rank)]


def _numpy_windows(x: Any, taps: Sequence[int], g: Geometry, sizes: Any) -> Any:
    """(batch, group, channel, places, taps) of padded images."""
    pairs = [(numpy_dim(a, sizes), numpy_dim(b, sizes)) for a, b in g.padding]
    first = _first(x, g)
    whole = np.pad(first, [(0, 0)] * 3 + [(max(a, 0), max(b, 0)) for a, b in pairs])
    key: list[Any] = [slice(None)] * 3
    for d, (a, b) in zip(whole.shape[3:], pairs, strict=True):
        key.append(slice(max(-a, 0), d - max(-b, 0)))
    axes = tuple(range(3, 3 + g.rank))
    return windows_of(whole[tuple(key)], axes, taps, g.stride, g.dilation)


def _numpy_conv(x: Any, w: Any, *, sizes: dict[str, int], **attrs: Any) -> Any:
    g = Geometry(**attrs)
    filters = _first_filters(w, g)
    places, taps = _labels(g)
    windows = _numpy_windows(x, filters.shape[3:], g, sizes)
    operands = (windows, [N, G, C, *places, *taps], filters, [G, O, C, *taps])
    y = np.einsum(*operands, [N, G, O, *places], optimize=True)
    return _settled(y.astype(x.dtype, copy=False), g)


def _numpy_conv_input(
    y: Any, w: Any, *, shape: Shape, sizes: dict[str, int], **attrs: Any
) -> Any:
    g = Geometry(**attrs)
    filters = _first_filters(w, g)
    places, taps = _labels(g)
    operands = (_first(y, g), [N, G, O, *places], filters, [G, O, C, *taps])
    windows = np.einsum(*operands, [N, G, C, *places, *taps], optimize=True)
    pairs = [(numpy_dim(a, sizes), numpy_dim(b, sizes)) for a, b in g.padding]
    numbers_ = numpy_shape(shape, sizes)
    whole = [a + d + b for d, (a, b) in zip(numbers_, pairs, strict=True)]
    axes = tuple(range(3, 3 + g.rank))
    found = arraylib._fold(
        windows, (*windows.shape[:3], *whole), axes, g.stride, g.dilation
    )
    out = np.zeros((*windows.shape[:3], *numbers_), y.dtype)
    source: list[Any] = [slice(None)] * 3
    target: list[Any] = [slice(None)] * 3
    for d, (a, b) in zip(numbers_, pairs, strict=True):
        source.append(slice(max(a, 0), a + d + b - max(b, 0)))
        target.append(slice(max(-a, 0), d - max(-b, 0)))
    out[tuple(target)] = found[tuple(source)]
    return _settled(out, g)


def _numpy_conv_filter(
    x: Any, y: Any, *, shape: Shape, sizes: dict[str, int], **attrs: Any
) -> Any:
    g = Geometry(**attrs)
    places, taps = _labels(g)
    windows = _numpy_windows(x, numpy_shape(shape, sizes), g, sizes)
    operands = (windows, [N, G, C, *places, *taps], _first(y, g), [N, G, O, *places])
    w = np.einsum(*operands, [G, O, C, *taps], optimize=True).astype(
        x.dtype, copy=False
    )
    whole = w.reshape(w.shape[0] * w.shape[1], *w.shape[2:])
    return np.ascontiguousarray(
        np.moveaxis(whole, (0, 1), (-1, -2)) if g.last else whole
    )


# ------------------------------------------------------------ convolutions: expansion


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A tensor and a label an axis."""

    tensor: Tensor
    labels: tuple[int, ...]

    def without_ones(self) -> _Labelled:
        """Without the axes of length 1 that are no places."""
        kept = [
            k
            for k, (d, v) in enumerate(zip(self.tensor.shape, self.labels, strict=True))
            if d != 1 or P <= v < T
        ]
        shape = tuple(self.tensor.shape[k] for k in kept)
        return _Labelled(
            reshaped(self.tensor, shape), tuple(self.labels[k] for k in kept)
        )

    def ordered(self, order: Sequence[int]) -> _Labelled:
        """The axes in the order of these labels, of which it may lack some."""
        labels = tuple(v for v in order if v in self.labels)
        perm = [self.labels.index(v) for v in labels]
        return _Labelled(permuted(self.tensor, perm), labels)

    def size(self, label: int) -> Dim:
        """The length of an axis, 1 where it has none of the label."""
        if label not in self.labels:
            return 1
        return self.tensor.shape[self.labels.index(label)]


def _images(x: Tensor, channels: int, places: Sequence[int], g: Geometry) -> _Labelled:
    """Images with their channels split into groups; `channels` labels those of a group."""
    k = g.channel
    inside = exact_quotient(x.shape[k], g.groups)
    assert inside is not None
    split = (*x.shape[:k], g.groups, inside, *x.shape[k + 1 :])
    labels = (N, *places, G, channels) if g.last else (N, G, channels, *places)
    if g.groups == 1:
        split = x.shape
        labels = tuple(v for v in labels if v != G)
    return _Labelled(reshaped(x, split), labels).without_ones()


def _filters(w: Tensor, taps: Sequence[int], g: Geometry) -> _Labelled:
    """Filters split into groups."""
    out, inside, sizes = g.parts(w.shape)
    each = exact_quotient(out, g.groups)
    assert each is not None
    if g.last:
        split, labels = (*sizes, inside, g.groups, each), (*taps, C, G, O)
    else:
        split, labels = (g.groups, each, inside, *sizes), (G, O, C, *taps)
    if g.groups == 1:
        split = w.shape
        labels = tuple(v for v in labels if v != G)
    return _Labelled(reshaped(w, split), labels).without_ones()


def _order(g: Geometry, channels: int) -> tuple[int, ...]:
    """The labels of images in the order of their axes."""
    places, _ = _labels(g)
    return (N, *places, G, channels) if g.last else (N, G, channels, *places)


def _present(order: Sequence[int], a: _Labelled, b: _Labelled) -> tuple[int, ...]:
    """The labels that one of two tensors has."""
    return tuple(v for v in order if v in a.labels or v in b.labels)


def _meet(a: _Labelled, b: _Labelled, order: Sequence[int]) -> Tensor:
    """The contraction of two labelled tensors, its axes in this order."""
    out = _present(order, a, b)
    if a.labels == b.labels == out:
        return a.tensor * b.tensor
    return contracted(a.tensor, b.tensor, a.labels, b.labels, out)


def _is_short(w: _Labelled, g: Geometry) -> bool:
    """Whether products over the taps and channels of one filter are so few, and the filters of a
    group too, that they are written out."""
    out, inside, taps = w.size(O), w.size(C), [w.size(T + k) for k in range(g.rank)]
    if all_taps((inside, *taps)) is None:
        return False
    return isinstance(out, int) and out <= SHORT


def _spread(a: _Labelled, order: Sequence[int]) -> Tensor:
    """The tensor with an axis for each label, of length 1 where it has none."""
    return reshaped(a.ordered(order).tensor, tuple(a.size(v) for v in order))


def _at(a: _Labelled, index: dict[int, int]) -> _Labelled:
    """The part of a tensor at an index of some labels."""
    fixed = {a.labels.index(v): i for v, i in index.items() if v in a.labels}
    if not fixed:
        return a
    shape = a.tensor.shape
    part = slice_op(
        a.tensor,
        start=tuple(fixed.get(k, 0) for k in range(len(shape))),
        stop=tuple(fixed[k] + 1 if k in fixed else d for k, d in enumerate(shape)),
        step=(1,) * len(shape),
    )
    kept = [k for k in range(len(shape)) if k not in fixed]
    return _Labelled(
        reshaped(part, tuple(shape[k] for k in kept)),
        tuple(a.labels[k] for k in kept),
    )


def _placed(a: _Labelled) -> list[int]:
    """The axes of places."""
    return [a.labels.index(v) for v in sorted(v for v in a.labels if P <= v < T)]


def _conv_expand(node: Node) -> Tensor:
    x, w = node.inputs
    g = Geometry.of(node)
    places, taps = _labels(g)
    image = _images(padded(x, g.axes, g.padding), C, places, g)
    filters = _filters(w, taps, g)
    counts = g.spatial(node.out.shape)
    order = _present(_order(g, O), image, filters)
    sizes = [filters.size(t) for t in taps]
    if not _is_short(filters, g):
        windows = _windows_of(image, sizes, g, counts)
        return reshaped(_meet(filters, windows, order), node.out.shape)

    needs = _conv_requires(
        node, x.shape, w.shape
    )  # slices of no length ask for nothing
    image = _Labelled(demanded(image.tensor, *needs), image.labels)
    total: Tensor | None = None
    for c in range(_static(filters.size(C))):
        one = _at(image, {C: c})
        axes = _placed(one)
        for tap in all_taps(sizes) or []:
            met = tap_slice(one.tensor, axes, tap, counts, g.stride, g.dilation)
            factor = _at(filters, {C: c, **dict(zip(taps, tap, strict=True))})
            seen = _spread(_Labelled(met, one.labels), order)
            term = seen * _spread(factor, order)
            total = term if total is None else total + term
    assert total is not None
    return reshaped(total, node.out.shape)


def _static(d: Dim) -> int:
    assert isinstance(d, int)
    return d


def _windows_of(
    image: _Labelled, sizes: Sequence[Dim], g: Geometry, counts: Sequence[Dim]
) -> _Labelled:
    """The windows of padded images. An axis with one tap has none: it is sliced."""
    _, taps = _labels(g)
    single = [k for k in range(g.rank) if sizes[k] == 1]
    several = [k for k in range(g.rank) if sizes[k] != 1]
    axes = _placed(image)
    x = tap_slice(
        image.tensor,
        [axes[k] for k in single],
        [0] * len(single),
        [counts[k] for k in single],
        [g.stride[k] for k in single],
        [1] * len(single),
    )
    x = along(
        x,
        [axes[k] for k in several],
        [sizes[k] for k in several],
        [g.stride[k] for k in several],
        [g.dilation[k] for k in several],
    )
    return _Labelled(x, (*image.labels, *(taps[k] for k in several)))


def _conv_input_expand(node: Node) -> Tensor:
    y, w = node.inputs
    g = Geometry.of(node)
    places, taps = _labels(g)
    sizes = g.parts(w.shape)[2]
    spatial: Shape = node.attrs.shape
    if all(s == 1 for s in g.stride):
        # places of x are places of y seen through the filters from behind
        spans = [reach(n, e) for n, e in zip(sizes, g.dilation, strict=True)]
        pairs = tuple(
            (r - 1 - a, r - 1 - b) for r, (a, b) in zip(spans, g.padding, strict=True)
        )
        return conv(y, _turned(w, g), **{**g.attrs(), "padding": pairs})
    filters = _filters(w, taps, g)
    image = _images(y, O, places, g)
    whole = [a + d + b for d, (a, b) in zip(spatial, g.padding, strict=True)]
    order = _present(_order(g, C), image, filters)
    axes = [order.index(v) for v in places]
    put = tuple(
        whole[places.index(v)]
        if v in places
        else filters.size(v)
        if v != N
        else y.shape[0]
        for v in order
    )
    if _is_short(filters, g):
        parts = []
        for tap in all_taps(sizes) or []:
            factor = _at(filters, dict(zip(taps, tap, strict=True)))
            part = _meet(image, factor, order)
            parts.append(tap_embed(part, put, axes, tap, g.stride, g.dilation))
        found = parts[0] if len(parts) == 1 else add_n(*parts, method="")
    else:
        # filters first: rows of taps and channels, columns of places
        rows = _present((N, G, C, *taps, *places), image, filters)
        windows = _meet(filters, image, rows)
        inside = [t for t in taps if t in rows]
        turned = permuted(windows, [rows.index(v) for v in (*order, *inside)])
        found = _folded(turned, put, axes, [t in rows for t in taps], g)
    return reshaped(cropped(found, axes, g.padding), node.out.shape)


def _folded(
    y: Tensor, put: Shape, axes: Sequence[int], slid: Sequence[bool], g: Geometry
) -> Tensor:
    """Windows put back where they stand; axes that have one tap (not `slid`) have no windows."""
    several = [k for k in range(g.rank) if slid[k]]
    single = [k for k in range(g.rank) if not slid[k]]
    if several:
        shape = list(put)
        for k in single:
            shape[axes[k]] = y.shape[axes[k]]
        y = fold(
            y,
            shape=tuple(shape),
            axes=tuple(axes[k] for k in several),
            stride=tuple(g.stride[k] for k in several),
            dilation=tuple(g.dilation[k] for k in several),
        )
    if single:
        alone = [axes[k] for k in single]
        zeros, ones = [0] * len(single), [1] * len(single)
        y = tap_embed(y, put, alone, zeros, [g.stride[k] for k in single], ones)
    return y


def _turned(w: Tensor, g: Geometry) -> Tensor:
    """Filters from behind: taps in reverse order, channels and filters of a group exchanged."""
    _, taps = _labels(g)
    parts = _filters(w, taps, g)
    order = (*taps, O, G, C) if g.last else (G, C, O, *taps)
    axes = tuple(k for k, v in enumerate(parts.labels) if v in taps)
    flipped = flip_op(parts.tensor, axes=axes) if axes else parts.tensor
    turned = _Labelled(flipped, parts.labels).ordered(order)
    out, inside, sizes = g.parts(w.shape)
    each = exact_quotient(out, g.groups)
    assert each is not None
    return reshaped(turned.tensor, g.filters(g.groups * inside, each, sizes))


def _conv_filter_expand(node: Node) -> Tensor:
    x, y = node.inputs
    g = Geometry.of(node)
    places, taps = _labels(g)
    sizes: Shape = node.attrs.shape
    image = _images(padded(x, g.axes, g.padding), C, places, g)
    seeds = _images(y, O, places, g)
    inside, out = image.size(C), seeds.size(O)
    order = (*taps, C, G, O) if g.last else (G, O, C, *taps)
    counts = g.spatial(y.shape)
    shape = node.out.shape
    several = (inside, *sizes)
    if all_taps(several) is None or not isinstance(out, int) or out > SHORT:
        windows = _windows_of(image, sizes, g, counts)
        return reshaped(_meet(seeds, windows, order), shape)
    parts = []
    for index in all_taps((*sizes, inside) if g.last else several) or []:
        c, tap = (index[-1], index[:-1]) if g.last else (index[0], index[1:])
        one = _at(image, {C: c})
        met = tap_slice(one.tensor, _placed(one), tap, counts, g.stride, g.dilation)
        each = _meet(seeds, _Labelled(met, one.labels), (G, O))
        count = g.groups * out
        parts.append(reshaped(each, (1, count) if g.last else (count, 1)))
    return reshaped(_joined(parts, 0 if g.last else 1), shape)


def _joined(parts: Sequence[Tensor], along_: int) -> Tensor:
    return parts[0] if len(parts) == 1 else concatenate_op(*parts, axis=along_)


# ----------------------------------------------------------------- convolutions: the ops

conv: Op = bilinear(
    "conv",
    type=_conv_type,
    numpy=_numpy_conv,
    lhs=lambda out_bar, w, node: conv_input(
        out_bar,
        conjugate(w),
        shape=Geometry.of(node).spatial(node.inputs[0].shape),
        **node.attrs.as_dict(),
    ),
    rhs=lambda out_bar, x, node: conv_filter(
        conjugate(x),
        out_bar,
        shape=Geometry.of(node).parts(node.inputs[1].shape)[2],
        **node.attrs.as_dict(),
    ),
    expand=_conv_expand,
    requires=lambda node: _conv_requires(
        node, node.inputs[0].shape, node.inputs[1].shape
    ),
    doc="Sums of products of filters with images under them (a cross-correlation), at every "
    "`stride`-th place of images padded with zeros, the filters' taps `dilation` apart; each of "
    "`groups` of channels has filters of its own.",
)

conv_input: Op = bilinear(
    "conv_input",
    type=_conv_input_type,
    numpy=_numpy_conv_input,
    lhs=lambda out_bar, w, node: conv(out_bar, conjugate(w), **_geometry(node)),
    rhs=lambda out_bar, y, node: conv_filter(
        out_bar,
        conjugate(y),
        shape=Geometry.of(node).parts(node.inputs[1].shape)[2],
        **_geometry(node),
    ),
    expand=_conv_input_expand,
    requires=lambda node: _conv_requires(node, node.out.shape, node.inputs[1].shape),
    doc="The transpose of `conv` by its images, which have the spatial axes `shape`.",
)

conv_filter: Op = bilinear(
    "conv_filter",
    type=_conv_filter_type,
    numpy=_numpy_conv_filter,
    lhs=lambda out_bar, y, node: conv_input(
        conjugate(y),
        out_bar,
        shape=Geometry.of(node).spatial(node.inputs[0].shape),
        **_geometry(node),
    ),
    rhs=lambda out_bar, x, node: conv(conjugate(x), out_bar, **_geometry(node)),
    expand=_conv_filter_expand,
    requires=lambda node: _conv_requires(node, node.inputs[0].shape, node.out.shape),
    doc="The transpose of `conv` by its filters, which have `shape` taps.",
)


def _geometry(node: Node) -> dict[str, Any]:
    """The attributes that the three ops share."""
    return {k: v for k, v in node.attrs.items() if k != "shape"}


def _conv_requires(node: Node, images: Shape, filters: Shape) -> list[Dim]:
    g = Geometry.of(node)
    taps = g.parts(filters)[2]
    axes = zip(g.spatial(images), g.padding, taps, g.dilation, strict=True)
    return unproved(*(spare(a + d + b, n, e) for d, (a, b), n, e in axes))


# --------------------------------------------------------------------- what a user says


def _geometry_of(
    name: str,
    rank: int,
    images: Tensor,
    filters: Tensor,
    stride: Any,
    dilation: Any,
    groups: Any,
    layout: str,
    channels: int,
) -> Geometry:
    """The geometry, but for its padding; `channels` is 1 where images meet what each filter
    sees, 0 where they meet the filters."""
    last = channels_last(name, layout, rank)
    image_of(name, images, rank)
    if filters.ndim != rank + 2:
        parts = "taps, channels, filters" if last else "filters, channels, taps"
        raise ShapeError(
            f"{name}: expected filters of rank {rank + 2} ({parts}), found {filters.type}"
        )
    (count,) = whole_numbers(name, "groups", groups, 1)
    steps = whole_numbers(name, "stride", stride, rank)
    spread = whole_numbers(name, "dilation", dilation, rank)
    g = Geometry(steps, ((0, 0),) * rank, spread, count, last)
    out, inside, _ = g.parts(filters.shape)
    given = images.shape[g.channel]
    wanted = inside * count if channels else out
    if exact_quotient(out, count) is None:
        raise ShapeError(
            f"{name}: {dim_text(out)} filters do not divide into {count} groups",
            hint="declare their number as a multiple of the groups",
        )
    if given != wanted:
        each = (
            f" ({dim_text(inside)} in each of {count} groups)"
            if channels and count > 1
            else ""
        )
        symbolic = isinstance(given, Poly) or isinstance(wanted, Poly)
        hint = f"where they are the same, write: assert {dim_text(given)} == {dim_text(wanted)}"
        raise ShapeError(
            f"{name}: the images have {dim_text(given)} channels, the filters take "
            f"{dim_text(wanted)}{each}",
            notes=(f"images: {images.type}", f"filters: {filters.type}"),
            hint=hint
            if symbolic
            else "filters are (out, in / groups, taps), or (taps, "
            "in / groups, out) where channels are last",
        )
    return g


def _with_padding(g: Geometry, padding: Pairs) -> dict[str, Any]:
    return {**g.attrs(), "padding": padding}


def _convolved(
    name: str,
    rank: int,
    x: TensorLike,
    w: TensorLike,
    stride: Any,
    padding: Padding,
    dilation: Any,
    groups: int,
    layout: str,
) -> Tensor:
    images, filters = numbers(x, w)
    g = _geometry_of(name, rank, images, filters, stride, dilation, groups, layout, 1)
    taps = g.parts(filters.shape)[2]
    spatial = g.spatial(images.shape)
    pairs = pairs_of(name, padding, spatial, taps, g.stride, g.dilation)
    return conv(images, filters, **_with_padding(g, pairs))


def _conv_function(rank: int) -> Callable[..., Tensor]:
    name = f"conv{rank}d"

    def call(
        x: TensorLike,
        w: TensorLike,
        stride: int | tuple[int, ...] = 1,
        padding: Padding = "valid",
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        layout: str = "NCHW",
    ) -> Tensor:
        return _convolved(name, rank, x, w, stride, padding, dilation, groups, layout)

    call.__name__ = name
    call.__doc__ = f"""Filters over images with {rank} spatial ax{"is" if rank == 1 else "es"}: a cross-correlation, as in neural networks.

    Images are (batch, channels, spatial axes), filters (out, in / groups, taps); with
    layout="NHWC" (batch, spatial axes, channels) and (taps, in / groups, out). `padding` is
    "valid", "same" (the smaller half first), a number, or a pair (before, behind) an axis.
    """
    function(name)(call)
    return call


conv1d, conv2d, conv3d = (_conv_function(rank) for rank in (1, 2, 3))


@function("conv_transpose2d")
def conv_transpose2d(
    x: TensorLike,
    w: TensorLike,
    stride: int | tuple[int, ...] = 1,
    padding: Padding = "valid",
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Tensor:
    """The transpose of `conv2d` by its images: what a filter would have to see to give `x`.

    `w` are the filters of that `conv2d`: (channels of x, channels of the result / groups, taps).
    The result is as small as may be; with padding="same" it is `stride` times as large as `x`.
    """
    name, rank = "conv_transpose2d", 2
    y, filters = numbers(x, w)
    g = _geometry_of(name, rank, y, filters, stride, dilation, groups, layout, 0)
    taps = g.parts(filters.shape)[2]
    places = g.spatial(y.shape)
    spans = [reach(n, e) for n, e in zip(taps, g.dilation, strict=True)]
    if padding == "same":
        shape = tuple(n * s for n, s in zip(places, g.stride, strict=True))
        pairs = pairs_of(name, padding, shape, taps, g.stride, g.dilation)
    else:
        pairs = pairs_of(name, padding, places, taps, g.stride, g.dilation)
        axes = zip(places, g.stride, spans, pairs, strict=True)
        shape = tuple((n - 1) * s + r - a - b for n, s, r, (a, b) in axes)
    for d in shape:
        if isinstance(d, int) and d < 0:
            raise ShapeError(f"{name}: this padding leaves {d} places", hint="pad less")
    return conv_input(y, filters, shape=shape, **_with_padding(g, pairs))


# -------------------------------------------------------------------------- of vectors


def _vectors(name: str, a: TensorLike, v: TensorLike) -> tuple[Tensor, Tensor]:
    first, second = numbers(a, v)
    for t in (first, second):
        if t.ndim != 1:
            raise ShapeError(
                f"{name}: expected vectors, found {t.type}",
                hint="conv1d takes batches and channels, conv2d images",
            )
        if t.shape[0] == 0:
            raise ShapeError(f"{name}: a vector is empty")
    return first, second


def _slid(name: str, a: Tensor, v: Tensor, mode: str) -> Tensor:
    """The products of `v` with what lies under it as it slides along the longer `a`."""
    n, m = a.shape[0], v.shape[0]
    pairs = {
        "valid": (0, 0),
        "same": (dim_floordiv(m, 2), m - 1 - dim_floordiv(m, 2)),
        "full": (m - 1, m - 1),
    }
    if mode not in pairs:
        raise OptionError(
            f"{name}: expected a mode of 'full', 'same' or 'valid', found {mode!r}"
        )
    if mode == "same":
        a = demanded(a, n - m)
    g = Geometry((1,), (pairs[mode],), (1,), 1, False)
    found = conv(reshaped(a, (1, 1, n)), reshaped(v, (1, 1, m)), **g.attrs())
    return reshaped(found, (found.shape[2],))


def _is_shorter(a: Tensor, v: Tensor) -> bool:
    """Whether `a` is the shorter one for all sizes; where that is not known, the call checks that
    it is not."""
    return is_nonnegative(v.shape[0] - a.shape[0] - 1)


@function("convolve")
def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Tensor:
    """The convolution of two vectors: `full`, as long as the longer (`same`), or where they
    overlap wholly (`valid`). Of two symbolic lengths the first must not be the shorter one."""
    first, second = _vectors("convolve", a, v)
    if _is_shorter(first, second):
        first, second = second, first
    return _slid("convolve", first, flip_op(second, axes=(0,)), mode)


@function("correlate")
def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Tensor:
    """The cross-correlation of two vectors, `v` conjugated; modes as those of `convolve`."""
    first, second = _vectors("correlate", a, v)
    if _is_shorter(first, second):
        found = _slid("correlate", conjugate(second), first, mode)
        return flip_op(found, axes=(0,))
    return _slid("correlate", first, conjugate(second), mode)

"""Where elements stand: slices, flips, joins, diagonals, and NumPy's functions made of them.

The ops are index maps, read by the schedule as such; the functions are written with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError, TypeMismatch
from gradc.graph import Attrs, Node, Tensor
from gradc.ops.basic import numpy_dim, numpy_shape
from gradc.ops.basic import reshape as reshape_op
from gradc.ops.basic import transpose as transpose_op
from gradc.ops.basic import zeros as zeros_of
from gradc.ops.loops import Assemble, Map, Update, View, axis
from gradc.ops.registry import Op, linear
from gradc.types import (
    DTYPES,
    Dim,
    DType,
    Poly,
    Shape,
    TensorType,
    bool_,
    complex128,
    dim_floordiv,
    dim_text,
    exact_quotient,
    float64,
    int64,
    is_nonnegative,
    shape_text,
    size_of,
)

__all__ = [
    "concatenate_op",
    "demanded",
    "diagonal_op",
    "dtype_from",
    "embed",
    "embed_diagonal",
    "flip_op",
    "permuted",
    "reshaped",
    "slice_along",
    "slice_op",
    "update_slice",
]

Dims = tuple[Dim, ...]

# ---------------------------------------------------------------------- lengths


def slice_length(start: Dim, stop: Dim, step: int) -> Dim:
    """How many indices `range(start, stop, step)` has, for a positive step."""
    length = dim_floordiv(stop - start + (step - 1), step)
    return max(length, 0) if isinstance(length, int) else length


def unproved(*dims: Dim) -> list[Dim]:
    """The dims that are not known to be >= 0 for all sizes, each once."""
    return list(dict.fromkeys(d for d in dims if not is_nonnegative(d)))


def lesser(a: Dim, b: Dim) -> Dim | None:
    """The smaller of two dims where that is known for all sizes, else None."""
    if is_nonnegative(b - a):
        return a
    return b if is_nonnegative(a - b) else None


# ------------------------------------------------------------------ slices


def _slice_type(x: TensorType, *, start: Dims, stop: Dims, step: Dims) -> TensorType:
    if not len(start) == len(stop) == len(step) == x.ndim:
        raise InternalError(f"slice: {x} at {start}, {stop}, {step}")
    for d, a, b in zip(x.shape, start, stop, strict=True):
        for value in (a, d - b):
            if isinstance(value, int) and value < 0:
                raise ShapeError(
                    f"{dim_text(a)}:{dim_text(b)} is outside an axis of {dim_text(d)}"
                )
    return x.with_shape(map(slice_length, start, stop, step))  # type: ignore[arg-type]


def _slice_requires(node: Node) -> Sequence[Dim]:
    attrs = node.attrs
    return unproved(
        *node.outputs[0].shape,
        *attrs.start,
        *(d - b for d, b in zip(node.inputs[0].shape, attrs.stop, strict=True)),
    )


def _numpy_key(
    start: Dims, stop: Dims, step: Sequence[int], sizes: dict[str, int]
) -> tuple[slice, ...]:
    return tuple(
        slice(numpy_dim(a, sizes), numpy_dim(b, sizes), s)
        for a, b, s in zip(start, stop, step, strict=True)
    )


def key_text(shape: Shape, start: Dims, stop: Dims, step: Sequence[int]) -> str:
    """The slices as they stand in brackets: `1:, ::2`. "" where all is taken."""
    parts = []
    for d, a, b, s in zip(shape, start, stop, step, strict=True):
        first = "" if a == 0 else dim_text(a)
        last = "" if b == d else dim_text(b)
        parts.append(f"{first}:{last}" + ("" if s == 1 else f":{s}"))
    while parts and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts)


def _slice_text(node: Node, args: Sequence[str]) -> str:
    attrs = node.attrs
    key = key_text(node.inputs[0].shape, attrs.start, attrs.stop, attrs.step)
    return f"{args[0]}[{key}]" if key else args[0]


slice_op: Op = linear(
    "slice",
    type=_slice_type,
    numpy=lambda x, *, start, stop, step, sizes: x[
        _numpy_key(start, stop, step, sizes)
    ].copy(),
    transpose=lambda out_bar, x, *, start, stop, step: embed(
        out_bar, shape=x.shape, start=start, step=step
    ),
    form=lambda node: View(
        tuple(
            axis(k, s, a)
            for k, (a, s) in enumerate(
                zip(node.attrs.start, node.attrs.step, strict=True)
            )
        )
    ),
    text=_slice_text,
    requires=_slice_requires,
    doc="The elements at `start:stop:step` of each axis (bounds inside the axis, steps positive).",
)


def slice_along(
    x: Tensor, along: int, start: Dim, stop: Dim | None = None, step: int = 1
) -> Tensor:
    """`x[start:stop:step]` of one axis; the same tensor where that is all of it."""
    d = x.shape[along]
    stop = d if stop is None else stop
    if start == 0 and stop == d and step == 1:
        return x
    return slice_op(
        x,
        start=tuple(start if k == along else 0 for k in range(x.ndim)),
        stop=tuple(stop if k == along else d for k, d in enumerate(x.shape)),
        step=tuple(step if k == along else 1 for k in range(x.ndim)),
    )


def _stops(shape: Shape, x: Shape, start: Dims, step: Sequence[int]) -> Dims:
    """A `stop` inside `shape` for the slice that takes an embedded `x` out again."""
    stops: list[Dim] = []
    for whole, d, a, s in zip(shape, x, start, step, strict=True):
        if slice_length(a, whole, s) == d:
            stops.append(whole)
        elif d == 0:
            stops.append(a)
        else:
            stops.append(a + (d - 1) * s + 1)
    return tuple(stops)


def _embed_type(
    x: TensorType, *, shape: Shape, start: Dims, step: Sequence[int], fill: float = 0
) -> TensorType:
    if not len(start) == len(step) == len(shape) == x.ndim:
        raise InternalError(f"embed: {x} at {start}, {step} into {shape_text(shape)}")
    return TensorType(x.dtype, shape)


def _embed_requires(node: Node) -> Sequence[Dim]:
    attrs, x = node.attrs, node.inputs[0].shape
    stops = _stops(attrs.shape, x, attrs.start, attrs.step)
    return unproved(
        *attrs.shape,
        *attrs.start,
        *(d - b for d, b in zip(attrs.shape, stops, strict=True)),
    )


def _numpy_embed(
    x: Any,
    *,
    shape: Shape,
    start: Dims,
    step: Sequence[int],
    sizes: dict[str, int],
    fill: float = 0,
) -> Any:
    out = np.full(numpy_shape(shape, sizes), fill, x.dtype)
    out[_embed_key(x.shape, start, step, sizes)] = x
    return out


def _embed_key(
    shape: Sequence[int], start: Dims, step: Sequence[int], sizes: dict[str, int]
) -> tuple[slice, ...]:
    return tuple(
        slice(first, first + (d - 1) * s + 1 if d else first, s)
        for d, first, s in zip(shape, numpy_shape(start, sizes), step, strict=True)
    )


def _pad_text(x: str, before: Dims, after: Dims, fill: float) -> str:
    """`np.pad` with a fill; the operand itself where there is nothing to put in."""
    if all(d == 0 for d in (*before, *after)):
        return x
    pairs = ", ".join(
        f"({dim_text(a)}, {dim_text(b)})" for a, b in zip(before, after, strict=True)
    )
    widths = f"({pairs},)" if len(before) == 1 else f"({pairs})"
    value = "" if fill == 0 else f", constant_values={fill_text(fill)}"
    return f"np.pad({x}, {widths}{value})"


def fill_text(fill: float) -> str:
    text = repr(fill)
    return {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(text, text)


def _embed_text(node: Node, args: Sequence[str]) -> str:
    attrs, x = node.attrs, node.inputs[0].shape
    fill = attrs.fill if "fill" in attrs else 0
    if all(s == 1 for s in attrs.step):
        sides = zip(attrs.shape, x, attrs.start, strict=True)
        after = tuple(whole - a - d for whole, d, a in sides)
        return _pad_text(args[0], attrs.start, after, fill)
    tail = "" if fill == 0 else f", {fill_text(fill)}"
    where = _section(x, attrs.shape, attrs)
    return f"_embedded({args[0]}, {shape_text(attrs.shape)}, {where}{tail})"


embed: Op = linear(
    "embed",
    type=_embed_type,
    numpy=_numpy_embed,
    transpose=lambda out_bar, x, *, shape, start, step, fill=0: slice_op(
        out_bar, start=start, stop=_stops(shape, x.shape, start, step), step=step
    ),
    form=lambda node: Assemble(
        (_strided(node.attrs.start, node.attrs.step),),
        float(node.attrs.fill) if "fill" in node.attrs else 0.0,
        False,
    ),
    text=_embed_text,
    requires=_embed_requires,
    doc="The operand at `start::step` of a tensor of `shape` that is `fill` elsewhere.",
)


def _strided(start: Dims, step: Sequence[int]) -> Map:
    return tuple(
        axis(k, s, a) for k, (a, s) in enumerate(zip(start, step, strict=True))
    )


def _update_type(
    x: TensorType, v: TensorType, *, start: Dims, step: Sequence[int]
) -> TensorType:
    if not len(start) == len(step) == x.ndim == v.ndim or x.dtype != v.dtype:
        raise InternalError(f"update_slice: {x} by {v} at {start}, {step}")
    return TensorType(x.dtype, x.shape)


def _numpy_update(
    x: Any, v: Any, *, start: Dims, step: Sequence[int], sizes: dict[str, int]
) -> Any:
    out = x.copy()
    out[_embed_key(v.shape, start, step, sizes)] = v
    return out


def _update_transpose(
    out_bar: Tensor, x: Tensor, v: Tensor, *, start: Dims, step: Sequence[int]
) -> list[Tensor]:
    stop = _stops(x.shape, v.shape, start, step)
    return [
        update_slice(out_bar, zeros_of(v.type), start=start, step=step),
        slice_op(out_bar, start=start, stop=stop, step=step),
    ]


def _update_text(node: Node, args: Sequence[str]) -> str:
    attrs, (x, v) = node.attrs, node.inputs
    if x.shape == v.shape:
        return args[1]
    moved = [k for k in range(x.ndim) if x.shape[k] != v.shape[k]]
    if len(moved) == 1 and attrs.step[moved[0]] == 1:
        (k,) = moved
        first, last = attrs.start[k], attrs.start[k] + v.shape[k]
        lead = ":, " * k
        parts = [args[1]]
        if first != 0:
            parts.insert(0, f"{args[0]}[{lead}:{dim_text(first)}]")
        if last != x.shape[k]:
            parts.append(f"{args[0]}[{lead}{dim_text(last)}:]")
        return f"np.concatenate(({', '.join(parts)}), axis={k})"
    return f"_updated({args[0]}, {_section(v.shape, x.shape, attrs)}, {args[1]})"


def _section(part: Shape, whole: Shape, attrs: Attrs) -> str:
    """Where an operand of shape `part` stands: `np.s_[1:, ::2]`."""
    stops = _stops(whole, part, attrs.start, attrs.step)
    return f"np.s_[{key_text(whole, attrs.start, stops, attrs.step) or '...'}]"


update_slice: Op = linear(
    "update_slice",
    type=_update_type,
    numpy=_numpy_update,
    transpose=_update_transpose,
    form=lambda node: Update(_strided(node.attrs.start, node.attrs.step)),
    text=_update_text,
    requires=lambda node: unproved(
        *node.attrs.start,
        *(
            d - b
            for d, b in zip(
                node.inputs[0].shape,
                _stops(
                    node.inputs[0].shape,
                    node.inputs[1].shape,
                    node.attrs.start,
                    node.attrs.step,
                ),
                strict=True,
            )
        ),
    ),
    doc="The first operand, but for its elements at `start::step`, which are the second's.",
)


# ---------------------------------------------------------------- demands


demand: Op = linear(
    "demand",
    type=lambda x, *, needs: x.with_shape(x.shape),
    numpy=lambda x, *, needs: np.array(x),
    transpose=lambda out_bar, x, *, needs: out_bar,
    form=lambda node: View(tuple(axis(k) for k in range(node.inputs[0].ndim))),
    text=lambda node, args: args[0],
    requires=lambda node: unproved(*node.attrs.needs),
    doc="The operand as it is; the call checks that the numbers `needs` are not below 0.",
)


def demanded(x: Tensor, *needs: Dim) -> Tensor:
    """`x`, where these numbers are not below 0: the same tensor where that is known."""
    open_ = tuple(unproved(*needs))
    return demand(x, needs=open_) if open_ else x


# ------------------------------------------------------------------- flips


def _flip_form(node: Node) -> View:
    shape: Shape = node.inputs[0].shape
    return View(
        tuple(
            axis(k, -1, d - 1) if k in node.attrs.axes else axis(k)
            for k, d in enumerate(shape)
        )
    )


def _flip_text(node: Node, args: Sequence[str]) -> str:
    key = ", ".join(
        "::-1" if k in node.attrs.axes else ":"
        for k in range(max(node.attrs.axes, default=-1) + 1)
    )
    return f"{args[0]}[{key}]" if key else args[0]


flip_op: Op = linear(
    "flip",
    type=lambda x, *, axes: x.with_shape(x.shape),
    numpy=lambda x, *, axes: np.flip(x, axes).copy(),
    transpose=lambda out_bar, x, *, axes: flip_op(out_bar, axes=axes),
    form=_flip_form,
    text=_flip_text,
    doc="The elements of `axes` in reverse order.",
)


# ------------------------------------------------------------------- joins


def _concatenate_type(*xs: TensorType, axis: int) -> TensorType:
    first = xs[0]
    total: Dim = 0
    for x in xs:
        total = total + x.shape[axis]
        if x.dtype != first.dtype or x.without([axis]) != first.without([axis]):
            raise InternalError(f"concatenate: {first} and {x} along {axis}")
    return first.with_shape(
        total if k == axis else d for k, d in enumerate(first.shape)
    )


def _offsets(xs: Sequence[Tensor], axis: int) -> list[Dim]:
    offsets: list[Dim] = [0]
    for x in xs:
        offsets.append(offsets[-1] + x.shape[axis])
    return offsets


def _concatenate_form(node: Node) -> Assemble:
    along = node.attrs.axis
    return Assemble(
        tuple(
            tuple(axis(k, 1, offset if k == along else 0) for k in range(x.ndim))
            for x, offset in zip(
                node.inputs, _offsets(node.inputs, along)[:-1], strict=True
            )
        ),
        0.0,
        True,
    )


def _concatenate_transpose(out_bar: Tensor, *xs: Tensor, axis: int) -> list[Tensor]:
    offsets = _offsets(xs, axis)
    return [slice_along(out_bar, axis, a, b) for a, b in pairwise(offsets)]


def _concatenate_text(node: Node, args: Sequence[str]) -> str:
    listed = f"({args[0]},)" if len(args) == 1 else f"({', '.join(args)})"
    along = f", axis={node.attrs.axis}" if node.attrs.axis else ""
    return f"np.concatenate({listed}{along})"


concatenate_op: Op = linear(
    "concatenate",
    type=_concatenate_type,
    numpy=lambda *xs, axis: np.concatenate(xs, axis=axis),
    transpose=_concatenate_transpose,
    form=_concatenate_form,
    text=_concatenate_text,
    doc="The operands one behind the other along `axis`.",
)


# --------------------------------------------------------------- diagonals


def diagonal_length(rows: Dim, columns: Dim, offset: int) -> Dim:
    """The length of a diagonal. ShapeError where it is not known which side is shorter."""
    down, right = rows + min(offset, 0), columns - max(offset, 0)
    shorter = lesser(down, right)
    if shorter is None:
        raise ShapeError(
            f"the diagonal of {dim_text(rows)} rows and {dim_text(columns)} columns has "
            "no known length",
            hint=f"say which is less by a slice, as in x[:{dim_text(columns)}], or declare them "
            f"equal: assert {dim_text(rows)} == {dim_text(columns)}",
        )
    return max(shorter, 0) if isinstance(shorter, int) else shorter


def _diagonal_maps(ndim: int, offset: int) -> Map:
    """The index of a matrix (last two axes) for each index of its diagonal (last axis)."""
    last = ndim - 2
    return (
        *(axis(k) for k in range(last)),
        axis(last, 1, max(-offset, 0)),
        axis(last, 1, max(offset, 0)),
    )


diagonal_op: Op = linear(
    "diagonal",
    type=lambda x, *, offset: x.with_shape(
        (*x.shape[:-2], diagonal_length(x.shape[-2], x.shape[-1], offset))
    ),
    numpy=lambda x, *, offset: np.diagonal(x, offset, -2, -1).copy(),
    transpose=lambda out_bar, x, *, offset: embed_diagonal(
        out_bar, shape=x.shape[-2:], offset=offset
    ),
    form=lambda node: View(_diagonal_maps(node.inputs[0].ndim, node.attrs.offset)),
    text=lambda node, args: (
        f"np.diagonal({args[0]}{_offset_text(node.attrs.offset)}"
        + ("" if node.inputs[0].ndim == 2 else ", axis1=-2, axis2=-1")
        + ")"
    ),
    requires=lambda node: unproved(node.outputs[0].shape[-1]),
    doc="A diagonal of the last two axes, as the last axis.",
)


def _offset_text(offset: int) -> str:
    return f", offset={offset}" if offset else ""


def _embed_diagonal_type(
    x: TensorType, *, shape: tuple[Dim, Dim], offset: int
) -> TensorType:
    if diagonal_length(*shape, offset) != x.shape[-1]:
        raise InternalError(f"embed_diagonal: {x} in {shape_text(shape)} at {offset}")
    return x.with_shape((*x.shape[:-1], *shape))


def _numpy_embed_diagonal(
    x: Any, *, shape: Shape, offset: int, sizes: dict[str, int]
) -> Any:
    out = np.zeros((*x.shape[:-1], *numpy_shape(shape, sizes)), x.dtype)
    k = np.arange(x.shape[-1])
    out[..., k + max(-offset, 0), k + max(offset, 0)] = x
    return out


def _embed_diagonal_text(node: Node, args: Sequence[str]) -> str:
    (x,), (rows, columns) = node.inputs, node.attrs.shape
    offset = node.attrs.offset
    if x.ndim == 1 and rows == columns:
        return f"np.diag({args[0]}{', ' + str(offset) if offset else ''})"
    down = max(-offset, 0)
    before = (*[0] * (x.ndim - 1), down)
    after = (*[0] * (x.ndim - 1), rows - down - x.shape[-1])
    square = "" if rows == columns else f", {dim_text(columns)}"
    where = f"np.eye({dim_text(rows)}{square}{f', k={offset}' if offset else ''}, dtype=bool)"
    return f"np.where({where}, {_pad_text(args[0], before, after, 0)}[..., None], 0)"


embed_diagonal: Op = linear(
    "embed_diagonal",
    type=_embed_diagonal_type,
    numpy=_numpy_embed_diagonal,
    transpose=lambda out_bar, x, *, shape, offset: diagonal_op(out_bar, offset=offset),
    form=lambda node: Assemble(
        (_diagonal_maps(node.inputs[0].ndim + 1, node.attrs.offset),), 0.0, False
    ),
    text=_embed_diagonal_text,
    requires=lambda node: unproved(*node.attrs.shape),
    doc="A matrix in the last two axes that has the operand as a diagonal, 0 elsewhere.",
)


# ------------------------------------------------------------ functions: shapes


def shape_of(shape: Any, what: str = "shape") -> list[Dim]:
    """A shape as the user writes it, an int or a sequence of ints and dimensions, as a list."""
    listed = list(shape) if isinstance(shape, tuple | list) else [shape]
    for d in listed:
        if isinstance(d, np.integer):
            continue
        if isinstance(d, bool) or not isinstance(d, int | Poly):
            raise TypeMismatch(
                f"{what}: expected ints and dimensions, found {found_text(d)}",
                hint="a size must be known when the graph is compiled",
            )
    return [int(d) if isinstance(d, np.integer) else d for d in listed]


def sizes_of(shape: Any, what: str = "shape") -> Shape:
    """A shape as the user writes it; ShapeError for a negative size."""
    found = tuple(shape_of(shape, what))
    for d in found:
        if isinstance(d, int) and d < 0:
            raise ShapeError(f"{what}: negative size {d}")
    return found


def found_text(value: Any) -> str:
    """What was found instead, for a message."""
    if isinstance(value, Tensor):
        return f"the tensor {value.type}"
    return f"{type(value).__name__} {value!r}"


PYTHON_DTYPES: Mapping[type, DType] = {
    bool: bool_,
    int: int64,
    float: float64,
    complex: complex128,
}


def dtype_from(dtype: Any) -> DType:
    """A dtype as the user writes it: a `DType`, its name, or a type of Python's or NumPy's."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, type) and dtype in PYTHON_DTYPES:
        return PYTHON_DTYPES[dtype]
    name = dtype if isinstance(dtype, str) else ""
    if not name and isinstance(dtype, type | np.dtype):
        name = np.dtype(dtype).name
    if name not in DTYPES:
        raise TypeMismatch(
            f"expected a dtype, found {found_text(dtype)}",
            hint="dtypes are " + ", ".join(DTYPES),
        )
    return DTYPES[name]


def whole_shape(x: Shape, shape: Sequence[Dim]) -> Shape:
    """`shape` with its -1, if any, replaced by what the elements of `x` leave for it."""
    unknown = [k for k, d in enumerate(shape) if d == -1]
    for d in shape:
        if isinstance(d, int) and d < -1:
            raise ShapeError(f"reshape: negative size {d}")
    if not unknown:
        return tuple(shape)
    if len(unknown) > 1:
        raise ShapeError("reshape: only one size may be -1")
    rest = size_of(d for d in shape if d != -1)
    left = exact_quotient(size_of(x), rest)
    if left is None:
        raise ShapeError(
            f"reshape: {shape_text(x)} has {dim_text(size_of(x))} elements, "
            f"which {dim_text(rest)} does not divide"
            if rest != 0
            else f"reshape: the -1 of {shape_text(tuple(shape))} is not determined"
        )
    return tuple(left if d == -1 else d for d in shape)


def reshaped(x: Tensor, shape: Shape) -> Tensor:
    """`x` in this shape; the same tensor where it has it."""
    return x if x.shape == shape else reshape_op(x, shape=shape)


def permuted(x: Tensor, perm: Sequence[int]) -> Tensor:
    """`x` with its axes in this order; the same tensor where they are in it already."""
    if tuple(perm) == tuple(range(x.ndim)):
        return x
    return transpose_op(x, perm=tuple(perm))

"""The ops that everything stands on: inputs, constants, casts, broadcasts, sums, the adjoint's own.

These are the compiler's ops, in its spelling: axes are non-negative and sorted, shapes whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError, ShapeError
from gradc.graph import Data, Node, Tensor, here
from gradc.ops.loops import (
    Accumulate,
    Elementwise,
    Fill,
    Reshape,
    View,
    axis,
)
from gradc.ops.registry import (
    ALL,
    INEXACT,
    ONE,
    Absent,
    Constant,
    Explicit,
    Op,
    elementwise,
    linear,
    primitive,
    register,
    same_type,
)
from gradc.types import (
    Dim,
    DType,
    Shape,
    TensorType,
    dim_text,
    evaluate_dim,
    int64,
    is_nonnegative,
    shape_text,
    size_of,
)

__all__ = [
    "add_n",
    "broadcast",
    "cast",
    "constant",
    "copy",
    "dim",
    "gate",
    "input_",
    "iota",
    "numpy_dim",
    "numpy_shape",
    "opaque",
    "prevent_gradient",
    "pull",
    "reduce_sum",
    "reshape",
    "stop_gradient",
    "transpose",
    "zeros",
]


# ------------------------------------------------------------ leaves: no operands

input_ = primitive(
    "input",
    type=lambda *, name, type, default: type,
    numpy=None,  # type: ignore[arg-type]  # fed by the evaluator
    derivative=Constant(),
    doc="A value the caller gives. `default` is a `Data`, a number, or None.",
)


def _constant_type(*, value: Data, weak: bool) -> TensorType:
    from gradc.types import dtype_of

    return TensorType(dtype_of(value.array), value.array.shape, weak)


constant = primitive(
    "constant",
    type=_constant_type,
    numpy=lambda *, value, weak: value.array,
    derivative=Constant(),
    form=lambda node: Fill("value"),
    doc="A value known at compile time.",
)

dim = primitive(
    "dim",
    type=lambda *, value, dtype, weak: TensorType(dtype, (), weak),
    numpy=lambda *, value, dtype, weak, sizes: np.asarray(
        evaluate_dim(value, sizes), dtype.name
    ),
    derivative=Constant(),
    form=lambda node: Fill("dim"),
    text=lambda node, args: _dim_source(node.attrs.value, node.attrs.dtype),
    doc="A dimension as a number.",
)

iota = primitive(
    "iota",
    type=lambda *, shape, axis, dtype: TensorType(dtype, shape),
    numpy=lambda *, shape, axis, dtype, sizes: _numpy_iota(shape, axis, dtype, sizes),
    derivative=Constant(),
    form=lambda node: Fill("iota", node.attrs.axis),
    text=lambda node, args: _iota_source(node),
    requires=lambda node: _sizes_required(node),
    doc="The index along one axis, as a value.",
)


def numpy_dim(d: Dim, sizes: dict[str, int]) -> int:
    """The number of a dimension in an evaluation."""
    return evaluate_dim(d, sizes)


def numpy_shape(shape: Shape, sizes: dict[str, int]) -> tuple[int, ...]:
    """The numbers of a shape in an evaluation."""
    return tuple(evaluate_dim(d, sizes) for d in shape)


def _numpy_iota(shape: Shape, axis: int, dtype: DType, sizes: dict[str, int]) -> Any:
    numbers = numpy_shape(shape, sizes)
    along = np.arange(numbers[axis], dtype=dtype.name)
    return np.broadcast_to(
        along.reshape([-1 if k == axis else 1 for k in range(len(shape))]), numbers
    )


def _dim_source(value: Dim, dtype: DType) -> str:
    return dim_text(value) if dtype == int64 else f"np.{dtype.name}({dim_text(value)})"


def _iota_source(node: Node) -> str:
    attrs = node.attrs
    shape: Shape = attrs.shape
    along = f"np.arange({dim_text(shape[attrs.axis])}, dtype=np.{attrs.dtype.name})"
    if len(shape) == 1:
        return along
    picks = ", ".join(":" if k == attrs.axis else "None" for k in range(len(shape)))
    return f"np.broadcast_to({along}[{picks}], {shape_text(shape)})"


def zeros(type: TensorType) -> Tensor:
    """Zeros of a type."""
    zero = constant(value=Data(np.zeros((), type.dtype.name)), weak=type.weak)
    if not type.shape:
        return zero
    return broadcast(zero, shape=type.shape, along=tuple(range(type.ndim)))


# ------------------------------------------------------------- elementwise, one operand

copy = elementwise(
    "copy",
    accepts=ALL,
    numpy=lambda x: np.array(x),
    partials=lambda x, out: [ONE],
    text="np.copy",
    scalar="x",
    finite=True,
    doc="The same values as a new tensor.",
)

cast: Op = register(
    Op(
        name="cast",
        type=lambda x, *, dtype, weak=False: TensorType(dtype, x.shape, weak),
        evaluate=lambda x, *, dtype, weak=False: _numpy_cast(x, dtype),
        derivative=Explicit(
            lambda node, out_bar: [
                cast(out_bar, dtype=node.inputs[0].dtype)
                if node.inputs[0].dtype != out_bar.dtype
                else out_bar
            ]
        ),
        form=lambda node: Elementwise(),
        text=lambda node, args: _cast_source(node, args[0]),
        elementwise=True,
        finite=True,
        doc="The values in another dtype (NumPy's astype).",
    )
)


def _cast_source(node: Node, x: str) -> str:
    """NumPy's cast; of complex numbers to real ones, that of their real parts."""
    source, target = node.inputs[0].type, node.attrs.dtype
    if source.dtype.is_complex and target.is_bool:
        return f"{x} != 0"
    if source.dtype.is_complex and not target.is_complex:
        x = f"{x}.real"
        if target.bits * 2 == source.dtype.bits and target.is_float:
            return x
    return f"{x}.astype(np.{target})" if source.shape else f"np.{target}({x})"


def _numpy_cast(x: Any, dtype: DType) -> Any:
    value = np.asarray(x)
    if value.dtype.kind == "c" and dtype.kind == "b":
        return value != 0
    if value.dtype.kind == "c" and dtype.kind != "c":
        value = value.real
    return value.astype(dtype.name)


stop_gradient = primitive(
    "stop_gradient",
    type=lambda x: x,
    numpy=lambda x: np.array(x),
    derivative=Constant("stop_gradient"),
    form=lambda node: Elementwise(),
    text=lambda node, args: args[0],
    doc="The same values, with no derivative.",
)

prevent_gradient = primitive(
    "prevent_gradient",
    type=lambda x, *, message: x,
    numpy=lambda x, *, message: np.array(x),
    derivative=Absent("its gradient is prevented", code="gradient-prevented"),
    form=lambda node: Elementwise(),
    text=lambda node, args: args[0],
    doc="The same values; an error where a gradient is asked for through it.",
)

opaque = primitive(
    "opaque",
    type=lambda x: x,
    numpy=lambda x: np.array(x),
    derivative=Absent(),
    form=lambda node: Elementwise(),
    text=lambda node, args: args[0],
    doc="The same values, as if made by something gradc can't differentiate.",
)


# ------------------------------------------------------------------ index maps


def _broadcast_type(
    x: TensorType, *, shape: Shape, along: tuple[int, ...]
) -> TensorType:
    kept = tuple(d for k, d in enumerate(shape) if k not in along)
    if kept != x.shape:
        raise InternalError(f"broadcast: {x} along {along} to {shape_text(shape)}")
    return TensorType(x.dtype, shape)


def _sizes_required(node: Node) -> list[Dim]:
    """Sizes of a result that could be negative, as in `zeros(N - 5)`."""
    return [d for d in node.attrs.shape if not is_nonnegative(d)]


def _kept(ndim: int, along: Sequence[int]) -> list[int]:
    return [k for k in range(ndim) if k not in along]


def _broadcast_source(node: Node, args: Sequence[str]) -> str:
    shape, along = node.attrs.shape, node.attrs.along
    x = args[0]
    if node.inputs[0].ndim and along != tuple(range(len(along))):
        x = f"{x}[{', '.join('None' if k in along else ':' for k in range(len(shape)))}]"
    return f"np.broadcast_to({x}, {shape_text(shape)})"


broadcast: Op = linear(
    "broadcast",
    type=_broadcast_type,
    numpy=lambda x, *, shape, along, sizes: np.array(
        np.broadcast_to(np.expand_dims(x, along), numpy_shape(shape, sizes))
    ),
    transpose=lambda out_bar, x, *, shape, along: reduce_sum(out_bar, axes=along),
    form=lambda node: View(
        tuple(axis(k) for k in _kept(len(node.attrs.shape), node.attrs.along))
    ),
    text=_broadcast_source,
    requires=_sizes_required,
    doc="The operand repeated along the new axes `along` of `shape`.",
)


def _reshape_type(x: TensorType, *, shape: Shape) -> TensorType:
    if size_of(x.shape) != size_of(shape):
        raise ShapeError(
            f"reshape: {shape_text(x.shape)} has {dim_text(size_of(x.shape))} elements, "
            f"{shape_text(shape)} has {dim_text(size_of(shape))}"
        )
    return TensorType(x.dtype, shape)


reshape: Op = linear(
    "reshape",
    type=_reshape_type,
    numpy=lambda x, *, shape, sizes: np.reshape(x, numpy_shape(shape, sizes)),
    transpose=lambda out_bar, x, *, shape: reshape(out_bar, shape=x.shape),
    form=lambda node: Reshape(),
    text=lambda node, args: f"np.reshape({args[0]}, {shape_text(node.attrs.shape)})",
    doc="The same elements in row-major order under another shape.",
)


def _inverse(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


transpose: Op = linear(
    "transpose",
    type=lambda x, *, perm: x.with_shape(x.shape[k] for k in perm),
    numpy=lambda x, *, perm: np.transpose(x, perm),
    transpose=lambda out_bar, x, *, perm: transpose(out_bar, perm=_inverse(perm)),
    form=lambda node: View(tuple(axis(k) for k in _inverse(node.attrs.perm))),
    text=lambda node, args: (
        f"{args[0]}.T"
        if node.attrs.perm == tuple(reversed(range(node.inputs[0].ndim)))
        else f"np.transpose({args[0]}, {node.attrs.perm})"
    ),
    doc="Axes in another order.",
)


# ---------------------------------------------------------------------- sums

reduce_sum: Op = linear(
    "reduce_sum",
    type=lambda x, *, axes: x.without(axes),
    numpy=lambda x, *, axes: np.sum(x, axis=tuple(axes), dtype=x.dtype),
    transpose=lambda out_bar, x, *, axes: broadcast(out_bar, shape=x.shape, along=axes),
    form=lambda node: Accumulate("add", node.attrs.axes, 0.0),
    text=lambda node, args: (
        f"np.sum({args[0]})"
        if len(node.attrs.axes) == node.inputs[0].ndim
        else f"np.sum({args[0]}, axis={_axes_source(node.attrs.axes)})"
    ),
    doc="Sum over `axes`. The sum of no elements is 0.",
)


def _axes_source(axes: tuple[int, ...]) -> str:
    return str(axes[0]) if len(axes) == 1 else str(axes)


def _add_n_numpy(*terms: Any, method: str) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


add_n = linear(
    "add_n",
    type=lambda *terms, method: same_type(*terms),
    numpy=_add_n_numpy,
    transpose=lambda out_bar, *terms, method: [out_bar] * len(terms),
    form=lambda node: Elementwise(),
    text=lambda node, args: " + ".join(args),
    accepts=ALL,
    doc="The sum of an adjoint's terms, in this order; `method` is the aggregation asked for.",
)


# ------------------------------------------------------------- the adjoint's own


def _numpy_pull(g: Any, slope: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.where(g == 0, np.zeros((), np.asarray(g).dtype), g * slope)


_pull = elementwise(
    "pull",
    accepts=INEXACT,
    numpy=_numpy_pull,
    partials=lambda g, slope, out: [lambda: slope, lambda: g],
    text=lambda node, args: f"np.where({args[0]} == 0, 0, {args[0]} * {args[1]})",
    scalar="_pull",
    doc="The strong zero: 0 where g is 0, else g * slope (SPEC rule 12).",
)


def pull(g: Tensor, slope: Tensor) -> Tensor:
    """`g * slope`, where a zero g gives 0 whatever the slope; a plain product under `ieee`."""
    if here().ieee:
        return g * slope
    return _pull(g, slope)


gate = primitive(
    "gate",
    type=lambda *xs: tuple(xs),
    numpy=lambda *xs: tuple(np.array(x) for x in xs),
    derivative=Explicit(lambda node, *bars: list(bars)),
    doc="All operands as they are, each only after all are computed.",
)

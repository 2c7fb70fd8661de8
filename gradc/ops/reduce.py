"""Reductions over axes: sums, products, extremes, means and where the extremes stand."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradc.errors import ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops.basic import broadcast, cast, iota, pull, reduce_sum, reshape, transpose
from gradc.ops.basic import copy as copy_op
from gradc.ops.complex import conjugate
from gradc.ops.elementwise import (
    divide,
    equal,
    filled,
    greater,
    isnan,
    less,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    no_complex,
    not_equal,
    select,
    truth,
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
)
from gradc.ops.loops import Accumulate
from gradc.ops.order import exclusive_product
from gradc.ops.registry import (
    ALL,
    COMPLEX,
    FLOATS,
    REAL,
    Bar,
    Constant,
    Explicit,
    Op,
    primitive,
)
from gradc.types import (
    Dim,
    DType,
    Shape,
    TensorType,
    broadcast_shapes,
    dtype_of,
    float32,
    float64,
    int64,
    is_nonnegative,
    size_of,
    uint64,
)

__all__ = [
    "count_of",
    "highest",
    "kept",
    "lowest",
    "mean",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "restored",
    "total",
]


# -------------------------------------------------------------------- axes and counts


def restored(y: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A reduced tensor repeated along the axes it was reduced over."""
    return broadcast(y, shape=x.shape, along=axes) if axes else y


def kept(y: Tensor, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduced tensor, with axes of length 1 for the reduced ones where `keepdims`."""
    if not keepdims or not axes:
        return y
    return reshape(y, shape=tuple(1 if k in axes else d for k, d in enumerate(x.shape)))


def count_of(x: Tensor, axes: Sequence[int]) -> Dim:
    """How many elements are reduced to one."""
    return size_of(x.shape[k] for k in axes)


def _axes_text(node: Node) -> str:
    axes = node.attrs.axes
    if len(axes) == node.inputs[0].ndim:
        return ""
    return f", axis={axes[0] if len(axes) == 1 else axes}"


# --------------------------------------------------------------------------- products


def _prod_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """Each element's cotangent is the product of all the others: no division, exact with zeros."""
    (x,) = node.inputs
    axes: tuple[int, ...] = node.attrs.axes
    if len(axes) == 1:
        others = exclusive_product(x, axes[0])
    else:
        free = [k for k in range(x.ndim) if k not in axes]
        perm = (*free, *axes)
        moved = transpose(x, perm=perm)
        flat = reshape(moved, shape=(*(x.shape[k] for k in free), count_of(x, axes)))
        found = reshape(exclusive_product(flat, len(free)), shape=moved.shape)
        back = tuple(sorted(range(x.ndim), key=perm.__getitem__))
        others = transpose(found, perm=back)
    return [pull(restored(g, x, axes), conjugate(others))]


reduce_prod: Op = primitive(
    "reduce_prod",
    type=lambda x, *, axes: x.without(axes),
    numpy=lambda x, *, axes: np.prod(x, axis=tuple(axes), dtype=x.dtype),
    derivative=Explicit(_prod_vjp),
    form=lambda node: Accumulate("multiply", node.attrs.axes, 1.0),
    text=lambda node, args: f"np.prod({args[0]}{_axes_text(node)})",
    accepts=REAL | COMPLEX,
    doc="Product over `axes`. The product of no elements is 1.",
)


# --------------------------------------------------------------------------- extremes


def _extreme_type(x: TensorType, *, axes: tuple[int, ...], empty: bool) -> TensorType:
    for k in axes:
        if x.shape[k] == 0 and not empty:
            raise ShapeError(
                f"axis {k} of {x} has no elements, and an extreme of none is not defined",
                code="empty-reduction",
                hint="give initial= a value to start from",
            )
    return x.without(axes)


def _extreme_requires(node: Node) -> list[Dim]:
    return [] if node.attrs.empty else _axes_required(node)


def _axes_required(node: Node) -> list[Dim]:
    """What is not negative where the reduced axes have elements."""
    dims = [node.inputs[0].shape[k] for k in node.attrs.axes]
    return [d - 1 for d in dims if not isinstance(d, int) and not is_nonnegative(d - 1)]


def lowest(dtype: DType) -> float | int:
    """The value that every maximum starts from."""
    if dtype.is_bool:
        return 0
    return -math.inf if dtype.is_float else int(np.iinfo(dtype.name).min)


def highest(dtype: DType) -> float | int:
    """The value that every minimum starts from."""
    if dtype.is_bool:
        return 1
    return math.inf if dtype.is_float else int(np.iinfo(dtype.name).max)


def _extreme_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The elements that are the extreme share the cotangent; a NaN among them spoils all."""
    (x,) = node.inputs
    out, axes = node.out, node.attrs.axes
    level = restored(out, x, axes)
    beaten = less(x, level) if node.op.name == "reduce_max" else greater(x, level)
    wide = float32 if x.dtype.bits == 16 else x.dtype  # float16 can't count to 100,000
    winners = reduce_sum(cast(logical_not(beaten), dtype=wide), axes=axes)
    share = pull(g, select(isnan(out), np.nan, convert(1.0 / winners, x.dtype)))
    return [select(beaten, 0, restored(share, x, axes))]


def _extreme(
    name: str,
    numpy: Callable[..., Any],
    combine: str,
    start: Callable[[DType], float | int],
    doc: str,
) -> Op:
    def evaluate(x: Any, *, axes: tuple[int, ...], empty: bool) -> Any:
        more = {"initial": start(dtype_of(x))} if empty else {}
        return numpy(x, axis=axes, **more)

    def text(node: Node, args: Sequence[str]) -> str:
        more = ""
        if node.attrs.empty:
            value = start(node.out.dtype)
            spelled = {-math.inf: "-np.inf", math.inf: "np.inf"}.get(value, str(value))
            more = f", initial={spelled}"
        return f"np.{combine[:3]}({args[0]}{_axes_text(node)}{more})"

    return primitive(
        name,
        type=_extreme_type,
        numpy=evaluate,
        derivative=Explicit(_extreme_vjp),
        form=lambda node: Accumulate(
            combine, node.attrs.axes, _finite(start(node.out.dtype), node.out.dtype)
        ),
        text=text,
        accepts=ALL - COMPLEX,
        requires=_extreme_requires,
        doc=doc,
    )


def _finite(value: float, dtype: DType) -> float:
    """A starting value as loop forms write it: infinities stand for an integer's ends."""
    if dtype.is_integer:
        return -math.inf if value <= 0 else math.inf
    return float(value)


reduce_max = _extreme(
    "reduce_max",
    np.max,
    "maximum",
    lowest,
    "The largest over `axes`, NaN if any is; ties share the cotangent. With `empty`, that of no "
    "elements is the lowest value there is.",
)

reduce_min = _extreme(
    "reduce_min",
    np.min,
    "minimum",
    highest,
    "The smallest over `axes`, NaN if any is; ties share the cotangent. With `empty`, that of no "
    "elements is the highest value there is.",
)


# ------------------------------------------------------------ extremes of what is known


def _known_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The elements that are the extreme share the cotangent; where all are NaN none has any."""
    (x,) = node.inputs
    out, axes = node.out, node.attrs.axes
    winners = equal(x, restored(out, x, axes))
    wide = float32 if x.dtype.bits == 16 else x.dtype
    count = reduce_sum(cast(winners, dtype=wide), axes=axes)
    share = pull(g, convert(1.0 / count, x.dtype))
    return [select(winners, restored(share, x, axes), 0)]


def _known_expand(node: Node) -> Tensor:
    (x,), axes = node.inputs, node.attrs.axes
    op = reduce_max if node.op.name == "nanmax" else reduce_min
    start = lowest(x.dtype) if node.op.name == "nanmax" else highest(x.dtype)
    unknown = isnan(x)
    found = op(select(unknown, start, x), axes=axes, empty=False)
    none = reduce_min(unknown, axes=axes, empty=False)
    return select(none, math.nan, found)


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy without its warnings of slices that are all NaN."""

    def evaluate(x: Any, *, axes: tuple[int, ...]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return np.asarray(function(x, axis=axes))

    return evaluate


def _known(name: str, numpy: Callable[..., Any], doc: str) -> Op:
    return primitive(
        name,
        type=lambda x, *, axes: _extreme_type(x, axes=axes, empty=False),
        numpy=_quietly(numpy),
        derivative=Explicit(_known_vjp),
        expand=_known_expand,
        accepts=FLOATS,
        requires=_axes_required,
        doc=doc,
    )


_nanmax = _known(
    "nanmax",
    np.nanmax,
    "The largest over `axes` of what is not NaN, NaN where all are; ties share the cotangent.",
)

_nanmin = _known(
    "nanmin",
    np.nanmin,
    "The smallest over `axes` of what is not NaN, NaN where all are; ties share the cotangent.",
)


# ----------------------------------------------------------------- where extremes stand


def _position_type(x: TensorType, *, axis: int) -> TensorType:
    _extreme_type(x, axes=(axis,), empty=False)
    return x.without((axis,)).with_dtype(int64)


def _position_expand(node: Node) -> Tensor:
    """The least index whose element is the extreme or a NaN."""
    (x,) = node.inputs
    axis: int = node.attrs.axis
    op = reduce_max if node.op.name == "argmax" else reduce_min
    level = restored(op(x, axes=(axis,), empty=False), x, (axis,))
    hit = equal(x, level)
    if x.dtype.is_inexact:
        hit = logical_or(hit, not_equal(x, x))
    index = iota(shape=x.shape, axis=axis, dtype=int64)
    found = select(hit, index, filled(np.iinfo("int64").max, index))
    return reduce_min(found, axes=(axis,), empty=False)


def _position(name: str, numpy: Callable[..., Any], doc: str) -> Op:
    return primitive(
        name,
        type=_position_type,
        numpy=lambda x, *, axis: np.asarray(numpy(x, axis=axis), np.int64),
        derivative=Constant("its result is an index"),
        expand=_position_expand,
        accepts=ALL - COMPLEX,
        requires=lambda node: [
            d - 1
            for d in (node.inputs[0].shape[node.attrs.axis],)
            if not isinstance(d, int) and not is_nonnegative(d - 1)
        ],
        doc=doc,
    )


_argmax = _position(
    "argmax", np.argmax, "Index of the first largest element, or of the first NaN."
)
_argmin = _position(
    "argmin", np.argmin, "Index of the first smallest element, or of the first NaN."
)


def _index_function(op: Op) -> None:
    def call(
        x: TensorLike, axis: int | None = None, *, keepdims: bool = False
    ) -> Tensor:
        tensor = _ordered(op.name, x)
        if axis is None:
            flat = reshape(tensor, shape=(tensor.type.size,))
            every = tuple(range(tensor.ndim))
            return kept(op(flat, axis=0), tensor, every, keepdims)
        k = axis_of(axis, tensor.ndim)
        return kept(op(tensor, axis=k), tensor, (k,), keepdims)

    call.__doc__ = op.doc
    call.__name__ = op.name
    function(op.name, method=True)(call)


_index_function(_argmax)
_index_function(_argmin)


# -------------------------------------------------------------- the user's reductions


def total(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The sum over `axes`, in x's dtype."""
    return reduce_sum(x, axes=axes) if axes else copy_op(x)


def sum_dtype(given: DType, wanted: DType | None) -> DType:
    """The dtype NumPy sums in: small integers and truth values become int64 or uint64."""
    if wanted is not None:
        return wanted
    if given.is_bool or given.kind == "i":
        return int64
    return uint64 if given.kind == "u" else given


def _masked(x: Tensor, where: TensorLike | None, neutral: Any) -> Tensor:
    """x with the neutral value where the mask does not hold; the mask broadcasts x too."""
    if where is None:
        return x
    mask = truth(where)
    shape = broadcast_shapes(x.shape, mask.shape)
    if shape != x.shape:
        raise ShapeError(
            f"where= of shape {mask.type} does not broadcast to the operand {x.type}"
        )
    return select(broadcast_to(mask, shape), x, filled(neutral, x))


def _strong(x: TensorLike, dtype: DType | None = None) -> Tensor:
    """x as a tensor with a dtype of its own."""
    tensor = as_tensor(x)
    return convert(tensor, dtype or tensor.dtype)


@function("sum", method=True)
def sum_(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The sum over `axis` (None: over all). Small integers are summed as int64."""
    tensor = as_tensor(x)
    tensor = _strong(tensor, sum_dtype(tensor.dtype, dtype))
    axes = axes_of(axis, tensor.ndim)
    found = kept(total(_masked(tensor, where, 0), axes), tensor, axes, keepdims)
    return found if initial is None else found + _strong(initial, tensor.dtype)


@function("prod", method=True)
def prod(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The product over `axis` (None: over all). Its derivative is exact with zeros."""
    tensor = as_tensor(x)
    tensor = _strong(tensor, sum_dtype(tensor.dtype, dtype))
    axes = axes_of(axis, tensor.ndim)
    masked = _masked(tensor, where, 1)
    found = reduce_prod(masked, axes=axes) if axes else copy_op(masked)
    found = kept(found, tensor, axes, keepdims)
    return found if initial is None else found * _strong(initial, tensor.dtype)


def _extreme_of(
    op: Op,
    combine: Callable[[TensorLike, TensorLike], Tensor],
    neutral: float,
    x: Tensor,
    axes: tuple[int, ...],
    keepdims: bool,
    initial: TensorLike | None,
    where: TensorLike | None,
) -> Tensor:
    if where is not None and initial is None:
        raise TypeMismatch(
            f"{op.name[7:]}: where= needs initial=, the value where nothing is selected",
            code="missing-argument",
        )
    masked = _masked(x, where, neutral)
    if axes:
        masked = op(masked, axes=axes, empty=initial is not None)
    else:
        masked = copy_op(masked)
    found = kept(masked, x, axes, keepdims)
    if initial is None:
        return found
    start = operands(found, _strong(initial, x.dtype))[1]
    return combine(found, start)


@function("max", "amax", method=True)
def max_(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The largest over `axis` (None: over all). Ties share the cotangent equally."""
    tensor = _ordered("max", x)
    _two_values("max", "maximum", axis)
    axes = axes_of(axis, tensor.ndim)
    low = lowest(tensor.dtype)
    return _extreme_of(reduce_max, maximum, low, tensor, axes, keepdims, initial, where)


@function("min", "amin", method=True)
def min_(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The smallest over `axis` (None: over all). Ties share the cotangent equally."""
    tensor = _ordered("min", x)
    _two_values("min", "minimum", axis)
    axes = axes_of(axis, tensor.ndim)
    high = highest(tensor.dtype)
    return _extreme_of(
        reduce_min, minimum, high, tensor, axes, keepdims, initial, where
    )


def _ordered(name: str, x: TensorLike) -> Tensor:
    """x with a dtype of its own. TypeMismatch for complex numbers."""
    tensor = _strong(x)
    if tensor.dtype.is_complex:
        raise no_complex(name)
    return tensor


def _two_values(name: str, meant: str, axis: Any) -> None:
    """Refuse `max(w, 1e-8)`, which reduces over an axis in NumPy."""
    if isinstance(axis, Tensor | float):
        raise TypeMismatch(
            f"{name}: the second argument is an axis, found a value",
            hint=f"did you mean {meant}?",
        )


def _known_extreme(
    op: Op,
    extreme: Callable[..., Tensor],
    neutral: Callable[[DType], float],
    x: TensorLike,
    axis: Axes,
    keepdims: bool,
    initial: TensorLike | None,
    where: TensorLike | None,
) -> Tensor:
    tensor = _strong(x)
    if not tensor.dtype.is_inexact:
        return extreme(tensor, axis, keepdims=keepdims, initial=initial, where=where)
    if initial is not None or where is not None:  # an initial value is known itself
        known = select(isnan(tensor), neutral(tensor.dtype), tensor)
        return extreme(known, axis, keepdims=keepdims, initial=initial, where=where)
    axes = axes_of(axis, tensor.ndim)
    found = op(tensor, axes=axes) if axes else copy_op(tensor)
    return kept(found, tensor, axes, keepdims)


@function("nanmax")
def nanmax(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The largest over `axis` of what is not NaN, NaN where all are. Ties share the cotangent."""
    return _known_extreme(_nanmax, max_, lowest, x, axis, keepdims, initial, where)


@function("nanmin")
def nanmin(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The smallest over `axis` of what is not NaN, NaN where all are. Ties share the cotangent."""
    return _known_extreme(_nanmin, min_, highest, x, axis, keepdims, initial, where)


@function("ptp")
def ptp(x: TensorLike, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest minus the smallest over `axis`."""
    return max_(x, axis, keepdims=keepdims) - min_(x, axis, keepdims=keepdims)


@function("any", method=True)
def any_(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
) -> Tensor:
    """Whether any element is true (not 0)."""
    return _truth_reduced(reduce_max, _masked(truth(x), where, False), axis, keepdims)


@function("all", method=True)
def all_(
    x: TensorLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
) -> Tensor:
    """Whether all elements are true (not 0)."""
    return _truth_reduced(reduce_min, _masked(truth(x), where, True), axis, keepdims)


def _truth_reduced(op: Op, x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    axes = axes_of(axis, x.ndim)
    found = op(x, axes=axes, empty=True) if axes else copy_op(x)
    return kept(found, x, axes, keepdims)


@function("count_nonzero")
def count_nonzero(
    x: TensorLike, axis: Axes = None, *, keepdims: bool = False
) -> Tensor:
    """The number of elements that are not 0."""
    return sum_(cast(truth(x), dtype=int64), axis, keepdims=keepdims)


# ------------------------------------------------------------------------------ means


def mean_dtype(given: DType, wanted: DType | None) -> DType:
    if wanted is not None:
        return wanted
    return given if given.is_inexact else float64


@function("mean", method=True)
def mean(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
) -> Tensor:
    """The mean over `axis` (None: over all); of integers as float64, of no elements NaN."""
    tensor = as_tensor(x)
    tensor = _strong(tensor, mean_dtype(tensor.dtype, dtype))
    axes = axes_of(axis, tensor.ndim)
    summed = sum_(tensor, axes, keepdims=keepdims, where=where)
    if where is None:
        return divide(summed, number(count_of(tensor, axes), tensor.dtype))
    mask = broadcast_to(truth(where), tensor.shape)
    return divide(summed, sum_(convert(mask, tensor.dtype), axes, keepdims=keepdims))


@function("average")
def average(
    x: TensorLike,
    axis: Axes = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The mean over `axis`, weighted where `weights` are given: of x's shape, or along the axis.

    With `returned` the sum of the weights follows.
    """
    tensor = as_tensor(x)
    if weights is None:
        plain = mean(tensor, axis, keepdims=keepdims)
        count = count_of(tensor, axes_of(axis, tensor.ndim))
        return (plain, filled(count, plain)) if returned else plain
    axes = axes_of(axis, tensor.ndim)
    w = as_tensor(weights)
    if w.shape != tensor.shape:
        w = broadcast_to(_along(w, tensor.shape, axes), tensor.shape)
    if not (tensor.dtype.is_inexact or w.dtype.is_inexact):
        w = convert(w, float64)
    weighted = sum_(multiply(tensor, w), axes, keepdims=keepdims)
    scale = sum_(w, axes, keepdims=keepdims)
    found = divide(weighted, scale)
    return (found, convert(scale, found.dtype)) if returned else found


def _along(w: Tensor, shape: Shape, axes: tuple[int, ...]) -> Tensor:
    """Weights of the reduced axes alone, with the other axes put in."""
    if w.shape != tuple(shape[k] for k in axes):
        raise ShapeError(
            f"average: weights are {w.type}, expected the operand's shape or that of its axis"
        )
    return reshape(w, shape=tuple(d if k in axes else 1 for k, d in enumerate(shape)))


@function("nansum")
def nansum(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    initial: TensorLike | None = None,
    where: TensorLike | None = None,
) -> Tensor:
    """The sum over `axis` of what is not NaN."""
    tensor = as_tensor(x)
    known = select(isnan(tensor), filled(0, tensor), tensor)
    return sum_(known, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@function("nanmean")
def nanmean(
    x: TensorLike,
    axis: Axes = None,
    dtype: DType | None = None,
    *,
    keepdims: bool = False,
    where: TensorLike | None = None,
) -> Tensor:
    """The mean over `axis` of what is not NaN."""
    tensor = as_tensor(x)
    tensor = _strong(tensor, mean_dtype(tensor.dtype, dtype))
    present = convert(logical_not(isnan(tensor)), tensor.dtype)
    count = sum_(present, axis, keepdims=keepdims, where=where)
    return divide(nansum(tensor, axis, keepdims=keepdims, where=where), count)

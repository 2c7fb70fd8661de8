"""Arithmetic, comparisons and the elementary functions, element by element.

A slope that is 0 because an operand was not selected (`maximum`, `clip`, `where`) is a select on
the cotangent, not a product with 0: an infinite cotangent leaves no NaN there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import ShapeError, TypeMismatch, UnsupportedError
from gradc.graph import Node, Tensor
from gradc.ops.basic import broadcast, cast, constant, pull, reshape
from gradc.ops.basic import copy as copy_op
from gradc.ops.functions import (
    TensorLike,
    as_tensor,
    broadcast_to,
    convert,
    function,
    number,
    operands,
    type_of,
    ufunc_dtypes,
)
from gradc.ops.registry import (
    BOOL,
    FLOATS,
    INTEGER,
    ONE,
    REAL,
    ZERO,
    Bar,
    Explicit,
    Linear,
    Op,
    Slope,
    elementwise,
)
from gradc.types import (
    DType,
    Poly,
    TensorType,
    bool_,
    broadcast_shapes,
    float64,
    int64,
)

__all__ = [
    "absolute",
    "add",
    "clip",
    "copysign",
    "cos",
    "divide",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "filled",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "power",
    "reciprocal",
    "scalar_value",
    "select",
    "sigmoid",
    "sign",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "step",
    "subtract",
    "tanh",
    "trunc",
    "typed_operands",
    "where",
]

Unary: TypeAlias = "Callable[[TensorLike], Tensor]"
Binary: TypeAlias = "Callable[[TensorLike, TensorLike], Tensor]"
Partial: TypeAlias = "Callable[..., Sequence[Slope]]"

NUMBERS = REAL | BOOL
PIECEWISE = "it is constant almost everywhere"
TRUTH = "its result is a truth value"
WHOLE = "its result is an integer"


# ------------------------------------------------------------------ making operands


def typed_operands(
    ufunc: np.ufunc, *values: TensorLike, inexact: bool = False
) -> tuple[Tensor, ...]:
    """The values in the dtypes in which NumPy's `ufunc` computes them, of one shape.

    Python numbers alone stay weak. `inexact` takes float64 where NumPy's loop takes integers and
    gives float64 (true division).
    """
    dtypes, weak = ufunc_dtypes(ufunc, *values)
    if any(d.is_complex for d in dtypes):
        raise UnsupportedError(
            f"{ufunc.__name__} of complex numbers is not in this version",
            hint="compute with the real and the imaginary part",
        )
    if inexact:
        dtypes = tuple(d if d.is_inexact else float64 for d in dtypes)
    if not weak:
        return operands(*values, dtypes=dtypes)
    tensors = [as_tensor(v) for v in values]
    return tuple(
        t if t.dtype == d else cast(t, dtype=d, weak=True)
        for t, d in zip(tensors, dtypes, strict=True)
    )


def scalar_value(tensor: Tensor) -> Any:
    """The Python number that all elements of a tensor are known to be, or None."""
    while tensor.op is broadcast or tensor.op is reshape:
        tensor = tensor.inputs[0]
    if tensor.op is cast:
        inner = scalar_value(tensor.inputs[0])
        return None if inner is None else np.asarray(inner, tensor.dtype.name).item()
    if tensor.op is negative_op:
        inner = scalar_value(tensor.inputs[0])
        return None if inner is None else -inner
    if tensor.op is constant and tensor.attrs.value.array.size == 1:
        return tensor.attrs.value.item()
    return None


def filled(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor of another one's shape and dtype."""
    if like.type.weak:
        return number(value, like.dtype, weak=True)
    return broadcast_to(number(value, like.dtype), like.shape)


def _unary(
    name: str,
    ufunc: np.ufunc,
    partial: Callable[[Tensor, Tensor], Slope] | None,
    *,
    doc: str,
    aliases: Sequence[str] = (),
    numpy: Callable[..., Any] | None = None,
    accepts: frozenset[str] = FLOATS,
    derivative: Explicit | None = None,
    scalar: str = "",
    text: str = "",
    expand: Callable[[Node], Tensor] | None = None,
    finite: bool = False,
    sample: tuple[float, float] = (-2.0, 2.0),
    cost: int = 1,
    result: DType | None = None,
    constant: str = "",
    whole: bool = False,
) -> Unary:
    """An op of one operand and the function of the language that makes it.

    `partial(x, out)` is its slope; the dtypes are those of `ufunc`. With `whole`, integers are
    left as they are.
    """
    op = elementwise(
        name,
        numpy=numpy or ufunc,
        partials=None if partial is None else lambda x, out: [partial(x, out)],
        derivative=derivative,
        doc=doc,
        accepts=accepts,
        text=text or f"np.{ufunc.__name__}",
        scalar=scalar,
        expand=expand,
        finite=finite,
        sample=sample,
        cost=cost,
        result=result,
        constant=constant,
    )

    def call(x: TensorLike) -> Tensor:
        if whole and not type_of(x).dtype.is_inexact:
            return copy_op(as_tensor(x))
        return op(*typed_operands(ufunc, x))

    call.__doc__ = doc
    call.__name__ = name
    function(name, *aliases)(call)
    return call


def _binary(
    name: str,
    ufunc: np.ufunc,
    partials: Partial | None,
    *,
    doc: str,
    aliases: Sequence[str] = (),
    operator: str = "",
    accepts: frozenset[str] = NUMBERS,
    derivative: Explicit | None = None,
    scalar: str | Mapping[str, str] = "",
    text: str = "",
    numpy: Callable[..., Any] | None = None,
    expand: Callable[[Node], Tensor] | None = None,
    finite: bool = False,
    cost: int = 1,
    inexact: bool = False,
    result: DType | None = None,
    constant: str = "",
) -> Binary:
    """An op of two operands and the function of the language that makes it."""
    op = elementwise(
        name,
        numpy=numpy or ufunc,
        partials=partials,
        derivative=derivative,
        doc=doc,
        accepts=accepts,
        text=text or f"np.{ufunc.__name__}",
        scalar=scalar,
        expand=expand,
        finite=finite,
        cost=cost,
        result=result,
        constant=constant,
    )

    def call(x: TensorLike, y: TensorLike) -> Tensor:
        a, b = typed_operands(ufunc, x, y, inexact=inexact)
        if a.dtype != b.dtype:  # int64 with uint64: NumPy compares them as they are
            a, b = operands(a, b, dtypes=(float64, float64))
        return op(a, b)

    call.__doc__ = doc
    call.__name__ = name
    function(name, *aliases, operator=operator)(call)
    return call


# ------------------------------------------------------------------------ arithmetic

add: Binary = _binary(
    "add",
    np.add,
    lambda x, y, out: [ONE, ONE],
    operator="add",
    text="+",
    scalar="+",
    finite=True,
    doc="The sum; of truth values, whether either is true.",
)

subtract: Binary = _binary(
    "subtract",
    np.subtract,
    lambda x, y, out: [ONE, -1.0],
    operator="subtract",
    accepts=REAL,
    text="-",
    scalar="-",
    finite=True,
    doc="The difference.",
)

multiply: Binary = _binary(
    "multiply",
    np.multiply,
    lambda x, y, out: [y, x],
    operator="multiply",
    text="*",
    scalar="*",
    finite=True,
    doc="The product; of truth values, whether both are true.",
)

divide: Binary = _binary(
    "divide",
    np.divide,
    lambda x, y, out: [lambda: 1.0 / y, lambda: -out * (1.0 / y)],
    aliases=("true_divide",),
    operator="divide",
    accepts=FLOATS,
    inexact=True,
    text="/",
    scalar="/",
    cost=4,
    doc="The quotient; integers are divided as float64.",
)

negative_op = elementwise(
    "negative",
    numpy=np.negative,
    partials=lambda x, out: [-1.0],
    accepts=REAL,
    text="-x",
    scalar="-x",
    finite=True,
    doc="The number with its sign changed.",
)


@function("negative", operator="negative")
def negative(x: TensorLike) -> Tensor:
    """The number with its sign changed."""
    return negative_op(*typed_operands(np.negative, x))


@function("positive")
def positive(x: TensorLike) -> Tensor:
    """The same values as a new tensor; TypeMismatch for truth values, as in NumPy."""
    return copy_op(*typed_operands(np.positive, x))


reciprocal_op = elementwise(
    "reciprocal",
    numpy=np.reciprocal,
    partials=lambda x, out: [-out * out],
    accepts=FLOATS,
    expand=lambda node: 1.0 / node.inputs[0],
    sample=(0.5, 2.0),
    cost=4,
    doc="1 / x.",
)


@function("reciprocal")
def reciprocal(x: TensorLike) -> Tensor:
    """1 / x. TypeMismatch for integers, whose reciprocals NumPy cuts to integers."""
    if not type_of(x).dtype.is_inexact:
        raise TypeMismatch(
            "reciprocal of integers is an integer in NumPy, 0 nearly everywhere",
            hint="write 1 / x",
        )
    return reciprocal_op(*typed_operands(np.reciprocal, x))


square: Unary = _unary(
    "square",
    np.square,
    lambda x, out: 2.0 * x,
    accepts=NUMBERS,
    expand=lambda node: node.inputs[0] * node.inputs[0],
    finite=True,
    doc="x * x.",
)


def _power_partials(x: Tensor, y: Tensor, out: Tensor) -> Sequence[Slope]:
    """y x**(y - 1) and x**y log x; a known exponent keeps its own power, down to x**0."""
    c = scalar_value(y)

    def by_base() -> Any:
        if c is not None:
            return ZERO if c == 0 else c * power_op(x, filled(c - 1, x))
        # 0**(y - 1) is infinite at y = 0, where the slope is 0 all the same
        base = select(logical_and(equal(x, 0), equal(y, 0)), 1, x)
        return y * power_op(base, y - 1)

    def by_exponent() -> Tensor:
        outside = less_equal(x, 0)
        return select(outside, 0, out * log(select(outside, 1, x)))

    return [by_base, by_exponent]


def _power_numpy(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind in "iu" and np.any(np.asarray(y) < 0):
        raise ValueError("power: an integer to a negative power")
    return np.power(x, y)


power_op = elementwise(
    "power",
    numpy=_power_numpy,
    partials=_power_partials,
    accepts=REAL,
    text="**",
    scalar="_power",
    sample=(0.3, 2.0),
    cost=20,
    doc="x to the power y. The slope by x is 0 for y = 0, that by y is 0 for x <= 0.",
)


@function("power", "pow", operator="power")
def power(x: TensorLike, y: TensorLike) -> Tensor:
    """x to the power y. TypeMismatch for an integer to a negative integer."""
    a, b = typed_operands(np.power, x, y)
    exponent = scalar_value(b)
    if a.dtype.is_integer and exponent is not None and exponent < 0:
        raise TypeMismatch(
            f"power: an integer to the negative power {exponent}",
            hint=f"write the exponent as a float: {float(exponent)}",
        )
    return power_op(a, b)


@function("float_power")
def float_power(x: TensorLike, y: TensorLike) -> Tensor:
    """x to the power y, computed in float64."""
    return power_op(*typed_operands(np.float_power, x, y))


# ----------------------------------------------------------------------- comparisons


def _compare(name: str, ufunc: np.ufunc, sign: str, what: str, **more: Any) -> Binary:
    return _binary(
        name,
        ufunc,
        None,
        text=sign,
        scalar=sign,
        result=bool_,
        constant=TRUTH,
        doc=f"Whether x {what} y.",
        **more,
    )


less = _compare("less", np.less, "<", "is less than", operator="less")
less_equal = _compare(
    "less_equal", np.less_equal, "<=", "is at most", operator="less_equal"
)
greater = _compare("greater", np.greater, ">", "is greater than", operator="greater")
greater_equal = _compare(
    "greater_equal", np.greater_equal, ">=", "is at least", operator="greater_equal"
)
equal = _compare("equal", np.equal, "==", "equals", operator="equal")
not_equal = _compare(
    "not_equal", np.not_equal, "!=", "differs from", operator="not_equal"
)


def _logical(name: str, ufunc: np.ufunc, sign: str, doc: str) -> Binary:
    op = elementwise(
        name,
        numpy=ufunc,
        partials=None,
        accepts=BOOL,
        text=sign,
        scalar=sign,
        constant=TRUTH,
        doc=doc,
    )

    def call(x: TensorLike, y: TensorLike) -> Tensor:
        return op(*operands(truth(x), truth(y)))

    call.__doc__ = doc
    call.__name__ = name
    function(name)(call)
    return call


def truth(x: TensorLike) -> Tensor:
    """Whether each element is not 0."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype.is_bool else cast(tensor, dtype=bool_)


logical_and = _logical("logical_and", np.logical_and, "&", "Whether both are true.")
logical_or = _logical("logical_or", np.logical_or, "|", "Whether either is true.")
logical_xor = _logical("logical_xor", np.logical_xor, "!=", "Whether just one is true.")

_not = elementwise(
    "logical_not",
    numpy=np.logical_not,
    accepts=BOOL,
    text="~x",
    scalar="~",
    constant=TRUTH,
    doc="Whether it is false.",
)


@function("logical_not")
def logical_not(x: TensorLike) -> Tensor:
    """Whether it is false (0)."""
    return _not(truth(x))


# ------------------------------------------------------------------------- selection


def _select_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    if not condition.dtype.is_bool or not condition.shape == x.shape == y.shape:
        raise ShapeError(f"operands differ: {condition}, {x} and {y}")
    if x.dtype != y.dtype:
        raise TypeMismatch(f"operands differ: {x} and {y}")
    return TensorType(x.dtype, x.shape, x.weak and y.weak)


def _select_transpose(
    out_bar: Tensor, condition: Tensor, x: Tensor, y: Tensor
) -> Sequence[Bar]:
    zero = filled(0, out_bar)
    return [
        None,
        select_op(condition, out_bar, zero),
        select_op(condition, zero, out_bar),
    ]


select_op: Op = elementwise(
    "select",
    numpy=lambda condition, x, y: np.where(condition, x, y),
    derivative=Linear(_select_transpose),
    type=_select_type,
    accepts=NUMBERS | {"complex64", "complex128"},
    text="np.where",
    scalar="select",
    finite=True,
    doc="x where the condition holds, else y. What is not taken gets no cotangent.",
)


def select(condition: Tensor, x: TensorLike, y: TensorLike) -> Tensor:
    """x where the condition holds, else y; numbers take the other's dtype."""
    a, b = operands(x, y)
    shape = broadcast_shapes(condition.shape, a.shape)
    if shape and a.type.weak:
        a, b = convert(a, a.dtype), convert(b, b.dtype)
    return select_op(
        broadcast_to(condition, shape), broadcast_to(a, shape), broadcast_to(b, shape)
    )


@function("where")
def where(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None
) -> Tensor:
    """x where the condition holds, else y. What is not taken contributes nothing to a gradient."""
    if x is None or y is None:
        raise UnsupportedError(
            "where with a condition alone: its result has no static shape",
            hint="write where(condition, x, y)",
        )
    return select(truth(condition), x, y)


@function("select")
def select_function(
    condlist: Sequence[TensorLike],
    choicelist: Sequence[TensorLike],
    default: TensorLike = 0,
) -> Tensor:
    """The choice of the first condition that holds, else `default`."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(
            f"select: {len(condlist)} conditions and {len(choicelist)} choices",
            code="length-mismatch",
        )
    found = as_tensor(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        mask = as_tensor(condition)
        if not mask.dtype.is_bool:
            raise TypeMismatch(
                f"select: a condition is {mask.type}", hint="compare it: x != 0"
            )
        found = select(mask, choice, found)
    return found


def _greatest_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """The larger (for minimum: the smaller) takes all; a tie gives half to each."""
    x, y = node.inputs
    first = greater(x, y) if node.op.name == "maximum" else less(x, y)
    tie, half = equal(x, y), 0.5 * g
    return [
        select(first, g, select(tie, half, 0)),
        select(first, 0, select(tie, half, g)),
    ]


def _not_nan_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """As for maximum; an operand beside a NaN takes all."""
    x, y = node.inputs
    first = greater(x, y) if node.op.name == "fmax" else less(x, y)
    first = logical_or(first, isnan(y))
    tie, half = equal(x, y), 0.5 * g
    return [
        select(tie, half, select(first, g, 0)),
        select(tie, half, select(first, 0, g)),
    ]


maximum: Binary = _binary(
    "maximum",
    np.maximum,
    None,
    derivative=Explicit(_greatest_vjp),
    scalar="_maximum",
    finite=True,
    doc="The larger one, NaN if either is. A tie gives half of the cotangent to each.",
)

minimum: Binary = _binary(
    "minimum",
    np.minimum,
    None,
    derivative=Explicit(_greatest_vjp),
    scalar="_minimum",
    finite=True,
    doc="The smaller one, NaN if either is. A tie gives half of the cotangent to each.",
)

_binary(
    "fmax",
    np.fmax,
    None,
    derivative=Explicit(_not_nan_vjp),
    scalar="_fmax",
    finite=True,
    doc="The larger one, or the one that is not NaN. A tie gives half to each.",
)

_binary(
    "fmin",
    np.fmin,
    None,
    derivative=Explicit(_not_nan_vjp),
    scalar="_fmin",
    finite=True,
    doc="The smaller one, or the one that is not NaN. A tie gives half to each.",
)


def _bounded_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    """A bound takes the cotangent where x lies beyond it, not where x is on it."""
    x, bound = node.inputs
    beyond = less(x, bound) if node.op.name == "clip_low" else greater(x, bound)
    return [select(beyond, 0, g), select(beyond, g, 0)]


_clip_low = elementwise(
    "clip_low",
    numpy=np.maximum,
    derivative=Explicit(_bounded_vjp),
    accepts=NUMBERS,
    expand=lambda node: maximum(*node.inputs),
    finite=True,
    doc="x, but the bound where x is below it; on the bound the slope by x is 1.",
)

_clip_high = elementwise(
    "clip_high",
    numpy=np.minimum,
    derivative=Explicit(_bounded_vjp),
    accepts=NUMBERS,
    expand=lambda node: minimum(*node.inputs),
    finite=True,
    doc="x, but the bound where x is above it; on the bound the slope by x is 1.",
)


@function("clip", method=True)
def clip(
    x: TensorLike,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
    *,
    a_min: TensorLike | None = None,
    a_max: TensorLike | None = None,
) -> Tensor:
    """x within [min, max], either of which may be None. The slope on a bound is 1."""
    low = a_min if min is None else min
    high = a_max if max is None else max
    found = as_tensor(x)
    if low is not None:
        found = _clip_low(*typed_operands(np.maximum, found, low))
    if high is not None:
        found = _clip_high(*typed_operands(np.minimum, found, high))
    return copy_op(found) if low is None and high is None else found


# -------------------------------------------------------------- signs and roundings

sign: Unary = _unary(
    "sign",
    np.sign,
    lambda x, out: ZERO,
    accepts=REAL,
    scalar="_sign",
    finite=True,
    doc="-1, 0 or 1 by the sign. Connected, with derivative 0.",
)

absolute: Unary = _unary(
    "absolute",
    np.absolute,
    lambda x, out: sign(x),
    accepts=NUMBERS,
    scalar="abs",
    text="np.abs",
    finite=True,
    doc="The absolute value; its slope is the sign, 0 at 0.",
    aliases=("abs",),
)
function("absolute_value", operator="absolute")(absolute)


@function("fabs")
def fabs(x: TensorLike) -> Tensor:
    """The absolute value as a float."""
    return absolute(*typed_operands(np.fabs, x))


step = elementwise(
    "step",
    numpy=lambda x: np.where(x > 0, 1, 0).astype(np.asarray(x).dtype),
    partials=lambda x, out: [ZERO],
    accepts=FLOATS,
    expand=lambda node: select(greater(node.inputs[0], 0), filled(1, node.out), 0),
    finite=True,
    doc="1 where x > 0, else 0 (for NaN too). Connected, with derivative 0.",
)

_binary(
    "heaviside",
    np.heaviside,
    lambda x, y, out: [ZERO, lambda: select(equal(x, 0), filled(1, out), 0)],
    accepts=FLOATS,
    scalar="_heaviside",
    finite=True,
    doc="0 for x < 0, y for x = 0, 1 for x > 0. Connected, with derivative 0 by x.",
)

copysign: Binary = _binary(
    "copysign",
    np.copysign,
    lambda x, y, out: [lambda: sign(x) * copysign(1.0, y), ZERO],
    accepts=FLOATS,
    scalar="_copysign",
    finite=True,
    doc="|x| with the sign of y.",
)


floor: Unary = _unary(
    "floor",
    np.floor,
    None,
    scalar="np.floor",
    constant=PIECEWISE,
    whole=True,
    doc="The largest integer that is not above x.",
)

_unary(
    "ceil",
    np.ceil,
    None,
    scalar="np.ceil",
    constant=PIECEWISE,
    whole=True,
    doc="The smallest integer that is not below x.",
)

trunc: Unary = _unary(
    "trunc",
    np.trunc,
    None,
    scalar="np.trunc",
    constant=PIECEWISE,
    whole=True,
    aliases=("fix",),
    doc="x without its fractional part.",
)

rint: Unary = _unary(
    "rint",
    np.rint,
    None,
    scalar="_round",
    constant=PIECEWISE,
    doc="The nearest integer, halves to even.",
)


@function("round", "around", method=True)
def round_(x: TensorLike, decimals: int = 0) -> Tensor:
    """x rounded to `decimals` places, halves to even. Constant, as all rounding is."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_inexact:
        if decimals >= 0:
            return copy_op(tensor)
        wide = round_(convert(tensor, float64), decimals)
        return cast(wide, dtype=tensor.dtype)
    if decimals == 0:
        return rint(tensor)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return rint(tensor * scale) / scale
    return rint(tensor / scale) * scale


_unary(
    "signbit",
    np.signbit,
    None,
    scalar="np.signbit",
    result=bool_,
    constant=TRUTH,
    doc="Whether the sign bit is set (of -0.0 it is).",
)


def _test(name: str, ufunc: np.ufunc, exact: bool, doc: str) -> Unary:
    """A test of floats; integers all answer `exact`."""
    op = elementwise(
        name,
        numpy=ufunc,
        accepts=FLOATS,
        text=f"np.{name}",
        scalar=f"math.{name}",
        result=bool_,
        constant=TRUTH,
        doc=doc,
    )

    def call(x: TensorLike) -> Tensor:
        tensor = as_tensor(x)
        if tensor.dtype.is_inexact:
            return op(*typed_operands(ufunc, tensor))
        return broadcast_to(number(exact, bool_), tensor.shape)

    call.__doc__ = doc
    call.__name__ = name
    function(name)(call)
    return call


isnan = _test("isnan", np.isnan, False, "Whether it is NaN.")
isinf = _test("isinf", np.isinf, False, "Whether it is an infinity.")
isfinite = _test(
    "isfinite", np.isfinite, True, "Whether it is neither NaN nor infinite."
)


@function("nan_to_num")
def nan_to_num(
    x: TensorLike,
    copy: bool = True,
    nan: TensorLike = 0.0,
    posinf: TensorLike | None = None,
    neginf: TensorLike | None = None,
) -> Tensor:
    """x with numbers for NaN and the infinities; the slope is 0 where one was put in."""
    tensor = as_tensor(x)
    if not tensor.dtype.is_inexact:
        return copy_op(tensor)
    limit = float(np.finfo(tensor.dtype.name).max)
    found = select(isnan(tensor), convert(nan, tensor.dtype), tensor)
    high = limit if posinf is None else posinf
    found = select(equal(tensor, np.inf), convert(high, tensor.dtype), found)
    low = -limit if neginf is None else neginf
    return select(equal(tensor, -np.inf), convert(low, tensor.dtype), found)


# --------------------------------------------------------------- division with rest

floor_divide: Binary = _binary(
    "floor_divide",
    np.floor_divide,
    None,
    accepts=REAL,
    operator="floor_divide",
    text="//",
    scalar="_floor_divide",
    constant=PIECEWISE,
    cost=8,
    doc="The quotient rounded down.",
)

_binary(
    "remainder",
    np.remainder,
    lambda x, y, out: [ONE, lambda: -floor_divide(x, y)],
    aliases=("mod",),
    accepts=REAL,
    operator="remainder",
    text="%",
    scalar="_mod",
    finite=True,
    cost=8,
    doc="What floor division leaves, with the sign of y.",
)

_binary(
    "fmod",
    np.fmod,
    lambda x, y, out: [ONE, lambda: -trunc(x / y)],
    accepts=REAL,
    scalar="_fmod",
    finite=True,
    cost=8,
    doc="What division leaves, with the sign of x.",
)


# ---------------------------------------------------------------------- bit by bit


def _bitwise(name: str, ufunc: np.ufunc, sign: str, doc: str) -> None:
    _binary(
        name,
        ufunc,
        None,
        accepts=INTEGER | BOOL,
        operator=name,
        text=sign,
        scalar=sign,
        constant=WHOLE,
        doc=doc,
    )


_bitwise("bitwise_and", np.bitwise_and, "&", "Bits set in both.")
_bitwise("bitwise_or", np.bitwise_or, "|", "Bits set in either.")
_bitwise("bitwise_xor", np.bitwise_xor, "^", "Bits set in just one.")

_invert = elementwise(
    "invert",
    numpy=np.invert,
    accepts=INTEGER | BOOL,
    text="~x",
    scalar="~",
    constant=WHOLE,
    doc="Every bit changed; of truth values, not.",
)


@function("invert", "bitwise_not", "bitwise_invert", operator="invert")
def invert(x: TensorLike) -> Tensor:
    """Every bit changed; of truth values, not."""
    return _invert(*typed_operands(np.invert, x))


def _shift(name: str, ufunc: np.ufunc, sign: str, doc: str, alias: str) -> None:
    op = elementwise(
        name,
        numpy=lambda x, y, bits: ufunc(x, y),
        type=lambda x, y, bits: x,
        accepts=INTEGER,
        text=sign,
        scalar=f"_{name}",
        constant=WHOLE,
        doc=doc,
    )

    def call(x: TensorLike, y: TensorLike) -> Tensor:
        a, b = typed_operands(ufunc, x, y)
        return op(a, b, bits=a.dtype.bits)

    call.__doc__ = doc
    call.__name__ = name
    function(name, alias, operator=name)(call)


_shift(
    "left_shift",
    np.left_shift,
    "<<",
    "Bits moved up by y places.",
    "bitwise_left_shift",
)
_shift(
    "right_shift",
    np.right_shift,
    ">>",
    "Bits moved down by y places.",
    "bitwise_right_shift",
)


# ----------------------------------------------------- roots, exponentials, logarithms

sqrt: Unary = _unary(
    "sqrt",
    np.sqrt,
    lambda x, out: 0.5 / out,
    scalar="np.sqrt",
    sample=(0.2, 3.0),
    cost=4,
    doc="The square root; its slope at 0 is infinite.",
)

_unary(
    "cbrt",
    np.cbrt,
    lambda x, out: 1.0 / (3.0 * (out * out)),
    scalar="_cbrt",
    sample=(0.2, 3.0),
    cost=12,
    doc="The cube root.",
)

exp: Unary = _unary(
    "exp",
    np.exp,
    lambda x, out: out,
    scalar="_exp",
    cost=10,
    doc="e to the power x.",
)

exp2: Unary = _unary(
    "exp2",
    np.exp2,
    lambda x, out: out * math.log(2),
    scalar="_exp2",
    cost=10,
    doc="2 to the power x.",
)

expm1: Unary = _unary(
    "expm1",
    np.expm1,
    lambda x, out: exp(x),
    scalar="_expm1",
    cost=12,
    doc="exp(x) - 1, exact near 0.",
)

log: Unary = _unary(
    "log",
    np.log,
    lambda x, out: 1.0 / x,
    scalar="_log",
    sample=(0.2, 3.0),
    cost=12,
    doc="The natural logarithm.",
)

_unary(
    "log2",
    np.log2,
    lambda x, out: (1.0 / math.log(2)) / x,
    scalar="_log2",
    sample=(0.2, 3.0),
    cost=12,
    doc="The logarithm to base 2.",
)

_unary(
    "log10",
    np.log10,
    lambda x, out: (1.0 / math.log(10)) / x,
    scalar="_log10",
    sample=(0.2, 3.0),
    cost=12,
    doc="The logarithm to base 10.",
)

log1p: Unary = _unary(
    "log1p",
    np.log1p,
    lambda x, out: 1.0 / (1.0 + x),
    scalar="_log1p",
    sample=(-0.7, 3.0),
    cost=14,
    doc="log(1 + x), exact near 0.",
)


# ------------------------------------------------------------------------ trigonometry

sin: Unary = _unary(
    "sin",
    np.sin,
    lambda x, out: cos(x),
    scalar="_sin",
    finite=True,
    cost=12,
    doc="The sine.",
)

cos: Unary = _unary(
    "cos",
    np.cos,
    lambda x, out: -sin(x),
    scalar="_cos",
    finite=True,
    cost=12,
    doc="The cosine.",
)

_unary(
    "tan",
    np.tan,
    lambda x, out: 1.0 + out * out,
    scalar="_tan",
    sample=(-1.2, 1.2),
    cost=16,
    doc="The tangent.",
)

_unary(
    "arcsin",
    np.arcsin,
    lambda x, out: 1.0 / sqrt((1.0 - x) * (1.0 + x)),
    aliases=("asin",),
    scalar="_arcsin",
    sample=(-0.8, 0.8),
    cost=16,
    doc="The inverse sine.",
)

_unary(
    "arccos",
    np.arccos,
    lambda x, out: -1.0 / sqrt((1.0 - x) * (1.0 + x)),
    aliases=("acos",),
    scalar="_arccos",
    sample=(-0.8, 0.8),
    cost=16,
    doc="The inverse cosine.",
)

_unary(
    "arctan",
    np.arctan,
    lambda x, out: 1.0 / (1.0 + x * x),
    aliases=("atan",),
    scalar="_arctan",
    finite=True,
    cost=16,
    doc="The inverse tangent.",
)


def _arctan2_partials(y: Tensor, x: Tensor, out: Tensor) -> Sequence[Slope]:
    """x / r**2 and -y / r**2, without overflow; 0 at the origin."""

    def over_square(z: Tensor) -> Tensor:
        r = hypot(x, y)
        return select(equal(r, 0), 0, (z / r) / r)

    return [lambda: over_square(x), lambda: -over_square(y)]


_binary(
    "arctan2",
    np.arctan2,
    _arctan2_partials,
    aliases=("atan2",),
    accepts=FLOATS,
    scalar="_arctan2",
    cost=20,
    doc="The angle of the point (y, x); its slopes at the origin are 0.",
)

hypot: Binary = _binary(
    "hypot",
    np.hypot,
    lambda x, y, out: [lambda: _share(x, out), lambda: _share(y, out)],
    accepts=FLOATS,
    scalar="_hypot",
    finite=True,
    cost=12,
    doc="sqrt(x**2 + y**2) without overflow; its slopes at the origin are 0.",
)


def _share(x: Tensor, whole: Tensor) -> Tensor:
    """x / whole, 0 where whole is 0."""
    return select(equal(whole, 0), 0, x / whole)


_sinh: Unary = _unary(
    "sinh",
    np.sinh,
    lambda x, out: cosh(x),
    scalar="_sinh",
    cost=14,
    doc="The hyperbolic sine.",
)

cosh: Unary = _unary(
    "cosh",
    np.cosh,
    lambda x, out: _sinh(x),
    scalar="_cosh",
    cost=14,
    doc="The hyperbolic cosine.",
)

tanh: Unary = _unary(
    "tanh",
    np.tanh,
    lambda x, out: 1.0 - out * out,
    scalar="_tanh",
    finite=True,
    cost=14,
    doc="The hyperbolic tangent.",
)

_unary(
    "arcsinh",
    np.arcsinh,
    lambda x, out: 1.0 / sqrt(x * x + 1.0),
    aliases=("asinh",),
    scalar="_arcsinh",
    finite=True,
    cost=20,
    doc="The inverse hyperbolic sine.",
)

_unary(
    "arccosh",
    np.arccosh,
    lambda x, out: 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)),
    aliases=("acosh",),
    scalar="_arccosh",
    sample=(1.2, 3.0),
    cost=20,
    doc="The inverse hyperbolic cosine.",
)

_unary(
    "arctanh",
    np.arctanh,
    lambda x, out: 1.0 / ((1.0 - x) * (1.0 + x)),
    aliases=("atanh",),
    scalar="_arctanh",
    sample=(-0.8, 0.8),
    cost=20,
    doc="The inverse hyperbolic tangent.",
)


@function("deg2rad", "radians")
def deg2rad(x: TensorLike) -> Tensor:
    """Degrees as radians."""
    (degrees,) = typed_operands(np.deg2rad, x)
    return degrees * (math.pi / 180)


@function("rad2deg", "degrees")
def rad2deg(x: TensorLike) -> Tensor:
    """Radians as degrees."""
    (radians,) = typed_operands(np.rad2deg, x)
    return radians * (180 / math.pi)


# ------------------------------------------------- logistic curve, sums of exponentials


def decay(x: Tensor) -> Tensor:
    """exp(-|x|): what the stable forms of softplus(x), sigmoid(x) and sigmoid(-x) share."""
    while x.op is negative_op:
        x = x.inputs[0]
    return exp(-absolute(x))


def _sigmoid_numpy(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return (np.where(x >= 0, 1, e) / (1 + e)).astype(np.asarray(x).dtype)


def _sigmoid_expand(node: Node) -> Tensor:
    (x,) = node.inputs
    e = decay(x)
    return select(greater_equal(x, 0), 1, e) / (1.0 + e)


sigmoid: Unary = _unary(
    "sigmoid",
    np.exp,
    lambda x, out: out * sigmoid(-x),  # 1 - out would lose the right tail
    numpy=_sigmoid_numpy,
    aliases=("expit",),
    expand=_sigmoid_expand,
    finite=True,
    cost=16,
    doc="1 / (1 + exp(-x)), without overflow.",
)


def _softplus_numpy(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


softplus: Unary = _unary(
    "softplus",
    np.exp,
    lambda x, out: sigmoid(x),
    numpy=_softplus_numpy,
    expand=lambda node: maximum(node.inputs[0], 0) + log1p(decay(node.inputs[0])),
    finite=True,
    cost=26,
    doc="log(1 + exp(x)), without overflow.",
)


def _difference(x: Tensor, y: Tensor) -> Tensor:
    """x - y, 0 where both are the same infinity."""
    return select(equal(x, y), 0, x - y)


def _log_sum_partials(
    x: Tensor, y: Tensor, out: Tensor, base: float
) -> Sequence[Slope]:
    """The shares of both terms in the sum; 0 where the sum is empty (both are -inf)."""

    def share(d: Tensor) -> Tensor:
        return select(equal(out, -np.inf), 0, sigmoid(d * base))

    return [lambda: share(_difference(x, y)), lambda: share(_difference(y, x))]


def _logaddexp_expand(node: Node) -> Tensor:
    x, y = node.inputs
    return maximum(x, y) + log1p(decay(_difference(x, y)))


def _logaddexp2_expand(node: Node) -> Tensor:
    x, y = node.inputs
    e = exp2(-absolute(_difference(x, y)))
    return maximum(x, y) + log1p(e) * (1.0 / math.log(2))


logaddexp: Binary = _binary(
    "logaddexp",
    np.logaddexp,
    lambda x, y, out: _log_sum_partials(x, y, out, 1.0),
    accepts=FLOATS,
    expand=_logaddexp_expand,
    finite=True,
    cost=26,
    doc="log(exp(x) + exp(y)), without overflow.",
)

_binary(
    "logaddexp2",
    np.logaddexp2,
    lambda x, y, out: _log_sum_partials(x, y, out, math.log(2)),
    accepts=FLOATS,
    expand=_logaddexp2_expand,
    finite=True,
    cost=26,
    doc="log2(2**x + 2**y), without overflow.",
)


# -------------------------------------------------------------- products with powers of 2

_EXPONENTS = {"float64": 3000, "float32": 300, "float16": 45}


def _ldexp_expand(node: Node) -> Tensor:
    """x times 2**n in three factors, none of which overflows."""
    x, n = node.inputs
    limit = _EXPONENTS[x.dtype.name]
    bounded = minimum(maximum(n, -limit), limit)
    first = floor_divide(bounded, 3)
    second = floor_divide(bounded - first, 2)
    third = bounded - first - second
    for part in (first, second, third):
        x = x * exp2(convert(part, x.dtype))
    return x


_ldexp: Op = elementwise(
    "ldexp",
    numpy=lambda x, n: np.ldexp(x, n),
    partials=lambda x, n, out: [lambda: _ldexp(filled(1, x), n), ZERO],
    type=lambda x, n: x,
    accepts=FLOATS | INTEGER,
    expand=_ldexp_expand,
    doc="x * 2**n for an integer n.",
)


@function("ldexp")
def ldexp(x: TensorLike, n: TensorLike) -> Tensor:
    """x * 2**n for an integer n."""
    if not type_of(n).dtype.is_integer:
        raise TypeMismatch(
            f"ldexp: the exponent is {type_of(n)}, expected an integer",
            hint="x * exp2(n) takes any n",
        )
    (mantissa,) = typed_operands(np.square, x)
    if not mantissa.dtype.is_inexact:
        mantissa = convert(mantissa, float64)
    if mantissa.type.weak:
        mantissa = convert(mantissa, mantissa.dtype)
    return _ldexp(*operands(mantissa, n, dtypes=(mantissa.dtype, int64)))


# ------------------------------------------------------------------------------- sinc


def _sinc_series_terms(n: int) -> list[float]:
    """Coefficients of the n-th derivative of sin(z) / z, in powers of z**2 after z**(n % 2)."""
    terms = []
    for k in range((n + 1) // 2, (n + 1) // 2 + 12 + n // 2):
        # (-1)^k z^(2k) / (2k + 1)!, differentiated n times
        falling = math.prod(range(2 * k - n + 1, 2 * k + 1))
        terms.append((-1) ** k * falling / math.factorial(2 * k + 1))
    return terms


def _sinc_derivative(x: Any, n: int, ops: Any) -> Any:
    """The n-th derivative of sin(pi x) / (pi x), by its series near 0 and by recurrence elsewhere.

    z f(n) + n f(n-1) = the n-th derivative of sin z; upwards that is stable for |z| > n. `ops`
    gives sin, cos and where, so that the same formula serves arrays and tensors.
    """
    z = x * math.pi
    square = z * z
    terms = _sinc_series_terms(n)
    series = square * 0.0 + terms[-1]
    for coefficient in reversed(terms[:-1]):
        series = series * square + coefficient
    if n % 2:
        series = series * z
    near = square < (1.5 + n) ** 2
    far = ops.where(near, 1.5 + n, z)
    sine, cosine = ops.sin(far), ops.cos(far)
    cycle = (sine, cosine, -sine, -cosine)
    value = sine / far
    for k in range(1, n + 1):
        value = (cycle[k % 4] - k * value) / far
    return ops.where(near, series, value) * math.pi**n


class _TensorOps:
    """What `_sinc_derivative` needs, on tensors."""

    @staticmethod
    def sin(x: Tensor) -> Tensor:
        return sin(x)

    @staticmethod
    def cos(x: Tensor) -> Tensor:
        return cos(x)

    @staticmethod
    def where(condition: Tensor, x: TensorLike, y: TensorLike) -> Tensor:
        return select(condition, x, y)


_sinc: Op = elementwise(
    "sinc",
    numpy=lambda x, n: _sinc_derivative(np.asarray(x), n, np),
    partials=lambda x, n, out: [lambda: _sinc(x, n=n + 1)],
    type=lambda x, n: x,
    accepts=FLOATS,
    expand=lambda node: _sinc_derivative(node.inputs[0], node.attrs.n, _TensorOps),
    finite=True,
    cost=40,
    doc="The n-th derivative of sin(pi x) / (pi x), exact near 0.",
)


@function("sinc")
def sinc(x: TensorLike) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0; its derivatives are exact near 0."""
    return _sinc(*typed_operands(np.sin, x), n=0)


# ------------------------------------------------------- quotients and products without NaN


@function("div_no_nan")
def div_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y, 0 with slopes 0 where y is 0."""
    a, b = typed_operands(np.divide, x, y, inexact=True)
    empty = equal(b, 0)
    return select(empty, 0, a / select(empty, 1, b))


@function("mul_no_nan")
def mul_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x * y, 0 where y is 0 even if x is NaN or infinite."""
    a, b = typed_operands(np.multiply, x, y)
    return pull(b, a) if a.dtype.is_inexact else a * b


# ------------------------------------------------------------------------ constant arrays


@function("zeros_like")
def zeros_like(x: TensorLike, dtype: DType | None = None) -> Tensor:
    """Zeros of x's shape and dtype; a constant."""
    return full_like(x, 0, dtype)


@function("ones_like")
def ones_like(x: TensorLike, dtype: DType | None = None) -> Tensor:
    """Ones of x's shape and dtype; a constant."""
    return full_like(x, 1, dtype)


@function("full_like")
def full_like(
    x: TensorLike, fill_value: TensorLike, dtype: DType | None = None
) -> Tensor:
    """`fill_value` in x's shape and dtype; x itself has no part in it."""
    t = type_of(x)
    value = fill_value
    if isinstance(value, Tensor | Poly) or dtype is not None or not t.weak:
        value = convert(value, dtype or t.dtype)
    return broadcast_to(as_tensor(value), t.shape)

"""Arithmetic, comparisons, selection and rounding, element by element.

A slope that is 0 because an operand was not selected (`maximum`, `clip`, `where`) is a select on
the cotangent, not a product with 0: an infinite cotangent leaves no NaN there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import ShapeError, TypeMismatch, UnsupportedError
from gradc.graph import Node, Tensor
from gradc.ops.basic import broadcast, cast, constant, pull, reshape
from gradc.ops.basic import copy as copy_op
from gradc.ops.functions import (
    TensorLike,
    apply,
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
    COMPLEX,
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
    TypeRule,
    elementwise,
)
from gradc.types import (
    DType,
    Poly,
    TensorType,
    bool_,
    broadcast_shapes,
    float32,
    float64,
)

__all__ = [
    "FIELD",
    "absolute",
    "add",
    "binary",
    "clip",
    "copysign",
    "divide",
    "equal",
    "filled",
    "floor_divide",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "maximum",
    "minimum",
    "mul_no_nan",
    "multiply",
    "negative",
    "no_complex",
    "not_equal",
    "reciprocal",
    "scalar_value",
    "select",
    "sign",
    "square",
    "step",
    "subtract",
    "trunc",
    "truth",
    "typed_operands",
    "unary",
    "where",
]

Unary: TypeAlias = "Callable[[TensorLike], Tensor]"
Binary: TypeAlias = "Callable[[TensorLike, TensorLike], Tensor]"
Partial: TypeAlias = "Callable[..., Sequence[Slope]]"

NUMBERS = REAL | BOOL
FIELD = FLOATS | COMPLEX
"""What the functions of analysis take."""
PIECEWISE = "it is constant almost everywhere"
TRUTH = "its result is a truth value"
WHOLE = "its result is an integer"


# ------------------------------------------------------------------ making operands


def typed_operands(
    ufunc: np.ufunc,
    *values: TensorLike,
    inexact: bool = False,
    accepts: frozenset[str] = NUMBERS,
) -> tuple[Tensor, ...]:
    """The values in the dtypes in which NumPy's `ufunc` computes them, of one shape.

    Python numbers alone stay weak. `inexact` takes float64 where NumPy's loop takes integers and
    gives float64 (true division). TypeMismatch for complex numbers that `accepts` lacks.
    """
    found = _plain_operands(values) if _takes_floats(ufunc) else None
    if found is not None:
        return found
    dtypes, weak = ufunc_dtypes(ufunc, *values)
    if any(d.is_complex for d in dtypes) and not accepts >= COMPLEX:
        raise no_complex(ufunc.__name__)
    if inexact:
        dtypes = tuple(d if d.is_inexact else float64 for d in dtypes)
    if not weak:
        return operands(*values, dtypes=dtypes)
    tensors = [as_tensor(v) for v in values]
    return tuple(
        t if t.dtype == d else cast(t, dtype=d, weak=True)
        for t, d in zip(tensors, dtypes, strict=True)
    )


def no_complex(name: str) -> TypeMismatch:
    """The error of a function that takes no complex numbers."""
    what = (
        "orders no complex numbers" if name in ORDERING else "takes no complex numbers"
    )
    return TypeMismatch(
        f"{name} {what}", hint="write it with real(z) and imag(z), or of abs(z)"
    )


ORDERING = frozenset(
    (
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
    )
    + ("max", "min", "argmax", "argmin", "clip", "sort")
)


@cache
def _takes_floats(ufunc: np.ufunc) -> bool:
    """Whether it has a loop for operands that are all float64, and one for all float32."""
    loops = {kind.partition("->")[0] for kind in ufunc.types}
    return {"d" * ufunc.nin, "f" * ufunc.nin} <= loops


def _plain_operands(values: Sequence[TensorLike]) -> tuple[Tensor, ...] | None:
    """The operands where that needs no promotion: floats of one type, Python numbers beside them."""
    kind: TensorType | None = None
    for v in values:
        if isinstance(v, Tensor):
            t = v.type
            if t.weak or t.dtype not in (float64, float32) or (kind and t != kind):
                return None
            kind = t
        elif type(v) is not float and type(v) is not int:
            return None
    if kind is None:
        return None
    return tuple(
        v if isinstance(v, Tensor) else broadcast_to(number(v, kind.dtype), kind.shape)
        for v in values
    )


def scalar_value(tensor: Tensor) -> Any:
    """The Python number that all elements of a tensor are known to be, or None."""
    changes: list[Tensor] = []
    while tensor.op is not constant:
        if tensor.op is cast or tensor.op is negative_op:
            changes.append(tensor)
        elif tensor.op is not broadcast and tensor.op is not reshape:
            return None
        tensor = tensor.inputs[0]
    if tensor.attrs.value.array.size != 1:
        return None
    value = tensor.attrs.value.item()
    for t in reversed(changes):
        is_cast = t.op is cast
        value = np.asarray(value, t.dtype.name).item() if is_cast else -value
    return value


def filled(value: Any, like: Tensor) -> Tensor:
    """A number as a tensor of another one's shape and dtype."""
    if like.type.weak:
        return number(value, like.dtype, weak=True)
    return broadcast_to(number(value, like.dtype), like.shape)


def unary(
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
    type: TypeRule | None = None,
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
        type=type,
        doc=doc,
        accepts=accepts,
        text=text or ("" if expand else f"np.{ufunc.__name__}"),
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
        return op(*typed_operands(ufunc, x, accepts=accepts))

    call.__doc__ = doc
    call.__name__ = name
    function(name, *aliases)(call)
    return call


def binary(
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
        text=text or ("" if expand else f"np.{ufunc.__name__}"),
        scalar=scalar,
        expand=expand,
        finite=finite,
        cost=cost,
        result=result,
        constant=constant,
    )

    def call(x: TensorLike, y: TensorLike) -> Tensor:
        a, b = typed_operands(ufunc, x, y, inexact=inexact, accepts=accepts)
        if a.dtype != b.dtype:  # int64 with uint64: NumPy compares them as they are
            a, b = operands(a, b, dtypes=(float64, float64))
        return op(a, b)

    call.__doc__ = doc
    call.__name__ = name
    function(name, *aliases, operator=operator)(call)
    return call


# ------------------------------------------------------------------------ arithmetic

add: Binary = binary(
    "add",
    np.add,
    lambda x, y, out: [ONE, ONE],
    operator="add",
    accepts=NUMBERS | COMPLEX,
    text="+",
    scalar="+",
    finite=True,
    doc="The sum; of truth values, whether either is true.",
)

subtract: Binary = binary(
    "subtract",
    np.subtract,
    lambda x, y, out: [ONE, -1.0],
    operator="subtract",
    accepts=REAL | COMPLEX,
    text="-",
    scalar="-",
    finite=True,
    doc="The difference.",
)

multiply: Binary = binary(
    "multiply",
    np.multiply,
    lambda x, y, out: [y, x],
    operator="multiply",
    accepts=NUMBERS | COMPLEX,
    text="*",
    scalar="*",
    finite=True,
    doc="The product; of truth values, whether both are true.",
)

divide: Binary = binary(
    "divide",
    np.divide,
    lambda x, y, out: [lambda: 1.0 / y, lambda: -out * (1.0 / y)],
    aliases=("true_divide",),
    operator="divide",
    accepts=FIELD,
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
    accepts=REAL | COMPLEX,
    text="-x",
    scalar="-x",
    finite=True,
    doc="The number with its sign changed.",
)


@function("negative", operator="negative")
def negative(x: TensorLike) -> Tensor:
    """The number with its sign changed."""
    return negative_op(*typed_operands(np.negative, x, accepts=negative_op.accepts))


@function("positive")
def positive(x: TensorLike) -> Tensor:
    """The same values as a new tensor; TypeMismatch for truth values, as in NumPy."""
    return copy_op(*typed_operands(np.positive, x, accepts=negative_op.accepts))


reciprocal_op = elementwise(
    "reciprocal",
    numpy=np.reciprocal,
    partials=lambda x, out: [-out * out],
    accepts=FIELD,
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
    return reciprocal_op(*typed_operands(np.reciprocal, x, accepts=FIELD))


square: Unary = unary(
    "square",
    np.square,
    lambda x, out: 2.0 * x,
    accepts=NUMBERS | COMPLEX,
    expand=lambda node: node.inputs[0] * node.inputs[0],
    finite=True,
    doc="x * x.",
)


# ----------------------------------------------------------------------- comparisons


def _compare(name: str, ufunc: np.ufunc, sign: str, what: str, **more: Any) -> Binary:
    return binary(
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
equal = _compare(
    "equal",
    np.equal,
    "==",
    "equals",
    operator="equal",
    accepts=NUMBERS | COMPLEX,
)
not_equal = _compare(
    "not_equal",
    np.not_equal,
    "!=",
    "differs from",
    operator="not_equal",
    accepts=NUMBERS | COMPLEX,
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


maximum: Binary = binary(
    "maximum",
    np.maximum,
    None,
    derivative=Explicit(_greatest_vjp),
    scalar="_maximum",
    finite=True,
    doc="The larger one, NaN if either is. A tie gives half of the cotangent to each.",
)

minimum: Binary = binary(
    "minimum",
    np.minimum,
    None,
    derivative=Explicit(_greatest_vjp),
    scalar="_minimum",
    finite=True,
    doc="The smaller one, NaN if either is. A tie gives half of the cotangent to each.",
)

binary(
    "fmax",
    np.fmax,
    None,
    derivative=Explicit(_not_nan_vjp),
    scalar="_fmax",
    finite=True,
    doc="The larger one, or the one that is not NaN. A tie gives half to each.",
)

binary(
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

sign_op = elementwise(
    "sign",
    numpy=np.sign,
    partials=lambda x, out: [ZERO],
    accepts=REAL,
    text="np.sign",
    scalar="_sign",
    finite=True,
    doc="-1, 0 or 1 by the sign. Connected, with derivative 0.",
)


@function("sign")
def sign(x: TensorLike) -> Tensor:
    """-1, 0 or 1 by the sign, connected with derivative 0; of a complex number z / |z|."""
    (value,) = typed_operands(np.sign, x, accepts=REAL | COMPLEX)
    if not value.dtype.is_complex:
        return sign_op(value)
    size = absolute(value)
    empty = equal(size, 0)
    return select(empty, 0, value / convert(select(empty, 1, size), value.dtype))


def _absolute_vjp(node: Node, g: Tensor) -> Sequence[Bar]:
    (x,) = node.inputs
    return [pull(g if g.dtype == x.dtype else cast(g, dtype=x.dtype), sign(x))]


def _absolute_type(x: TensorType) -> TensorType:
    if not x.dtype.is_complex:
        return x
    part = float32 if x.dtype.bits == 64 else float64
    return TensorType(part, x.shape, x.weak)


absolute: Unary = unary(
    "absolute",
    np.absolute,
    None,
    derivative=Explicit(_absolute_vjp),
    accepts=NUMBERS | COMPLEX,
    type=_absolute_type,
    scalar="abs",
    text="np.abs",
    finite=True,
    doc="The absolute value; its slope is the sign, z / |z| of a complex number, 0 at 0.",
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

binary(
    "heaviside",
    np.heaviside,
    lambda x, y, out: [ZERO, lambda: select(equal(x, 0), filled(1, out), 0)],
    accepts=FLOATS,
    scalar="_heaviside",
    finite=True,
    doc="0 for x < 0, y for x = 0, 1 for x > 0. Connected, with derivative 0 by x.",
)

copysign: Binary = binary(
    "copysign",
    np.copysign,
    lambda x, y, out: [lambda: sign(x) * copysign(1.0, y), ZERO],
    accepts=FLOATS,
    scalar="_copysign",
    finite=True,
    doc="|x| with the sign of y.",
)


floor: Unary = unary(
    "floor",
    np.floor,
    None,
    scalar="np.floor",
    constant=PIECEWISE,
    whole=True,
    doc="The largest integer that is not above x.",
)

unary(
    "ceil",
    np.ceil,
    None,
    scalar="np.ceil",
    constant=PIECEWISE,
    whole=True,
    doc="The smallest integer that is not below x.",
)

trunc: Unary = unary(
    "trunc",
    np.trunc,
    None,
    scalar="np.trunc",
    constant=PIECEWISE,
    whole=True,
    aliases=("fix",),
    doc="x without its fractional part.",
)

rint: Unary = unary(
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


unary(
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
        accepts=FIELD,
        text=f"np.{name}",
        scalar=f"math.{name}",
        result=bool_,
        constant=TRUTH,
        doc=doc,
    )

    def call(x: TensorLike) -> Tensor:
        tensor = as_tensor(x)
        if tensor.dtype.is_inexact:
            return op(*typed_operands(ufunc, tensor, accepts=FIELD))
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
    if tensor.dtype.is_complex:
        parts = [
            nan_to_num(apply(part, tensor), copy, nan, posinf, neginf)
            for part in ("real", "imag")
        ]
        return convert(apply("complex", *parts), tensor.dtype)
    limit = float(np.finfo(tensor.dtype.name).max)
    found = select(isnan(tensor), convert(nan, tensor.dtype), tensor)
    high = limit if posinf is None else posinf
    found = select(equal(tensor, np.inf), convert(high, tensor.dtype), found)
    low = -limit if neginf is None else neginf
    return select(equal(tensor, -np.inf), convert(low, tensor.dtype), found)


# --------------------------------------------------------------- division with rest

floor_divide: Binary = binary(
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

binary(
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

binary(
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
    binary(
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
        numpy=lambda x, y, *, bits: ufunc(x, y),
        type=lambda x, y, *, bits: x,
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


# ------------------------------------------------------- quotients and products without NaN


@function("div_no_nan")
def div_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x / y, 0 with slopes 0 where y is 0."""
    a, b = typed_operands(np.divide, x, y, inexact=True)
    empty = equal(b, 0)
    return select(empty, 0, a / select(empty, 1, b))


_mul_no_nan = elementwise(
    "mul_no_nan",
    numpy=lambda x, y: np.where(y == 0, np.zeros((), np.asarray(y).dtype), x * y),
    partials=lambda x, y, out: [y, x],
    accepts=FLOATS,
    expand=lambda node: select(
        equal(node.inputs[1], 0), 0, node.inputs[0] * node.inputs[1]
    ),
    finite=True,
    doc="x * y, 0 where y is 0 even if x is NaN or infinite.",
)


@function("mul_no_nan")
def mul_no_nan(x: TensorLike, y: TensorLike) -> Tensor:
    """x * y, 0 where y is 0 even if x is NaN or infinite."""
    a, b = typed_operands(np.multiply, x, y)
    return _mul_no_nan(a, b) if a.dtype.is_float else a * b


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

"""What an expression of the text language can be: tensors, numbers, lists, functions, None.

Beside tensors there are values known at compile time, which are Python's own: numbers,
dimensions (`Poly`), strings, tuples, lists, slices, dtypes.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import GradientError, ParseError, TypeMismatch
from gradc.frontends.gc_dims import arithmetic
from gradc.graph import Tensor
from gradc.ops.functions import Function
from gradc.types import DType, Poly, dim_text

__all__ = [
    "POISON",
    "UNKNOWN",
    "Definition",
    "Frame",
    "GradientList",
    "LoopOnly",
    "Native",
    "NoGradient",
    "Number",
    "Poison",
    "Prefix",
    "Value",
    "fold",
    "fold_comparison",
    "is_number",
    "kind_of",
    "numbers_in",
    "refuse_none",
    "static_of",
    "unwrapped",
]

Value: TypeAlias = Any


class Poison:
    """The value of an expression whose error is told already; it silences what uses it."""

    def __repr__(self) -> str:
        return "POISON"


POISON = Poison()


@dataclass(frozen=True, eq=False, slots=True)
class Number:
    """A number with a tensor of its own: what `a = 0.5` binds. `value` is known at compile time."""

    tensor: Tensor
    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class NoGradient:
    """A gradient that is None, with the reason."""

    message: str
    why: str
    name: str


class GradientList(list[Any]):
    """What `gradients` returns."""


@dataclass(frozen=True, eq=False, slots=True)
class LoopOnly:
    """A name that a loop was the first to bind: not to be read after it."""

    place: str


@dataclass(frozen=True, eq=False, slots=True)
class Prefix:
    """A module's name in front of a function: `np`, `np.linalg`."""

    path: str


@dataclass(frozen=True, eq=False, slots=True)
class Native:
    """A function made by a function, such as `custom_gradient(f, vjp)`."""

    name: str
    call: Callable[..., Any]


@dataclass(eq=False, slots=True)
class Frame:
    """Names of the file, or of one call of a `def`: values and functions apart.

    `shift` is what the line numbers of its syntax are short of; `locals` are the names that the
    function binds, readable only once bound; `parent` is the frame its `def` stands in.
    """

    shift: int
    parent: Frame | None = None
    locals: frozenset[str] = frozenset()
    title: str = ""
    names: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, Definition] = field(default_factory=dict)

    def chain(self) -> Iterator[Frame]:
        """This frame and those around it, inner ones first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.parent


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A `def` with the frame it stands in; `broken` where its error is told already."""

    name: str
    node: ast.FunctionDef
    frame: Frame
    shift: int
    defaults: Mapping[str, Value]
    locals: frozenset[str]
    broken: bool


# -------------------------------------------------------------------------- in words


def kind_of(value: Value) -> str:
    """A value in the words of a message."""
    if isinstance(value, Number):
        return f"the number {_short(value.value)}"
    if isinstance(value, Tensor):
        return f"a tensor {value.type}"
    if isinstance(value, Poly):
        return f"the dimension {dim_text(value)}"
    if isinstance(value, bool) or value is None:
        return str(value)
    if value is Ellipsis:
        return "..."
    if isinstance(value, int | float | complex):
        return f"the number {_short(value)}"
    if isinstance(value, str):
        return f"the text {_short(value)}"
    if isinstance(value, GradientList):
        return "the list that gradients returns"
    if isinstance(value, list | tuple):
        return "a list" if isinstance(value, list) else "a tuple"
    if isinstance(value, slice):
        return "a slice"
    if isinstance(value, DType):
        return f"the dtype {value}"
    if isinstance(value, NoGradient):
        return "None"
    if isinstance(value, Definition | Function | Native):
        return f"the function {value.name}"
    if isinstance(value, Prefix):
        return f"the prefix {value.path}"
    return f"a {type(value).__name__}"


def _short(value: Any) -> str:
    if isinstance(value, Poly):
        return dim_text(value)
    if isinstance(value, int) and value.bit_length() > 200:
        return "of many digits"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def refuse_none(value: Value) -> None:
    """GradientError where the value is a None gradient, which nothing can be computed from."""
    if isinstance(value, NoGradient):
        raise GradientError(
            value.message,
            code="none-gradient",
            notes=[value.why] if value.why else [],
            hint='unconnected_gradients="zero" gives zeros instead',
        )


# --------------------------------------------------------------------------- numbers


def is_number(value: Value) -> bool:
    """Whether the value is a number known at compile time."""
    return isinstance(value, int | float | complex | Poly | Number)


def static_of(value: Value) -> Any:
    """The number without its tensor."""
    return value.value if isinstance(value, Number) else value


def unwrapped(value: Value) -> Any:
    """The value with the numbers in it, at any depth, without their tensors."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, tuple):
        return tuple(unwrapped(v) for v in value)
    if isinstance(value, list):
        return [unwrapped(v) for v in value]
    if isinstance(value, slice):
        return slice(
            unwrapped(value.start), unwrapped(value.stop), unwrapped(value.step)
        )
    return value


MAX_BITS = 1024

_FOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
UNKNOWN = object()
"""What `fold` gives for numbers whose result is a matter for a tensor."""


def fold(sign: str, a: Any, b: Any, *, named: bool) -> Any:
    """`a sign b` of numbers known at compile time, or UNKNOWN where that is a tensor.

    Python's arithmetic on ints, NumPy's on floats. `named` says that a tensor stands for an
    operand, so that a division by zero is NumPy's and not a slip of the pen.
    """
    if sign == "@":
        return UNKNOWN
    if isinstance(a, Poly) or isinstance(b, Poly):
        integers = all(
            isinstance(v, int | Poly) and not isinstance(v, bool) for v in (a, b)
        )
        if not integers or sign not in ("+", "-", "*", "//", "%", "**"):
            return UNKNOWN
        if sign == "**" and not isinstance(b, int):
            return UNKNOWN
        return arithmetic(sign, a, b)
    if sign == "**":
        return _power(a, b, named)
    if sign in ("/", "//", "%") and b == 0:
        if named or sign == "/" and not isinstance(a, int):
            return UNKNOWN
        raise ParseError(
            "division by zero", code="division-by-zero", hint="inf is a name"
        )
    if sign in ("&", "|", "^", "<<", ">>"):
        if not (isinstance(a, int) and isinstance(b, int)):
            raise TypeMismatch(
                f"{sign} takes ints and bools, found {_short(a)} and {_short(b)}",
                hint="power is written **" if sign == "^" else "",
            )
        if sign in ("<<", ">>") and not 0 <= b <= MAX_BITS:
            raise ParseError(f"a shift by {_short(b)}", code="too-large")
    try:
        return _bounded(_FOLDS[sign](a, b))
    except OverflowError:
        return UNKNOWN
    except TypeError:
        raise TypeMismatch(
            f"{sign} does not take {_short(a)} and {_short(b)}"
        ) from None


def _power(a: Any, b: Any, named: bool) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            return UNKNOWN if a == 0 else float(a) ** b
        if a.bit_length() * b > 64 * MAX_BITS:
            raise ParseError("a number of more than 1024 bits", code="too-large")
        return _bounded(a**b)
    if isinstance(a, complex) or isinstance(b, complex):
        return UNKNOWN if a == 0 else a**b
    if a < 0 and not float(b).is_integer() or a == 0 and b < 0:
        return UNKNOWN
    try:
        return a**b
    except OverflowError:
        return math.inf if a > 0 else UNKNOWN


def _bounded(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ParseError(
            "a number of more than 1024 bits",
            code="too-large",
            hint="write it as a float",
        )
    return value


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fold_comparison(sign: str, a: Any, b: Any) -> Any:
    """`a sign b` as a bool, or UNKNOWN where it depends on the sizes of a call."""
    if isinstance(a, Poly) or isinstance(b, Poly):
        if not all(isinstance(v, int | Poly) for v in (a, b)):
            return UNKNOWN
        difference = a - b
        if isinstance(difference, int):
            return bool(_COMPARISONS[sign](difference, 0))
        return UNKNOWN
    try:
        return bool(_COMPARISONS[sign](a, b))
    except TypeError:
        raise TypeMismatch(
            f"{sign} does not take {_short(a)} and {_short(b)}"
        ) from None


def numbers_in(value: Sequence[Any]) -> bool:
    """Whether a nested list holds nothing but plain numbers."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, Poly | Number) or not isinstance(
            item, int | float | complex | np.generic
        ):
            return False
    return True

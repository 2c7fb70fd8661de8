"""Scalar expressions of a Program as Python source that Numba compiles to the same numbers.

The text needs no more parentheses than its grouping; every value in it has the dtype that NumPy
gives it. Numba widens small integers and mixes float32 with Python's floats to float64, so those
are spelled with their type: `np.float32(0.5) * x`, `np.int32(i + j)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradc.emit import mathsource
from gradc.errors import InternalError, UnsupportedError
from gradc.ops.registry import lookup
from gradc.schedule.program import (
    ATOM,
    PRECEDENCE,
    SELECT,
    UNARY,
    Apply,
    AxisValue,
    Expr,
    Lit,
    Load,
    Ref,
    Size,
    Text,
    dim_level,
    fold,
    infix,
)
from gradc.types import DType, complex128, dim_text, float32, float64

__all__ = ["Printer", "cast_text", "helper_call", "number_text", "wrapped"]

GENERIC = frozenset({"_add", "_pull"})
"""Helpers that take any dtype as they are; complex numbers their `_complex` forms."""

INTEGER_CALLS = {
    "_maximum": "max",
    "_minimum": "min",
    "_fmax": "max",
    "_fmin": "min",
}
BOOL_OPERATORS = {
    "+": "|",
    "*": "&",
    "_maximum": "|",
    "_minimum": "&",
    "_fmax": "|",
    "_fmin": "&",
}
UNSIGNED_OPERATORS = {"_floor_divide": "//", "_mod": "%", "_fmod": "%"}
SHIFTS = {"_left_shift": "<<", "_right_shift": ">>"}
SAME = frozenset({"copy", "stop_gradient", "prevent_gradient", "opaque"})


@cache
def _available() -> frozenset[str]:
    return frozenset(mathsource.available())


# -------------------------------------------------------------------------- numbers


def number_text(value: Any, dtype: DType) -> Text:
    """A number of this dtype: `0.5`, `np.float32(0.5)`, `np.int32(-1)`, `-np.inf`."""
    if dtype.is_bool:
        return str(bool(value)), ATOM
    if dtype.is_integer:
        return _integer_text(int(value), dtype)
    if dtype.is_complex:
        number = complex(value)
        parts = ", ".join(_float_text(p)[0] for p in (number.real, number.imag))
        text = f"complex({parts})"
        return (text if dtype.bits == 128 else f"np.{dtype}({text})"), ATOM
    if dtype.bits == 64:
        return _float_text(float(value))
    if dtype.bits == 16:
        raise UnsupportedError(
            "float16 has no loops in this version",
            hint="compute in float32: x.astype(float32)",
        )
    single = np.float32(value)
    short = str(single)
    if np.float32(float(short)) == single:
        return f"np.float32({_float_text(float(short))[0]})", ATOM
    return f"np.float32({_float_text(float(single))[0]})", ATOM


def _float_text(value: float) -> Text:
    if math.isnan(value):
        return "np.nan", ATOM
    if math.isinf(value):
        return ("np.inf", ATOM) if value > 0 else ("-np.inf", UNARY)
    text = repr(value)
    return text, UNARY if text.startswith("-") else ATOM


def _integer_text(value: int, dtype: DType) -> Text:
    if dtype.name != "int64":
        return f"np.{dtype}({value})", ATOM
    if value == -(2**63):  # its positive is no int64
        return "-9223372036854775807 - 1", PRECEDENCE["-"]
    return str(value), UNARY if value < 0 else ATOM


# ---------------------------------------------------------------------------- types


def wrapped(text: Text, dtype: DType) -> Text:
    """Integer arithmetic brought back to its type: Numba widens what is under 64 bits."""
    if dtype.is_integer and dtype.bits < 64:
        return f"np.{dtype}({text[0]})", ATOM
    return text


def cast_text(text: Text, source: DType, target: DType) -> Text:
    """A value of dtype `source` as one of `target`, as NumPy's `astype` does."""
    if source == target:
        return text
    if target.is_bool:
        zero = number_text(0, source)
        return infix("!=", text, zero)
    if source.is_complex and not target.is_complex:
        part = _atom(text) + ".real"
        return cast_text(
            (part, ATOM), float64 if source.bits == 128 else float32, target
        )
    if target.bits == 16 and target.is_float:
        number_text(0, target)  # says that there is no float16
    return f"np.{target}({text[0]})", ATOM


def _atom(text: Text) -> str:
    return text[0] if text[1] >= ATOM else f"({text[0]})"


def helper_call(name: str, args: Sequence[Text], dtype: DType) -> tuple[str, Text]:
    """(function, call) of a function of mathlib for operands of this dtype.

    float32 takes the function's `_f32` form, or goes by way of float64; integers take the `_int`
    form or Python's; complex numbers the `_complex` form.
    """
    inside = ", ".join(a for a, _ in args)
    if name in GENERIC and dtype.is_complex:
        name = f"{name}_complex"
        return name, (f"{name}({inside})", ATOM)
    if name in GENERIC or dtype.name == "float64":
        return name, (f"{name}({inside})", ATOM)
    if dtype.name == "float32":
        single = f"{name}_f32"
        if single in _available():
            return single, (f"{single}({inside})", ATOM)
        wide = ", ".join(cast_text(a, dtype, float64)[0] for a in args)
        return name, (f"np.float32({name}({wide}))", ATOM)
    if dtype.is_integer:
        return _integer_call(name, args, dtype)
    if dtype.is_bool and name in BOOL_OPERATORS:
        return "", infix(BOOL_OPERATORS[name], args[0], args[1])
    if dtype.is_complex and f"{name}_complex" in _available():
        wide = ", ".join(cast_text(a, dtype, complex128)[0] for a in args)
        call = f"{name}_complex({wide})", ATOM
        return f"{name}_complex", cast_text(call, complex128, dtype)
    raise UnsupportedError(
        f"{name.removeprefix('_')} has no compiled form for {dtype}",
        hint="use the numpy target, or cast to float64 first",
    )


def _integer_call(name: str, args: Sequence[Text], dtype: DType) -> tuple[str, Text]:
    """As `helper_call`, for integers. Unsigned ones divide and shift by Numba's own operators."""
    if name in INTEGER_CALLS:
        inside = ", ".join(a for a, _ in args)
        return "", wrapped((f"{INTEGER_CALLS[name]}({inside})", ATOM), dtype)
    if name == "_sign":
        return "", _integer_sign(args[0], dtype)
    unsigned = dtype.kind == "u"
    if unsigned and name in UNSIGNED_OPERATORS:
        return "", wrapped(infix(UNSIGNED_OPERATORS[name], args[0], args[1]), dtype)
    if unsigned and name in SHIFTS:
        fits = infix("<", args[1], number_text(dtype.bits, dtype))
        shifted = wrapped(infix(SHIFTS[name], args[0], args[1]), dtype)
        return "", _select([fits, shifted, number_text(0, dtype)])
    whole = name if name in SHIFTS else f"{name}_int"
    if whole in _available():
        parts = [f"np.int64({a})" if unsigned else a for a, _ in args]
        call = f"{whole}({', '.join(parts)})"
        return whole, (call if dtype.name == "int64" else f"np.{dtype}({call})", ATOM)
    raise UnsupportedError(
        f"{name.removeprefix('_')} has no compiled form for {dtype}",
        hint="cast to float64 first: x.astype(float)",
    )


def _integer_sign(x: Text, dtype: DType) -> Text:
    zero, one = number_text(0, dtype), number_text(1, dtype)
    rest = zero
    if dtype.kind == "i":
        rest = _select([infix("<", x, zero), number_text(-1, dtype), zero])
    return _select([infix(">", x, zero), one, rest])


# -------------------------------------------------------------------------- printer


class Printer:
    """Spells expressions; notes which helpers and modules their text needs.

    `load(load, index)` spells an element (`index` has the texts of its gathered indices),
    `axis` a loop counter, `ref` the name of a Let. With `width` a text is kept that short:
    `hoist(text)` then gives a part of it a name, in a statement before.
    """

    def __init__(
        self,
        *,
        load: Callable[[Load, Sequence[Text]], Text],
        axis: Callable[[str], Text],
        ref: Callable[[str], str] = lambda name: name,
    ) -> None:
        self.load = load
        self.axis = axis
        self.ref = ref
        self.helpers: dict[str, None] = {}
        self.near = False  # whether angles are known to be at most 1e6

    def text(
        self,
        expr: Expr,
        width: int = 0,
        hoist: Callable[[str], str] | None = None,
    ) -> Text:
        """The expression's text; its parts are evaluated as often and in the order written."""

        def visit(e: Expr, args: Sequence[Text]) -> Text:
            return self.fitted(
                lambda parts: self._compose(e, parts), args, width, hoist
            )

        return fold(expr, visit)

    def fitted(
        self,
        compose: Callable[[Sequence[Text]], Text],
        parts: Sequence[Text],
        width: int,
        hoist: Callable[[str], str] | None,
    ) -> Text:
        """`compose(parts)`, with the longest parts hoisted while it is wider than `width`."""
        whole = compose(parts)
        if hoist is None or len(whole[0]) <= width:
            return whole
        short = list(parts)
        while len(whole[0]) > width:
            longest = max(range(len(short)), key=lambda k: len(short[k][0]), default=-1)
            if longest < 0 or len(short[longest][0]) <= _NAME_WIDTH:
                break
            short[longest] = (hoist(short[longest][0]), ATOM)
            whole = compose(short)
        return whole

    def use(self, helper: str) -> None:
        """Note that the text calls this function of mathlib."""
        if helper:
            self.helpers.setdefault(helper)

    def call(self, name: str, args: Sequence[Text], dtype: DType) -> Text:
        """A call of a function of mathlib, in the form for this dtype."""
        helper, text = helper_call(name, args, dtype)
        self.use(helper)
        return text

    def _compose(self, e: Expr, args: Sequence[Text]) -> Text:
        if isinstance(e, Apply):
            return self._apply(e, args)
        if isinstance(e, Load):
            return self.load(e, args)
        if isinstance(e, Lit):
            return number_text(e.value, e.dtype)
        if isinstance(e, Size):
            return dim_text(e.dim), dim_level(e.dim)
        if isinstance(e, AxisValue):
            return self.axis(e.axis)
        if isinstance(e, Ref):
            return self.ref(e.name), ATOM
        raise InternalError(f"no expression: {e!r}")

    def _apply(self, e: Apply, args: Sequence[Text]) -> Text:
        operand = e.args[0].dtype if e.args else e.dtype
        if e.op == "cast":
            return cast_text(args[0], operand, e.dtype)
        if e.op in SAME:
            return args[0]
        if e.op == "add_n":
            total = args[0]
            for term in args[1:]:
                total = wrapped(
                    infix("|" if operand.is_bool else "+", total, term), e.dtype
                )
            return total
        op = lookup(e.op)
        spelling = op.spell.get("numba", "") if op else ""
        if not spelling:
            raise InternalError(f"{e.op} has no spelling for compiled loops")
        if operand.is_complex:
            spelling = _of_complex(spelling)
        if spelling == "x":
            return args[0]
        if spelling == "select":
            return _select(args)
        if spelling.startswith("."):
            return _atom(args[0]) + spelling, ATOM
        if len(args) == 2 and spelling in PRECEDENCE:
            if operand.is_bool:
                spelling = BOOL_OPERATORS.get(spelling, spelling)
            left, right = _plain_sizes(e.args, args)
            return wrapped(infix(spelling, left, right), e.dtype)
        if spelling == "~" or spelling == "~x":
            if operand.is_bool:
                return f"not {_at_least(args[0], PRECEDENCE['not'])}", PRECEDENCE["not"]
            return wrapped((f"~{_at_least(args[0], UNARY)}", UNARY), e.dtype)
        if spelling.endswith("x") and not spelling[0].isalpha() and spelling[0] != "_":
            prefix = spelling[:-1]
            return wrapped((f"{prefix}{_at_least(args[0], UNARY)}", UNARY), e.dtype)
        extra = [(_attr_text(value), ATOM) for _, value in e.attrs]
        if spelling.startswith("_"):
            if self.near and operand == float64 and e.op in ("sin", "cos", "tan"):
                spelling += "_near"
            return self.call(spelling, [*args, *extra], operand)
        if spelling == "abs" and (operand.kind == "u" or operand.is_bool):
            return args[0]
        inside = ", ".join(a for a, _ in [*args, *extra])
        if spelling == "complex":
            return cast_text((f"complex({inside})", ATOM), complex128, e.dtype)
        return wrapped((f"{spelling}({inside})", ATOM), e.dtype)


def _of_complex(spelling: str) -> str:
    """What complex operands take in the place of a spelling for real ones."""
    if spelling in ("/", "**"):
        return "_divide" if spelling == "/" else "_power"
    if spelling == "np.sqrt":
        return "_sqrt"
    return spelling.replace("math.is", "np.is")


_NAME_WIDTH = 8  # a part no longer than this is not worth a name


def _plain_sizes(exprs: Sequence[Expr], texts: Sequence[Text]) -> Sequence[Text]:
    """The operands of an infix, a size in float64 beside a float64 as it is: `total / N`."""
    plain = [
        isinstance(e, Apply)
        and e.op == "cast"
        and e.dtype.name == "float64"
        and isinstance(e.args[0], Size)
        for e in exprs
    ]
    if sum(plain) != 1:
        return texts
    which = plain.index(True)
    size = exprs[which]
    assert isinstance(size, Apply) and isinstance(size.args[0], Size)
    dim = size.args[0].dim
    result = list(texts)
    result[which] = (dim_text(dim), dim_level(dim))
    return result


def _at_least(text: Text, level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _select(args: Sequence[Text]) -> Text:
    condition, yes, no = args
    c = _at_least(condition, SELECT + 1)
    return f"{_at_least(yes, SELECT + 1)} if {c} else {_at_least(no, SELECT)}", SELECT


def _attr_text(value: Any) -> str:
    if isinstance(value, bool | int | float) or re.fullmatch(r"\d+", str(value)):
        return repr(value)
    raise InternalError(f"no text for the attribute {value!r}")

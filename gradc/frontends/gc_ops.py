"""The compiler's own spelling: `gc.reduce_sum(x, axes=(0,))`, as `gradc.write` prints graphs.

Operands are tensors; attributes are read here, apart from the names of the graph: a bare name in
an attribute is a dimension, everything else has the prefix.
"""

from __future__ import annotations

import ast
import base64
import binascii
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from gradc.errors import InternalError, ParseError, TypeMismatch
from gradc.frontends.gc_dims import arithmetic, check_size
from gradc.frontends.gc_hints import did_you_mean
from gradc.frontends.gc_values import POISON, NoGradient, Value, kind_of, refuse_none
from gradc.graph import Attrs, Data, Node, Tensor, at
from gradc.ops.functions import Function
from gradc.ops.registry import Op, lookup, names
from gradc.types import DTYPES, DType, Poly, TensorType

if TYPE_CHECKING:
    from gradc.frontends.gc_expr import Expressions

__all__ = ["compiler_call"]

MAX_DEPTH = 50
_SIGNS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


def compiler_call(reader: Expressions, node: ast.Call, name: str) -> Value:
    """What `gc.name(...)` builds: a tensor, or a tuple where the op has several outputs."""
    if name == "none":
        why = [_attribute(reader, part, 0) for part in node.args]
        text = str(why[0]) if why else ""
        return NoGradient(
            f"the value is None{': ' if text else ''}{text}", text, "none"
        )
    op = lookup(name)
    if op is None:
        raise ParseError(
            f"no op is called {name[:60]}",
            code="unknown-op",
            hint=did_you_mean(name, names()),
        )
    operands: list[Tensor] = []
    poisoned = False
    for value in reader.items(node.args):
        if value is POISON:
            poisoned = True
            continue
        refuse_none(value)
        if isinstance(value, Function | list | tuple | str):
            raise TypeMismatch(f"gc.{name}: expected a tensor, found {kind_of(value)}")
        operands.append(reader.tensor(value))
    if poisoned:
        return POISON
    attrs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ParseError(
                "** is not part of the graph language", code="not-in-language"
            )
        attrs[keyword.arg] = _attribute(reader, keyword.value, 0)
    if name == "input":
        return reader.declare_input(node, attrs)
    try:
        check_attributes(op, operands, attrs)
        hash(Attrs(attrs))
        with at(reader.place(node)):
            made = op.node(operands, attrs)
        check_result(made)
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        AssertionError,
        InternalError,
    ) as error:
        found = error.message if isinstance(error, InternalError) else str(error)
        raise ParseError(
            f"gc.{name} can't have these operands and attributes: {found[:200]}",
            code="bad-attribute",
        ) from None
    reader.spend(node)
    outputs = made.outputs
    return outputs[0] if len(outputs) == 1 else outputs


def _attribute(reader: Expressions, node: ast.expr, depth: int) -> Any:
    """The value of an attribute. ParseError for what is none."""
    if depth > MAX_DEPTH:
        raise ParseError("an attribute is nested too deeply", code="too-deep")
    if isinstance(node, ast.Constant) and not isinstance(node.value, bytes | complex):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_attribute(reader, part, depth + 1) for part in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _attribute(reader, node.operand, depth + 1)
        if isinstance(value, int | float | Poly):
            return -value
    if isinstance(node, ast.Name):
        function = reader.function_named(node.id)
        if function is not None:
            return reader.as_callable(node, function, node.id)
        return reader.dimension(node.id, node)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        a = _attribute(reader, node.left, depth + 1)
        b = _attribute(reader, node.right, depth + 1)
        if all(isinstance(v, int | Poly) and not isinstance(v, bool) for v in (a, b)):
            return arithmetic(_SIGNS[type(node.op)], a, b)
    if isinstance(node, ast.Attribute) and _is_prefix(node.value):
        if node.attr in DTYPES:
            return DTYPES[node.attr]
        if node.attr in ("inf", "nan"):
            return getattr(math, node.attr)
    if isinstance(node, ast.Call):
        return _made(reader, node, depth)
    raise ParseError("this can't be an attribute", code="bad-attribute")


def _is_prefix(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "gc"


def _made(reader: Expressions, node: ast.Call, depth: int) -> Any:
    """`gc.complex(re, im)`, `gc.type(dtype, shape, weak)`, `gc.data(dtype, shape, values)`, `load`."""
    func = node.func
    if isinstance(func, ast.Name) and func.id == "load":
        return reader.load(node)
    if isinstance(func, ast.Attribute) and _is_prefix(func.value) and not node.keywords:
        args = [_attribute(reader, part, depth + 1) for part in node.args]
        try:
            if func.attr == "complex":
                return complex(*args)
            if func.attr == "type":
                return _type(*args)
            if func.attr == "data":
                return _data(*args)
        except (TypeError, ValueError, OverflowError, binascii.Error) as error:
            raise ParseError(
                f"gc.{func.attr} can't have these arguments: {str(error)[:200]}",
                code="bad-attribute",
            ) from None
    raise ParseError("this can't be an attribute", code="bad-attribute")


def _type(dtype: Any, shape: Any, weak: Any = False) -> TensorType:
    if dtype not in DTYPES.values() or not isinstance(shape, tuple) or len(shape) > 32:
        raise TypeError("expected a dtype and a shape")
    for d in shape:
        if isinstance(d, bool) or not isinstance(d, int | Poly):
            raise TypeError("expected dimensions")
        check_size(d)
    return TensorType(dtype, shape, bool(weak))


def _data(dtype: Any, shape: Any, values: Any) -> Data:
    """Constant data: a flat list of numbers, or base64 of little-endian bytes."""
    if dtype not in DTYPES.values() or not isinstance(shape, tuple):
        raise TypeError("expected a dtype and a shape")
    count = math.prod(shape)
    if isinstance(values, str):
        raw = base64.b64decode(values, validate=True)
        flat = np.frombuffer(raw, dtype=dtype.numpy.newbyteorder("<")).astype(
            dtype.name
        )
        if dtype.is_bool and any(byte > 1 for byte in raw):
            raise ValueError("a bool that is neither 0 nor 1")
    else:
        flat = np.array(values, dtype=dtype.name)
    if flat.ndim != 1 or len(flat) != count:
        raise ValueError(f"{flat.size} values for {count} places")
    return Data(flat.reshape(shape))


# -------------------------------------------------------- what attributes may hold


def check_attributes(
    op: Op, operands: Sequence[Tensor], attrs: Mapping[str, Any]
) -> None:
    """ValueError where an attribute is missing, unknown, or of a value that no pass makes.

    The type rules check what depends on the operands; they may rely on kinds of values.
    """
    wanted = _arity(op)
    if wanted is not None and len(operands) != wanted:
        raise ValueError(f"{wanted} operands expected, found {len(operands)}")
    needed, allowed = _signature(op)
    for name in attrs:
        if name not in allowed:
            raise ValueError(f"no attribute {name}")
    for name in needed:
        if name not in attrs:
            raise ValueError(f"no value for {name}")
    rank = operands[0].ndim if operands else 0
    shape = attrs.get("shape")
    if isinstance(shape, tuple):
        rank = len(shape)
    for name, value in attrs.items():
        if not _KINDS[name](value, rank):
            raise ValueError(f"{name} can't be {str(value)[:60]}")


def check_result(node: Node) -> None:
    """ValueError where a dimension of a result is negative, or what the node needs can't be."""
    for t in node.types:
        if len(t.shape) > 32:
            raise ValueError("more than 32 axes")
        for d in t.shape:
            check_size(d)
    if node.op.requires is not None:
        for d in node.op.requires(node):
            if isinstance(d, int) and d < 0:
                raise ValueError("a position outside of its axis")


@cache
def _signature(op: Op) -> tuple[frozenset[str], frozenset[str]]:
    """The attributes an op must have, and those it may have."""
    for rule in (op.type, op.evaluate):
        if isinstance(rule, np.ufunc):
            continue
        try:
            parameters = inspect.signature(rule).parameters.values()
        except (TypeError, ValueError):  # a function without one, such as math.erf
            continue
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            continue
        named = [
            p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "sizes"
        ]
        return (
            frozenset(p.name for p in named if p.default is p.empty),
            frozenset(p.name for p in named),
        )
    return frozenset(), frozenset()


@cache
def _arity(op: Op) -> int | None:
    """How many operands an op takes, None where any number."""
    if isinstance(op.evaluate, np.ufunc):
        return op.evaluate.nin
    for rule in (op.type, op.evaluate):
        if rule is None:
            continue
        parameters = inspect.signature(rule).parameters.values()
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue
        return sum(
            p.default is p.empty and p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
            for p in parameters
        )
    return None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_dim(value: Any) -> bool:
    return _is_int(value) or isinstance(value, Poly)


def _is_dims(value: Any, rank: int) -> bool:
    return isinstance(value, tuple) and all(_is_dim(v) for v in value)


def _is_shape(value: Any, rank: int) -> bool:
    return _is_dims(value, rank) and not any(_is_int(d) and d < 0 for d in value)


def _is_steps(value: Any, rank: int) -> bool:
    return isinstance(value, tuple) and all(_is_int(v) and v > 0 for v in value)


def _is_axes(value: Any, rank: int) -> bool:
    """Axes are in order, each once, none negative."""
    return (
        isinstance(value, tuple)
        and all(_is_int(v) and 0 <= v < rank for v in value)
        and all(a < b for a, b in pairwise(value))
    )


def _is_axis(value: Any, rank: int) -> bool:
    return _is_int(value) and 0 <= value < rank


def _is_perm(value: Any, rank: int) -> bool:
    return (
        isinstance(value, tuple)
        and all(_is_int(v) for v in value)
        and sorted(value) == list(range(rank))
    )


def _is_labels(value: Any, rank: int) -> bool:
    return isinstance(value, tuple) and all(_is_int(v) for v in value)


def _is_flag(value: Any, rank: int) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any, rank: int) -> bool:
    return isinstance(value, int | float | complex)


def _is_places(value: Any, rank: int) -> bool:
    """Dimensions from 1 on, as far as that is known."""
    return _is_dims(value, rank) and not any(_is_int(d) and d < 1 for d in value)


def _is_pairs(value: Any, rank: int) -> bool:
    return isinstance(value, tuple) and all(
        _is_dims(pair, rank) and len(pair) == 2 for pair in value
    )


def _is_text(value: Any, rank: int) -> bool:
    return isinstance(value, str)


_KINDS: Mapping[str, Callable[[Any, int], bool]] = {
    "along": _is_axes,
    "at": lambda value, rank: _is_int(value) and 0 <= value <= rank,
    "axes": _is_axes,
    "axis": _is_axis,
    "bits": lambda value, rank: value in (8, 16, 32, 64),
    "count": lambda value, rank: _is_int(value) and value > 0,
    "ddof": lambda value, rank: _is_int(value) or isinstance(value, float),
    "dilation": _is_steps,
    "dtype": lambda value, rank: isinstance(value, DType),
    "empty": _is_flag,
    "fill": _is_number,
    "groups": lambda value, rank: _is_int(value) and value > 0,
    "last": _is_flag,
    "lhs": _is_labels,
    "lower": _is_flag,
    "message": _is_text,
    "method": lambda value, rank: value in ("", "add_n", "tree", "accumulate_n"),
    "n": lambda value, rank: _is_int(value) and 0 <= value <= 100,
    "needs": _is_dims,
    "offset": lambda value, rank: _is_int(value),
    "out": _is_labels,
    "over": _is_flag,
    "padding": _is_pairs,
    "perm": _is_perm,
    "reverse": _is_flag,
    "rhs": _is_labels,
    "shape": _is_shape,
    "side": lambda value, rank: value in ("left", "right"),
    "start": lambda value, rank: isinstance(value, float) or _is_dims(value, rank),
    "step": _is_steps,
    "stop": _is_dims,
    "stride": _is_places,
    "taps": _is_shape,
    "trans": lambda value, rank: value in (0, 1, 2) or isinstance(value, bool),
    "unit_diagonal": _is_flag,
    "value": lambda value, rank: isinstance(value, Data) or _is_dim(value),
    "vjp": lambda value, rank: callable(value),
    "weak": _is_flag,
}

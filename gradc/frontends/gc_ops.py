"""The compiler's own spelling: `gc.reduce_sum(x, axes=(0,))`, as `gradc.write` prints graphs.

Operands are tensors; attributes are read here, apart from the names of the graph: a bare name in
an attribute is a dimension, everything else has the prefix.
"""

from __future__ import annotations

import ast
import base64
import binascii
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradc.errors import InternalError, ParseError, TypeMismatch
from gradc.frontends.gc_dims import arithmetic, check_size
from gradc.frontends.gc_hints import did_you_mean
from gradc.frontends.gc_values import POISON, NoGradient, Value, kind_of, refuse_none
from gradc.graph import Attrs, Data, Tensor, at
from gradc.ops.functions import Function
from gradc.ops.registry import lookup, names
from gradc.types import DTYPES, Poly, TensorType

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
    frozen = Attrs(attrs)
    try:
        hash(frozen)
        with at(reader.place(node)):
            outputs = op.node(operands, attrs).outputs
    except (
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
    ) as error:
        raise ParseError(
            f"gc.{name} can't have these operands and attributes: {str(error)[:200]}",
            code="bad-attribute",
        ) from None
    except (AssertionError, InternalError) as error:
        raise ParseError(
            f"gc.{name} can't have these operands and attributes: {str(error)[:200]}",
            code="bad-attribute",
        ) from None
    reader.built += 1
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

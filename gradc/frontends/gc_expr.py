"""Expressions of the text language: syntax to tensors and values known at compile time.

Nothing is executed: names are looked up in the graph's own tables and every call builds nodes.
An expression with an error is told once and becomes POISON, which silences what uses it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradc.errors import (
    GradcError,
    InternalError,
    ParseError,
    ShapeError,
    TypeMismatch,
    UnsupportedError,
)
from gradc.frontends.gc_forms import FORMS, Forms
from gradc.frontends.gc_hints import (
    PLANNED,
    SLIPS,
    did_you_mean,
    is_function,
    is_method,
    outside,
    unknown_function,
)
from gradc.frontends.gc_ops import compiler_call
from gradc.frontends.gc_session import Poisoned, carries, cut
from gradc.frontends.gc_values import (
    POISON,
    UNKNOWN,
    Definition,
    GradientList,
    LoopOnly,
    Native,
    Number,
    Prefix,
    Value,
    fold,
    fold_comparison,
    is_number,
    kind_of,
    refuse_none,
    static_of,
    unwrapped,
)
from gradc.graph import Tensor
from gradc.ops.functions import Function, functions, lookup_function
from gradc.ops.index import index
from gradc.types import DTYPES, DType, Poly

__all__ = ["Expressions"]

MAX_DEPTH = 200
"""Nesting of expressions and of calls of `def`s, taken together."""

CONSTANTS: Mapping[str, Any] = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "euler_gamma": float(np.euler_gamma),
    "newaxis": None,
    "Ellipsis": ...,
}

PREFIXES = frozenset(
    (
        "np",
        "np.linalg",
        "np.fft",
        "np.lib.stride_tricks",
        "np.add",
        "numpy",
        "numpy.linalg",
        "numpy.fft",
        "numpy.lib.stride_tricks",
        "scipy",
        "scipy.special",
        "scipy.linalg",
        "scipy.fft",
    )
)

FOREIGN = frozenset(
    ("np", "numpy", "scipy", "math", "jnp", "jax", "tf", "torch", "random")
)
"""Names of modules that a slip of habit may write in front of a function."""

BINARY: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "add"),
    ast.Sub: ("-", "subtract"),
    ast.Mult: ("*", "multiply"),
    ast.Div: ("/", "divide"),
    ast.FloorDiv: ("//", "floor_divide"),
    ast.Mod: ("%", "remainder"),
    ast.Pow: ("**", "power"),
    ast.MatMult: ("@", "matmul"),
    ast.BitAnd: ("&", "bitwise_and"),
    ast.BitOr: ("|", "bitwise_or"),
    ast.BitXor: ("^", "bitwise_xor"),
    ast.LShift: ("<<", "left_shift"),
    ast.RShift: (">>", "right_shift"),
}

PARENTHESES = "comparisons need parentheses: (x > 0) & (y > 0)"
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "equal"),
    ast.NotEq: ("!=", "not_equal"),
    ast.Lt: ("<", "less"),
    ast.LtE: ("<=", "less_equal"),
    ast.Gt: (">", "greater"),
    ast.GtE: (">=", "greater_equal"),
}


class Expressions(Forms):
    """The meaning of expressions."""

    # ---------------------------------------------------------------------- evaluation

    def value(self, node: ast.expr) -> Value:
        """What an expression means; POISON where it has an error."""
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise ParseError(
                    f"nested more than {MAX_DEPTH} deep",
                    code="too-deep",
                    hint="give parts of it names of their own",
                )
            handler = HANDLERS.get(type(node))
            if handler is None:
                raise outside(node)
            return handler(self, node)
        except Poisoned:
            return POISON
        except InternalError:
            raise
        except GradcError as error:
            self.report(error, node)
            return POISON
        finally:
            self.depth -= 1

    def _constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, bytes):
            raise ParseError(
                "bytes are not part of the graph language", code="not-in-language"
            )
        return node.value

    def name_value(self, node: ast.Name) -> Value:
        """What a name means. ParseError where it means nothing."""
        name = node.id
        for frame in self.frame.chain():
            if name in frame.names:
                value = frame.names[name]
                if type(value) is LoopOnly:
                    raise ParseError(
                        f"{name} is first bound in the loop at {value.place}",
                        code="loop-only",
                        hint="bind it before the loop: the loop then carries it",
                    )
                return value
            if name in frame.locals:
                raise ParseError(
                    f"{name} is read in {frame.title} before it is bound there",
                    code="unbound",
                    hint="make it a parameter, or give the new value another name",
                )
        if name in self.symbols:
            return self.symbols[name]
        found = self.function_named(name)
        if found is not None:
            return found
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in self.dtypes:
            return self.dtypes[name]
        function = lookup_function(name)
        if function is not None:
            return function
        if name in ("np", "numpy", "scipy"):
            return Prefix(name)
        return self._unknown(name)

    def _unknown(self, name: str) -> Value:
        """Tell an unknown name, once."""
        key = ("unknown-name", name)
        if key in self.told:
            return POISON
        self.told.add(key)
        seen = [n for f in self.frame.chain() for n in (*f.names, *f.functions)]
        near = did_you_mean(name, [*seen, *self.symbols]) or did_you_mean(
            name, [*functions(), *CONSTANTS]
        )
        raise ParseError(
            f"no tensor is called {cut(name)}", code="unknown-name", hint=near
        )

    def _tuple(self, node: ast.Tuple) -> Value:
        items = self.items(node.elts)
        return POISON if POISON in items else tuple(items)

    def _list(self, node: ast.List) -> Value:
        items = self.items(node.elts)
        return POISON if POISON in items else items

    def _starred(self, node: ast.Starred) -> Value:
        raise ParseError("a star stands in lists and calls", code="not-in-language")

    def _slice(self, node: ast.Slice) -> Value:
        bounds = [
            None if part is None else self.value(part)
            for part in (node.lower, node.upper, node.step)
        ]
        if POISON in bounds:
            return POISON
        for bound in bounds:
            refuse_none(bound)
        return slice(*map(unwrapped, bounds))

    def _if(self, node: ast.IfExp) -> Value:
        test = self.value(node.test)
        if test is POISON:
            self.value(node.body)
            self.value(node.orelse)
            return POISON
        return self.value(node.body if self.truth(test, node.test) else node.orelse)

    def truth(self, value: Value, node: ast.expr) -> bool:
        """A condition known at compile time. UnsupportedError for a tensor."""
        refuse_none(value)
        value = static_of(value)
        if isinstance(value, Tensor | Poly):
            what = (
                f"the condition is {kind_of(value)}"
                if isinstance(value, Tensor)
                else f"{value} is not known when the graph is compiled"
            )
            raise UnsupportedError(
                f"{what}: choosing by a value (cond) is not in this version yet",
                location=self.span(node),
                hint="where(p, a, b) computes both and chooses",
            )
        return bool(value)

    # ----------------------------------------------------------------------- operators

    def _binary(self, node: ast.BinOp) -> Value:
        links: list[ast.BinOp] = []
        left_node: ast.expr = node
        while type(left_node) is ast.BinOp:
            links.append(left_node)
            left_node = left_node.left
        left = self.value(left_node)
        for link in reversed(links):
            right = self.value(link.right)
            try:
                left = self.binary(link, link.op, left, right, (link.left, link.right))
            except GradcError as error:
                if isinstance(error, InternalError):
                    raise
                self.report(error, link)
                left = POISON
        return left

    def binary(
        self,
        node: ast.AST,
        op: ast.operator,
        left: Value,
        right: Value,
        shown: tuple[ast.expr, ...],
    ) -> Value:
        """`left op right`."""
        if left is POISON or right is POISON:
            return POISON
        sign, name = BINARY[type(op)]
        value = UNKNOWN
        if is_number(left) and is_number(right):
            named = isinstance(left, Number) or isinstance(right, Number)
            value = fold(sign, static_of(left), static_of(right), named=named)
            if value is not UNKNOWN and not (carries(left) or carries(right)):
                return value
        elif isinstance(left, tuple) and isinstance(right, tuple) and sign == "+":
            return left + right
        for operand in (left, right):
            self.check_operand(sign, operand)
        try:
            tensor = self.build(node, name, (left, right), {}, shown)
        except TypeMismatch as error:
            if sign == "^" and not error.hint:
                error.hint = "power is written **"
            elif sign in ("&", "|") and not error.hint:
                error.hint = PARENTHESES
            raise
        return tensor if value is UNKNOWN else Number(tensor, value)

    def check_operand(self, sign: str, value: Value) -> None:
        """TypeMismatch for what no operator takes."""
        refuse_none(value)
        if isinstance(value, GradientList):
            few = "(dw,) =" if len(value) == 1 else "dw, db ="
            raise TypeMismatch(
                f"{sign}: gradients gives a list, and arithmetic takes tensors",
                code="list-operand",
                hint=f"write `{few} gradients(...)`",
            )
        if isinstance(value, Tensor | Number | int | float | complex | Poly):
            return
        hint = ""
        if isinstance(value, list | tuple):
            hint = "array([...]) makes a tensor of it"
        elif isinstance(value, Function | Definition | Native):
            hint = f"call it: {value.name}(...)"
        raise TypeMismatch(
            f"{sign} takes tensors and numbers, found {kind_of(value)}",
            code="list-operand" if isinstance(value, list | tuple) else None,
            hint=hint,
        )

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if value is POISON:
            return POISON
        if isinstance(node.op, ast.Not):
            refuse_none(value)
            if isinstance(value, Tensor):
                raise TypeMismatch(
                    "`not` needs a bool known when the graph is compiled",
                    hint="logical_not(p), or ~p",
                )
            return not self.truth(value, node.operand)
        sign, name = {
            ast.USub: ("-", "negative"),
            ast.UAdd: ("+", "positive"),
            ast.Invert: ("~", "invert"),
        }[type(node.op)]
        if is_number(value) and not (
            sign == "~" and not isinstance(static_of(value), int)
        ):
            plain = static_of(value)
            folded = _unary_folded(sign, plain)
            if not carries(value):
                return folded
            return Number(self.build(node, name, (value,), {}, (node.operand,)), folded)
        self.check_operand(sign, value)
        return self.build(node, name, (value,), {}, (node.operand,))

    def _bool(self, node: ast.BoolOp) -> Value:
        word = "and" if isinstance(node.op, ast.And) else "or"
        result: Value = word == "and"
        poisoned = False
        for operand in node.values:
            value = self.value(operand)
            if value is POISON:
                poisoned = True
                continue
            refuse_none(value)
            if isinstance(value, Tensor):
                sign = "&" if word == "and" else "|"
                raise TypeMismatch(
                    f"`{word}` needs bools known when the graph is compiled, "
                    f"found {kind_of(value)}",
                    hint=f"logical_{word}(p, q), or (p) {sign} (q)",
                )
            result = value
            if not poisoned and self.truth(value, operand) != (word == "and"):
                break
        return POISON if poisoned else result

    def _compare(self, node: ast.Compare) -> Value:
        nodes = (node.left, *node.comparators)
        values = [self.value(n) for n in nodes]
        if POISON in values:
            return POISON
        for value in values:
            refuse_none(value)
        result: Value = True
        for k, op in enumerate(node.ops):
            if type(op) not in COMPARISONS:
                word = {
                    ast.Is: "is",
                    ast.IsNot: "is not",
                    ast.In: "in",
                    ast.NotIn: "not in",
                }
                raise ParseError(
                    f"`{word[type(op)]}` is not part of the graph language",
                    code="not-in-language",
                )
            left, right = values[k], values[k + 1]
            one = self._compared(node, op, left, right, (nodes[k], nodes[k + 1]))
            if isinstance(one, Tensor) and len(node.ops) > 1:
                raise TypeMismatch(
                    "a chain of comparisons needs numbers known when the graph is compiled",
                    hint=PARENTHESES
                    if any(map(_is_bitwise, nodes[1:-1]))
                    else "compare twice: (a < b) & (b < c)",
                )
            result = one
            if result is False:
                break
        return result

    def _compared(
        self,
        node: ast.Compare,
        op: ast.cmpop,
        left: Value,
        right: Value,
        shown: tuple[ast.expr, ...],
    ) -> Value:
        sign, name = COMPARISONS[type(op)]
        if is_number(left) and is_number(right):
            a, b = static_of(left), static_of(right)
            if isinstance(a, int | Poly) and isinstance(b, int | Poly):
                a, b = self.facts.apply(a), self.facts.apply(b)
            value = fold_comparison(sign, a, b)
            if value is not UNKNOWN:
                return value
        elif not any(isinstance(v, Tensor | Number) for v in (left, right)):
            same = _plain_equal(left, right)
            if same is not None and sign in ("==", "!="):
                return same == (sign == "==")
        for value in (left, right):
            self.check_operand(sign, value)
        return self.build(node, name, (left, right), {}, shown)

    # ------------------------------------------------------------ attributes, brackets

    def prefix_of(self, node: ast.expr) -> str:
        """The module's name that an expression is: `np.linalg`; "" for any other expression."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in FOREIGN:
            return ""
        if any(node.id in frame.names for frame in self.frame.chain()):
            return ""
        return ".".join((node.id, *reversed(parts)))

    def _attribute(self, node: ast.Attribute) -> Value:
        prefix = self.prefix_of(node.value)
        if prefix:
            return self._in_prefix(node.attr, prefix)
        base = self.value(node.value)
        if base is POISON:
            return POISON
        refuse_none(base)
        name = node.attr
        if isinstance(base, tuple) and name in getattr(base, "_fields", ()):
            return getattr(base, name)
        if not isinstance(base, Tensor | Number | int | float | complex | Poly):
            raise TypeMismatch(
                f"{kind_of(base)} has no .{cut(name)}",
                code="unknown-attribute",
                hint="a list: take its elements apart first"
                if isinstance(base, list)
                else "",
            )
        x = self.tensor(base)
        if name == "shape":
            return x.shape
        if name == "ndim":
            return x.ndim
        if name == "size":
            return x.type.size
        if name == "dtype":
            return x.dtype
        if name == "T":
            return self.build(node, "transpose", (base,), {}, (node.value,))
        if name == "mT":
            return self.build(node, "swapaxes", (base, -1, -2), {}, (node.value,))
        if name in ("real", "imag"):
            return self.build(node, name, (base,), {}, (node.value,))
        function = lookup_function(name)
        if function is not None:
            raise ParseError(
                f".{cut(name)} is a function",
                code="unknown-attribute",
                hint=f"call it: {name}(x)",
            )
        near = did_you_mean(
            name, ("shape", "ndim", "size", "dtype", "T", "mT", "real", "imag")
        )
        raise ParseError(
            f"a tensor has no .{cut(name)}", code="unknown-attribute", hint=near
        )

    def _in_prefix(self, name: str, prefix: str) -> Value:
        """What `np.name` is where it is not called."""
        if prefix in ("np", "numpy"):
            if name in CONSTANTS:
                return CONSTANTS[name]
            if name in DTYPES or name in ("bool_", "double"):
                return self.dtypes[name]
        if f"{prefix}.{name}" in PREFIXES:
            return Prefix(f"{prefix}.{name}")
        if prefix in PREFIXES:
            function = lookup_function(name)
            if function is not None:
                return function
            raise unknown_function(name, prefix, ())
        raise self._foreign(name, prefix)

    def _foreign(self, name: str, prefix: str) -> GradcError:
        """The error for a function of a module that is not NumPy."""
        if "random" in prefix.split("."):
            return ParseError(
                f"{prefix}.{cut(name)}: a graph has no random numbers",
                code="unknown-function",
                hint="declare an input `eps: float[N]` and draw outside",
            )
        known = is_function(name) or name in CONSTANTS
        return ParseError(
            f"{prefix}.{cut(name)}: there is no module {prefix} in the graph language",
            code="unknown-function",
            hint=f"{name} is here under that name alone, or as np.{name}"
            if known
            else "",
        )

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        key = self.key(node.slice)
        if base is POISON or key is POISON:
            return POISON
        refuse_none(base)
        return self.indexed(node, base, key, node.value)

    def key(self, node: ast.expr) -> Value:
        """What stands in brackets, numbers without their tensors."""
        if isinstance(node, ast.Tuple):
            parts = self.items(node.elts)
            if POISON in parts:
                return POISON
            for part in parts:
                refuse_none(part)
            return tuple(unwrapped(p) for p in parts)
        value = self.value(node)
        refuse_none(value)
        return unwrapped(value)

    def indexed(self, node: ast.AST, base: Value, key: Value, shown: ast.expr) -> Value:
        """`base[key]`."""
        if isinstance(base, list | tuple):
            if isinstance(key, slice | int) and not isinstance(key, bool):
                try:
                    return base[key]
                except IndexError:
                    raise ShapeError(
                        f"index {key} is outside {kind_of(base)} of {len(base)}",
                        code="index-out-of-range",
                    ) from None
                except TypeError:
                    pass
            raise TypeMismatch(
                f"{kind_of(base)} is indexed by ints, found {kind_of(key)}",
                hint="array([...]) makes a tensor of it",
            )
        if not isinstance(base, Tensor | Number):
            raise TypeMismatch(f"{kind_of(base)} can't be indexed")
        x = self.tensor(base)
        return self.building(node, "index", lambda: index(x, key), (shown,), (base,))

    # --------------------------------------------------------------------------- calls

    def _call(self, node: ast.Call) -> Value:
        func = node.func
        if isinstance(func, ast.Name):
            return self._named_call(node, func.id)
        if isinstance(func, ast.Attribute):
            return self._attribute_call(node, func)
        function = self.value(func)
        args, kwargs = self.arguments(node)
        if function is POISON:
            return POISON
        return self.apply(node, function, args, kwargs, node.args)

    def _named_call(self, node: ast.Call, name: str) -> Value:
        function: Value = None
        bound: Value = None
        for frame in self.frame.chain():
            found = frame.names.get(name)
            if isinstance(found, Definition | Function | Native | DType):
                function = found
            elif found is not None and bound is None:
                bound = found
            function = function or frame.functions.get(name)
            if function is not None:
                break
        if function is None:
            form = FORMS.get(name)
            if form is not None:
                return form(self, node)
            if name in self.dtypes and not (name == "complex" and len(node.args) > 1):
                function = self.dtypes[name]
        function = function or lookup_function(name)
        if function is None:
            self.arguments(node)
            if bound is POISON or ("unknown-name", name) in self.told:
                return POISON
            if bound is not None and not isinstance(bound, LoopOnly):
                raise TypeMismatch(
                    f"{cut(name)} is {kind_of(bound)}, not a function",
                    code="not-a-function",
                )
            others = [n for f in self.frame.chain() for n in f.functions]
            raise unknown_function(name, "", others)
        if isinstance(function, Definition) and function.broken:
            self.arguments(node)
            return POISON
        args, kwargs = self.arguments(node)
        return self.apply(node, function, args, kwargs, node.args)

    def _attribute_call(self, node: ast.Call, func: ast.Attribute) -> Value:
        name = func.attr
        prefix = self.prefix_of(func.value)
        if prefix:
            if prefix in PREFIXES and prefix not in ("np.add",):
                if name in ("array", "asarray"):
                    return FORMS[name](self, node)
                function: Value = lookup_function(name)
                if function is None and name in DTYPES:
                    function = self.dtypes[name]
                args, kwargs = self.arguments(node)
                if function is None:
                    raise unknown_function(name, prefix, ())
                return self.apply(node, function, args, kwargs, node.args)
            self.arguments(node)
            if prefix in ("np.add", "numpy.add") and name == "at":
                raise ParseError(
                    "np.add.at changes an array in place",
                    code="unknown-function",
                    hint="x = index_add(x, idx, v), or x[idx] += v",
                )
            raise self._foreign(name, prefix)
        if (
            isinstance(func.value, ast.Name)
            and func.value.id == "gc"
            and not any("gc" in frame.names for frame in self.frame.chain())
        ):
            return compiler_call(self, node, name)
        base = self.value(func.value)
        args, kwargs = self.arguments(node)
        if base is POISON:
            return POISON
        return self.method(node, func, base, args, kwargs)

    def method(
        self,
        node: ast.Call,
        func: ast.Attribute,
        base: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """`base.name(...)`."""
        refuse_none(base)
        name = func.attr
        if not isinstance(base, Tensor | Number | int | float | complex | Poly):
            hint = (
                "write `(dw,) = gradients(...)`"
                if isinstance(base, GradientList)
                else ""
            )
            raise TypeMismatch(
                f"{kind_of(base)} has no method {cut(name)}",
                code="unknown-attribute",
                hint=hint,
            )
        function = lookup_function(name)
        if function is None or not function.method:
            if function is not None:
                raise ParseError(
                    f"a tensor has no method {name}",
                    code="unknown-attribute",
                    hint=f"write {name}({self.span(func.value).text}, ...)",
                )
            if name in PLANNED:
                raise unknown_function(name, "", ())
            methods = [n for n in functions() if is_method(n)]
            raise ParseError(
                f"a tensor has no method {cut(name)}",
                code="unknown-attribute",
                hint=SLIPS.get(name, "") or did_you_mean(name, methods),
            )
        return self.call_function(
            node, function, (base, *args), kwargs, (func.value, *node.args)
        )


def _is_bitwise(node: ast.expr) -> bool:
    """Whether `&` or `|` took what stands beside it, as in `x > 0 & y > 0`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)


def _unary_folded(sign: str, value: Any) -> Any:
    """`-value`, `+value`, `~value` of a number known at compile time."""
    if sign == "-":
        return -value
    if sign == "~":
        return not value if isinstance(value, bool) else ~value
    return value if isinstance(value, Poly) else +value


def _plain_equal(a: Any, b: Any) -> bool | None:
    """Equality of values that are no tensors, None where it is not known."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return False
        parts = [
            _plain_equal(unwrapped(x), unwrapped(y)) for x, y in zip(a, b, strict=True)
        ]
        return False if False in parts else None if None in parts else True
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return None
    if isinstance(a, Poly) or isinstance(b, Poly):
        difference = (
            a - b if isinstance(a, int | Poly) and isinstance(b, int | Poly) else 1
        )
        return None if isinstance(difference, Poly) else difference == 0
    return bool(a == b)


HANDLERS: Mapping[type[ast.expr], Callable[[Expressions, Any], Value]] = {
    ast.Attribute: Expressions._attribute,
    ast.BinOp: Expressions._binary,
    ast.BoolOp: Expressions._bool,
    ast.Call: Expressions._call,
    ast.Compare: Expressions._compare,
    ast.Constant: Expressions._constant,
    ast.IfExp: Expressions._if,
    ast.List: Expressions._list,
    ast.Name: Expressions.name_value,
    ast.Slice: Expressions._slice,
    ast.Starred: Expressions._starred,
    ast.Subscript: Expressions._subscript,
    ast.Tuple: Expressions._tuple,
    ast.UnaryOp: Expressions._unary,
}

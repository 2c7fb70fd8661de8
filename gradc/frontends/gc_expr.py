"""Expressions of the text language: syntax to tensors and values known at compile time.

Nothing is executed: names are looked up in the graph's own tables and every call builds nodes.
An expression with an error is told once and becomes POISON, which silences what uses it.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradc.autodiff import reverse
from gradc.errors import (
    GradcError,
    InternalError,
    ParseError,
    ShapeError,
    Source,
    Span,
    TypeMismatch,
    UnsupportedError,
)
from gradc.frontends.gc_dims import solve_facts
from gradc.frontends.gc_hints import (
    did_you_mean,
    is_function,
    outside,
    signature_of,
    unknown_function,
)
from gradc.frontends.gc_load import load_array
from gradc.frontends.gc_ops import compiler_call
from gradc.frontends.gc_text import span_of
from gradc.frontends.gc_values import (
    POISON,
    UNKNOWN,
    Definition,
    Frame,
    GradientList,
    LoopOnly,
    Native,
    NoGradient,
    Number,
    Prefix,
    Value,
    fold,
    fold_comparison,
    is_number,
    kind_of,
    numbers_in,
    refuse_none,
    static_of,
    unwrapped,
)
from gradc.graph import Data, Place, Tensor, at, ordered
from gradc.ops.basic import constant
from gradc.ops.functions import Function, as_tensor, functions, lookup_function
from gradc.ops.index import index
from gradc.types import DTYPES, DType, Facts, Poly, bool_, complex128, float64, int64

__all__ = ["Expressions", "Poisoned", "Stop"]

MAX_DEPTH = 200
"""Nesting of expressions and of calls of `def`s, taken together."""
MAX_ERRORS = 100
MAX_NODES = 5_000_000
"""Calls that build nodes; what `gradients` goes through counts too."""

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
        "np.add",
        "numpy",
        "numpy.linalg",
        "numpy.fft",
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
COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "equal"),
    ast.NotEq: ("!=", "not_equal"),
    ast.Lt: ("<", "less"),
    ast.LtE: ("<=", "less_equal"),
    ast.Gt: (">", "greater"),
    ast.GtE: (">=", "greater_equal"),
}


class Poisoned(Exception):
    """Raised through a function of the user's that met POISON."""


class Stop(Exception):
    """Raised where reading on makes no sense; the error is told already."""


class Expressions:
    """The state of a reading, and the meaning of expressions."""

    def __init__(
        self, source: Source, folder: Path | None, default_float: DType
    ) -> None:
        self.source = source
        self.folder = folder
        self.default_float = default_float
        self.errors: list[GradcError] = []
        self.told: set[tuple[Any, ...]] = set()
        self.top = Frame(shift=0)
        self.frame = self.top
        self.facts: Facts = solve_facts(())
        self.symbols: dict[str, Value] = {}
        self.statement: Span | None = None
        self.section = ""
        self.depth = 0
        self.built = 0
        self.plans: list[Any] = []
        self.gradient_names: dict[Tensor, str] = {}
        self.calls: list[tuple[Definition, Span]] = []
        self.loaded: dict[tuple[str, str | None], Any] = {}
        self.dtypes: dict[str, DType] = {
            **DTYPES,
            "float": default_float,
            "int": int64,
            "complex": complex128,
            "bool_": bool_,
            "double": float64,
        }

    # ------------------------------------------------------------------ places, errors

    def span(self, node: ast.AST) -> Span:
        return span_of(self.source, node, self.frame.shift)

    def place(self, node: ast.AST) -> Place:
        """The place of new nodes. Kept with the syntax, which a loop comes back to."""
        kept = node.__dict__.get("place")
        if isinstance(kept, Place) and kept.section == self.section:
            return kept
        place = Place(
            span=self.span(node), statement=self.statement, section=self.section
        )
        node.__dict__["place"] = place
        return place

    def report(self, error: GradcError, node: ast.AST | None = None) -> None:
        """Tell an error, unless the same fault was told at the same place. Stop after many."""
        if error.location is None and node is not None:
            error.location = self.span(node)
        where = error.location
        key = (
            (error.code, where.line, where.column)
            if where
            else (error.code, error.message)
        )
        if key in self.told:
            return
        self.told.add(key)
        for definition, place in reversed(self.calls[-3:]):
            error.notes = (
                *error.notes,
                f"in {definition.name}, called at {place.place}",
            )
        self.errors.append(error)
        if len(self.errors) >= MAX_ERRORS:
            raise Stop

    def fatal(self, error: GradcError, node: ast.AST | None = None) -> Stop:
        """Tell an error past which nothing can be read."""
        self.report(error, node)
        return Stop()

    # --------------------------------------------------------------------- evaluation

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

    def _name(self, node: ast.Name) -> Value:
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
        found = self._function_named(name)
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
            f"no tensor is called {_cut(name)}", code="unknown-name", hint=near
        )

    def _function_named(self, name: str) -> Definition | None:
        for frame in self.frame.chain():
            if name in frame.functions:
                return frame.functions[name]
        return None

    def _tuple(self, node: ast.Tuple) -> Value:
        items = self.items(node.elts)
        return POISON if POISON in items else tuple(items)

    def _list(self, node: ast.List) -> Value:
        items = self.items(node.elts)
        return POISON if POISON in items else items

    def items(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """The values of listed expressions, stars opened."""
        values: list[Value] = []
        for node in nodes:
            if type(node) is ast.Starred:
                values.extend(self.starred(node))
            else:
                values.append(self.value(node))
        return values

    def starred(self, node: ast.Starred) -> list[Value]:
        value = self.value(node.value)
        if value is POISON:
            return [POISON]
        if not isinstance(value, list | tuple):
            self.report(
                TypeMismatch(
                    f"* takes a list or a tuple apart, found {kind_of(value)}"
                ),
                node,
            )
            return [POISON]
        return list(value)

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

    def _formatted(self, node: ast.expr) -> Value:
        raise outside(node)

    # ---------------------------------------------------------------------- operators

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
            if value is not UNKNOWN and not (_carries(left) or _carries(right)):
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
            folded = {"-": lambda: -plain, "+": lambda: +plain, "~": lambda: ~plain}[
                sign
            ]()
            if sign == "~" and isinstance(plain, bool):
                folded = not plain
            if not _carries(value):
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
                    hint="compare twice: (a < b) & (b < c)",
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

    # ----------------------------------------------------------- attributes, brackets

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
                f"{kind_of(base)} has no .{_cut(name)}",
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
                f".{_cut(name)} is a function",
                code="unknown-attribute",
                hint=f"call it: {name}(x)",
            )
        near = did_you_mean(
            name, ("shape", "ndim", "size", "dtype", "T", "mT", "real", "imag")
        )
        raise ParseError(
            f"a tensor has no .{_cut(name)}", code="unknown-attribute", hint=near
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
            return unknown_function("random", prefix, ())
        known = is_function(name) or name in CONSTANTS
        return ParseError(
            f"{prefix}.{_cut(name)}: there is no module {prefix} in the graph language",
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
        return self.building(node, "index", lambda: index(x, key), ((shown, base),))

    # ---------------------------------------------------------------------- tensors

    def tensor(self, value: Value) -> Tensor:
        """The value as a tensor; numbers become constants. TypeMismatch where it is neither."""
        refuse_none(value)
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Number):
            return value.tensor
        if isinstance(value, int | float | complex | Poly):
            return as_tensor(value)
        if isinstance(value, list | tuple) and not isinstance(value, GradientList):
            return self.array(value, None)
        raise TypeMismatch(f"expected a tensor, found {kind_of(value)}")

    def array(self, values: Sequence[Value], dtype: DType | None) -> Tensor:
        """A tensor from nested lists; floats alone are of the default float."""
        if dtype is None and self.default_float != float64 and numbers_in(values):
            found = np.array(values) if len(values) else np.zeros(0)
            if found.dtype == np.float64:
                dtype = self.default_float
        function = lookup_function("array")
        assert function is not None
        result = function.call(_nested(values), dtype=dtype)
        assert isinstance(result, Tensor)
        return result

    def static(self, value: Value) -> Any:
        """The value without tensors: a tensor of constants is computed where that is cheap."""
        if isinstance(value, Tensor):
            known = constant_value(value)
            return value if known is None else known
        if isinstance(value, tuple | list) and not isinstance(value, GradientList):
            items = [self.static(v) for v in value]
            return tuple(items) if isinstance(value, tuple) else items
        return unwrapped(value)

    # ------------------------------------------------------------------------- calls

    def build(
        self,
        node: ast.AST,
        name: str,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
        shown: Sequence[ast.expr] = (),
    ) -> Value:
        """Call the function `name` of the language on values."""
        function = lookup_function(name)
        if function is None:
            raise unknown_function(name, "", ())
        return self.call_function(node, function, args, kwargs, shown)

    def building(
        self,
        node: ast.AST,
        name: str,
        call: Callable[[], Any],
        shown: Sequence[tuple[ast.expr, Value]],
    ) -> Any:
        """Run what builds nodes at the place of `node`; its errors get place and operands."""
        self.built += 1
        if self.built > MAX_NODES:
            raise self.fatal(
                ParseError(
                    f"the graph has more than {MAX_NODES} nodes", code="too-large"
                ),
                node,
            )
        with at(self.place(node)):
            try:
                return call()
            except (Poisoned, Stop):
                raise
            except GradcError as error:
                if error.location is None:
                    error.location = self.span(node)
                error.notes = (*error.notes, *self.operand_notes(shown))
                raise
            except (
                TypeError,
                ValueError,
                ArithmeticError,
                AttributeError,
                LookupError,
                AssertionError,
            ) as error:
                raise ParseError(
                    f"{name} can't take these arguments: {_cut(str(error), 200)}",
                    code="bad-argument",
                    notes=self.operand_notes(shown),
                ) from error
            except MemoryError:
                raise ParseError(
                    f"{name}: the constant does not fit in memory", code="too-large"
                ) from None

    def operand_notes(self, shown: Sequence[tuple[ast.expr, Value]]) -> list[str]:
        """`X: float64[N, D] (model.gc:3)` for the tensors among the operands."""
        notes: list[str] = []
        for expression, value in shown:
            t = value.tensor if isinstance(value, Number) else value
            if not isinstance(t, Tensor) or isinstance(expression, ast.Constant):
                continue
            text = self.span(expression).text
            origin = t.node.place.statement or t.node.place.span
            at_line = f" ({origin.place_of_line})" if origin else ""
            note = f"{_cut(text)}: {t.type}{at_line}"
            if note not in notes:
                notes.append(note)
        return notes

    def call_function(
        self,
        node: ast.AST,
        function: Function,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
        shown: Sequence[ast.expr] = (),
    ) -> Value:
        """Call a function of the language: bind by its signature, convert by its annotations."""
        try:
            bound = function.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ParseError(
                f"{function.name}: {error}",
                code="bad-argument",
                hint=f"write {signature_of(function)}",
            ) from None
        self._check_reduction(function, bound)
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._argument(node, function, name, value)
        self._fill_dtype(function, bound, (*args, *kwargs.values()))
        pairs = list(zip(shown, args, strict=False))
        return self.building(
            node,
            function.name,
            lambda: function.call(*bound.args, **bound.kwargs),
            pairs,
        )

    def _check_reduction(
        self, function: Function, bound: inspect.BoundArguments
    ) -> None:
        """`max(w, 1e-8)` is a slip for maximum: NumPy's second argument is an axis."""
        if (
            function.name in ("max", "min", "amax", "amin")
            and "axis" in bound.arguments
        ):
            axis = bound.arguments["axis"]
            if isinstance(axis, Tensor) or isinstance(static_of(axis), float | Poly):
                name = "maximum" if "max" in function.name else "minimum"
                raise TypeMismatch(
                    f"{function.name} goes over the elements of one tensor, and its second "
                    f"argument is an axis: found {kind_of(axis)}",
                    code="bad-argument",
                    hint=f"did you mean {name}?",
                )

    def _fill_dtype(
        self, function: Function, bound: inspect.BoundArguments, given: Sequence[Value]
    ) -> None:
        """The default float where a function would make float64 of its own accord."""
        if self.default_float == float64 or "dtype" in bound.arguments:
            return
        dtype = function.signature.parameters.get("dtype")
        if dtype is None:
            return
        makes = dtype.default == float64 or (
            function.name in ("full", "arange", "linspace", "logspace", "geomspace")
            and any(isinstance(static_of(v), float) for v in given)
        )
        if makes:
            bound.arguments["dtype"] = self.default_float

    def _argument(
        self, node: ast.AST, function: Function, name: str, value: Value
    ) -> Any:
        parameter = function.signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            raise ParseError(f"{function.name}: unknown options", code="bad-argument")
        if parameter.kind is parameter.VAR_POSITIONAL:
            return tuple(self._converted(node, function, parameter, v) for v in value)
        return self._converted(node, function, parameter, value)

    def _converted(
        self,
        node: ast.AST,
        function: Function,
        parameter: inspect.Parameter,
        value: Value,
    ) -> Any:
        refuse_none(value)
        kind = str(parameter.annotation)
        where = f"{function.name}: {parameter.name}"
        if "Callable" in kind:
            return self.as_callable(node, value, where)
        if "Key" in kind:
            return unwrapped(value)
        if "Nested" in kind:
            return _nested(value)
        if "TensorLike" not in kind:
            return self._compile_time(parameter, kind, value, where)
        if value is None:
            if "None" in kind:
                return None
            raise TypeMismatch(f"{where}: expected a tensor, found None")
        if "Sequence" in kind or "list[" in kind or "tuple[" in kind:
            if isinstance(value, list | tuple):
                return [self._operand(v, where) for v in value]
            rows = value.shape[0] if isinstance(value, Tensor) and value.ndim else None
            if isinstance(rows, int) and rows <= 10_000:
                return [index(value, k) for k in range(rows)]
            raise TypeMismatch(
                f"{where}: expected a list of tensors, found {kind_of(value)}",
                hint=f"write {function.name}([...])",
            )
        return self._operand(value, where)

    def _operand(self, value: Value, where: str) -> Any:
        """One operand: a tensor, or a plain number, which is weak."""
        if isinstance(value, Tensor | int | float | complex | Poly):
            return value
        if isinstance(value, Number):
            return value.tensor
        refuse_none(value)
        if isinstance(value, GradientList):
            raise TypeMismatch(
                f"{where}: expected a tensor, found the list that gradients returns",
                code="list-operand",
                hint="write `(dw,) = gradients(...)`",
            )
        if isinstance(value, list | tuple):
            return self.array(value, None)
        hint = ""
        if isinstance(value, Function | Definition):
            hint = f"call it: {value.name}(...)"
        raise TypeMismatch(
            f"{where}: expected a tensor, found {kind_of(value)}", hint=hint
        )

    def _compile_time(
        self, parameter: inspect.Parameter, kind: str, value: Value, where: str
    ) -> Any:
        """An argument known at compile time."""
        if (
            kind == "Any"
            and isinstance(value, Tensor)
            and constant_value(value) is None
        ):
            return value
        found = self.static(value)
        if (parameter.name == "dtype" or "DType" in kind) and isinstance(found, str):
            if found not in self.dtypes:
                raise TypeMismatch(
                    f"{where}: no dtype {_cut(found)}",
                    hint="dtypes are " + ", ".join(DTYPES),
                )
            return self.dtypes[found]
        if isinstance(found, Tensor) or isinstance(value, GradientList):
            raise TypeMismatch(
                f"{where} must be known when the graph is compiled, found {kind_of(value)}",
                code="not-static",
            )
        if isinstance(found, Function | Definition | Native | Prefix):
            raise TypeMismatch(f"{where}: found {kind_of(found)}", code="bad-argument")
        return found

    def as_callable(
        self, node: ast.AST, value: Value, where: str
    ) -> Callable[..., Any]:
        """A function of the language or a `def` as a Python function on tensors."""
        if not isinstance(value, Function | Definition | Native):
            raise TypeMismatch(f"{where}: expected a function, found {kind_of(value)}")

        def call(*tensors: Any) -> Any:
            return self._plain(self.apply(node, value, list(tensors), {}, ()))

        call.__name__ = value.name
        return call

    def _plain(self, value: Value) -> Any:
        if value is POISON:
            raise Poisoned
        if isinstance(value, tuple | list):
            return tuple(self._plain(v) for v in value)
        return self.tensor(value)

    def apply(
        self,
        node: ast.AST,
        function: Value,
        args: list[Value],
        kwargs: Mapping[str, Value],
        shown: Sequence[ast.expr],
    ) -> Value:
        """Call any function value."""
        if isinstance(function, Definition):
            return self.inline(node, function, args, kwargs)
        if isinstance(function, Function):
            return self.call_function(node, function, args, kwargs, shown)
        if isinstance(function, Native):
            if kwargs:
                raise ParseError(
                    f"{function.name} takes no keywords", code="bad-argument"
                )
            tensors = [self._operand(a, function.name) for a in args]
            pairs = list(zip(shown, args, strict=False))
            return self.building(
                node, function.name, lambda: function.call(*tensors), pairs
            )
        if isinstance(function, DType):
            return self._cast(node, function, args, kwargs, shown)
        raise TypeMismatch(
            f"{kind_of(function)} is not a function", code="not-a-function"
        )

    def dimension(self, name: str, node: ast.AST, *, new: bool = True) -> Any:
        """What a name means where a dimension stands; the statements' reader defines it."""
        raise NotImplementedError

    def declare_input(self, node: ast.Call, attrs: Mapping[str, Any]) -> Tensor:
        """An input in the compiler's spelling; the statements' reader defines it."""
        raise NotImplementedError

    def inline(
        self,
        node: ast.AST,
        definition: Definition,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """The body of a `def` at a call of it; the statements' reader defines it."""
        raise NotImplementedError

    def _arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        args: list[Value] = []
        for part in node.args:
            if type(part) is ast.Starred:
                args.extend(self.starred(part))
            else:
                args.append(self.value(part))
        kwargs: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is None:
                raise ParseError(
                    "** is not part of the graph language", code="not-in-language"
                )
            kwargs[keyword.arg] = value
        if POISON in args or POISON in kwargs.values():
            raise Poisoned
        return args, kwargs

    def _call(self, node: ast.Call) -> Value:
        func = node.func
        if isinstance(func, ast.Name):
            return self._named_call(node, func.id)
        if isinstance(func, ast.Attribute):
            return self._attribute_call(node, func)
        function = self.value(func)
        args, kwargs = self._arguments(node)
        if function is POISON:
            return POISON
        return self.apply(node, function, args, kwargs, node.args)

    def _named_call(self, node: ast.Call, name: str) -> Value:
        function: Value = None
        bound: Value = None
        for frame in self.frame.chain():
            found = frame.names.get(name)
            if isinstance(found, Definition | Function | Native):
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
            self._arguments(node)
            if bound is POISON or ("unknown-name", name) in self.told:
                return POISON
            if bound is not None and not isinstance(bound, LoopOnly):
                raise TypeMismatch(
                    f"{_cut(name)} is {kind_of(bound)}, not a function",
                    code="not-a-function",
                )
            others = [n for f in self.frame.chain() for n in f.functions]
            raise unknown_function(name, "", others)
        if isinstance(function, Definition) and function.broken:
            self._arguments(node)
            return POISON
        args, kwargs = self._arguments(node)
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
                args, kwargs = self._arguments(node)
                if function is None:
                    raise unknown_function(name, prefix, ())
                return self.apply(node, function, args, kwargs, node.args)
            self._arguments(node)
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
        args, kwargs = self._arguments(node)
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
                f"{kind_of(base)} has no method {_cut(name)}",
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
            raise unknown_function(name, "", ())
        return self.call_function(
            node, function, (base, *args), kwargs, (func.value, *node.args)
        )

    # ------------------------------------------------------------------- special forms

    def _cast(
        self,
        node: ast.AST,
        dtype: DType,
        args: list[Value],
        kwargs: Mapping[str, Value],
        shown: Sequence[ast.expr],
    ) -> Value:
        if len(args) != 1 or kwargs:
            raise ParseError(f"{dtype}(x) takes one value", code="bad-argument")
        return self.build(node, "astype", (self.tensor(args[0]), dtype), {}, shown)

    def _array(self, node: ast.Call) -> Value:
        """`array([...])`: floats alone are of the default float."""
        args, kwargs = self._arguments(node)
        if len(args) == 1 and not kwargs and isinstance(args[0], list | tuple):
            values = args[0]
            if isinstance(values, GradientList):
                values = list(values)
            for value in values:
                refuse_none(value)
            pairs = [
                (part, v) for part, v in zip(node.args[:1], values[:1], strict=False)
            ]
            return self.building(node, "array", lambda: self.array(values, None), pairs)
        name = node.func.id if isinstance(node.func, ast.Name) else "array"
        return self.build(node, name, args, kwargs, node.args)

    def _len(self, node: ast.Call) -> Value:
        args, kwargs = self._arguments(node)
        if len(args) != 1 or kwargs:
            raise ParseError("len(x) takes one value", code="bad-argument")
        value = args[0]
        refuse_none(value)
        if isinstance(value, list | tuple | str):
            return len(value)
        x = self.tensor(value)
        if not x.ndim:
            raise ShapeError("len of a tensor of rank 0", code="bad-axis")
        return x.shape[0]

    def _load(self, node: ast.Call) -> Value:
        data = self.load(node)
        with at(self.place(node)):
            return constant(value=data, weak=False)

    def load(self, node: ast.Call) -> Data:
        """The array that a `load(...)` reads."""
        args, kwargs = self._arguments(node)
        texts = [*args, *kwargs.values()]
        if not 1 <= len(texts) <= 2 or set(kwargs) - {"key"}:
            raise ParseError(
                'load takes a file and a name: load("weights.npz", "W")',
                code="bad-argument",
            )
        for text in texts:
            if not isinstance(text, str):
                raise TypeMismatch(
                    f"load takes strings, found {kind_of(text)}",
                    hint='load("weights.npz", "W")',
                )
        key = texts[1] if len(texts) > 1 else None
        if (texts[0], key) not in self.loaded:
            array = load_array(self.folder, texts[0], key)
            written = ", ".join(_quoted(t) for t in texts)
            self.loaded[texts[0], key] = Data(array, f"load({written})")
        data: Data = self.loaded[texts[0], key]
        return data

    def _gradients(self, node: ast.Call) -> Value:
        """`gradients(ys, xs, ...)`: a list, one tensor or None an x."""
        request = self.request(node)
        xs, names = request.pop("x_tensors"), request.pop("x_names")
        self.built += len(ordered(request["ys"]))
        result = self.building(
            node, "gradients", lambda: reverse.gradients(**request), ()
        )
        self.plans.append(result.plan)
        ys = ", ".join(y.name or y.op.name for y in request["ys"][:3])
        values = GradientList()
        for k, (x, t) in enumerate(zip(xs, result.tensors, strict=True)):
            name = names[k] or x.name or str(k)
            if t is None:
                message = f"the gradient of {ys} by {name} is None"
                values.append(NoGradient(message, result.why(k), f"grad_{name}"))
            else:
                self.gradient_names.setdefault(t, f"grad_{name}")
                values.append(t)
        return values

    def request(self, node: ast.Call) -> dict[str, Any]:
        """The arguments of `gradients` by name, tensors resolved; and the xs with their names."""
        args, kwargs = self._arguments(node)
        name = node.func.id if isinstance(node.func, ast.Name) else "gradients"
        try:
            bound = _GRADIENTS.bind(*args, **kwargs)
        except TypeError as error:
            raise ParseError(
                f"{name}: {error}",
                code="bad-argument",
                hint=f"write {name}(ys, xs, grad_ys=None, ...)",
            ) from None
        found: dict[str, Any] = {k: unwrapped(v) for k, v in bound.arguments.items()}
        for option in ("ys", "xs", "stop_gradients"):
            if option in bound.arguments and bound.arguments[option] is not None:
                found[option] = self._tensor_list(name, option, bound.arguments[option])
        if bound.arguments.get("grad_ys") is not None:
            found["grad_ys"] = self._seeds(bound.arguments["grad_ys"])
        found["x_tensors"] = found["xs"]
        found["x_names"] = self._names_of(node, len(found["xs"]))
        return found

    def _tensor_list(self, name: str, option: str, value: Value) -> list[Tensor]:
        listed = value if isinstance(value, list | tuple) else [value]
        for item in listed:
            refuse_none(item)
            if not isinstance(item, Tensor | Number | int | float | complex | Poly):
                raise TypeMismatch(
                    f"{name}: {option}: expected a tensor or a list of tensors, "
                    f"found {kind_of(item)}",
                    hint=f"*{option} opens a list in a list"
                    if isinstance(item, list | tuple)
                    else "",
                )
        return [self.tensor(item) for item in listed]

    def _seeds(self, value: Value) -> Any:
        """grad_ys: numbers stay numbers, lists in the list become tensors."""
        listed = value if isinstance(value, list | tuple) else [value]
        seeds: list[Any] = []
        for item in listed:
            refuse_none(item)
            if item is None or isinstance(item, int | float | complex):
                seeds.append(item)
            else:
                seeds.append(self.tensor(item))
        return seeds

    def _names_of(self, node: ast.Call, count: int) -> list[str]:
        """The names that the xs are written with, "" where that is an expression."""
        written = node.args[1] if len(node.args) > 1 else None
        for keyword in node.keywords:
            if keyword.arg == "xs":
                written = keyword.value
        parts: Sequence[ast.expr] = ()
        if isinstance(written, ast.List | ast.Tuple):
            parts = written.elts
        elif written is not None:
            parts = (written,)
        if len(parts) != count:
            return [""] * count
        return [part.id if isinstance(part, ast.Name) else "" for part in parts]

    def _misplaced(self, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        where, example = {
            "differentiate": ("a statement of its own", "differentiate(loss, [w])"),
            "input": ("the default of a declaration", "l2: float = input(0.1)"),
            "range": ("a `for` loop", "for t in range(10):"),
            "section": ("a `with` statement", 'with section("encoder"):'),
        }[name]
        raise ParseError(
            f"{name} stands in {where} alone", code="misplaced", hint=f"write {example}"
        )

    def _custom_gradient(self, node: ast.Call) -> Value:
        args, kwargs = self._arguments(node)
        made = self.build(node, "custom_gradient", args, kwargs, node.args)
        if callable(made) and not isinstance(made, Tensor | Function | Native):
            return Native("custom_gradient", made)
        return made


# ------------------------------------------------------------------------------ helpers

_GRADIENTS = inspect.signature(reverse.gradients)


def _carries(value: Value) -> bool:
    """Whether arithmetic with a number must go through its tensor: a gradient may be asked for."""
    if not isinstance(value, Number):
        return False
    return value.tensor.dtype.is_inexact or not value.tensor.type.weak


def _nested(value: Value) -> Any:
    """Nested lists with ints as ints and what carries a gradient as tensors."""
    if isinstance(value, Number):
        return value.tensor if _carries(value) else value.value
    if isinstance(value, list | tuple):
        return [_nested(v) for v in value]
    refuse_none(value)
    return value


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


def constant_value(x: Tensor) -> Any:
    """The number that a tensor of rank 0 made of few constants is, else None."""
    if x.shape:
        return None
    nodes = ordered([x])
    if len(nodes) > 100:
        return None
    values: dict[Tensor, Any] = {}
    for node in nodes:
        if node.op.name in ("input", "dim", "gate") or len(node.outputs) > 1:
            return None
        try:
            with np.errstate(all="ignore"):
                values[node.out] = node.op.evaluate(
                    *(values[t] for t in node.inputs), **node.attrs.as_dict()
                )
        except (TypeError, ValueError, ArithmeticError):
            return None
    return np.asarray(values[x]).item()


def _quoted(text: str) -> str:
    """A string as the language writes it."""
    quoted = repr(text)
    return f'"{text}"' if quoted[1:-1] == text and '"' not in text else quoted


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


HANDLERS: Mapping[type[ast.expr], Callable[[Expressions, Any], Value]] = {
    ast.Attribute: Expressions._attribute,
    ast.BinOp: Expressions._binary,
    ast.BoolOp: Expressions._bool,
    ast.Call: Expressions._call,
    ast.Compare: Expressions._compare,
    ast.Constant: Expressions._constant,
    ast.IfExp: Expressions._if,
    ast.List: Expressions._list,
    ast.Name: Expressions._name,
    ast.Slice: Expressions._slice,
    ast.Starred: Expressions._starred,
    ast.Subscript: Expressions._subscript,
    ast.Tuple: Expressions._tuple,
    ast.UnaryOp: Expressions._unary,
}

FORMS: Mapping[str, Callable[[Expressions, ast.Call], Value]] = {
    "array": Expressions._array,
    "asarray": Expressions._array,
    "custom_gradient": Expressions._custom_gradient,
    "differentiate": Expressions._misplaced,
    "gradients": Expressions._gradients,
    "input": Expressions._misplaced,
    "len": Expressions._len,
    "load": Expressions._load,
    "range": Expressions._misplaced,
    "section": Expressions._misplaced,
}

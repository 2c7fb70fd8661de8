"""The state of reading a `.gc` file, and what values are as tensors."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradc.errors import (
    GradcError,
    GradcErrors,
    Source,
    Span,
    TypeMismatch,
)
from gradc.frontends.gc_dims import solve_facts
from gradc.frontends.gc_text import span_of
from gradc.frontends.gc_values import (
    POISON,
    Definition,
    Frame,
    GradientList,
    Number,
    Value,
    kind_of,
    numbers_in,
    refuse_none,
    unwrapped,
)
from gradc.graph import Output, Place, Request, Tensor, ordered
from gradc.ops.basic import constant
from gradc.ops.functions import as_tensor, lookup_function
from gradc.types import (
    DTYPES,
    Dim,
    DType,
    Facts,
    Poly,
    bool_,
    complex128,
    float64,
    int64,
)

__all__ = [
    "Poisoned",
    "Session",
    "Stop",
    "carries",
    "constant_value",
    "cut",
    "nested",
    "quoted",
]

MAX_ERRORS = 100
"""After so many errors reading stops."""


class Poisoned(Exception):
    """Raised through a function of the user's that met POISON."""


class Stop(Exception):
    """Raised where reading on makes no sense; the error is told already."""


class Session(ABC):
    """The state of a reading: names, errors, places; values as tensors and as constants."""

    def __init__(
        self,
        source: Source,
        folder: Path | None,
        default_float: DType,
        static: Mapping[str, int],
    ) -> None:
        self.source = source
        self.folder = folder
        self.default_float = default_float
        self.static_sizes = static
        self.errors: list[GradcError] = []
        self.told: set[tuple[Any, ...]] = set()
        self.doc = ""
        self.inputs: list[Tensor] = []
        self.input_names: set[str] = set()
        self.outputs: list[Output] | None = None
        self.asked: Request | None = None
        self.more_names: dict[str, Tensor] = {}
        self.top = Frame(shift=0)
        self.frame = self.top
        self.facts: Facts = solve_facts(())
        self.symbols: dict[str, Value] = {}
        self.symbol_spans: dict[str, Span] = {}
        self.facts_told: set[int] = set()
        self.fact_spans: list[tuple[tuple[str, ...], Span]] = []
        self.statement: Span | None = None
        self.section = ""
        self.finished = False
        self.depth = 0
        self.loops = 0
        self.steps = 0
        self.too_long = False
        self.built = 0
        self.plans: list[Any] = []
        self.gradient_names: dict[Tensor, str] = {}
        self.calls: list[tuple[Definition, Span]] = []
        self.recursive: set[Definition] = set()
        self.loaded: dict[tuple[str, str | None], Any] = {}
        self.dtypes: dict[str, DType] = {
            **DTYPES,
            "float": default_float,
            "int": int64,
            "complex": complex128,
            "bool_": bool_,
            "double": float64,
        }

    # ------------------------------------------------ defined by the classes built on this

    @abstractmethod
    def value(self, node: ast.expr) -> Value:
        """What an expression means; POISON where it has an error."""

    @abstractmethod
    def dimension(self, name: str, node: ast.AST, *, new: bool = True) -> Dim:
        """What a name means where a dimension stands; `new` lets it be a symbol not seen yet."""

    @abstractmethod
    def declare_input(self, node: ast.Call, attrs: Mapping[str, Any]) -> Tensor:
        """An input in the compiler's spelling."""

    @abstractmethod
    def inline(
        self,
        node: ast.AST,
        definition: Definition,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """The body of a `def` at a call of it."""

    # ---------------------------------------------------------- places, errors, frames

    def span(self, node: ast.AST) -> Span:
        """Where a piece of syntax stands."""
        return span_of(self.source, node, self.frame.shift)

    def first_line(self, node: ast.AST) -> Span:
        """The first line of a statement of several."""
        span = self.span(node)
        end = span.column + len(span.text)
        return Span(span.source, span.line, span.column, span.line, end)

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

    def all_errors(self) -> GradcErrors:
        """The errors in the order of their places."""

        def key(error: GradcError) -> tuple[int, int]:
            place = error.location
            return (place.line, place.column) if place else (0, 0)

        return GradcErrors(sorted(self.errors, key=key))

    def function_named(self, name: str) -> Definition | None:
        """The `def` of this name that is in sight."""
        for frame in self.frame.chain():
            if name in frame.functions:
                return frame.functions[name]
        return None

    # ------------------------------------------------------------------------ values

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
        result = function.call(nested(values), dtype=dtype)
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
        """What `*values` opens; [POISON] where it has an error."""
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


# ------------------------------------------------------------------------------ helpers


def carries(value: Value) -> bool:
    """Whether arithmetic with a number must go through its tensor: a gradient may be asked for."""
    if not isinstance(value, Number):
        return False
    return value.tensor.dtype.is_inexact or not value.tensor.type.weak


def nested(value: Value) -> Any:
    """Nested lists with ints as ints and what carries a gradient as tensors."""
    if isinstance(value, Number):
        return value.tensor if carries(value) else value.value
    if isinstance(value, list | tuple):
        return [nested(v) for v in value]
    refuse_none(value)
    return value


def constant_value(x: Tensor) -> Any:
    """What a tensor is where that is known when the graph is compiled, else None.

    A number made of few constants; a small constant array of integers, as nested tuples.
    """
    if x.shape:
        if (
            x.op is not constant
            or x.dtype.is_inexact
            or x.attrs.value.array.size > 10_000
        ):
            return None
        return _tuples(x.attrs.value.array.tolist())
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


def _tuples(values: Any) -> Any:
    return tuple(_tuples(v) for v in values) if isinstance(values, list) else values


def quoted(text: str) -> str:
    """A string as the language writes it."""
    quoted = repr(text)
    return f'"{text}"' if quoted[1:-1] == text and '"' not in text else quoted


def cut(text: str, most: int = 60) -> str:
    """The text, or its beginning where it is long: names may have any length."""
    return text if len(text) <= most else text[: most - 3] + "..."

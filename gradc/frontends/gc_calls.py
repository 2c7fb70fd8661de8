"""Calls of the text language: binding, converting, building nodes, and errors with their operands."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from gradc.errors import (
    GradcError,
    ParseError,
    TypeMismatch,
)
from gradc.frontends.gc_hints import (
    signature_of,
    unknown_function,
)
from gradc.frontends.gc_session import (
    Poisoned,
    Session,
    Stop,
    constant_value,
    cut,
    nested,
)
from gradc.frontends.gc_values import (
    POISON,
    Definition,
    GradientList,
    Native,
    Number,
    Prefix,
    Value,
    kind_of,
    refuse_none,
    static_of,
    unwrapped,
)
from gradc.graph import Tensor, at
from gradc.ops.functions import Function, lookup_function
from gradc.ops.index import index
from gradc.types import DTYPES, DType, Poly, float64

__all__ = ["Calls"]

MAX_NODES = 500_000
"""Calls that build nodes; statements in loops and `def`s, and what `gradients` goes through, count
too. So many take seconds to read."""


class Calls(Session):
    """Functions of the language applied to values."""

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

    def spend(self, node: ast.AST, count: int = 1) -> None:
        """Count what is built. Stop where the graph grows past all bounds."""
        self.built += count
        if self.built > MAX_NODES:
            raise self.fatal(
                ParseError(
                    f"the graph has more than {MAX_NODES} nodes",
                    code="too-large",
                    hint="loops are unrolled, and a `def` is read at each of its calls: work on "
                    "whole arrays, whose size costs nothing here",
                ),
                node,
            )

    def building(
        self,
        node: ast.AST,
        name: str,
        call: Callable[[], Any],
        shown: Sequence[ast.expr] = (),
        values: Sequence[Value] = (),
    ) -> Any:
        """Run what builds nodes at the place of `node`; its errors get place and operands."""
        self.spend(node)
        with at(self.place(node)):
            try:
                return call()
            except (Poisoned, Stop):
                raise
            except GradcError as error:
                if error.location is None:
                    error.location = self.span(node)
                types = [
                    f": {self.tensor(v).type}"
                    for v in values
                    if isinstance(v, Tensor | Number)
                ]
                kept = [n for n in error.notes if not n.endswith(tuple(types))]
                error.notes = (*kept, *self.operand_notes(shown, values))
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
                    f"{name} can't take these arguments: {cut(str(error), 200)}",
                    code="bad-argument",
                    notes=self.operand_notes(shown, values),
                ) from error
            except MemoryError:
                raise ParseError(
                    f"{name}: the constant does not fit in memory", code="too-large"
                ) from None

    def operand_notes(
        self, shown: Sequence[ast.expr], values: Sequence[Value]
    ) -> list[str]:
        """`X: float64[N, D] (model.gc:3)` for the tensors among the operands."""
        notes: list[str] = []
        pairs = list(zip(shown, values, strict=False))
        for expression, value in pairs:
            if isinstance(expression, ast.List | ast.Tuple) and isinstance(
                value, list | tuple
            ):
                pairs.extend(zip(expression.elts, value, strict=False))
            t = value.tensor if isinstance(value, Number) else value
            if not isinstance(t, Tensor) or isinstance(expression, ast.Constant):
                continue
            origin = t.node.place.statement or t.node.place.span
            line = f" ({origin.place_of_line})" if origin else ""
            note = f"{cut(self.span(expression).text)}: {t.type}{line}"
            if note not in notes:
                notes.append(note)
        return notes[:8]

    def call_function(
        self,
        node: ast.AST,
        function: Function,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
        shown: Sequence[ast.expr] = (),
    ) -> Value:
        """Call a function of the language: bind by its signature, convert by its annotations."""
        words = _tensors_only(function.name)
        if words and not kwargs and len(args) == len(words):
            ready = [
                self.operand(v, where) for v, where in zip(args, words, strict=True)
            ]
            return self.building(
                node, function.name, lambda: function.call(*ready), shown, args
            )
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
        return self.building(
            node,
            function.name,
            lambda: function.call(*bound.args, **bound.kwargs),
            shown,
            args,
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
        floats = any(isinstance(static_of(v), float) for v in given)
        tensors = any(isinstance(v, Tensor) for v in given)
        makes = (
            dtype.default == float64
            or (function.name in ("full", "arange") and floats)
            or (function.name in ("linspace", "logspace", "geomspace") and not tensors)
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
            return nested(value)
        if "TensorLike" not in kind:
            return self._compile_time(parameter, kind, value, where)
        if value is None:
            if "None" in kind:
                return None
            raise TypeMismatch(f"{where}: expected a tensor, found None")
        if "Sequence" in kind or "list[" in kind or "tuple[" in kind:
            if isinstance(value, list | tuple):
                return [self.operand(v, where) for v in value]
            rows = value.shape[0] if isinstance(value, Tensor) and value.ndim else None
            if isinstance(rows, int) and rows <= 10_000:
                return [index(value, k) for k in range(rows)]
            raise TypeMismatch(
                f"{where}: expected a list of tensors, found {kind_of(value)}",
                hint=f"write {function.name}([...])",
            )
        return self.operand(value, where)

    def operand(self, value: Value, where: str) -> Any:
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
                    f"{where}: no dtype {cut(found)}",
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
            try:
                return self._plain(self.apply(node, value, list(tensors), {}, ()))
            except Poisoned:
                if not self.finished:
                    raise
                # the request's gradients are built after the reading
                raise self.all_errors() from None

        call.__name__ = value.name
        return call

    def _plain(self, value: Value) -> Any:
        if value is POISON:
            raise Poisoned
        if value is None:
            return None
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
            tensors = [self.operand(a, function.name) for a in args]
            return self.building(
                node, function.name, lambda: function.call(*tensors), shown, args
            )
        if isinstance(function, DType):
            return self._cast(node, function, args, kwargs, shown)
        raise TypeMismatch(
            f"{kind_of(function)} is not a function", code="not-a-function"
        )

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

    def arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        """The values of a call's arguments. Poisoned where one of them has an error."""
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


@cache
def _tensors_only(name: str) -> tuple[str, ...]:
    """The parameters, in the words of a message, of a function of nothing but tensors; else ()."""
    function = lookup_function(name)
    assert function is not None
    parameters = function.signature.parameters.values()
    plain = all(
        p.kind is p.POSITIONAL_OR_KEYWORD
        and p.default is p.empty
        and str(p.annotation) == "TensorLike"
        for p in parameters
    )
    return tuple(f"{name}: {p.name}" for p in parameters) if plain else ()

"""Declarations of the text language: types, dimensions, facts, inputs and their defaults."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from gradc.errors import (
    GradcError,
    ParseError,
    ShapeError,
    TypeMismatch,
)
from gradc.frontends.gc_dims import (
    arithmetic,
    check_size,
    no_dimension,
    solve_facts,
    unbound_symbols,
)
from gradc.frontends.gc_expr import Expressions
from gradc.frontends.gc_hints import (
    did_you_mean,
)
from gradc.frontends.gc_session import Poisoned
from gradc.frontends.gc_text import assertions, assigned
from gradc.frontends.gc_values import (
    POISON,
    GradientList,
    Number,
    Value,
    kind_of,
    numbers_in,
    refuse_none,
    static_of,
)
from gradc.graph import Data, Tensor, at, label
from gradc.ops.basic import constant, input_
from gradc.ops.functions import convert
from gradc.types import (
    Dim,
    DType,
    Poly,
    Shape,
    TensorType,
    dim_text,
    shape_text,
    substitute,
    symbol,
    symbols_of,
)

__all__ = ["Declarations"]

MAX_RANK = 32


class Declarations(Expressions):
    """Declared names: inputs, checked values, facts about their dimensions."""

    # --------------------------------------------------------------- facts, dimensions

    def tell_facts(self, starts: Sequence[int]) -> None:
        """Read the `assert`s about dimensions before all else, so that types are made with them.

        A size that is given is one more fact, before those of the text.
        """
        asserts = [
            (statement, piece.shift)
            for piece in assertions(self.source, starts)
            for statement in piece.body
            if isinstance(statement, ast.Assert)
        ]
        bound = assigned(self.source, starts) if asserts else set()
        equations: list[Dim] = [symbol(s) - n for s, n in self.static_sizes.items()]
        self.facts = solve_facts(equations)
        for statement, shift in asserts:
            equation = _equation(statement, bound)
            if equation is None:
                continue
            self.frame.shift = shift
            self.facts_told.add(statement.lineno + shift)
            self.fact_spans.append((symbols_of(equation), self.span(statement.test)))
            try:
                self.facts = solve_facts([*equations, equation])
                equations.append(equation)
            except GradcError as error:
                self.report(error, statement)
        self.frame.shift = 0

    def check_symbols(self) -> None:
        """Every symbol must follow from the shapes of the inputs; facts are about such symbols."""
        seen = {s for t in self.inputs for d in t.shape for s in _symbols(d)}
        uses = Counter(name for names, _ in self.fact_spans for name in names)
        for names, span in self.fact_spans:
            for name in names:
                value = self.facts.apply(symbol(name))
                determined = all(s in seen for s in _symbols(value))
                # a name may stand between two facts alone: M of `K == M` and `M == 2 * N`
                if determined and (name in self.symbols or uses[name] > 1):
                    continue
                if determined or value == symbol(name):
                    self.report(
                        ParseError(
                            f"no input has the dimension {name}",
                            code="unknown-name",
                            location=span,
                            hint=did_you_mean(name, self.symbols),
                        )
                    )
        loose = unbound_symbols([t.shape for t in self.inputs])
        for name, span in self.symbol_spans.items():
            value = self.symbols[name]
            if any(s not in seen or s in loose for s in _symbols(value)):
                self.report(
                    ParseError(
                        f"the dimension {name} does not follow from the inputs' shapes",
                        code="unbound-dimension",
                        location=span,
                        hint=f"an input must have {name} alone, or a number times {name}, "
                        "as a dimension",
                    )
                )

    def dimension(self, name: str, node: ast.AST, *, new: bool = True) -> Dim:
        """What a name means where a dimension stands; `new` lets it be a symbol not seen yet."""
        if name in self.symbols:
            value: Dim = self.symbols[name]
            return value
        for frame in self.frame.chain():
            found = frame.names.get(name)
            if found is None:
                continue
            if found is POISON:
                raise Poisoned
            number = static_of(found)
            if isinstance(number, int | Poly) and not isinstance(number, bool):
                return number
            raise ParseError(
                f"{name} is {kind_of(found)}, not a dimension",
                code="bad-dimension",
                hint="a dimension gets its size from an input's shape: choose a name for it alone",
            )
        if not new:
            raise ParseError(
                f"{name} is no dimension of an input",
                code="unknown-name",
                hint=f"dimensions are {', '.join(self.symbols)}"
                if self.symbols
                else "",
            )
        self.symbols[name] = self.facts.apply(symbol(name))
        self.symbol_spans[name] = self.span(node)
        return self.dimension(name, node)

    def axis_length(self, node: ast.expr, new: bool) -> Dim:
        """One dimension of a type."""
        try:
            return check_size(self.dimension_of(node, new))
        except GradcError as error:
            raise error.at(self.span(node))

    def dimension_of(self, node: ast.expr, new: bool) -> Dim:
        """A dimension as it is written."""
        if isinstance(node, ast.Name):
            return self.dimension(node.id, node, new=new)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, int) and not isinstance(node.value, bool):
                return node.value
            found = "..." if node.value is ... else repr(node.value)[:60]
            raise no_dimension(found).at(self.span(node))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.dimension_of(node.operand, new)
        if isinstance(node, ast.BinOp):
            sign = _DIM_SIGNS.get(type(node.op))
            if sign is not None:
                left = self.dimension_of(node.left, new)
                return arithmetic(sign, left, self.dimension_of(node.right, new))
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            value = self.value(node)
            if value is POISON:
                raise Poisoned
            number = static_of(value)
            if isinstance(number, int | Poly) and not isinstance(number, bool):
                return number
            raise no_dimension(kind_of(value)).at(self.span(node))
        raise no_dimension(self.span(node).text[:60]).at(self.span(node))

    def declared_type(self, node: ast.expr, *, new: bool) -> TensorType:
        """The type that an annotation says; ParseError where it says none."""
        shape: tuple[Dim, ...] = ()
        name = node
        if isinstance(node, ast.Subscript):
            name = node.value
            parts = (
                node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            )
            if len(parts) > MAX_RANK:
                raise ParseError(
                    f"a tensor has at most {MAX_RANK} axes", code="bad-dimension"
                )
            shape = tuple(self.axis_length(part, new) for part in parts)
        if isinstance(name, ast.Attribute) and self.prefix_of(name.value) in (
            "np",
            "numpy",
        ):
            word = name.attr
        elif isinstance(name, ast.Name):
            word = name.id
        else:
            word = ""
        if word not in self.dtypes:
            raise ParseError(
                f"expected a type such as float[N, 3], found {self.span(node).text[:60]}",
                code="bad-type",
                location=self.span(name),
                hint=_bracketed(name, self.dtypes)
                or did_you_mean(word, self.dtypes)
                or "dtypes are " + ", ".join(self.dtypes),
            )
        return TensorType(self.dtypes[word], shape)

    def check_fact(self, node: ast.Assert) -> None:
        """An `assert`: facts about dimensions are told already, others are decided here."""
        if node.lineno + self.frame.shift in self.facts_told and self.frame is self.top:
            return
        value = self.value(node.test)
        if value is POISON:
            return
        if isinstance(value, Tensor | Poly | Number) and not isinstance(
            static_of(value), bool
        ):
            raise ParseError(
                "an assertion states that two dimensions are equal, in names and ints",
                code="bad-assert",
                location=self.span(node.test),
                hint="assert M == 2 * N",
            )
        if not self.truth(value, node.test):
            raise ShapeError(
                "the assertion does not hold",
                code="assertion-fails",
                location=self.span(node.test),
            )

    # -------------------------------------------------------------------------- inputs

    def is_call_of(self, node: ast.expr, name: str) -> bool:
        """Whether it is `name(...)`, the language's own and no `def` of that name."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == name
            and self.function_named(name) is None
        )

    def add_input(
        self, node: ast.AST, name: str, declared: TensorType, default: Any
    ) -> Tensor:
        """A new input of the graph."""
        if self.frame is not self.top or self.loops:
            raise ParseError(
                "an input is declared outside of `def` and loops",
                code="misplaced",
                hint="a parameter of a `def` has no declaration",
            )
        if name in self.symbols and isinstance(node, ast.Name):
            raise ParseError(
                f"{name} is a dimension of the inputs already",
                code="name-taken",
                location=self.span(node),
            )
        bound = isinstance(node, ast.Name) and name in self.frame.names
        if name in self.input_names or (bound and self.frame.names[name] is not POISON):
            raise ParseError(
                f"{name} is declared or bound already",
                code="name-taken",
                location=self.span(node),
                hint="an input comes first; a new value of a name needs no declaration",
            )
        with at(self.place(node)):
            tensor = label(input_(name=name, type=declared, default=default), name)
        self.inputs.append(tensor)
        self.input_names.add(name)
        if isinstance(node, ast.Name):
            self.frame.names[name] = tensor
        return tensor

    def declare_input(self, node: ast.Call, attrs: Mapping[str, Any]) -> Tensor:
        """`gc.input(name=..., type=..., default=...)`: inputs whose name is no identifier."""
        name, declared = attrs.get("name"), attrs.get("type")
        default = attrs.get("default")
        if (
            not isinstance(name, str)
            or not isinstance(declared, TensorType)
            or not isinstance(default, Data | int | float | complex | None)
        ):
            raise ParseError(
                "gc.input takes name, type and default", code="bad-attribute"
            )
        return self.add_input(node, name, declared, default)

    def default(
        self, name: str, node: ast.Call, declared: TensorType, is_default_float: bool
    ) -> Any:
        """The default of an input: a number, or `Data`."""
        if len(node.args) != 1 or node.keywords:
            raise ParseError(
                "input takes one value, the default",
                code="bad-argument",
                location=self.span(node),
                hint="write x: float = input(0.1)",
            )
        value = self.value(node.args[0])
        if value is POISON:
            raise Poisoned
        number = static_of(value)
        where = node.args[0]
        if isinstance(number, bool | int | float | complex):
            if declared.shape:
                raise ShapeError(
                    f"{name} is declared {declared}, its default is one number",
                    location=self.span(where),
                    hint="declare it without dimensions, or give a list of numbers",
                )
            self.check_kind(name, _kind(number), number, declared.dtype, where)
            return number
        if isinstance(value, list | tuple):
            value = self.literal(name, value, declared, where)
        if not isinstance(value, Tensor) or value.op is not constant:
            raise ParseError(
                f"the default of {name} must be a number, a list of numbers or load(...), "
                f"found {kind_of(value)}",
                code="bad-default",
                location=self.span(where),
            )
        data: Data = value.attrs.value
        wrong = misfit(declared.shape, data.array.shape)
        if wrong:
            raise ShapeError(
                f"{name} is declared {declared}, its default has shape {data.array.shape}: {wrong}",
                location=self.span(where),
            )
        if data.array.dtype.name == declared.dtype.name:
            return data
        told = is_default_float and data.array.dtype.kind == "f"
        if not told and not np.can_cast(data.array.dtype, declared.dtype.numpy, "safe"):
            raise TypeMismatch(
                f"{name} is declared {declared}, its default is {data.array.dtype}",
                location=self.span(where),
                hint=f"declare it {data.array.dtype}",
            )
        return Data(data.array.astype(declared.dtype.name))

    def check_kind(
        self, name: str, kind: str, number: Any, dtype: DType, node: ast.AST
    ) -> None:
        """TypeMismatch where a number does not go into a dtype as it is."""
        order = "biufc"
        fits = order.index(kind) <= order.index(dtype.kind) or (
            kind == "i" and dtype.kind == "u"
        )
        if kind == "f" and dtype.is_integer and float(number).is_integer():
            fits = True
        if kind == "i" and dtype.is_integer and isinstance(number, int):
            info = np.iinfo(dtype.name)
            fits = info.min <= number <= info.max
        if not fits:
            raise TypeMismatch(
                f"{name} is declared {dtype}, its value is the number {number!r}",
                location=self.span(node),
            )

    def literal(
        self, name: str, values: Sequence[Value], declared: TensorType, node: ast.AST
    ) -> Tensor:
        """A list of numbers in the declared dtype."""
        if not numbers_in(values):
            return self.array(values, None)
        found = self.array(values, None)
        if found.op is constant:
            kind = found.dtype.kind
            if "biufc".index(kind) > "biufc".index(declared.dtype.kind) and not (
                kind == "i" and declared.dtype.kind == "u"
            ):
                raise TypeMismatch(
                    f"{name} is declared {declared}, its value is {found.type}",
                    location=self.span(node),
                )
        return self.array(values, declared.dtype)

    # ----------------------------------------------------------------- declared values

    def as_declared(
        self, name: str, value: Value, declared: TensorType, node: ast.AnnAssign
    ) -> Value:
        """The value, which must be of the declared type; numbers and lists take its dtype."""
        refuse_none(value)
        if value is POISON:
            # what follows is read with a stand-in of the type, to find its own errors
            return input_(name=name, type=declared, default=None)
        assert node.value is not None
        where = node.value
        with at(self.place(where)):
            if isinstance(value, list | tuple) and not isinstance(value, GradientList):
                value = self.literal(name, value, declared, where)
            number = static_of(value)
            if isinstance(number, int | float | complex | Poly):
                return self.declared_number(name, value, number, declared, where)
            if not isinstance(value, Tensor):
                raise TypeMismatch(
                    f"{name} is declared {declared}, its value is {kind_of(value)}",
                    location=self.span(where),
                )
            if value.type.weak and "biufc".index(value.dtype.kind) <= "biufc".index(
                declared.dtype.kind
            ):
                value = convert(value, declared.dtype)
            if (
                self.is_default_float(node)
                and value.op is constant
                and value.dtype.is_float
                and value.dtype != declared.dtype
            ):
                array = value.attrs.value.array.astype(declared.dtype.name)
                value = constant(value=Data(array), weak=False)
        same = len(value.shape) == len(declared.shape) and all(
            self.facts.equal(a, b)
            for a, b in zip(value.shape, declared.shape, strict=True)
        )
        if not same or value.dtype != declared.dtype:
            error = ShapeError if not same else TypeMismatch
            raise error(
                f"{name} is declared {declared}, its value is {value.type}",
                location=self.span(where),
                hint="" if not same else f"write .astype({declared.dtype})",
            )
        return value

    def is_default_float(self, node: ast.AnnAssign) -> bool:
        """Whether the declaration says `float`, which means what the compiler is told."""
        name = node.annotation
        if isinstance(name, ast.Subscript):
            name = name.value
        return isinstance(name, ast.Name) and name.id == "float"

    def declared_number(
        self, name: str, value: Value, number: Any, declared: TensorType, node: ast.expr
    ) -> Value:
        """A number as a constant of the declared dtype; a named one stays connected."""
        if declared.shape:
            raise ShapeError(
                f"{name} is declared {declared}, its value is one number",
                location=self.span(node),
                hint=f"full({shape_text(declared.shape)}, {number})",
            )
        kind = "i" if isinstance(number, Poly) else _kind(number)
        self.check_kind(name, kind, number, declared.dtype, node)
        if isinstance(value, Number):
            if not value.tensor.type.weak and value.tensor.dtype != declared.dtype:
                raise TypeMismatch(
                    f"{name} is declared {declared}, its value is {value.tensor.type}",
                    location=self.span(node),
                    hint=f"write .astype({declared.dtype})",
                )
            return Number(convert(value.tensor, declared.dtype), number)
        if declared.dtype.is_integer and isinstance(number, float):
            number = int(number)
        return Number(convert(number, declared.dtype), number)


_DIM_SIGNS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}


def _symbols(d: Any) -> tuple[str, ...]:
    return symbols_of(d) if isinstance(d, Poly) else ()


def _bracketed(node: ast.expr, dtypes: Container[str]) -> str:
    """`write float[N]` for `float(N)`; "" where that is not what was meant."""
    if not isinstance(node, ast.Call) or node.keywords:
        return ""
    word = ast.unparse(node.func)
    if word.rpartition(".")[2] not in dtypes:
        return ""
    return f"write {word}[{', '.join(map(ast.unparse, node.args))}]".replace("[]", "")


def _kind(number: Any) -> str:
    if isinstance(number, bool):
        return "b"
    return "i" if isinstance(number, int) else "f" if isinstance(number, float) else "c"


def _equation(node: ast.Assert, bound: set[str]) -> Dim | None:
    """`left - right` of `assert left == right` in symbols and ints, else None."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    if not isinstance(test.ops[0], ast.Eq):
        return None
    try:
        left = _plain_dim(test.left, bound, 0)
        right = _plain_dim(test.comparators[0], bound, 0)
        return None if left is None or right is None else arithmetic("-", left, right)
    except GradcError:
        return None


def _plain_dim(node: ast.expr, bound: set[str], depth: int) -> Dim | None:
    if depth > 100:
        return None
    if isinstance(node, ast.Name):
        return None if node.id in bound else symbol(node.id)
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and type(node.op) in _DIM_SIGNS:
        left = _plain_dim(node.left, bound, depth + 1)
        right = _plain_dim(node.right, bound, depth + 1)
        if left is None or right is None:
            return None
        return arithmetic(_DIM_SIGNS[type(node.op)], left, right)
    return None


def misfit(shape: Shape, sizes: Sequence[int]) -> str:
    """What is wrong with numbers as the sizes of a shape, or ""."""
    if len(shape) != len(sizes):
        return f"its rank is {len(sizes)}, not {len(shape)}"
    known: dict[str, Dim] = {}
    for d, n in zip(shape, sizes, strict=True):
        if isinstance(d, Poly) and d == symbol(str(d)):
            known.setdefault(str(d), n)
    for k, (d, n) in enumerate(zip(shape, sizes, strict=True)):
        wanted = substitute(d, known)
        if isinstance(wanted, int) and wanted != n:
            return f"axis {k} is {n}, not {dim_text(wanted)}"
    return ""

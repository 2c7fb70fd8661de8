"""The text front end: a `.gc` file to a `Graph`. SPEC.md section 1 is the language.

`parse` reads the statements in order. Nothing is executed: the syntax tree is Python's, its
meaning is here (statements) and in `gc_expr` (expressions).
"""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from gradc.autodiff import reverse
from gradc.errors import (
    GradcError,
    GradcErrors,
    InternalError,
    OptionError,
    ParseError,
    ShapeError,
    Source,
    Span,
    TypeMismatch,
    UnsupportedError,
)
from gradc.frontends.gc_dims import (
    arithmetic,
    check_size,
    no_dimension,
    solve_facts,
    unbound_symbols,
)
from gradc.frontends.gc_expr import Expressions, Poisoned, Stop
from gradc.frontends.gc_hints import CONSTRUCTS, did_you_mean, is_function, outside
from gradc.frontends.gc_text import Broken, pieces, source_of
from gradc.frontends.gc_values import (
    POISON,
    Definition,
    Frame,
    GradientList,
    LoopOnly,
    NoGradient,
    Number,
    Value,
    kind_of,
    numbers_in,
    refuse_none,
    static_of,
)
from gradc.graph import Data, Graph, Output, Request, Tensor, at, label
from gradc.ops.basic import constant, input_
from gradc.ops.functions import as_tensor, convert
from gradc.ops.index import index
from gradc.types import (
    DTYPES,
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

__all__ = ["parse"]

MAX_STEPS = 1_000_000
"""Steps of unrolled loops, taken together."""
MAX_RANK = 32


def parse(
    text: str,
    filename: str = "<string>",
    *,
    folder: Path | None = None,
    default_float: str = "float64",
) -> Graph:
    """The graph that a `.gc` text defines.

    `load(...)` reads from `folder`, or not at all; `float` means `default_float`. Raises
    GradcErrors with all the errors of the text in the order of their places.
    """
    if default_float not in ("float16", "float32", "float64"):
        raise OptionError(
            f"default_float: expected float64, float32 or float16, found {default_float!r}"
        )
    try:
        source = source_of(text, filename)
    except GradcError as error:
        raise GradcErrors([error]) from None
    return Reader(source, folder, DTYPES[default_float]).read()


class Reader(Expressions):
    """Reads the statements of one file."""

    def __init__(
        self, source: Source, folder: Path | None, default_float: DType
    ) -> None:
        super().__init__(source, folder, default_float)
        self.inputs: list[Tensor] = []
        self.outputs: list[Output] | None = None
        self.asked: Request | None = None
        self.doc = ""
        self.symbol_spans: dict[str, Span] = {}
        self.facts_told: set[int] = set()
        self.more_names: dict[str, Tensor] = {}
        self.steps = 0
        self.loops = 0

    def read(self) -> Graph:
        """All statements, then the graph; GradcErrors where there was an error."""
        try:
            self.tell_facts()
            first = True
            for piece in pieces(self.source):
                if isinstance(piece, Broken):
                    self.report(piece.error)
                    self.poison(piece.names)
                    continue
                self.top.shift = piece.shift
                for statement in piece.body:
                    if first and _is_text(statement):
                        self.doc = _text_of(statement)
                    else:
                        self.statement_at_top(statement)
                    first = False
            return self.finished()
        except Stop:
            raise self.all_errors() from None

    def all_errors(self) -> GradcErrors:
        """The errors in the order of their places."""

        def key(error: GradcError) -> tuple[int, int]:
            place = error.location
            return (place.line, place.column) if place else (0, 0)

        return GradcErrors(sorted(self.errors, key=key))

    def finished(self) -> Graph:
        """The graph, once all is read without error."""
        if not self.errors:
            self.check_symbols()
        if self.outputs is None and not self.errors:
            if self.asked is None:
                self.report(
                    ParseError(
                        "the graph returns nothing",
                        code="no-output",
                        hint="end it with `return loss`",
                    )
                )
            else:
                self.outputs = self.named_outputs(
                    [(y.name or None, y) for y in self.asked.ys]
                )
        if self.errors:
            raise self.all_errors()
        assert self.outputs is not None
        names: dict[str, Tensor] = {}
        for t in self.inputs:
            names[t.name] = t
        for name, value in self.top.names.items():
            if isinstance(value, Tensor):
                names[name] = value
            elif isinstance(value, Number):
                names[name] = value.tensor
        names.update(self.more_names)
        stem = PurePath(self.source.name).stem
        return Graph(
            name=stem if self.source.name != "<string>" else "graph",
            inputs=tuple(self.inputs),
            outputs=tuple(self.outputs),
            request=self.asked,
            names=names,
            facts=self.facts,
            doc=self.doc,
            source=self.source,
            plans=tuple(self.plans),
        )

    # ------------------------------------------------------------------------- facts

    def tell_facts(self) -> None:
        """Read the `assert`s about dimensions before all else, so that types are made with them."""
        bound: set[str] = set()
        asserts: list[tuple[ast.Assert, int]] = []
        for piece in pieces(self.source):
            if isinstance(piece, Broken):
                continue
            for statement in piece.body:
                if isinstance(statement, ast.Assert):
                    asserts.append((statement, piece.shift))
                elif isinstance(statement, ast.Assign | ast.AnnAssign):
                    bound |= bound_names([statement])
        equations: list[Dim] = []
        for statement, shift in asserts:
            equation = _equation(statement, bound)
            if equation is None:
                continue
            self.facts_told.add(statement.lineno + shift)
            try:
                self.facts = solve_facts([*equations, equation])
                equations.append(equation)
            except GradcError as error:
                self.frame.shift = shift
                self.report(error, statement)
        self.frame.shift = 0

    def check_symbols(self) -> None:
        """Every symbol must follow from the shapes of the inputs."""
        loose = unbound_symbols([t.shape for t in self.inputs])
        seen = {s for t in self.inputs for d in t.shape for s in _symbols(d)}
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

    # ------------------------------------------------------------------------- types

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
            shape = tuple(check_size(self.dimension_of(part, new)) for part in parts)
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
                hint=did_you_mean(word, self.dtypes)
                or "dtypes are " + ", ".join(DTYPES),
            )
        return TensorType(self.dtypes[word], shape)

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

    # -------------------------------------------------------------------- statements

    def statement_at_top(self, node: ast.stmt) -> None:
        """One statement of the file."""
        if self.outputs is not None:
            raise self.fatal(
                ParseError("a statement behind `return`", code="misplaced"), node
            )
        if isinstance(node, ast.Return):
            self.statement = self.span(node)
            self.guarded(node, lambda: self.returned(node))
            if self.outputs is None:
                self.outputs = []
        else:
            self.run(node)

    def guarded(self, node: ast.stmt, action: Any) -> None:
        """Run the meaning of a statement; where it fails, its names are POISON."""
        try:
            action()
        except Poisoned:
            self.poison(bound_names([node]))
        except InternalError:
            raise
        except GradcError as error:
            self.report(error, node)
            self.poison(bound_names([node]))
        except RecursionError:
            self.report(
                ParseError(
                    "the statement is nested too deeply",
                    code="too-deep",
                    hint="give parts of it names of their own",
                ),
                node,
            )
            self.poison(bound_names([node]))

    def poison(self, names: Iterable[str]) -> None:
        """Make names silent: their values were lost to an error that is told already."""
        for name in sorted(names):
            self.frame.names[name] = POISON
            self.told.add(("unknown-name", name))

    def run(self, node: ast.stmt) -> None:
        """One statement of the file or of a `def`, but no `return`."""
        if not isinstance(node, ast.For | ast.With | ast.FunctionDef):
            self.statement = self.span(node)
        self.guarded(node, lambda: self.dispatch(node))

    def dispatch(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.AugAssign):
            self.augment(node)
        elif isinstance(node, ast.AnnAssign):
            self.declare(node)
        elif isinstance(node, ast.For):
            self.loop(node)
        elif isinstance(node, ast.With):
            self.in_section(node)
        elif isinstance(node, ast.FunctionDef):
            self.define(node)
        elif isinstance(node, ast.Assert):
            self.check_fact(node)
        elif isinstance(node, ast.Expr):
            self.expression(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imported(node)
        elif isinstance(node, ast.Return):
            raise ParseError(
                "`return` stands last, once, and not in a loop or section",
                code="misplaced",
                hint="bind the value to a name, and return it at the end",
            )
        elif not isinstance(node, ast.Pass):
            raise self.no_statement(node)

    def no_statement(self, node: ast.stmt) -> GradcError:
        """The error for a statement that the language does not have."""
        if isinstance(node, ast.If):
            value = self.value(node.test)
            error = outside(node)
            if isinstance(value, Tensor):
                error.message = (
                    "`if` on a tensor is not part of the graph language: "
                    f"the condition is {kind_of(value)}"
                )
            if value is not POISON and not isinstance(value, Tensor):
                error.hint = "`a if p else b` chooses by what is known when the graph is compiled"
        elif isinstance(node, ast.While):
            error = UnsupportedError(
                "`while` (while_loop) is not in this version yet",
                hint="a `for` loop over a range of known length is unrolled",
            )  # type: ignore[assignment]
        else:
            error = outside(node)
        words = self.span(node)
        first = Span(
            words.source,
            words.line,
            words.column,
            words.line,
            len(words.text) + words.column,
        )
        error.location = first
        return error

    # -------------------------------------------------------------------- assignments

    def assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def bind(self, target: ast.expr, value: Value) -> None:
        """`target = value`."""
        if isinstance(target, ast.Name):
            self.bind_name(target.id, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, value)
        elif isinstance(target, ast.Subscript):
            self.store(target, "index_update", value)
        elif isinstance(target, ast.Starred):
            raise ParseError(
                "a star stands in a tuple of names", location=self.span(target)
            )
        else:
            raise ParseError(
                "an attribute of a tensor can't be assigned",
                code="not-in-language",
                location=self.span(target),
                hint="give the new value a name",
            )

    def bind_name(self, name: str, value: Value, node: ast.AST) -> None:
        """Bind a name in the frame that is read, and label the tensor with it."""
        if self.frame is self.top and name in self.symbols:
            raise ParseError(
                f"{name} is a dimension of the inputs and can't be assigned",
                code="name-taken",
                location=self.span(node),
                hint=f"assert {name} == 3 states its size; or choose another name",
            )
        if isinstance(value, str):
            raise ParseError(
                "strings stand only where a function takes one", code="not-in-language"
            )
        if isinstance(value, bool | int | float | complex | Poly):
            try:
                with at(self.place(node)):
                    value = Number(as_tensor(value), value)
            except TypeMismatch:
                pass  # an int beyond int64 is a number without a tensor
        if isinstance(value, Tensor):
            self.labelled(value, name)
        elif isinstance(value, Number):
            self.labelled(value.tensor, name)
        self.frame.names[name] = value

    def labelled(self, tensor: Tensor, name: str) -> None:
        """Name a tensor; `_1`, `_2` are the writer's names for what has none."""
        if not (name[0] == "_" and name[1:].isdecimal()):
            label(tensor, name)

    def unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        """`a, b = value`, `a, *b = value`."""
        parts = target.elts
        if value is POISON:
            for part in parts:
                self.bind(part.value if isinstance(part, ast.Starred) else part, POISON)
            return
        values = self.elements(value, target)
        stars = [k for k, part in enumerate(parts) if isinstance(part, ast.Starred)]
        spare = len(values) - len(parts)
        if (spare != 0 and not stars) or spare < -1:
            raise ShapeError(
                f"{len(parts)} names for {len(values)} values",
                code="unpack-count",
                location=self.span(target),
            )
        for k, part in enumerate(parts):
            if not isinstance(part, ast.Starred):
                self.bind(part, values[k if not stars or k < stars[0] else k + spare])
            else:
                self.bind(part.value, list(values[k : k + spare + 1]))

    def elements(self, value: Value, target: ast.Tuple | ast.List) -> Sequence[Value]:
        """What unpacking takes apart: a list, a tuple, or the rows of a tensor."""
        refuse_none(value)
        if isinstance(value, list | tuple):
            return value
        count = len(target.elts)
        if isinstance(value, Tensor) and value.ndim:
            rows = value.shape[0]
            if not isinstance(rows, int) or rows > 1000:
                raise ShapeError(
                    f"{count} names for the {dim_text(rows)} rows of a tensor {value.type}",
                    code="unpack-count",
                    hint="x[0], x[1] take rows one by one",
                )
            with at(self.place(target)):
                return [index(value, k) for k in range(rows)]
        raise TypeMismatch(
            f"{count} names for {kind_of(value)}",
            code="unpack-count",
            hint="lists, tuples and the rows of a tensor are taken apart",
        )

    def store(self, target: ast.Subscript, function: str, value: Value) -> None:
        """`x[key] = value` by `index_update`, `x[key] += value` by `index_add`: x is a new tensor."""
        key = self.key(target.slice)
        old = self.value(target.value)
        if POISON in (key, old, value):
            raise Poisoned
        refuse_none(value)
        if not isinstance(old, Tensor):
            raise TypeMismatch(
                f"{kind_of(old)} has no elements to assign to",
                hint="array([...]) makes a tensor of it"
                if isinstance(old, list | tuple)
                else "",
            )
        new = self.build(target, function, (old, key, value), {}, (target.value,))
        if isinstance(target.value, ast.Name):
            self.bind_name(target.value.id, new, target.value)
        elif isinstance(target.value, ast.Subscript):
            self.store(target.value, "index_update", new)
        else:
            raise ParseError(
                "only elements of a name can be assigned",
                code="not-in-language",
                location=self.span(target),
                hint="give the tensor a name first",
            )

    def augment(self, node: ast.AugAssign) -> None:
        """`x += e`, `x[key] += e`."""
        target = node.target
        value = self.value(node.value)
        if isinstance(target, ast.Name):
            old = self.value(target)
            new = self.binary(node, node.op, old, value, (target, node.value))
            self.bind_name(target.id, new, target)
        elif isinstance(target, ast.Subscript):
            if value is POISON:
                raise Poisoned
            self.check_operand("+=", value)
            if isinstance(node.op, ast.Add):
                self.store(target, "index_add", value)
            elif isinstance(node.op, ast.Sub):
                minus = self.build(node, "negative", (value,), {}, (node.value,))
                self.store(target, "index_add", minus)
            else:
                old = self.value(target)
                new = self.binary(node, node.op, old, value, (target, node.value))
                self.store(target, "index_update", new)
        else:
            raise ParseError(
                "an attribute of a tensor can't be assigned",
                code="not-in-language",
                location=self.span(target),
            )

    # ------------------------------------------------------------------- declarations

    def declare(self, node: ast.AnnAssign) -> None:
        """`x: float[N]`, `x: float = input(0.1)`, `x: float[N] = value`."""
        target = node.target
        if not isinstance(target, ast.Name):
            raise ParseError(
                "only a name can be declared",
                code="not-in-language",
                location=self.span(target),
            )
        given = node.value
        is_input = given is None or self.is_call_of(given, "input")
        declared = self.declared_type(node.annotation, new=is_input)
        if not is_input:
            assert given is not None
            value = self.as_declared(target.id, self.value(given), declared, node)
            self.bind_name(target.id, value, target)
            return
        default = None
        if isinstance(given, ast.Call):
            default = self.default(target.id, given, declared)
        self.add_input(target, target.id, declared, default)

    def is_call_of(self, node: ast.expr, name: str) -> bool:
        """Whether it is `name(...)`, the language's own and no `def` of that name."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == name
            and self._function_named(name) is None
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
        if name in self.symbols:
            raise ParseError(
                f"{name} is a dimension of the inputs already",
                code="name-taken",
                location=self.span(node),
            )
        if any(t.name == name for t in self.inputs) or (
            self.frame.names.get(name, POISON) is not POISON
        ):
            raise ParseError(
                f"{name} is declared or bound already",
                code="name-taken",
                location=self.span(node),
                hint="an input comes first; a new value of a name needs no declaration",
            )
        with at(self.place(node)):
            tensor = label(input_(name=name, type=declared, default=default), name)
        self.inputs.append(tensor)
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

    def default(self, name: str, node: ast.Call, declared: TensorType) -> Any:
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
        if not np.can_cast(data.array.dtype, declared.dtype.numpy, "safe"):
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

    # ------------------------------------------------------------ loops, sections, defs

    def loop(self, node: ast.For) -> None:
        """`for t in range(...)`, unrolled."""
        self.statement = self.span(node)
        if node.orelse:
            raise ParseError(
                "`else` of a loop is not part of the graph language",
                code="not-in-language",
                location=self.span(node.orelse[0]),
            )
        if not isinstance(node.target, ast.Name) or not self.is_call_of(
            node.iter, "range"
        ):
            raise ParseError(
                "a `for` loop goes over range(...), with one name",
                code="not-in-language",
                location=self.span(node.iter),
                hint="for i in range(n): and take the elements by x[i]",
            )
        assert isinstance(node.iter, ast.Call)
        steps = self.range_of(node.iter)
        name = node.target.id
        if self.frame is self.top and name in self.symbols:
            raise ParseError(
                f"{name} is a dimension of the inputs and can't be assigned",
                code="name-taken",
                location=self.span(node.target),
            )
        self.steps += len(steps)
        if self.steps > MAX_STEPS:
            raise ParseError(
                f"the loops have more than {MAX_STEPS} steps, all of which are unrolled",
                code="too-large",
                location=self.span(node.iter),
                hint="work on whole arrays: NumPy's functions loop faster",
            )
        names = self.frame.names
        bound = bound_names([node])
        fresh = [n for n in sorted(bound) if isinstance(names.get(n, _LOST), LoopOnly)]
        self.loops += 1
        try:
            for step in steps:
                names[name] = step
                for statement in node.body:
                    self.run(statement)
        finally:
            self.loops -= 1
            place = self.span(node).place_of_line
            for n in fresh:
                names[n] = LoopOnly(place)

    def range_of(self, node: ast.Call) -> range:
        """The steps of a loop. UnsupportedError where they are symbolic."""
        args, kwargs = self._arguments(node)
        if not 1 <= len(args) <= 3 or kwargs:
            raise ParseError(
                "range takes one to three numbers",
                code="bad-argument",
                location=self.span(node),
            )
        bounds = [self.static(a) for a in args]
        for bound in bounds:
            refuse_none(bound)
            if isinstance(bound, Poly):
                raise UnsupportedError(
                    f"a loop over a symbolic range, here {dim_text(bound)}, is not in this "
                    "version yet",
                    location=self.span(node),
                    hint="declare the size as a number, or work on whole arrays",
                )
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise TypeMismatch(
                    f"range takes ints known when the graph is compiled, found {kind_of(bound)}",
                    location=self.span(node),
                )
            if abs(bound) > 2**62:
                raise ParseError(
                    "a range beyond 2**62", code="too-large", location=self.span(node)
                )
        if len(bounds) == 3 and bounds[2] == 0:
            raise ParseError(
                "the step of a range is 0",
                code="bad-argument",
                location=self.span(node),
            )
        return range(*bounds)

    def in_section(self, node: ast.With) -> None:
        """`with section("encoder"):`"""
        self.statement = self.span(node)
        item = node.items[0]
        call = item.context_expr
        good = (
            len(node.items) == 1
            and item.optional_vars is None
            and isinstance(call, ast.Call)
            and self.is_call_of(call, "section")
            and len(call.args) == 1
            and not call.keywords
            and isinstance(call.args[0], ast.Constant)
            and isinstance(call.args[0].value, str)
            and call.args[0].value != ""
        )
        if not good:
            raise ParseError(
                "`with` names a section and nothing else",
                code="not-in-language",
                location=self.span(call),
                hint='with section("encoder"):',
            )
        assert isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)
        outer = self.section
        name = str(call.args[0].value)
        self.section = f"{outer}/{name}" if outer else name
        try:
            for statement in node.body:
                self.run(statement)
        finally:
            self.section = outer

    def define(self, node: ast.FunctionDef) -> None:
        """`def f(a, b=1): ...`: a subgraph, read at each call."""
        self.statement = self.span(node)
        before = len(self.errors)
        self.check_definition(node)
        arguments = node.args
        defaults: dict[str, Value] = {}
        positional = [*arguments.posonlyargs, *arguments.args]
        for part, default in zip(
            reversed(positional), reversed(arguments.defaults), strict=False
        ):
            defaults[part.arg] = self.value(default)
        for part, given in zip(
            arguments.kwonlyargs, arguments.kw_defaults, strict=True
        ):
            if given is not None:
                defaults[part.arg] = self.value(given)
        self.frame.functions[node.name] = Definition(
            name=node.name,
            node=node,
            frame=self.frame,
            shift=self.frame.shift,
            defaults=defaults,
            locals=frozenset(bound_names(node.body)),
            broken=len(self.errors) > before,
            span=self.span(node),
        )

    def check_definition(self, node: ast.FunctionDef) -> None:
        """Report what in a `def` can't be read, whether or not it is called."""

        def tell(error: GradcError, place: ast.AST) -> None:
            self.report(error, place)

        for part in node.decorator_list:
            tell(
                ParseError(
                    "a decorator is not part of the graph language",
                    code="not-in-language",
                ),
                part,
            )
        for star in (node.args.vararg, node.args.kwarg):
            if star is not None:
                tell(
                    ParseError(
                        "* and ** parameters are not part of the graph language",
                        code="not-in-language",
                        hint="pass a tuple",
                    ),
                    star,
                )
        if node.returns is not None:
            tell(
                ParseError(
                    "a declared result is not part of the graph language",
                    code="not-in-language",
                    hint="declare a name in the body: z: float[N] = ...",
                ),
                node.returns,
            )
        last = node.body[-1]
        if not isinstance(last, ast.Return) or last.value is None:
            tell(
                ParseError(
                    f"the `def` of {node.name} must end with `return` and a value",
                    code="no-return",
                ),
                last,
            )
        stack: list[ast.AST] = [*reversed(node.body)]
        while stack:
            part = stack.pop()
            if isinstance(part, ast.FunctionDef):
                continue
            if type(part) in CONSTRUCTS and not isinstance(part, ast.FormattedValue):
                error = outside(part)
                if isinstance(part, ast.stmt):
                    error = self.no_statement_in_def(part)
                tell(error, part)
                continue
            if isinstance(part, ast.Return) and part is not last:
                tell(
                    ParseError(
                        "`return` stands last in a `def`, once, and not in a loop or section",
                        code="misplaced",
                        hint="where(p, a, b) chooses between values",
                    ),
                    part,
                )
            stack.extend(reversed(list(ast.iter_child_nodes(part))))

    def no_statement_in_def(self, node: ast.stmt) -> ParseError:
        error = outside(node)
        words = self.span(node)
        end = words.column + len(words.text)
        error.location = Span(words.source, words.line, words.column, words.line, end)
        return error

    def inline(
        self,
        node: ast.AST,
        definition: Definition,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """The body of a `def` at a call of it."""
        if definition.broken:
            return POISON
        if any(d is definition for d, _ in self.calls):
            raise ParseError(
                f"{definition.name} calls itself",
                code="recursion",
                hint="a `for` loop over a range repeats a step",
            )
        bound = self.bound_arguments(definition, args, kwargs)
        place = self.place(node).span or self.span(node)
        frame, statement = self.frame, self.statement
        self.frame = Frame(
            shift=definition.shift,
            parent=definition.frame,
            locals=definition.locals,
            title=definition.name,
            names=bound,
        )
        loops, self.loops = self.loops, 0
        self.calls.append((definition, place))
        try:
            body = definition.node.body
            for part in body[int(_is_text(body[0])) : -1]:
                self.run(part)
            last = body[-1]
            assert isinstance(last, ast.Return) and last.value is not None
            self.statement = self.span(last)
            return self.value(last.value)
        finally:
            self.calls.pop()
            self.frame, self.statement, self.loops = frame, statement, loops

    def bound_arguments(
        self, definition: Definition, args: list[Value], kwargs: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The parameters of a `def` with their values."""
        given = definition.node.args
        positional = [*given.posonlyargs, *given.args]
        keyword_only = [p.arg for p in given.kwonlyargs]
        by_keyword = {p.arg for p in given.args} | set(keyword_only)
        shown = ", ".join([p.arg for p in positional] + keyword_only)
        hint = f"write {definition.name}({shown})"

        def refuse(what: str) -> ParseError:
            return ParseError(
                f"{definition.name}: {what}", code="bad-argument", hint=hint
            )

        if len(args) > len(positional):
            raise refuse(f"{len(args)} arguments for {len(positional)} parameters")
        values: dict[str, Value] = {}
        for parameter, value in zip(positional, args, strict=False):
            values[parameter.arg] = value
        for name, value in kwargs.items():
            if name not in by_keyword:
                raise refuse(f"no parameter {name}")
            if name in values:
                raise refuse(f"two values for {name}")
            values[name] = value
        for parameter in (*positional, *given.kwonlyargs):
            if parameter.arg not in values:
                if parameter.arg not in definition.defaults:
                    raise refuse(f"no value for {parameter.arg}")
                values[parameter.arg] = definition.defaults[parameter.arg]
            if parameter.annotation is not None:
                values[parameter.arg] = self.checked_argument(
                    definition, parameter, values[parameter.arg]
                )
        return values

    def checked_argument(
        self, definition: Definition, parameter: ast.arg, value: Value
    ) -> Value:
        """An argument whose parameter has a declared type."""
        assert parameter.annotation is not None
        shift, self.frame.shift = self.frame.shift, definition.shift
        try:
            declared = self.declared_type(parameter.annotation, new=False)
            node = ast.AnnAssign(
                target=ast.Name(id=parameter.arg),
                annotation=parameter.annotation,
                value=parameter.annotation,
                simple=1,
            )
            return self.as_declared(parameter.arg, value, declared, node)
        finally:
            self.frame.shift = shift

    # ---------------------------------------------------------------- other statements

    def expression(self, node: ast.Expr) -> None:
        """A statement that is an expression: `differentiate(...)`, or a slip."""
        call = node.value
        if self.is_call_of(call, "differentiate"):
            assert isinstance(call, ast.Call)
            self.differentiate(call)
            return
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and (call.func.value.id, call.func.attr) == ("gc", "names")
        ):
            for name, value in self.pairs(call):
                self.more_names[name] = self.tensor(value)
            return
        if _is_text(node):
            raise ParseError(
                "a string by itself does nothing",
                code="unused",
                hint="a comment begins with #; the text of the graph stands first in the file",
            )
        value = self.value(call)
        if value is not POISON:
            raise ParseError(
                "the value is not used", code="unused", hint="give it a name: y = ..."
            )

    def pairs(self, node: ast.Call) -> list[tuple[str, Value]]:
        """The arguments of `gc.names` and `gc.outputs`: ("name", value), ..."""
        found: list[tuple[str, Value]] = []
        for part in node.args:
            value = self.value(part)
            if value is POISON:
                raise Poisoned
            if not (
                isinstance(value, tuple)
                and len(value) == 2
                and isinstance(value[0], str)
            ):
                raise ParseError(
                    "expected pairs of a name and a tensor",
                    code="bad-argument",
                    location=self.span(part),
                )
            found.append(value)
        return found

    def differentiate(self, node: ast.Call) -> None:
        """`differentiate(ys, xs, ...)`: the request of the module."""
        if self.frame is not self.top or self.loops:
            raise ParseError(
                "differentiate stands outside of `def` and loops", code="misplaced"
            )
        if self.asked is not None:
            raise ParseError(
                "differentiate stands once in a file",
                code="misplaced",
                hint="gradients(ys, xs) may be used any number of times",
            )
        request = self.request(node)
        request.pop("x_tensors")
        request.pop("x_names")
        self.asked = self.building(
            node, "differentiate", lambda: reverse.make_request(**request), ()
        )

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

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        """`import numpy as np` means nothing; other imports are errors."""
        if isinstance(node, ast.Import):
            if all((a.name, a.asname) in _NUMPY for a in node.names):
                return
            error: GradcError = ParseError(
                "imports are not part of the graph language",
                code="not-in-language",
                hint="NumPy's functions are here already: exp(x), or np.exp(x)",
            )
        elif node.level:
            error = UnsupportedError(
                "`from .x import f` is not in this version yet",
                hint="put the `def` into this file",
            )
        else:
            error = ParseError(
                "imports are not part of the graph language",
                code="not-in-language",
                hint="NumPy's and scipy.special's functions are here already, by their names",
            )
        self.report(error, node)
        self.poison(
            name
            for alias in node.names
            if (name := (alias.asname or alias.name).split(".")[0])
            not in ("np", "numpy", "*")
            and not is_function(name)
        )

    # ------------------------------------------------------------------------ outputs

    def returned(self, node: ast.Return) -> None:
        """`return a, b`: the outputs."""
        value = node.value
        if value is None:
            raise ParseError(
                "`return` names the outputs of the graph",
                code="no-output",
                hint="return loss",
            )
        if isinstance(value, ast.Dict):
            raise UnsupportedError(
                "several entry points are not in this version yet",
                location=self.span(value),
                hint="return a tuple: return loss, p",
            )
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and isinstance(value.func.value, ast.Name)
            and (value.func.value.id, value.func.attr) == ("gc", "outputs")
        ):
            pairs = self.pairs(value)
            self.outputs = [
                Output(name, None, v.why)
                if isinstance(v, NoGradient)
                else Output(name, self.tensor(v))
                for name, v in pairs
            ]
            return
        listed: list[tuple[str | None, Value]] = []
        parts = value.elts if isinstance(value, ast.Tuple) else [value]
        for part in parts:
            if isinstance(part, ast.Starred):
                listed.extend((None, v) for v in self.starred(part))
                continue
            found = self.value(part)
            if isinstance(found, list | tuple) and len(parts) == 1:
                listed.extend((None, v) for v in found)
            elif found is not POISON and not isinstance(
                found, Tensor | Number | NoGradient | int | float | complex | Poly
            ):
                star = (
                    f"*{self.span(part).text}"
                    if isinstance(found, list | tuple)
                    else ""
                )
                self.report(
                    TypeMismatch(
                        f"an output must be a tensor, found {kind_of(found)}",
                        hint=f"write {star}" if star else "",
                    ),
                    part,
                )
            else:
                listed.append((part.id if isinstance(part, ast.Name) else None, found))
        self.outputs = self.named_outputs(
            [(n, v) for n, v in listed if v is not POISON]
        )

    def named_outputs(self, listed: Sequence[tuple[str | None, Value]]) -> list[Output]:
        """Outputs by the naming rules of SPEC section 1."""
        taken: set[str] = set()
        outputs: list[Output] = []
        for k, (written, value) in enumerate(listed):
            missing = value if isinstance(value, NoGradient) else None
            tensor = None if missing else self.tensor(value)
            if written is not None:
                name = written
            elif missing:
                name = missing.name
            elif tensor in self.gradient_names:
                name = self.gradient_names[tensor]
            else:
                assert tensor is not None
                bound = self.top.names.get(tensor.name)
                bound = bound.tensor if isinstance(bound, Number) else bound
                name = tensor.name if bound is tensor else ""
            name = name.lstrip("_")
            if not name.isidentifier() or keyword.iskeyword(name):
                name = f"out_{k}"
            base, number = name, 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            outputs.append(Output(name, tensor, missing.why if missing else ""))
        return outputs


# ------------------------------------------------------------------------------ helpers

_NUMPY = {("numpy", "np"), ("numpy", None), ("numpy", "numpy")}
_LOST = LoopOnly("")
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


def _kind(number: Any) -> str:
    if isinstance(number, bool):
        return "b"
    return "i" if isinstance(number, int) else "f" if isinstance(number, float) else "c"


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _text_of(node: ast.stmt) -> str:
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return inspect.cleandoc(str(node.value.value))


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements bind, but for those inside of `def`s."""
    names: set[str] = set()
    stack: list[ast.AST] = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            root: ast.expr = node.value
            while isinstance(root, ast.Subscript):
                root = root.value
            if isinstance(root, ast.Name):
                names.add(root.id)
        else:
            stack.extend(ast.iter_child_nodes(node))
    return names


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

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

from gradc.autodiff import reverse
from gradc.errors import (
    GradcError,
    GradcErrors,
    InternalError,
    OptionError,
    ParseError,
    ShapeError,
    Span,
    TypeMismatch,
    UnsupportedError,
)
from gradc.frontends.gc_defs import Definitions, bound_names, is_text
from gradc.frontends.gc_hints import (
    is_function,
    outside,
)
from gradc.frontends.gc_session import Poisoned, Stop
from gradc.frontends.gc_text import Broken, pieces, source_of, starts_of
from gradc.frontends.gc_values import (
    POISON,
    LoopOnly,
    NoGradient,
    Number,
    Value,
    kind_of,
    refuse_none,
)
from gradc.graph import Graph, Output, Tensor, at, collector_paused, label
from gradc.ops.functions import as_tensor
from gradc.ops.index import index
from gradc.types import (
    DTYPES,
    Poly,
    check_static,
    dim_text,
)

__all__ = ["parse"]

MAX_STEPS = 200_000
"""Steps of unrolled loops, taken together."""


def parse(
    text: str,
    filename: str = "<string>",
    *,
    folder: Path | None = None,
    default_float: str = "float64",
    static: Mapping[str, int] | None = None,
) -> Graph:
    """The graph that a `.gc` text defines.

    `load(...)` reads from `folder`, or not at all; `float` means `default_float`; the symbols in
    `static` have the sizes given there. Raises GradcErrors with all the errors of the text in the
    order of their places, OptionError where an input has no such symbol.
    """
    if default_float not in ("float16", "float32", "float64"):
        raise OptionError(
            f"default_float: expected float64, float32 or float16, found {default_float!r}"
        )
    try:
        source = source_of(text, filename)
    except GradcError as error:
        raise GradcErrors([error]) from None
    with collector_paused():
        return Reader(source, folder, DTYPES[default_float], static or {}).read()


class Reader(Definitions):
    """Reads the statements of one file."""

    def read(self) -> Graph:
        """All statements, then the graph; GradcErrors where there was an error."""
        try:
            starts = starts_of(self.source.text)
            self.tell_facts(starts)
            first = True
            for piece in pieces(self.source, starts):
                if isinstance(piece, Broken):
                    self.report(piece.error)
                    self.poison(piece.names)
                    continue
                self.top.shift = piece.shift
                for statement in piece.body:
                    if first and is_text(statement):
                        self.doc = _text_of(statement)
                    else:
                        self.statement_at_top(statement)
                    first = False
            return self.graph()
        except Stop:
            raise self.all_errors() from None

    def graph(self) -> Graph:
        """The graph, once all is read without error."""
        if not self.errors:
            check_static(self.static_sizes, self.symbols)
            self.check_symbols()
        if self.outputs is None and not self.errors:
            if self.asked is None:
                self.report(
                    ParseError(
                        "the graph returns nothing",
                        code="no-output",
                        location=self.end(),
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
        self.finished = True
        names: dict[str, Tensor] = {}
        for t in self.inputs:
            names[t.name] = t
        for name, value in self.top.names.items():
            if is_number_name(name):
                continue
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
            files=tuple(dict.fromkeys(name for name, _ in self.loaded)),
        )

    # ---------------------------------------------------------------------- statements

    def end(self) -> Span:
        """The last line of the text with something on it."""
        lines = self.source.lines
        k = max((i for i, line in enumerate(lines) if line.strip()), default=0)
        return Span(self.source, k + 1, 1, k + 1, len(lines[k]) + 1)

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
        if self.loops or self.calls:
            self.spend(node)
        if not isinstance(node, ast.For | ast.With | ast.FunctionDef):
            self.statement = self.span(node)
        self.guarded(node, lambda: self.dispatch(node))

    def dispatch(self, node: ast.stmt) -> None:
        """The meaning of a statement by its kind."""
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
        else:
            error = outside(node)
        error.location = self.first_line(node)
        return error

    # --------------------------------------------------------------------- assignments

    def assign(self, node: ast.Assign) -> None:
        """`a = b = value`."""
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
        if not is_number_name(name):
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
            try:
                old = self.name_value(target)
            except ParseError as error:
                if error.code == "unknown-name" and not error.hint:
                    error.hint = f"bind it first: {target.id} = 0.0"
                raise error.at(self.span(target)) from None
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
            default = self.default(
                target.id, given, declared, self.is_default_float(node)
            )
        self.add_input(target, target.id, declared, default)

    # ----------------------------------------------------------------- loops, sections

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
        if self.steps + len(steps) > MAX_STEPS:
            self.too_long = bool(self.loops or self.calls)
            raise ParseError(
                f"the loops have more than {MAX_STEPS} steps, all of which are unrolled",
                code="too-large",
                location=self.span(node.iter),
                hint="work on whole arrays: cumsum, einsum, x[1:] - x[:-1] need no loop",
            )
        before = self.steps
        self.steps += len(steps)
        names = self.frame.names
        bound = bound_names([node])
        fresh = [n for n in sorted(bound) if isinstance(names.get(n, _LOST), LoopOnly)]
        self.loops += 1
        try:
            for step in steps:
                names[name] = step
                for statement in node.body:
                    self.run(statement)
                    if self.too_long:  # out of all loops, on with what follows
                        raise Poisoned
        finally:
            self.loops -= 1
            if self.too_long and not (self.loops or self.calls):
                self.too_long, self.steps = False, before
            place = self.span(node).place_of_line
            for n in fresh:
                names[n] = LoopOnly(place)

    def range_of(self, node: ast.Call) -> range:
        """The steps of a loop. UnsupportedError where they are symbolic."""
        args, kwargs = self.arguments(node)
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
        if is_text(node):
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
            node, "differentiate", lambda: reverse.make_request(**request)
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

    # ------------------------------------------------------------------------- outputs

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
            if len(dict(pairs)) < len(pairs):
                raise ParseError(
                    "two outputs of one name",
                    code="name-taken",
                    location=self.span(value),
                )
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


_NUMPY = {("numpy", "np"), ("numpy", None), ("numpy", "numpy")}


_LOST = LoopOnly("")


def _text_of(node: ast.stmt) -> str:
    assert isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return inspect.cleandoc(str(node.value.value))


def is_number_name(name: str) -> bool:
    """Whether it is `_1`, `_2`, ...: the writer's names for tensors that have none."""
    return name[0] == "_" and name[1:].isdecimal()

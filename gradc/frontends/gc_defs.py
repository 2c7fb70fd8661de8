"""Subgraphs of the text language: `def f(a, b=1): ...`, read at each call."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterable, Mapping

from gradc.errors import (
    GradcError,
    ParseError,
)
from gradc.frontends.gc_declare import Declarations
from gradc.frontends.gc_hints import (
    CONSTRUCTS,
    outside,
)
from gradc.frontends.gc_values import (
    POISON,
    Definition,
    Frame,
    Value,
)

__all__ = ["Definitions", "bound_names", "is_text"]


MAX_ENTERED = 10
"""How often a `def` that is given functions may be in the middle of a call."""


class Definitions(Declarations):
    """`def` and its calls."""

    @abstractmethod
    def run(self, node: ast.stmt) -> None:
        """One statement."""

    def define(self, node: ast.FunctionDef) -> None:
        """`def f(a, b=1): ...`: a subgraph, read at each call."""
        self.statement = self.span(node)
        broken = self.check_definition(node)
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
            broken=broken,
        )

    def check_definition(self, node: ast.FunctionDef) -> bool:
        """Report what in a `def` can't be read, whether or not it is called; True where any."""
        broken = False

        def tell(error: GradcError, place: ast.AST) -> None:
            nonlocal broken
            broken = True
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
            piece = stack.pop()
            if isinstance(piece, ast.FunctionDef):
                continue
            if type(piece) in CONSTRUCTS and not isinstance(piece, ast.FormattedValue):
                tell(outside(piece).at(self.first_line(piece)), piece)
                continue
            if isinstance(piece, ast.Return) and piece is not last:
                tell(
                    ParseError(
                        "`return` stands last in a `def`, once, and not in a loop or section",
                        code="misplaced",
                        hint="where(p, a, b) chooses between values",
                    ),
                    piece,
                )
            stack.extend(reversed(list(ast.iter_child_nodes(piece))))
        return broken

    def inline(
        self,
        node: ast.AST,
        definition: Definition,
        args: list[Value],
        kwargs: Mapping[str, Value],
    ) -> Value:
        """The body of a `def` at a call of it."""
        if definition.broken or definition in self.recursive:
            return POISON
        self.spend(node)
        entered = sum(d is definition for d, _ in self.calls)
        # a function passed to it may come back to it, with another function: twice(twice(f))
        passed = any(isinstance(a, Definition) for a in (*args, *kwargs.values()))
        if entered >= (MAX_ENTERED if passed else 1):
            self.recursive.add(definition)
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
            for part in body[int(is_text(body[0])) : -1]:
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


def is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


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

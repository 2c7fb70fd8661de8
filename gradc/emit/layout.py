"""Statements laid out as `ruff format` lays them out, so that emitted text needs no formatter.

`statement` takes one simple statement (or the head of a compound one) on one line and gives its
lines. The text is parsed with `ast`, so parentheses that mean nothing go and those that precedence
needs come. What does not fit in `WIDTH` columns is split by the formatter's own rules, restated
here: a document of groups (Wadler, "A prettier printer") whose brackets open one level at a time,
from the outside in, and parentheses round an expression that has no brackets to open.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gradc.types import WORD

__all__ = [
    "ATOM",
    "SIGN",
    "WIDTH",
    "expression",
    "fits",
    "indented",
    "item",
    "parameters",
    "statement",
]

WIDTH = 88

# ------------------------------------------------------------------------ documents


@dataclass(frozen=True, slots=True)
class _Line:
    """A line break where the group around it (and group `key`) is broken; else a space or not."""

    space: bool
    key: int = 0


@dataclass(frozen=True, slots=True)
class _Group:
    """Content whose lines all break or all stay; `key` names it for conditions.

    With `only_if` it is a group only where that other group is broken.
    """

    content: Doc
    key: int = 0
    only_if: int = 0


@dataclass(frozen=True, slots=True)
class _Indent:
    """Content four columns further in; with `only_if`, where that group is broken."""

    content: Doc
    only_if: int = 0


@dataclass(frozen=True, slots=True)
class _IfBroken:
    """Content that is there where the group around it (or group `key`) is broken."""

    content: Doc
    key: int = 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """Brackets that may open while group `key`, which holds them, stays flat."""

    content: Doc
    key: int


Doc: TypeAlias = "str | _Line | _Group | _Indent | _IfBroken | _Opened | list[Any]"
SOFT = _Line(False)
SPACE = _Line(True)

# Where an expression stands: the statement itself, inside brackets, or (a positive number) the key
# of the optional parentheses round it.
STATEMENT, BRACKETS = 0, -1

_Item: TypeAlias = "tuple[int, bool, Doc]"  # columns of indent, flat, content


class _Writer:
    """Writes a document, each group flat where it fits."""

    def __init__(self, column: int) -> None:
        self.width = WIDTH
        self.out: list[str] = []
        self.column = column
        self.flat: dict[int, bool] = {}
        self.measured = False

    def write(self, doc: Doc, indent: int) -> str:
        stack: list[_Item] = [(indent, False, doc)]
        while stack:
            depth, flat, item = stack.pop()
            if isinstance(item, str):
                self.out.append(item)
                self.column += len(item)
            elif isinstance(item, list):
                stack.extend((depth, flat, part) for part in reversed(item))
            elif isinstance(item, _Line):
                if not flat and not (item.key and self.flat[item.key]):
                    self.out.append("\n" + " " * depth)
                    self.column = depth
                    self.measured = False
                elif item.space:
                    self.out.append(" ")
                    self.column += 1
            elif isinstance(item, _Group):
                if item.only_if and self.flat[item.only_if]:
                    stack.append((depth, flat, item.content))
                    continue
                mode = flat
                if not (flat and self.measured):
                    self.measured = True
                    self.flat[item.key] = True
                    mode = self._fits((depth, True, item.content), stack)
                self.flat[item.key] = mode
                stack.append((depth, mode, item.content))
            elif isinstance(item, _Indent):
                inner = item.only_if == 0 or not self.flat[item.only_if]
                stack.append((depth + 4 if inner else depth, flat, item.content))
            elif isinstance(item, _IfBroken):
                if not (self.flat[item.key] if item.key else flat):
                    stack.append((depth, flat, item.content))
            else:
                if self.flat[item.key]:
                    self.measured = False
                stack.append((depth, flat, item.content))
        return "".join(self.out)

    def _fits(self, first: _Item, rest: Sequence[_Item]) -> bool:
        """Whether the line stays within the width up to the first break after `first`."""
        column = self.column
        after = len(rest)
        # (indent, flat, all lines count, content)
        stack: list[tuple[int, bool, bool, Doc]] = [
            (first[0], first[1], False, first[2])
        ]
        while True:
            if not stack:
                if not after:
                    return True
                after -= 1
                depth, flat, item = rest[after]
                stack.append((depth, flat, False, item))
            depth, flat, every, doc = stack.pop()
            if isinstance(doc, str):
                column += len(doc)
                if column > self.width:
                    return False
            elif isinstance(doc, list):
                stack.extend((depth, flat, every, part) for part in reversed(doc))
            elif isinstance(doc, _Line):
                if flat or (doc.key and self.flat[doc.key]):
                    column += doc.space
                elif every:
                    column = depth
                else:
                    return True
            elif isinstance(doc, _Group):
                if doc.key and not (doc.only_if and self.flat[doc.only_if]):
                    self.flat[doc.key] = flat
                stack.append((depth, flat, every, doc.content))
            elif isinstance(doc, _Indent):
                inner = doc.only_if == 0 or not self.flat[doc.only_if]
                stack.append((depth + 4 if inner else depth, flat, every, doc.content))
            elif isinstance(doc, _IfBroken):
                if not (self.flat[doc.key] if doc.key else flat):
                    stack.append((depth, flat, every, doc.content))
            elif flat and self.flat[doc.key]:
                stack.append((depth, False, True, doc.content))
            else:
                stack.append((depth, flat, every, doc.content))


# ---------------------------------------------------------------------- expressions

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.And: "and",
    ast.Or: "or",
}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not "}
_LEVEL = {
    "or": 2,
    "and": 3,
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "@": 11,
    "/": 11,
    "//": 11,
    "%": 11,
    "**": 13,
}
CONDITIONAL, NOT, COMPARE, SIGN, ATOM = 1, 4, 5, 12, 15


def _level(e: ast.expr) -> int:
    """How tightly the outermost operator of an expression binds."""
    if isinstance(e, ast.BinOp):
        return _LEVEL[_BINARY[type(e.op)]]
    if isinstance(e, ast.BoolOp):
        return _LEVEL[_BINARY[type(e.op)]]
    if isinstance(e, ast.Compare):
        return COMPARE
    if isinstance(e, ast.UnaryOp):
        return NOT if isinstance(e.op, ast.Not) else SIGN
    if isinstance(e, ast.IfExp):
        return CONDITIONAL
    if isinstance(e, ast.Constant) and isinstance(e.value, int | float | complex):
        return SIGN if repr(e.value).startswith("-") else ATOM
    return ATOM


@dataclass(slots=True)
class _Builder:
    """Documents of the expressions of one source text; counts the keys of groups."""

    text: str
    indent: int = 0
    keys: int = 0
    parenthesized: set[int] = field(default_factory=set)
    lines: list[bytes] | None = None

    def wrapped(self, e: ast.expr, least: int, where: int) -> Doc:
        """An operand, in parentheses where it binds less than `least`."""
        if _level(e) >= least:
            return self.doc(e, where)
        self.parenthesized.add(id(e))
        return self.bracket("(", self.doc(e, BRACKETS), ")", where)

    def bracket(self, left: str, content: Doc, right: str, where: int) -> Doc:
        inner = _Group([left, _Indent([SOFT, content]), SOFT, right])
        return _Opened(inner, where) if where > 0 else inner

    def break_(self, where: int, line: _Line) -> Doc:
        """A line break that is there only inside parentheses."""
        if where == BRACKETS:
            return line
        if where > 0:
            return _Line(line.space, where)
        return " " if line.space else ""

    def group(self, content: Doc, where: int) -> Doc:
        if where == BRACKETS:
            return _Group(content)
        return _Group(content, only_if=where) if where > 0 else content

    def doc(self, e: ast.expr, where: int) -> Doc:
        if isinstance(e, ast.Name):
            return e.id
        if isinstance(e, ast.Constant):
            return self.constant(e)
        if isinstance(e, ast.BinOp | ast.BoolOp | ast.Compare):
            parts = self.flatten(e, where)
            return self.group(self.operators(parts, where), where)
        if isinstance(e, ast.UnaryOp):
            sign = _UNARY[type(e.op)]
            operand = e.operand
            least = NOT if sign == "not " else SIGN
            if isinstance(operand, ast.BinOp):  # -(x**2), though -x**2 means the same
                least = ATOM
            return [sign, self.wrapped(operand, least, where)]
        if isinstance(e, ast.Call):
            arguments: list[Doc] = [self.doc(a, BRACKETS) for a in e.args]
            arguments += [
                [f"{k.arg}=" if k.arg else "**", self.doc(k.value, BRACKETS)]
                for k in e.keywords
            ]
            function = self.wrapped(e.func, ATOM, where)
            if not arguments:
                return [function, "()"]
            inside = _Group(self.separated(arguments))
            return [function, self.bracket("(", inside, ")", where)]
        if isinstance(e, ast.Attribute):
            value = self.wrapped(e.value, ATOM, where)
            if _is_number(e.value):
                value = ["(", value, ")"]
            return [value, ".", e.attr]
        if isinstance(e, ast.Subscript):
            value = self.wrapped(e.value, ATOM, where)
            return [value, self.bracket("[", self.index(e.slice), "]", where)]
        if isinstance(e, ast.IfExp):
            return self.group(self.conditional(e, where), where)
        if isinstance(e, ast.Tuple):
            return self.tuple_(e, where)
        if isinstance(e, ast.List):
            return self.sequence(
                "[", [self.doc(i, BRACKETS) for i in e.elts], "]", where
            )
        if isinstance(e, ast.Set):
            return self.sequence(
                "{", [self.doc(i, BRACKETS) for i in e.elts], "}", where
            )
        if isinstance(e, ast.Dict):
            pairs: list[Doc] = [
                [self.doc(k, BRACKETS), ": ", self.doc(v, BRACKETS)]
                if k is not None
                else ["**", self.doc(v, BRACKETS)]
                for k, v in zip(e.keys, e.values, strict=True)
            ]
            return self.sequence("{", pairs, "}", where)
        if isinstance(e, ast.Starred):
            return ["*", self.wrapped(e.value, 6, where)]
        return self.source(e) or ast.unparse(e)

    def source(self, e: ast.expr) -> str | None:
        """An expression as it is written. `ast.get_source_segment` would split the text anew for
        each expression, which takes the square of a long statement's length."""
        if e.end_col_offset is None or e.end_lineno != e.lineno:
            return ast.get_source_segment(self.text, e)
        if self.lines is None:
            self.lines = self.text.encode().split(b"\n")
        return self.lines[e.lineno - 1][e.col_offset : e.end_col_offset].decode()

    def constant(self, e: ast.Constant) -> str:
        if isinstance(e.value, str):
            return self.source(e) or _quoted(e.value)
        if isinstance(e.value, float) and e.value == float("inf"):
            return "1e309"
        return repr(e.value).replace("e+", "e")

    def separated(self, items: Sequence[Doc]) -> Doc:
        parts: list[Doc] = []
        for k, item in enumerate(items):
            parts += [item] if k == 0 else [",", SPACE, item]
        return [*parts, _IfBroken(",")]

    def sequence(self, left: str, items: Sequence[Doc], right: str, where: int) -> Doc:
        if not items:
            return left + right
        return self.bracket(left, self.separated(items), right, where)

    def tuple_(self, e: ast.Tuple, where: int) -> Doc:
        items = [self.doc(i, BRACKETS) for i in e.elts]
        if len(items) == 1:
            return self.bracket("(", [items[0], ","], ")", where)
        return self.sequence("(", items, ")", where)

    def index(self, e: ast.expr) -> Doc:
        if isinstance(e, ast.Tuple) and e.elts:
            items = [self.index(i) for i in e.elts]
            if len(items) == 1:
                return [items[0], ","]
            return self.separated(items)
        if isinstance(e, ast.Slice):
            return self.slice(e)
        return self.doc(e, BRACKETS)

    def slice(self, e: ast.Slice) -> Doc:
        bounds = [b for b in (e.lower, e.upper, e.step) if b is not None]
        gap = "" if all(_is_simple_bound(b) for b in bounds) else " "
        parts: list[Doc] = []
        if e.lower is not None:
            parts += [self.doc(e.lower, BRACKETS), gap]
        parts.append(":")
        if e.upper is not None:
            parts += [gap, self.doc(e.upper, BRACKETS)]
        if e.step is not None:
            parts += [gap if e.upper is not None else "", ":", gap]
            parts.append(self.doc(e.step, BRACKETS))
        return parts

    def conditional(self, e: ast.IfExp, where: int) -> Doc:
        parts: list[Doc] = [self.wrapped(e.body, CONDITIONAL + 1, where)]
        tail: ast.expr = e
        while isinstance(tail, ast.IfExp):
            if tail is not e:
                parts.append(self.wrapped(tail.body, CONDITIONAL + 1, where))
            test = self.wrapped(tail.test, CONDITIONAL + 1, where)
            parts += [self.break_(where, SPACE), "if ", test]
            parts += [self.break_(where, SPACE), "else "]
            tail = tail.orelse
        return [*parts, self.doc(tail, where)]

    def flatten(self, e: ast.expr, where: int) -> list[Any]:
        """Operands (as documents, with whether a power may hug them) and operators in turn."""
        parts: list[Any] = []
        stack: list[tuple[ast.expr | str, int]] = [(e, 0)]
        while stack:
            item, least = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif _level(item) < least or not isinstance(
                item, ast.BinOp | ast.BoolOp | ast.Compare
            ):
                simple = _level(item) >= least and _is_simple_power(item)
                parts.append((self.wrapped(item, least, where), simple))
            elif isinstance(item, ast.BinOp):
                operator = _BINARY[type(item.op)]
                level = _LEVEL[operator]
                if operator == "**":
                    stack += [(item.right, SIGN), (operator, 0), (item.left, ATOM)]
                else:
                    stack += [
                        (item.right, level + 1),
                        (operator, 0),
                        (item.left, level),
                    ]
            elif isinstance(item, ast.BoolOp):
                operator = _BINARY[type(item.op)]
                level = _LEVEL[operator]
                for k, value in enumerate(reversed(item.values)):
                    stack += [(operator, 0)] if k else []
                    stack.append((value, level + 1))
            else:
                pairs = list(zip(item.ops, item.comparators, strict=True))
                for op, right in reversed(pairs):
                    stack += [(right, COMPARE + 1), (_BINARY[type(op)], 0)]
                stack.append((item.left, COMPARE + 1))
        return parts

    def operators(self, parts: list[Any], where: int) -> Doc:
        """Operands and operators, broken before the operators that bind least."""
        if len(parts) == 1:
            operand: Doc = parts[0][0]
            return operand
        lowest = min(_LEVEL.get(p, COMPARE) for p in parts[1::2])
        result: list[Doc] = []
        start = 0
        for k in range(1, len(parts), 2):
            if _LEVEL.get(parts[k], COMPARE) != lowest:
                continue
            hugs = parts[k] == "**" and parts[k - 1][1] and parts[k + 1][1]
            result.append(self.part(parts[start:k], where))
            result.append(self.break_(where, SOFT if hugs else SPACE))
            result.append([parts[k], _IfBroken(" ")] if hugs else f"{parts[k]} ")
            start = k + 1
        result.append(self.part(parts[start:], where))
        return result

    def part(self, parts: list[Any], where: int) -> Doc:
        inner = self.operators(parts, where)
        return inner if len(parts) == 1 else self.group(inner, where)

    # -------------------------------------------------------------- whole statements

    def last(self, e: ast.expr) -> Doc:
        """The expression that ends a statement, in parentheses where that is how it breaks."""
        if isinstance(e, ast.Name | ast.Constant | ast.JoinedStr):
            atom = self.doc(e, STATEMENT)
            assert isinstance(atom, str)
            if len(atom) > WIDTH - 4 - self.indent:
                return atom
            return _Group([_IfBroken("("), _Indent([SOFT, atom]), SOFT, _IfBroken(")")])
        if _needs_none(e):
            return self.doc(e, STATEMENT)
        self.keys += 1
        inside = self.doc(e, self.keys)
        if _Omission(self.parenthesized).allowed(e):
            indented = _Indent([SOFT, inside], only_if=self.keys)
            key = self.keys
        else:
            indented = _Indent([SOFT, self.doc(e, BRACKETS)])
            key = 0
        return _Group([_IfBroken("("), indented, SOFT, _IfBroken(")")], key)

    def bare_tuple(self, e: ast.Tuple) -> Doc:
        items = [self.doc(i, BRACKETS) for i in e.elts]
        if len(items) == 1:
            return _Group(["(", _Indent([SOFT, items[0], ","]), SOFT, ")"])
        inside = self.separated(items)
        return _Group([_IfBroken("("), _Indent([SOFT, inside]), SOFT, _IfBroken(")")])


class _Omission:
    """Whether the brackets inside an expression open before parentheses are put round the whole.

    They do where the operator that binds least is there once and the expression ends with
    brackets, or begins with parentheses.
    """

    def __init__(self, parenthesized: set[int]) -> None:
        self.parenthesized = parenthesized
        self.lowest = ATOM + 1
        self.count = 0
        self.brackets = False
        self.first: ast.expr | None = None
        self.begun = False
        self.final: ast.expr | None = None

    def allowed(self, e: ast.expr) -> bool:
        self._inside(e)
        if not self.brackets or self.count > 1:
            return False
        if self.lowest >= ATOM:
            return True
        return self._bracketed(self.final) or self._bracketed(self.first)

    def _bracketed(self, e: ast.expr | None) -> bool:
        if e is None:
            return False
        if id(e) in self.parenthesized:
            return True
        if isinstance(e, ast.Call):
            return bool(e.args or e.keywords)
        return isinstance(e, ast.Tuple | ast.List | ast.Set) and bool(e.elts)

    def _operator(self, level: int, count: int) -> None:
        if level < self.lowest:
            self.lowest, self.count = level, count
        elif level == self.lowest:
            self.count += count

    def _visit(self, e: ast.expr) -> None:
        self.final = e
        if id(e) in self.parenthesized:
            self.brackets = True
        else:
            self._inside(e)
        if not self.begun:
            self.begun, self.first = True, e

    def _inside(self, e: ast.expr) -> None:
        if isinstance(e, ast.List | ast.Tuple | ast.Set | ast.Dict):
            self.brackets = True
        elif isinstance(e, ast.BinOp):
            self._operator(_level(e), 1)
            self._visit(e.left)
            self._visit(e.right)
        elif isinstance(e, ast.BoolOp):
            self._operator(_level(e), len(e.values) - 1)
            for value in e.values:
                self._visit(value)
        elif isinstance(e, ast.Compare):
            self._operator(COMPARE, len(e.ops))
            for value in [e.left, *e.comparators]:
                self._visit(value)
        elif isinstance(e, ast.IfExp):
            self._operator(CONDITIONAL, 2)
            for value in [e.body, e.test, e.orelse]:
                self._visit(value)
        elif isinstance(e, ast.UnaryOp):
            self.begun = True
            self._visit(e.operand)
        elif isinstance(e, ast.Call | ast.Subscript):
            self.brackets = True
            self._visit(e.func if isinstance(e, ast.Call) else e.value)
            self.final = e
        elif isinstance(e, ast.Attribute):
            self._visit(e.value)
            if self._bracketed(e.value):
                self._operator(ATOM, 1)
            self.final = e


def _is_simple_bound(e: ast.expr) -> bool:
    if isinstance(e, ast.UnaryOp):
        return isinstance(e.operand, ast.Constant | ast.Name)
    return isinstance(e, ast.Constant | ast.Name)


def _is_simple_power(e: ast.expr) -> bool:
    if isinstance(e, ast.UnaryOp) and not isinstance(e.op, ast.Not):
        e = e.operand
    while isinstance(e, ast.Attribute):
        e = e.value
    return isinstance(e, ast.Name) or _is_number(e)


def _is_number(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and isinstance(e.value, int | float | complex)


def _needs_none(e: ast.expr) -> bool:
    """Whether brackets of its own are all that an expression can break at."""
    while isinstance(e, ast.Call | ast.Attribute | ast.Subscript):
        e = e.func if isinstance(e, ast.Call) else e.value
        if _level(e) < ATOM:
            return True
    return isinstance(
        e, ast.Name | ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set
    )


def _quoted(text: str) -> str:
    body = repr(text)[1:-1]
    if repr(text)[0] == '"':
        return f'"{body}"'
    return '"' + body.replace("\\'", "'").replace('"', '\\"') + '"'


# ------------------------------------------------------------------------ statements

_ATOM = rf"(?:{WORD}|\.)+"
_PLAIN = re.compile(rf"{_ATOM}(\((?:{WORD}|[., ])*\))?|{_ATOM} [-+/@] {_ATOM}")


def statement(text: str, indent: int = 0) -> list[str]:
    """The lines of a simple statement, or of the head of an `if`, `for`, `while` or `with`."""
    margin = " " * indent
    left, equals, right = text.partition(" = ")
    if (
        len(text) + indent <= WIDTH
        and equals
        and left.isidentifier()
        and _PLAIN.fullmatch(right)
    ):
        return [margin + text]
    is_head = text.endswith(":")
    (node,) = ast.parse(f"{text}\n    pass" if is_head else text).body
    builder = _Builder(text, indent)
    doc = _statement_doc(builder, node)
    return (margin + _Writer(indent).write(doc, indent)).split("\n")


def _statement_doc(build: _Builder, node: ast.stmt) -> Doc:
    if isinstance(node, ast.Assign):
        targets: list[Doc] = []
        for target in node.targets:
            targets += [_target(build, target), " = "]
        return [*targets, _value(build, node.value)]
    if isinstance(node, ast.AugAssign):
        operator = _BINARY[type(node.op)]
        return [
            _target(build, node.target),
            f" {operator}= ",
            _value(build, node.value),
        ]
    if isinstance(node, ast.AnnAssign):
        head = [_target(build, node.target), ": ", build.doc(node.annotation, BRACKETS)]
        return head if node.value is None else [*head, " = ", _value(build, node.value)]
    if isinstance(node, ast.Return):
        return (
            "return" if node.value is None else ["return ", _value(build, node.value)]
        )
    if isinstance(node, ast.Raise) and node.exc is not None:
        doc: Doc = ["raise ", _value(build, node.exc)]
        return [doc, " from ", _value(build, node.cause)] if node.cause else doc
    if isinstance(node, ast.Expr):
        return _value(build, node.value)
    if isinstance(node, ast.If | ast.While):
        word = "if " if isinstance(node, ast.If) else "while "
        return [word, build.last(node.test), ":"]
    if isinstance(node, ast.With):
        return ["with ", build.doc(node.items[0].context_expr, STATEMENT), ":"]
    if isinstance(node, ast.For):
        return [
            "for ",
            _target(build, node.target),
            " in ",
            _value(build, node.iter),
            ":",
        ]
    return ast.unparse(node)


def _target(build: _Builder, target: ast.expr) -> Doc:
    if isinstance(target, ast.Tuple) and len(target.elts) == 1:
        return f"({ast.unparse(target.elts[0])},)"
    if isinstance(target, ast.Tuple):
        return build.bare_tuple(target)
    return build.doc(target, STATEMENT)


def _value(build: _Builder, value: ast.expr) -> Doc:
    if isinstance(value, ast.Tuple) and value.elts:
        return build.bare_tuple(value)
    return build.last(value)


def indented(statements: Sequence[str], indent: int = 4) -> list[str]:
    """The lines of statements that stand so far in; their own indents go on top."""
    lines: list[str] = []
    for text in statements:
        own = len(text) - len(text.lstrip())
        if text.strip() in ("else:", "pass"):
            lines.append(" " * indent + text)
        else:
            lines += statement(text.strip(), indent + own)
    return lines


def item(key: str, value: str, indent: int) -> list[str]:
    """The lines of `key: value,` (or `value,`) where each item of a display has a line."""
    builder = _Builder(value, indent)
    tree = ast.parse(value, mode="eval").body
    doc = [f"{key}: " if key else "", builder.doc(tree, BRACKETS), ","]
    margin = " " * indent
    return (margin + _Writer(indent).write(doc, indent)).split("\n")


def expression(text: str) -> tuple[str, int]:
    """The expression on one line as the formatter spells it, and how tightly it binds."""
    tree = ast.parse(text, mode="eval").body
    writer = _Writer(0)
    writer.width = 10**9
    return writer.write(_Group(_Builder(text).doc(tree, BRACKETS)), 0), _level(tree)


def fits(text: str, indent: int = 0) -> bool:
    """Whether a line of this text stays within the width."""
    return len(text) + indent <= WIDTH


def parameters(
    head: str, items: Sequence[str], tail: str, indent: int = 0
) -> list[str]:
    """`head(items)tail` as lines: on one, with the items on one of their own, or one an item."""
    margin = " " * indent
    inside = ", ".join(items)
    if fits(f"{head}({inside}){tail}", indent) or not items:
        return [f"{margin}{head}({inside}){tail}"]
    if fits(inside, indent + 4):
        return [f"{margin}{head}(", f"{margin}    {inside}", f"{margin}){tail}"]
    return [
        f"{margin}{head}(",
        *(f"{margin}    {item}," for item in items),
        f"{margin}){tail}",
    ]

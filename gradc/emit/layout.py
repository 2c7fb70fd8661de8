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
from collections.abc import Callable, Mapping, Sequence
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


@dataclass(slots=True)
class _Part:
    """An expression inside brackets: `line` where that fits, else the document that `make` makes."""

    line: str
    make: Callable[[], Doc]
    made: Doc | None = None

    @property
    def content(self) -> Doc:
        if self.made is None:
            self.made = self.make()
        return self.made


Doc: TypeAlias = (
    "str | _Line | _Group | _Indent | _IfBroken | _Opened | _Part | list[Any]"
)
SOFT = _Line(False)
SPACE = _Line(True)

# Where an expression stands: the statement itself, inside brackets, or (a positive number) the key
# of the optional parentheses round it.
STATEMENT, BRACKETS = 0, -1

_Item: TypeAlias = "tuple[int, bool, Doc]"  # columns of indent, flat, content


class _Writer:
    """Writes a document, each group flat where it fits."""

    def __init__(self, column: int) -> None:
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
            elif isinstance(item, _Part):
                known = flat and self.measured
                if known or self._fits((depth, True, item.line), stack):
                    self.out.append(item.line)
                    self.column += len(item.line)
                else:
                    stack.append((depth, flat, item.content))
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
                if column > WIDTH:
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
            elif isinstance(doc, _Part):
                stack.append((depth, flat, every, doc.line if flat else doc.content))
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

_WORDS = (ast.Name, ast.Constant)
_CHAINS = (ast.BinOp, ast.BoolOp)
_OPERATIONS = (ast.BinOp, ast.BoolOp, ast.Compare)
_BINDS = {op: _LEVEL.get(sign, COMPARE) for op, sign in _BINARY.items()}
_OTHER_BINDS = {ast.Compare: COMPARE, ast.IfExp: CONDITIONAL}


def _level(e: ast.expr) -> int:
    """How tightly the outermost operator of an expression binds."""
    if isinstance(e, _WORDS):
        return ATOM
    if isinstance(e, _CHAINS):
        return _BINDS[type(e.op)]
    if isinstance(e, ast.UnaryOp):
        return NOT if isinstance(e.op, ast.Not) else SIGN
    return _OTHER_BINDS.get(type(e), ATOM)


@dataclass(slots=True)
class _Builder:
    """Documents of the expressions of one source text; counts the keys of groups."""

    text: str
    indent: int = 0
    keys: int = 0
    parenthesized: set[int] = field(default_factory=set)
    lines: list[bytes] | None = None
    one_line: _OneLine | None = None
    runs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def wrapped(self, e: ast.expr, least: int, where: int) -> Doc:
        """An operand, in parentheses where it binds less than `least`."""
        if _level(e) >= least:
            return self.doc(e, where)
        self.parenthesized.add(id(e))
        return self.bracket("(", self.inside(e), ")", where)

    def bracket(self, left: str, content: Doc, right: str, where: int) -> Doc:
        inner = _Group([left, _Indent([SOFT, content]), SOFT, right])
        return _Opened(inner, where) if where > 0 else inner

    def joined(self, parts: list[Any]) -> Doc:
        """Parts one after the other."""
        return parts

    def if_broken(self, text: str) -> Doc:
        """Text that is there where the group around it is broken."""
        return _IfBroken(text)

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

    def inside(self, e: ast.expr) -> Doc:
        """An expression inside brackets."""
        if isinstance(e, _WORDS):
            return self.doc(e, BRACKETS)
        if self.one_line is None:
            self.one_line = _OneLine(self.text, runs=self.runs)
        line = self.one_line.doc(e, BRACKETS)
        assert isinstance(line, str)
        return _Part(line, lambda: self.doc(e, BRACKETS))

    def items(self, listed: Sequence[ast.expr]) -> list[Doc]:
        """Expressions inside brackets, with those that a run stands for."""
        items: list[Doc] = []
        for e in listed:
            run = self.runs.get(e.id) if self.runs and isinstance(e, ast.Name) else None
            if run is None:
                items.append(self.inside(e))
            else:
                items += map(self.item, run)
        return items

    def item(self, text: str) -> Doc:
        """An item of a run."""
        if len(text) <= _SHORT:
            return text
        return _Part(text, lambda: _Builder(text).doc(_parsed(text), BRACKETS))

    def doc(self, e: ast.expr, where: int) -> Doc:
        if isinstance(e, ast.Name):
            return e.id
        if isinstance(e, ast.Constant):
            return self.constant(e)
        if isinstance(e, _OPERATIONS):
            parts = self.flatten(e, where)
            return self.group(self.operators(parts, where), where)
        if isinstance(e, ast.UnaryOp):
            sign = _UNARY[type(e.op)]
            operand = e.operand
            least = NOT if sign == "not " else SIGN
            if isinstance(operand, ast.BinOp):  # -(x**2), though -x**2 means the same
                least = ATOM
            return self.joined([sign, self.wrapped(operand, least, where)])
        if isinstance(e, ast.Call):
            arguments: list[Doc] = self.items(e.args)
            arguments += [
                self.joined([f"{k.arg}=" if k.arg else "**", self.inside(k.value)])
                for k in e.keywords
            ]
            function = self.wrapped(e.func, ATOM, where)
            if not arguments:
                return self.joined([function, "()"])
            inside = self.group(self.separated(arguments), BRACKETS)
            return self.joined([function, self.bracket("(", inside, ")", where)])
        if isinstance(e, ast.Attribute):
            value = self.wrapped(e.value, ATOM, where)
            if _is_number(e.value):
                value = self.joined(["(", value, ")"])
            return self.joined([value, ".", e.attr])
        if isinstance(e, ast.Subscript):
            value = self.wrapped(e.value, ATOM, where)
            index = self.bracket("[", self.index(e.slice), "]", where)
            return self.joined([value, index])
        if isinstance(e, ast.IfExp):
            return self.group(self.conditional(e, where), where)
        if isinstance(e, ast.Tuple):
            return self.tuple_(e, where)
        if isinstance(e, ast.List):
            return self.sequence("[", self.items(e.elts), "]", where)
        if isinstance(e, ast.Set):
            return self.sequence("{", self.items(e.elts), "}", where)
        if isinstance(e, ast.Dict):
            pairs: list[Doc] = [
                self.joined(
                    [self.inside(k), ": ", self.inside(v)]
                    if k is not None
                    else ["**", self.inside(v)]
                )
                for k, v in zip(e.keys, e.values, strict=True)
            ]
            return self.sequence("{", pairs, "}", where)
        if isinstance(e, ast.Starred):
            return self.joined(["*", self.wrapped(e.value, 6, where)])
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
            parts += [item] if k == 0 else [",", self.break_(BRACKETS, SPACE), item]
        return self.joined([*parts, self.if_broken(",")])

    def sequence(self, left: str, items: Sequence[Doc], right: str, where: int) -> Doc:
        if not items:
            return left + right
        return self.bracket(left, self.separated(items), right, where)

    def tuple_(self, e: ast.Tuple, where: int) -> Doc:
        items = self.items(e.elts)
        if len(items) == 1:
            return self.bracket("(", self.joined([items[0], ","]), ")", where)
        return self.sequence("(", items, ")", where)

    def index(self, e: ast.expr) -> Doc:
        if isinstance(e, ast.Tuple) and e.elts:
            items = [self.index(i) for i in e.elts]
            if len(items) == 1:
                return self.joined([items[0], ","])
            return self.separated(items)
        if isinstance(e, ast.Slice):
            return self.slice(e)
        return self.inside(e)

    def slice(self, e: ast.Slice) -> Doc:
        bounds = [b for b in (e.lower, e.upper, e.step) if b is not None]
        gap = "" if all(_is_simple_bound(b) for b in bounds) else " "
        parts: list[Doc] = []
        if e.lower is not None:
            parts += [self.inside(e.lower), gap]
        parts.append(":")
        if e.upper is not None:
            parts += [gap, self.inside(e.upper)]
        if e.step is not None:
            parts += [gap if e.upper is not None else "", ":", gap]
            parts.append(self.inside(e.step))
        return self.joined(parts)

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
        return self.joined([*parts, self.doc(tail, where)])

    def flatten(self, e: ast.expr, where: int) -> list[Any]:
        """Operands (as documents, with whether a power may hug them) and operators in turn."""
        parts: list[Any] = []
        stack: list[tuple[ast.expr | str, int]] = [(e, 0)]
        while stack:
            item, least = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif _level(item) < least or not isinstance(item, _OPERATIONS):
                simple = _level(item) >= least and _is_simple_power(item)
                parts.append((self.wrapped(item, least, where), simple))
            elif isinstance(item, ast.BinOp):
                operator = _BINARY[type(item.op)]
                level = _BINDS[type(item.op)]
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

    def operators(self, parts: Sequence[Any], where: int) -> Doc:
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
            hugs = _hugs(parts, k)
            result.append(self.part(parts[start:k], where))
            result.append(self.break_(where, SOFT if hugs else SPACE))
            result += [parts[k], _IfBroken(" ")] if hugs else [f"{parts[k]} "]
            start = k + 1
        result.append(self.part(parts[start:], where))
        return result

    def part(self, parts: Sequence[Any], where: int) -> Doc:
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
        items = self.items(e.elts)
        if len(items) == 1:
            return _Group(["(", _Indent([SOFT, items[0], ","]), SOFT, ")"])
        inside = self.separated(items)
        return _Group([_IfBroken("("), _Indent([SOFT, inside]), SOFT, _IfBroken(")")])


class _OneLine(_Builder):
    """The same with all on one line: documents are strings."""

    def bracket(self, left: str, content: Doc, right: str, where: int) -> Doc:
        return f"{left}{content}{right}"

    def break_(self, where: int, line: _Line) -> Doc:
        return " " if line.space else ""

    def group(self, content: Doc, where: int) -> Doc:
        return content

    def joined(self, parts: list[Any]) -> Doc:
        return "".join(parts)

    def if_broken(self, text: str) -> Doc:
        return ""

    def inside(self, e: ast.expr) -> Doc:
        return self.doc(e, BRACKETS)

    def item(self, text: str) -> Doc:
        return text

    def operators(self, parts: Sequence[Any], where: int) -> Doc:
        line: list[str] = [parts[0][0]]
        for k in range(1, len(parts), 2):
            sign = parts[k] if _hugs(parts, k) else f" {parts[k]} "
            line += [sign, parts[k + 1][0]]
        return "".join(line)

    def last(self, e: ast.expr) -> Doc:
        return self.doc(e, BRACKETS)

    def bare_tuple(self, e: ast.Tuple) -> Doc:
        items = self.items(e.elts)
        return f"({items[0]},)" if len(items) == 1 else ", ".join(map(str, items))


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


def _hugs(parts: Sequence[Any], k: int) -> bool:
    """Whether no space is round operator number k: a power of simple operands."""
    return bool(parts[k] == "**" and parts[k - 1][1] and parts[k + 1][1])


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
_PLAIN = re.compile(
    rf"{WORD}+( = ({_ATOM}(\((?:{WORD}|[., ])*\))?|{_ATOM} [-+/@] {_ATOM})"
    rf"|: {_ATOM}(\[{_ATOM}\])?)"
)
_CALL = rf"{_ATOM}(?:\((?:{WORD}|[., ])*\))?"
_SHAPE = rf"\((?:{_ATOM}(?:,|(?:, {_ATOM})+))?\)"
_ITEM = rf"{_CALL}|\(\"[^\"\\\n]*\", {_CALL}, {_SHAPE}\)"
_STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_START = r"(?:(?<=[(\[{])|(?<=, )|(?<== ))"
_RUN = re.compile(rf"{_STRING}|{_START}(?:(?:{_ITEM}), ){{50,}}")
_LONG = 2000
"""Texts from this length on are searched for runs."""
_STAND_IN = "_run_of_items_"
_SHORT = 40
"""Items of a run up to this length are on a line of their own without measuring."""


def _runs(text: str) -> tuple[str, dict[str, list[str]]]:
    """The text with a name in the place of each run of items that are spelled as they should be
    and need not be parsed, and the items by that name."""
    runs: dict[str, list[str]] = {}

    def named(match: re.Match[str]) -> str:
        if match[0][0] in "\"'":
            return match[0]
        name = f"{_STAND_IN}{len(runs)}"
        runs[name] = re.findall(f"({_ITEM}), ", match[0])
        return f"{name}, "

    return _RUN.sub(named, text), runs


def statement(text: str, indent: int = 0) -> list[str]:
    """The lines of a simple statement, or of the head of an `if`, `for`, `while` or `with`."""
    if fits(text, indent) and _PLAIN.fullmatch(text):
        return [" " * indent + text]
    if len(text) > _LONG and _STAND_IN not in text:
        lines = _laid_out(*_runs(text), indent)
        if not any(_STAND_IN in line for line in lines):
            return lines
    return _laid_out(text, {}, indent)


def _laid_out(text: str, runs: Mapping[str, Sequence[str]], indent: int) -> list[str]:
    """The lines of a statement in which names stand for runs of items."""
    margin = " " * indent
    is_head = text.endswith(":")
    (node,) = ast.parse(f"{text}\n    pass" if is_head else text).body
    line = _statement_doc(_OneLine(text, runs=runs), node)
    assert isinstance(line, str)
    if fits(line, indent):
        return [margin + line]
    doc = _statement_doc(_Builder(text, indent, runs=runs), node)
    return (margin + _Writer(indent).write(doc, indent)).split("\n")


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _statement_doc(build: _Builder, node: ast.stmt) -> Doc:
    if isinstance(node, ast.Assign):
        targets: list[Doc] = []
        for target in node.targets:
            targets += [_target(build, target), " = "]
        return build.joined([*targets, _value(build, node.value)])
    if isinstance(node, ast.AugAssign):
        operator = _BINARY[type(node.op)]
        left, right = _target(build, node.target), _value(build, node.value)
        return build.joined([left, f" {operator}= ", right])
    if isinstance(node, ast.AnnAssign):
        head = [_target(build, node.target), ": ", build.doc(node.annotation, BRACKETS)]
        tail = [] if node.value is None else [" = ", _value(build, node.value)]
        return build.joined([*head, *tail])
    if isinstance(node, ast.Return):
        if node.value is None:
            return "return"
        return build.joined(["return ", _value(build, node.value)])
    if isinstance(node, ast.Raise) and node.exc is not None:
        cause = [" from ", _value(build, node.cause)] if node.cause else []
        return build.joined(["raise ", _value(build, node.exc), *cause])
    if isinstance(node, ast.Expr):
        return _value(build, node.value)
    if isinstance(node, ast.If | ast.While):
        word = "if " if isinstance(node, ast.If) else "while "
        return build.joined([word, build.last(node.test), ":"])
    if isinstance(node, ast.With):
        context = build.doc(node.items[0].context_expr, STATEMENT)
        return build.joined(["with ", context, ":"])
    if isinstance(node, ast.For):
        left, right = _target(build, node.target), _value(build, node.iter)
        return build.joined(["for ", left, " in ", right, ":"])
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
    tree = _parsed(value)
    doc = [f"{key}: " if key else "", builder.doc(tree, BRACKETS), ","]
    margin = " " * indent
    return (margin + _Writer(indent).write(doc, indent)).split("\n")


def expression(text: str) -> tuple[str, int]:
    """The expression on one line as the formatter spells it, and how tightly it binds."""
    tree = _parsed(text)
    line = _OneLine(text).doc(tree, BRACKETS)
    assert isinstance(line, str)
    return line, _level(tree)


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

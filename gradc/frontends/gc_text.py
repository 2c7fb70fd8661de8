"""The text of a `.gc` file as statements of Python's grammar, with places for messages.

The text is parsed a few hundred lines at a time, so that memory is bounded by the longest
statement and a syntax error in one statement does not hide the errors of the others.
"""

from __future__ import annotations

import ast
import keyword
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradc.errors import GradcError, ParseError, Source, Span
from gradc.types import NAME

__all__ = [
    "MAX_STATEMENT",
    "MAX_TEXT",
    "Broken",
    "Piece",
    "assertions",
    "assigned",
    "pieces",
    "source_of",
    "span_of",
    "starts_of",
]

MAX_TEXT = 64 * 2**20
"""Characters in a file."""
MAX_STATEMENT = 4 * 2**20
"""Characters in a statement: Python's tree of one is some hundred times as large."""
CHUNK = 32 * 2**10
"""Characters parsed together, unless a statement is longer."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Statements parsed together; `shift` is added to their line numbers."""

    body: list[ast.stmt]
    shift: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A statement that is not in Python's grammar, and the names it may have meant to bind."""

    error: GradcError
    names: tuple[str, ...]


def source_of(text: str, filename: str) -> Source:
    """The text with line feeds alone between lines. ParseError where it can't be a file."""
    if len(text) > MAX_TEXT:
        raise ParseError(
            f"{filename}: the text has {len(text)} characters, at most {MAX_TEXT} are read",
            code="too-large",
            hint='keep arrays in a file beside it: load("weights.npz", "W")',
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ParseError(
            f"{filename}:{line}: the character U+{ord(text[error.start]):04X} is half of a pair",
            code="encoding",
            hint="save the file as UTF-8",
        ) from None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Source(filename, text)


def span_of(source: Source, node: ast.AST, shift: int) -> Span:
    """The place of a piece of syntax; Python counts columns in bytes, a `Span` in characters."""
    line = node.lineno + shift  # type: ignore[attr-defined]
    end = node.end_lineno + shift  # type: ignore[attr-defined]
    lines = source.lines
    return Span(
        source,
        line,
        _column(lines[line - 1], node.col_offset),  # type: ignore[attr-defined]
        end,
        _column(lines[end - 1], node.end_col_offset),  # type: ignore[attr-defined]
    )


def _column(line: str, offset: int) -> int:
    if line.isascii():
        return offset + 1
    return len(line.encode()[:offset].decode(errors="ignore")) + 1


# ------------------------------------------------------------- cutting into statements

_MARK = re.compile(
    r"""'''|\"\"\""""
    r"""|'(?:[^'\\\n]|\\.)*+'?|"(?:[^"\\\n]|\\.)*+"?"""
    r"""|\#[^\n]*|[\[\](){}]|\\\n|\n(?=[^\s\#])""",
    re.DOTALL,
)
_CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")


def starts_of(text: str) -> list[int]:
    """Where the top-level statements start: lines at column 0 outside brackets and strings."""
    starts = [0]
    depth = 0
    decorated = text.startswith("@")
    position = 0
    while (found := _MARK.search(text, position)) is not None:
        mark = found[0]
        position = found.end()
        first = mark[0]
        if mark in ("'''", '"""'):
            position = _end_of_string(text, mark, position)
        elif first in "[({":
            depth += 1
        elif first in "])}":
            depth = max(0, depth - 1)
        elif first == "\n" and depth == 0 and not _CONTINUES.match(text, position):
            if not decorated:
                starts.append(position)
            decorated = text[position] == "@"
    return starts


def _end_of_string(text: str, quotes: str, position: int) -> int:
    while (end := text.find(quotes, position)) >= 0:
        before = end
        while text[before - 1] == "\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end + 3
        position = end + 1
    return len(text)


def assertions(source: Source, starts: Sequence[int]) -> Iterator[Piece]:
    """The top-level `assert`s, which are read before all else."""
    text = source.text
    line = position = 0
    for k, start in enumerate(starts):
        if text.startswith("assert", start):
            line += text.count("\n", position, start)
            position = start
            end = starts[k + 1] if k + 1 < len(starts) else len(text)
            body = _parsed(text[start:end])
            if body is not None:
                yield Piece(body, line)


def assigned(source: Source, starts: Sequence[int]) -> set[str]:
    """The names that top-level statements begin with: those that they bind, and some more."""
    found = (_HEAD.match(source.text, start) for start in starts)
    return {unicodedata.normalize("NFKC", m[0]) for m in found if m is not None}


_HEAD = re.compile(NAME)


def pieces(source: Source, starts: Sequence[int]) -> Iterator[Piece | Broken]:
    """The statements of a source in order, and what could not be parsed."""
    text = source.text
    line = 0
    k = 0
    while k < len(starts):
        stop = k + 1
        while stop < len(starts) and starts[stop] - starts[k] < CHUNK:
            stop += 1
        end = starts[stop] if stop < len(starts) else len(text)
        chunk = text[starts[k] : end]
        body = _parsed(chunk)
        if body is not None:
            yield Piece(body, line)
            line += chunk.count("\n")
        else:
            for j in range(k, stop):
                end = starts[j + 1] if j + 1 < len(starts) else len(text)
                chunk = text[starts[j] : end]
                yield _single(source, chunk, line)
                line += chunk.count("\n")
        k = stop


def _parsed(text: str) -> list[ast.stmt] | None:
    """The statements, or None for `_single` to say what is wrong with which."""
    if len(text) > MAX_STATEMENT:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _single(source: Source, text: str, shift: int) -> Piece | Broken:
    error: GradcError
    first = Span(source, shift + 1, 1, shift + 1, len(source.line(shift + 1)) + 1)
    if len(text) > MAX_STATEMENT:
        error = ParseError(
            f"a statement of {len(text)} characters; at most {MAX_STATEMENT} are read",
            code="too-large",
            location=first,
            hint='keep arrays in a file beside it: load("weights.npz", "W")',
        )
        return Broken(error, _bound(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Piece(ast.parse(text).body, shift)
    except SyntaxError as fault:
        error = _syntax_error(source, fault, shift)
    except (RecursionError, MemoryError):
        error = ParseError(
            "the statement is nested too deeply, or has too many terms in a row",
            code="too-deep",
            location=first,
            hint="give parts of it names of their own",
        )
    except ValueError as fault:
        error = ParseError(str(fault), location=first)
    return Broken(error, _bound(text))


def _bound(text: str) -> tuple[str, ...]:
    """The names at the front of a statement, up to its `=` or `:`."""
    head = re.split(r"[=:\n]", text[:1000], maxsplit=1)[0]
    words = [unicodedata.normalize("NFKC", word) for word in re.findall(NAME, head)]
    return tuple(word for word in words if not keyword.iskeyword(word))


def _syntax_error(source: Source, fault: SyntaxError, shift: int) -> ParseError:
    line = min((fault.lineno or 1) + shift, len(source.lines))
    text = source.line(line)
    column = min(max(fault.offset or 1, 1), len(text) + 1)
    end = len(text) + 1
    if fault.end_lineno == fault.lineno and fault.end_offset:
        end = min(max(fault.end_offset, column + 1), len(text) + 1)
    message = fault.msg.split(" (<unknown>")[0]
    hint = ""
    for word in (
        re.match(r"\s*(\w+)\s*[:=]", text),
        re.match(r"(\w+)", text[column - 1 :]),
    ):
        if word and keyword.iskeyword(word[1]) and message.startswith("invalid syntax"):
            hint = f"`{word[1]}` is a word of Python's own syntax and can't be a name"
    if "integer string conversion" in message:
        message = "a number of more than 4300 digits"
        hint = "write it as a float: 1e300"
    elif "null bytes" in message:
        message = "the text holds a NUL character"
    return ParseError(
        message, location=Span(source, line, column, line, max(end, column)), hint=hint
    )

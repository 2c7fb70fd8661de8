"""Errors and the places they point at.

Every error a user can meet derives from `GradcError`. Front ends collect errors and raise them
together as one `GradcErrors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "GradcError",
    "GradcErrors",
    "GradientError",
    "InternalError",
    "OptionError",
    "ParseError",
    "ShapeError",
    "Source",
    "SourceError",
    "Span",
    "TypeMismatch",
    "UnsupportedError",
]


@dataclass(frozen=True, slots=True)
class Source:
    """The text a graph was read from, and what to call it in messages."""

    name: str
    text: str
    _lines: list[str] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    @property
    def lines(self) -> list[str]:
        """The lines of the text; split once, since every statement's text is looked up."""
        if not self._lines:
            self._lines.extend(self.text.split("\n"))
        return self._lines

    def line(self, number: int) -> str:
        """Line `number` (from 1) without its end, or "" where there is none."""
        lines = self.lines
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a `Source`; lines and columns count from 1, the end column is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def place(self) -> str:
        """`model.gc:7:13`."""
        return f"{self.source.name}:{self.line}:{self.column}"

    @property
    def place_of_line(self) -> str:
        """`model.gc:7`."""
        return f"{self.source.name}:{self.line}"

    @property
    def text(self) -> str:
        """The text under the span (its first line where it has several)."""
        line = self.source.line(self.line)
        end = self.end_column - 1 if self.end_line == self.line else len(line)
        return line[self.column - 1 : end]


class GradcError(Exception):
    """Base of all errors.

    `code` is a stable word (`shape-mismatch`), `location` the place or None, `message` one line,
    `notes` further facts (the operands' types), `hint` a way out or "".
    """

    default_code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        location: Span | None = None,
        hint: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.location = location
        self.hint = hint
        self.notes = tuple(notes)

    def at(self, location: Span | None) -> GradcError:
        """Fill in the place where the error has none yet; returns itself."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        return render(self)

    def to_json(self) -> dict[str, Any]:
        """The error as plain values for `--json`."""
        place: dict[str, Any] | None = None
        if self.location is not None:
            span = self.location
            place = {
                "file": span.source.name,
                "line": span.line,
                "column": span.column,
                "end_line": span.end_line,
                "end_column": span.end_column,
            }
        return {
            "severity": "error",
            "code": self.code,
            "message": self.message,
            "location": place,
            "notes": list(self.notes),
            "hint": self.hint,
        }


class ParseError(GradcError):
    """The text is not a graph: bad syntax, an unknown name, a construct outside the language."""

    default_code = "syntax"


class TypeMismatch(GradcError):
    """Dtypes that don't go together, or an argument of the wrong kind."""

    default_code = "type-mismatch"


class ShapeError(GradcError):
    """Shapes that don't fit, an axis that does not exist."""

    default_code = "shape-mismatch"


class GradientError(GradcError):
    """A gradient that cannot be had."""

    default_code = "no-gradient"


class OptionError(GradcError):
    """An option with a value it does not take."""

    default_code = "bad-option"


class SourceError(GradcError):
    """A file that can't be read, or lies outside the folders named."""

    default_code = "bad-file"


class UnsupportedError(GradcError):
    """Part of the language that this version does not have yet."""

    default_code = "not-yet"


class InternalError(GradcError):
    """A fault of gradc itself."""

    default_code = "internal"


class GradcErrors(GradcError):
    """All the errors of one file, in the order of their places."""

    def __init__(self, errors: Iterable[GradcError]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(
            first.message, code=first.code, location=first.location, hint=first.hint
        )

    def __str__(self) -> str:
        return "\n".join(render(error) for error in self.errors)


MAX_LINE = 200


def render(error: GradcError) -> str:
    """The error as a user reads it: place, fact, source line with a caret, notes, hint.

    ```
    model.gc:7:13: error: matmul: inner sizes differ: D and K [shape-mismatch]
        7 | z = sigmoid(X @ w)
          |             ^^^^^
      hint: transpose one operand
    ```
    """
    span = error.location
    place = f"{span.place}: " if span else ""
    lines = [f"{place}error: {error.message} [{error.code}]"]
    if span is not None:
        text = span.source.line(span.line).replace("\t", " ")
        if text.strip() and len(text) <= MAX_LINE:
            end = span.end_column if span.end_line == span.line else len(text) + 1
            width = max(1, min(end, len(text) + 1) - span.column)
            lines.append(f"{span.line:>5} | {text}")
            lines.append(f"      | {' ' * (span.column - 1)}{'^' * width}")
    lines.extend(f"  {note}" for note in error.notes)
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)

"""What the command line says: diagnostics as text or JSON, and signs of life."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

from gradc.errors import GradcError, GradcErrors, Source, render

__all__ = [
    "Failed",
    "UsageProblem",
    "errors_text",
    "print_json",
    "progress",
    "show",
    "table_lines",
    "write_lines",
]

RED, RESET = "\x1b[1;31m", "\x1b[0m"


class UsageProblem(GradcError):
    """The command line is wrong: exit status 2."""

    default_code = "usage"


class Failed(Exception):
    """A check that did not pass, told already: exit status 1 and no more words."""


def has_colour(stream: TextIO | None) -> bool:
    """Whether to write colours: on a terminal, unless NO_COLOR is set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks on."""
    return stream is not None and stream.isatty()


def listed(error: GradcError) -> tuple[GradcError, ...]:
    """The single errors of an error."""
    return error.errors if isinstance(error, GradcErrors) else (error,)


def relocated(error: GradcError, path: str) -> GradcError:
    """The error with its place under the path that was given for the file."""
    span = error.location
    if span is not None and path and span.source.name == os.path.basename(path):
        error.location = replace(span, source=Source(path, span.source.text))
    return error


def errors_text(errors: Sequence[GradcError], is_json: bool, colour: bool) -> str:
    """The errors as the user asked for them, with a newline at the end."""
    if is_json:
        return (
            json.dumps({"errors": [e.to_json() for e in errors]}, ensure_ascii=False)
            + "\n"
        )
    texts = []
    for error in errors:
        text = printable(render(error))
        if colour:
            place = f"{error.location.place}: " if error.location else ""
            text = text.replace(f"{place}error:", f"{place}{RED}error:{RESET}", 1)
        texts.append(text)
    return "\n".join(texts) + "\n"


def printable(text: str) -> str:
    """The text without the control characters by which a file could steer a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)


def show(error: GradcError, is_json: bool, path: str = "") -> None:
    """Write an error to stderr."""
    errors = [relocated(e, path) for e in listed(error)]
    write(sys.stderr, errors_text(errors, is_json, has_colour(sys.stderr)))


def write(stream: TextIO | None, text: str) -> None:
    """Write a text; what the terminal's encoding can't show is escaped."""
    if stream is None:  # closed by whoever called
        return
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def print_json(value: Any) -> None:
    """Write a result to stdout as JSON."""
    write(sys.stdout, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout."""
    write(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def table_lines(rows: Sequence[Sequence[str]], indent: str = "") -> Iterator[str]:
    """The rows of a table as lines, their cells but the last under each other."""
    widths: dict[int, int] = {}
    for row in rows:
        for k, cell in enumerate(row[:-1]):
            widths[k] = max(widths.get(k, 0), len(cell))
    for row in rows:
        cells = [cell.ljust(widths.get(k, 0)) for k, cell in enumerate(row)]
        yield indent + "   ".join(cells).rstrip()


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Say what is going on where it takes more than a second and a person looks on."""
    if not is_terminal(sys.stderr):
        yield
        return
    shown = threading.Event()

    def say() -> None:
        shown.set()
        write(sys.stderr, f"{what} ...")

    timer = threading.Timer(1.0, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if shown.is_set():
            write(sys.stderr, f"\r{' ' * (len(what) + 4)}\r")

"""Cutting a text into statements, places in it, and texts that are no text."""

from __future__ import annotations

import ast
import json
import random
import textwrap
from pathlib import Path

import pytest

from gradc.errors import GradcErrors
from gradc.frontends.gc import parse
from gradc.frontends.gc_text import Broken, Piece, pieces, source_of, span_of, starts_of

LIBRARY = Path(ast.__file__).parent
FILES = [
    *("ast.py", "argparse.py", "decimal.py", "doctest.py", "inspect.py", "string.py"),
    *(
        "tokenize.py",
        "textwrap.py",
        "typing.py",
        "zipfile.py",
        "json/decoder.py",
        "re/_parser.py",
    ),
]


def statements(text: str) -> list[tuple[ast.stmt, int]]:
    source = source_of(text, "t.gc")
    found = []
    for piece in pieces(source, starts_of(source.text)):
        assert isinstance(piece, Piece)
        found += [(statement, piece.shift) for statement in piece.body]
    return found


@pytest.mark.parametrize("name", [f for f in FILES if (LIBRARY / f).exists()])
def test_pieces_are_the_statements_of_the_whole(name: str) -> None:
    """On large real files: the same trees at the same lines as when parsed at once."""
    text = (LIBRARY / name).read_text(encoding="utf-8")
    whole = ast.parse(text).body
    found = statements(text)
    assert [ast.dump(s) for s, _ in found] == [ast.dump(s) for s in whole]
    assert [s.lineno + shift for s, shift in found] == [s.lineno for s in whole]


def test_starts_lie_outside_strings_and_brackets() -> None:
    text = textwrap.dedent(
        '''\
        a = """
        b = 1
        \\"""
        c = 2
        """
        d = (
        1,
        # ' "
        )
        e = 'it\\'s' \\
        + "x"
        @f
        def g():
            pass
        # comment

        for h in i:
            pass
        else:
            pass
        j = r'\\' + "'"
        k = 1
        '''
    )
    heads = [text[start : start + 1] for start in starts_of(text)]
    assert heads == ["a", "d", "e", "@", "f", "j", "k"]


def test_an_error_in_one_statement_leaves_the_others() -> None:
    source = source_of("a = 1\nb = (2,\nc = 3\n)\nd = ]\ne = 5\n", "t.gc")
    found = list(pieces(source, starts_of(source.text)))
    broken = [p for p in found if isinstance(p, Broken)]
    assert [p.error.location.line for p in broken if p.error.location] == [3, 5]
    assert [p.names for p in broken] == [("b",), ("d",)]
    kept = [(p.body[0].lineno + p.shift) for p in found if isinstance(p, Piece)]
    assert kept == [1, 6]


def test_spans_count_characters() -> None:
    source = source_of("é = 'ßß' + fn(é,\n  日本)\n", "t.gc")
    (piece,) = pieces(source, starts_of(source.text))
    assert isinstance(piece, Piece)
    call = next(n for n in ast.walk(piece.body[0]) if isinstance(n, ast.Call))
    span = span_of(source, call, piece.shift)
    assert (span.line, span.column, span.end_line, span.end_column) == (1, 12, 2, 6)


def message(text: str) -> str:
    with pytest.raises(GradcErrors) as caught:
        parse(text, "t.gc")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = \0", "NUL character [syntax]"),
        ("x = '\ud800'", "half of a pair [encoding]"),
        ("x = " + "(" * 500 + "1" + ")" * 500, "too many nested parentheses [syntax]"),
        ("x = " + "-" * 100_000 + "1", "nested too deeply"),
        ("x = " + "not " * 50_000 + "y", "nested too deeply"),
        ("x = " + "a." * 50_000 + "b", "nested too deeply"),
        ("x = " + "+".join(["1"] * 100_000), "too many terms in a row [too-deep]"),
        ("x = " + "1" * 5000, "more than 4300 digits [syntax]"),
        ("x = '''", "unterminated triple-quoted string"),
        ("x = 'abc", "unterminated string"),
        ("  x = 1", "unexpected indent [syntax]"),
        ("x: float\nif = 3", "`if` is a word of Python's own syntax"),
        ("x: float\nx = yield", "`yield` is not part of the graph language"),
        ("\\", "[syntax]"),
        ("x = [" + "1, " * 1_500_000 + "1]", "at most 4194304 are read [too-large]"),
        ("#" * (64 * 2**20 + 1), "at most 67108864 are read [too-large]"),
        ("", "the graph returns nothing [no-output]"),
        ("\n\n  # nothing\n", "the graph returns nothing [no-output]"),
    ],
    ids=range(18),
)
def test_what_is_no_text(text: str, expected: str) -> None:
    assert expected in message(text)


def test_errors_as_plain_values() -> None:
    with pytest.raises(GradcErrors) as caught:
        parse("x: float\ny = exo(x)\nreturn y", "t.gc")
    (error,) = caught.value.errors
    plain = json.loads(json.dumps(error.to_json()))
    assert plain["location"] == {
        "file": "t.gc",
        "line": 2,
        "column": 5,
        "end_line": 2,
        "end_column": 11,
    }
    assert (plain["code"], plain["hint"]) == ("unknown-function", "did you mean exp?")


def test_bytes_at_random_are_refused_with_an_error() -> None:
    random_numbers = random.Random(7)
    alphabet = "ab(=[]'\"\\\n#:,+ \t\x0c0.é@{}"
    for _ in range(2000):
        text = "".join(random_numbers.choices(alphabet, k=random_numbers.randrange(40)))
        with pytest.raises(GradcErrors):
            parse(text, "t.gc")

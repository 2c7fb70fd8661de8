"""Names, comments and strings of emitted source."""

import ast
import keyword

import pytest

from gradc.emit.names import (
    LONGEST,
    Namer,
    comment,
    docstring,
    identifier,
    plain,
    quoted,
)

HOSTILE = [
    "dense/kernel:0",
    "2fa",
    "lambda",
    "été",
    "",
    "/",
    "a" * 10_000,
    "a b",
    "x\u202ey",
    "\N{LATIN SMALL LIGATURE FI}",
    "print('x')",
    '"""',
    "\\",
    "x\ny = 1",
    "\ud800",
    "-",
    "__",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_identifiers_are_legal(text):
    name = identifier(text)
    assert name.isidentifier()
    assert not keyword.iskeyword(name)
    assert len(name) <= LONGEST + 1
    assert identifier(name) == name


def test_identifiers_stay_as_they_are_where_they_can():
    assert identifier("w_bar") == "w_bar"
    assert identifier("dense/kernel:0") == "dense_kernel_0"
    assert identifier("été") == "été"


def test_long_names_that_differ_at_the_end_stay_apart():
    assert identifier("a" * 5000 + "b") != identifier("a" * 5000 + "c")


def test_namer_keeps_keys_apart():
    namer = Namer()
    wanted = ["x", "x", "X", "x_2", "np", "np_", "print", "x-", "x/"]
    names = [namer(k, text) for k, text in enumerate(wanted)]
    assert len(set(names)) == len(names)
    assert names[:3] == ["x", "x_2", "X"]
    assert names[4] == "np_"
    assert [namer(k, text) for k, text in enumerate(wanted)] == names


@pytest.mark.parametrize("text", HOSTILE)
def test_strings_read_back(text):
    literal = quoted(text)
    assert ast.literal_eval(literal) == text
    assert literal.isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_stay_on_their_line(text):
    line = comment(text, 4)
    assert line.startswith("    #")
    assert line.isprintable()
    assert len(line) <= 88
    assert "\n" not in plain(text)


@pytest.mark.parametrize("text", [*HOSTILE, 'ends with "', "a\n\tb\n"])
def test_docstrings_stay_strings(text):
    source = f'"""{docstring(text)}.\n"""\nx = 1\n'
    tree = ast.parse(source)
    assert [type(node) for node in tree.body] == [ast.Expr, ast.Assign]

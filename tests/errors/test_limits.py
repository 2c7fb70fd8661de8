"""Texts past the limits, whose errors no file beside this one could hold; and arrays in files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradc.errors import GradcError
from gradc.frontends import gc_calls, gc_load, gc_text
from gradc.frontends.gc import parse
from gradc.frontends.gc_load import load_array


def message(call: Any, *arguments: Any, **options: Any) -> str:
    """The whole text of the error."""
    with pytest.raises(GradcError) as caught:
        call(*arguments, **options)
    return f"{caught.value}"


def test_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_text, "MAX_TEXT", 20)
    assert message(parse, "x: float\n" * 3, "long.gc") == (
        "error: long.gc: the text has 27 characters, at most 20 are read [too-large]\n"
        '  hint: keep arrays in a file beside it: load("weights.npz", "W")'
    )


def test_half_of_a_pair() -> None:
    assert message(parse, "x: float\ny = x # \ud800\n", "half.gc") == (
        "error: half.gc:2: the character U+D800 is half of a pair [encoding]\n"
        "  hint: save the file as UTF-8"
    )


def test_a_long_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_text, "MAX_STATEMENT", 30)
    text = f"x: float\ny = [{'1, ' * 40}]\nreturn x\n"
    first, _, rest = message(parse, text, "a.gc").partition("\n")
    assert first == (
        "a.gc:2:1: error: a statement of 127 characters; at most 30 are read [too-large]"
    )
    assert rest.endswith(
        '  hint: keep arrays in a file beside it: load("weights.npz", "W")'
    )


def test_many_terms_and_deep_brackets() -> None:
    terms = f"x: float\ny = x{' + x' * 100_000}\nreturn y\n"
    deep = f"x: float\ny = {'(' * 1000}x{')' * 1000}\nreturn y\n"
    for text, what in (
        (terms, "the statement is nested too deeply, or has too many terms in a row"),
        (deep, "too many nested parentheses"),
    ):
        found = message(parse, text, "a.gc").splitlines()
        assert found[0].startswith("a.gc:2:")
        assert found[0].endswith(f": error: {what} [too-deep]") or (
            found[0].endswith(f": error: {what} [syntax]")
        )


def test_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_calls, "MAX_NODES", 50)
    text = "x: float\nfor i in range(60):\n    x = x * 2.0 + i\nreturn x\n"
    assert message(parse, text, "a.gc") == (
        "a.gc:3:9: error: the graph has more than 50 nodes [too-large]\n"
        "    3 |     x = x * 2.0 + i\n"
        "      |         ^^^^^^^^^^^\n"
        "  hint: loops are unrolled, and a `def` is read at each of its calls: work on whole "
        "arrays, whose size costs nothing here"
    )


def test_arrays_that_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "one.npy", np.ones(3))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "words.npy", np.array(["a"]))
    np.savez(tmp_path / "two.npz", a=np.ones(3), b=np.ones(3))
    whole = (tmp_path / "one.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-5])
    (tmp_path / "none.npy").write_bytes(b"hello, world")
    (tmp_path / "empty.npz").write_bytes(b"PK")
    np.save(tmp_path / "bools.npy", np.ones(3, bool))
    bools = (tmp_path / "bools.npy").read_bytes()
    (tmp_path / "bools.npy").write_bytes(bools[:-1] + b"\x02")
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        archive.writestr("a.npy", whole[:-5])

    def told(name: str, key: str | None = None, folder: Path | None = tmp_path) -> str:
        return message(load_array, folder, name, key).removeprefix("error: ")

    assert told("one.npy", "a") == (
        'one.npy holds one array, which has no name [bad-file]\n  hint: write load("one.npy")'
    )
    assert told("two.npz") == (
        'two.npz holds a, b: say which [bad-file]\n  hint: write load("two.npz", "name")'
    )
    assert told("two.npz", "c") == "two.npz holds no 'c', it holds a, b [bad-file]"
    not_read = (
        "which is not read [{}]\n  hint: save an array of numbers: array.astype(float)"
    )
    pickled = not_read.format("pickle")
    assert told("objects.npy") == f"objects.npy needs pickle, {pickled}"
    assert told("words.npy") == (
        f"words.npy has dtype <U1, {not_read.format('bad-file')}"
    )
    damaged = "is damaged: its header says 24 bytes, it has 19 [bad-file]"
    assert told("cut.npy") == f"cut.npy {damaged}"
    assert told("short.npz") == f"short.npz: a {damaged}"
    assert told("none.npy") == "none.npy is no array in NumPy's format [bad-file]"
    assert told("empty.npz") == (
        "empty.npz is damaged: File is not a zip file [bad-file]"
    )
    assert told("bools.npy") == (
        "bools.npy is damaged: a bool that is neither 0 nor 1 [bad-file]"
    )
    assert told("one.npy", folder=None) == (
        "load needs a folder: this text is not in a file [bad-file]\n"
        "  hint: put the text in a .gc file beside the arrays, or pass folder="
    )
    monkeypatch.setattr(gc_load, "MAX_BYTES", 10)
    assert told("one.npy") == (
        "one.npy has 24 bytes, at most 10 are read [too-large]\n"
        "  hint: declare it as an input"
    )

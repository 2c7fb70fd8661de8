"""gradc run: reading data, and what it prints."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from shell import Shell

GRAPH = """\
X: float[N, D]
y: float[N]
w: float[D]
k: int[N]
l2: float = input(0.5)
z = X @ w
loss = sum((z - y) ** 2) + l2 * sum(w**2)
cut = stop_gradient(w)
differentiate(loss, [w, l2, k])
return loss, z, cut
"""


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "fit.gc").write_text(GRAPH)
    (folder / "X.csv").write_text("a, b\n1,2\n3,4\n\n5,6\n")
    (folder / "labels.csv").write_text("\ufeffid,diagnosis\n7,1\n8,0\n9,1\n", "utf-8")
    (folder / "k.csv").write_text("0\n1\n2\n")
    np.savez(folder / "data.npz", X=[[1.0, 2.0]], y=[0.5], w=[1.0, 1.0], k=[3], more=1)


RUN = ["run", "fit.gc", "--target", "numpy"]


def test_scalars_shapes_and_norms(gradc: Shell) -> None:
    done = gradc(*RUN, "--in", "X=X.csv", "y=labels.csv:diagnosis", "k=k.csv", "w=1")
    assert done.err == ""
    assert done.status == 0
    assert done.out == (
        "loss             154.0\n"
        "z                float64[3]   norm 13.3791\n"
        "cut              float64[2]   norm 1.41421\n"
        "gradient by w    float64[2]   norm 236.292\n"
        "gradient by l2   2.0\n"
        "gradient by k    None: k is int64: integer and bool tensors are constants\n"
    )


def test_json_and_results_in_a_file(gradc: Shell, folder: Path) -> None:
    done = gradc(*RUN, "data.npz", "l2=0", "-o", "out.npz", "--json")
    assert done.status == 0
    assert json.loads(done.out) == {
        "outputs": {
            "loss": 6.25,
            "z": {"dtype": "float64", "shape": [1], "norm": 3.0},
            "cut": {"dtype": "float64", "shape": [2], "norm": 2**0.5},
        },
        "gradients": {
            "w": {"dtype": "float64", "shape": [2], "norm": 5 * 5**0.5},
            "l2": 2.0,
            "k": None,
        },
    }
    with np.load(folder / "out.npz") as results:
        assert sorted(results) == ["cut", "grad_l2", "grad_w", "loss", "z"]
        np.testing.assert_array_equal(results["grad_w"], [5.0, 10.0])


def test_targets_agree(gradc: Shell) -> None:
    numpy = gradc(*RUN, "data.npz")
    numba = gradc("run", "fit.gc", "data.npz")
    assert numba.status == 0 and numba.out == numpy.out


def test_json_files(gradc: Shell, folder: Path) -> None:
    (folder / "data.json").write_text(
        '{"X": [[1, 2.0]], "y": [0.5], "w": [1, true], "k": [3.0], "more": {"a": null}}'
    )
    (folder / "X.json").write_text("[[1.0, 2.0]]")
    (folder / "y.json").write_text('{"y": [5e-1]}')
    want = gradc(*RUN, "data.npz")
    assert want.status == 0
    assert gradc(*RUN, "data.json") == want
    words = ["X=X.json", "y=y.json", "w=data.json:w", "k=data.npz:k"]
    assert gradc(*RUN, *words) == want
    empty = gradc(*RUN, "data.json", "X=X.json", "--in", "l2=Infinity")
    assert empty.out.startswith("loss             inf\n")


def test_words_win_over_archives(gradc: Shell) -> None:
    first = gradc(*RUN, "--in", "data.npz", "--in", "w=0", "--json")
    assert json.loads(first.out)["outputs"]["loss"] == 0.25
    again = gradc(*RUN, "--in", "w=0", "data.npz", "--json")
    assert again.out == first.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["y=0", "y=data.npz:y"], "y is given twice: y=0 and y=data.npz:y"),
        (["w=1", "l2=1", "l2=1"], "l2 is given twice: l2=1 and l2=1"),
        (["data.npz", "data.npz"], "X is given twice: data.npz and data.npz"),
    ],
)
def test_an_input_that_is_given_twice(
    gradc: Shell, words: list[str], message: str
) -> None:
    done = gradc(*RUN, *words)
    assert (done.status, done.err) == (
        2,
        f"error: {message} [usage]\n  hint: leave one out\n",
    )


@pytest.mark.parametrize("key", ["half", "whole"])
def test_floats_for_integers_are_refused_as_the_module_does(
    gradc: Shell, folder: Path, key: str
) -> None:
    np.save(folder / "half.npy", [0.5])
    np.save(folder / "whole.npy", [3.0])
    done = gradc(*RUN, "data.npz", f"k={key}.npy")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        f"error: {key}.npy: k is int64[N], found float64 [bad-data]\n"
        "  hint: save it as int64: array.astype(np.int64)\n"
    )


def test_a_table_that_does_not_fit(gradc: Shell) -> None:
    done = gradc(*RUN, "data.npz", "y=labels.csv")
    assert done.status == 1
    assert done.err == (
        "error: labels.csv: y is float64[N]; a table of 2 columns does not fit "
        "[bad-data]\n"
        "  hint: choose a column with labels.csv:NAME; it has id, diagnosis\n"
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            ["misnamed.npz"],
            2,
            (
                "no data for the input w, which is float64[D] [missing-input]\n"
                "  hint: the file has w1"
            ),
        ),
        (
            ["data.npz", "y=complex.npy"],
            1,
            "complex.npy: complex numbers for y, which is float64[N] [bad-data]",
        ),
        (
            ["data.npz", "l2=labels.csv"],
            1,
            (
                "labels.csv: l2 is float64; a table of 2 columns does not fit [bad-data]\n"
                "  hint: give the array as a .npy file"
            ),
        ),
    ],
)
def test_data_with_a_hint(
    gradc: Shell, folder: Path, words: list[str], status: int, message: str
) -> None:
    np.savez(folder / "misnamed.npz", X=[[1.0, 2.0]], y=[0.5], w1=[1.0, 1.0], k=[3])
    np.save(folder / "complex.npy", [1j])
    done = gradc(*RUN, *words)
    assert (done.status, done.out, done.err) == (status, "", f"error: {message}\n")


def test_float32(gradc: Shell, folder: Path) -> None:
    done = gradc(*RUN, "data.npz", "--float", "float32")
    assert done.status == 0
    assert "z                float32[1]   norm 3\n" in done.out


def test_numbers_that_are_not_finite_are_told(gradc: Shell) -> None:
    done = gradc(*RUN, "data.npz", "l2=inf", "--json")
    assert json.loads(done.out)["outputs"]["loss"] == "inf"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["W=1"],
            "no input is called 'W' [unknown-name]\n  hint: inputs are X, y, w, k, l2",
        ),
        (["XX=1"], "no input is called 'XX' [unknown-name]\n  hint: did you mean X?"),
        (
            ["X=X.csv"],
            (
                "no data for the input y, which is float64[N] [missing-input]\n"
                "  hint: give y=FILE.npy or y=FILE.csv"
            ),
        ),
        (
            ["w=1"],
            (
                "w=1: w is float64[D], and no other data tell D [missing-input]\n"
                "  hint: give w as a file"
            ),
        ),
        (
            ["fit.gc"],
            (
                "fit.gc: expected NAME=VALUE, a .npz or a .json file [usage]\n"
                "  hint: X=features.csv, l2=0.1, data.npz"
            ),
        ),
        (["none.npz"], "none.npz: No such file or directory [bad-file]"),
        (["X=none.csv"], "none.csv: No such file or directory [bad-file]"),
        (
            ["l2=many"],
            (
                "l2=many: expected a number or a file [usage]\n"
                "  hint: files are .csv, .tsv, .json, .npy, .npz"
            ),
        ),
        (
            ["y=labels.csv:diagnose"],
            (
                "labels.csv has no column 'diagnose' [usage]\n"
                "  hint: did you mean diagnosis?"
            ),
        ),
        (
            ["y=k.csv:1"],
            "k.csv has no column '1' [usage]\n  hint: columns are 0 to 0",
        ),
        (
            ["y=data.npz"],
            (
                "data.npz has several arrays [usage]\n"
                "  hint: it has X, y, w, k, more: write data.npz:NAME"
            ),
        ),
        (["-o", "out.txt"], "-o: expected a .npz file, found 'out.txt' [usage]"),
        (["-o", "no/out.npz"], "no/out.npz: there is no folder no [usage]"),
    ],
)
def test_data_that_were_asked_for_wrongly(
    gradc: Shell, words: list[str], message: str
) -> None:
    done = gradc(*RUN, *words)
    assert (done.status, done.out, done.err) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("d.json", "", "d.json:1:1: expecting value"),
        (
            "d.json",
            "{\n'a': 1}",
            "d.json:2:1: expecting property name enclosed in double quotes",
        ),
        ("d.json", '{"y": [1], "y": [2]}', "d.json: 'y' is given twice"),
        ("d.json", '{"y": [1e999]}', "d.json: 1e999 is outside the range of float64"),
        ("d.json", "[" * 99999, "d.json: nested too deeply"),
        ("d.json", '{"y": ["1"]}', "d.json:y[0]: expected a number, found a string"),
        ("d.json", '{"y": [1, null]}', "d.json:y[1]: expected a number, found null"),
        ("d.json", '{"y": {"a": 1}}', "d.json:y: expected a number, found an object"),
        ("d.json", '{"k": [3, 2.5]}', "d.json:k[1]: k is int64, which can't hold 2.5"),
        (
            "d.json",
            '{"X": [[1, 2], [3]]}',
            "d.json:X[1]: expected 2 elements as in the first, found 1",
        ),
        (
            "d.json",
            '{"X": [[[1], [2]], [[3], 4]]}',
            "d.json:X[1][1]: expected 1 elements as in the first, found a number",
        ),
        ("y=d.json", "[[1], [2]]", "y: expected float64[N], got shape (2, 1)"),
        ("y=d.json", "[0, [1]]", "y: d.json[1]: expected a number, found an array"),
    ],
)
def test_json_that_is_wrong(
    gradc: Shell, folder: Path, word: str, text: str, message: str
) -> None:
    (folder / "d.json").write_text(text)
    words = ["X=data.npz:X", "w=data.npz:w", "k=data.npz:k", "y=data.npz:y"]
    name = word.partition("=")[0] if "=" in word else text[2:3]
    done = gradc(*RUN, *(w for w in words if w[:1] != name), word)
    assert (done.status, done.out, done.err) == (
        1,
        "",
        f"error: {message} [bad-data]\n",
    )


def test_json_that_is_asked_for_wrongly(gradc: Shell, folder: Path) -> None:
    (folder / "list.json").write_text("[1]")
    (folder / "two.json").write_text('{"y": [1], "z": [2]}')
    done = gradc(*RUN, "list.json")
    assert (done.status, done.err) == (
        1,
        (
            "error: list.json: expected an object with arrays by the names of inputs, "
            "found an array [bad-data]\n"
            "  hint: for one array write NAME=list.json\n"
        ),
    )
    done = gradc(*RUN, "data.npz", "y=two.json")
    assert (done.status, done.err) == (
        2,
        (
            "error: two.json has several arrays [usage]\n"
            "  hint: it has y, z: write two.json:NAME\n"
        ),
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["l2=1e999"], "l2 is float64, which can't hold 1e999"),
        (["l2=1j"], "l2 is float64, which can't hold 1j"),
        (["k=0.5"], "k is int64, which can't hold 0.5"),
        (
            ["k=99999999999999999999"],
            "k is int64, which can't hold 99999999999999999999",
        ),
        (["y=short.csv:a"], "y: short.csv:3: expected 2 cells, found 1"),
        (["y=words.csv:b"], "y: words.csv:3, column b: expected a number, found 'two'"),
        (["k=half.csv"], "half.csv:2, column 0: k is int64, which can't hold 1.5"),
        (["y=empty.csv"], "y: empty.csv: the table is empty"),
        (["y=latin.csv"], "y: latin.csv: not UTF-8 at byte 2"),
        (["k=large.npy"], "large.npy: k is int64[N], and not all numbers fit int64"),
        (["y=text.npy"], "text.npy: expected numbers for y, found <U1"),
        (
            ["y=data.npz:X"],
            "y: expected float64[N], got shape (1, 2)",
        ),
        (
            ["y=k.csv"],
            "y: expected float64[N] with N = 1 (from X.shape[0]), got shape (3,)",
        ),
        (
            ["y=pickled.npy"],
            (
                "y: pickled.npy: not a NumPy file, or one with pickled objects, "
                "which are never read"
            ),
        ),
        (
            ["y=objects.npz:y"],
            (
                "y: objects.npz:y: not a NumPy file, or one with pickled objects, "
                "which are never read"
            ),
        ),
        (
            ["broken.npz"],
            (
                "broken.npz: not a NumPy file, or one with pickled objects, "
                "which are never read"
            ),
        ),
    ],
)
def test_data_that_are_wrong(
    gradc: Shell, folder: Path, words: list[str], message: str
) -> None:
    (folder / "short.csv").write_text("a,b\n1,2\n3\n")
    (folder / "words.csv").write_text("a,b\n1,2\n3,two\n")
    (folder / "half.csv").write_text("1\n1.5\n")
    (folder / "empty.csv").write_text("\n")
    (folder / "latin.csv").write_bytes(b"1\n\xe9\n")
    np.save(folder / "large.npy", np.array([2**64 - 1], np.uint64))
    np.save(folder / "text.npy", ["a"])
    (folder / "pickled.npy").write_bytes(pickle.dumps({"y": 1}))
    np.savez(folder / "objects.npz", y=np.array([{}], object))
    (folder / "broken.npz").write_bytes(b"PK\x03\x04garbage")
    done = gradc(*RUN, "data.npz", *words)
    assert (done.status, done.out) == (1, "")
    assert done.err == f"error: {message} [bad-data]\n"

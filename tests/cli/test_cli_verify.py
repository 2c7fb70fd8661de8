"""gradc verify and gradc explain: what they print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shell import Shell

WRONG = """\
x: float[N]
w: float[N]
def f(a):
    return a * a
def half(a, c):
    return a * c
square = custom_gradient(f, half)
loss = sum(square(x)) + sum(w * x)
differentiate(loss, [w, x])
return loss
"""
CUTS = """\
\"\"\"Cuts.\"\"\"
x: float[N, 3]
v: float[3]
k: int[3]
h = stop_gradient(x * v)
q = floor(v)
loss = sum(h * x) + sum(q * k)
differentiate(loss, [x, v, k])
return loss
"""


def without_errors(text: str) -> str:
    """The text with its relative errors, which are rounding, put to 0."""
    return re.sub(r"relative error \d\.\de-(0[7-9]|1\d)", "relative error 0", text)


# --------------------------------------------------------------------------- verify


def test_gradients_that_agree(gradc: Shell) -> None:
    done = gradc("verify", "squares.gc")
    assert (done.status, done.err) == (0, "")
    assert without_errors(done.out) == (
        "squares.gc: gradients of loss at N = 3; drawn: x\n"
        "  x   float64[N]   agrees   relative error 0\n"
        "  s   float64      agrees   relative error 0\n"
    )


def test_a_wrong_gradient_is_named_with_its_line(gradc: Shell, folder: Path) -> None:
    (folder / "wrong.gc").write_text(WRONG)
    done = gradc("verify", "wrong.gc", "--target", "numpy")
    assert done.status == 1
    lines = done.err.splitlines()
    found = re.fullmatch(
        r"wrong\.gc:1:1: error: the gradient of loss by x is wrong: along a direction it "
        r"gives (\S+), central differences give (\S+) \[wrong-gradient\]",
        lines[0],
    )
    assert found is not None and float(found[1]) != float(found[2])
    assert lines[1:] == [
        "    1 | x: float[N]",
        "      | ^^^^^^^^^^^",
        "  a custom_gradient lies on the way: wrong.gc:8",
    ]
    assert re.search(r"  w   float64\[N\]   agrees ", done.out)
    assert re.search(r"  x   float64\[N\]   wrong  ", done.out)


def test_data_that_are_given(gradc: Shell, folder: Path) -> None:
    (folder / "log.gc").write_text(
        "x: float[N]\ny = sum(log(x - 100.0))\ndifferentiate(y, [x])\nreturn y\n"
    )
    (folder / "x.csv").write_text("101\n102.5\n")
    done = gradc("verify", "log.gc", "--in", "x=x.csv", "--target", "numpy")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("log.gc: gradients of y at N = 2\n")
    drawn = gradc("verify", "log.gc", "--target", "numpy")
    assert drawn.status == 1
    assert drawn.err == (
        "log.gc:1:1: error: inconclusive for x: y is not finite [inconclusive]\n"
        "    1 | x: float[N]\n"
        "      | ^^^^^^^^^^^\n"
        "  hint: pass data: --in data.npz\n"
    )


def test_verify_as_json(gradc: Shell) -> None:
    done = gradc("verify", "squares.gc", "--json", "--static", "N=2", "--xs", "s")
    assert done.status == 0
    verdict = json.loads(done.out)
    (check,) = verdict["checks"]
    assert verdict["passed"] is True and verdict["drawn"] == ["x"]
    assert check["x"] == "s" and check["status"] == "agrees" and check["error"] < 1e-6


@pytest.mark.parametrize("command", ["verify", "explain"])
def test_no_gradients_are_asked_for(gradc: Shell, folder: Path, command: str) -> None:
    (folder / "plain.gc").write_text("x: float[N]\nreturn sum(x)\n")
    options = ["--why", "x"] if command == "explain" else []
    done = gradc(command, "plain.gc", *options)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "error: the graph asks for no gradients [no-request]\n"
        "  hint: name them with --ys and --xs, or write differentiate(...) in the graph\n"
    )


# -------------------------------------------------------------------------- explain


def test_what_is_differentiated_and_what_is_cut(gradc: Shell, folder: Path) -> None:
    (folder / "cuts.gc").write_text(CUTS)
    done = gradc("explain", "cuts.gc", "--target", "numpy")
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        "cuts.gc: Cuts.\n"
        "3 inputs, 10 operations; returns loss\n"
        "\n"
        "gradients of loss\n"
        "  by x   float64[N, 3]   differentiated\n"
        "  by v   float64[3]      None: v never reaches loss: every path is cut: "
        "at cuts.gc:5:5 by stop_gradient(x * v), "
        "at cuts.gc:6:5 by floor: it is constant almost everywhere\n"
        "  by k   int64[3]        None: k is int64: integer and bool tensors are constants\n"
        "  3 of 10 operations lie on a path from an x to a y; 7 are cut off, "
        "0 depend on no x\n"
        "  cut at cuts.gc:5:5 by stop_gradient(x * v)\n"
        "  cut at cuts.gc:6:5 by floor: it is constant almost everywhere\n"
        "  cut at cuts.gc:7:25 by cast on int64 (k)\n"
    )


def test_what_it_costs(gradc: Shell) -> None:
    done = gradc("explain", "squares.gc", "--static", "N=1000", "--json")
    assert done.status == 0
    kernels = json.loads(done.out)["kernels"]
    assert set(kernels) == {"run", "value_and_gradients"}
    assert 2000 <= kernels["run"]["flops"] < 2100  # a product and a sum an element
    assert 8000 <= kernels["run"]["moved"] < 8100
    assert kernels["run"]["memory"] == 0
    symbolic = gradc("explain", "squares.gc")
    _, _, text = symbolic.out.partition("\nkernels (a division counts as 4 flops")
    assert re.search(r"  run: 1 loop nest\n    flops         2 \* N", text)


def test_library_calls_are_told(gradc: Shell, folder: Path) -> None:
    (folder / "solve.gc").write_text(
        "A: float[N, N]\nb: float[N]\ny = sum(solve(A, b))\n"
        "differentiate(y, [A])\nreturn y\n"
    )
    done = gradc("explain", "solve.gc")
    assert re.search(r"  run: .*library calls: getrf, getrs\n", done.out)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "v",
            (
                "v never reaches loss: every path is cut: at cuts.gc:5:5 by "
                "stop_gradient(x * v), at cuts.gc:6:5 by floor: it is constant almost "
                "everywhere"
            ),
        ),
        ("k", "k is int64: integer and bool tensors are constants"),
        ("x", "x has a gradient: loss depends on it"),
        ("h", "h is not among the xs, though loss depends on it"),
        ("q", "q is not among the xs, though loss depends on it"),
    ],
)
def test_why(gradc: Shell, folder: Path, name: str, reason: str) -> None:
    (folder / "cuts.gc").write_text(CUTS)
    done = gradc("explain", "cuts.gc", "--why", name)
    assert (done.status, done.out, done.err) == (0, f"{reason}\n", "")
    plain = gradc("explain", "cuts.gc", "--why", name, "--json")
    assert json.loads(plain.out) == {"x": name, "why": reason}


def test_why_of_what_there_is_not(gradc: Shell) -> None:
    done = gradc("explain", "squares.gc", "--why", "y")
    assert done.status == 2
    assert done.err == (
        "error: why: no tensor is called 'y' [unknown-name]\n"
        "  hint: tensors are x, s, loss\n"
    )

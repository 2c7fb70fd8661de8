"""gradc bench: what it measures and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shell import Shell

from gradc import driver

QUICK = ("--seconds", "0")
NUMPY = (*QUICK, "--target", "numpy")
TIME = r"\d+(\.\d+)? (s|ms|us)"
PLAIN = """\
x: float[N]
y = sum(x)
return y
"""
FACTS = """\
x: float[N, M]
i: int[N]
y = sum(reshape(x, (M, N))[:, 0]) + sum(x[i])
assert N == 2 * M
differentiate(y, [x])
return y
"""


def test_times_of_both_targets(gradc: Shell) -> None:
    done = gradc("bench", "squares.gc", "--sizes", "N=7", *QUICK)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "squares.gc at N = 7; drawn: x"
    assert re.fullmatch(
        r"values of numba and numpy agree: relative difference \d\.\de(-1\d|\+00)",
        lines[1],
    )
    assert lines[2].split() == [
        "forward",
        "min",
        "gradients",
        "min",
        "ratio",
        "repeated",
    ]
    times = rf"{TIME} +{TIME} +{TIME} +{TIME} +\d+\.\d\d +5"
    assert re.fullmatch(rf"  numba +{times}", lines[3])
    assert re.fullmatch(rf"  numpy +{times}", lines[4])
    assert re.fullmatch(r"  numpy / numba +\d+\.\d\d +\d+\.\d\d", lines[5])
    compiling = rf"{TIME} to the source, first calls {TIME}"
    assert re.fullmatch(f"compiling for numba: {compiling}", lines[6])
    assert re.fullmatch(f"compiling for numpy: {compiling}", lines[7])
    assert len(lines) == 8


def test_as_json(gradc: Shell) -> None:
    found = json.loads(gradc("bench", "squares.gc", "--json", *QUICK).out)
    assert (found["sizes"], found["drawn"]) == ({"N": 1000}, ["x"])
    assert list(found["targets"]) == ["numba", "numpy"]
    for one in found["targets"].values():
        assert one["source"] > 0 and one["first_calls"] > 0
        for name in ("forward", "gradients"):
            assert 0 < one[name]["min"] <= one[name]["median"]
            assert one[name]["repeated"] == 5
        ratio = one["gradients"]["median"] / one["forward"]["median"]
        assert one["ratio"] == pytest.approx(ratio)
    numba, numpy = found["targets"].values()
    assert numba["difference"] < 1e-12 and "difference" not in numpy
    factor = numpy["forward"]["median"] / numba["forward"]["median"]
    assert numba["faster_than_numpy"]["forward"] == pytest.approx(factor)


def test_data_that_are_given(gradc: Shell, folder: Path) -> None:
    np.save(folder / "x.npy", np.arange(4.0))
    done = gradc("bench", "squares.gc", "x=x.npy", *NUMPY)
    assert done.out.startswith("squares.gc at N = 4\n")


def test_longer_is_more_often(gradc: Shell) -> None:
    words = ("bench", "squares.gc", "--target", "numpy", "--json", "--seconds", "0.1")
    found = json.loads(gradc(*words).out)
    assert found["targets"]["numpy"]["forward"]["repeated"] > 5


def test_a_graph_without_gradients(gradc: Shell, folder: Path) -> None:
    (folder / "plain.gc").write_text(PLAIN)
    done = gradc("bench", "plain.gc", *NUMPY)
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[1].split() == ["forward", "min", "repeated"]
    assert lines[-1] == "the graph asks for no gradients"


def test_sizes_that_the_facts_allow(gradc: Shell, folder: Path) -> None:
    (folder / "facts.gc").write_text(FACTS)
    done = gradc("bench", "facts.gc", *NUMPY)
    assert (done.status, done.err) == (0, "")
    found = re.match(r"facts\.gc at M = (\d+), N = (\d+); drawn: x, i\n", done.out)
    assert found is not None
    assert int(found[2]) == 2 * int(found[1]) >= 100


def test_sizes_stay_within_memory(gradc: Shell, folder: Path) -> None:
    (folder / "cube.gc").write_text(
        "x: float[N]\ny = sum(x[:, None, None] * x[:, None] * x)\n"
        "differentiate(y, [x])\nreturn y\n"
    )
    done = gradc("bench", "cube.gc", *NUMPY)
    assert done.out.startswith("cube.gc at N = 100; drawn: x\n")


def test_values_that_differ(gradc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    compile = driver.compile

    class Off:
        """A module whose gradients are wrong by a thousandth."""

        def __init__(self, module: Any) -> None:
            self.module = module

        def __getattr__(self, name: str) -> Any:
            return getattr(self.module, name)

        def value_and_gradients(self, **arguments: Any) -> Any:
            values, gradients = self.module.value_and_gradients(**arguments)
            return values, gradients._replace(x=gradients.x * 1.001)

    def wrong(source: Any, **options: Any) -> Any:
        module = compile(source, **options)
        return module if options["target"] == "numpy" else Off(module)

    monkeypatch.setattr(driver, "compile", wrong)
    done = gradc("bench", "squares.gc", "--sizes", "N=3", *QUICK)
    assert done.status == 1
    assert done.out == "squares.gc at N = 3; drawn: x\n"
    assert done.err == (
        "error: the gradient by x differs between the targets numba and numpy: "
        "relative difference 1.0e-03 [targets-differ]\n"
        "  hint: gradc verify tells whether the gradients are right\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--sizes", "n=3"],
            (
                "error: --sizes: no dimension is called 'n' [unknown-name]\n"
                "  hint: symbols are N\n"
            ),
        ),
        (
            ["--sizes", "N"],
            (
                "error: --sizes: expected NAME=SIZE, found 'N' [usage]\n"
                "  hint: --sizes D=10,K=25\n"
            ),
        ),
        (
            ["x=x.npy", "--sizes", "N=3"],
            "error: --sizes: N=3, and the data have N = 4 [usage]\n",
        ),
    ],
)
def test_sizes_that_are_wrong(
    gradc: Shell, folder: Path, words: list[str], message: str
) -> None:
    np.save(folder / "x.npy", np.arange(4.0))
    done = gradc("bench", "squares.gc", *words, *NUMPY)
    assert (done.status, done.out, done.err) == (2, "", message)


def test_no_draw_is_finite(gradc: Shell, folder: Path) -> None:
    (folder / "nan.gc").write_text(
        "x: float[N]\ny = sum(log(-1 - x**2))\ndifferentiate(y, [x])\nreturn y\n"
    )
    done = gradc("bench", "nan.gc", *NUMPY)
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "error: no data could be drawn for x: a value is not finite [inconclusive]\n"
        "  hint: pass data: --in data.npz\n"
    )

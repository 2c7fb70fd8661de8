"""gradc explain: reasons and costs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shell import Shell

APART = """\
x: float[N]
z: float[N]
k: int[N]
loss = sum(x * x)
differentiate(loss, [x, z, k])
return loss
"""
ROWS = """\
X: float[N, D]
w: float[D]
p = softmax(X @ w)
loss = sum(p * log(p))
differentiate(loss, [w])
return loss
"""


@pytest.mark.parametrize(("given", "word"), [("none", ""), ("zero", "zeros: ")])
def test_why_an_x_has_no_gradient(
    gradc: Shell, folder: Path, given: str, word: str
) -> None:
    (folder / "apart.gc").write_text(APART)
    explain = ["explain", "apart.gc", "--unconnected-gradients", given]
    reason = "loss does not depend on z"
    assert gradc(*explain, "--why", "z").out == f"{word}{reason}\n"
    integer = "k is int64: integer and bool tensors are constants"
    assert gradc(*explain, "--why", "k").out == f"{word}{integer}\n"
    assert gradc(*explain, "--why", "x").out == (
        "x has a gradient: loss depends on it\n"
    )
    report = gradc(*explain).out
    assert f"by z   float64[N]   {word or 'None: '}{reason}\n" in report
    assert "by x   float64[N]   differentiated\n" in report


def test_memory_is_told_alike_in_the_report_and_in_the_module(
    gradc: Shell, folder: Path
) -> None:
    (folder / "rows.gc").write_text(ROWS)
    told = json.loads(gradc("explain", "rows.gc", "--json").out)["kernels"]
    source = gradc("compile", "rows.gc", "-o", "-").out
    text = " ".join(source.split())
    borrowed = re.findall(r"arena = _borrow\((.*)\)", source)
    assert borrowed
    assert told["value_and_gradients"]["memory"] != 0
    for name, row in told.items():
        memory = row["memory"]
        kept = f"{memory} bytes of memory" if memory else "no memory"
        assert re.search(
            rf"{name}: [^.]* bytes moved, {re.escape(kept)} beyond the results\.", text
        )
    sizes = [eval(b, {}, {"N": 1000}) * 8 for b in borrowed[:2]]
    costs = [r["memory"] for r in told.values()]
    assert sizes == [eval(c, {}, {"N": 1000}) for c in costs[:2]]


MIXED = """\
x: float[N, 100]
W: float[K, 100, 100]
b: float[100]
s: float[100]
h = (x - s) @ W
y = sum(tanh(h + b)) + sum((x @ b) ** 2)
differentiate(y, [W, b])
return y
"""


def test_what_the_schedule_decided(gradc: Shell, folder: Path) -> None:
    (folder / "mixed.gc").write_text(MIXED)
    report = gradc("explain", "mixed.gc").out
    _, _, both = report.partition("  value_and_gradients: ")
    lines = [line.strip() for line in both.splitlines()]
    assert {"loops", "products", "kept in memory"} <= set(lines)
    rows = [re.split(r" {2,}", line) for line in lines]
    assert ["gemm (one for each of K)", "h = (x - s) @ W"] in rows
    assert ["gemm (one for each of K)", "adjoint of h = (x - s) @ W"] in rows
    vector = "loops (of a matrix and a vector)"
    assert [vector, "y = sum(tanh(h + b)) + sum((x @ b) ** 2)"] in rows
    told = json.loads(gradc("explain", "mixed.gc", "--json").out)
    kernel = told["kernels"]["value_and_gradients"]
    assert {p["how"] for p in kernel["products"]} == {"gemm", "loops"}
    assert all(k["why"] == "for a library call" for k in kernel["kept"][:2])
    assert [["K"], ["N"], ["100"]] in [n["extents"] for n in kernel["loops"]]

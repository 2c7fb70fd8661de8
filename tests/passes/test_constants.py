"""Numbers that depend on no input are numbers in the module."""

from __future__ import annotations

import math

import numpy as np

import gradc
from gradc.driver import Options, plan, simplified


def ops_of(text: str) -> set[str]:
    return {n.op.name for n in simplified(plan(text, Options()).graph).nodes()}


def test_a_sum_over_constants_is_a_number() -> None:
    text = "x: float[N]\nc = sum(gammaln((5 - arange(4)) / 2))\nreturn c * x, c * N\n"
    assert not ops_of(text) & {"gammaln", "reduce_sum", "iota"}
    found = gradc.compile(text, target="numpy").run([1.0, 2.0])
    c = sum(math.lgamma(a / 2) for a in (5, 4, 3, 2))
    np.testing.assert_allclose(found[0], [c, 2 * c], rtol=1e-14)
    np.testing.assert_allclose(found[1], 2 * c, rtol=1e-14)


def test_what_fails_fails_where_the_module_runs() -> None:
    text = "x: float[N]\nA = -eye(2)\nreturn sum(cholesky(A)) + x\n"
    assert "cholesky" in ops_of(text)


def test_arrays_of_constants_and_sizes_are_left() -> None:
    assert "gammaln" in ops_of("x: float[4]\nreturn gammaln(arange(4) + 1.5) * x\n")
    assert "reduce_sum" in ops_of("x: float[N]\nreturn sum(sin(arange(N) * 1.0)) * x\n")

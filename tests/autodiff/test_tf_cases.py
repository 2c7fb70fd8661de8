"""What `tf.gradients` returned for 103 graphs: by the evaluator and by compiled modules.

Where gradc differs it does so on purpose: DEVIATIONS lists each case with the reason and with what
gradc gives instead. LEFT_OUT lists the cases whose ops the language does not have yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gradc.autodiff.reverse import gradients
from gradc.driver import CompiledModule, compile
from gradc.errors import GradcError
from gradc.ops.evaluator import evaluate
from tests.cases.tf.adapter import (
    CASES,
    Built,
    decode,
    difference,
    feeds,
    missing,
    same_error,
)

LEFT_OUT = {
    "cx_fft",
    "ctl_while",
    "op_erfinv",
    "op_irfft",
}


@dataclass(frozen=True)
class Deviation:
    """Why gradc's answer is another one; the gradients it gives, or the code of its error."""

    reason: str
    grads: Sequence[Any] = ()
    error: str = ""


DEVIATIONS: Mapping[str, Deviation] = {
    "gy_scalar_for_vector_mul": Deviation(
        "rule 2: a grad_y has exactly its y's shape", error="shape-mismatch"
    ),
    "stop_split_output": Deviation(
        "rules 3 and 13: a stop is a tensor; the other output of split carries",
        [[0.0, 0.0, 27.0, 48.0]],
    ),
    "nog_after_floor": Deviation(
        "rule 11: behind floor nothing flows, so no derivative is missing", [[5.0, 7.0]]
    ),
    "ho_softsign": Deviation(
        "softsign has its second derivative",
        [decode(CASES["ho_softsign"]["math_grads"][0])],
    ),
    "op_minimum_ties": Deviation(
        "conventions: a tie in minimum goes half to each",
        [[0.52, 0.0, 1.462], [0.52, 1.411, 0.0]],
    ),
    "op_xlogy_edge": Deviation(
        "x log y is linear in x: the slope at x = 0 is log y, as everywhere",
        [[0.0, 0.618 * np.log(3.0), 1.509 * np.log(4.0)], [0.0, 0.0, 0.7545]],
    ),
    "op_where_log": Deviation(
        "rule 12: the branch that where did not take contributes nothing",
        [[0.0, 0.0, 0.5]],
    ),
    "op_norm_zero": Deviation(
        "conventions: the norm has derivative 0 at 0", [[0.0, 0.0]]
    ),
}

RUN = [name for name in CASES if name not in LEFT_OUT]
PLAIN = RUN[::4]  # for the schedule without fusion: every fourth


def test_left_out_are_those_whose_ops_are_missing() -> None:
    assert {name for name, case in CASES.items() if missing(case)} == LEFT_OUT


def test_counts() -> None:
    assert len(CASES) == 103
    assert len(RUN) >= 80
    assert len(DEVIATIONS) == 8
    assert set(DEVIATIONS) <= set(RUN)


def judge(name: str, expect: Any, grads: Sequence[Any]) -> None:
    """The gradients are those TensorFlow gave, or else those that DEVIATIONS states."""
    case = CASES[name]
    if name not in DEVIATIONS:
        assert "error" not in expect, f"no error: {expect['error']}"
        assert difference(case, expect, grads) == ""
        return
    wanted = DEVIATIONS[name].grads
    assert len(grads) == len(wanted)
    for found, value in zip(grads, wanted, strict=True):
        assert (found is None) == (value is None)
        if value is not None:
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-12)
    assert "error" in expect or difference(case, expect, grads), "no deviation at all"


def judge_error(name: str, error: GradcError) -> None:
    """The error is of the kind TensorFlow raised, or the one that DEVIATIONS states."""
    if name in DEVIATIONS:
        assert error.code == DEVIATIONS[name].error
    else:
        assert same_error(CASES[name]["expect"], error), str(error)


def check_forward(name: str, expect: Any, values: Mapping[str, Any]) -> None:
    for y, want in expect.get("forward", {}).items():
        np.testing.assert_allclose(values[y], decode(want), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", RUN)
def test_evaluated(name: str) -> None:
    case = CASES[name]
    try:
        built = Built(case)
        found = gradients(**built.request()).tensors
    except GradcError as error:
        judge_error(name, error)
        return
    for feed, expect in feeds(case):
        given = {built.ref(k): v for k, v in feed.items()}
        wanted = [t for t in found if t is not None]
        values = iter(evaluate(wanted, given))
        judge(name, expect, [None if t is None else next(values) for t in found])
        ys = dict(zip(case["ys"], evaluate(built.refs(case["ys"]), given), strict=True))
        check_forward(name, expect, ys)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules are kept in a folder of this run's own."""
    old = os.environ.get("GRADC_CACHE_DIR")
    os.environ["GRADC_CACHE_DIR"] = str(tmp_path_factory.mktemp("modules"))
    yield
    if old is None:
        del os.environ["GRADC_CACHE_DIR"]
    else:
        os.environ["GRADC_CACHE_DIR"] = old


def check_compiled(name: str, **options: Any) -> None:
    """The case through `compile`, every feed on the one module."""
    case = CASES[name]
    try:
        built = Built(case)
        module: CompiledModule = compile(built.graph(), **options)
    except GradcError as error:
        judge_error(name, error)
        return
    for feed, expect in feeds(case):
        values, grads = module.value_and_gradients(**feed)
        judge(name, expect, list(grads))
        check_forward(name, expect, dict(zip(case["ys"], values, strict=True)))


@pytest.mark.parametrize("name", RUN)
def test_numpy(name: str) -> None:
    check_compiled(name, target="numpy")


@pytest.mark.parametrize("name", RUN)
def test_numba(name: str) -> None:
    check_compiled(name, target="numba")


@pytest.mark.parametrize("name", PLAIN)
def test_numba_without_fusion(name: str) -> None:
    check_compiled(name, target="numba", opt=0)

"""Seventeen real problems, written as a user would, through the whole pipeline on each target.

The texts stand in `examples/problems`. `problems.json` has the inputs of each, the value and the
gradients that an independent computation gave.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradc

HERE = Path(__file__).parent
TEXTS = HERE.parent.parent / "examples" / "problems"
PROBLEMS = {p["id"]: p for p in json.loads((HERE / "problems.json").read_text("utf-8"))}
RTOL = 1e-10

LONG = {"kalman_loglik", "lotka_volterra", "nbody_gravity"}
"""Loops unrolled to kernels of thousands of lines, which Numba takes minutes to compile."""
QUICK = [name for name in PROBLEMS if name not in LONG]


@pytest.fixture(scope="module", autouse=True)
def modules(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Modules are kept in a folder of this run's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADC_CACHE_DIR", str(tmp_path_factory.mktemp("modules")))
        yield


def decode(value: Any) -> Any:
    """Numbers of the file: nested lists, NaN as a string."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    return float(value)


def close(found: Any, want: Any) -> None:
    """Equal to RTOL of the largest element."""
    want = np.asarray(decode(want))
    assert np.shape(found) == want.shape
    scale = np.max(np.abs(want), initial=0.0)
    np.testing.assert_allclose(found, want, rtol=RTOL, atol=RTOL * scale)


def check(name: str, **options: Any) -> None:
    """Value and gradients of a problem, and its value by run()."""
    problem = PROBLEMS[name]
    inputs = {k: np.asarray(decode(v)) for k, v in problem["inputs"].items()}
    module = gradc.compile(TEXTS / f"{name}.gc", **options)
    (value,), gradients = module.value_and_gradients(**inputs)
    close(value, problem["value"])
    assert gradients._fields == tuple(problem["grads"])
    for x, want in problem["grads"].items():
        close(getattr(gradients, x), want)
    if options.get("opt", 1):  # the kernels of level 0 take longest to compile
        (value,) = module.run(**inputs)
        close(value, problem["value"])


def test_each_problem_has_its_text() -> None:
    assert {p.stem for p in TEXTS.glob("*.gc")} == set(PROBLEMS)
    assert len(PROBLEMS) == 17


@pytest.mark.parametrize("name", PROBLEMS)
def test_numpy(name: str) -> None:
    check(name, target="numpy")


@pytest.mark.parametrize("name", QUICK)
def test_numba(name: str) -> None:
    check(name, target="numba")


@pytest.mark.parametrize("name", QUICK)
def test_numba_without_fusion(name: str) -> None:
    check(name, target="numba", opt=0)


@cache
def text(name: str) -> str:
    return (TEXTS / f"{name}.gc").read_text("utf-8")


@pytest.mark.parametrize("name", PROBLEMS)
def test_texts_round_trip(name: str) -> None:
    """The text of a graph is a graph again, with the same text."""
    again = str(gradc.parse(text(name), f"{name}.gc"))
    assert str(gradc.parse(again)) == again

"""Random graphs: the passes, both schedule levels and the interpreter agree with the evaluator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gradc.driver import compile, simplified
from gradc.graph import Graph
from gradc.ops.evaluator import evaluate
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret
from gradc.schedule.lower import schedule
from gradc.types import evaluate_dim
from tests.graphs import Case, cases

SETTINGS = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "int64": 0.0, "bool": 0.0}


def values(graph: Graph, case: Case) -> list[Any]:
    """The outputs by the evaluator."""
    feeds = dict(zip(graph.inputs, case.feeds.values(), strict=True))
    tensors = [o.tensor for o in graph.outputs if o.tensor is not None]
    return evaluate(tensors, feeds, case.sizes)


def agree(found: Any, expected: Any, case: Case, what: str) -> None:
    # what is computed from float32 is no better for a cast to float64
    kinds = {str(expected.dtype), *(t.dtype.name for t in case.xs)}
    tolerance = max(TOLERANCE[kind] for kind in kinds)
    with np.errstate(all="ignore"):
        scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0))
    assert found.dtype == expected.dtype, what
    # sums that are taken in another order may give inf for NaN: inf * (1 - 2), not inf - 2 * inf
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(found), finite, err_msg=what)
    np.testing.assert_allclose(
        found[finite],
        expected[finite],
        rtol=tolerance,
        atol=tolerance * scale,
        err_msg=what,
    )


@SETTINGS
@given(cases())
def test_passes_keep_values(case: Case) -> None:
    for found, expected in zip(
        values(simplified(case.graph), case), values(case.graph, case), strict=True
    ):
        agree(found, expected, case, "passes")


@pytest.mark.parametrize("level", [0, 1])
@SETTINGS
@given(case=cases())
def test_programs_agree(level: int, case: Case) -> None:
    run(case.graph, level, case)


@pytest.mark.parametrize("level", [0, 1])
@SETTINGS
@given(case=cases())
def test_programs_of_each_output_alone_agree(level: int, case: Case) -> None:
    """What is kept where depends on who reads it, hence on what else is asked for."""
    for output in case.graph.outputs:
        run(replace(case.graph, outputs=(output,)), level, case)


def run(graph: Graph, level: int, case: Case) -> None:
    """Compare a Program of the graph with the evaluator."""
    expected = values(graph, case)
    graph = simplified(graph)
    made = schedule(graph, "f", level)
    check(made.program)
    arrays: dict[str, Any] = {}
    given = dict(zip(graph.inputs, case.feeds.values(), strict=True))
    for name, tensor in made.inputs.items():
        arrays[name] = given[tensor]
    for name, tensor in made.constants.items():
        arrays[name] = tensor.attrs.value.array
    for name, tensor in made.outputs.items():
        shape = [evaluate_dim(d, case.sizes) for d in tensor.shape]
        arrays[name] = np.zeros(shape, tensor.dtype.name)
    assert interpret(made.program, arrays, case.sizes) == 0
    for name, value in zip(made.outputs, expected, strict=True):
        agree(arrays[name], value, case, f"{name} of\n{made.program}")


@settings(
    SETTINGS,
    max_examples=3,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(case=cases(size=18))
def test_compiled_kernels_agree(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADC_CACHE_DIR", str(tmp_path_factory.mktemp("modules")))
        module = compile(case.graph)
        found = module.run(**{t.attrs.name: v for t, v in case.feeds.items()})
    for got, want in zip(found, values(case.graph, case), strict=True):
        agree(np.asarray(got), want, case, module.source)

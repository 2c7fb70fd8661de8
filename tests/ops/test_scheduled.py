"""Every row of the tables as a Program: both schedule levels give the evaluator's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import ALL
from rows import SIZES, Row, arrays, with_cotangents

from gradc.driver import simplified
from gradc.ops.evaluator import evaluate
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret
from gradc.schedule.lower import schedule
from gradc.types import evaluate_dim

TOLERANCE = {"float64": 1e-11, "float32": 2e-4}  # integers and truth values: exact


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("row", ALL, ids=str)
def test_programs(row: Row, level: int) -> None:
    for dtype in row.dtypes:
        if dtype.bits == 16 and dtype.is_float:  # it has no loops
            continue
        graph = with_cotangents(row, dtype)
        data = arrays(row, dtype, SIZES)
        outputs = [o.tensor for o in graph.outputs if o.tensor is not None]
        wanted = evaluate(outputs, dict(zip(graph.inputs, data, strict=True)), SIZES)
        simple = simplified(graph)
        made = schedule(simple, "f", level)
        check(made.program)
        given = dict(zip(simple.inputs, data, strict=True))
        found: dict[str, Any] = {n: given[t] for n, t in made.inputs.items()}
        found |= {n: t.attrs.value.array for n, t in made.constants.items()}
        for name, t in made.outputs.items():
            shape = [evaluate_dim(d, SIZES) for d in t.shape]
            found[name] = np.full(shape, 7, t.dtype.name)
        assert interpret(made.program, found, SIZES) == 0
        tolerance = TOLERANCE.get(dtype.name, 0) * row.tolerance
        for name, want in zip(made.outputs, wanted, strict=True):
            assert found[name].dtype == want.dtype
            np.testing.assert_allclose(
                found[name],
                want,
                rtol=tolerance,
                atol=tolerance,
                err_msg=f"{name} of\n{made.program}",
            )

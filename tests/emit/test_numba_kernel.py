"""Programs as Numba kernels: the compiled kernel, the interpreter and NumPy agree."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from handmade import CASES, Case, arguments, compiled, outputs_of

from gradc.emit.numba_kernel import numba_kernel
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret


def compare(
    found: dict[str, object], wanted: dict[str, object], tolerance: float
) -> None:
    for name, value in wanted.items():
        got = np.asarray(found[name])
        value = np.asarray(value).reshape(got.shape)
        assert got.dtype == value.dtype or got.dtype.kind == value.dtype.kind
        np.testing.assert_allclose(
            got, value, rtol=tolerance, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kernel_interpreter_and_numpy_agree(case: Case) -> None:
    check(case.program)
    kernel = numba_kernel(case.program)
    run = compiled(kernel)
    for sizes in case.sizes:
        inputs = case.inputs(np.random.default_rng(1), sizes)
        wanted = case.wanted(**inputs)
        by_numba = inputs | outputs_of(case.program, sizes)
        by_steps = inputs | outputs_of(case.program, sizes)
        status = run(*arguments(case.program, kernel, by_numba, sizes))
        assert interpret(case.program, by_steps, sizes) == status
        if isinstance(wanted, int):
            assert status == wanted
            continue
        assert status == 0
        compare(by_numba, wanted, case.tolerance)
        compare(by_steps, wanted, case.tolerance)


def test_text_is_clean_and_as_the_formatter_wants_it() -> None:
    kernels = [numba_kernel(case.program) for case in CASES]
    names = {n for k in kernels for n in (*k.helpers, *k.routines)}
    stand_ins = "".join(f"{name} = None\n" for name in sorted(names))
    text = "\n\n".join(
        [f"import numpy as np\n\n{stand_ins}", *(k.text for k in kernels)]
    )
    for command in (["format", "--diff"], ["check"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr

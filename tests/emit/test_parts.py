"""Long kernels are cut into parts: what one part leaves to the next, and that they compile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import gradc
from gradc.driver import simplified
from gradc.emit import parts
from gradc.emit.parts import cut
from gradc.ops.evaluator import evaluate
from gradc.schedule.interpret import _Machine
from gradc.schedule.lower import schedule
from gradc.types import evaluate_dim
from tests.graphs import Case, cases

SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few statements."""
    monkeypatch.setattr(parts, "LONG", 10)
    monkeypatch.setattr(parts, "PART", 25)


@pytest.mark.parametrize("level", [0, 1])
def test_parts_share_arrays_alone(short: None, level: int) -> None:
    """Each part begins without the scalars of the others: all it reads it has set itself."""
    seen = []

    @SETTINGS
    @given(case=cases())
    def compare(case: Case) -> None:
        feeds = dict(zip(case.graph.inputs, case.feeds.values(), strict=True))
        tensors = [o.tensor for o in case.graph.outputs if o.tensor is not None]
        wanted = evaluate(tensors, feeds, case.sizes)
        graph = simplified(case.graph)
        made = schedule(graph, "f", level)
        whole, pieces = cut(made.program)
        seen.append(len(pieces))
        given = dict(zip(graph.inputs, case.feeds.values(), strict=True))
        arrays: dict[str, Any] = {n: given[t] for n, t in made.inputs.items()}
        arrays |= {n: t.attrs.value.array for n, t in made.constants.items()}
        for name, tensor in made.outputs.items():
            shape = [evaluate_dim(d, case.sizes) for d in tensor.shape]
            arrays[name] = np.zeros(shape, tensor.dtype.name)
        machine = _Machine(whole, arrays, case.sizes)
        local = [
            b.name
            for b in whole.buffers
            if not b.dims and b.place in ("tile", "workspace")
        ]
        with np.errstate(all="ignore"):
            for part in pieces or (whole,):
                machine.lets.clear()
                for name in local:
                    machine.stored[name][...] = False
                machine.body(part.body)
        machine.finish()
        for name, value in zip(made.outputs, wanted, strict=True):
            scale = float(np.max(np.abs(value), initial=1.0, where=np.isfinite(value)))
            rough = "float32" in {str(value.dtype), *(t.dtype.name for t in case.xs)}
            tolerance = 2e-4 if rough else 1e-9
            np.testing.assert_allclose(
                arrays[name], value, rtol=tolerance, atol=tolerance * scale
            )

    compare()
    assert sum(count > 2 for count in seen) > 20


TEXT = """
A: float[N, N]
b: float[N]
k: int
s: float32
c = cholesky(A)
z = solve_triangular(c, b, lower=True)
big = s > 2
part = sum(z**2)
scaled = where(big, part * s, part / 3)
low = min(b)
picked = b[k]
first = tanh(scaled) + low * picked
second = sum(exp(b - low)) * first
third = sum(b * second) + where(big, s, 1 - s) * mean(c) + part
differentiate(third, [A, b, s])
return third, picked
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LONG", 10)
        patch.setattr(parts, "PART", 60)
        patch.setenv("GRADC_CACHE_DIR", str(tmp_path_factory.mktemp("modules")))
        yield gradc.compile(TEXT)


def inputs() -> dict[str, Any]:
    root = np.arange(9.0).reshape(3, 3) / 4 + np.eye(3)
    b = np.array([0.5, -1.0, 2.0])
    return {"A": root @ root.T, "b": b, "k": 1, "s": np.float32(1.5)}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path))


def test_a_kernel_in_parts_is_the_same(module: Any) -> None:
    assert module.source.count("\ndef _value_and_gradients_") >= 4
    plain = gradc.compile(TEXT, target="numpy")
    (value,), found = module.value_and_gradients(**inputs())
    (wanted_value,), wanted = plain.value_and_gradients(**inputs())
    np.testing.assert_allclose(value, wanted_value, rtol=1e-6)
    for name in ("A", "b", "s"):
        a, b = getattr(found, name), getattr(wanted, name)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6)


def test_the_first_part_that_fails_ends_the_kernel(module: Any) -> None:
    with pytest.raises(np.linalg.LinAlgError, match="cholesky"):
        module.run(**{**inputs(), "A": -np.eye(3)})
    with pytest.raises(IndexError, match=r"b\[k\]"):
        module.value_and_gradients(**{**inputs(), "k": 3})


def test_text_in_parts_is_clean(module: Any, tmp_path: Path) -> None:
    file = tmp_path / "in_parts.py"
    file.write_text(module.source, "utf-8")
    for command in (["format", "--diff"], ["check"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stdout + found.stderr


STEPS = """
x: float[N]
u = x
for i in range({count}):
    u = u + 0.01 * cumsum(sin(u))
loss = sum(u**2)
differentiate(loss, [x])
"""


def test_no_function_grows_with_the_graph() -> None:
    """Unrolled loops were once one function, which Numba had no stack for."""
    longest = []
    for count in (40, 80):
        source = gradc.emit(STEPS.format(count=count))
        functions = source.split("\ndef ")
        kernels = [f for f in functions if f.startswith("_value_and_gradients_")]
        longest.append(max(f.count("\n") for f in kernels))
        assert len(kernels) > count // 10
    assert longest[1] < 1.2 * longest[0] < 400

"""The graphs that the benchmark times: committed modules, Programs, values at awkward sizes."""

from __future__ import annotations

import importlib.util
import shutil
import tracemalloc
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from example_files import static_sizes
from scripts import EXAMPLES, check_committed

import gradc
from gradc import driver
from gradc.schedule.cost import cost
from gradc.types import evaluate_dim

FOLDER = EXAMPLES / "bench"
NAMES = ("logreg", "gmm", "ba", "mlp")
SIZES = (0, 1, 63, 64, 65, 513)
Draw = Callable[..., list[Any]]


def _logreg(rng: np.random.Generator, N: int = 5, D: int = 3) -> list[Any]:
    X, w, b = (rng.normal(size=s) for s in ((N, D), (D,), (1,)))
    return [X, rng.choice([-1.0, 1.0], N), w, b]


def _gmm(rng: np.random.Generator, N: int = 5) -> list[Any]:
    sizes = (N, 10), (25,), (25, 10), (25, 10), (25, 45)
    return [rng.normal(size=s) for s in sizes]


def _ba(rng: np.random.Generator, P: int = 5, C: int = 4, M: int = 6) -> list[Any]:
    sizes = (C, 11), (M, 3), (P,), (P, 2)
    cams, X, w, feat = (rng.normal(size=s) for s in sizes)
    looks = [rng.integers(-n, max(n, 1), P) for n in (C, M)]
    return [cams, X, w, feat, *looks]


def _mlp(rng: np.random.Generator, B: int = 5) -> list[Any]:
    sizes = (B, 784), (784, 128), (128,), (128, 10), (10,)
    x, W1, b1, W2, b2 = (rng.normal(size=s).astype("float32") / 10 for s in sizes)
    return [x, rng.integers(0, 10, B), W1, b1, W2, b2]


CASES = [
    *(("logreg", _logreg, {"N": n}) for n in SIZES),
    *(("logreg", _logreg, {"D": n}) for n in SIZES),
    *(("gmm", _gmm, {"N": n}) for n in SIZES),
    *(("ba", _ba, {"P": n}) for n in SIZES),
    *(("ba", _ba, {"C": n, "P": min(n, 5)}) for n in SIZES),
    *(("ba", _ba, {"M": n, "P": min(n, 5)}) for n in SIZES),
    *(("mlp", _mlp, {"B": n}) for n in SIZES),
]


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModuleType]:
    """The committed modules, each imported once, with their machine code elsewhere."""
    folder = tmp_path_factory.mktemp("bench")
    known: dict[str, ModuleType] = {}

    def module(name: str) -> ModuleType:
        if name not in known:
            path = folder / f"{name}_grad.py"
            shutil.copy(FOLDER / path.name, path)
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            known[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(known[name])
        return known[name]

    return module


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """The same graphs as whole-array statements."""
    sources = {name: FOLDER / f"{name}.gc" for name in NAMES}
    return {
        name: gradc.compile(path, target="numpy", static=static_sizes(path))
        for name, path in sources.items()
    }


def results(module: Any, given: list[Any]) -> list[Any]:
    """All values and gradients, flat."""
    if not hasattr(module, "value_and_gradients"):
        return list(module.run(*given))
    values, gradients = module.value_and_gradients(*given)
    return [*values, *gradients]


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_module_is_what_gradc_makes(
    name: str, request: pytest.FixtureRequest
) -> None:
    source = FOLDER / f"{name}.gc"
    static = [f"{s}={n}" for s, n in static_sizes(source).items()]
    options = ["--static", ",".join(static)] if static else []
    check_committed(source, request.config.getoption("--update-golden"), options)


@pytest.mark.parametrize("name", NAMES)
def test_the_program_is_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    source = FOLDER / f"{name}.gc"
    made = driver.plan(source, driver.Options(static=static_sizes(source)))
    made_of = driver.schedules(made)
    wanted = made_of.get("value_and_gradients", made_of["run"]).program
    path = FOLDER / f"{name}.program.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(f"{wanted}\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == f"{wanted}\n"


@pytest.mark.parametrize(
    ("name", "draw", "sizes"), CASES, ids=[f"{c[0]} {c[2]}" for c in CASES]
)
def test_values(
    name: str,
    draw: Draw,
    sizes: dict[str, int],
    modules: Callable[[str], ModuleType],
    plain: dict[str, Any],
) -> None:
    given = draw(np.random.default_rng(7), **sizes)
    tolerance = 1e-5 if name == "mlp" else 1e-10
    found, wanted = (results(m, given) for m in (modules(name), plain[name]))
    for got, want in zip(found, wanted, strict=True):
        scale = np.max(np.abs(want), initial=0.0) if np.all(np.isfinite(want)) else 1.0
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize(
    ("name", "draw", "sizes"),
    [
        ("gmm", _gmm, {"N": 5_000}),
        ("mlp", _mlp, {"B": 2_000}),
        ("ba", _ba, {"P": 9_000}),
    ],
    ids=["gmm", "mlp", "ba"],
)
def test_the_memory_is_what_explain_says(
    name: str,
    draw: Draw,
    sizes: dict[str, int],
    modules: Callable[[str], ModuleType],
) -> None:
    module = modules(name)
    results(module, draw(np.random.default_rng(7)))  # compiles
    given = draw(np.random.default_rng(7), **sizes)
    tracemalloc.start()
    try:
        made = results(module, given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    source = FOLDER / f"{name}.gc"
    kernels = driver.schedules(
        driver.plan(source, driver.Options(static=static_sizes(source)))
    )
    kernel = kernels.get("value_and_gradients", kernels["run"])
    planned = evaluate_dim(cost(kernel.program).memory, sizes)
    assert peak == pytest.approx(planned + sum(r.nbytes for r in made), rel=0.1)

"""The Gaussian process on Mauna Loa's CO2 against scikit-learn's."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize
from scripts import EXAMPLES, check_committed, imports_of, load_script, run_script
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

FOLDER = EXAMPLES / "co2"
SCALE = np.array([2.0, 1.0, 2.0])  # scikit-learn's theta: logarithms of the squares
Array = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    """The example's script, not run."""
    return load_script(FOLDER)


@pytest.fixture(scope="module")
def series() -> tuple[Array, Array, Array, Array]:
    """Times, residuals, the times of the last year, the trend there."""
    year, month, co2 = np.loadtxt(FOLDER / "co2.csv", delimiter=",", skiprows=1).T
    t = year - 1986 + (month - 0.5) / 12
    columns = [np.ones_like(t), t]
    for k in (1, 2):
        columns += [np.sin(2 * np.pi * k * t), np.cos(2 * np.pi * k * t)]
    A = np.stack(columns, axis=1)
    trend = A @ np.linalg.solve(A[:180].T @ A[:180], A[:180].T @ co2[:180])
    return t[:180], (co2 - trend)[:180], t[180:], trend[180:]


@pytest.fixture(scope="module")
def peer(series: tuple[Array, Array, Array, Array]) -> Any:
    """scikit-learn's fit, from the same start."""

    def optimize(fun: Any, start: Array, bounds: Array) -> tuple[Array, float]:
        exact = {"ftol": 1e-15, "gtol": 1e-8}
        found = minimize(fun, start, jac=True, bounds=bounds, options=exact)
        return found.x, found.fun

    t, y, _, _ = series
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(np.exp(-2.0))
    model = GaussianProcessRegressor(kernel, alpha=0, optimizer=optimize)
    return model.fit(t[:, None], y)


def test_the_committed_module_is_what_gradc_makes(
    request: pytest.FixtureRequest,
) -> None:
    check_committed(FOLDER / "gp.gc", request.config.getoption("--update-golden"))


def test_the_table_is_16_whole_years() -> None:
    path = FOLDER / "co2.csv"
    year, month, co2 = np.loadtxt(path, delimiter=",", skiprows=1).T
    assert path.read_text().partition("\n")[0] == "year,month,co2"
    np.testing.assert_array_equal(year, np.repeat(np.arange(1986, 2002), 12))
    np.testing.assert_array_equal(month, np.tile(np.arange(1, 13), 16))
    assert (co2.min(), co2.max()) == (344.1, 373.8)


@pytest.mark.parametrize(
    "theta", [(0.0, 0.0, -1.0), (-0.7, 0.4, -1.8), (1.5, -2.0, 0.3), (-2.0, 1.0, -0.5)]
)
def test_the_value_and_the_gradient_anywhere(
    fit: ModuleType, series: tuple[Array, Array, Array, Array], peer: Any, theta: Any
) -> None:
    t, y, t_new, _ = series
    value, gradient = fit.gp_grad.objective(t, y, t_new).fun(np.array(theta))
    expected, slope = peer.log_marginal_likelihood(
        SCALE * np.array(theta), eval_gradient=True
    )
    assert -value == pytest.approx(expected, rel=1e-10)
    assert -gradient == pytest.approx(SCALE * slope, rel=1e-8)


def test_scikit_learn_reaches_the_number_in_the_script(
    fit: ModuleType, peer: Any
) -> None:
    best = peer.log_marginal_likelihood(peer.kernel_.theta)
    assert best == pytest.approx(fit.SKLEARN, abs=1e-6)


def test_the_value_and_the_gradient_at_scikit_learn_s_optimum(
    fit: ModuleType, series: tuple[Array, Array, Array, Array], peer: Any
) -> None:
    t, y, t_new, _ = series
    theta = peer.kernel_.theta
    value, gradient = fit.gp_grad.objective(t, y, t_new).fun(theta / SCALE)
    expected, slope = peer.log_marginal_likelihood(theta, eval_gradient=True)
    assert -value == pytest.approx(expected, rel=1e-12)
    assert -gradient == pytest.approx(SCALE * slope, abs=1e-9)
    assert np.abs(gradient).max() < 1e-5


def test_the_fit(
    fit: ModuleType,
    series: tuple[Array, Array, Array, Array],
    peer: Any,
    tmp_path: Path,
) -> None:
    """As a user runs it: the optimum, and the 12 months, which scikit-learn predicts alike."""
    lines = run_script(FOLDER, tmp_path)
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in lines)
    total = float(shown["log marginal likelihood"].split()[0])
    assert total == pytest.approx(fit.SKLEARN, abs=2e-6)
    assert float(shown["scikit-learn's"]) == fit.SKLEARN
    assert float(shown["gradient norm"]) < 1e-4
    found = [float(shown[name].split()[0]) for name in ("amplitude", "length", "noise")]
    assert found == pytest.approx(np.exp(peer.kernel_.theta / SCALE), rel=2e-6)
    assert shown["source"] == str(FOLDER / "gp_grad.py")

    _, _, t_new, trend = series
    co2 = np.loadtxt(FOLDER / "co2.csv", delimiter=",", skiprows=1)[180:, 2]
    mean, deviation = peer.predict(t_new[:, None], return_std=True)
    rows = [re.findall(r"\d+\.\d+", line) for line in lines if line.startswith("2001-")]
    expected = np.stack([trend + mean, deviation, co2], axis=1)
    assert np.array(rows, np.float64) == pytest.approx(expected, abs=6e-4)


def test_the_script_imports_the_module_numpy_and_scipy_alone() -> None:
    assert imports_of(FOLDER / "fit.py") == {
        "pathlib",
        "gp_grad",
        "numpy",
        "scipy.optimize",
    }

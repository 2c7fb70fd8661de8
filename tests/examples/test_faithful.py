"""The mixture on Old Faithful's eruptions against scikit-learn's, which fits it by EM."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from scripts import EXAMPLES, check_committed, imports_of, load_script, run_script
from sklearn.mixture import GaussianMixture

FOLDER = EXAMPLES / "faithful"
Array = npt.NDArray[np.float64]


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    """The example's script, not run."""
    return load_script(FOLDER)


@pytest.fixture(scope="module")
def table() -> Array:
    return np.loadtxt(FOLDER / "faithful.csv", delimiter=",", skiprows=1)


@pytest.fixture(scope="module")
def peer(table: Array) -> GaussianMixture:
    """scikit-learn's fit to the table as it is; the short eruptions are component 0."""
    model = GaussianMixture(2, tol=1e-15, reg_covar=0, max_iter=10_000, random_state=0)
    model.fit(table)
    assert model.converged_
    order = np.argsort(model.means_[:, 0])
    for name in ("weights_", "means_", "covariances_"):
        setattr(model, name, getattr(model, name)[order])
    return model


def test_the_committed_module_is_what_gradc_makes(
    request: pytest.FixtureRequest,
) -> None:
    check_committed(FOLDER / "faithful.gc", request.config.getoption("--update-golden"))


def test_the_table_is_old_faithful_s(table: Array) -> None:
    assert table.shape == (272, 2)
    assert table.mean(axis=0) == pytest.approx([3.487783, 70.897059], abs=5e-7)
    header = (FOLDER / "faithful.csv").read_text().partition("\n")[0]
    assert header == "eruptions,waiting"


def test_scikit_learn_reaches_the_number_in_the_script(
    fit: ModuleType, table: Array, peer: GaussianMixture
) -> None:
    assert peer.score(table) * 272 == pytest.approx(fit.SKLEARN, abs=1e-6)


def test_the_fit(fit: ModuleType, peer: GaussianMixture, tmp_path: Path) -> None:
    """As a user runs it; every number that it prints has 6 digits in common."""
    lines = run_script(FOLDER, tmp_path)
    shown = dict(line.split(None, 1) for line in lines if not line.startswith(" "))
    total = float(shown["log-likelihood"].split()[0])
    assert total == pytest.approx(fit.SKLEARN, abs=2e-6)
    assert float(shown["scikit-learn's"]) == fit.SKLEARN
    assert float(shown["gradient"].removeprefix("norm")) < 1e-6
    assert shown["source"] == str(FOLDER / "faithful_grad.py")
    numbers = [
        float(number)
        for line in lines
        if line.startswith(("component", "    "))
        for number in re.findall(r"-?\d+\.\d+", line)
    ]
    expected = [
        number
        for k in range(2)
        for number in (peer.weights_[k], *peer.means_[k], *peer.covariances_[k].flat)
    ]
    assert numbers == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_value_and_the_gradient_away_from_the_optimum(
    fit: ModuleType, table: Array
) -> None:
    """Against central differences of scikit-learn's own likelihood, of three components."""
    rng = np.random.default_rng(3)
    x = (table - table.mean(axis=0)) / table.std(axis=0)
    o = fit.faithful_grad.objective(x)
    theta = o.pack(
        logits=rng.normal(size=3),
        mu=rng.normal(size=(3, 2)),
        log_diag=rng.normal(size=(3, 2)) / 3,
        low=rng.normal(size=(3, 2, 2)),
    )

    def peer_loss(theta: Array) -> float:
        parts = o.unpack(theta)
        L = np.tril(parts["low"], -1) + np.exp(parts["log_diag"])[..., None] * np.eye(2)
        weights = np.exp(parts["logits"])
        model = GaussianMixture(3)
        model.weights_ = weights / weights.sum()
        model.means_ = parts["mu"]
        model.covariances_ = L @ L.mT
        model.precisions_cholesky_ = np.linalg.inv(L).mT
        return -model.score(x)

    value, gradient = o.fun(theta)
    assert value == pytest.approx(peer_loss(theta), rel=1e-12)
    step = 1e-5
    for i, slope in enumerate(gradient):
        way = step * (np.arange(theta.size) == i)
        expected = (peer_loss(theta + way) - peer_loss(theta - way)) / (2 * step)
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-9)
    upper = o.unpack(gradient)["low"][:, *np.triu_indices(2)]
    assert not upper.any()  # what tril leaves out has no part in the loss


def test_the_script_imports_the_module_numpy_and_scipy_alone() -> None:
    assert imports_of(FOLDER / "fit.py") == {
        "pathlib",
        "faithful_grad",
        "numpy",
        "scipy.optimize",
    }

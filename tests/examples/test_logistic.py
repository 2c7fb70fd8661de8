"""The example that the README's first command runs, from the table to the optimum."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scripts import EXAMPLES, check_committed, imports_of, load_script, run_script

from gradc.cli.app import main

FOLDER = EXAMPLES / "logistic"


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    """The example's script."""
    return load_script(FOLDER)


def tables() -> tuple[np.ndarray, np.ndarray]:
    """The standardised features and the labels."""
    X = np.loadtxt(FOLDER / "features.csv", delimiter=",", skiprows=1)
    y = np.loadtxt(FOLDER / "labels.csv", skiprows=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_the_committed_module_is_what_gradc_makes(
    request: pytest.FixtureRequest,
) -> None:
    update = request.config.getoption("--update-golden")
    check_committed(FOLDER / "logistic.gc", update)


def test_the_table_is_scikit_learn_s() -> None:
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    X = np.loadtxt(FOLDER / "features.csv", delimiter=",", skiprows=1)
    y = np.loadtxt(FOLDER / "labels.csv", skiprows=1)
    assert X.shape == (569, 30)
    np.testing.assert_array_equal(X, table.data)
    np.testing.assert_array_equal(y == 1, table.target == 0)  # 1 is malignant
    header = (FOLDER / "features.csv").read_text().partition("\n")[0]
    assert header.split(",") == [n.replace(" ", "_") for n in table.feature_names]


def test_scikit_learn_reaches_the_number_in_the_script(fit: ModuleType) -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = tables()
    model = LogisticRegression(
        C=1 / (2 * fit.L2 * 569), tol=1e-12, solver="newton-cholesky"
    ).fit(X, y)
    z = X @ model.coef_[0] + model.intercept_[0]
    loss = np.mean(np.logaddexp(0, z) - y * z) + fit.L2 * np.sum(model.coef_**2)
    assert loss == pytest.approx(fit.SKLEARN, rel=1e-9)


def test_the_fit(tmp_path: Path) -> None:
    lines = dict(line.split(None, 1) for line in run_script(FOLDER, tmp_path))
    assert list(lines) == ["minimum", "scikit-learn's", "gradient", "right", "source"]
    minimum = float(lines["minimum"].split()[0])
    assert minimum == pytest.approx(float(lines["scikit-learn's"]), rel=1e-6)
    norms = re.fullmatch(
        r"norm +(\S+) at the start, (\S+) at the minimum", lines["gradient"]
    )
    assert norms is not None and float(norms[1]) > 1 and float(norms[2]) < 1e-6
    assert lines["source"] == str(FOLDER / "logistic_grad.py")


def test_the_script_imports_the_module_numpy_and_scipy_alone() -> None:
    allowed = {"pathlib", "logistic_grad", "numpy", "scipy.optimize"}
    assert imports_of(FOLDER / "fit.py") == allowed


def test_the_commands_of_the_readme_on_the_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FOLDER)
    data = ["--in", "X=features.csv", "y=labels.csv:diagnosis", "w=0", "b=0"]
    assert main(["run", "logistic.gc", *data, "--target", "numpy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"loss            {np.log(2)!s}"
    assert lines[1].startswith("gradient by w   float64[30]   norm ")
    assert main(["verify", "logistic.gc", *data, "--target", "numpy"]) == 0

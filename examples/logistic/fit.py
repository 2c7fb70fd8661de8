"""Fit a logistic regression with the gradient that gradc compiled from logistic.gc."""

from pathlib import Path

import logistic_grad  # the compiled module; gradc itself is not needed
import numpy as np
from scipy.optimize import minimize

FOLDER = Path(__file__).resolve().parent
L2 = 0.01

# The minimum of scikit-learn 1.9 on the same standardised table: `loss` at coef_ and intercept_ of
#   LogisticRegression(C=1 / (2 * L2 * 569), tol=1e-12, solver="newton-cholesky").fit(X, y)
# (C makes its objective a multiple of ours). tests/examples/test_logistic.py computes it anew.
SKLEARN = 0.12088164681108823


def main() -> None:
    X = np.loadtxt(FOLDER / "features.csv", delimiter=",", skiprows=1)
    y = np.loadtxt(FOLDER / "labels.csv", skiprows=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)

    o = logistic_grad.objective(X, y, l2=L2)
    start = o.pack(w=np.zeros(X.shape[1]), b=0.0)
    exact = {"gtol": 1e-9, "ftol": 1e-15}
    fit = minimize(o.fun, start, jac=True, method="L-BFGS-B", options=exact)
    norms = [np.linalg.norm(o.fun(theta)[1]) for theta in (start, fit.x)]
    w, b = o.unpack(fit.x).values()
    right = np.mean((X @ w + b > 0) == (y == 1))

    print(f"minimum         {fit.fun:.9f} after {fit.nit} iterations")
    print(f"scikit-learn's  {SKLEARN:.9f}")
    print(f"gradient norm   {norms[0]:.3f} at the start, {norms[1]:.1e} at the minimum")
    print(f"right on        {right:.1%} of {len(X)} tumours")
    print(f"source          {logistic_grad.__file__}")


if __name__ == "__main__":
    main()

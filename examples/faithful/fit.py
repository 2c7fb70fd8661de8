"""Fit two Gaussians to Old Faithful's eruptions with the gradient compiled from faithful.gc."""

from pathlib import Path

import faithful_grad  # the compiled module; gradc itself is not needed
import numpy as np
from scipy.optimize import minimize

FOLDER = Path(__file__).resolve().parent

# The log-likelihood that scikit-learn 1.9 reaches on the same standardised table:
#   GaussianMixture(2, tol=1e-13, reg_covar=0, max_iter=10_000, random_state=0).fit(x)
# tests/examples/test_faithful.py computes it anew.
SKLEARN = -1130.263960


def main() -> None:
    table = np.loadtxt(FOLDER / "faithful.csv", delimiter=",", skiprows=1)
    centre, scale = table.mean(axis=0), table.std(axis=0)
    x = (table - centre) / scale

    o = faithful_grad.objective(x)
    means = np.array([[-1.0, -1.0], [1.0, 1.0]])
    start = o.pack(
        logits=np.zeros(2), mu=means, log_diag=np.zeros((2, 2)), low=np.zeros((2, 2, 2))
    )
    exact = {"gtol": 1e-9, "ftol": 1e-15}
    fit = minimize(o.fun, start, jac=True, method="L-BFGS-B", options=exact)
    best = faithful_grad.run(x, **o.unpack(fit.x))
    total = -len(x) * (fit.fun + np.log(scale).sum())

    print(f"log-likelihood  {total:.6f} after {fit.nit} iterations")
    print(f"scikit-learn's  {SKLEARN:.6f}")
    print(f"gradient norm   {np.linalg.norm(fit.jac):.1e}")
    for k in range(2):
        mean = centre + scale * o.unpack(fit.x)["mu"][k]
        covariance = best.covariances[k] * np.outer(scale, scale)
        print(f"component {k + 1}     weight {best.weights[k]:.6f}")
        print(f"    mean        {mean[0]:.6f} min, {mean[1]:.6f} min")
        print(f"    covariance  {covariance[0].round(6)} {covariance[1].round(6)}")
    print(f"source          {faithful_grad.__file__}")


if __name__ == "__main__":
    main()

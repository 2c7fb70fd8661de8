"""Fit a Gaussian process to the CO2 at Mauna Loa with the gradient compiled from gp.gc."""

from pathlib import Path

import gp_grad  # the compiled module; gradc itself is not needed
import numpy as np
from scipy.optimize import minimize

FOLDER = Path(__file__).resolve().parent
AHEAD = 12  # months to predict, which the fit does not see

# The log marginal likelihood at scikit-learn 1.9's own optimum for the same residuals, from
#   GaussianProcessRegressor(ConstantKernel() * RBF() + WhiteKernel(), alpha=0).fit(t, y)
# tests/examples/test_co2.py computes it anew.
SKLEARN = -45.324815


def main() -> None:
    year, month, co2 = np.loadtxt(FOLDER / "co2.csv", delimiter=",", skiprows=1).T
    t = year - year[0] + (month - 0.5) / 12

    # A line, a yearly and a half-yearly wave by least squares; the process is the rest.
    waves = [f(2 * np.pi * k * t) for k in (1, 2) for f in (np.sin, np.cos)]
    A = np.stack([t**0, t, *waves], axis=1)
    trend = A @ np.linalg.lstsq(A[:-AHEAD], co2[:-AHEAD])[0]
    t, y, t_new = t[:-AHEAD], (co2 - trend)[:-AHEAD], t[-AHEAD:]

    o = gp_grad.objective(t, y, t_new)
    start = o.pack(log_amplitude=0.0, log_length=0.0, log_noise=-1.0)
    fit = minimize(o.fun, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-13})
    amplitude, length, noise = np.exp(fit.x)
    _, mean, variance = gp_grad.run(t, y, t_new, *fit.x)

    print(f"log marginal likelihood  {-fit.fun:.6f} after {fit.nit} iterations")
    print(f"scikit-learn's           {SKLEARN:.6f}")
    print(f"gradient norm            {np.linalg.norm(fit.jac):.1e}")
    print(f"amplitude                {amplitude:.6f} ppm")
    print(f"length                   {length:.6f} years")
    print(f"noise                    {noise:.6f} ppm")
    print(f"source                   {gp_grad.__file__}")
    print("month     predicted         measured")
    parts = year, month, trend, co2
    rows = zip(*(part[-AHEAD:] for part in parts), mean, np.sqrt(variance), strict=True)
    for year_, month_, trend_, measured, mean_, deviation in rows:
        predicted = f"{trend_ + mean_:.3f} +- {deviation:.3f}"
        print(f"{year_:.0f}-{month_:02.0f}   {predicted}  {measured:.3f}")


if __name__ == "__main__":
    main()

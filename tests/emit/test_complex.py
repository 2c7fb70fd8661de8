"""Complex numbers on both targets, and the functions of complexlib against mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from gradc.driver import compile
from gradc.emit import complexlib

GRAPH = """
z: KIND[N, M]
w: KIND[M, K]
x: PART[N]
a = 0.1 * exp(z) * z + 0.1 * x[:, None]
b = a @ w
c = sqrt(b) / (1.5 + b) - b**2
d = where(c.real > 0, c, conj(c)) * 2j
e = cumprod(d, axis=0) + prod(d, axis=1, keepdims=True)
loss = sum(abs(e)) + angle(sum(b)) + sum(norm(z, axis=1)) + std(z) + complex(x, x)[0].imag
differentiate(loss, [z, w, x])
return loss, isnan(d), c == d, c.astype(float64), c**-3
"""


def drawn(kind: str, n: int) -> dict[str, object]:
    rng = np.random.default_rng(3)
    part = "float32" if kind == "complex64" else "float64"

    def numbers(*shape: int) -> object:
        return rng.normal(size=shape) + 1j * rng.normal(size=shape)

    return {
        "z": np.asarray(numbers(n, 20), kind),
        "w": np.asarray(numbers(20, 18), kind) / 10,
        "x": rng.normal(size=n).astype(part),
    }


@pytest.mark.parametrize("kind, opt", [("complex128", 1), ("complex64", 0)])
def test_targets_agree(kind: str, opt: int) -> None:
    part = "float32" if kind == "complex64" else "float64"
    text = GRAPH.replace("KIND", kind).replace("PART", part)
    plain, compiled = compile(text, target="numpy"), compile(text, opt=opt)
    tolerance = 1e-10 if kind == "complex128" else 2e-3
    for n in (3, 1):
        data = drawn(kind, n)
        found = []
        for module in (plain, compiled):
            values, bars = module.value_and_gradients(**data)
            found.append([*module.run(**data), *values, *bars])
        for a, b in zip(*found, strict=True):
            assert a.dtype == b.dtype
            assert np.isfinite(a).all()
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)
    assert "_zgemm" in compiled.source or "_cgemm" in compiled.source


# ------------------------------------------------------------------------- complexlib

EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda z: mpmath.mpf(2) ** z,
    "expm1": lambda z: mpmath.expm1(z),
    "log": mpmath.log,
    "log2": lambda z: mpmath.log(z, 2),
    "log10": mpmath.log10,
    "log1p": lambda z: mpmath.log(1 + z),
    "sqrt": mpmath.sqrt,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
}


def numbers() -> list[complex]:
    """Numbers of every quadrant and size, near 1, 0 and the unit circle."""
    rng = np.random.default_rng(1)
    plain = rng.normal(size=60) + 1j * rng.normal(size=60)
    spread = plain * np.exp(3 * rng.normal(size=60))
    circle = np.exp(1j * plain.real) * (1 + 1e-9 * plain.imag)
    near = 1 + 1e-7 * plain
    return [
        complex(z) for z in np.concatenate([plain, spread, circle, near, 1e-8 * plain])
    ]


@pytest.mark.parametrize("name", EXACT)
def test_accuracy(name: str) -> None:
    """Within 4 ULP of the absolute value."""
    function = getattr(complexlib, f"_{name}_complex")
    with mpmath.workdps(40):
        for z in numbers():
            if abs(z.real) > 300 or abs(z.imag) > (3 if name == "exp2" else 300):
                continue
            exact = EXACT[name](mpmath.mpc(z))
            error = abs(mpmath.mpc(function(z)) - exact)
            assert error <= 4 * 2.0**-52 * abs(exact), (z, function(z), exact)


def test_quotients_and_powers() -> None:
    divide, power = complexlib._divide_complex, complexlib._power_complex
    assert divide(1e300 + 1e300j, 1e300 + 1e300j) == 1
    assert divide(2.0**-990 + 0j, complex(0.0, 2.0**-990)) == -1j
    assert power(1j, 2 + 0j) == -1
    assert power(2j, -2 + 0j) == -0.25
    assert power(0j, 0j) == 1
    assert power(0j, 2 + 0j) == 0
    assert math.isnan(power(0j, 1j).real)
    assert abs(power(2 + 1j, 0.5 - 1j) - (2 + 1j) ** (0.5 - 1j)) < 1e-15


def test_edges() -> None:
    assert complexlib._exp_complex(complex(-math.inf, math.nan)) == 0
    with np.errstate(all="ignore"):
        big = complexlib._exp_complex(complex(709.9, 1.0))
    exact = mpmath.exp(mpmath.mpc(709.9, 1.0))
    assert abs(mpmath.mpc(big) - exact) < 1e-13 * abs(exact)
    assert complexlib._sqrt_complex(complex(-4.0, -0.0)) == -2j
    assert complexlib._sqrt_complex(complex(1e308, 1e308)).real > 1e154
    assert complexlib._sqrt_complex(complex(1.0, math.inf)).real == math.inf
    assert complexlib._log_complex(complex(-1.0, -0.0)).imag == -math.pi
    assert complexlib._log_complex(complex(1e308, 1e308)).real > 709
    with np.errstate(all="ignore"):
        assert complexlib._tanh_complex(complex(800.0, 1.0)).real == 1
    assert complexlib._arctanh_complex(complex(1e200, 1.0)).imag == math.pi / 2

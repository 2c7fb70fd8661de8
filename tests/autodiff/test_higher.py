"""Gradients of gradients: to fourth order, products with Hessians, penalties, unrolled steps."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from gradc.autodiff.reverse import gradients
from gradc.graph import Tensor, label
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.types import TensorType, float64
from tests.autodiff.helpers import check

ORDERS: list[tuple[str, Any, float, int]] = [
    ("tanh(x)", mpmath.tanh, 0.4, 4),
    ("exp(x)", mpmath.exp, 0.4, 4),
    ("log(x)", mpmath.log, 0.7, 4),
    ("sin(x)", mpmath.sin, 0.4, 4),
    ("sqrt(x)", mpmath.sqrt, 0.7, 4),
    ("1 / x", lambda x: 1 / x, 0.7, 4),
    ("x**4", lambda x: x**4, 0.7, 4),
    ("x**2.5", lambda x: x ** mpmath.mpf(2.5), 0.7, 4),
    ("sigmoid(x)", lambda x: 1 / (1 + mpmath.exp(-x)), 0.4, 4),
    ("softplus(x)", lambda x: mpmath.log(1 + mpmath.exp(x)), 0.4, 4),
    ("arctan(x)", mpmath.atan, 0.4, 3),
    ("softsign(x)", lambda x: x / (1 + abs(x)), 0.4, 3),
    ("erf(x)", mpmath.erf, 0.4, 3),
    ("gammaln(x)", mpmath.loggamma, 1.7, 3),
    ("gelu(x)", lambda x: x * (1 + mpmath.erf(x / mpmath.sqrt(2))) / 2, 0.4, 3),
    ("x**x", lambda x: x**x, 0.7, 3),
    ("arcsin(x)", mpmath.asin, 0.4, 3),
    ("logsumexp(stack([x, 2 * x, 0.3]))",
     lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(2 * x) + mpmath.exp(mpmath.mpf(0.3))),
     0.4, 3),
    ("softmax(stack([x, x**2]))[0]",
     lambda x: mpmath.exp(x) / (mpmath.exp(x) + mpmath.exp(x**2)), 0.4, 3),
    ("det(array([[x, 2.0], [x**2, 3.0 * x]]))", lambda x: 3 * x * x - 2 * x * x, 0.4, 3),
    ("slogdet(array([[x, 0.2], [x**2, 3.0]]))[1]",
     lambda x: mpmath.log(3 * x - mpmath.mpf(0.2) * x * x), 0.7, 3),
    ("inv(array([[x, 0.2], [0.1, 3.0]]))[0, 0]",
     lambda x: 3 / (3 * x - mpmath.mpf(0.2) * mpmath.mpf(0.1)), 0.7, 3),
    ("norm(stack([x, 2.0]))", lambda x: mpmath.sqrt(x * x + 4), 0.7, 3),
    ("std(stack([x, 2.0, 3.0]))",
     lambda x: mpmath.sqrt((x * x + 13) / 3 - ((x + 5) / 3) ** 2), 0.7, 3),
    ("prod(stack([x, x**2, 1 + x]))", lambda x: x**3 * (1 + x), 0.7, 3),
    ("cumprod(stack([x, x, x]))[2]", lambda x: x**3, 0.7, 3),
    ("hypot(x, 2.0)", lambda x: mpmath.sqrt(x * x + 4), 0.7, 3),
    ("logaddexp(x, 0.3)",
     lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(mpmath.mpf(0.3))), 0.4, 3),
    ("xlogy(x, x)", lambda x: x * mpmath.log(x), 0.7, 3),
    ("cholesky(array([[x, 0.2], [0.2, 2.0]]))[1, 1]",
     lambda x: mpmath.sqrt(2 - mpmath.mpf(0.2) ** 2 / x), 0.7, 3),
    ("where(x > 0, x**3, x)", lambda x: x**3, 0.7, 3),
    ("log1p(expm1(x))", lambda x: x, 0.4, 3),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "function", "x", "order"), ORDERS, ids=[o[0] for o in ORDERS]
)
def test_derivatives_to_high_order(
    expression: str, function: Any, x: float, order: int
) -> None:
    lines = ["x: float64", f"d0 = {expression}"]
    lines += [
        f'd{k + 1}, = gradients(d{k}, x, unconnected_gradients="zero")'
        for k in range(order)
    ]
    lines.append("return " + ", ".join(f"d{k}" for k in range(order + 1)))
    with mpmath.workdps(50):
        wanted = {
            f"d{k}": float(mpmath.diff(function, mpmath.mpf(x), k))
            for k in range(order + 1)
        }
    from tests.autodiff.helpers import results

    found = results("\n".join(lines) + "\n", x=x)
    for name, want in wanted.items():
        np.testing.assert_allclose(
            found[name], want, rtol=1e-9, atol=1e-9, err_msg=name
        )


def test_a_derivative_that_is_not_there() -> None:
    check(
        """
x: float
a, = gradients(x * x, x)
b, = gradients(a, x)
c, = gradients(b, x)
d, = gradients(3 * x, x)
e, = gradients(d, x)
f, = gradients(relu(x), x)
g, = gradients(f, x, unconnected_gradients="zero")
return a, b, c, d, e, g
""",
        {"a": 4.0, "b": 2.0, "c": None, "d": 3.0, "e": None, "g": 0.0},
        x=2.0,
    )


def test_a_derivative_by_a_gradient() -> None:
    check(
        """
x: float
g, = gradients(exp(x), x)
a, b = gradients(g**2 * x, [g, x])
return a, b
""",
        {"a": 2 * np.e, "b": 3 * np.e**2},
        x=1.0,
    )


def test_mixed_partials_are_equal() -> None:
    check(
        """
x: float
y: float
f = sin(x * y) + x**3 / y
a, b = gradients(f, [x, y])
c, = gradients(a, y)
d, = gradients(b, x)
return c, d
""",
        dict.fromkeys("cd", np.cos(0.6) - 0.6 * np.sin(0.6) - 3 * 0.5**2 / 1.2**2),
        x=0.5,
        y=1.2,
    )


def rosenbrock(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The Hessian of the sum of 100 (x' - x^2)^2 + (1 - x)^2."""
    n = x.size
    H = np.zeros((n, n))
    for i in range(n - 1):
        H[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        H[i + 1, i + 1] += 200
        H[i, i + 1] -= 400 * x[i]
        H[i + 1, i] -= 400 * x[i]
    return H


def test_products_with_a_hessian() -> None:
    x, v = np.array([0.3, -0.7, 1.1, 0.2]), np.array([1.0, -2.0, 0.5, 3.0])
    check(
        """
x: float[N]
v: float[N]
f = sum(100 * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2)
g, = gradients(f, x)
a, = gradients(sum(g * v), x)
b, = gradients(sum(g * stop_gradient(v)), x)
c, = gradients(g, x, grad_ys=v)
return a, b, c
""",
        dict.fromkeys("abc", rosenbrock(x) @ v),
        x=x,
        v=v,
    )


def test_a_gradient_penalty() -> None:
    """d/dw of |d(softplus(w x)) / dx|^2, against central differences."""
    text = """
w: float[3, 2]
x: float[3]
critic = sum(softplus(x @ w))
g, = gradients(critic, x)
loss = critic + 10.0 * (norm(g) - 1.0)**2
a, b = gradients(loss, [w, x])
return loss, a, b
"""
    from tests.autodiff.helpers import results

    rng = np.random.default_rng(3)
    data = {"w": rng.normal(size=(3, 2)), "x": rng.normal(size=3)}
    found = results(text, **data)
    for name, bar in (("w", found["a"]), ("x", found["b"])):
        assert bar is not None
        for index in np.ndindex(bar.shape):
            values = []
            for step in (1e-5, -1e-5):
                moved = {k: v.copy() for k, v in data.items()}
                moved[name][index] += step
                loss = results(text, **moved)["loss"]
                assert loss is not None
                values.append(float(loss))
            difference = (values[0] - values[1]) / 2e-5
            assert bar[index] == pytest.approx(difference, rel=1e-6, abs=1e-7)


def test_through_the_steps_of_an_optimiser() -> None:
    """Two steps of descent on x^4 by rate r, and the derivative of where they end by r."""
    check(
        """
x: float
r: float
g, = gradients(x**4, x)
x1 = x - r * g
h, = gradients(x1**4, x1)
x2 = x1 - r * h
a, = gradients(x2, r)
return x2, a
""",
        {
            "x2": 0.6 - 0.05 * 4 * 0.6**3,
            # x1 = 1 - 0.1 * 4 = 0.6: dx2/dr = -4 x1^3 + (1 - 12 r x1^2) dx1/dr
            "a": -4 * 0.6**3 + (1 - 1.2 * 0.36) * -4.0,
        }
        | {"x2": 0.6 - 0.1 * 4 * 0.6**3},
        x=1.0,
        r=0.1,
    )


def test_fourth_derivatives_of_a_network_by_repeated_gradients() -> None:
    """y'''' of y = a . tanh(b t), a net as physics-informed fits differentiate it."""
    t = label(input_(name="t", type=TensorType(float64, ()), default=None), "t")
    a = label(input_(name="a", type=TensorType(float64, (3,)), default=None), "a")
    b = label(input_(name="b", type=TensorType(float64, (3,)), default=None), "b")
    y: Tensor = apply("sum", a * apply("tanh", b * t))
    for _ in range(4):
        (bar,) = gradients(y, t).tensors
        assert bar is not None
        y = bar
    data = {
        t: np.asarray(0.3),
        a: np.array([1.0, -0.5, 2.0]),
        b: np.array([0.7, 1.5, -1]),
    }
    (found,) = evaluate([y], data)
    wanted = sum(
        p * q**4 * float(mpmath.diff(mpmath.tanh, q * 0.3, 4))
        for p, q in zip(data[a], data[b], strict=True)
    )
    assert float(found) == pytest.approx(wanted, rel=1e-9)

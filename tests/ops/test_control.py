"""Stops, prevented gradients, derivatives given by the user."""

from __future__ import annotations

import numpy as np
import pytest

import gradc.ops  # noqa: F401  (enters all ops)
from gradc.autodiff.reverse import gradients
from gradc.errors import GradcError
from gradc.graph import Graph, Output, ordered
from gradc.ops.basic import input_
from gradc.ops.control import custom_gradient, prevent_gradient, stop_gradient
from gradc.ops.elementary import exp, log
from gradc.ops.evaluator import evaluate
from gradc.types import TensorType, float64, symbol

N = symbol("N")
X = np.array([0.5, -1.0, 2.0])


def tensor(*shape, name="x"):
    return input_(name=name, type=TensorType(float64, shape), default=None)


def test_stop_gradient_is_the_identity_without_a_path():
    x = tensor(N)
    stopped = stop_gradient(x)
    (value,) = evaluate([stopped], {x: X})
    np.testing.assert_array_equal(value, X)
    assert gradients(stopped, x).tensors == (None,)
    (bar,) = gradients(x * stopped, x).tensors
    np.testing.assert_array_equal(evaluate([bar], {x: X})[0], X)
    assert gradients(stopped * 2.0, stopped).tensors[0] is not None


def test_prevent_gradient_tells_its_message():
    x = tensor(N)
    y = prevent_gradient(x, "the table is fixed")
    np.testing.assert_array_equal(evaluate([y], {x: X})[0], X)
    with pytest.raises(GradcError, match="the table is fixed") as caught:
        gradients(y * 2.0, x)
    assert caught.value.code == "gradient-prevented"
    assert gradients(stop_gradient(y) * x, x).tensors[0] is not None


def log1pexp(x):
    return log(1.0 + exp(x))


def stable(x, g):
    return g * (1.0 - 1.0 / (1.0 + exp(x)))


def test_a_custom_gradient_is_used_and_can_be_differentiated():
    x = tensor(N)
    y = custom_gradient(log1pexp, stable)(x)
    (first,) = gradients(y, x).tensors
    (second,) = gradients(first, x).tensors
    sigmoid = 1 / (1 + np.exp(-X))
    values = evaluate([y, first, second], {x: X})
    wanted = [np.log1p(np.exp(X)), sigmoid, sigmoid * (1 - sigmoid)]
    for value, want in zip(values, wanted, strict=True):
        np.testing.assert_allclose(value, want)
    (large,) = evaluate([first], {x: np.array([1e3])})
    np.testing.assert_array_equal(large, [1])


def test_only_the_arguments_carry_a_derivative():
    x, w = tensor(N), tensor(N, name="w")
    y = custom_gradient(lambda a: a * w, lambda a, g: g * 7.0)(x)
    x_bar, w_bar = gradients(y, [x, w]).tensors
    assert w_bar is None
    np.testing.assert_array_equal(
        evaluate([x_bar], {x: X, w: X})[0], np.full_like(X, 7)
    )


def test_several_results_and_arguments():
    a, b = tensor(N), tensor(N, name="b")

    def f(p, q):
        return p * q, p + q

    def vjp(p, q, g, h):
        return g * 10.0 + h, None

    y, z = custom_gradient(f, vjp)(a, b)
    assert gradients(y, b).tensors == (None,)
    both, one = gradients([y, z], a).tensors[0], gradients(y, a).tensors[0]
    values = evaluate([y, z, both, one], {a: X, b: 2 * X})
    for value, want in zip(
        values, [2 * X**2, 3 * X, 11 + 0 * X, 10 + 0 * X], strict=True
    ):
        np.testing.assert_allclose(value, want)


def test_a_zero_cotangent_is_connected():
    x = tensor(N)
    y = custom_gradient(exp, lambda a, g: 0)(x)
    (bar,) = gradients(y, x).tensors
    np.testing.assert_array_equal(evaluate([bar], {x: X})[0], np.zeros(3))


def test_it_expands_to_the_inner_value():
    x = tensor(N)
    y = custom_gradient(log1pexp, stable)(x)
    graph = Graph("g", (x,), (Output("y", y),))
    plain = graph.rewrite({"custom": lambda node: node.op.expand(node)})
    (output,) = plain.outputs
    assert "custom" not in {node.op.name for node in ordered([output.tensor])}
    feeds = {plain.inputs[0]: X}
    np.testing.assert_allclose(evaluate([output.tensor], feeds)[0], np.log1p(np.exp(X)))


ERRORS = [
    (
        lambda x: custom_gradient(exp, lambda a, g: (g, g))(x),
        "gave 2 cotangents for 1 arguments",
    ),
    (
        lambda x: custom_gradient(exp, lambda a, g: stop_gradient(1.0))(x),
        "has shape (), its argument (N,)",
    ),
    (lambda x: custom_gradient(exp, 3), "vjp must be a function, found int"),
]


@pytest.mark.parametrize("make, message", ERRORS, ids=[e[1] for e in ERRORS])
def test_errors(make, message):
    x = tensor(N)
    with pytest.raises(GradcError) as caught:
        gradients(make(x), x)
    assert message in str(caught.value)

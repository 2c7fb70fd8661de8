"""The NumPy evaluator: feeds, defaults, sizes, and that it checks what it computes."""

from __future__ import annotations

import numpy as np
import pytest

import gradc
from gradc.errors import GradcError, InternalError, ShapeError
from gradc.graph import Data
from gradc.ops.basic import copy, input_
from gradc.ops.elementary import exp
from gradc.ops.evaluator import bind_sizes, evaluate
from gradc.ops.functions import apply
from gradc.ops.registry import Constant, Op
from gradc.types import TensorType, float32, float64, symbol

N, M = symbol("N"), symbol("M")


def tensor(*dims, dtype=float64, default=None):
    return input_(name="x", type=TensorType(dtype, dims), default=default)


def test_a_tensor_on_the_way_may_be_fed():
    x = tensor(3)
    inner = exp(x)
    (found,) = evaluate([inner * 2.0], {inner: [1, 2, 3]})
    assert found.tolist() == [2, 4, 6]


def test_several_tensors_of_which_one_is_an_operand_of_another():
    x = tensor(2)
    y = x + 1.0
    z = y * y
    values = evaluate([z, y, z, x], {x: [1.0, 2.0]})
    assert [v.tolist() for v in values] == [[4, 9], [2, 3], [4, 9], [1, 2]]


def test_inputs_are_taken_in_their_dtype():
    x = tensor(2, dtype=float32)
    (found,) = evaluate([copy(x)], {x: [1, 2]})
    assert found.dtype == np.float32


@pytest.mark.parametrize("default", [2.0, Data(np.full(3, 2.0))])
def test_an_input_without_a_value_takes_its_default(default):
    x, y = tensor(N), tensor(N, default=default)
    (found,) = evaluate([x * y], {x: [1.0, 2.0, 3.0]})
    assert found.tolist() == [2, 4, 6]


def test_an_input_without_a_value_or_default():
    with pytest.raises(ShapeError, match="no value for the input x"):
        evaluate([exp(tensor(2))], {})


def test_floating_point_exceptions_are_silent():
    x = tensor(2)
    with np.errstate(all="raise"):
        (found,) = evaluate([1.0 / x], {x: [0.0, 2.0]})
    assert found.tolist() == [np.inf, 0.5]


SIZES = [
    ([(N,)], [(3,)], {"N": 3}),
    ([(2 * N + 1,)], [(7,)], {"N": 3}),
    ([(N * M,), (M,)], [(6,), (2,)], {"M": 2}),
    ([(2 * N,), (N,)], [(0,), (0,)], {"N": 0}),
    ([(3, N // 2), (N,)], [(3, 2), (5,)], {"N": 5}),
]


@pytest.mark.parametrize("dims, shapes, sizes", SIZES, ids=str)
def test_sizes_are_bound(dims, shapes, sizes):
    xs = [tensor(*d) for d in dims]
    feeds = {x: np.zeros(s) for x, s in zip(xs, shapes, strict=True)}
    assert bind_sizes(xs, feeds) == sizes


CLASHES = [
    ([(N,), (N,)], [(3,), (4,)], "axis 0 of (N,) is 3, got 4"),
    ([(N,), (2 * N,)], [(3,), (7,)], "axis 0 of (2 * N,) is 6, got 7"),
    ([(N, 3)], [(2, 4)], "axis 1 of (N, 3) is 3, got 4"),
    ([(N,)], [()], "expected float64[N], got shape ()"),
]


@pytest.mark.parametrize("dims, shapes, message", CLASHES, ids=str)
def test_sizes_that_clash(dims, shapes, message):
    xs = [tensor(*d) for d in dims]
    feeds = {x: np.zeros(s) for x, s in zip(xs, shapes, strict=True)}
    with pytest.raises(GradcError) as caught:
        bind_sizes(xs, feeds)
    assert message in caught.value.message


def test_a_value_of_another_type_than_was_derived():
    wrong = Op(
        name="wrong",
        type=lambda x: x,
        evaluate=lambda x: x[:1],
        derivative=Constant(),
        doc="",
    )
    x = tensor(2)
    with pytest.raises(InternalError, match="wrong: expected float64"):
        evaluate([wrong(x)], {x: [1.0, 2.0]})


def test_a_long_chain():
    x = tensor(1)
    y = x
    for _ in range(100_000):
        y = apply("negative", y)
    assert evaluate([y], {x: [1.0]})[0].tolist() == [1]


def test_operators_of_tensors():
    x = tensor(2)
    k = input_(name="k", type=TensorType(apply("argmax", x).dtype, (2,)), default=None)
    found = evaluate(
        [7.0 // x, 7.0 % x, k & 6, 1 | k, k ^ 3, ~k, k << 1, 64 >> k, -x, abs(-x)],
        {x: [2.0, -2.0], k: [5, 2]},
    )
    assert [v.tolist() for v in found] == [
        [3, -4],
        [1, -1],
        [4, 2],
        [5, 3],
        [6, 1],
        [-6, -3],
        [10, 4],
        [2, 16],
        [-2, 2],
        [2, 2],
    ]


@pytest.mark.parametrize("text", ["x[2:]", "x[:2]", "roll(x, 2)", "max(x[1:])"])
def test_an_axis_that_is_too_short(text):
    graph = gradc.parse(f"x: float[N]\ny = {text}\nreturn y")
    (y,) = (o.tensor for o in graph.outputs)
    with pytest.raises(ShapeError, match=r"needs: not so with N = 1 ") as caught:
        evaluate([y], {graph.inputs[0]: [1.0]})
    assert f">= 0, which y = {text} needs" in caught.value.message

"""Elementwise ops, reductions, running totals and composites: all that holds for each."""

from __future__ import annotations

import numpy as np
import pytest
from cases import ALL, call
from points import POINTS, check_point
from rows import check, check_expansion, ops_in, ops_of

from gradc.autodiff.reverse import gradients
from gradc.errors import GradcError
from gradc.graph import Graph, Output, Tensor, ordered
from gradc.ops import basic, complex, contract, index, linalg, registry, shape
from gradc.ops import control as gradient_control
from gradc.ops.basic import input_
from gradc.ops.elementwise import scalar_value
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import as_tensor
from gradc.passes.expand import expand
from gradc.passes.merge import merge
from gradc.types import (
    TensorType,
    bool_,
    dtype_of,
    float32,
    float64,
    int64,
    symbol,
)

N = symbol("N")


def tensor(dtype=float64, *dims) -> Tensor:
    return input_(name="x", type=TensorType(dtype, dims), default=None)


@pytest.mark.parametrize("row", ALL, ids=str)
def test_row(row):
    check(row)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_point(point):
    check_point(point)


def test_every_op_has_a_case():
    others = (basic, complex, contract, index, linalg, shape, gradient_control)
    mine = set(registry.names()).difference(*map(ops_of, others))
    assert mine <= ops_in(ALL)


# --------------------------------------------------------------------------- expansion


@pytest.mark.parametrize("row", ALL, ids=str)
def test_expansion(row):
    check_expansion(row)


SHARED = {
    "logsumexp": ("exp", 1),
    "softmax": ("exp", 1),
    "log_softmax": ("exp", 1),
    "softplus": ("exp", 1),
    "sigmoid": ("exp", 1),
    "log_sigmoid": ("exp", 1),
    "silu": ("exp", 1),
    "var": ("subtract", 1),
    "std": ("sqrt", 1),
    "norm": ("sqrt", 1),
    "tanh": ("tanh", 1),
}


@pytest.mark.parametrize("name", SHARED)
def test_derivatives_share_with_values(name):
    """Value and cotangent together compute the dear part once."""
    x = tensor(float64, N, 3)
    y = call(name)(x)
    (bar,) = gradients(y, [x]).tensors
    graph = Graph("g", (x,), (Output("y", y), Output("bar", bar)))
    dear, times = SHARED[name]
    found = [n.op.name for n in merge(strip(expand(graph))).nodes()]
    assert found.count(dear) == times


def strip(graph: Graph) -> Graph:
    from gradc.passes.expand import strip_identities

    return strip_identities(graph)


# ------------------------------------------------------------------------------ dtypes

PROMOTED = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "floor_divide",
    "remainder",
    "fmod",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "hypot",
    "arctan2",
    "logaddexp",
    "copysign",
    "heaviside",
    "less",
    "equal",
    "bitwise_and",
    "left_shift",
]

CONVERTED = [
    "negative",
    "positive",
    "square",
    "absolute",
    "fabs",
    "sign",
    "exp",
    "log",
    "sqrt",
    "cbrt",
    "expm1",
    "tanh",
    "sin",
    "arctan",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "isnan",
    "isfinite",
    "signbit",
    "logical_not",
    "invert",
    "deg2rad",
]

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64"]


def numpy_dtype(name, *values):
    try:
        with np.errstate(all="ignore"):
            return np.asarray(getattr(np, name)(*values)).dtype
    except (TypeError, ValueError):
        return None


def our_dtype(name, *values):
    try:
        return as_tensor(call(name)(*values)).dtype.numpy
    except GradcError as error:
        assert error.code == "type-mismatch"
        return None


def one(name) -> Tensor:
    return tensor(dtype_of(np.dtype(name)), 1)


@pytest.mark.parametrize("name", PROMOTED)
def test_promotion_is_numpys(name):
    for left in DTYPES:
        for right in DTYPES:
            wanted = numpy_dtype(name, np.ones(1, left), np.ones(1, right))
            assert our_dtype(name, one(left), one(right)) == wanted, (left, right)


@pytest.mark.parametrize("name", PROMOTED)
def test_python_numbers_are_weak(name):
    for left in DTYPES:
        for number in (True, 1, 1.0):
            wanted = numpy_dtype(name, np.ones(1, left), number)
            assert our_dtype(name, one(left), number) == wanted, (left, number)
            wanted = numpy_dtype(name, number, np.ones(1, left))
            assert our_dtype(name, number, one(left)) == wanted, (number, left)


@pytest.mark.parametrize("name", CONVERTED)
def test_conversion_is_numpys(name):
    for dtype in DTYPES:
        assert our_dtype(name, one(dtype)) == numpy_dtype(name, np.ones(1, dtype))


REDUCED = [
    "sum",
    "prod",
    "mean",
    "max",
    "min",
    "var",
    "std",
    "any",
    "all",
    "argmax",
    "cumsum",
    "cumprod",
    "ptp",
]


@pytest.mark.parametrize("name", REDUCED)
def test_reduced_dtypes_are_numpys(name):
    for dtype in DTYPES:
        assert our_dtype(name, one(dtype)) == numpy_dtype(name, np.ones(1, dtype))


def test_numbers_alone_stay_weak():
    x = tensor(float32, N)
    assert (x * call("exp")(2.0) / call("sqrt")(N)).dtype == float32
    assert (x * (2 * as_tensor(0.5))).dtype == float32
    assert (x + call("where")(True, 1.0, 2)).dtype == float32


# -------------------------------------------------------------------------- None and zero

CUT = [
    "floor",
    "ceil",
    "trunc",
    "rint",
    "round",
    "signbit",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "zeros_like",
    "ones_like",
    "argmax",
    "argmin",
    "count_nonzero",
    "any",
    "all",
]


@pytest.mark.parametrize("name", CUT)
def test_no_path(name):
    x = tensor(float64, 3)
    y = call(name)(x)
    y = call("astype")(y, float64) * 2.0
    assert gradients(y, [x]).tensors == (None,)


CONNECTED = ["abs", "relu", "relu6", "softsign"]


@pytest.mark.parametrize("name", CONNECTED)
def test_second_derivative_is_connected(name):
    x = tensor(float64, 3)
    (first,) = gradients(call(name)(x), [x]).tensors
    assert first is not None
    assert gradients(first, [x]).tensors != (None,)


# ------------------------------------------------------------------------------- errors

ERRORS = [
    (lambda: tensor(float64, 2) + tensor(float64, 3), "shape-mismatch", "2 and 3"),
    (lambda: tensor(bool_, 2) - tensor(bool_, 2), "type-mismatch", "subtract"),
    (lambda: tensor(int64, 2) ** -1, "type-mismatch", "-1.0"),
    (lambda: call("reciprocal")(tensor(int64, 2)), "type-mismatch", "1 / x"),
    (lambda: call("where")(tensor(bool_, 2)), "not-yet", "where(condition, x, y)"),
    (lambda: call("select")([], []), "length-mismatch", "0 conditions"),
    (lambda: call("select")([tensor()], [1.0]), "type-mismatch", "x != 0"),
    (lambda: call("ldexp")(1.0, 0.5), "type-mismatch", "exp2"),
    (lambda: call("polygamma")(-1, tensor()), "type-mismatch", "not negative"),
    (lambda: call("max")(tensor(float64, N), 1e-8), "type-mismatch", "maximum"),
    (lambda: call("max")(tensor(float64, 0)), "empty-reduction", "initial="),
    (lambda: call("argmax")(tensor(float64, 0)), "empty-reduction", "no elements"),
    (
        lambda: call("max")(tensor(float64, N), where=tensor(bool_, N)),
        "missing-argument",
        "initial=",
    ),
    (lambda: call("sum")(tensor(float64, N), 1), "bad-axis", "axis 1"),
    (lambda: call("sum")(tensor(float64, N, N), (0, -2)), "bad-axis", "twice"),
    (
        lambda: call("sum")(tensor(float64, 3), where=tensor(bool_, 2, 3)),
        "shape-mismatch",
        "where=",
    ),
    (
        lambda: call("average")(tensor(float64, 2, 3), 1, weights=tensor(float64, 2)),
        "shape-mismatch",
        "weights",
    ),
    (lambda: call("norm")(tensor(float64, 2, 2), 2), "not-yet", "singular"),
    (lambda: call("norm")(tensor(float64, 2, 2), "max"), "bad-option", "'max'"),
    (lambda: call("norm")(tensor(float64, 2, 2, 2), 1), "shape-mismatch", "axis=-1"),
    (
        lambda: call("sparse_softmax_cross_entropy")(tensor(float64, 2, 3), tensor()),
        "type-mismatch",
        "not integers",
    ),
    (
        lambda: call("sparse_softmax_cross_entropy")(
            tensor(float64, 2, 3), tensor(int64, 3)
        ),
        "shape-mismatch",
        "without axis 1",
    ),
]


@pytest.mark.parametrize(
    "make, code, words", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, code, words):
    with pytest.raises(GradcError) as caught:
        make()
    assert caught.value.code == code
    assert words in str(caught.value)


def test_an_id_outside_its_axis():
    x, ids = tensor(float64, N, 3), tensor(int64, N)
    y = call("sparse_softmax_cross_entropy")(x, ids)
    for version in (
        y,
        expand(Graph("g", (x, ids), (Output("y", y),))).outputs[0].tensor,
    ):
        assert version is not None
        leaves = [n.out for n in ordered([version]) if n.op is input_]
        for wrong in (3, -4):
            feeds = {
                t: np.array([wrong]) if t.dtype == int64 else np.zeros((1, 3))
                for t in leaves
            }
            with pytest.raises(IndexError):
                evaluate([version], feeds)


def test_scalar_value_sees_through_casts_and_signs():
    assert scalar_value(call("broadcast_to")(-as_tensor(2.5), (N, 3))) == -2.5
    assert scalar_value(call("astype")(as_tensor(2.5), int64)) == 2
    assert scalar_value(tensor()) is None


def test_an_extreme_asks_for_elements():
    x = tensor(float64, N, 3)
    (largest,) = (call("max")(x, (0, 1)).node,)
    assert [str(d) for d in largest.op.requires(largest)] == ["N - 1"]
    (free,) = (call("max")(x, initial=0.0).inputs[0].node,)
    assert not free.op.requires(free)

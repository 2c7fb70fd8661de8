"""Complex numbers: arithmetic, functions, sums and products, and the convention of cotangents."""

from __future__ import annotations

import numpy as np
import pytest
from cases import call, quarters, within
from points import Point, check_point
from rows import Row, check, ops_in, ops_of

from gradc.autodiff.reverse import gradients
from gradc.errors import GradcError
from gradc.ops import complex as complex_ops
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import as_tensor
from gradc.ops.index import index
from gradc.types import (
    TensorType,
    complex64,
    complex128,
    float32,
    float64,
    int64,
    symbol,
)

BOTH = {"dtypes": (complex128, complex64)}
N = symbol("N")


def tensor(dtype, *dims):
    return input_(name="z", type=TensorType(dtype, dims), default=None)


def unary(name, low=-1.2, high=1.2, numpy=None, **more):
    return Row(
        f"{name} of complex numbers",
        ("N M",),
        call(name),
        numpy or getattr(np, name),
        draw=within((low, high)),
        **BOTH,
        **more,
    )


def binary(name, numpy=None, **more):
    return Row(
        f"{name} of complex numbers",
        ("N M", "M"),
        call(name),
        numpy or getattr(np, name),
        **BOTH,
        **more,
    )


def row(name, build, numpy, shapes=("N M",), **more):
    return Row(name, shapes, build, numpy, **{**BOTH, **more})


FUNCTIONS = (
    *(
        "exp",
        "exp2",
        "expm1",
        "log2",
        "log10",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
    ),
    *("cosh", "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"),
)

ROWS = [
    *(unary(name, 0.2, 0.9) for name in FUNCTIONS),
    unary("log", order=3),
    unary("negative"),
    unary("positive"),
    unary("square"),
    unary("reciprocal"),
    unary("sign"),
    unary("absolute", order=3),
    unary("real"),
    unary("imag"),
    unary("conj"),
    unary("conjugate"),
    unary("angle"),
    binary("add"),
    binary("subtract"),
    binary("multiply"),
    binary("divide", draw=within((0.5, 1.5))),
    binary("power", draw=within((0.3, 1.2))),
    binary("equal", order=0),
    binary("not_equal", order=0),
    row("whole powers", lambda z: z**3 + z**-2, lambda z: z**3 + z**-2, draw=within((0.5, 1.5)), order=3),
    row("angle in degrees", lambda z: call("angle")(z, deg=True), lambda z: np.angle(z, True)),
    Row(
        "complex of two parts",
        ("N M", "M"),
        call("complex"),
        lambda a, b: (a + 1j * b).astype(np.complex64 if a.dtype == np.float32 else complex),
    ),
    Row("complex of one part", ("N",), call("complex"), lambda a: a + 0j),
    Row("the parts of real numbers", ("N",), lambda x: (call("real")(x), call("imag")(x) + x), lambda x: (x, x)),
    Row("angle of real numbers", ("N",), call("angle"), np.angle, order=0),
    Row("conj of real numbers", ("N",), call("conj"), np.conj),
    row("a number beside", lambda z: 2j * z + 0.5, lambda z: 2j * z + np.float32(0.5)),
    row(
        "a choice",
        lambda z: call("where")(call("real")(z) > 0, z * z, 1j),
        lambda z: np.where(z.real > 0, z * z, z.dtype.type(1j)),
        draw=quarters,
    ),
    row("sum", lambda z: call("sum")(z, axis=0), lambda z: z.sum(axis=0)),
    row("mean", lambda z: call("mean")(z, axis=1, keepdims=True), lambda z: z.mean(axis=1, keepdims=True), zero=False),
    row("prod", lambda z: call("prod")(z, axis=0), lambda z: z.prod(axis=0), order=3),
    row("prod of all", call("prod"), np.prod),
    row("cumsum", lambda z: call("cumsum")(z, 1), lambda z: np.cumsum(z, 1)),
    row("cumprod", lambda z: call("cumprod")(z, 1), lambda z: np.cumprod(z, 1)),
    row("var", lambda z: call("var")(z, axis=0, ddof=1), lambda z: z.var(axis=0, ddof=1), zero=False),
    row("std", lambda z: call("std")(z, axis=0), lambda z: z.std(axis=0), zero=False),
    row("norm", call("norm"), np.linalg.norm),
    row("3-norm", lambda z: call("norm")(z, 3, axis=1), lambda z: np.linalg.norm(z, 3, axis=1), zero=False),
    row("average", lambda z, w: call("average")(z, 1, weights=w), lambda z, w: np.average(z, 1, weights=w), shapes=("N M", "M"), zero=False),
    row("nansum", lambda z: call("nansum")(z, 1), lambda z: np.nansum(z, 1)),
    row("matmul", lambda a, b: a @ b, np.matmul, shapes=("N M", "M K")),
    row("matmul of a batch", lambda a, b: a @ b, np.matmul, shapes=("B N M", "M K")),
    row("einsum", lambda a, b: call("einsum")("ij,kj->ik", a, b), lambda a, b: np.einsum("ij,kj->ik", a, b), shapes=("N M", "K M")),
    row("dot", call("dot"), np.dot, shapes=("N M", "M")),
    row("vdot", call("vdot"), np.vdot, shapes=("N M", "N M")),
    row("inner", call("inner"), np.inner, shapes=("N M", "K M")),
    row("outer", call("outer"), np.outer, shapes=("N", "M")),
    row("kron", call("kron"), np.kron, shapes=("N 2", "2 M")),
    row("cross", call("cross"), np.cross, shapes=("N 3", "N 3")),
    row("matrix_power", lambda a: call("matrix_power")(a, 3), lambda a: np.linalg.matrix_power(a, 3), shapes=("3 3",), zero=False),
    row("trace", call("trace"), np.trace, shapes=("N N",)),
    row(
        "shapes and indices",
        lambda z: (
            z.T if False else call("transpose")(z),
            call("reshape")(z, (z.shape[1], z.shape[0])),
            call("concatenate")([z, z * 2], axis=0),
            call("pad")(z, 1),
            call("flip")(z),
            index(z, (slice(None, None, -1), slice(None))),
            call("tile")(z, (2, 1)),
            call("roll")(z, 1, axis=0),
            call("tril")(z),
        ),
        lambda z: (
            z.T,
            z.reshape(z.shape[::-1]),
            np.concatenate([z, z * 2]),
            np.pad(z, 1),
            np.flip(z),
            z[::-1],
            np.tile(z, (2, 1)),
            np.roll(z, 1, 0),
            np.tril(z),
        ),
        zero=False,
    ),
    row(
        "indices",
        lambda z: (
            call("take")(z, as_tensor(np.array([1, 0, 1])), axis=0),
            call("index_add")(z, as_tensor(np.array([1, 1])), 1j),
            call("index_update")(z, 0, 2j),
        ),
        lambda z: (
            np.take(z, [1, 0, 1], axis=0),
            z + (np.arange(len(z))[:, None] == 1) * z.dtype.type(2j),
            np.where(np.arange(len(z))[:, None] == 0, z.dtype.type(2j), z),
        ),
        zero=False,
    ),
    row("casts", lambda z: call("astype")(call("astype")(z, complex128), complex64), lambda z: z.astype(np.complex64), order=0),
]  # fmt: skip


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_row(case):
    check(case)


def test_every_op_has_a_row():
    assert ops_of(complex_ops) <= ops_in(ROWS)


inf, nan = np.inf, np.nan

POINTS = [
    Point("|z| at 0", call("absolute"), [[0j, 3 + 4j]], [0, 5], [[0, 0.6 + 0.8j]]),
    Point("sign at 0", call("sign"), [[0j, 3 + 4j]], [0, 0.6 + 0.8j]),
    Point("the angle at 0", call("angle"), [[0j, 2j]], [0, np.pi / 2], [[0, -0.5]]),
    Point("the angle of -1", call("angle"), [[-1 + 0j]], [np.pi], [[-1j]]),
    Point(
        "z**2 at 0",
        lambda z: call("real")(z**2),
        [[0j, 1 + 2j]],
        [0, -3],
        [[0, 2 - 4j]],
    ),
    Point(
        "0 to complex powers",
        lambda z, w: call("real")(z**w),
        [[0j, 0j], [0j, 2 + 0j]],
        [1, 0],
        [[0, 0], [0, 0]],
    ),
    Point("norm at 0", call("norm"), [[0j, 0j]], 0, [[0, 0]]),
    Point("std of equals", call("std"), [[1 + 1j, 1 + 1j]], 0, [[0, 0]]),
    Point(
        "prod with a zero",
        lambda z: call("real")(call("prod")(z)),
        [[2j, 0j, 3 + 0j]],
        0,
        [[0, -6j, 0]],
    ),
    Point(
        "what is not selected",
        lambda z: call("where")(
            call("real")(z) > 0, call("real")(call("sqrt")(z)), 0.0
        ),
        [[0j, 4 + 0j]],
        [0, 2],
        [[0, 0.25]],
    ),
    Point("an infinite part", lambda a, b: call("real")(call("complex")(a, b)), [1.0, inf], 1.0, [1, 0]),
    Point("nan_to_num", lambda z: call("real")(call("nan_to_num")(z)), [[np.complex128(complex(nan, 1))]], [0], [[0]]),
]  # fmt: skip


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_point(point):
    check_point(point)


def test_a_step_against_the_cotangent_descends():
    z = tensor(complex128, N)
    y = call("sum")(call("absolute")(z - (1 + 2j)) ** 2)
    (bar,) = gradients(y, z).tensors
    at = np.array([0.3 - 1j, 2j])
    for _ in range(60):
        at = at - 0.2 * evaluate([bar], {z: at})[0]
    np.testing.assert_allclose(at, 1 + 2j)


def test_a_real_input_of_a_complex_computation_has_a_real_cotangent():
    x = tensor(float64, N)
    y = call("real")(call("sum")(call("exp")(1j * x)))
    (bar,) = gradients(y, x).tensors
    assert bar.dtype == float64
    at = np.array([0.3, 1.0])
    np.testing.assert_allclose(evaluate([bar], {x: at})[0], -np.sin(at))


def test_dtypes():
    single, double = tensor(complex64, 2), tensor(complex128, 2)
    assert (single * 2.0).dtype == complex64
    assert (single * 2j).dtype == complex64
    assert (tensor(float32, 2) * 2j).dtype == complex64
    assert (tensor(float64, 2) + single).dtype == complex128
    assert (single + double).dtype == complex128
    assert abs(single).dtype == float32
    assert call("angle")(single).dtype == float32
    assert call("complex")(tensor(float32, 2), 1).dtype == complex64
    assert call("complex")(tensor(int64, 2)).dtype == complex128
    assert call("complex")(1.0, 2.0).type.weak


REFUSED = [
    ("less", 2, "less orders no complex numbers"),
    ("maximum", 2, "maximum orders no complex numbers"),
    ("max", 1, "max orders no complex numbers"),
    ("argmin", 1, "argmin orders no complex numbers"),
    ("floor_divide", 2, "does not take complex128"),
    ("cbrt", 1, "cbrt does not take complex128"),
    ("rint", 1, "rint takes no complex numbers"),
    ("logsumexp", 1, "exp takes no complex numbers"),
]


@pytest.mark.parametrize("name, count, message", REFUSED, ids=lambda v: str(v))
def test_what_takes_no_complex_numbers(name, count, message):
    z = tensor(complex128, 2)
    with pytest.raises(GradcError) as caught:
        call(name)(*[z] * count)
    assert message in str(caught.value)

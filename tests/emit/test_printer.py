"""Expressions as text: their grouping, their numbers, and the dtypes that Numba gives them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence

import numpy as np
import pytest
from handmade import (
    ap,
    arguments,
    cast,
    compiled,
    given,
    lanes,
    load,
    num,
    outputs_of,
    result,
    store,
)

from gradc.emit.numba_kernel import numba_kernel
from gradc.emit.printer import Printer, number_text
from gradc.errors import UnsupportedError
from gradc.ops.registry import Op, lookup, names
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret
from gradc.schedule.program import (
    ATOM,
    Apply,
    AxisValue,
    Expr,
    Load,
    Program,
    Ref,
    Size,
    Text,
)
from gradc.types import (
    DTYPES,
    DType,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    symbol,
    uint64,
)

PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD
SHIFTS = ("left_shift", "right_shift")
A, B, C = (Ref(name, float64) for name in "abc")


def element(loaded: Load, index: Sequence[Text]) -> Text:
    return f"{loaded.buffer}[{', '.join(t for t, _ in index)}]", ATOM


def printer() -> Printer:
    return Printer(load=element, axis=lambda name: (name, ATOM))


def text(expr: Expr) -> str:
    return printer().text(expr)[0]


@pytest.mark.parametrize(
    ("expr", "wanted"),
    [
        (ap("add", ap("add", A, B), C), "a + b + c"),
        (ap("add", A, ap("add", B, C)), "a + (b + c)"),
        (ap("subtract", A, ap("subtract", B, C)), "a - (b - c)"),
        (ap("multiply", ap("add", A, B), C), "(a + b) * c"),
        (ap("divide", ap("multiply", A, B), C), "a * b / c"),
        (ap("multiply", A, ap("divide", B, C)), "a * (b / c)"),
        (ap("negative", ap("multiply", A, B)), "-(a * b)"),
        (ap("multiply", ap("negative", A), B), "-a * b"),
        (ap("subtract", A, num(-2.0)), "a - -2.0"),
        (ap("exp", ap("negative", ap("absolute", A))), "_exp(-abs(a))"),
        (ap("select", ap("less", A, B), A, ap("add", B, C)), "a if a < b else b + c"),
        (
            ap("multiply", ap("select", ap("less", A, B), A, B), C),
            "(a if a < b else b) * c",
        ),
        (ap("exp", ap("select", ap("less", A, B), A, B)), "_exp(a if a < b else b)"),
        (
            ap("equal", ap("less", A, B), ap("less", B, C)),
            "(a < b) == (b < c)",
        ),
        (
            ap("logical_and", ap("less", A, B), ap("less", B, C)),
            "(a < b) & (b < c)",
        ),
        (ap("logical_not", ap("less", A, B)), "not a < b"),
        (
            ap("logical_and", ap("logical_not", ap("less", A, B)), ap("less", B, C)),
            "(not a < b) & (b < c)",
        ),
        (cast(ap("less", A, B), float64), "np.float64(a < b)"),
        (cast(A, DTYPES["bool"]), "a != 0.0"),
        (ap("divide", A, cast(Size(symbol("N")), float64)), "a / N"),
        (ap("divide", A, cast(Size(symbol("N") - 1), float64)), "a / (N - 1)"),
        (cast(Size(2 * symbol("N")), float64), "np.float64(2 * N)"),
        (ap("add", AxisValue("i"), num(1, int64)), "i + 1"),
        (ap("multiply", Ref("a", int32), Ref("b", int32)), "np.int32(a * b)"),
        (ap("multiply", Ref("a", uint64), num(3, uint64)), "a * np.uint64(3)"),
        (ap("add", Ref("a", float32), num(0.1, float32)), "a + np.float32(0.1)"),
        (ap("exp", Ref("a", float32)), "_exp_f32(a)"),
        (Apply("add_n", (A, B, C), float64, (("method", ""),)), "a + b + c"),
    ],
    ids=str,
)
def test_fewest_parentheses_that_keep_the_grouping(expr: Expr, wanted: str) -> None:
    assert text(expr) == wanted


def test_helpers_are_noted_in_the_order_of_use() -> None:
    one = printer()
    one.text(ap("add", ap("log1p", A), ap("exp", ap("log1p", B))))
    assert list(one.helpers) == ["_log1p", "_exp"]


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [
        (0, float64, "0.0"),
        (0.1, float64, "0.1"),
        (1e300, float64, "1e+300"),
        (-math.inf, float64, "-np.inf"),
        (math.nan, float64, "np.nan"),
        (np.float32(0.1), float32, "np.float32(0.1)"),
        (math.inf, float32, "np.float32(np.inf)"),
        (True, DTYPES["bool"], "True"),
        (-1, int8, "np.int8(-1)"),
        (-(2**63), int64, "-9223372036854775807 - 1"),
        (2**64 - 1, uint64, "np.uint64(18446744073709551615)"),
        (1 - 2j, DTYPES["complex128"], "complex(1.0, -2.0)"),
        (1j, DTYPES["complex64"], "np.complex64(complex(0.0, 1.0))"),
    ],
)
def test_numbers(value: object, dtype: DType, wanted: str) -> None:
    assert number_text(value, dtype)[0] == wanted


def test_numbers_read_back_as_they_were() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 2000, dtype=np.uint32)
    for single in bits.view(np.float32):
        back = eval(number_text(single, float32)[0], {"np": np})
        assert back == single or np.isnan(single)
    for double in rng.integers(0, 2**63, 2000).view(np.float64):
        back = eval(number_text(double, float64)[0], {"np": np})
        assert back == double or np.isnan(double)


def test_float16_has_no_loops() -> None:
    with pytest.raises(UnsupportedError, match="float16"):
        number_text(1, float16)


def test_a_long_expression_is_written_in_parts() -> None:
    total: Expr = A
    for _ in range(3000):
        total = ap("add", total, ap("multiply", A, B))
    parts: list[str] = []

    def hoist(part: str) -> str:
        parts.append(part)
        return f"t{len(parts)}"

    last = printer().text(total, 80, hoist)[0]
    assert all(len(part) <= 80 for part in [*parts, last])
    scope = {"a": 1.0, "b": 2.0}
    for k, part in enumerate(parts):
        scope[f"t{k + 1}"] = eval(part, {}, scope)
    assert eval(last, {}, scope) == 6001.0


# ------------------------------------------------------------ all ops in all dtypes


def scalar_ops(dtype: DType) -> list[Op]:
    """The ops that compiled loops spell and that take this dtype."""
    found = [lookup(name) for name in names()]
    return [
        op
        for op in found
        if op is not None
        and op.elementwise
        and not op.expand
        and op.spell
        and dtype.name in op.accepts
        and op.name not in ("select", "polygamma")
    ]


def operand_count(op: Op) -> int:
    """How many operands NumPy's function for the op takes."""
    if isinstance(op.evaluate, np.ufunc):
        return op.evaluate.nin
    parameters = inspect.signature(op.evaluate).parameters.values()
    return max(1, [p.kind for p in parameters].count(PLAIN))


def samples(dtype: DType, rng: np.random.Generator, op: Op) -> np.ndarray:
    size = 97
    if dtype.is_bool:
        return rng.random(size) > 0.5
    if dtype.is_integer:
        low = 0 if dtype.kind == "u" else -9
        values = rng.integers(low, 10, size)
        values[:4] = [0, 0, 1, 5]
        return values.astype(dtype.name)
    low, high = op.sample
    real = rng.uniform(low, high, size)
    if dtype.is_complex:
        return (real + 1j * rng.uniform(low, high, size)).astype(dtype.name)
    return real.astype(dtype.name)


@pytest.mark.parametrize(
    "name", ["bool", "int8", "int32", "int64", "uint8", "uint64", "float32", "float64"]
)
def test_every_op_computes_what_numpy_does(name: str) -> None:
    dtype = DTYPES[name]
    n = symbol("N")
    rng = np.random.default_rng(0)
    buffers, body, arrays = [], [], {}
    for op in scalar_ops(dtype):
        inputs = [f"{op.name}_{k}" for k in range(operand_count(op))]
        for x in inputs:
            buffers.append(given(x, n, dtype=dtype))
            arrays[x] = samples(dtype, rng, op)
            if op.name == "power" and dtype.is_integer:
                arrays[x] = abs(arrays[x])
        attrs = {"bits": dtype.bits} if op.name in SHIFTS else {}
        value = ap(op.name, *(load(x, "i", dtype=dtype) for x in inputs), **attrs)
        buffers.append(result(f"{op.name}_out", n, dtype=value.dtype))
        body.append(lanes("i", n, store(f"{op.name}_out", "i", value=value)))
    program = Program("ops", ("N",), tuple(buffers), tuple(body))
    check(program)
    kernel = numba_kernel(program)
    sizes = {"N": 97}
    by_numba = arrays | outputs_of(program, sizes)
    by_steps = arrays | outputs_of(program, sizes)
    assert compiled(kernel)(*arguments(program, kernel, by_numba, sizes)) == 0
    assert interpret(program, by_steps, sizes) == 0
    exact = not dtype.is_inexact
    rtol = 1e-5 if dtype == float32 else 1e-12
    for buffer in buffers:
        got, wanted = by_numba[buffer.name], by_steps[buffer.name]
        if exact:
            np.testing.assert_array_equal(got, wanted, err_msg=buffer.name)
        else:
            np.testing.assert_allclose(
                got, wanted, rtol=rtol, atol=rtol / 10, err_msg=buffer.name
            )

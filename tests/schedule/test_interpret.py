"""The interpreter finds what a compiled kernel would do wrong in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import (
    ap,
    given,
    lanes,
    load,
    loop,
    matrix,
    num,
    result,
    store,
    tile,
    workspace,
)

from gradc.errors import InternalError
from gradc.schedule.interpret import interpret
from gradc.schedule.program import Apply, Call, Check, Lin, Program, Stmt, View
from gradc.types import float32, float64, symbol

N = symbol("N")


def run(*body: Stmt, n: int = 4, **arrays: Any) -> tuple[int, dict[str, Any]]:
    program = Program(
        "p",
        ("N",),
        (
            given("x", N),
            result("out", N),
            result("total"),
            tile("t"),
            workspace("h", N, N),
        ),
        body,
    )
    found = {"x": np.arange(float(n)), "out": np.zeros(n), "total": np.zeros(())}
    found |= arrays
    return interpret(program, found, {"N": n}), found


copy = lanes("i", N, store("out", "i", value=load("x", "i")))
done = store("total", value=num(0))


def test_runs_and_gives_zero() -> None:
    status, found = run(copy, done)
    assert status == 0
    np.testing.assert_array_equal(found["out"], np.arange(4.0))


def test_gives_the_code_of_the_check_that_fails() -> None:
    small = Check(ap("less", load("x", 2), num(2)), 7)
    assert run(small, copy, done)[0] == 7


@pytest.mark.parametrize("offset", [1, -1])
def test_an_index_outside_is_found(offset: int) -> None:
    shifted = load("x", Lin(offset, (("i", 1),)))
    with pytest.raises(InternalError, match=r"x\[(4|-1)\] is outside \[4\]"):
        run(lanes("i", N, store("out", "i", value=shifted)), done)


def test_an_element_that_was_not_stored_is_found() -> None:
    half = lanes("i", N, store("h", 0, "i", value=num(1)))
    with pytest.raises(InternalError, match=r"h\[1, 0\] is read but not stored"):
        run(half, lanes("i", N, store("out", "i", value=load("h", 1, "i"))))


def test_an_output_that_is_not_wholly_stored_is_found() -> None:
    with pytest.raises(InternalError, match="out is not wholly stored"):
        run(loop("i", N - 1, store("out", "i", value=num(0))), done)


def test_an_expression_of_another_dtype_is_found() -> None:
    wrong = Apply("exp", (num(0.0, float32),), float64)
    with pytest.raises(InternalError, match="gives float32"):
        run(store("total", value=wrong))


def test_an_input_of_another_shape_is_found() -> None:
    with pytest.raises(InternalError, match="x: float64"):
        run(copy, done, x=np.zeros(3))


def test_a_view_that_ends_outside_is_found() -> None:
    wide = View("h", (Lin(1), Lin()), (N, N), (N, 1))
    fill = loop("j", N, lanes("i", N, store("h", "j", "i", value=num(1))))
    with pytest.raises(InternalError, match="a view of h ends outside it"):
        run(fill, Call("potrf", (wide,), code=1), copy, done)


def test_a_library_call_reads_only_what_is_stored() -> None:
    with pytest.raises(InternalError, match="h is not stored"):
        run(Call("potrf", (matrix("h", N, N),), code=1), copy, done)


def test_reverse_loops_run_from_the_end() -> None:
    body = loop(
        "i",
        N,
        store("t", value=ap("add", ap("add", load("t"), load("t")), load("x", "i"))),
        reverse=True,
    )
    last = store("total", value=load("t"))
    found = run(store("t", value=num(0)), body, last, copy)[1]
    assert found["total"] == ((3 * 2 + 2) * 2 + 1) * 2 + 0

"""What `check` refuses, and how it says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import (
    CASES,
    Case,
    ap,
    at,
    block,
    given,
    lanes,
    load,
    loop,
    matrix,
    num,
    result,
    store,
    tile,
)

from gradc.errors import InternalError
from gradc.schedule.check import check
from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Call,
    Check,
    If,
    Let,
    Lin,
    Loop,
    Program,
    Ref,
    Size,
    Stmt,
    View,
    While,
)
from gradc.types import bool_, float32, float64, int64, symbol

N = symbol("N")
X = load("x", "i")
BUFFERS = (
    given("x", N),
    given("c"),
    given("ids", N, dtype=int64),
    result("out", N),
    result("sq", 3, 3),
    tile("t"),
    tile("row", 8),
    Buffer("k", float64, (N,), "constant"),
)


def program(*body: Stmt) -> Program:
    return Program("p", ("N",), BUFFERS, body)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_good_programs_pass(case: Case) -> None:
    check(case.program)


copy = lanes("i", N, store("out", "i", value=X))
less = ap("less", X, num(0))

BROKEN = [
    ("the axis j of [j] is not open", (lanes("i", N, store("out", "j", value=X)),)),
    (
        "the axis i is not open",
        (store("t", value=ap("exp", num(0))), Let("a", AxisValue("i"))),
    ),
    ("there is no buffer y", (lanes("i", N, store("y", "i", value=X)),)),
    (
        "x is stored to, and is an input",
        (lanes("i", N, store("x", "i", value=num(0))),),
    ),
    (
        "k is stored to, and is an constant",
        (lanes("i", N, store("k", "i", value=num(0))),),
    ),
    (
        "t is read but not stored before",
        (lanes("i", N, store("out", "i", value=load("t"))),),
    ),
    ("row is read but not stored before", (store("t", value=load("row", 2)),)),
    ("t is accumulated into but not set before", (store("t", value=num(1), mode="+"),)),
    (
        "out is accumulated into",
        (lanes("i", N, store("out", "i", value=X, mode="max")),),
    ),
    # for no rows at all, t is never set
    (
        "t is read but not stored before",
        (lanes("i", N, store("t", value=X)), store("row", 0, value=load("t"))),
    ),
    # on one of two paths
    (
        "t is read but not stored before",
        (
            If(ap("less", load("c"), num(0)), (store("t", value=num(0)),)),
            store("row", 0, value=load("t")),
        ),
    ),
    # in the round before, but not in the first
    (
        "t is read but not stored before",
        (loop("i", N, store("out", "i", value=load("t")), store("t", value=X)),),
    ),
    ("a is not bound here", (store("t", value=Ref("a", float64)),)),
    (
        "a is not bound here",
        (lanes("i", N, Let("a", X)), store("t", value=Ref("a", float64))),
    ),
    ("a is bound twice", (Let("a", num(0)), Let("a", num(1)))),
    ("x is bound twice", (Let("x", num(0)),)),
    ("i is bound twice", (loop("i", N, lanes("i", N, store("out", "i", value=X))),)),
    ("N is bound twice", (lanes("N", N, store("t", value=num(0))),)),
    ("'a b' is no name", (Let("a b", num(0)),)),
    ("a is float64, not float32", (Let("a", num(0)), Let("b", Ref("a", float32)))),
    (
        "x is float64, not float32",
        (lanes("i", N, store("out", "i", value=load("x", "i", dtype=float32))),),
    ),
    ("t is float64, not int64", (store("t", value=Size(N)),)),
    ("out has 1 axes, and 2 indices", (lanes("i", N, store("out", "i", 0, value=X)),)),
    ("x has 1 axes, and 0 indices", (store("t", value=load("x")),)),
    ("the index c is float64", (store("t", value=load("x", load("c"))),)),
    ("the index c is float64", (store("out", load("c"), value=num(0)),)),
    (
        "the size M is not known here",
        (lanes("i", symbol("M"), store("t", value=num(0))),),
    ),
    (
        "the size m is not known here",
        (lanes("i", symbol("m"), store("t", value=num(0))),),
    ),
    ("there is no op tahn", (Let("a", Apply("tahn", (num(0),), float64)),)),
    ("is float32, not float64", (Let("a", Apply("exp", (num(0, float32),), float64)),)),
    ("operands differ", (Let("a", Apply("add", (num(0), num(0, float32)), float64)),)),
    ("exp does not take int64", (Let("a", Apply("exp", (Size(N),), int64)),)),
    ("is float64, not bool", (Check(load("c"), 1),)),
    ("is int64, not bool", (While(Size(N), ()),)),
    ("0 is no error number", (Check(ap("less", load("c"), num(0)), 0),)),
    (
        "'-' is no way to store",
        (store("t", value=num(0)), store("t", value=num(0), mode="-")),
    ),
    (
        "the loop over j is inside lanes",
        (lanes("i", N, loop("j", 3, store("out", "i", value=X))),),
    ),
    ("a serial loop has no rows", (Loop("i", N, (), rows="m"),)),
    ("a lanes loop has no step of 4", (Loop("i", N, (), "lanes", 4),)),
    ("a block of 0 rows", (block("n", N, 0, store("t", value=num(0))),)),
    ("a jam loop runs forwards", (Loop("i", N, (), "jam", reverse=True),)),
    ("N rounds can't be unrolled", (Loop("i", N, (), "unroll"),)),
    ("there is no routine gem", (Call("gem", ()),)),
    ("potrf takes 1 arguments, not 2", (Call("potrf", (matrix("sq", 3, 3), "N")),)),
    (
        "sq is read but not stored before",
        (Call("potrf", (matrix("sq", 3, 3),), code=1),),
    ),
    (
        "trsm: 'X' is none of N, T, L, U",
        (Call("trsm", ("X", "N", "N", matrix("sq", 3, 3), matrix("sq", 3, 3))),),
    ),
    (
        "other dims than strides",
        (Call("potrf", (View("sq", (Lin(), Lin()), (3, 3), (3,)),), code=1),),
    ),
    (
        "gemv does not fail",
        (
            Call(
                "gemv",
                (
                    "N",
                    num(1),
                    matrix("sq", 3, 3),
                    View("x", (at(0),), (3,), (1,)),
                    num(0),
                    View("row", (at(0),), (3,), (1,)),
                ),
                code=1,
            ),
        ),
    ),
]


@pytest.mark.parametrize(("message", "body"), BROKEN, ids=[m for m, _ in BROKEN])
def test_broken_programs_are_refused(message: str, body: tuple[Stmt, ...]) -> None:
    with pytest.raises(InternalError) as found:
        check(program(*body))
    assert message in found.value.message


def test_declarations_are_looked_at() -> None:
    good = program(copy)
    twice = replace(good, buffers=(*BUFFERS, given("x", N)))
    with pytest.raises(InternalError, match="x is bound twice"):
        check(twice)
    symbolic = replace(good, buffers=(*BUFFERS, Buffer("u", float64, (N,), "tile")))
    with pytest.raises(InternalError, match="tile u has the dimension N"):
        check(symbolic)
    with pytest.raises(InternalError, match="the size N is not known"):
        check(replace(good, symbols=()))


def test_the_error_shows_the_statement_in_its_place() -> None:
    body = block(
        "n",
        N,
        64,
        lanes("i", symbol("m"), store("row", "i", value=num(0))),
        store("t", value=num(1), mode="+"),
    )
    with pytest.raises(InternalError) as found:
        check(program(copy, body))
    assert (
        found.value.notes
        == (
            "          out[i] = x[i]",
            "  block n of N by 64, m rows:",
            "      for i < m lanes:",
            "          row[i] = 0",
            ">     t += 1",
        )[-4:]
    )


def test_dtype_of_conditions_is_bool() -> None:
    assert less.dtype == bool_

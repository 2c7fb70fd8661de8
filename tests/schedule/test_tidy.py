"""Names that are used once, or not at all."""

from __future__ import annotations

from handmade import ap, load, loop, num, store

from gradc.schedule.program import Let, Ref, statement_lines
from gradc.schedule.tidy import inline_lets
from gradc.types import float64, symbol

N = symbol("N")


def test_a_name_that_only_an_unused_name_uses_goes_too() -> None:
    body = [
        loop(
            "i",
            N,
            Let("a", ap("exp", load("x", "i"))),
            Let("b", ap("sin", Ref("a", float64))),
        ),
        store("y", value=num(0.0)),
    ]
    assert statement_lines(inline_lets(body)) == ["y = 0.0"]


def test_a_name_that_is_used_once_is_put_in() -> None:
    body = [
        Let("a", ap("exp", load("x", 0))),
        Let("b", ap("sin", Ref("a", float64))),
        store("y", value=ap("add", Ref("b", float64), num(1.0))),
    ]
    assert statement_lines(inline_lets(body)) == ["y = sin(exp(x[0])) + 1.0"]

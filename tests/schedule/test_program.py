"""The text of Programs."""

from __future__ import annotations

from handmade import ap, cast, given, load, logistic_program, num, result, store

from gradc.schedule.program import (
    Apply,
    Call,
    Check,
    Expr,
    If,
    Lin,
    Loop,
    Program,
    Ref,
    Size,
    View,
    While,
    expression_text,
    fold,
    statement_lines,
    statements,
    walk,
)
from gradc.types import float32, float64, symbol

N, D = symbol("N"), symbol("D")

LOGISTIC = """\
program value_and_gradients  symbols N D
input      X float64[N, D]
input      y float64[N]
input      w float64[D]
input      l2 float64
output     loss float64
output     w_bar float64[D]
tile       z float64[512]
tile       dot float64
tile       s float64
tile       r float64
for j < D lanes:
    w_bar[j] = 0
s = 0
block n of N by 512, m rows:
    # z = X @ w
    for i < m:
        dot = 0
        for j < D lanes:
            dot += X[n + i, j] * w[j]
        z[i] = dot
    # loss = sum(softplus(z) - y * z) / N + l2 * sum(w**2)
    for i < m lanes:
        let zi = z[i]
        let e = exp(-absolute(zi))
        s += maximum(zi, 0) + log1p(e) - y[n + i] * zi
        z[i] = (select(zi >= 0, 1, e) / (1 + e) - y[n + i]) / float64(N)
    # adjoint of X @ w by w
    for i < m jam 4:
        for j < D lanes:
            w_bar[j] += z[i] * X[n + i, j]
r = 0
for j < D lanes:
    r += w[j] * w[j]
    w_bar[j] += 2 * l2 * w[j]
loss = s / float64(N) + l2 * r"""


def test_a_program_as_text() -> None:
    assert str(logistic_program()) == LOGISTIC


def test_control_and_calls_as_text() -> None:
    x = load("x", "i")
    negative = ap("less", x, num(0.0))
    view = View("a", (Lin(0, (("b", 1),)), Lin(), Lin()), (N, D), (D, 1))
    body = (
        Loop(
            "i",
            N - 1,
            (
                If(
                    negative,
                    (store("y", "i", value=x),),
                    (store("y", "i", value=num(0)),),
                ),
                While(negative, (store("y", Lin(N - 1, (("i", -2),)), value=x),)),
                Check(negative, 4),
            ),
            reverse=True,
        ),
        Call("potrf", (view,), code=2),
        Call("trsm", ("L", "N", "N", view, view)),
        Loop(
            "k",
            3,
            (store("y", Lin(1, (("k", D),)), value=cast(Size(D), float32)),),
            "unroll",
        ),
    )
    assert statement_lines(body) == [
        "for i < N - 1 reverse:",
        "    if x[i] < 0.0:",
        "        y[i] = x[i]",
        "    else:",
        "        y[i] = 0",
        "    while x[i] < 0.0:",
        "        y[N - 1 - 2 * i] = x[i]",
        "    check x[i] < 0.0 else 4",
        "call potrf(a[b, 0, 0]: N x D by (D, 1)) else 2",
        "call trsm('L', 'N', 'N', a[b, 0, 0]: N x D by (D, 1), a[b, 0, 0]: N x D by (D, 1))",
        "for k < 3 unroll:",
        "    y[D * k + 1] = float32(D)",
    ]


def test_walks_need_no_recursion() -> None:
    total: Expr = Ref("a", float64)
    for _ in range(20_000):
        total = Apply("add", (total, Ref("b", float64)), float64)
    assert fold(total, lambda e, below: 1 + sum(below)) == 40_001
    assert sum(1 for _ in walk(total)) == 40_001
    assert len(expression_text(total)) == 4 * 20_000 + 1


def test_statements_come_in_program_order() -> None:
    inner = store("y", value=num(1))
    outer = Loop("i", N, (inner,))
    last = store("y", value=num(2))
    body = (If(ap("less", num(0), num(1)), (outer,), (last,)),)
    assert list(statements(body)) == [body[0], outer, inner, last]


def test_text_of_a_program_without_symbols() -> None:
    program = Program(
        "one", (), (given("x"), result("y")), (store("y", value=load("x")),)
    )
    assert str(program).splitlines() == [
        "program one",
        "input      x float64",
        "output     y float64",
        "y = x",
    ]

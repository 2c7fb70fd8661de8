"""Put scalars that are used once into their use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradc.schedule.program import (
    Apply,
    Call,
    Check,
    Expr,
    If,
    Let,
    Lin,
    Lit,
    Load,
    Loop,
    Note,
    Ref,
    Stmt,
    Store,
    View,
    While,
    statements,
    walk,
)

__all__ = ["inline_lets", "tidy_sections"]

END = "end of section"
LARGEST = 12
"""The most parts that an expression may get by taking a Let in."""


def inline_lets(body: Sequence[Stmt]) -> list[Stmt]:
    """Let v = a; ... f(v) -> ... f(a), where v is used once, in the same body, or is a name or
    number; and as long as the expression stays short.

    Values don't change: an element is stored once, so it may be loaded later.
    """
    counts: dict[str, int] = {}
    _count(body, counts)
    _forget_unused(body, counts)
    return _inline(body, counts, {})


def _forget_unused(body: Sequence[Stmt], counts: dict[str, int]) -> None:
    """What only unused names use is not used."""
    lets = {s.name: s.expr for s in statements(body) if isinstance(s, Let)}
    unused = [name for name in lets if not counts.get(name)]
    while unused:
        for e in walk(lets[unused.pop()]):
            if isinstance(e, Ref):
                counts[e.name] -= 1
                if not counts[e.name] and e.name in lets:
                    unused.append(e.name)


def _signs(expr: Expr) -> Expr:
    """a + -b -> a - b, -a + b -> b - a, a - -b -> a + b: the same values to the last bit."""
    if not isinstance(expr, Apply) or expr.op not in ("add", "subtract"):
        return expr
    a, b = expr.args
    if isinstance(b, Apply) and b.op == "negative":
        other = "subtract" if expr.op == "add" else "add"
        return replace(expr, op=other, args=(a, b.args[0]))
    if expr.op == "add" and isinstance(a, Apply) and a.op == "negative":
        return replace(expr, op="subtract", args=(b, a.args[0]))
    return expr


def _expressions(stmt: Stmt) -> list[Expr]:
    """The expressions of a statement itself, those in indices too."""
    found: list[Expr] = []
    if isinstance(stmt, Let):
        found.append(stmt.expr)
    elif isinstance(stmt, Store):
        found += [i for i in stmt.index if not isinstance(i, Lin)]
        found.append(stmt.expr)
    elif isinstance(stmt, If | While | Check):
        found.append(stmt.cond)
    elif isinstance(stmt, Call):
        for arg in stmt.args:
            if isinstance(arg, View):
                found += [i for i in arg.index if not isinstance(i, Lin)]
            elif not isinstance(arg, str):
                found.append(arg)
    return found


def _count(body: Sequence[Stmt], counts: dict[str, int]) -> None:
    stack: list[Stmt] = list(body)
    while stack:
        stmt = stack.pop()
        for expr in _expressions(stmt):
            for e in walk(expr):
                if isinstance(e, Ref):
                    counts[e.name] = counts.get(e.name, 0) + 1
        if isinstance(stmt, Loop | While):
            stack += stmt.body
        elif isinstance(stmt, If):
            stack += (*stmt.then, *stmt.orelse)


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


def _replace(expr: Expr, known: dict[str, Expr]) -> Expr:
    """The expression with the names in `known` replaced; depth is bounded by LARGEST."""
    if isinstance(expr, Ref):
        return known.get(expr.name, expr)
    if isinstance(expr, Apply):
        args = tuple(_replace(a, known) for a in expr.args)
        return _signs(expr if args == expr.args else replace(expr, args=args))
    if isinstance(expr, Load):
        index = tuple(
            i if isinstance(i, Lin) else _replace(i, known) for i in expr.index
        )
        return expr if index == expr.index else replace(expr, index=index)
    return expr


def _inline(
    body: Sequence[Stmt], counts: dict[str, int], outer: dict[str, Expr]
) -> list[Stmt]:
    result: list[Stmt] = []
    known = dict(outer)
    own = _used_in(_until_section(body))
    for k, stmt in enumerate(body):
        if isinstance(stmt, Note) and stmt.is_section:  # nothing is put across its edge
            own = _used_in(_until_section(body[k + 1 :]))
            result.append(stmt)
        elif isinstance(stmt, Let):
            expr = _replace(stmt.expr, known)
            uses = counts.get(stmt.name, 0)
            if uses == 0:
                continue
            if isinstance(expr, Ref) or (
                uses == 1 and _size(expr) <= LARGEST and stmt.name in own
            ):
                known[stmt.name] = expr
            else:
                result.append(Let(stmt.name, expr))
        elif isinstance(stmt, Store):
            index = tuple(
                i if isinstance(i, Lin) else _replace(i, known) for i in stmt.index
            )
            fresh = replace(stmt, index=index, expr=_replace(stmt.expr, known))
            if result and _begins(result[-1], fresh):
                result[-1] = replace(fresh, mode="=")
            else:
                result.append(fresh)
        elif isinstance(stmt, Check):
            result.append(replace(stmt, cond=_replace(stmt.cond, known)))
        elif isinstance(stmt, Loop):
            inner = tuple(_inline(stmt.body, counts, known))
            if any(not isinstance(s, Note) for s in inner):
                result.append(replace(stmt, body=inner))
            else:  # nothing is left of it, nor to be said of it
                while result and _is_comment(result[-1]):
                    result.pop()
        elif isinstance(stmt, If):
            result.append(
                If(
                    _replace(stmt.cond, known),
                    tuple(_inline(stmt.then, counts, known)),
                    tuple(_inline(stmt.orelse, counts, known)),
                )
            )
        elif isinstance(stmt, While):
            result.append(
                While(
                    _replace(stmt.cond, known), tuple(_inline(stmt.body, counts, known))
                )
            )
        elif isinstance(stmt, Call):
            result.append(
                replace(
                    stmt,
                    args=tuple(
                        a if isinstance(a, str | View) else _replace(a, known)
                        for a in stmt.args
                    ),
                )
            )
        else:
            result.append(stmt)
    return result


def _until_section(body: Sequence[Stmt]) -> Sequence[Stmt]:
    """The statements up to the next edge of a section."""
    edges = (k for k, s in enumerate(body) if isinstance(s, Note) and s.is_section)
    return body[: next(edges, len(body))]


def _is_comment(stmt: Stmt) -> bool:
    return isinstance(stmt, Note) and not stmt.is_section


def tidy_sections(body: Sequence[Stmt]) -> list[Stmt]:
    """Leave the edges of sections out that have nothing between them."""
    result: list[Stmt] = []
    told = edge = None
    for stmt in body:
        if isinstance(stmt, Note) and stmt.is_section:
            edge = stmt
            continue
        if edge is not None and edge != told and (told or edge.text != END):
            result.append(edge)
            told = edge
        edge = None
        result.append(stmt)
    return result


def _begins(zero: Stmt, add: Store) -> bool:
    """Whether a sum's first term follows its zero: 0, then + term, is the term."""
    return (
        isinstance(zero, Store)
        and zero.mode == "="
        and add.mode == "+"
        and (zero.buffer, zero.index) == (add.buffer, add.index)
        and isinstance(zero.expr, Lit)
        and zero.expr.value == 0
    )


def _used_in(body: Sequence[Stmt]) -> set[str]:
    """The names that a body itself uses, not the loops in it."""
    return {
        e.name
        for stmt in body
        for expr in _expressions(stmt)
        for e in walk(expr)
        if isinstance(e, Ref)
    }

"""A short loop over a row that was put together just before it: its rounds, each with its element.

a[0] = p; a[1] = q                            table[at, 0] += p
for j < 2: table[at, j] += a[j]       ->      table[at, 1] += q
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Call,
    Expr,
    If,
    Index,
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
    fold,
    loads,
    with_children,
)
from gradc.types import Dim, int64

__all__ = ["unroll_short"]

LIMIT = 16
"""The longest loop that is written out."""

Fresh = Callable[[str], str]


def unroll_short(
    body: Sequence[Stmt], buffers: dict[str, Buffer], fresh: Fresh
) -> list[Stmt]:
    """The statements with such loops written out; takes rows that nothing reads then out of `buffers`.

    `fresh` gives a name that nothing else has. Values are the same to the last bit.
    """
    found = _Uses()
    found.visit(body, None, None)
    rows = {
        name: places
        for name, buffer in buffers.items()
        if (places := found.row(name, buffer)) is not None
    }
    if not rows:
        return list(body)
    for name in rows:
        del buffers[name]
    return _unrolled(body, rows, {}, fresh)


@dataclass(slots=True)
class _Uses:
    """Who writes and reads each buffer, and in which body."""

    stores: dict[str, list[tuple[int, Store]]] = field(default_factory=dict)
    reads: dict[str, list[tuple[int, Loop | None]]] = field(default_factory=dict)
    other: set[str] = field(default_factory=set)  # what is written or read otherwise

    def visit(
        self, body: Sequence[Stmt], loop: Loop | None, around: Sequence[Stmt] | None
    ) -> None:
        """`loop` is the one that `body` is of, `around` the body that it stands in."""
        for s in body:  # as deep as the nest
            for load in loads([s]) if not isinstance(s, Loop | If | While) else ():
                place = id(around) if loop is not None else 0
                self.reads.setdefault(load.buffer, []).append((place, loop))
            if isinstance(s, Store):
                if (
                    s.buffer in self.reads
                ):  # after a use: another round's, or another row
                    self.other.add(s.buffer)
                self.stores.setdefault(s.buffer, []).append((id(body), s))
            elif isinstance(s, Loop):
                self.visit(s.body, s, body)
            elif isinstance(s, If | While):
                inner = (*s.then, *s.orelse) if isinstance(s, If) else s.body
                self.other |= {load.buffer for load in loads([s])}
                self.other |= {t.buffer for t in inner if isinstance(t, Store)}
                self.visit(inner, None, None)
            elif isinstance(s, Call):
                self.other |= {a.buffer for a in s.args if isinstance(a, View)}

    def row(self, name: str, buffer: Buffer) -> set[int] | None:
        """The loops that read a buffer, if all its elements are set, one by one, in their body."""
        stores, reads = self.stores.get(name, []), self.reads.get(name, [])
        if (
            buffer.place not in ("workspace", "tile")
            or not buffer.dims
            or buffer.alias
            or name in self.other
            or not reads
            or len({place for place, _ in stores}) != 1
            or any(s.mode != "=" or not _is_fixed(s.index) for _, s in stores)
            or len({_key(s.index) for _, s in stores}) != len(stores)
        ):
            return None
        home = stores[0][0]
        if all(
            loop is not None and place == home and _is_short(loop, name)
            for place, loop in reads
        ):
            return {id(loop) for _, loop in reads}
        return None


def _is_fixed(index: Sequence[Index]) -> bool:
    return all(isinstance(i, Lin) and not i.terms for i in index)


def _key(index: Sequence[Index]) -> tuple[Dim, ...]:
    return tuple(i.offset for i in index if isinstance(i, Lin))


def _is_short(loop: Loop, name: str) -> bool:
    """Whether a loop may be written out, and reads a buffer by its own axis or fixed places."""
    if not isinstance(loop.extent, int) or loop.extent > LIMIT or loop.mode == "block":
        return False
    if not all(isinstance(s, Let | Store | Note) for s in loop.body):
        return False
    for load in loads(loop.body):
        if load.buffer == name and not all(
            isinstance(i, Lin) and {a for a, _ in i.terms} <= {loop.axis}
            for i in load.index
        ):
            return False
    return True


def _unrolled(
    body: Sequence[Stmt],
    rows: Mapping[str, set[int]],
    known: dict[tuple[str, tuple[Dim, ...]], Expr],
    fresh: Fresh,
) -> list[Stmt]:
    result: list[Stmt] = []
    readers = {loop for loops in rows.values() for loop in loops}
    for s in body:
        if isinstance(s, Store) and s.buffer in rows:
            expr = s.expr
            if not isinstance(expr, Ref | Lit):
                name = fresh(s.buffer)
                result.append(Let(name, expr))
                expr = Ref(name, expr.dtype)
            known[s.buffer, _key(s.index)] = expr
        elif isinstance(s, Loop) and id(s) in readers:
            assert isinstance(s.extent, int)
            order = range(s.extent)
            for k in reversed(order) if s.reverse else order:
                result += _Round(s.axis, k, known, fresh).of(s.body)
        elif isinstance(s, Loop):
            result.append(replace(s, body=tuple(_unrolled(s.body, rows, known, fresh))))
        elif isinstance(s, If):
            then = tuple(_unrolled(s.then, rows, known, fresh))
            orelse = tuple(_unrolled(s.orelse, rows, known, fresh))
            result.append(If(s.cond, then, orelse))
        elif isinstance(s, While):
            result.append(While(s.cond, tuple(_unrolled(s.body, rows, known, fresh))))
        else:
            result.append(s)
    return result


@dataclass(slots=True)
class _Round:
    """One round of a loop: its axis is a number, its lets have names of their own."""

    axis: str
    number: int
    known: Mapping[tuple[str, tuple[Dim, ...]], Expr]
    fresh: Fresh
    names: dict[str, Expr] = field(default_factory=dict)

    def of(self, body: Sequence[Stmt]) -> list[Stmt]:
        result: list[Stmt] = []
        for s in body:
            if isinstance(s, Let):
                name = self.fresh(s.name)
                result.append(Let(name, self.expr(s.expr)))
                self.names[s.name] = Ref(name, s.expr.dtype)
            elif isinstance(s, Store):
                index = tuple(self.index(i) for i in s.index)
                result.append(replace(s, index=index, expr=self.expr(s.expr)))
        return result

    def index(self, index: Index) -> Index:
        if not isinstance(index, Lin):
            return self.expr(index)
        offset = index.offset
        terms = []
        for axis, step in index.terms:
            if axis == self.axis:
                offset = offset + step * self.number
            else:
                terms.append((axis, step))
        return Lin(offset, tuple(terms))

    def expr(self, expr: Expr) -> Expr:
        def visit(e: Expr, args: Sequence[Expr]) -> Expr:
            if isinstance(e, AxisValue) and e.axis == self.axis:
                return Lit(self.number, int64)
            if isinstance(e, Ref):
                return self.names.get(e.name, e)
            if isinstance(e, Apply):
                return with_children(e, args)
            if isinstance(e, Load):
                e = with_children(e, args)
                assert isinstance(e, Load)
                index = tuple(
                    self.index(i) if isinstance(i, Lin) else i for i in e.index
                )
                if _is_fixed(index) and (e.buffer, _key(index)) in self.known:
                    return self.known[e.buffer, _key(index)]
                return replace(e, index=index)
            return e

        return fold(expr, visit)

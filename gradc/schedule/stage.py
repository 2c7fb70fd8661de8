"""Pack, compute, unpack: what a vector loop reads and writes with a stride goes through tiles.

A row of short axes, written out, is long arithmetic on a few numbers of a row: the columns of a
table, a gathered camera. Loads with a stride or from a looked-up row don't vectorise, and checks of
indices end a vector loop altogether. In blocks of `BLOCK` rows they do:

    for i < P:                          block n of P by 64, m rows:
        let at = ci[i]                      for i < m:
        check at < C                            let at = ci[n + i]
        let r = cams[at, 0]                     check at < C
        ...                      ->             r[i] = cams[at, 0]
        out[i, 3] = f(r, ...)               for i < m lanes:
                                                o[i] = f(r[i], ...)
                                            for i < m:
                                                out[n + i, 3] = o[i]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradc.schedule.cost import expression_cost
from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Check,
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
    While,
    fold,
    walk,
    with_children,
)
from gradc.types import Dim, int64, symbol

__all__ = ["stage"]

BLOCK = 64
"""Rows in a block: so that the tiles of some fifty columns stay in the nearest cache."""
FLOPS = 30
"""The work in a row from which packing pays."""
PER_ACCESS = 2
"""The work for each element that is moved twice, from which it pays."""

Fresh = Callable[[str], str]


def stage(body: Sequence[Stmt], buffers: dict[str, Buffer], fresh: Fresh) -> list[Stmt]:
    """The statements with such loops in three; enters the tiles into `buffers`.

    `fresh` gives a name that nothing else has. Values are the same to the last bit.
    """
    result: list[Stmt] = []
    for stmt in body:  # as deep as the nest
        if isinstance(stmt, Loop):
            staged = _Loop(stmt, buffers, fresh).staged()
            if staged is None:
                inner = tuple(stage(stmt.body, buffers, fresh))
                staged = stmt if inner == stmt.body else replace(stmt, body=inner)
            result.append(staged)
        elif isinstance(stmt, If):
            then = tuple(stage(stmt.then, buffers, fresh))
            result.append(
                If(stmt.cond, then, tuple(stage(stmt.orelse, buffers, fresh)))
            )
        elif isinstance(stmt, While):
            result.append(While(stmt.cond, tuple(stage(stmt.body, buffers, fresh))))
        else:
            result.append(stmt)
    return result


@dataclass(slots=True)
class _Loop:
    """One loop, and what its accesses are."""

    loop: Loop
    buffers: dict[str, Buffer]
    fresh: Fresh
    lets: dict[str, Let] = field(default_factory=dict)
    moving: set[str] = field(default_factory=set)  # lets that change from row to row
    made: set[str] = field(default_factory=set)  # the tiles

    def staged(self) -> Loop | None:
        loop = self.loop
        if not self.is_plain():
            return None
        for s in loop.body:
            if isinstance(s, Let):
                self.lets[s.name] = s
                if self.depends(s.expr):
                    self.moving.add(s.name)
        loads = [
            load
            for expr in self.computed()
            for load in _loads(expr)
            if self.is_scattered(load.buffer, load.index)
        ]
        columns = list(dict.fromkeys(loads))
        stores = [
            s
            for s in loop.body
            if isinstance(s, Store) and self.is_scattered(s.buffer, s.index)
        ]
        checks = [s for s in loop.body if isinstance(s, Check)]
        flops = sum(expression_cost(e) for e in self.computed())
        if not columns and not stores and not checks:
            return None
        if flops < max(FLOPS, PER_ACCESS * (len(columns) + len(stores))):
            return None
        first = self.behind(
            [s.cond for s in checks]
            + [i for load in columns for i in load.index if not isinstance(i, Lin)]
        )
        last = self.behind(
            [i for s in stores for i in s.index if not isinstance(i, Lin)]
        )
        if first is None or last is None:
            return None
        return self.rebuilt(columns, stores, first, last)

    def is_plain(self) -> bool:
        """Whether the rows are straight-line, don't depend on one another, and are many."""
        loop = self.loop
        if loop.mode not in ("lanes", "serial") or loop.reverse:
            return False
        if isinstance(loop.extent, int) and loop.extent < 2 * BLOCK:
            return False
        if not all(isinstance(s, Let | Store | Check | Note) for s in loop.body):
            return False
        stored = {self.base(s.buffer) for s in loop.body if isinstance(s, Store)}
        read = {
            self.base(load.buffer)
            for s in loop.body
            for expr in _expressions(s)
            for load in _loads(expr)
        }
        if stored & read:
            return False
        # the order of stores to one buffer must not matter
        seen: set[str] = set()
        for s in loop.body:
            if isinstance(s, Store) and (s.mode == "=" or self.buffers[s.buffer].dims):
                if not all(isinstance(i, Lin) for i in s.index) and s.mode == "=":
                    return False
                if s.mode != "=" and self.base(s.buffer) in seen and self.mixed(s):
                    return False
                seen.add(self.base(s.buffer))
        return True

    def mixed(self, store: Store) -> bool:
        """Whether a buffer is both set and added to."""
        base = self.base(store.buffer)
        modes = {
            s.mode
            for s in self.loop.body
            if isinstance(s, Store) and self.base(s.buffer) == base
        }
        return len(modes) > 1

    def base(self, buffer: str) -> str:
        while self.buffers[buffer].alias:
            buffer = self.buffers[buffer].alias
        return buffer

    # ---------------------------------------------------------------- what moves

    def depends(self, expr: Expr) -> bool:
        """Whether an expression changes from row to row."""
        for e in walk(expr):
            if isinstance(e, AxisValue) and e.axis == self.loop.axis:
                return True
            if isinstance(e, Ref) and e.name in self.moving:
                return True
            if isinstance(e, Load) and any(
                isinstance(i, Lin) and self.step(i) != 0 for i in e.index
            ):
                return True
        return False

    def step(self, index: Lin) -> Dim:
        return dict(index.terms).get(self.loop.axis, 0)

    def is_scattered(self, buffer: str, index: Sequence[Index]) -> bool:
        """Whether an access isn't to neighbours in neighbouring rows, nor to one element in all."""
        if not index:
            return False
        if any(not isinstance(i, Lin) and self.depends(i) for i in index):
            return True
        steps = [self.step(i) if isinstance(i, Lin) else 0 for i in index]
        return any(s != 0 for s in steps[:-1]) or steps[-1] not in (0, 1, -1)

    def computed(self) -> Iterable[Expr]:
        """The values of the rows; not the indices."""
        lookups = self.lookups()
        for s in self.loop.body:
            if isinstance(s, Store) or isinstance(s, Let) and s.name not in lookups:
                yield s.expr

    def lookups(self) -> set[str]:
        """The lets that only checks and indices use."""
        uses: dict[str, set[str]] = {}
        values: set[str] = set()
        for s in self.loop.body:
            for name in _names(s.expr) if isinstance(s, Let | Store) else ():
                if isinstance(s, Let):
                    uses.setdefault(name, set()).add(s.name)
                else:
                    values.add(name)
        found: set[str] = set()
        for name in reversed(self.lets):
            if name not in values and uses.get(name, set()) <= found:
                found.add(name)
        return found

    def behind(self, exprs: Sequence[Expr]) -> list[str] | None:
        """The lets that expressions need, in order; None where those are more than lookups."""
        lookups = self.lookups()
        needed: set[str] = set()
        work = list(exprs)
        while work:
            for e in walk(work.pop()):
                if isinstance(e, Ref) and e.name in self.lets and e.name not in needed:
                    if e.name not in lookups:
                        return None
                    needed.add(e.name)
                    work.append(self.lets[e.name].expr)
        return [name for name in self.lets if name in needed]

    # ------------------------------------------------------------------- rebuilding

    def rebuilt(
        self,
        columns: Sequence[Load],
        stores: Sequence[Store],
        first: Sequence[str],
        last: Sequence[str],
    ) -> Loop:
        loop = self.loop
        block, rows = self.fresh("block"), self.fresh("rows")
        row = (Lin(0, ((loop.axis, 1),)),)
        tiles: dict[Expr, Expr] = {}
        pack: list[Stmt] = []
        names = set(first)
        for s in loop.body:
            if isinstance(s, Let) and s.name in names or isinstance(s, Check):
                pack.append(s)
        for load in columns:
            tile = self.tile(load.buffer, load.index, load)
            pack.append(Store(tile, row, "=", load))
            tiles[load] = Load(tile, row, load.dtype)
        compute: list[Stmt] = []
        unpack: list[Stmt] = []
        scattered = {id(s) for s in stores}
        for s in loop.body:
            if not isinstance(s, Store):
                continue
            expr = _mapped(s.expr, tiles)
            if id(s) not in scattered:
                compute.append(replace(s, expr=expr))
            elif isinstance(expr, Load | Lit):  # there already
                unpack.append(replace(s, expr=expr))
            else:
                tile = self.tile(s.buffer, s.index, expr)
                compute.append(Store(tile, row, "=", expr))
                unpack.append(replace(s, expr=Load(tile, row, expr.dtype)))
        compute = [*self.values_for(compute, tiles), *compute]
        again: dict[str, str] = {}
        lookups: list[Stmt] = []
        for name in last:
            again[name] = self.fresh(name)
            lookups.append(Let(again[name], _renamed(self.lets[name].expr, again)))
        unpack = [
            replace(s, index=tuple(_renamed_index(i, again) for i in s.index))
            if isinstance(s, Store)
            else s
            for s in unpack
        ]
        inside: list[Stmt] = []
        shift = _Shift(loop.axis, block)
        for part, mode in (
            (pack, "serial"),
            (compute, "lanes"),
            ([*lookups, *unpack], "serial"),
        ):
            if part:
                moved = tuple(shift.statement(s, self.made) for s in part)
                inside.append(Loop(loop.axis, symbol(rows), moved, mode))  # type: ignore[arg-type]
        return Loop(block, loop.extent, tuple(inside), "block", BLOCK, rows)

    def values_for(
        self, stores: Sequence[Stmt], tiles: Mapping[Expr, Expr]
    ) -> list[Stmt]:
        """The lets that the computing loop's stores need, in order."""
        needed: set[str] = set()
        lets = {n: _mapped(s.expr, tiles) for n, s in self.lets.items()}
        work = [expr for s in stores for expr in _expressions(s)]
        while work:
            for e in walk(work.pop()):
                if isinstance(e, Ref) and e.name in lets and e.name not in needed:
                    needed.add(e.name)
                    work.append(lets[e.name])
        return [Let(n, expr) for n, expr in lets.items() if n in needed]

    def tile(self, buffer: str, index: Sequence[Index], expr: Expr) -> str:
        """A tile for one column of a buffer."""
        fixed = [str(i.offset) for i in index if isinstance(i, Lin) and not i.terms]
        name = self.fresh("_".join((buffer, *fixed)))
        self.buffers[name] = Buffer(name, expr.dtype, (BLOCK,), "tile")
        self.made.add(name)
        return name


# ----------------------------------------------------------------------- expressions


def _expressions(stmt: Stmt) -> list[Expr]:
    """The expressions of a statement, those in indices too."""
    if isinstance(stmt, Let):
        return [stmt.expr]
    if isinstance(stmt, Store):
        return [stmt.expr, *(i for i in stmt.index if not isinstance(i, Lin))]
    return [stmt.cond] if isinstance(stmt, Check) else []


def _loads(expr: Expr) -> list[Load]:
    return [e for e in walk(expr) if isinstance(e, Load)]


def _names(expr: Expr) -> list[str]:
    """The names that an expression uses as values, not those in indices."""
    found: list[str] = []
    stack = [expr]
    while stack:
        e = stack.pop()
        if isinstance(e, Ref):
            found.append(e.name)
        elif isinstance(e, Apply):
            stack += e.args
    return found


def _mapped(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """The expression with the loads in `known` replaced."""

    def visit(e: Expr, args: Sequence[Expr]) -> Expr:
        if e in known:
            return known[e]
        return with_children(e, args)

    return fold(expr, visit)


def _renamed(expr: Expr, names: Mapping[str, str]) -> Expr:
    def visit(e: Expr, args: Sequence[Expr]) -> Expr:
        if isinstance(e, Ref):
            return replace(e, name=names.get(e.name, e.name))
        return with_children(e, args)

    return fold(expr, visit)


def _renamed_index(index: Index, names: Mapping[str, str]) -> Index:
    return index if isinstance(index, Lin) else _renamed(index, names)


@dataclass(frozen=True, slots=True)
class _Shift:
    """Row `axis` of a block is row `block + axis` of the whole."""

    axis: str
    block: str

    def lin(self, index: Lin) -> Lin:
        terms: list[tuple[str, Dim]] = []
        for name, step in index.terms:
            if name == self.axis:
                terms.append((self.block, step))
            terms.append((name, step))
        return Lin(index.offset, tuple(terms))

    def index(self, index: tuple[Index, ...], tiles: set[str]) -> tuple[Index, ...]:
        return tuple(
            self.lin(i) if isinstance(i, Lin) else self.expr(i, tiles) for i in index
        )

    def expr(self, expr: Expr, tiles: set[str]) -> Expr:
        def visit(e: Expr, args: Sequence[Expr]) -> Expr:
            e = with_children(e, args)
            if isinstance(e, AxisValue) and e.axis == self.axis:
                return Apply("add", (AxisValue(self.block), e), int64)
            if isinstance(e, Load) and e.buffer not in tiles:
                index = tuple(self.lin(i) if isinstance(i, Lin) else i for i in e.index)
                return replace(e, index=index)
            return e

        return fold(expr, visit)

    def statement(self, stmt: Stmt, tiles: set[str]) -> Stmt:
        if isinstance(stmt, Let):
            return Let(stmt.name, self.expr(stmt.expr, tiles))
        if isinstance(stmt, Check):
            return replace(stmt, cond=self.expr(stmt.cond, tiles))
        if isinstance(stmt, Store):
            index = stmt.index
            if stmt.buffer not in tiles:
                index = self.index(index, tiles)
            return replace(stmt, index=index, expr=self.expr(stmt.expr, tiles))
        return stmt

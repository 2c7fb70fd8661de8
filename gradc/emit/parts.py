"""Cut a long Program into parts, each a function that the compiler takes in one piece.

The time compilers take grows faster than the length of a function, and Numba follows variables
through the blocks of one by recursion: a loop of forty unrolled steps is too deep for it. A part
is a run of statements at the root. Scalars that a later part uses stand in an array meanwhile:

```
program f                       program f_1                program f_2
a = x[0] * x[1]                 a = x[0] * x[1]            a = carried[0]
for i < N: ...                  carried[0] = a             y[()] = a + 1.0
y[()] = a + 1.0                 for i < N: ...
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradc.schedule.buffers import buffers_of
from gradc.schedule.program import (
    Buffer,
    Expr,
    If,
    Let,
    Lin,
    Load,
    Loop,
    Note,
    Program,
    Ref,
    Stmt,
    Store,
    While,
    expressions,
    statements,
    walk,
)
from gradc.types import DType

__all__ = ["cut"]

LONG = 1600
"""The weight from which on a program is cut."""
PART = 700
"""The weight of a part; one statement may be heavier."""


def cut(program: Program) -> tuple[Program, tuple[Program, ...]]:
    """The program with the memory its parts share, and the parts in order; none if it is short.

    A part has the buffers that it uses.
    """
    weights = [_weight(stmt) for stmt in program.body]
    if sum(weights) < LONG:
        return program, ()
    runs = _runs(program, weights)
    if len(runs) < 2:
        return program, ()
    carried = _Carried(program, runs)
    bodies = [carried.body(k) for k in range(len(runs))]
    whole = replace(
        program,
        buffers=(*program.buffers, *carried.arrays()),
        body=tuple(s for body in bodies for s in body),
    )
    buffers = {b.name: b for b in whole.buffers}
    parts = tuple(
        replace(
            program,
            name=f"{program.name}_{k + 1}",
            buffers=_used(buffers, body),
            body=tuple(body),
            doc="",
        )
        for k, body in enumerate(bodies)
    )
    return whole, parts


def _weight(root: Stmt) -> int:
    """About how many instructions a statement becomes."""
    total = 0
    stack: list[tuple[Stmt, int]] = [(root, 1)]
    while stack:
        stmt, times = stack.pop()
        if isinstance(stmt, Note):
            continue
        total += times * (1 + sum(_size(e) for e in expressions((_head(stmt),))))
        if isinstance(stmt, Loop):
            total += 8 * times
            if stmt.mode == "unroll" and isinstance(stmt.extent, int):
                times *= stmt.extent
            elif stmt.mode == "jam":
                times *= 1 + max(stmt.step, 4)
        if isinstance(stmt, Loop | While):
            stack += [(s, times) for s in stmt.body]
        elif isinstance(stmt, If):
            stack += [(s, times) for s in stmt.then + stmt.orelse]
    return total


def _head(stmt: Stmt) -> Stmt:
    """The statement without those inside it."""
    if isinstance(stmt, Loop | While):
        return replace(stmt, body=())
    if isinstance(stmt, If):
        return replace(stmt, then=(), orelse=())
    return stmt


def _size(expr: Expr) -> int:
    return sum(1 for _ in walk(expr))


# ----------------------------------------------------------------------------- cuts


def _runs(program: Program, weights: Sequence[int]) -> list[tuple[int, int]]:
    """The parts as (first, end) among the statements at the root.

    In the second half of a part the cut goes where the fewest scalars are alive.
    """
    body = program.body
    alive = _alive(program)
    runs: list[tuple[int, int]] = []
    first, total, best = 0, 0, 0
    for k, weight in enumerate(weights):
        if total + weight > PART and k > first:
            end = best or k
            runs.append((first, end))
            first, best = end, 0
            total = sum(weights[end:k])
        total += weight
        is_place = total > PART // 2 and not isinstance(body[k], Note)
        if is_place and (not best or alive[k + 1] <= alive[best]):
            best = k + 1
    runs.append((first, len(body)))
    return runs


def _alive(program: Program) -> list[int]:
    """How many scalars are used on both sides of each gap between statements."""
    first, last = _uses(program)
    change = [0] * (len(program.body) + 2)
    for name, begin in first.items():
        change[begin + 1] += 1
        change[last[name] + 1] -= 1
    for k in range(1, len(change)):
        change[k] += change[k - 1]
    return change


def _uses(program: Program) -> tuple[dict[str, int], dict[str, int]]:
    """The first and the last statement at the root that each scalar is used in."""
    local = _locals(program)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for k, stmt in enumerate(program.body):
        for name in _scalars(stmt, local):
            first.setdefault(name, k)
            last[name] = k
    return first, last


def _locals(program: Program) -> dict[str, DType]:
    """Buffers that are local variables of a kernel."""
    return {
        b.name: b.dtype
        for b in program.buffers
        if not b.dims and b.place in ("tile", "workspace")
    }


def _scalars(root: Stmt, local: dict[str, DType]) -> Iterator[str]:
    """The scalars that a statement sets or reads."""
    for s in statements((root,)):
        if isinstance(s, Let):
            yield s.name
    for expr in expressions((root,)):
        yield from (e.name for e in walk(expr) if isinstance(e, Ref))
    yield from (name for name in buffers_of(root) if name in local)


def _used(buffers: dict[str, Buffer], body: Sequence[Stmt]) -> tuple[Buffer, ...]:
    """The buffers that a body uses, and those that they are aliases of, in order."""
    found: set[str] = set()
    for stmt in body:
        for name in buffers_of(stmt):
            while name and name not in found:
                found.add(name)
                name = buffers[name].alias
    return tuple(b for b in buffers.values() if b.name in found)


# -------------------------------------------------------------------------- scalars


class _Carried:
    """The scalars that more than one part uses, and their places in arrays."""

    def __init__(self, program: Program, runs: Sequence[tuple[int, int]]) -> None:
        self.runs = runs
        self.root = program.body
        self.local = _locals(program)
        self.lets = {s.name: s.expr.dtype for s in self.root if isinstance(s, Let)}
        self.inside = [self._names(*run) for run in runs]
        taken = {b.name for b in program.buffers} | set(program.symbols)
        for s in statements(self.root):
            if isinstance(s, Let):
                taken.add(s.name)
            elif isinstance(s, Loop):
                taken |= {s.axis, s.rows}
        self.taken = taken
        self.names: dict[DType, str] = {}
        self.counts: dict[DType, int] = {}
        self.places: dict[str, tuple[DType, int]] = {}
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        for k, names in enumerate(self.inside):
            for name in names:
                if self.first.setdefault(name, k) < k:
                    self._place(name)
                self.last[name] = k

    def _names(self, first: int, end: int) -> dict[str, None]:
        """The scalars of some statements at the root, in order."""
        return {
            name: None
            for stmt in self.root[first:end]
            for name in _scalars(stmt, self.local)
            if name in self.local or name in self.lets
        }

    def _place(self, name: str) -> None:
        if name in self.places:
            return
        dtype = self.local.get(name) or self.lets[name]
        if dtype not in self.names:
            base = "carried" if dtype.name == "float64" else f"carried_{dtype.name}"
            found, count = base, 1
            while found in self.taken:
                count += 1
                found = f"{base}_{count}"
            self.taken.add(found)
            self.names[dtype] = found
        place = self.counts.get(dtype, 0)
        self.counts[dtype] = place + 1
        self.places[name] = (dtype, place)

    def arrays(self) -> tuple[Buffer, ...]:
        """The arrays that hold scalars between parts."""
        return tuple(
            Buffer(name, dtype, (self.counts[dtype],), "tile")
            for dtype, name in self.names.items()
        )

    def body(self, k: int) -> list[Stmt]:
        """The statements of a part: scalars of earlier parts first, those for later ones last."""
        first, end = self.runs[k]
        result: list[Stmt] = []
        for name in self.inside[k]:
            if self.first[name] == k:
                continue
            load = self._load(name)
            if name in self.lets:
                result.append(Let(name, load))
            else:
                result.append(Store(name, (), "=", load))
        kept: list[Stmt] = []
        for stmt in self.root[first:end]:
            result.append(stmt)
            if isinstance(stmt, Let) and self._is_wanted(stmt.name, k):
                result.append(
                    self._keep(stmt.name, Ref(stmt.name, self.lets[stmt.name]))
                )
        for name in self.inside[k]:
            if name in self.local and self._is_wanted(name, k):
                kept.append(self._keep(name, Load(name, (), self.local[name])))
        return result + kept

    def _is_wanted(self, name: str, k: int) -> bool:
        """Whether a later part uses a scalar."""
        return self.last[name] > k

    def _load(self, name: str) -> Load:
        dtype, place = self.places[name]
        return Load(self.names[dtype], (Lin(place),), dtype)

    def _keep(self, name: str, value: Expr) -> Store:
        dtype, place = self.places[name]
        return Store(self.names[dtype], (Lin(place),), "=", value)

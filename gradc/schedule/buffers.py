"""Where the workspaces and tiles of a Program lie in its one stretch of memory.

The time line is that of the statements at the root. Two buffers whose first and last uses don't
overlap there may lie in one place; the later one takes the first free place that is known to be
large enough for all sizes, or that it is known to be at least as large as.

```
buffers(N)   first..last use       place    offset
h            0..2                  0        0
g            1..4                  1        8 * ((N + 7) // 8)
e            3..4                  0        0
```
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from gradc.schedule.program import (
    Call,
    Load,
    Program,
    Stmt,
    Store,
    View,
    expressions,
    statements,
    takes_slots,
    walk,
)
from gradc.types import Dim, dim_floordiv, exact_quotient, is_nonnegative, size_of

__all__ = ["ALIGN", "SLOTS", "Arena", "arena", "buffers_of"]

ALIGN = 8
"""Buffers begin at multiples of 8 doubles, a cache line."""

SLOTS = 16
"""Words at the start of the memory that library calls keep their scalars in."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The offsets of buffers in doubles, literal for those of literal size, and the whole size.

    `order` are the offsets that are not literal, from the first on.
    """

    offsets: dict[str, Dim]
    size: Dim
    order: tuple[Dim, ...] = ()


class _Spots:
    """Stretches of memory, in bytes, that are taken and given back along the time line."""

    def __init__(self) -> None:
        self.sizes: list[Dim] = []
        self.free: list[int] = []
        self.busy: list[tuple[int, int]] = []  # a heap of (last use, spot)

    def take(self, size: Dim, first: int, last: int) -> int:
        """The number of a spot for so many bytes, from one statement to another."""
        while self.busy and self.busy[0][0] < first:
            self.free.append(heapq.heappop(self.busy)[1])
        spot = next((k for k in self.free if _fits(self.sizes[k], size)), None)
        if spot is None:
            spot = len(self.sizes)
            self.sizes.append(size)
        else:
            self.free.remove(spot)
            if is_nonnegative(size - self.sizes[spot]):
                self.sizes[spot] = size
        heapq.heappush(self.busy, (last, spot))
        return spot

    def offsets(self, start: Dim) -> tuple[list[Dim], Dim]:
        """(where each spot begins, where the last one ends), in doubles."""
        found: list[Dim] = []
        for size in self.sizes:
            found.append(start)
            start = start + _lines(size) * ALIGN
        return found, start


def arena(program: Program) -> Arena:
    """The places of all workspaces and tiles with dims that are used, behind the slots of calls."""
    start = SLOTS if takes_slots(program.body) else 0
    lives = _lives(program)
    buffers = {b.name: b for b in program.buffers}
    literal, symbolic = _Spots(), _Spots()
    taken: list[tuple[str, bool, int]] = []
    for name, (first, last) in sorted(lives.items(), key=lambda item: item[1][0]):
        buffer = buffers[name]
        size = size_of(buffer.dims) * (buffer.dtype.bits // 8)
        is_literal = isinstance(size, int)
        spots = literal if is_literal else symbolic
        taken.append((name, is_literal, spots.take(size, first, last)))
    places, middle = literal.offsets(start)
    more, end = symbolic.offsets(middle)
    offsets = {n: (places if low else more)[k] for n, low, k in taken}
    return Arena(offsets, end, tuple(more))


def _fits(a: Dim, b: Dim) -> bool:
    """Whether one of two sizes is known to be the larger one."""
    return a == b or is_nonnegative(a - b) or is_nonnegative(b - a)


def _lines(size: Dim) -> Dim:
    """So many bytes in cache lines, rounded up: `(N + 7) // 8` for 8 * N of them."""
    unit = 8 * ALIGN
    while exact_quotient(size, unit) is None:
        unit //= 2
    count = dim_floordiv(size, unit)
    per_line = 8 * ALIGN // unit
    return dim_floordiv(count + (per_line - 1), per_line)


def _lives(program: Program) -> dict[str, tuple[int, int]]:
    """(first, last) statement at the root that uses each buffer of the arena."""
    owner: dict[str, str] = {}
    for b in program.buffers:
        if b.alias:
            owner[b.name] = owner.get(b.alias, b.alias)
        elif b.place in ("workspace", "tile") and b.dims:
            owner[b.name] = b.name
    inside = {name for name, own in owner.items() if name == own}
    lives: dict[str, tuple[int, int]] = {}
    for place, stmt in enumerate(program.body):
        for name in buffers_of(stmt):
            own = owner.get(name, name)
            if own in inside:
                lives[own] = (lives[own][0] if own in lives else place, place)
    return lives


def buffers_of(root: Stmt) -> tuple[str, ...]:
    """The buffers that a statement and those inside it use, each once: those stored to come first."""
    found: dict[str, None] = {}
    for s in statements((root,)):
        if isinstance(s, Store):
            found[s.buffer] = None
        elif isinstance(s, Call):
            found |= dict.fromkeys(a.buffer for a in s.args if isinstance(a, View))
    for expr in expressions((root,)):
        found |= dict.fromkeys(e.buffer for e in walk(expr) if isinstance(e, Load))
    return tuple(found)

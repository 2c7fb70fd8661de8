"""What the Numba printer asks about loops before it writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Expr,
    Index,
    Let,
    Lin,
    Load,
    Loop,
    Note,
    Stmt,
    Store,
    expressions,
    loads,
    statements,
    walk,
)
from gradc.types import float64

__all__ = [
    "Block",
    "accesses",
    "angles",
    "is_row",
    "lane_totals",
    "private_names",
]

ANGLES = frozenset(("sin", "cos", "tan"))


@dataclass(frozen=True, slots=True)
class Block:
    """An open block loop: its axis, its inner axes over the rows, its slices by buffer."""

    axis: str
    inner: frozenset[str]
    slices: Mapping[str, str]


def angles(loop: Loop, buffers: Mapping[str, Buffer]) -> list[Expr]:
    """The arguments of float64 sines, cosines and tangents of a vector loop that can be run again.

    It can where it only sets array elements that it does not read, and local variables.
    """
    read = {e.buffer for e in loads(loop.body)}
    for s in loop.body:
        if isinstance(s, Let | Note):
            continue
        if not isinstance(s, Store):
            return []
        is_local = buffers[s.buffer].place == "tile" and not buffers[s.buffer].dims
        if s.buffer in read or (s.mode != "=" and not is_local):
            return []
    found: dict[Expr, None] = {}
    for expr in expressions(loop.body):
        for e in walk(expr):
            if isinstance(e, Apply) and e.op in ANGLES and e.dtype == float64:
                found[e.args[0]] = None
    return list(found)


def accesses(body: Sequence[Stmt]) -> Iterator[tuple[str, tuple[Index, ...]]]:
    """(buffer, index) of all stores and then of all loads of arrays."""
    for s in statements(body):
        if isinstance(s, Store):
            yield s.buffer, s.index
    for load in loads(body):
        if load.index:
            yield load.buffer, load.index


def is_row(index: Sequence[Index], block: Block) -> bool:
    """Whether the access is to row `inner` of the block: `[n + i, ...]`, n nowhere else."""
    if not index or not isinstance(index[0], Lin):
        return False
    first = dict(index[0].terms)
    rest = first.keys() - {block.axis}
    if index[0].offset != 0 or len(index[0].terms) != 2 or first.get(block.axis) != 1:
        return False
    (inner,) = rest
    if inner not in block.inner or first[inner] != 1:
        return False
    return not any(block.axis in _axes_of(i) for i in index[1:])


def _axes_of(index: Index) -> set[str]:
    if isinstance(index, Lin):
        return {axis for axis, _ in index.terms}
    found: set[str] = set()
    for e in walk(index):
        if isinstance(e, AxisValue):
            found.add(e.axis)
        elif isinstance(e, Load):
            for i in e.index:
                if isinstance(i, Lin):
                    found |= {axis for axis, _ in i.terms}
    return found


def lane_totals(loop: Loop, buffers: Mapping[str, Buffer]) -> dict[int, Store]:
    """Stores of a lanes loop that combine into one element in all its rounds, by place.

    They are sums into arrays, and maxima and minima of floats. Only where nothing else in the loop
    touches the buffer.
    """
    touched: dict[str, int] = {}
    stored = [s.buffer for s in statements(loop.body) if isinstance(s, Store)]
    for name in (*stored, *(e.buffer for e in loads(loop.body))):
        while buffers[name].alias:
            name = buffers[name].alias
        touched[name] = touched.get(name, 0) + 1
    found: dict[int, Store] = {}
    for place, s in enumerate(loop.body):
        if not isinstance(s, Store) or touched[s.buffer] != 1:
            continue
        dtype = s.expr.dtype
        is_array = bool(s.index) or buffers[s.buffer].place == "output"
        is_sum = s.mode == "+" and dtype.is_inexact and is_array
        is_extreme = s.mode in ("max", "min") and dtype.is_float
        if (is_sum or is_extreme) and all(
            isinstance(i, Lin) and loop.axis not in _axes_of(i) for i in s.index
        ):
            found[place] = s
    return found


def private_names(body: Sequence[Stmt], buffers: Mapping[str, Buffer]) -> list[str]:
    """Names that each row of a jammed loop has for itself: lets, and scalars set there."""
    names: dict[str, None] = {}
    for s in statements(body):
        if isinstance(s, Let):
            names[s.name] = None
        elif isinstance(s, Store) and s.mode == "=":
            buffer = buffers[s.buffer]
            if not buffer.dims and buffer.place != "output":
                names[s.buffer] = None
    return list(names)

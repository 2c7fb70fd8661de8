"""Compute a cheap operand of a library call anew in each nest that needs it.

A call reads its operands from memory. Where two nests over one batch axis each hand an item of the
same cheap value to a call, keeping all items from the first nest for the second costs a trip
through memory; an item computed again lies in cache.

    for i: t[i] = x - mu[i]; call gemm(t[i], ...)      for i: t = x - mu[i]; call gemm(t, ...)
    for i: call gemm(..., t[i], ...)               ->  for i: t2 = x - mu[i]; call gemm(..., t2, ...)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from gradc.graph import Tensor, at
from gradc.ops.loops import Affine, Elementwise
from gradc.schedule.fuse import Item, LoopItem, loop_name
from gradc.schedule.units import WHOLE, Read, Unit, Units, axis_in

__all__ = ["recompute_operands"]

FLOPS = 4
"""What computing an element again may cost."""

Path = tuple[LoopItem, ...]


def recompute_operands(
    units: Units, items: list[Item], reserved: frozenset[str] = frozenset()
) -> list[Tensor]:
    """Give each nest that hands a cheap value to a call its own copy of it; changes both.

    Loop variables keep clear of `reserved`. Gives the values that have copies.
    """
    copied: list[Tensor] = []
    places = _places(items)
    outputs = set(units.outputs.values())
    for call in [u for u in units.units if u.kind == "call"]:
        path, body, _ = places[call]
        if not path:
            continue
        for k, read in enumerate(call.reads):
            makers = units.writers.get(read.tensor, [])
            if len(makers) != 1 or read.tensor in outputs or read.after:
                continue
            (maker,) = makers
            shared = _common(places[maker][0], path)
            inside = {loop.axis for loop in shared}
            batch = [i for i in read.index if i is not WHOLE]
            if not batch or all(_axis(call, i) in inside for i in batch):
                continue  # one item at a time is there already
            if any(axis_in(i) is None for i in batch) or not _is_cheap(
                maker, units, FLOPS
            ):
                continue
            own, nest = _again(maker, call, read, path, reserved)
            reads = list(call.reads)
            reads[k] = replace(read, tensor=own.out)
            call.reads = tuple(reads)
            units.units.insert(units.units.index(call), own)
            units.writers[own.out] = [own]
            body.insert(body.index(call), nest)
            copied.append(read.tensor)
    return copied


def _places(items: list[Item]) -> dict[Unit, tuple[Path, list[Item], int]]:
    """Where each unit stands: the loops around it, and the body it is in."""
    found: dict[Unit, tuple[Path, list[Item], int]] = {}
    stack: list[tuple[list[Item], Path]] = [(items, ())]
    while stack:
        body, path = stack.pop()
        for k, item in enumerate(body):
            if isinstance(item, Unit):
                found[item] = (path, body, k)
            else:
                stack.append((item.body, (*path, item)))
    return found


def _common(a: Path, b: Path) -> Path:
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] is b[depth]:
        depth += 1
    return a[:depth]


def _axis(unit: Unit, index: object) -> str | None:
    k = axis_in(index) if isinstance(index, Affine) else None
    return None if k is None else unit.bound[k]


def _is_cheap(unit: Unit, units: Units, budget: int) -> bool:
    """Whether a value follows from inputs and constants in few flops."""
    work: list[Unit] = [unit]
    while work:
        u = work.pop()
        form = u.node.op.form(u.node) if u.node.op.form is not None else None
        if u.kind != "map" or not isinstance(form, Elementwise):
            return False
        budget -= u.node.op.cost
        if budget < 0:
            return False
        for read in u.reads:
            made = units.writers.get(read.tensor)
            if made is not None:
                if len(made) != 1:
                    return False
                work += made
            elif read.tensor in units.alias:
                return False
    return True


def _again(
    maker: Unit, call: Unit, read: Read, path: Path, reserved: frozenset[str]
) -> tuple[Unit, LoopItem | Unit]:
    """The maker's work for the item that a call reads, and the nest that does it."""
    node = maker.node
    with at(node.place):
        fresh = node.op.node(node.inputs, node.attrs.as_dict())
    out: Tensor = fresh.outputs[maker.out.index]
    out.name = maker.out.name
    own = replace(maker, node=fresh, out=out, bound={}, blocks={})
    depth = len(path)
    loops: list[LoopItem] = []
    for d, index in enumerate(maker.store):
        k = axis_in(index)
        assert k is not None
        at_call = read.index[d]
        if at_call is WHOLE:
            name = loop_name(depth + len(loops), reserved)
            loops.append(LoopItem(name, maker.extents[k]))
            own.bound[k] = name
        else:
            axis = _axis(call, at_call)
            assert axis is not None
            own.bound[k] = axis
    if not loops:
        return own, own
    for outer, inner in pairwise(loops):
        outer.body.append(inner)
    loops[-1].body.append(own)
    return own, loops[0]

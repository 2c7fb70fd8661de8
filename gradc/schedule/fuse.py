"""Which units share a loop: one axis at a time, in phases, and again inside.

The algorithm: choose an axis of one unit; follow reads both ways to all units that carry it;
number the passes over it (`phases`) so that what one pass needs complete is done in an earlier
one; split each pass into its connected parts; fuse the body of each part in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gradc.graph import Tensor
from gradc.schedule.units import (
    Line,
    Read,
    Unit,
    Units,
    axis_in,
    axis_on,
    is_axis,
    line_of,
)
from gradc.types import Dim, evaluate_dim, size_of, symbol, symbols_of

__all__ = ["Item", "LoopItem", "fuse", "loop_name", "separate"]

NOMINAL = 1000
"""The size that a symbol counts as where costs are compared."""
BLOCK = 512
"""Rows in a block."""
LONG = 32
"""The length from which a row's own loop vectorises."""
DEAR = 10
"""The cost from which scalar work is worth a loop of its own."""
STRIDED = 4
"""What a strided element costs, in contiguous ones."""
CANDIDATES = 8
"""How many axes are tried at a level."""


@dataclass(eq=False, slots=True)
class LoopItem:
    """A loop over `extent`, its variable, and what is inside.

    A `block` loop steps by `BLOCK` rows; `rows` is the symbol of how many there are. `jam` asks
    for four rows at a time.
    """

    axis: str
    extent: Dim
    body: list[Item] = field(default_factory=list)
    block: bool = False
    rows: str = ""
    jam: bool = False


Item: TypeAlias = "LoopItem | Unit"


def nominal(dim: Dim) -> int:
    """The number a dimension counts as."""
    return max(evaluate_dim(dim, dict.fromkeys(symbols_of(dim), NOMINAL)), 0)


class _Fuser:
    def __init__(self, units: Units, reserved: frozenset[str]) -> None:
        self.units = units
        self.reserved = reserved
        self.writers = units.writers
        self.alias = units.alias

    # -------------------------------------------------------------- dependencies

    def base(self, tensor: Tensor) -> Tensor:
        """The tensor that owns the storage."""
        while tensor in self.alias:
            tensor = self.alias[tensor]
        return tensor

    def producers(self, read: Read) -> list[tuple[Unit, bool]]:
        """The units a read depends on, and whether it may be in the same iteration."""
        found = [
            (u, False) for t in read.after for u in self.writers.get(self.base(t), ())
        ]
        aliased = read.tensor in self.alias
        for u in self.writers.get(self.base(read.tensor), ()):
            found.append((u, not aliased))
        return found

    def dependencies(self, unit: Unit) -> list[tuple[Unit, Read | None]]:
        """The units that must run before, with the read where the edge may be a row edge.

        Several writers of one tensor depend on the earlier ones, in order.
        """
        found: list[tuple[Unit, Read | None]] = []
        for read in unit.reads:
            for producer, row in self.producers(read):
                found.append((producer, read if row else None))
        for other in self.writers.get(unit.out, ()):
            if other is unit:
                break
            if not (unit.adds and other.adds):  # terms of one sum may come in any order
                found.append((other, Read(unit.out, unit.store)))
        return found

    # ------------------------------------------------------------------ one axis

    def carriers(
        self, start: Unit, first: int, members: Sequence[Unit]
    ) -> dict[Unit, int]:
        """All units that go over axis `first` of `start` together with it, and their own axis."""
        inside = set(members)
        readers: dict[Tensor, list[tuple[Unit, Read]]] = {}
        for u in members:
            for read in u.reads:
                readers.setdefault(read.tensor, []).append((u, read))
        extent = start.extents[first]
        carry = {start: first}
        work = [start]

        def join(unit: Unit, k: int | None) -> None:
            if k is None or unit in carry or unit not in inside or k in unit.bound:
                return
            if unit.extents[k] != extent or not may_carry(unit, k):
                return
            carry[unit] = k
            work.append(unit)

        seen: set[tuple[Tensor, int, Line]] = set()

        def meet(tensor: Tensor, d: int, line: Line) -> None:
            """Dimension `d` of a tensor is on a line over the axis: writers and readers on the
            same line join."""
            if (tensor, d, line) in seen:
                return
            seen.add((tensor, d, line))
            for w in self.writers.get(tensor, ()):
                join(w, axis_on(w.store[d], line))
            for u, read in readers.get(tensor, ()):
                join(u, axis_on(read.index[d], line))

        at = 0
        while at < len(work):
            unit = work[at]
            at += 1
            k = carry[unit]
            for read in unit.reads:
                for d, index in enumerate(read.index):
                    line = line_of(index, k)
                    if line is not None:
                        meet(read.tensor, d, line)
            for d, index in enumerate(unit.store):
                line = line_of(index, k)
                if line is not None:
                    meet(unit.out, d, line)
        return carry

    def is_row(
        self, read: Read, producer: Unit, unit: Unit, carry: dict[Unit, int]
    ) -> bool:
        """Whether the element a unit reads is made in the same iteration of the carried axis."""
        k, own = carry[unit], carry[producer]
        store = producer.store if producer.out is read.tensor else None
        if store is None:
            store = next((s for t, s in producer.more if t is read.tensor), None)
        if store is None or own in producer.reduced or producer.kind == "scatter":
            return False
        if producer.node.place.section != unit.node.place.section:
            return False
        return any(
            is_axis(s, own) and is_axis(i, k)
            for s, i in zip(store, read.index, strict=True)
        )

    def phases(
        self, members: Sequence[Unit], carry: dict[Unit, int]
    ) -> tuple[dict[Unit, int], dict[Unit, list[Unit]]]:
        """The pass of each carrier, the readiness of each other unit, and the row edges."""
        phase: dict[Unit, int] = {}
        rows: dict[Unit, list[Unit]] = {}
        whole: set[Unit] = set()  # what another pass needs complete
        for unit in members:
            level = 0
            carried = unit in carry
            for producer, read in self.dependencies(unit):
                if producer not in phase or producer is unit:
                    continue
                if producer not in carry:
                    level = max(level, phase[producer])
                elif (
                    carried
                    and read is not None
                    and self.is_row(read, producer, unit, carry)
                ):
                    level = max(level, phase[producer])
                    rows.setdefault(unit, []).append(producer)
                else:
                    level = max(level, phase[producer] + 1)
                    whole.add(producer)
            phase[unit] = level
        self.sink(members, carry, phase, rows, whole)
        return phase, rows

    def sink(
        self,
        members: Sequence[Unit],
        carry: dict[Unit, int],
        phase: dict[Unit, int],
        rows: dict[Unit, list[Unit]],
        whole: set[Unit],
    ) -> None:
        """Move units to the pass of their first use, where nothing more needs storing for it.

        A unit that a use reads by rows and whole at once (`z @ z.T`) is not for that use's pass.
        """
        users: dict[Unit, list[Unit]] = {}
        for unit in members:
            for producer, _ in self.dependencies(unit):
                users.setdefault(producer, []).append(unit)
        outputs = set(self.units.outputs.values())
        for unit in reversed(members):
            if unit not in carry or unit.kind != "map" or unit.out in outputs:
                continue
            if unit in whole:
                continue
            used = users.get(unit, [])
            if not used or any(
                u not in carry or unit not in rows.get(u, ()) for u in used
            ):
                continue
            target = min(phase[u] for u in used)
            if target == phase[unit]:
                continue
            if all(
                producer not in carry or phase[producer] == target
                for producer, _ in self.dependencies(unit)
                if producer in phase
            ):
                phase[unit] = target

    def parts(
        self, members: Sequence[Unit], rows: dict[Unit, list[Unit]]
    ) -> list[list[Unit]]:
        """The connected parts of a pass: joined by row edges, by a large array that both read, or by
        a sum that both add to."""
        parent: dict[Unit, Unit] = {u: u for u in members}

        def find(u: Unit) -> Unit:
            while parent[u] is not u:
                parent[u] = parent[parent[u]]
                u = parent[u]
            return u

        def union(a: Unit, b: Unit) -> None:
            a, b = find(a), find(b)
            if a is not b:
                first, second = (a, b) if a.order < b.order else (b, a)
                parent[second] = first

        shared: dict[tuple[Tensor, str], Unit] = {}
        for unit in members:
            for producer in rows.get(unit, ()):
                if producer in parent:
                    union(unit, producer)
            meets = [read.tensor for read in unit.reads if self.is_big(read.tensor)]
            for tensor in [*meets, *([unit.out] if unit.adds else [])]:
                union(unit, shared.setdefault((tensor, unit.node.place.section), unit))
        groups: dict[Unit, list[Unit]] = {}
        for unit in members:
            groups.setdefault(find(unit), []).append(unit)
        return list(groups.values())

    def is_big(self, tensor: Tensor) -> bool:
        """Whether reading a tensor once rather than twice is worth sharing a loop."""
        return bool(tensor.ndim) and nominal(tensor.type.size) >= NOMINAL

    # --------------------------------------------------------------------- score

    def score(self, members: Sequence[Unit], carry: dict[Unit, int]) -> int:
        """Elements that stay in registers or are read once instead of again, by this axis."""
        if len(carry) == 1:
            return -STRIDED * self.strided(carry)
        phase, rows = self.phases(members, carry)
        users: dict[Unit, list[Unit]] = {}
        for unit, producers in rows.items():
            for producer in producers:
                users.setdefault(producer, []).append(unit)
        gain = -STRIDED * self.strided(carry)
        for producer, used in users.items():
            if all(phase[u] == phase[producer] for u in used):
                gain += 2 * nominal(producer.out.type.size)
            else:
                gain += nominal(producer.out.type.size)
        reads: dict[tuple[Tensor, int], int] = {}
        for unit, k in carry.items():
            for read in unit.reads:
                if read.tensor in self.writers or not any(
                    line_of(i, k) is not None for i in read.index
                ):
                    continue
                key = (read.tensor, phase[unit])
                reads[key] = reads.get(key, 0) + 1
        for (tensor, _), count in reads.items():
            gain += (count - 1) * nominal(tensor.type.size)
        return gain

    def strided(self, carry: dict[Unit, int]) -> int:
        """Elements that loops inside an axis would read or write with a stride, if it came first:
        those of tensors whose last dimension it is."""
        total = 0
        for unit, k in carry.items():
            inner = set(self.inner(unit, carry))
            accesses = [(r.tensor, r.index) for r in unit.reads]
            accesses.append((unit.out, unit.store))
            for tensor, index in accesses:
                if not index or not is_axis(index[-1], k):
                    continue
                if any(axis_in(i) in inner for i in index[:-1]):
                    total += nominal(tensor.type.size)
        return total

    def choose(self, members: Sequence[Unit]) -> dict[Unit, int]:
        """The carriers of the best axis: the largest gain, then the leftmost axis."""
        sized = sorted(
            (u for u in members if u.free()),
            key=lambda u: (-nominal(size_of(u.extents[k] for k in u.free())), u.order),
        )
        best: dict[Unit, int] | None = None
        top = 0
        tried = 0
        covered: set[tuple[Unit, int]] = set()
        for unit in sized:
            for k in unit.free():
                if (unit, k) in covered or not may_carry(unit, k):
                    continue
                carry = self.carriers(unit, k, members)
                covered.update(carry.items())
                gain = self.score(members, carry)
                if best is None or gain > top:
                    top, best = gain, carry
                tried += 1
            if tried >= CANDIDATES:
                break
        if best is None:  # only axes that nothing shares (a running sum's)
            best = {sized[0]: sized[0].free()[0]}
        return best

    # ----------------------------------------------------------------------- fuse

    def fuse(self, members: list[Unit]) -> list[Item]:
        """Loops for these units, in an order that respects every dependency."""
        items: list[Item] = []
        # work is a stack of (units still to do, list to put the items in)
        work: list[tuple[list[Unit], list[Item]]] = [(members, items)]
        while work:
            todo, into = work.pop()
            free = [u for u in todo if u.free()]
            if not free:
                into += todo
                continue
            carry = self.choose(todo)
            phase, rows = self.phases(todo, carry)
            by_level: dict[int, tuple[list[Unit], list[Unit]]] = {}
            for unit in todo:
                outside, inside = by_level.setdefault(phase[unit], ([], []))
                (inside if unit in carry else outside).append(unit)
            slots: list[Item | list[Item]] = []
            for level in sorted(by_level):
                outside, inside = by_level[level]
                if outside:
                    group: list[Item] = []
                    slots.append(group)
                    work.append((outside, group))
                for part in self.parts(inside, rows):
                    if self.wants_block(part, carry, rows):
                        outer, inner = self.block(part, carry, rows)
                        slots.append(outer)
                        work += inner
                        continue
                    loop = self.loop(part, carry)
                    slots.append(loop)
                    work.append((part, loop.body))
            into.append(_Slots(slots))  # type: ignore[arg-type]
        return flatten(items)

    def loop(self, part: Sequence[Unit], carry: dict[Unit, int]) -> LoopItem:
        """A loop for a part, its axis bound in each of its units."""
        name = self.name(len(part[0].bound) + len(part[0].blocks))
        extent = part[0].extents[carry[part[0]]]
        for unit in part:
            unit.bound[carry[unit]] = name
        return LoopItem(name, extent)

    # --------------------------------------------------------------------- blocks

    def wants_block(
        self, part: Sequence[Unit], carry: dict[Unit, int], rows: dict[Unit, list[Unit]]
    ) -> bool:
        """Whether rows go in blocks: long rows, and dear work on scalars of a row between them.

        In a row loop that scalar work would not vectorise. Where a whole row would have to be
        kept from one stage to the next, a row at a time is better: it stays in cache.
        """
        extent = part[0].extents[carry[part[0]]]
        if (
            part[0].bound
            or nominal(extent) < BLOCK
            or isinstance(extent, int)
            and extent < BLOCK
        ):
            return False
        scalar = [u for u in part if not self.inner(u, carry)]
        long_rows = any(
            nominal(u.extents[k]) >= LONG for u in part for k in self.inner(u, carry)
        )
        dear = any(u.node.op.cost >= DEAR for u in scalar if u.kind == "map")
        plain = all(u.kind in ("map", "reduce", "fill") for u in part)
        if not (long_rows and dear and plain):
            return False
        stage = self.stages(part, carry, rows)
        return all(
            stage[p] == stage[u] or not self.inner(p, carry) or p.kind == "reduce"
            for u in part
            for p in rows.get(u, ())
            if p in stage
        )

    def inner(self, unit: Unit, carry: dict[Unit, int]) -> list[int]:
        """A unit's free axes but the carried one."""
        return [k for k in unit.free() if k != carry[unit]]

    def block(
        self, part: Sequence[Unit], carry: dict[Unit, int], rows: dict[Unit, list[Unit]]
    ) -> tuple[LoopItem, list[tuple[list[Unit], list[Item]]]]:
        """A loop over blocks with a loop over the rows of each stage of the part.

        A stage is all rows' work before the kind of work changes between scalars of a row and
        whole rows; scalars that go from one stage to a later one lie in tiles.
        """
        stage = self.stages(part, carry, rows)
        first = part[0]
        extent = first.extents[carry[first]]
        depth = len(first.bound)
        outer = LoopItem(self.name(depth), extent, block=True, rows=self.rows_name())
        inside: list[tuple[list[Unit], list[Item]]] = []
        for level in sorted(set(stage.values())):
            group = [u for u in part if stage[u] == level]
            loop = LoopItem(self.name(depth + 1), symbol(outer.rows))
            for unit in group:
                unit.bound[carry[unit]] = loop.axis
                unit.blocks[carry[unit]] = outer.axis
            loop.jam = all(
                u.kind == "reduce" and carry[u] in u.reduced and u.free() for u in group
            )
            outer.body.append(loop)
            inside.append((group, loop.body))
        return outer, inside

    def stages(
        self, part: Sequence[Unit], carry: dict[Unit, int], rows: dict[Unit, list[Unit]]
    ) -> dict[Unit, int]:
        """The stage of each unit of a part: even ones are scalars of a row, odd ones rows."""
        stage: dict[Unit, int] = {}
        members = set(part)
        for unit in part:
            own = bool(self.inner(unit, carry))
            level = int(own)
            for producer in rows.get(unit, ()):
                if producer not in members:
                    continue
                before = stage[producer]
                complete = own and producer.kind == "reduce"
                same = before % 2 == int(own)
                level = max(
                    level, before + 2 if complete else before if same else before + 1
                )
            stage[unit] = level
        self.sink_stages(part, stage, rows)
        return stage

    def sink_stages(
        self, part: Sequence[Unit], stage: dict[Unit, int], rows: dict[Unit, list[Unit]]
    ) -> None:
        """Move scalar work to the stage of its first use, where it needs no other stage's values."""
        users: dict[Unit, list[Unit]] = {}
        for unit in part:
            for producer in rows.get(unit, ()):
                users.setdefault(producer, []).append(unit)
        for unit in reversed(part):
            used = users.get(unit)
            if not used or unit.kind != "map":
                continue
            target = min(stage[u] for u in used)
            if target % 2 != stage[unit] % 2 or unit.out in self.units.outputs.values():
                continue
            if all(stage[p] == target for p in rows.get(unit, ()) if p in stage):
                stage[unit] = target

    def rows_name(self) -> str:
        name = "rows"
        while name in self.reserved:
            name += "_"
        return name

    def name(self, depth: int) -> str:
        return loop_name(depth, self.reserved)


def loop_name(depth: int, reserved: frozenset[str]) -> str:
    """The loop variable of a depth: i, j, k, ...; doubled where the graph has that name."""
    letter = "ijklmnpq"[depth] if depth < 8 else f"i{depth}"
    while letter in reserved:
        letter += letter[0]
    return letter


@dataclass(eq=False, slots=True)
class _Slots:
    """Items that are filled in later, in order."""

    items: list[Item | list[Item]]


def flatten(items: Iterable[object]) -> list[Item]:
    """The items without the nesting that `fuse` made them in."""
    result: list[Item] = []
    stack: list[object] = list(items)[::-1]
    loops: list[LoopItem] = []
    while stack:
        item = stack.pop()
        if isinstance(item, _Slots):
            stack += reversed(item.items)
        elif isinstance(item, list):
            stack += reversed(item)
        else:
            assert isinstance(item, LoopItem | Unit)
            result.append(item)
            if isinstance(item, LoopItem):
                loops.append(item)
    for loop in loops:
        loop.body = flatten(loop.body)
    return result


def may_carry(unit: Unit, k: int) -> bool:
    """Whether a unit's axis may be a shared loop: not the axis of a running sum."""
    return unit.kind != "cumulate" or k != unit.node.attrs.axis


def fuse(units: Units, reserved: frozenset[str] = frozenset()) -> list[Item]:
    """The loops of a graph's units, fused. Loop variables keep clear of `reserved`."""
    return _Fuser(units, reserved).fuse(list(units.units))


def separate(units: Units, reserved: frozenset[str] = frozenset()) -> list[Item]:
    """One nest a unit: the plain reference (`--opt 0`)."""
    fuser = _Fuser(units, reserved)
    items: list[Item] = []
    for unit in units.units:
        items += fuser.fuse([unit])
    return items

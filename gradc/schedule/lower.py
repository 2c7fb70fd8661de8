"""From loops of units to a Program: where each value lives, and the statements that compute it.

One rule decides the place of a value. L is the deepest loop that encloses its definition and all
its uses: defined and used in one body it is a `Let`; else it is a buffer whose dimensions are the
value's axes that are bound below L.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gradc.errors import InternalError
from gradc.graph import Graph, Node, Tensor
from gradc.ops.loops import Affine, Contract, Cumulate, Elementwise, Fill
from gradc.passes.simplify import simplify
from gradc.schedule.again import recompute_operands
from gradc.schedule.calls import call_statements
from gradc.schedule.contract import turn_products
from gradc.schedule.decisions import Decisions, decisions
from gradc.schedule.fuse import BLOCK, Item, LoopItem, fuse, separate
from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Check,
    Expr,
    Index,
    Let,
    Lin,
    Lit,
    Load,
    Loop,
    LoopMode,
    Note,
    Program,
    Ref,
    Size,
    Stmt,
    Store,
    StoreMode,
    View,
)
from gradc.schedule.scalarise import scalarise
from gradc.schedule.stage import stage
from gradc.schedule.tidy import END, inline_lets, tidy_sections
from gradc.schedule.units import (
    WHOLE,
    Lookup,
    Read,
    Unit,
    Units,
    axis_in,
    compose_index,
    make_units,
)
from gradc.schedule.unroll import unroll_short
from gradc.types import (
    Dim,
    DType,
    bool_,
    complex64,
    complex128,
    float32,
    float64,
    int64,
    size_of,
    symbols_of,
)

__all__ = ["Failure", "Scheduled", "schedule"]

Path = tuple[LoopItem, ...]

SAID = 8
"""How many statements a loop's comment quotes."""
NEVER = 1_000_000
MEMORY, CACHE = 8, 2
"""What a store and a load cost in flops: of an array of full size, of a row or tile."""

WIDE = {float32: float64, complex64: complex128}
"""What sums of single precision are added up in."""

MEANT = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"np", "math"}
"""Names that mean something in a printed kernel."""

MODES: dict[str, StoreMode] = {
    "add": "+",
    "multiply": "*",
    "maximum": "max",
    "minimum": "min",
    "": "=",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What a kernel's status number means: `index` (an index outside its axis) or `linalg`.

    `indices` are those that are looked up, in axis number `axis` of length `size`.
    """

    kind: str
    node: Node
    indices: Tensor | None = None
    axis: int = 0
    size: Dim = 0


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A Program, the tensors in its buffers, and its status numbers (1 is `failures[0]`).

    `decisions` says how it came to be.
    """

    program: Program
    inputs: dict[str, Tensor]
    constants: dict[str, Tensor]
    outputs: dict[str, Tensor]
    failures: tuple[Failure, ...]
    decisions: Decisions


@dataclass(slots=True)
class _Value:
    """Where a tensor lives: `let` (by name), `sum` (a local accumulator), or a buffer.

    `kept` are the tensor's dimensions that the buffer has; `body` is the path of the definition,
    `level` that of the deepest body which has all uses too.
    `again` is what it costs to compute the value anew from what is at hand; uses outside `body` of
    a value without a buffer do that.
    """

    name: str
    kept: tuple[int, ...] = ()
    tiled: frozenset[int] = frozenset()
    body: Path = ()
    level: Path = ()
    local: bool = False
    buffer: str = ""
    total: str = ""
    total_dtype: DType | None = None
    again: int = NEVER


def schedule(graph: Graph, name: str, level: int = 1) -> Scheduled:
    """The Program of a graph of primitives. Level 0 makes one nest a node."""
    if level > 0:
        graph = written_out(graph)
    graph = turn_products(graph)
    reserved = frozenset(_symbols(graph)) | {
        t.name for n in graph.nodes() for t in n.outputs
    }
    units = make_units(graph)
    items = _loops_of(units, reserved, level)
    apart = _lasting(units, items)
    if apart:
        units = make_units(graph, apart)
        items = _loops_of(units, reserved, level)
    if level > 0:
        copied = recompute_operands(units, items, reserved)
    else:
        copied = []
    lowering = _Lowering(graph, units, items, name, written_out=level > 0)
    lowering.copied = copied
    return lowering.run()


def _loops_of(units: Units, reserved: frozenset[str], level: int) -> list[Item]:
    return fuse(units, reserved) if level > 0 else separate(units, reserved)


def _lasting(units: Units, items: list[Item]) -> frozenset[Tensor]:
    """The windows that several products take, each in a loop of its own."""
    paths = _paths(items)
    found: set[Tensor] = set()
    for unit, tensor in units.windows.items():
        users = [u for u in units.units if any(r.tensor is unit.out for r in u.reads)]
        if len(users) > 1 and users[0].bound:
            shared = reduce(_common, (paths[u] for u in (unit, *users)))
            if not shared:
                found.add(tensor)
    return frozenset(found)


def _paths(items: Sequence[Item]) -> dict[Unit, Path]:
    """The loops that each unit stands in."""
    found: dict[Unit, Path] = {}
    stack: list[tuple[Item, Path]] = [(item, ()) for item in reversed(items)]
    while stack:
        item, path = stack.pop()
        if isinstance(item, Unit):
            found[item] = path
        else:
            stack += [(inner, (*path, item)) for inner in reversed(item.body)]
    return found


def written_out(graph: Graph) -> Graph:
    """The graph with its short axes written out, and what folds away then gone."""
    new = scalarise(graph)
    return graph if new is graph else simplify(new)


class _Lowering:
    def __init__(
        self,
        graph: Graph,
        units: Units,
        items: list[Item],
        name: str,
        *,
        written_out: bool,
    ) -> None:
        self.graph = graph
        self.written_out = written_out
        self.copied: list[Tensor] = []
        self.units = units
        self.items = items
        self.name = name
        self.paths = _paths(items)
        self.values: dict[Tensor, _Value] = {}
        self.buffers: dict[str, Buffer] = {}
        self.input_names: dict[str, Tensor] = {}
        self.constant_names: dict[str, Tensor] = {}
        self.output_names: dict[str, Tensor] = {}
        self.failures: dict[Failure, int] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        self.leaves: dict[Tensor, str] = {}
        self.known: dict[tuple[Path, Tensor, tuple[Index, ...]], Expr] = {}
        self.looked: dict[tuple[Path, Any], Ref] = {}
        self.pending: list[Stmt] = []
        self.anew: dict[Tensor, None] = {}  # values computed where they are used
        self.symbols = _symbols(graph)
        self.taken.update(self.symbols)
        self.taken.update(MEANT)

    # --------------------------------------------------------------------- names

    def fresh(self, name: str) -> str:
        """A name for a buffer or a Let that nothing else has."""
        base = "".join(
            c if c.isalnum() and c.isascii() or c == "_" else "_" for c in name
        )[:40]
        base = base.strip("_") or "t"
        if base[0].isdigit():
            base = f"t{base}"
        found, count = base, self.counts.get(base, 1)
        while found in self.taken:
            count += 1
            self.counts[base] = count
            found = f"{base}_{count}" if base[-1].isdigit() else f"{base}{count}"
        self.taken.add(found)
        return found

    def tensor_name(self, tensor: Tensor) -> str:
        return self.fresh(tensor.name or "t")

    # ---------------------------------------------------------------------- run

    def run(self) -> Scheduled:
        for item in _loops(self.items):
            self.taken.add(item.axis)
        for tensor in self.graph.inputs:
            self.leaf(tensor)
        for output, tensor in self.units.outputs.items():
            name = self.fresh(tensor.name or output)
            self.buffers[name] = Buffer(name, tensor.dtype, tensor.shape, "output")
            self.output_names[name] = tensor
        self.place_all()
        body = self.body(self.items, ())
        if self.written_out:
            body = unroll_short(body, self.buffers, self.fresh)
        body = tidy_sections(inline_lets(body))
        if self.written_out:
            body = stage(body, self.buffers, self.fresh)
        order = ["input", "constant", "output", "workspace", "tile"]
        used = [
            b
            for place in order
            for b in self.buffers.values()
            if b.place == place and not b.alias
        ]
        used += [b for b in self.buffers.values() if b.alias]
        program = Program(self.name, tuple(self.symbols), tuple(used), tuple(body))
        return Scheduled(
            program,
            self.input_names,
            self.constant_names,
            self.output_names,
            tuple(self.failures),
            decisions(program, self.units.units, [*self.copied, *self.anew]),
        )

    # -------------------------------------------------------------------- places

    def home(self, unit: Unit) -> Path:
        """Where a unit's result is complete: outside the loops it reduces over."""
        path = self.paths[unit]
        gone = {unit.bound[k] for k in unit.reduced}
        gone |= {unit.blocks[k] for k in unit.reduced if k in unit.blocks}
        if unit.kind == "cumulate":
            gone = {unit.bound[unit.node.attrs.axis]}
        for depth, loop in enumerate(path):
            if loop.axis in gone:
                return path[:depth]
        return path

    def place_all(self) -> None:
        uses: dict[Tensor, list[tuple[Unit, Read]]] = {}
        rooted: set[Tensor] = set(self.units.alias.values())
        for unit in self.units.units:
            for read in unit.reads:
                uses.setdefault(read.tensor, []).append((unit, read))
        outputs = {tensor: name for name, tensor in self.output_names.items()}
        for tensor in reversed(self.units.writers):
            if tensor not in outputs and tensor not in rooted:
                self.keep_operand(tensor, uses)
        for tensor, writers in self.units.writers.items():
            self.place(tensor, writers, uses.get(tensor, []), tensor in rooted, outputs)
        for tensor in self.units.alias:
            base = self.units.alias[tensor]
            while base in self.units.alias:
                base = self.units.alias[base]
            name = self.values[base].buffer if base in self.values else self.leaf(base)
            alias = self.tensor_name(tensor)
            self.buffers[alias] = Buffer(
                alias, tensor.dtype, tensor.shape, self.buffers[name].place, alias=name
            )
            self.values[tensor] = _Value(alias, tuple(range(tensor.ndim)), buffer=alias)

    def keep_operand(
        self, tensor: Tensor, uses: dict[Tensor, list[tuple[Unit, Read]]]
    ) -> None:
        """Have a call's result kept for the later uses of what is cheap to compute from it.

        The result lies in memory anyway: it is kept longer, and the other value not at all.
        """
        unit = self.units.writers[tensor][0]
        used = uses.get(tensor, [])
        if (
            len(self.units.writers[tensor]) > 1
            or unit.kind != "map"
            or unit.node.op.cost > CACHE
            or any(i is WHOLE for _, read in used for i in read.index)
        ):
            return
        later = [(u, r) for u, r in used if not self.is_in(u, self.home(unit))]
        made = [r for r in unit.reads if r.tensor in self.units.writers]
        if not later or len(made) != 1:
            return
        (source,) = made
        makers = self.units.writers[source.tensor]
        if len(makers) == 1 and makers[0].kind == "call" and not makers[0].more:
            uses[source.tensor] += [
                (u, Read(source.tensor, compose_index(source.index, r.index)))
                for u, r in later
            ]

    def place(
        self,
        tensor: Tensor,
        writers: list[Unit],
        uses: list[tuple[Unit, Read]],
        rooted: bool,
        outputs: dict[Tensor, str],
    ) -> None:
        first = writers[0]
        store = first.store if first.out is tensor else dict(first.more)[tensor]
        home = self.home(first)
        for w in writers[1:]:
            home = _common(home, self.home(w))
        level = home
        for unit, _ in uses:
            level = _common(level, self.paths[unit])
        if rooted or tensor in outputs:
            level = ()
        bound = {loop.axis for loop in level}
        kept = []
        tiled = []
        for d, index in enumerate(store):
            k = axis_in(index)
            if k is None or first.bound[k] not in bound:
                kept.append(d)
                if k is not None and first.blocks.get(k) in bound:
                    tiled.append(d)
        value = _Value("", tuple(kept), frozenset(tiled), home, level)
        self.values[tensor] = value
        single = len(writers) == 1
        nonlocal_use = not all(self.is_in(u, home) for u, _ in uses)
        in_memory = any(
            not isinstance(i, Affine) for _, read in uses for i in read.index
        )
        if single and first.kind in ("map", "gather"):
            value.local = bool(uses) and any(
                self.paths[u][: len(home)] == home for u, _ in uses
            )
            if tensor not in outputs and not nonlocal_use and not rooted:
                value.local = True
                value.name = self.tensor_name(tensor)
                value.again = self.cost_again(first, [])
                return
            if value.local:
                value.name = self.tensor_name(tensor)
            value.again = self.cost_again(first, [])
            cost = self.cost_again(first, [u for u, _ in uses])
            limit = CACHE if level or tiled else MEMORY
            section = first.node.place.section
            fenced = any(
                read.after or u.node.place.section != section for u, read in uses
            )
            free = tensor not in outputs and not (rooted or in_memory or fenced)
            if free and cost <= limit:
                return
        elif single and first.kind == "reduce":
            inside = {loop.axis for loop in home}
            if all(
                first.bound[k] in inside
                for k in range(len(first.extents))
                if k not in first.reduced
            ):
                # nothing but reduced axes below: a local variable
                wide = WIDE.get(tensor.dtype) if first.combine == "add" else None
                value.total_dtype = wide or tensor.dtype
                value.total = self.fresh(tensor.name or "total")
                self.buffers[value.total] = Buffer(
                    value.total, value.total_dtype, (), "tile"
                )
                value.local = True
                if value.total_dtype != tensor.dtype:
                    value.name = self.tensor_name(tensor)
                if tensor not in outputs and not nonlocal_use and not rooted:
                    return
        if first.kind == "cumulate":
            value.total = self.fresh("running")
            places = _places_of(first)
            states: tuple[Dim, ...] = () if places is None else (places,)
            literal = all(isinstance(d, int) for d in states)
            self.buffers[value.total] = Buffer(
                value.total, tensor.dtype, states, "tile" if literal else "workspace"
            )
        if tensor in outputs:
            value.buffer = outputs[tensor]
            value.kept = tuple(range(tensor.ndim))
            value.tiled = frozenset()
            return
        if not rooted:
            accesses = [store, *(read.index for _, read in uses)]
            value.kept = self.in_order(first, accesses, value.kept)
        name = self.tensor_name(tensor)
        dims = tuple(BLOCK if d in tiled else tensor.shape[d] for d in value.kept)
        literal = bool(tiled) and all(isinstance(d, int) for d in dims)
        self.buffers[name] = Buffer(
            name, tensor.dtype, dims, "tile" if literal else "workspace"
        )
        value.buffer = name

    def in_order(
        self, writer: Unit, accesses: Sequence[Sequence[object]], kept: Sequence[int]
    ) -> tuple[int, ...]:
        """A buffer's dimensions: those of the outer loops that write it first, those that library
        calls take as a whole last."""
        whole = {d for index in accesses for d, i in enumerate(index) if i is WHOLE}
        depth = {loop.axis: k for k, loop in enumerate(self.paths[writer])}

        def level(d: int) -> int:
            index = accesses[0][d]
            if d in whole or not isinstance(index, Affine):
                return len(depth)
            if whole:
                return 0
            return min(
                (depth[writer.bound[a]] for a, _ in index.terms), default=len(depth)
            )

        return tuple(sorted(kept, key=level))

    def cost_again(self, unit: Unit, users: Sequence[Unit]) -> int:
        """The flops of computing an elementwise value anew where `users` need it (none: anywhere).

        Its operands must be there: inputs, buffers, values of an enclosing body, or values that
        can be computed anew themselves.
        """
        if unit.kind != "map" or unit.node.op.name in ("add_n", "gate"):
            return NEVER
        form = unit.node.op.form(unit.node) if unit.node.op.form is not None else None
        free = unit.node.op.name in ("cast", "negative") or not isinstance(
            form, Elementwise
        )
        total = 0 if free else unit.node.op.cost
        for read in unit.reads:
            value = self.values.get(read.tensor)
            if value is None:
                total += 1 if read.tensor.ndim else 0
            elif (
                value.local and users and all(self.is_in(u, value.body) for u in users)
            ):
                continue
            elif value.buffer and self.at_hand(value, users):
                total += 1
            else:
                total += value.again
        return min(total, NEVER)

    def at_hand(self, value: _Value, users: Sequence[Unit]) -> bool:
        """Whether a buffer holds what `users` (none: any unit there is) need."""
        if not value.level:
            return True
        return bool(users) and all(self.is_in(u, value.level) for u in users)

    def is_in(self, unit: Unit, body: Path) -> bool:
        """Whether a unit stands in a body, or in a loop inside it."""
        return self.paths[unit][: len(body)] == body

    def leaf(self, tensor: Tensor) -> str:
        """The buffer of an input or a constant array."""
        if tensor not in self.leaves:
            place = "input" if tensor.op.name == "input" else "constant"
            given = tensor.attrs.name if place == "input" else tensor.name or "constant"
            name = self.fresh(given)
            self.leaves[tensor] = name
            self.buffers[name] = Buffer(
                name,
                tensor.dtype,
                tensor.shape,
                "input" if place == "input" else "constant",
            )
            (self.input_names if place == "input" else self.constant_names)[name] = (
                tensor
            )
        return self.leaves[tensor]

    # --------------------------------------------------------------------- bodies

    def body(
        self, items: Sequence[Item], path: Path, notes: frozenset[str] = frozenset()
    ) -> list[Stmt]:
        """The statements of the items of one body."""
        result: list[Stmt] = []
        section = ""
        for item in items:
            if not path and _section_of(item) != section:
                section = _section_of(item)
                text = f"section {section}" if section else END
                result.append(Note(text, is_section=True))
            if isinstance(item, Unit):
                own = self.leaf_statements(item)
                result += self.pending
                self.pending.clear()
                result += own
                continue
            said = _statements_of(item)
            inner_notes = [
                _statements_of(i) for i in item.body if isinstance(i, LoopItem)
            ]
            if len(inner_notes) > 1 and any(n != inner_notes[0] for n in inner_notes):
                said = []  # each loop inside says what it computes
            elif frozenset(said) != notes:
                result += [Note(text) for text in said]
            inner = (*path, item)
            before, after = self.around(item, path)
            result += self.lookups_before(item, inner[:-1])
            result += before
            body = self.body(item.body, inner, frozenset(said))
            innermost = not any(isinstance(s, Loop) for s in body)
            reverse = any(
                isinstance(u, Unit) and u.kind == "cumulate" and _is_reversed(u, item)
                for u in item.body
            )
            serial = any(
                isinstance(u, Unit) and u.kind in ("cumulate", "scatter")
                for u in item.body
            )
            mode: LoopMode = "lanes" if innermost and not serial else "serial"
            if item.block:
                mode = "block"
            elif item.jam and len(body) == 1 and not innermost:
                mode = "jam"
            step = BLOCK if item.block else 1
            result.append(
                Loop(
                    item.axis, item.extent, tuple(body), mode, step, item.rows, reverse
                )
            )
            result += after
        return result

    def lookups_before(self, loop: LoopItem, path: Path) -> list[Stmt]:
        """The lookups of gathers in a loop whose indices don't change in it."""
        bound = {item.axis for item in path}
        result: list[Stmt] = []
        for unit in _units(loop):
            if unit.kind not in ("gather", "scatter"):
                continue
            reads = unit.reads[1:]
            used = {unit.bound[a] for r in reads for i in r.index for a, _ in _terms(i)}
            used |= {
                unit.blocks[a]
                for r in reads
                for i in r.index
                for a, _ in _terms(i)
                if a in unit.blocks
            }
            if used <= bound and all(r.tensor not in self.values for r in reads):
                result += self.looked_up(unit, path)[0]
        return result

    def around(self, loop: LoopItem, path: Path) -> tuple[list[Stmt], list[Stmt]]:
        """What sets the accumulators of a loop before it, and what hands their totals on."""
        before: list[Stmt] = []
        after: list[Stmt] = []
        for unit in _units(loop):
            if unit.kind not in ("reduce", "cumulate") or unit.adds:
                continue
            if len(self.home(unit)) != len(path):
                continue
            value = self.values[unit.out]
            init = unit.init
            if unit.kind == "cumulate":
                before.append(self.begun(unit, value.total))
                continue
            if value.total:
                assert value.total_dtype is not None
                before.append(
                    Store(value.total, (), "=", _init(init, value.total_dtype))
                )
                total: Expr = Load(value.total, (), value.total_dtype)
                if value.total_dtype != unit.out.dtype:
                    total = Apply("cast", (total,), unit.out.dtype)
                    after.append(Let(value.name, total))
                    total = Ref(value.name, unit.out.dtype)
                if value.buffer:
                    after.append(
                        Store(value.buffer, self.own_index(unit, value), "=", total)
                    )
            else:
                before += self.initialise(unit, value, init)
        return before, after

    def begun(self, unit: Unit, total: str) -> Stmt:
        """The states of a recurrence, or the one there is, before its first step."""
        start, places = _init(unit.init, unit.out.dtype), _places_of(unit)
        if places is None:
            return Store(total, (), "=", start)
        axis = self.fresh("place")
        one = Store(total, (Lin(0, ((axis, 1),)),), "=", start)
        return Loop(axis, places, (one,), "lanes")

    def initialise(self, unit: Unit, value: _Value, init: float) -> list[Stmt]:
        """Set an accumulator in memory, over the axes that are bound inside its loop."""
        outside = {loop.axis for loop in self.home(unit)}
        loops: list[tuple[str, Dim]] = []
        for k in range(len(unit.extents)):
            if k not in unit.reduced and unit.bound[k] not in outside:
                loops.append((unit.bound[k], unit.extents[k]))
        index = self.own_index(unit, value)
        body: Stmt = Store(value.buffer, index, "=", _init(init, unit.out.dtype))
        for depth, (axis, extent) in enumerate(reversed(loops)):
            body = Loop(axis, extent, (body,), "lanes" if depth == 0 else "serial")
        return [body]

    def own_index(self, unit: Unit, value: _Value) -> tuple[Index, ...]:
        """The index a unit stores its result at."""
        store = unit.store
        return tuple(self.index(unit, store[d], d in value.tiled) for d in value.kept)

    def index(self, unit: Unit, index: object, tiled: bool = False) -> Lin:
        """An index over a unit's axes as one over loop variables; in a tile, without the block's."""
        if not isinstance(index, Affine):
            raise InternalError(f"{unit}: an index for a whole dimension")
        terms: list[tuple[str, Dim]] = []
        for a, s in index.terms:
            if a in unit.blocks and not tiled:
                terms.append((unit.blocks[a], s))
            terms.append((unit.bound[a], s))
        return Lin(index.offset, tuple(terms))

    # --------------------------------------------------------------------- leaves

    def leaf_statements(self, unit: Unit) -> list[Stmt]:
        """The statements of a unit whose axes are all bound."""
        value = self.values[unit.out]
        if unit.kind == "call":
            return self.call(unit)
        if unit.kind == "cumulate":
            return self.cumulate(unit, value)
        if unit.kind == "fill":
            return [
                Store(
                    value.buffer,
                    self.own_index(unit, value),
                    "=",
                    _init(unit.init, unit.out.dtype),
                )
            ]
        if unit.kind == "gather":
            before, expr = self.gather(unit)
        elif unit.kind == "scatter":
            return self.scatter(unit, value)
        else:
            before, expr = [], self.expression(unit)
        if unit.kind == "reduce":
            mode = MODES[unit.combine]
            if value.total:
                assert value.total_dtype is not None
                if value.total_dtype != unit.out.dtype:
                    expr = Apply("cast", (expr,), value.total_dtype)
                return [Store(value.total, (), mode, expr)]
            return [Store(value.buffer, self.own_index(unit, value), mode, expr)]
        result = before
        if value.local:
            result.append(Let(value.name, expr))
            expr = Ref(value.name, unit.out.dtype)
        if value.buffer:
            how: StoreMode = "+" if unit.adds else "="
            result.append(Store(value.buffer, self.own_index(unit, value), how, expr))
        return result

    def cumulate(self, unit: Unit, value: _Value) -> list[Stmt]:
        """A running total: add this element, keep it. A recurrence keeps its state, then steps."""
        total, dtype = value.total, unit.out.dtype
        places = _places_of(unit) is not None
        statements, found = self.looked_up(unit) if places else ([], [])
        at: tuple[Index, ...] = tuple(found)
        state = Load(total, at, dtype)
        keep = Store(value.buffer, self.own_index(unit, value), "=", state)
        if unit.combine == "recurrence":
            factor, term = (self.load(unit, read) for read in unit.reads[:2])
            moved = Apply("multiply", (factor, state), dtype)
            step = Store(total, at, "=", Apply("add", (moved, term), dtype))
            return [*statements, keep, step]
        (args,) = (self.load(unit, read) for read in unit.reads)
        return [Store(total, (), MODES[unit.combine], args), keep]

    def looked_up(
        self, unit: Unit, path: Path | None = None
    ) -> tuple[list[Stmt], list[Expr]]:
        """The indices of a gather or scatter, wrapped and checked in the body at `path` (default:
        the unit's), unless they are already, there or in a body around it."""
        path = self.paths[unit] if path is None else path
        axes: tuple[int, ...] = (
            (0,) if unit.kind == "cumulate" else unit.node.attrs.axes
        )
        source = unit.out.shape if unit.kind == "scatter" else unit.node.inputs[0].shape
        if unit.kind == "cumulate":
            source = unit.node.attrs.shape
        sizes = [source[a] for a in axes]
        statements: list[Stmt] = []
        found: list[Expr] = []
        given_as = unit.node.inputs[len(unit.node.inputs) - len(sizes) :]
        reads = unit.reads[len(unit.reads) - len(sizes) :]
        for k, (read, size) in enumerate(zip(reads, sizes, strict=True)):
            expr = self.load(unit, read)
            if self.is_inside(read, expr, size):
                found.append(expr)
                continue
            place = (read.tensor, tuple(self.index(unit, i) for i in read.index), size)
            around = (path[:depth] for depth in range(len(path) + 1))
            known = next((p for p in around if (p, place) in self.looked), None)
            if known is not None:
                found.append(self.looked[known, place])
                continue
            raw = self.fresh("index")
            statements.append(Let(raw, expr))
            given = Ref(raw, int64)
            name = self.fresh("at")
            wrapped = Apply(
                "select",
                (
                    Apply("less", (given, Lit(0, int64)), bool_),
                    Apply("add", (given, Size(size)), int64),
                    given,
                ),
                int64,
            )
            statements.append(Let(name, wrapped))
            at = Ref(name, int64)
            good = Apply(
                "logical_and",
                (
                    Apply("greater_equal", (at, Lit(0, int64)), bool_),
                    Apply("less", (at, Size(size)), bool_),
                ),
                bool_,
            )
            failure = Failure("index", unit.node, given_as[k], axes[k], size)
            statements.append(Check(good, self.failure(failure)))
            self.looked[path, place] = at
            found.append(at)
        return statements, found

    def is_inside(self, read: Read, expr: Expr, size: Dim) -> bool:
        """Whether an index is known to be inside its axis: the axis's own number, or a literal."""
        if isinstance(expr, Lit):
            return isinstance(size, int) and 0 <= expr.value < size
        if not isinstance(expr, AxisValue) or read.tensor.op.name != "iota":
            return False
        return bool(read.tensor.shape[read.tensor.attrs.axis] == size)

    def failure(self, failure: Failure) -> int:
        """The status number of a failure."""
        return self.failures.setdefault(failure, len(self.failures) + 1)

    def gather(self, unit: Unit) -> tuple[list[Stmt], Expr]:
        statements, found = self.looked_up(unit)
        return statements, self.load(unit, unit.reads[0], found)

    def scatter(self, unit: Unit, value: _Value) -> list[Stmt]:
        statements, found = self.looked_up(unit)
        index = tuple(self.position(unit, unit.store[d], found) for d in value.kept)
        expr = self.load(unit, unit.reads[0])
        return [*statements, Store(value.buffer, index, MODES[unit.combine], expr)]

    def call(self, unit: Unit) -> list[Stmt]:
        """A library call on whole views."""
        views = [self.view(unit, r.tensor, r.index) for r in unit.reads]
        outs = [self.view(unit, unit.out, unit.store)]
        outs += [self.view(unit, t, store) for t, store in unit.more]
        fails = unit.node.op.name in ("cholesky", "solve_triangular", "solve", "inv")
        code = self.failure(Failure("linalg", unit.node)) if fails else 0

        def workspace(dtype: DType, dims: tuple[Dim, ...], name: str) -> View:
            fresh = self.fresh(name)
            literal = all(isinstance(d, int) for d in dims)
            self.buffers[fresh] = Buffer(
                fresh, dtype, dims, "tile" if literal else "workspace"
            )
            return View(fresh, tuple(Lin() for _ in dims), dims, _strides(dims))

        return call_statements(
            unit.node, views, outs, code, unit.adds, workspace, self.fresh
        )

    def view(self, unit: Unit, tensor: Tensor, index: Sequence[object]) -> View:
        """The part of a tensor's buffer that a call works on: its whole dimensions."""
        if tensor in self.values:
            value = self.values[tensor]
            name, kept = value.buffer, value.kept
        else:
            name, kept = self.leaf(tensor), tuple(range(tensor.ndim))
        at: list[Index] = []
        dims: list[Dim] = []
        strides: list[Dim] = []
        all_strides = _strides(tuple(tensor.shape[d] for d in kept))
        for d, stride in zip(kept, all_strides, strict=True):
            if index[d] is WHOLE:
                at.append(Lin())
                dims.append(tensor.shape[d])
                strides.append(stride)
            else:
                at.append(self.index(unit, index[d]))
        return View(name, tuple(at), tuple(dims), tuple(strides))

    # ---------------------------------------------------------------- expressions

    def expression(self, unit: Unit) -> Expr:
        """The value of one element of a unit, from its reads."""
        return self.applied(unit, tuple(self.load(unit, read) for read in unit.reads))

    def applied(self, unit: Unit, args: tuple[Expr, ...]) -> Expr:
        """A unit's scalar operation on operands."""
        node = unit.node
        dtype = unit.out.dtype
        form = node.op.form(node) if node.op.form is not None else None
        if isinstance(form, Contract):
            return Apply("multiply", args, dtype)
        if not isinstance(form, Elementwise) or node.op.spell.get("numba") == "x":
            return args[0]
        if node.op.name in ("stop_gradient", "prevent_gradient", "opaque"):
            return args[0]
        if unit.out.op.name == "add_n" and unit.out.node is node:
            total = args[0]
            for term in args[1:]:
                total = Apply("add", (total, term), dtype)
            return total
        if node.op.name == "cast":
            return Apply("cast", args, dtype)
        return Apply(node.op.name, args, dtype, tuple(node.attrs.items()))

    def position(
        self,
        unit: Unit,
        index: object,
        found: Sequence[Expr],
        tiled: bool = False,
    ) -> Index:
        """An index over a unit's axes, or what was found where it is looked up."""
        if isinstance(index, Lookup):
            return found[index.number]
        return self.index(unit, index, tiled)

    def load(self, unit: Unit, read: Read, found: Sequence[Expr] = ()) -> Expr:
        """The element a unit reads; `found` are the indices of what it looks up."""
        tensor = read.tensor
        value = self.values.get(tensor)
        if value is None:
            form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
            if isinstance(form, Fill) and not (form.what == "value" and tensor.ndim):
                return self.fill(unit, read, found)
            return Load(
                self.leaf(tensor),
                tuple(self.position(unit, i, found) for i in read.index),
                tensor.dtype,
            )
        inside = self.paths[unit][: len(value.body)] == value.body
        if value.local and inside and (value.name or value.total):
            if value.total and not value.name:
                assert value.total_dtype is not None
                return Load(value.total, (), value.total_dtype)
            return Ref(value.name, tensor.dtype)
        if not value.buffer:
            return self.again(unit, read)
        index = tuple(
            self.position(unit, read.index[d], found, d in value.tiled)
            for d in value.kept
        )
        return Load(value.buffer, index, tensor.dtype)

    def again(self, unit: Unit, read: Read) -> Expr:
        """A cheap value computed anew where it is read, once a body."""
        key = (
            self.paths[unit],
            read.tensor,
            tuple(self.index(unit, i) for i in read.index),
        )
        if key not in self.known:
            (maker,) = self.units.writers[read.tensor]
            reads = [
                Read(r.tensor, compose_index(r.index, read.index)) for r in maker.reads
            ]
            expr = self.applied(maker, tuple(self.load(unit, r) for r in reads))
            name = self.fresh(read.tensor.name or "t")
            self.pending.append(Let(name, expr))
            self.anew[read.tensor] = None
            self.known[key] = Ref(name, read.tensor.dtype)
        return self.known[key]

    def fill(self, unit: Unit, read: Read, found: Sequence[Expr]) -> Expr:
        """A number, a dimension or an index as an expression."""
        node = read.tensor.node
        dtype = read.tensor.dtype
        form = node.op.form(node) if node.op.form is not None else None
        assert isinstance(form, Fill)
        if form.what == "value":
            return Lit(node.attrs.value.item(), dtype)
        expr: Expr
        if form.what == "dim":
            expr = Size(node.attrs.value)
        else:
            at = self.position(unit, read.index[form.axis], found)
            expr = _lin_expr(at) if isinstance(at, Lin) else at
        return expr if dtype == int64 else Apply("cast", (expr,), dtype)


# ------------------------------------------------------------------------- helpers


def _symbols(graph: Graph) -> list[str]:
    """The symbols of the inputs' shapes, then those that other nodes have alone."""
    found: dict[str, None] = {}
    made = (t for node in graph.nodes() for t in node.outputs)
    for d in dict.fromkeys(d for t in (*graph.inputs, *made) for d in t.shape):
        found.update(dict.fromkeys(symbols_of(d)))
    return list(found)


def _common(a: Path, b: Path) -> Path:
    depth = 0
    while depth < min(len(a), len(b)) and a[depth] is b[depth]:
        depth += 1
    return a[:depth]


def _loops(items: Iterable[Item]) -> Iterable[LoopItem]:
    stack = list(items)
    while stack:
        item = stack.pop()
        if isinstance(item, LoopItem):
            yield item
            stack += item.body


def _units(loop: LoopItem) -> list[Unit]:
    """All units in a loop, in order."""
    found: list[Unit] = []
    stack: list[Item] = list(reversed(loop.body))
    while stack:
        item = stack.pop()
        if isinstance(item, Unit):
            found.append(item)
        else:
            stack += reversed(item.body)
    return found


def _section_of(item: Item) -> str:
    """The section of an item of the outermost body: no loop is shared by two."""
    while isinstance(item, LoopItem):
        item = item.body[0]
    return item.node.place.section


def _statements_of(loop: LoopItem) -> list[str]:
    """The source's statements that a loop computes, in order, each once."""
    found: dict[str, None] = {}
    for unit in _units(loop):
        place = unit.node.place
        if place.statement is not None:
            text = place.statement.text.strip()
            found[f"{place.scope}: adjoint of {text}" if place.scope else text] = None
    texts = list(found)
    if len(texts) <= SAID:
        return texts
    own = [t for t in texts if ": adjoint of " not in t]
    shown = (own or texts)[:SAID]
    more = len(texts) - len(shown)
    return [*shown, f"and {more} more" + (", their adjoints among them" if own else "")]


def _terms(index: object) -> tuple[tuple[int, Dim], ...]:
    return index.terms if isinstance(index, Affine) else ()


def _places_of(unit: Unit) -> Dim | None:
    """How many states a recurrence has, where it has more than one."""
    form = unit.node.op.form(unit.node) if unit.node.op.form is not None else None
    assert isinstance(form, Cumulate)
    return form.places


def _is_reversed(unit: Unit, loop: LoopItem) -> bool:
    form = unit.node.op.form(unit.node) if unit.node.op.form is not None else None
    assert isinstance(form, Cumulate)
    return unit.bound[form.axis] == loop.axis and form.reverse


def _init(value: float, dtype: DType) -> Lit:
    if dtype.is_inexact:
        return Lit(value, dtype)
    if dtype.is_bool:
        return Lit(bool(value), dtype)
    if np.isinf(value):
        info = np.iinfo(dtype.name)
        return Lit(int(info.max if value > 0 else info.min), dtype)
    return Lit(int(value), dtype)


def _strides(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(size_of(dims[k + 1 :]) for k in range(len(dims)))


def _lin_expr(index: Lin) -> Expr:
    """An affine index as an int64 expression."""
    total: Expr | None = None
    for axis, step in index.terms:
        part: Expr = AxisValue(axis)
        if step != 1:
            part = Apply("multiply", (Size(step), part), int64)
        total = part if total is None else Apply("add", (total, part), int64)
    if index.offset != 0 or total is None:
        size = Size(index.offset)
        total = size if total is None else Apply("add", (total, size), int64)
    return total

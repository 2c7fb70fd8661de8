"""A Program as one plain Python function that Numba compiles to the loops it says.

```
def _value_and_gradients(N: int, D: int, X: F2, y: F1, w: F1, loss: F0, arena: F1) -> int:
    z = 0
    for n in range(0, N, 512):
        m = min(512, N - n)
        X_n = X[n : n + m]
        # z = X @ w
        for i in range(m):
            dot = 0.0
            for j in range(D):
                dot = _add(dot, X_n[i, j] * w[j])
            arena[z + i] = dot
    ...
    return 0
```

What the shape of this text is for (all measured on Numba 0.68): tiles are stretches of `arena` at
literal places and with literal row lengths, so LLVM knows that two of them don't overlap, which it
cannot see of slices (1.8 times faster); a block of rows is a slice, which starts its own index
range; sums go through `_add`, the one helper that may reassociate; a sum over the innermost loop
that lands in an array is added up in a local variable first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradc.emit import layout
from gradc.emit.kernel_bodies import (
    Block,
    accesses,
    angles,
    is_row,
    lane_totals,
    private_names,
)
from gradc.emit.parts import cut
from gradc.emit.printer import Printer, cast_text, number_text, wrapped
from gradc.errors import InternalError
from gradc.schedule.buffers import SLOTS, Arena, arena
from gradc.schedule.program import (
    ATOM,
    PRECEDENCE,
    ROUTINES,
    Apply,
    Buffer,
    Call,
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
    Program,
    Stmt,
    Store,
    Text,
    View,
    While,
    dim_level,
    infix,
    lin_text,
    loads,
    statements,
    takes_slots,
)
from gradc.types import (
    Dim,
    DType,
    dim_floordiv,
    dim_text,
    exact_quotient,
    float64,
    int64,
    size_of,
    symbol,
)

__all__ = ["KernelSource", "arena_size", "numba_kernel", "parameters"]

TWINS = {"float64": "", "float32": "_f32", "complex128": "_c128", "complex64": "_c64"}
"""What the names of blaslib's functions for these dtypes end in."""
LONGEST = 240
"""Expressions longer than this are written in parts, each with a name."""
LONG_PLACE = 60
"""Places in the arena whose sums are longer than this have a name."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """The text of a kernel and what stands around it.

    `helpers` are the functions of mathlib and rowlib it calls, `routines` those of blaslib, `arena`
    how many doubles of memory it wants (0: it takes no arena). A long one calls its `parts` in order;
    one that can't fail gives 0.
    """

    name: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    helpers: tuple[str, ...]
    routines: tuple[str, ...]
    arena: Dim
    can_fail: bool = True
    parts: tuple[KernelSource, ...] = ()

    @property
    def text(self) -> str:
        """All functions, in the order in which they are defined."""
        sources = (*self.parts, self)
        return "\n\n".join("\n".join(s.lines) + "\n" for s in sources)


# ---------------------------------------------------------------------------- arena


def _is_literal(buffer: Buffer) -> bool:
    return all(isinstance(d, int) for d in buffer.dims)


def arena_size(program: Program) -> Dim:
    """The doubles that the program's tiles and workspaces take; 0 where it has none."""
    return arena(program).size


def parameters(program: Program, places: Arena | None = None) -> tuple[str, ...]:
    """The kernel's parameters: sizes, inputs, constants, outputs, and `arena` where it has one.

    Inputs and constants of rank 0 are scalars, outputs of rank 0 arrays of rank 0. `places` are
    those of the program that this is part of.
    """
    places = places or arena(program)
    names = list(program.symbols)
    for place in ("input", "constant", "output"):
        names += [b.name for b in program.buffers if b.place == place and not b.alias]
    has_arena = takes_slots(program.body) or any(
        b.name in places.offsets for b in program.buffers
    )
    if places.size != 0 and has_arena:
        names.append(_fresh("arena", _names(program)))
    return tuple(names)


def _names(program: Program) -> set[str]:
    used = set(program.symbols) | {b.name for b in program.buffers}
    for s in statements(program.body):
        if isinstance(s, Let):
            used.add(s.name)
        elif isinstance(s, Loop):
            used |= {s.axis, s.rows}
    return used


def _fresh(name: str, used: set[str]) -> str:
    """`name`, or with a number after it where that is taken; entered in `used`."""
    found, count = name, 1
    while found in used:
        count += 1
        found = f"{name}{count}"
    used.add(found)
    return found


# --------------------------------------------------------------------------- scopes


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a statement stands: its indent, what the axes are there, what is renamed."""

    depth: int
    axes: Mapping[str, Lin] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()

    def deeper(self) -> _Scope:
        return replace(self, depth=self.depth + 1)

    def axis(self, name: str, value: Lin) -> _Scope:
        return replace(self, axes={**self.axes, name: value})

    def renamed(self, names: Mapping[str, str]) -> _Scope:
        return replace(self, names={**self.names, **names})


def _substituted(index: Lin, axes: Mapping[str, Lin]) -> Lin:
    """The index with each axis replaced by what it is in the text."""
    offset = index.offset
    terms: list[tuple[str, Dim]] = []
    for axis, step in index.terms:
        value = axes.get(axis)
        if value is None:
            terms.append((axis, step))
            continue
        offset = offset + step * value.offset
        terms += [(name, step * factor) for name, factor in value.terms]
    return Lin(offset, tuple(terms))


# --------------------------------------------------------------------------- kernel


def numba_kernel(
    program: Program,
    annotate: Callable[[Buffer], str] | None = None,
    array: str = "",
) -> KernelSource:
    """The Program as source. `annotate` gives a buffer's type annotation, `array` the arena's."""
    whole, pieces = cut(program)
    places = arena(whole)
    if not pieces:
        return _Kernel(program, places).source(annotate, array)
    parts = tuple(_Kernel(p, places).source(annotate, array) for p in pieces)
    return _caller(whole, places, parts, annotate, array)


def _caller(
    program: Program,
    places: Arena,
    parts: Sequence[KernelSource],
    annotate: Callable[[Buffer], str] | None,
    array: str,
) -> KernelSource:
    """The kernel that runs its parts in order, until one fails."""
    names = parameters(program, places)
    own_arena = names[-1]
    lines = _head(program, names, annotate, array)
    if program.doc:
        lines += _docstring(program.doc)
    status = _fresh("status", set(names))
    for part in parts:
        given = list(part.parameters)
        if part.arena != 0:
            given[-1] = own_arena
        call = f"{part.name}({', '.join(given)})"
        if part.can_fail:
            lines += layout.statement(f"{status} = {call}", 4)
            lines += [f"    if {status} != 0:", f"        return {status}"]
        else:
            lines += layout.statement(call, 4)
    lines.append("    return 0")
    return KernelSource(
        program.name,
        names,
        tuple(lines),
        tuple(dict.fromkeys(h for p in parts for h in p.helpers)),
        tuple(dict.fromkeys(r for p in parts for r in p.routines)),
        places.size,
        parts=tuple(parts),
    )


def _head(
    program: Program,
    names: Sequence[str],
    annotate: Callable[[Buffer], str] | None,
    array: str,
) -> list[str]:
    """The `def` line, on several where it is long."""
    if annotate is None:
        return layout.parameters(f"def {program.name}", list(names), ":")
    types = {s: "int" for s in program.symbols}
    types |= {b.name: annotate(b) for b in program.buffers}
    typed = [f"{n}: {types.get(n, array)}" for n in names]
    return layout.parameters(f"def {program.name}", typed, " -> int:")


class _Kernel:
    def __init__(self, program: Program, places: Arena) -> None:
        self.program = program
        self.buffers = {b.name: b for b in program.buffers}
        self.used = _names(program)
        self.arena = _fresh("arena", self.used)
        self.places = places
        self.flat: dict[str, str] = {}  # tile -> the arena as an array of its dtype
        self.lines: list[str] = []
        self.routines: dict[str, None] = {}
        self.read = {load.buffer for load in loads(program.body)}
        self.slots = ""
        self.keys: set[str] = set()  # local variables that hold keys of numbers
        self.hoisted = 0
        self.scope = _Scope(1)
        self.far: tuple[str, list[Expr]] | None = (
            None  # a flag, and the angles it watches
        )
        self.printer = Printer(load=self.element, axis=self.axis, ref=self.ref)

    def source(
        self, annotate: Callable[[Buffer], str] | None, array: str
    ) -> KernelSource:
        program = self.program
        names = parameters(program, self.places)
        head = _head(program, names, annotate, array)
        if program.doc:
            self.lines += _docstring(program.doc)
        self._prelude()
        self._body(program.body, self.scope)
        self.lines.append("    return 0")
        return KernelSource(
            program.name,
            names,
            (*head, *self.lines),
            tuple(self.printer.helpers),
            tuple(self.routines),
            self.places.size if names[-1:] == (self.arena,) else 0,
            can_fail=any(
                isinstance(s, Check) or (isinstance(s, Call) and s.code != 0)
                for s in statements(program.body)
            ),
        )

    def _prelude(self) -> None:
        """Places of the tiles, views of the workspaces."""
        typed: dict[str, str] = {"float64": self.arena}

        def arena_of(dtype: DType) -> str:
            if dtype.name not in typed:
                name = _fresh(f"{self.arena}_{dtype}", self.used)
                typed[dtype.name] = name
                kind = "np.bool_" if dtype.is_bool else f"np.{dtype}"
                self._emit(f"{name} = {self.arena}.view({kind})")
            return typed[dtype.name]

        if takes_slots(self.program.body):
            self.slots = _fresh("slots", self.used)
            words = arena_of(int64)
            self._emit(f"{self.slots} = {words}[:{SLOTS}]")
        named = self._named_places()
        for buffer in self.program.buffers:
            if buffer.name not in self.places.offsets:
                continue
            base = arena_of(buffer.dtype)
            offset = self.places.offsets[buffer.name]
            start = _in_elements(named.get(offset, offset), buffer.dtype)
            if _is_literal(buffer):
                self.flat[buffer.name] = base
                self._emit(f"{buffer.name} = {dim_text(start)}")
                continue
            size = size_of(buffer.dims)
            stop = start + size
            view = f"{base}[{_slice_text(start, stop)}]"
            if len(buffer.dims) > 1:
                shape = ", ".join(dim_text(d) for d in buffer.dims)
                view += f".reshape(({shape}))"
            self._emit(f"{buffer.name} = {view}")
        for buffer in self.program.buffers:
            if buffer.alias:
                self._alias(buffer)

    def _named_places(self) -> dict[Dim, Dim]:
        """Local variables for the places in the arena that are long sums, each from the one before.

        A place is the sum of the sizes before it: written out, all together would be as long as
        the square of their number.
        """
        used = {
            self.places.offsets[b.name]
            for b in self.program.buffers
            if b.name in self.places.offsets and not _is_literal(b)
        }
        named: dict[Dim, Dim] = {}
        last: tuple[Dim, Dim] = (0, 0)
        for offset in self.places.order:
            if offset not in used or len(dim_text(offset)) <= LONG_PLACE:
                continue
            before, name = last
            place = symbol(_fresh("place", self.used))
            self._emit(f"{place} = {dim_text(name + (offset - before))}")
            named[offset] = place
            last = offset, place
        return named

    def _alias(self, buffer: Buffer) -> None:
        """A buffer's storage under other dims."""
        if buffer.alias in self.flat:
            self.flat[buffer.name] = self.flat[buffer.alias]
            self._emit(f"{buffer.name} = {buffer.alias}")
            return
        shape = ", ".join(dim_text(d) for d in buffer.dims)
        one = len(buffer.dims) == 1
        shape = shape if one else f"({shape})"
        self._emit(f"{buffer.name} = {buffer.alias}.reshape({shape})")

    # ------------------------------------------------------------------ statements

    def _body(self, body: Sequence[Stmt], scope: _Scope) -> None:
        # the depth of the recursion is that of the nest: a few loops
        for stmt in body:
            self.scope = scope
            self._statement(stmt, scope)

    def _statement(self, stmt: Stmt, scope: _Scope) -> None:
        if isinstance(stmt, Let):
            self._assign(f"{self.ref(stmt.name)} = ", stmt.expr)
        elif isinstance(stmt, Store):
            self._store(stmt)
        elif isinstance(stmt, Loop):
            self._loop(stmt, scope)
        elif isinstance(stmt, If):
            self._emit(f"if {self._fit(stmt.cond)[0]}:")
            self._block(stmt.then, scope.deeper())
            if stmt.orelse:
                self.scope = scope
                self._emit("else:")
                self._block(stmt.orelse, scope.deeper())
        elif isinstance(stmt, While):
            self._while(stmt, scope)
        elif isinstance(stmt, Check):
            self._emit(f"if {self._negation(stmt.cond)}:")
            self._below(f"return {stmt.code}")
        elif isinstance(stmt, Call):
            self._call(stmt)
        else:
            self.lines += _comment(stmt.text, scope.depth)

    def _block(self, body: Sequence[Stmt], scope: _Scope) -> None:
        """An indented body, which Python wants to be non-empty."""
        before = len(self.lines)
        self._body(body, scope)
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.scope = scope
            self._emit("pass")

    def _emit(self, text: str) -> None:
        margin = 4 * self.scope.depth
        if margin + len(text) <= layout.WIDTH:
            self.lines.append(" " * margin + text)
        else:
            self.lines += layout.statement(text, margin)

    def _below(self, text: str) -> None:
        """The one line of the block that the line before opens."""
        scope = self.scope
        self.scope = scope.deeper()
        self._emit(text)
        self.scope = scope

    def _hoist(self, text: str) -> str:
        self.hoisted += 1
        name = _fresh(f"t{self.hoisted}", self.used)
        self._emit(f"{name} = {text}")
        return name

    def _fit(self, expr: Expr) -> Text:
        """The expression's text, its parts named in lines before where it is too long."""
        return self.printer.text(expr, LONGEST, self._hoist)

    def _assign(self, target: str, expr: Expr) -> None:
        self._emit(target + self._fit(expr)[0])

    def _while(self, stmt: While, scope: _Scope) -> None:
        condition = self.printer.text(stmt.cond)[0]
        if len(condition) <= LONGEST:
            self._emit(f"while {condition}:")
            self._block(stmt.body, scope.deeper())
            return
        self._emit("while True:")
        self.scope = scope.deeper()
        self._emit(f"if {self._negation(stmt.cond)}:")
        self._below("break")
        self._body(stmt.body, scope.deeper())

    def _negation(self, cond: Expr) -> str:
        """Text that is true where the bool `cond` is false."""
        if isinstance(cond, Apply):
            exact = all(a.dtype.is_integer for a in cond.args)
            exact = exact or cond.op in ("equal", "not_equal")  # also of NaN
            opposite = _OPPOSITES.get(cond.op)
            if opposite and exact:
                return self._fit(replace(cond, op=opposite))[0]
        text, level = self._fit(cond)
        return f"not {text}" if level >= PRECEDENCE["not"] else f"not ({text})"

    # ---------------------------------------------------------------------- loops

    def _loop(self, loop: Loop, scope: _Scope) -> None:
        if loop.mode == "block":
            self._block_loop(loop, scope)
        elif loop.mode == "unroll":
            self._unroll(loop, scope)
        elif loop.mode == "jam":
            self._jam(loop, scope)
        else:
            self._plain_loop(loop, scope)

    def _plain_loop(self, loop: Loop, scope: _Scope) -> None:
        """A loop; one with sines of angles up to 1e6 in SIMD code, and where an angle was larger
        again with those of any size, which are not."""
        turned = angles(loop, self.buffers) if loop.mode == "lanes" else []
        if not turned:
            self._one_loop(loop, scope)
            return
        far = _fresh("far", self.used)
        self._emit(f"{far} = False")
        saved: list[tuple[str, str]] = []
        for s in loop.body:
            if isinstance(s, Store) and s.mode != "=":
                name = self._target(s)[0]
                kept = _fresh(f"{name}_begun", self.used)
                saved.append((kept, name))
                self._emit(f"{kept} = {name}")
        self.printer.near = True
        self.far = (far, turned)
        self._one_loop(loop, scope)
        self.printer.near = False
        self._emit(f"if {far}:")
        inner = scope.deeper()
        self.scope = inner
        for kept, name in saved:
            self._emit(f"{name} = {kept}")
        self._one_loop(loop, inner)
        self.scope = scope

    def _one_loop(self, loop: Loop, scope: _Scope) -> None:
        totals = lane_totals(loop, self.buffers) if loop.mode == "lanes" else {}
        body = list(loop.body)
        for place, store in totals.items():
            body[place] = self._total_begun(store)
        extent = dim_text(loop.extent)
        if loop.reverse:
            last = dim_text(loop.extent - 1)
            self._emit(f"for {loop.axis} in range({last}, -1, -1):")
        else:
            self._emit(f"for {loop.axis} in range({extent}):")
        self._block(body, scope.deeper())
        if self.far is not None:
            (far, turned), self.far = self.far, None
            self.scope = scope.deeper()
            for angle in turned:
                self._emit(f"{far} |= abs({self._fit(angle)[0]}) > 1e6")
        self.scope = scope
        for place, store in totals.items():
            local = body[place]
            assert isinstance(local, Store)
            self._total_ended(store, local.buffer)

    def _total_begun(self, store: Store) -> Store:
        """A local variable for what a loop combines into one element; the store into that.

        Sums start at 0. Maxima and minima are those of integers that order as the numbers do,
        which become SIMD code where those of floats would not.
        """
        if store.mode == "+":
            name = _fresh(f"{store.buffer}_sum", self.used)
            self._emit(f"{name} = {number_text(0, store.expr.dtype)[0]}")
        else:
            name = _fresh(f"{store.buffer}_key", self.used)
            self.keys.add(name)
            target = (self._target(store)[0], ATOM)
            self._emit(f"{name} = {self._key(store.mode, target, store.expr.dtype)}")
        self.buffers[name] = Buffer(name, store.expr.dtype, (), "tile")
        return replace(store, buffer=name, index=())

    def _total_ended(self, store: Store, local: str) -> None:
        """The local variable's value combined into the element."""
        dtype = store.expr.dtype
        del self.buffers[local]
        if store.mode == "+":
            target, is_local = self._target(store)
            self._accumulate(target, is_local, "+", (local, ATOM), dtype)
            return
        self.keys.discard(local)
        number = self.printer.call("_from_key", [(local, ATOM)], dtype)[0]
        self._emit(f"{self._target(store)[0]} = {number}")

    def _key(self, mode: str, text: Text, dtype: DType) -> str:
        return self.printer.call(f"_{mode}_key", [text], dtype)[0]

    def _block_loop(self, loop: Loop, scope: _Scope) -> None:
        extent = dim_text(loop.extent)
        self._emit(f"for {loop.axis} in range(0, {extent}, {loop.step}):")
        scope = scope.deeper()
        self.scope = scope
        left = dim_text(loop.extent - symbol(loop.axis))
        self._emit(f"{loop.rows} = min({loop.step}, {left})")
        inner = frozenset(
            s.axis
            for s in statements(loop.body)
            if isinstance(s, Loop) and s.extent == symbol(loop.rows)
        )
        slices: dict[str, str] = {}
        block = Block(loop.axis, inner, slices)
        for name, index in accesses(loop.body):
            if name in slices or name in self.flat or not is_row(index, block):
                continue
            slices[name] = _fresh(f"{name}_{loop.axis}", self.used)
            rows = f"{loop.axis} : {loop.axis} + {loop.rows}"
            self._emit(f"{slices[name]} = {name}[{rows}]")
        self._body(loop.body, replace(scope, blocks=(*scope.blocks, block)))

    def _unroll(self, loop: Loop, scope: _Scope) -> None:
        if not isinstance(loop.extent, int):
            raise InternalError(
                f"unrolled loop over {loop.axis}: {loop.extent} is no literal"
            )
        rounds = range(loop.extent)
        for k in reversed(rounds) if loop.reverse else rounds:
            self._body(loop.body, scope.axis(loop.axis, Lin(k)))

    def _jam(self, loop: Loop, scope: _Scope) -> None:
        """`step` iterations at a time through the loops inside, then the rest one by one."""
        count = loop.step if loop.step > 1 else 4
        axis = loop.axis
        extent = dim_text(loop.extent)
        whole = dim_text(loop.extent - (count - 1))
        self._emit(f"for {axis} in range(0, {whole}, {count}):")
        rows = []
        for k in range(count):
            names = {
                name: _fresh(f"{name}_{k}", self.used)
                for name in private_names(loop.body, self.buffers)
            }
            inside = scope.deeper().axis(axis, Lin(k, ((axis, 1),)))
            rows.append(inside.renamed(names))
        self._jammed(loop.body, rows)
        self.scope = scope
        start = infix("%", (extent, dim_level(loop.extent)), (str(count), ATOM))
        first = infix("-", (extent, dim_level(loop.extent)), start)[0]
        self._emit(f"for {axis} in range({first}, {extent}):")
        self._block(loop.body, scope.deeper())

    def _jammed(self, body: Sequence[Stmt], rows: Sequence[_Scope]) -> None:
        """Each statement for all rows; a loop once, with its body for all rows."""
        for stmt in body:
            if isinstance(stmt, Note):
                self.scope = rows[0]
                self._statement(stmt, rows[0])
            elif isinstance(stmt, Loop) and stmt.mode in ("serial", "lanes"):
                self.scope = rows[0]
                self._emit(f"for {stmt.axis} in range({dim_text(stmt.extent)}):")
                self._jammed(stmt.body, [row.deeper() for row in rows])
            elif isinstance(stmt, Store) and self._is_shared_sum(stmt, rows):
                self._jammed_sum(stmt, rows)
            else:
                for row in rows:
                    self._body((stmt,), row)

    def _is_shared_sum(self, store: Store, rows: Sequence[_Scope]) -> bool:
        """Whether all rows add to one and the same element."""
        if store.mode != "+" or store.expr.dtype.is_bool:
            return False
        targets = []
        for row in rows:
            self.scope = row
            targets.append(self._target(store)[0])
        return all(t == targets[0] for t in targets)

    def _jammed_sum(self, store: Store, rows: Sequence[_Scope]) -> None:
        terms = []
        for row in rows:
            self.scope = row
            target, is_local = self._target(store)
            terms.append(self._fit(store.expr))

        def total(parts: Sequence[Text]) -> Text:
            pairs = [
                wrapped(infix("+", *parts[k : k + 2]), store.expr.dtype)
                if k + 1 < len(parts)
                else parts[k]
                for k in range(0, len(parts), 2)
            ]
            while len(pairs) > 1:
                pairs = [
                    wrapped(infix("+", *pairs[k : k + 2]), store.expr.dtype)
                    if k + 1 < len(pairs)
                    else pairs[k]
                    for k in range(0, len(pairs), 2)
                ]
            return pairs[0]

        text = self.printer.fitted(total, terms, LONGEST, self._hoist)
        self._accumulate(target, is_local, "+", text, store.expr.dtype)

    # --------------------------------------------------------------------- stores

    def _store(self, store: Store) -> None:
        target, is_local = self._target(store)
        if store.mode == "=":
            self._assign(f"{target} = ", store.expr)
            return
        text = self._fit(store.expr)
        self._accumulate(target, is_local, store.mode, text, store.expr.dtype)

    def _accumulate(
        self, target: str, is_local: bool, mode: str, text: Text, dtype: DType
    ) -> None:
        old = (target, ATOM)
        if target in self.keys:
            key = self._key(mode, text, dtype)
            self._emit(f"{target} = {mode}({target}, {key})")
        elif mode in ("max", "min"):
            combined = self.printer.call(f"_{mode}imum", [old, text], dtype)
            self._emit(f"{target} = {combined[0]}")
        elif dtype.is_bool:
            operator = "|" if mode == "+" else "&"
            self._emit(f"{target} = {infix(operator, old, text)[0]}")
        elif is_local and mode == "+" and dtype.is_inexact:
            self._emit(f"{target} = {self.printer.call('_add', [old, text], dtype)[0]}")
        elif is_local and dtype.is_integer and dtype.bits < 64:
            self._emit(f"{target} = {wrapped(infix(mode, old, text), dtype)[0]}")
        else:
            self._emit(f"{target} {mode}= {text[0]}")

    def _target(self, store: Store) -> tuple[str, bool]:
        """(what is assigned to, whether it is a local variable)."""
        buffer = self.buffers[store.buffer]
        load = Load(store.buffer, store.index, store.expr.dtype)
        if not buffer.dims:
            if buffer.place == "output":
                return f"{buffer.name}[()]", False
            return self.ref(buffer.name), True
        return self.printer.text(load)[0], False

    # ----------------------------------------------------------------- expressions

    def ref(self, name: str) -> str:
        return self.scope.names.get(name, name)

    def axis(self, name: str) -> Text:
        return lin_text(_substituted(Lin(0, ((name, 1),)), self.scope.axes))

    def element(self, load: Load, gathered: Sequence[Text]) -> Text:
        """An element of a buffer, or a scalar."""
        buffer = self.buffers[load.buffer]
        if not buffer.dims:
            scalar = f"{buffer.name}[()]" if buffer.place == "output" else ""
            return scalar or self.ref(buffer.name), ATOM
        if load.buffer in self.flat:
            return self._flat_element(buffer, load.index, gathered), ATOM
        name, index = self._through_blocks(load.buffer, load.index)
        inside = ", ".join(t for t, _ in self._index_texts(index, gathered))
        return f"{name}[{inside}]", ATOM

    def _index_texts(
        self, index: Sequence[Index], gathered: Sequence[Text]
    ) -> Iterator[Text]:
        left = iter(gathered)
        for i in index:
            if isinstance(i, Lin):
                yield lin_text(_substituted(i, self.scope.axes))
            else:
                yield next(left)

    def _flat_element(
        self, buffer: Buffer, index: Sequence[Index], gathered: Sequence[Text]
    ) -> str:
        """An element of a tile: a place in the arena, its row lengths literal."""
        left = iter(gathered)
        linear = Lin(0, ((buffer.name, 1),))
        rest: list[Text] = []
        for i, step in zip(index, _row_major(buffer.dims), strict=True):
            if isinstance(i, Lin):
                at = _substituted(i, self.scope.axes)
                linear = Lin(
                    linear.offset + at.offset * step,
                    linear.terms + tuple((a, f * step) for a, f in at.terms),
                )
            else:
                text = next(left)
                rest.append(infix("*", (str(step), ATOM), text) if step != 1 else text)
        total = lin_text(linear)
        for part in rest:
            total = infix("+", total, part)
        return f"{self.flat[buffer.name]}[{total[0]}]"

    def _through_blocks(
        self, name: str, index: Sequence[Index]
    ) -> tuple[str, Sequence[Index]]:
        """The slice of the innermost block that the access lies in, and the index within."""
        for block in reversed(self.scope.blocks):
            if name in block.slices and is_row(index, block):
                first = index[0]
                assert isinstance(first, Lin)
                kept = tuple(t for t in first.terms if t[0] != block.axis)
                return block.slices[name], (Lin(0, kept), *index[1:])
        return name, index

    # ----------------------------------------------------------------------- calls

    def _call(self, call: Call) -> None:
        """A library call; its status ends the kernel with `code`."""
        routine = ROUTINES[call.routine]
        results = routine.kinds.count("result")  # they come last
        inputs = call.args[: len(call.args) - results]
        args: list[str] = []
        dtype = float64
        for arg in inputs:
            if isinstance(arg, str):
                self.routines.setdefault(f"_{arg}")
                args.append(f"_{arg}")
            elif isinstance(arg, View):
                if not self.buffers[arg.buffer].dtype.is_integer:
                    dtype = self.buffers[arg.buffer].dtype
                args.append(self._view(arg))
            else:
                args.append(self._scalar(arg))
        if routine.slots:
            args.append(self.slots)
        name = f"_{call.routine}"
        if routine.generic:
            self.printer.use(name)
        else:
            name += TWINS[dtype.name]
            self.routines.setdefault(name)
        head = f"{name}("
        if results:
            targets = [self._result(v) for v in call.args[len(inputs) :]]
            head = f"{', '.join(targets)} = {head}"
        elif call.code:
            status = _fresh("status", set(self.used))
            head = f"{status} = {head}"
        self._emit(f"{head}{', '.join(args)})")
        if call.code and not results:
            self._emit(f"if {status} != 0:")
            self._below(f"return {call.code}")

    def _scalar(self, expr: Expr) -> str:
        """A scalar argument: blaslib takes them in float64."""
        if isinstance(expr, Lit):
            return number_text(expr.value, float64)[0]
        return cast_text(self.printer.text(expr), expr.dtype, float64)[0]

    def _result(self, view: View | Expr | str) -> str:
        """Where a routine's value goes: an element."""
        if not isinstance(view, View):
            raise InternalError(f"a routine's result goes to a buffer, not to {view}")
        buffer = self.buffers[view.buffer]
        if (
            not buffer.dims
            and buffer.place != "output"
            and buffer.name not in self.read
        ):
            return "_"
        store = Store(view.buffer, view.index, "=", Lit(0, buffer.dtype))
        return self._target(store)[0]

    def _view(self, view: View) -> str:
        """The part of a buffer as an array of its own: `X[b, n : n + m]`, `h.reshape((N, 1))`.

        Each of the view's axes runs along one of the buffer's, or the view is contiguous.
        """
        buffer = self.buffers[view.buffer]
        starts = [
            lin_text(_substituted(i, self.scope.axes))
            if isinstance(i, Lin)
            else self.printer.text(i)
            for i in view.index
        ]
        axes = _matched(view, buffer)
        if axes is None:
            joined = self._joined(view, buffer, starts)
            return joined or self._contiguous(view, buffer, starts)
        parts = [start[0] for start in starts]
        for axis, size in zip(axes, view.dims, strict=True):
            parts[axis] = _range_text(starts[axis], size, buffer.dims[axis])
        return self._sliced(buffer, parts)

    def _sliced(self, buffer: Buffer, parts: Sequence[str]) -> str:
        """The buffer as an array, at indices and ranges; whole axes at the end go unsaid."""
        base = buffer.name
        if buffer.name in self.flat:
            size, place = size_of(buffer.dims), symbol(buffer.name)
            base = f"{self.flat[buffer.name]}[{_slice_text(place, place + size)}]"
            if len(buffer.dims) > 1:
                base += f".reshape({_shape(buffer.dims)})"
        kept = list(parts)
        while kept and kept[-1] == ":":
            kept.pop()
        return f"{base}[{', '.join(kept)}]" if kept else base

    def _joined(self, view: View, buffer: Buffer, starts: Sequence[Text]) -> str:
        """A view some of whose axes run along several of the buffer's as one: the buffer with
        those joined, at indices; "" where it is no such view."""
        groups = _groups(view, buffer)
        if groups is None or any(
            starts[k][0] != "0" for group in groups for k in group
        ):
            return ""
        first = {group[0]: group for group in groups}
        inside = {k for group in groups for k in group}
        dims: list[Dim] = []
        parts: list[str] = []
        for k, d in enumerate(buffer.dims):
            if k in first:
                dims.append(size_of(buffer.dims[m] for m in first[k]))
                parts.append(":")
            elif k not in inside:
                dims.append(d)
                parts.append(starts[k][0])
        base = self._sliced(buffer, [":"] * len(buffer.dims))
        while parts and parts[-1] == ":":
            parts.pop()
        key = f"[{', '.join(parts)}]" if parts else ""
        return f"{base}.reshape({_shape(dims)}){key}"

    def _contiguous(self, view: View, buffer: Buffer, starts: Sequence[Text]) -> str:
        """A view without gaps under a shape of its own: a part of the buffer, reshaped.

        It is rows `start : start + n` of one axis, for one index of each axis before.
        """
        size = size_of(view.dims)
        if _unit_strides(view) == _row_major(view.dims):
            for k in range(len(buffer.dims)):
                rows = exact_quotient(size, size_of(buffer.dims[k + 1 :]))
                if any(start[0] != "0" for start in starts[k + 1 :]) or rows is None:
                    continue
                parts = [start[0] for start in starts[:k]]
                parts.append(_range_text(starts[k], rows, buffer.dims[k]))
                return f"{self._sliced(buffer, parts)}.reshape({_shape(view.dims)})"
        raise InternalError(f"no array is the view {view} of {buffer}")


def _shape(dims: Sequence[Dim]) -> str:
    inside = ", ".join(dim_text(d) for d in dims)
    return f"({inside},)" if len(dims) == 1 else f"({inside})"


def _range_text(start: Text, size: Dim, whole: Dim) -> str:
    """The slice `start : start + size` of an axis."""
    if start[0] == "0":
        if size == whole:
            return ":"
        text = dim_text(size)
        return f":{text}" if dim_level(size) == ATOM else f": {text}"
    stop = infix("+", start, (dim_text(size), dim_level(size)))[0]
    return f"{start[0]} : {stop}"


def _row_major(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    strides: list[Dim] = []
    step: Dim = 1
    for dim in reversed(dims):
        strides.insert(0, step)
        step = step * dim
    return tuple(strides)


def _matched(view: View, buffer: Buffer) -> list[int] | None:
    """The buffer's axis that each of the view's runs along, or None where one has none."""
    strides = _row_major(buffer.dims)
    axes: list[int] = []
    free = len(buffer.dims)
    for stride, size in zip(reversed(view.strides), reversed(view.dims), strict=True):
        found = [
            k
            for k in range(free)
            if strides[k] == stride and _within(size, buffer.dims[k])
        ]
        if not found:
            return None
        free = found[-1]
        axes.insert(0, free)
    return axes


def _groups(view: View, buffer: Buffer) -> list[list[int]] | None:
    """The neighbouring axes of the buffer that each of the view's runs along whole, or None."""
    strides = _row_major(buffer.dims)
    free = len(buffer.dims)
    groups: list[list[int]] = []
    for stride, size in zip(reversed(view.strides), reversed(view.dims), strict=True):
        last = next((k for k in reversed(range(free)) if strides[k] == stride), None)
        if last is None:
            return None
        free = last
        while size_of(buffer.dims[free : last + 1]) != size:
            free -= 1
            if free < 0:
                return None
        groups.insert(0, list(range(free, last + 1)))
    return groups if len(groups) < len(buffer.dims) else None


def _within(size: Dim, whole: Dim) -> bool:
    """Whether so many elements may lie along an axis, rather than along several as one."""
    if isinstance(size, int) and isinstance(whole, int):
        return size <= whole
    return size == whole or exact_quotient(size, whole) is None


def _unit_strides(view: View) -> tuple[Dim, ...]:
    """The view's strides, those of axes of one element as if it were contiguous."""
    strides: list[Dim] = []
    step: Dim = 1
    for dim, stride in zip(reversed(view.dims), reversed(view.strides), strict=True):
        strides.insert(0, step if dim == 1 else stride)
        step = strides[0] * dim
    return tuple(strides)


_OPPOSITES = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
    "equal": "not_equal",
    "not_equal": "equal",
}


def _in_elements(offset: Dim, dtype: DType) -> Dim:
    """An offset in doubles, which is a multiple of 8, in elements of a dtype."""
    return dim_floordiv(offset * 8, dtype.bits // 8)


def _slice_text(start: Dim, stop: Dim) -> str:
    a, b = dim_text(start), dim_text(stop)
    simple = dim_level(start) == ATOM and dim_level(stop) == ATOM
    return f"{a}:{b}" if simple else f"{a} : {b}"


# ------------------------------------------------------------------------------ text


def _clean(text: str) -> str:
    """Text that can stand in a comment: printable, no line ends."""
    return "".join(c if c.isprintable() else " " for c in text).rstrip()


def _comment(text: str, depth: int) -> list[str]:
    pad = "    " * depth
    return [f"{pad}# {_clean(line)}".rstrip() for line in text.splitlines()]


def _docstring(text: str) -> list[str]:
    lines = [
        _clean(line).replace("\\", "\\\\").replace('"""', r"\"\"\"")
        for line in text.strip().splitlines()
    ]
    if len(lines) == 1:
        end = " " if lines[0].endswith('"') else ""
        return [f'    """{lines[0]}{end}"""']
    inside = [f"    {line}".rstrip() for line in lines[1:]]
    return [f'    """{lines[0]}', *inside, '    """']

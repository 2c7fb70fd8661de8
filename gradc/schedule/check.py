"""What a well-formed Program is.

`check` follows the statements in program order and keeps what is in scope: sizes, axes, lets, and
which buffers have been stored to. It proves that every name is bound before it is used and never
bound twice at once, that dtypes and ranks agree, that inputs are never stored to, and that what is
read or accumulated into was stored before: exactly so for scalars (on every path, for every size),
for arrays in the sense that some store comes before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradc.errors import GradcError, InternalError
from gradc.ops.registry import lookup
from gradc.schedule.program import (
    ROUTINES,
    Apply,
    AxisValue,
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
    Ref,
    Size,
    Stmt,
    Store,
    View,
    While,
    children,
    expression_text,
    index_text,
    numbered_lines,
    walk,
)
from gradc.types import Dim, DType, TensorType, dim_text, symbols_of

__all__ = ["check"]

READ_ONLY = ("input", "constant")
FLAGS = ("N", "T", "L", "U")
AROUND = 3


def check(program: Program) -> None:
    """InternalError, with the program's text around it, where the Program is not well-formed."""
    _Checker(program).run()


@dataclass(frozen=True, slots=True)
class _Scope:
    """What names mean at a statement."""

    sizes: frozenset[str]
    axes: frozenset[str] = frozenset()
    lets: Mapping[str, DType] = field(default_factory=dict)

    def with_axis(self, axis: str, rows: str = "") -> _Scope:
        sizes = self.sizes | {rows} if rows else self.sizes
        return replace(self, axes=self.axes | {axis}, sizes=sizes)

    def with_let(self, name: str, dtype: DType) -> _Scope:
        return replace(self, lets={**self.lets, name: dtype})


class _Fault(Exception):
    """A fault of the statement that is looked at."""


class _Checker:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.buffers: dict[str, Buffer] = {}
        self.at: Stmt | None = None

    def run(self) -> None:
        try:
            self.declarations()
            self.body(
                self.program.body, _Scope(frozenset(self.program.symbols)), frozenset()
            )
        except _Fault as fault:
            raise InternalError(
                f"program {self.program.name}: {fault}", notes=self.around()
            ) from None

    def around(self) -> list[str]:
        """The lines round the statement at fault, which is marked."""
        lines = list(numbered_lines(self.program.body))
        for k, (_, stmt) in enumerate(lines):
            if stmt is self.at and stmt is not None:
                first = max(0, k - AROUND)
                return [
                    f"{'>' if first + n == k else ' '} {text}"
                    for n, (text, _) in enumerate(lines[first : k + AROUND + 1])
                ]
        return str(self.program).splitlines()[: 4 * AROUND]

    # ---------------------------------------------------------------- declarations

    def declarations(self) -> None:
        taken: set[str] = set()
        for name in self.program.symbols:
            self.new_name(name, taken)
            taken.add(name)
        for b in self.program.buffers:
            self.new_name(b.name, taken)
            taken.add(b.name)
            for d in b.dims:
                self.dim(d, frozenset(self.program.symbols))
                if b.place == "tile" and not isinstance(d, int):
                    raise _Fault(f"tile {b.name} has the dimension {dim_text(d)}")
            self.buffers[b.name] = b

    def new_name(self, name: str, taken: set[str]) -> None:
        if not name.isidentifier():
            raise _Fault(f"{name!r} is no name")
        if name in taken:
            raise _Fault(f"{name} is bound twice")

    def bind(self, name: str, scope: _Scope) -> None:
        """A name that a statement binds: new in its scope."""
        taken = {*scope.sizes, *scope.axes, *scope.lets, *self.buffers}
        self.new_name(name, taken)

    def dim(self, dim: Dim, sizes: frozenset[str]) -> None:
        for name in symbols_of(dim):
            if name not in sizes:
                raise _Fault(f"the size {name} is not known here")

    # ------------------------------------------------------------------ statements

    def body(
        self, body: Sequence[Stmt], scope: _Scope, stored: frozenset[str]
    ) -> frozenset[str]:
        """Check statements; gives the buffers stored to after them."""
        for stmt in body:
            self.at = stmt
            if isinstance(stmt, Let):
                self.expr(stmt.expr, scope, stored)
                self.bind(stmt.name, scope)
                scope = scope.with_let(stmt.name, stmt.expr.dtype)
            elif isinstance(stmt, Store):
                stored = self.store(stmt, scope, stored)
            elif isinstance(stmt, Loop):
                stored = self.loop(stmt, scope, stored)
            elif isinstance(stmt, If):
                self.condition(stmt.cond, scope, stored)
                then = self.body(stmt.then, scope, stored)
                stored = self.joined(then, self.body(stmt.orelse, scope, stored))
            elif isinstance(stmt, While):
                self.condition(stmt.cond, scope, stored)
                stored = self.joined(self.body(stmt.body, scope, stored), stored)
            elif isinstance(stmt, Check):
                self.condition(stmt.cond, scope, stored)
                if stmt.code < 1:
                    raise _Fault(f"{stmt.code} is no error number: they start at 1")
            elif isinstance(stmt, Call):
                stored = self.call(stmt, scope, stored)
            elif not isinstance(stmt, Note):
                raise _Fault(f"{stmt!r} is no statement")
        return stored

    def joined(self, a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        """What is stored where two paths meet: arrays by either, scalars by both."""
        return frozenset(
            name for name in a | b if self.buffers[name].dims or name in a & b
        )

    def loop(self, loop: Loop, scope: _Scope, stored: frozenset[str]) -> frozenset[str]:
        self.dim(loop.extent, scope.sizes)
        self.bind(loop.axis, scope)
        if loop.mode == "block":
            self.bind(loop.rows, scope.with_axis(loop.axis))
            if loop.step < 1:
                raise _Fault(f"a block of {loop.step} rows")
        elif loop.rows:
            raise _Fault(f"a {loop.mode} loop has no rows")
        elif loop.step < 1 or (loop.step > 1 and loop.mode != "jam"):
            raise _Fault(f"a {loop.mode} loop has no step of {loop.step}")
        if loop.reverse and loop.mode in ("block", "jam"):
            raise _Fault(f"a {loop.mode} loop runs forwards")
        if loop.mode == "unroll" and not isinstance(loop.extent, int):
            raise _Fault(f"{dim_text(loop.extent)} rounds can't be unrolled")
        if loop.mode == "lanes":
            for inner in loop.body:
                if isinstance(inner, Loop) and inner.mode != "unroll":
                    raise _Fault(f"the loop over {inner.axis} is inside lanes")
        inside = self.body(loop.body, scope.with_axis(loop.axis, loop.rows), stored)
        if isinstance(loop.extent, int) and loop.extent > 0:
            return inside
        return self.joined(inside, stored)

    def store(
        self, store: Store, scope: _Scope, stored: frozenset[str]
    ) -> frozenset[str]:
        buffer = self.buffer(store.buffer)
        self.index(store.index, buffer, scope, stored)
        self.expr(store.expr, scope, stored)
        self.writable(buffer)
        if store.expr.dtype != buffer.dtype:
            raise _Fault(f"{buffer.name} is {buffer.dtype}, not {store.expr.dtype}")
        if store.mode == "=":
            return stored | {buffer.name}
        if store.mode not in ("+", "*", "max", "min"):
            raise _Fault(f"{store.mode!r} is no way to store")
        if store.mode in ("max", "min") and buffer.dtype.is_complex:
            raise _Fault(f"{store.mode} of complex numbers")
        if buffer.name not in stored:
            raise _Fault(f"{buffer.name} is accumulated into but not set before")
        return stored

    def writable(self, buffer: Buffer) -> None:
        if buffer.place in READ_ONLY or buffer.alias:
            kind = "alias" if buffer.alias else buffer.place
            raise _Fault(f"{buffer.name} is stored to, and is an {kind}")

    def call(self, call: Call, scope: _Scope, stored: frozenset[str]) -> frozenset[str]:
        routine = ROUTINES.get(call.routine)
        if routine is None:
            raise _Fault(f"there is no routine {call.routine}")
        if len(call.args) != len(routine.kinds):
            raise _Fault(
                f"{call.routine} takes {len(routine.kinds)} arguments, not {len(call.args)}"
            )
        if call.code and not routine.status:
            raise _Fault(f"{call.routine} does not fail")
        written: list[str] = []
        last: Expr | None = None
        for kind, arg in zip(routine.kinds, call.args, strict=True):
            if kind == "flag":
                if arg not in FLAGS:
                    raise _Fault(
                        f"{call.routine}: {arg!r} is none of {', '.join(FLAGS)}"
                    )
                continue
            if kind == "scalar":
                if isinstance(arg, str | View):
                    raise _Fault(f"{call.routine}: {arg!r} is no number")
                self.expr(arg, scope, stored)
                last = arg
                continue
            if not isinstance(arg, View):
                raise _Fault(f"{call.routine}: {arg!r} is no view")
            buffer = self.view(arg, scope, stored)
            if kind != "in":
                self.writable(buffer)
                written.append(buffer.name)
            reads = kind == "in" or (kind == "update" and not _is_zero(last))
            if reads and not self.is_stored(buffer, stored):
                raise _Fault(f"{buffer.name} is read but not stored before")
        return stored | frozenset(written)

    def view(self, view: View, scope: _Scope, stored: frozenset[str]) -> Buffer:
        buffer = self.buffer(view.buffer)
        self.index(view.index, buffer, scope, stored)
        if len(view.dims) != len(view.strides):
            raise _Fault(f"a view of {buffer.name} has other dims than strides")
        for d in (*view.dims, *view.strides):
            self.dim(d, scope.sizes)
        return buffer

    # ----------------------------------------------------------------- expressions

    def condition(self, cond: Expr, scope: _Scope, stored: frozenset[str]) -> None:
        self.expr(cond, scope, stored)
        if not cond.dtype.is_bool:
            raise _Fault(f"{expression_text(cond)} is {cond.dtype}, not bool")

    def is_stored(self, buffer: Buffer, stored: frozenset[str]) -> bool:
        """Whether a buffer, or the one whose storage it is, holds something."""
        while buffer.alias:
            buffer = self.buffer(buffer.alias)
        return buffer.place in READ_ONLY or buffer.name in stored

    def buffer(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise _Fault(f"there is no buffer {name}")
        return self.buffers[name]

    def index(
        self,
        index: Sequence[Index],
        buffer: Buffer,
        scope: _Scope,
        stored: frozenset[str],
    ) -> None:
        if len(index) != len(buffer.dims):
            raise _Fault(
                f"{buffer.name} has {len(buffer.dims)} axes, and {len(index)} indices"
            )
        for i in index:
            if not isinstance(i, Lin):
                if not i.dtype.is_integer:
                    raise _Fault(f"the index {expression_text(i)} is {i.dtype}")
                self.expr(i, scope, stored)
                continue
            self.dim(i.offset, scope.sizes)
            for axis, step in i.terms:
                self.dim(step, scope.sizes)
                if axis not in scope.axes:
                    raise _Fault(f"the axis {axis} of [{index_text(i)}] is not open")

    def expr(self, expr: Expr, scope: _Scope, stored: frozenset[str]) -> None:
        for e in walk(expr):
            if isinstance(e, Size):
                self.dim(e.dim, scope.sizes)
            elif isinstance(e, AxisValue):
                if e.axis not in scope.axes:
                    raise _Fault(f"the axis {e.axis} is not open")
            elif isinstance(e, Ref):
                if e.name not in scope.lets:
                    raise _Fault(f"{e.name} is not bound here")
                if scope.lets[e.name] != e.dtype:
                    raise _Fault(f"{e.name} is {scope.lets[e.name]}, not {e.dtype}")
            elif isinstance(e, Load):
                self.load(e, scope, stored)
            elif isinstance(e, Apply):
                self.apply(e)
            elif not isinstance(e, Lit):
                raise _Fault(f"{e!r} is no expression")

    def load(self, load: Load, scope: _Scope, stored: frozenset[str]) -> None:
        buffer = self.buffer(load.buffer)
        # gathered indices are looked at as parts of the whole expression
        affine = tuple(i if isinstance(i, Lin) else Lin() for i in load.index)
        self.index(affine, buffer, scope, stored)
        for i in children(load):
            if not i.dtype.is_integer:
                raise _Fault(f"the index {expression_text(i)} is {i.dtype}")
        if load.dtype != buffer.dtype:
            raise _Fault(f"{buffer.name} is {buffer.dtype}, not {load.dtype}")
        if not self.is_stored(buffer, stored):
            raise _Fault(f"{buffer.name} is read but not stored before")

    def apply(self, e: Apply) -> None:
        op = lookup(e.op)
        if op is None:
            raise _Fault(f"there is no op {e.op}")
        for a in e.args:
            if a.dtype.name not in op.accepts:
                raise _Fault(f"{e.op} does not take {a.dtype}")
        attrs = dict(e.attrs)
        if e.op == "cast":
            attrs.setdefault("dtype", e.dtype)
        elif e.op == "add_n":
            attrs.setdefault("method", "")
        try:
            found = op.type(*(TensorType(a.dtype) for a in e.args), **attrs)
        except (GradcError, TypeError, ValueError) as error:
            message = error.message if isinstance(error, GradcError) else error
            raise _Fault(f"{expression_text(e)}: {message}") from None
        if not isinstance(found, TensorType) or found.dtype != e.dtype:
            raise _Fault(f"{expression_text(e)} is {found}, not {e.dtype}")


def _is_zero(expr: Expr | None) -> bool:
    return isinstance(expr, Lit) and expr.value == 0

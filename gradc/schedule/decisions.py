"""What the schedule decided, for a reader: axes, products, what is kept, what is computed again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradc.graph import Node, Tensor
from gradc.ops.loops import Contract, Reshape, View
from gradc.schedule.contract import matrix_product, why_loops
from gradc.schedule.program import (
    Call,
    Loop,
    Note,
    Program,
    Stmt,
    statements,
)
from gradc.schedule.program import View as Part
from gradc.schedule.units import Unit
from gradc.types import Dim, dim_text, size_of

__all__ = ["Decisions", "Kept", "Nest", "Product", "decisions"]


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest: the extents of its loops by level, and the statements it computes.

    `blocks` is the rows of a block, where the outermost loop goes in blocks; else 0.
    """

    levels: tuple[tuple[str, ...], ...]
    blocks: int
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction: its statement, `gemm` or `loops`, and why or how often."""

    statement: str
    how: str
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """An array between loops: its dims, its bytes, and what needs it in memory."""

    name: str
    dims: tuple[Dim, ...]
    bytes: Dim
    why: str


@dataclass(frozen=True, slots=True)
class Decisions:
    """All of a Program's; `again` are values that are computed again where they are used."""

    nests: tuple[Nest, ...]
    products: tuple[Product, ...]
    kept: tuple[Kept, ...]
    again: tuple[str, ...]


def decisions(
    program: Program, units: Iterable[Unit], again: Iterable[Tensor]
) -> Decisions:
    """What a schedule came to: its Program, its units, and what is computed more than once."""
    nodes: dict[Node, Unit] = {}
    for unit in units:
        form = unit.node.op.form(unit.node) if unit.node.op.form is not None else None
        if isinstance(form, Contract):
            nodes[unit.node] = unit
    return Decisions(
        tuple(_nests(program.body)),
        tuple(dict.fromkeys(_product(node, unit) for node, unit in nodes.items())),
        tuple(_kept(program)),
        tuple(dict.fromkeys(_name(t) for t in again if t.dtype.is_inexact)),
    )


def _name(tensor: Tensor) -> str:
    """A tensor's name, or its op and what that works on, seen through views."""
    if tensor.name:
        return tensor.name
    operands = ", ".join(t.name or t.op.name for t in map(_base, tensor.node.inputs))
    return f"{tensor.op.name}({operands})"


def _base(tensor: Tensor) -> Tensor:
    while not tensor.name and isinstance(_form(tensor), View | Reshape):
        tensor = tensor.node.inputs[0]
    return tensor


def _form(tensor: Tensor) -> object:
    return tensor.op.form(tensor.node) if tensor.op.form is not None else None


def _nests(body: Sequence[Stmt]) -> Iterable[Nest]:
    said: list[str] = []
    for stmt in body:
        if isinstance(stmt, Note):
            said.append(stmt.text)
        elif isinstance(stmt, Loop):
            inside = [s.text for s in statements(stmt.body) if isinstance(s, Note)]
            yield Nest(
                tuple(_levels(stmt)),
                stmt.step if stmt.mode == "block" else 0,
                tuple(dict.fromkeys([*said, *inside])),
            )
            said = []
        else:
            said = []


def _levels(loop: Loop) -> Iterable[tuple[str, ...]]:
    level = [loop]
    rows = {loop.rows} if loop.rows else set()
    while level:
        extents = dict.fromkeys(dim_text(inner.extent) for inner in level)
        shown = tuple(e for e in extents if e not in rows)
        if shown:
            yield shown
        level = [s for outer in level for s in outer.body if isinstance(s, Loop)]
        rows |= {inner.rows for inner in level if inner.rows}


def _product(node: Node, unit: Unit) -> Product:
    place = node.place
    text = _name(node.out)
    if place.statement is not None:
        text = place.statement.text.strip()
        text = f"adjoint of {text}" if place.scope else text
    if unit.kind != "call":
        return Product(text, "loops", why_loops(node))
    product = matrix_product(node)
    assert product is not None
    batch = " x ".join(dim_text(d) for d in unit.extents)
    return Product(text, "gemm", f"one for each of {batch}" if batch else "one")


def _kept(program: Program) -> Iterable[Kept]:
    calls = {
        arg.buffer
        for s in statements(program.body)
        if isinstance(s, Call)
        for arg in s.args
        if isinstance(arg, Part)
    }
    aliased = {b.alias for b in program.buffers if b.alias in calls or b.name in calls}
    for buffer in program.buffers:
        if buffer.place != "workspace" or buffer.alias:
            continue
        is_called = buffer.name in calls or buffer.name in aliased
        yield Kept(
            buffer.name,
            buffer.dims,
            size_of(buffer.dims) * (buffer.dtype.bits // 8),
            "for a library call" if is_called else "from one loop to another",
        )

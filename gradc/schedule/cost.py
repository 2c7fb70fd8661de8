"""What a Program costs: flops, bytes moved and memory, as polynomials in its symbols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradc.graph import Graph, Node
from gradc.ops.loops import (
    Accumulate,
    Contract,
    Cumulate,
    Elementwise,
    Fill,
    Form,
    Reshape,
    Scatter,
)
from gradc.ops.loops import Call as FormCall
from gradc.ops.loops import View as FormView
from gradc.ops.registry import lookup
from gradc.schedule.buffers import arena
from gradc.schedule.program import (
    Apply,
    Call,
    Check,
    Expr,
    If,
    Let,
    Lin,
    Load,
    Loop,
    Program,
    Stmt,
    Store,
    View,
    While,
    statements,
    walk,
)
from gradc.types import Dim, Shape, dim_floordiv, size_of, substitute

__all__ = ["Cost", "cost", "expression_cost", "graph_cost"]

CHEAP = frozenset(["cast", "select", "copy"])


@dataclass(frozen=True, slots=True)
class Cost:
    """`flops` counts a division or root as 4, exp, log or tanh as 10, erf or pow as 20.

    `moved` is the bytes that the passes read and write outside tiles, each array once a pass;
    `minimal` those of inputs and outputs; `memory` the bytes of the arena: workspaces, tiles and the slots of calls.
    """

    flops: Dim
    moved: Dim
    minimal: Dim
    memory: Dim


def expression_cost(expr: Expr) -> int:
    """The flops of one evaluation."""
    total = 0
    for e in walk(expr):
        if isinstance(e, Apply) and e.op not in CHEAP and e.dtype.is_inexact:
            op = lookup(e.op)
            total += op.cost if op is not None else 1
    return total


def _own(stmt: Stmt) -> int:
    if isinstance(stmt, Let):
        return expression_cost(stmt.expr)
    if isinstance(stmt, Store):
        adds = stmt.mode != "=" and _is_float(stmt.expr)
        return expression_cost(stmt.expr) + int(adds)
    if isinstance(stmt, If | While | Check):
        return expression_cost(stmt.cond)
    return 0


def _is_float(expr: Expr) -> bool:
    return expr.dtype.is_inexact


def _call_flops(call: Call) -> Dim:
    """The flops of a library call, by the sizes of its views."""
    views = [a.dims for a in call.args if isinstance(a, View)]
    if call.routine == "gemm":
        a, _, c = views
        inner = a[0] if call.args[0] == "T" else a[1]
        return 2 * size_of(c) * inner
    if call.routine == "gemv":
        return 2 * size_of(views[0])
    if call.routine in ("potrf", "getrf", "getri"):
        n = views[0][0]
        return (
            dim_floordiv(n * n * n, 3)
            * {"potrf": 1, "getrf": 2, "getri": 4}[call.routine]
        )
    if call.routine in ("trsm", "getrs"):
        n = views[0][0]
        return n * size_of(views[-1]) * (1 if call.routine == "trsm" else 2)
    return 0


def _counted(body: Sequence[Stmt]) -> Iterator[tuple[Stmt, Dim]]:
    """Each statement with how often it runs (a block's rows add up to its extent)."""
    stack: list[tuple[Stmt, Dim, dict[str, Dim], Dim | None]] = [
        (s, 1, {}, None) for s in reversed(body)
    ]
    while stack:
        stmt, times, rows, block = stack.pop()
        yield stmt, times if block is None else times * block
        if isinstance(stmt, Loop):
            if stmt.mode == "block":
                inner = {**rows, stmt.rows: stmt.extent}
                count = dim_floordiv(stmt.extent + (stmt.step - 1), stmt.step)
                stack += [(s, times, inner, count) for s in reversed(stmt.body)]
            else:
                extent = substitute(stmt.extent, rows)
                whole = extent == stmt.extent
                factor = block if block is not None and whole else None
                stack += [
                    (s, times * extent, rows, factor) for s in reversed(stmt.body)
                ]
        elif isinstance(stmt, While):
            stack += [(s, times, rows, block) for s in reversed(stmt.body)]
        elif isinstance(stmt, If):
            stack += [(s, times, rows, block) for s in reversed(stmt.then)]
            stack += [(s, times, rows, block) for s in reversed(stmt.orelse)]


def _touched(body: Sequence[Stmt]) -> tuple[dict[str, None], dict[str, None]]:
    """(buffers read, buffers written) in a body."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for stmt in statements(body):
        exprs: list[Expr] = []
        if isinstance(stmt, Let):
            exprs.append(stmt.expr)
        elif isinstance(stmt, Store):
            exprs.append(stmt.expr)
            exprs += [i for i in stmt.index if not isinstance(i, Lin)]
            written[stmt.buffer] = None
        elif isinstance(stmt, If | While | Check):
            exprs.append(stmt.cond)
        elif isinstance(stmt, Call):
            views = [a for a in stmt.args if isinstance(a, View)]
            read.update(dict.fromkeys(v.buffer for v in views[:-1]))
            written.update(dict.fromkeys(v.buffer for v in views[-1:]))
        for expr in exprs:
            read.update(
                dict.fromkeys(e.buffer for e in walk(expr) if isinstance(e, Load))
            )
    return read, written


def cost(program: Program) -> Cost:
    """The cost of one run."""
    flops: Dim = 0
    for stmt, times in _counted(program.body):
        own: Dim = _call_flops(stmt) if isinstance(stmt, Call) else _own(stmt)
        if own != 0:
            flops = flops + times * own
    buffers = {b.name: b for b in program.buffers}

    def size(name: str) -> Dim:
        buffer = buffers[name]
        return (
            0
            if buffer.place == "tile"
            else size_of(buffer.dims) * (buffer.dtype.bits // 8)
        )

    moved: Dim = 0
    for stmt in program.body:
        read, written = _touched([stmt])
        for name in (*read, *written):
            moved = moved + size(name)
    minimal: Dim = 0
    for buffer in program.buffers:
        if buffer.place in ("input", "output", "constant"):
            minimal = minimal + size(buffer.name)
    return Cost(flops, moved, minimal, 8 * arena(program).size)


# ------------------------------------------------------------------- node by node


def graph_cost(graph: Graph) -> tuple[Dim, Dim]:
    """(flops, bytes) of a graph that is computed node by node, each result in an array of its own.

    The bytes are those of what is no view and no result. Parts of a chain may be freed before its
    end, so they are the most that is needed.
    """
    flops: Dim = 0
    elements: Counter[Shape] = Counter()  # flops by shape
    memory: Counter[Shape] = Counter()
    results = {o.tensor for o in graph.outputs}
    for node in graph.nodes():
        if node.op.elementwise:
            elements[node.out.shape] += _element_flops(node)
        else:
            form = node.op.form(node) if node.op.form is not None else None
            flops = flops + _form_flops(node, form)
            if form is None or isinstance(form, _IN_PLACE):
                continue
        for t in node.outputs:
            if t.shape and t not in results:
                memory[t.shape] += t.dtype.bits // 8
    return flops + _total(elements), _total(memory)


_IN_PLACE = (FormView, Reshape, Fill)


def _total(counts: Mapping[Shape, int]) -> Dim:
    """The sum of the sizes of shapes that are there so many times."""
    total: Dim = 0
    for shape, count in counts.items():
        total = total + size_of(shape) * count
    return total


def _element_flops(node: Node) -> int:
    """The flops of an elementwise node, an element."""
    is_free = not node.out.dtype.is_inexact or node.op.name in CHEAP
    return 0 if is_free else node.op.cost


def _form_flops(node: Node, form: Form | None) -> Dim:
    """The flops of one node, as those of its loops."""
    out = node.outputs[0]
    if not out.dtype.is_inexact:
        return 0
    if isinstance(form, Elementwise):
        return _element_flops(node) * size_of(out.shape)
    if isinstance(form, Accumulate | Scatter):
        return size_of(node.inputs[0].shape)
    if isinstance(form, Cumulate):
        return len(node.inputs) * size_of(out.shape)
    if isinstance(form, Contract):
        sizes = dict(zip(form.lhs, node.inputs[0].shape, strict=True))
        sizes |= dict(zip(form.rhs, node.inputs[1].shape, strict=True))
        return 2 * size_of(tuple(sizes.values()))
    if isinstance(form, FormCall) and form.routine in FACTORS:
        shape = node.inputs[0].shape
        n, last = shape[-1], node.inputs[-1].shape
        cube = dim_floordiv(size_of(shape) * n * FACTORS[form.routine], 3)
        solved = size_of(last) * n if len(node.inputs) > 1 else 0
        return cube + (2 * solved if form.routine == "solve" else solved)
    return 0


FACTORS = {
    "cholesky": 1,
    "solve": 2,
    "solve_triangular": 0,
    "inv": 6,
    "cofactor": 6,
    "det": 2,
    "slogdet": 2,
}
"""A third of the n**3 flops that a matrix takes."""

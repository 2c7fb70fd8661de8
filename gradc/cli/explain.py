"""`gradc explain`: what is differentiated, what is not and why, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradc.cli.options import (
    compile_options,
    file_argument,
    gradient_options,
    json_option,
)
from gradc.cli.report import print_json, progress, table_lines, write_lines
from gradc.errors import OptionError

if TYPE_CHECKING:
    from gradc.autodiff.plan import BackwardPlan
    from gradc.driver import Plan
    from gradc.graph import Tensor
    from gradc.schedule.decisions import Decisions, Nest
    from gradc.schedule.lower import Scheduled
    from gradc.schedule.program import Program
    from gradc.types import Dim

__all__ = ["command"]


@click.command("explain")
@file_argument
@click.option("--why", metavar="X", help="Only why there is no gradient by X.")
@gradient_options
@compile_options
@json_option
@click.pass_context
def command(
    ctx: click.Context, /, file: str, why: str | None, as_json: bool, **given: Any
) -> None:
    """Say what is differentiated, what is not and why, and what it costs.

    Flops, bytes and memory are in terms of the sizes that the graph leaves open; --static
    fills them in.
    """
    from gradc import driver

    ctx.obj["path"] = file
    made = driver.plan(Path(file), driver.options_of(given))
    if why is not None:
        x, reason = _why(made, why)
        if as_json:
            print_json({"x": x, "why": reason})
        else:
            write_lines([reason])
        return
    report = list(_report(file, made))  # before passes give tensors more names
    plain = _plain(made)
    kernels = {}
    if made.options.target == "numba":
        with progress(f"scheduling {file}"):
            kernels = driver.schedules(made)
    if as_json:
        print_json({**plain, "kernels": _plain_kernels(kernels)})
    else:
        write_lines([*report, *(_kernel_lines(kernels) if kernels else ())])


# ------------------------------------------------------------------------------ why


def _why(made: Plan, name: str) -> tuple[str, str]:
    """A tensor's name, and why there is no gradient by it."""
    from gradc import driver

    if made.request is None:
        raise OptionError(
            "the graph asks for no gradients",
            code="no-request",
            hint="name them with --ys and --xs, or write differentiate(...) in the graph",
        )
    asked = made.options
    tensor = driver.named(made.graph, "why", name)
    ys = ", ".join(map(_name, made.request.ys))
    if tensor in made.request.xs:
        reason = _shown(made, tensor)
        return name, reason or f"{name} has a gradient: {ys} depends on it"
    alone = driver.plan(made.graph, replace(asked, xs=[tensor], static={}))
    reason = alone.why(tensor)
    return name, reason or f"{name} is not among the xs, though {ys} depends on it"


def _shown(made: Plan, x: Tensor) -> str:
    """`zeros: loss does not depend on z`; "" where a path leads from x to a y."""
    reason = made.why(x)
    assert made.request is not None
    is_zero = made.request.unconnected_gradients == "zero"
    return f"zeros: {reason}" if reason and is_zero else reason


def _name(tensor: Tensor) -> str:
    return tensor.name or tensor.op.name


# ---------------------------------------------------------------------------- report


def _report(file: str, made: Plan) -> Iterator[str]:
    """What is differentiated and what is not."""
    graph = made.graph
    title = graph.doc.strip().partition("\n")[0]
    count = sum(node.op.name != "input" for node in graph.nodes())
    yield f"{file}: {title}" if title else file
    returned = ", ".join(o.name for o in graph.outputs)
    yield (
        f"{_count(len(graph.inputs), 'input')}, {_count(count, 'operation')}; "
        f"returns {returned}"
    )
    last = made.gradients.plan if made.gradients is not None else None
    for plan in graph.plans:
        if plan is not last:
            yield from _plan_lines(plan, {})
    if made.gradients is not None and last is not None:
        xs = last.request.xs
        yield from _plan_lines(
            last, {x: made.gradients.why(k) for k, x in enumerate(xs)}
        )
        others = [t.name for t in graph.inputs if t not in xs]
        if others:
            yield f"  not among the xs: {', '.join(others)}"


def _plan_lines(plan: BackwardPlan, reasons: dict[Tensor, str]) -> Iterator[str]:
    request = plan.request
    ys = ", ".join(map(_name, request.ys)) or "nothing"
    yield ""
    scope = "" if request.name == "gradients" else f"{request.name}: "
    yield f"{scope}gradients of {ys}"
    gives = "zeros" if request.unconnected_gradients == "zero" else "None"
    rows = []
    for x in request.xs:
        reason = reasons[x] if x in reasons else _reason(plan, x)
        found = f"{gives}: {reason}" if reason else "differentiated"
        rows.append((f"by {_name(x)}", str(x.type), found))
    yield from table_lines(rows, "  ")
    counts = _counts(plan)
    yield (
        f"  {counts['on a path']} of {sum(counts.values())} operations lie on a path from "
        f"an x to a y; {counts['cut off']} are cut off, "
        f"{counts['independent']} depend on no x"
    )
    yield from (f"  cut {cut}" for cut in dict.fromkeys(map(str, plan.cuts)))


def _reason(plan: BackwardPlan, x: Tensor) -> str:
    """Why no path leads from x to a y; "" where one does."""
    used = (node.inputs[k] for node in plan.active() for k in plan.wanted[node])
    return "" if x in plan.request.ys or x in used else plan.why(x)


def _counts(plan: BackwardPlan) -> Counter[str]:
    """How many operations have an adjoint, and how many have none for which reason."""
    counts: Counter[str] = Counter()
    active = set(plan.active())
    dependent = set(plan.request.xs)
    for node in plan.nodes:
        is_dependent = any(t in dependent for t in node.inputs)
        if is_dependent:
            dependent.update(node.outputs)
        if node.op.name != "input":
            counts[
                "on a path"
                if node in active
                else "cut off"
                if is_dependent
                else "independent"
            ] += 1
    return counts


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _shape_of(program: Program) -> str:
    """How a kernel is made: its loop nests and library calls."""
    from gradc.schedule.program import Call, Loop, statements

    nests = sum(isinstance(s, Loop) for s in program.body)
    calls = Counter(s.routine for s in statements(program.body) if isinstance(s, Call))
    text = _count(nests, "loop nest")
    if calls:
        text += ", library calls: "
        text += ", ".join(r if n == 1 else f"{r} ({n} times)" for r, n in calls.items())
    return text


def _kernel_lines(kernels: Mapping[str, Scheduled]) -> Iterator[str]:
    yield ""
    yield "kernels (a division counts as 4 flops, exp or log as 10)"
    for name, scheduled in kernels.items():
        program = scheduled.program
        costs = {k: _amount(v) for k, v in _costs(program).items()}
        moved = f"{costs['moved']} (inputs and results: {costs['minimal']})"
        yield f"  {name}: {_shape_of(program)}"
        yield from table_lines(
            [
                ("flops", costs["flops"]),
                ("bytes moved", moved),
                ("memory", f"{costs['memory']} bytes beyond the results"),
            ],
            "    ",
        )
        yield from _decision_lines(scheduled.decisions)


def _decision_lines(made: Decisions) -> Iterator[str]:
    """Which loops there are, how products are computed, what is kept and what is computed again."""
    if made.nests:
        yield "    loops"
        yield from table_lines([(_extents(n), _said(n)) for n in made.nests], "      ")
    if made.products:
        yield "    products"
        rows = [(f"{p.how} ({p.why})", p.statement) for p in made.products]
        yield from table_lines(rows, "      ")
    if made.kept:
        yield "    kept in memory"
        kept = [
            (k.name, _shape(k.dims), f"{_amount(k.bytes)} bytes, {k.why}")
            for k in made.kept
        ]
        yield from table_lines(kept, "      ")
    if made.again:
        yield f"    computed again where it is used: {', '.join(made.again)}"


def _extents(nest: Nest) -> str:
    """`N in blocks of 512 > D`: the loops of a nest by level."""
    levels = [" and ".join(level) for level in nest.levels]
    if nest.blocks:
        levels[0] += f" in blocks of {nest.blocks}"
    return " > ".join(levels)


def _said(nest: Nest) -> str:
    texts = nest.statements
    if len(texts) <= 2:
        return "; ".join(texts)
    return f"{texts[0]}; and {len(texts) - 1} more"


def _shape(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(map(_amount, dims))}]"


def _costs(program: Program) -> dict[str, Dim]:
    from gradc.schedule.cost import cost

    found = cost(program)
    return {
        "flops": found.flops,
        "moved": found.moved,
        "minimal": found.minimal,
        "memory": found.memory,
    }


def _amount(dim: Dim) -> str:
    """A number with its thousands apart, or a polynomial in the sizes."""
    from gradc.types import dim_text

    return f"{dim:,}" if isinstance(dim, int) else dim_text(dim)


def _plain(made: Plan) -> dict[str, Any]:
    gradients: dict[str, Any] = {}
    cuts: list[str] = []
    if made.gradients is not None:
        plan = made.gradients.plan
        for k, x in enumerate(plan.request.xs):
            why = made.gradients.why(k) or None
            gradients[_name(x)] = {"type": str(x.type), "why_none": why}
        cuts = list(dict.fromkeys(map(str, plan.cuts)))
    return {
        "inputs": {t.name: str(t.type) for t in made.graph.inputs},
        "outputs": [o.name for o in made.graph.outputs],
        "gradients": gradients,
        "cuts": cuts,
    }


def _plain_kernels(kernels: Mapping[str, Scheduled]) -> dict[str, Any]:
    return {
        name: {
            **{k: _plain_dim(v) for k, v in _costs(scheduled.program).items()},
            **_plain_decisions(scheduled.decisions),
        }
        for name, scheduled in kernels.items()
    }


def _plain_dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else _amount(dim)


def _plain_decisions(made: Decisions) -> dict[str, Any]:
    return {
        "loops": [
            {"extents": n.levels, "blocks": n.blocks, "statements": n.statements}
            for n in made.nests
        ],
        "products": [
            {"statement": p.statement, "how": p.how, "why": p.why}
            for p in made.products
        ],
        "kept": [
            {
                "name": k.name,
                "dims": [_plain_dim(d) for d in k.dims],
                "bytes": _plain_dim(k.bytes),
                "why": k.why,
            }
            for k in made.kept
        ],
        "again": made.again,
    }

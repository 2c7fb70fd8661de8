"""`gradc verify`: every gradient against central differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradc.cli.options import (
    compile_options,
    data_arguments,
    file_argument,
    gradient_options,
    json_option,
)
from gradc.cli.report import (
    Failed,
    print_json,
    progress,
    show,
    table_lines,
    write_lines,
)
from gradc.errors import GradcError

if TYPE_CHECKING:
    from gradc.verify import Check, Verdict

__all__ = ["command"]


@click.command("verify")
@file_argument
@data_arguments
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="What data and directions are drawn from.",
)
@gradient_options
@compile_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    words: Sequence[str],
    archives: Sequence[str],
    seed: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Check every gradient against central differences.

    In float64, along random directions. DATA is that of `gradc run`; inputs without data are
    drawn: small sizes, indices within their axes. Exits with 1 where a gradient is wrong, or
    where nothing can be told because no draw gives finite values: pass data then.
    """
    from gradc import driver
    from gradc.cli.data import read_data
    from gradc.verify import verify

    ctx.obj["path"] = file
    graph = driver.read(Path(file), driver.options_of(given))
    data = read_data([*archives, *words], graph, partial=True)
    with progress(f"verifying {file}"):
        verdict = verify(graph, data, seed, **{**given, "static": {}})
    problem = _problem(verdict)
    if as_json:
        print_json(_plain(verdict))
    else:
        _print(file, verdict)
    if problem is not None:
        show(problem, as_json, file)
        raise Failed


def _ys(verdict: Verdict) -> str:
    return ", ".join(y.name or y.op.name for y in verdict.request.ys)


def _print(file: str, verdict: Verdict) -> None:
    sizes = ", ".join(f"{s} = {n}" for s, n in verdict.sizes.items())
    drawn = f"; drawn: {', '.join(verdict.drawn)}" if verdict.drawn else ""
    at = f" at {sizes}" if sizes else ""
    title = f"{file}: gradients of {_ys(verdict)}{at}{drawn}"
    write_lines([title, *table_lines([_row(c) for c in verdict.checks], "  ")])


def _row(check: Check) -> tuple[str, ...]:
    first = (check.name, str(check.x.type), check.status)
    if check.status in ("agrees", "wrong"):
        return (*first, f"relative error {check.error:.1e}")
    return (*first, check.reason)


def _problem(verdict: Verdict) -> GradcError | None:
    """The worst finding that does not pass, as an error at the line of its x."""
    wrong = [c for c in verdict.checks if c.status == "wrong"]
    open_ = [c for c in verdict.checks if c.status == "inconclusive"]
    if wrong:
        worst = max(
            wrong, key=lambda c: c.error if math.isfinite(c.error) else math.inf
        )
        others = len(wrong) - 1
        notes = [f"{others} more of {len(verdict.checks)} are wrong"] if others else []
        custom = [
            node.place.span.place_of_line
            for node in verdict.nodes
            if node.op.name == "custom" and node.place.span is not None
        ]
        if custom:
            notes.append(
                f"a custom_gradient lies on the way: {', '.join(dict.fromkeys(custom))}"
            )
        return GradcError(
            f"the gradient of {_ys(verdict)} by {worst.name} is wrong: along a direction it "
            f"gives {worst.gradient:.9g}, central differences give {worst.difference:.9g}",
            code="wrong-gradient",
            location=worst.span,
            notes=notes,
        )
    if open_:
        names = ", ".join(c.name for c in open_)
        return GradcError(
            f"inconclusive for {names}: {open_[0].reason}",
            code="inconclusive",
            location=open_[0].span,
            hint="pass data: --in data.npz",
        )
    return None


def _plain(verdict: Verdict) -> dict[str, Any]:
    def number(value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    return {
        "passed": verdict.passed,
        "sizes": dict(verdict.sizes),
        "drawn": list(verdict.drawn),
        "checks": [
            {
                "x": c.name,
                "type": str(c.x.type),
                "status": c.status,
                "error": number(c.error),
                "gradient": number(c.gradient),
                "difference": number(c.difference),
                "reason": c.reason,
            }
            for c in verdict.checks
        ],
    }

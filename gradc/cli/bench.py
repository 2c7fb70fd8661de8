"""`gradc bench`: how long a graph and its gradients take, beside plain NumPy."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from gradc.cli.options import (
    compile_options,
    data_arguments,
    file_argument,
    gradient_options,
    json_option,
    sizes_option,
)
from gradc.cli.report import (
    Failed,
    UsageProblem,
    print_json,
    progress,
    show,
    table_lines,
    write_lines,
)
from gradc.errors import GradcError

if TYPE_CHECKING:
    from gradc.driver import CompiledModule
    from gradc.graph import Graph, Tensor

__all__ = ["command"]

Data: TypeAlias = "Mapping[Tensor, Any]"

USUAL = (1000, 300, 100, 50, 30, 20, 10)
"""Sizes for symbols that nothing tells, the first that suits."""
MOST = 4_000_000
"""Elements that the largest tensor may have for a size to suit."""
TOLERANCES = {"float16": 0.05, "float32": 1e-3, "complex64": 1e-3}
"""By how much the targets' values may differ, relative to the largest; else 1e-6."""
FEWEST = 5
"""Repetitions, however long they take."""


@dataclass(slots=True)
class Timed:
    """A module of one target: seconds to its source, of the first calls, and of later ones.

    `seconds` has a list an entry point; `results` what the first calls gave.
    """

    module: CompiledModule
    source: float
    first: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    results: dict[str, list[Any]] = field(default_factory=dict)


@click.command("bench")
@file_argument
@data_arguments
@sizes_option
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.0),
    default=2.0,
    show_default=True,
    help="How long to repeat; 5 times at least.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="What data are drawn from.",
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
    sizes: Mapping[str, int],
    seconds: float,
    seed: int,
    as_json: bool,
    **given: Any,
) -> None:
    """Time a graph and its gradients beside plain NumPy.

    DATA is that of `gradc run`; inputs without data are drawn, in the sizes that --sizes names.
    The values are compared with those of the target numpy first, and compiling is timed apart.
    BLAS has one thread in both unless OPENBLAS_NUM_THREADS says more. Exits with 1 where the
    values differ.
    """
    _use_one_thread()
    from gradc import driver
    from gradc.cli.data import read_data

    ctx.obj["path"] = file
    graph = driver.read(Path(file), driver.options_of(given))
    _check_sizes(graph, sizes)
    data = read_data([*archives, *words], graph, partial=True)
    options = {**given, "static": {}}
    with progress(f"compiling {file}"):
        plain = _compiled(graph, {**options, "target": "numpy"})
        feeds, known, drawn = _feeds(graph, plain, data, sizes, seed)
        timed = {"numpy": plain}
        if given["target"] != "numpy":
            timed = {given["target"]: _compiled(graph, options), **timed}
        for one in timed.values():
            _first_calls(one, feeds)
    differences = _differences(timed, graph)
    problem = next((p for _, p in differences.values() if p is not None), None)
    if problem is None:
        with progress(f"timing {file}"):
            _repeat(list(timed.values()), feeds, seconds)
    if as_json:
        print_json(_plain(known, drawn, timed, differences))
    else:
        write_lines(_lines(file, known, drawn, timed, differences))
    if problem is not None:
        show(problem, as_json, file)
        raise Failed


def _use_one_thread() -> None:
    """Give NumPy's BLAS one thread, as emitted modules do, where NumPy is not loaded yet."""
    if "numpy" not in sys.modules:
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")


# ---------------------------------------------------------------------------------- data


def _check_sizes(graph: Graph, sizes: Mapping[str, int]) -> None:
    """UsageProblem for a size of no symbol."""
    from gradc.emit.symbols import symbols_in_order

    symbols = symbols_in_order([t.shape for t in graph.inputs])
    for name in sizes:
        if name not in symbols:
            raise UsageProblem(
                f"--sizes: no dimension is called {name!r}",
                code="unknown-name",
                hint=f"symbols are {', '.join(symbols) or 'none'}",
            )


def _feeds(
    graph: Graph, plain: Timed, data: Data, wanted: Mapping[str, int], seed: int
) -> tuple[dict[Tensor, Any], dict[str, int], list[str]]:
    """Data for all inputs, the sizes of the symbols, and the names of what was drawn.

    Of several draws it is the first whose values and gradients are all finite.
    """
    from gradc.draw import ATTEMPTS, draw
    from gradc.emit.symbols import symbols_in_order
    from gradc.ops.evaluator import bind_sizes

    symbols = symbols_in_order([t.shape for t in graph.inputs])
    known = bind_sizes(graph.inputs, data)
    for name, size in wanted.items():
        if known.get(name, size) != size:
            raise UsageProblem(
                f"--sizes: {name}={size}, and the data have {name} = {known[name]}"
            )
    missing = [t for t in graph.inputs if t not in data and t.attrs.default is None]
    if not missing:
        return dict(data), known, []
    chosen = _sizes(graph, data, wanted)
    reason = ""
    for attempt in range(ATTEMPTS):
        try:
            feeds, sizes = draw(graph, data, seed, attempt, chosen)
            _first_calls(plain, feeds)
        except GradcError as error:
            reason = error.message
            continue
        if all(_is_finite(v) for values in plain.results.values() for v in values):
            ordered = {**{s: sizes[s] for s in symbols}, **sizes}
            return feeds, ordered, [str(t.attrs.name) for t in missing]
        reason = "a value is not finite"
    names = ", ".join(str(t.attrs.name) for t in missing)
    raise GradcError(
        f"no data could be drawn for {names}: {reason}",
        code="inconclusive",
        hint="pass data: --in data.npz",
    )


def _sizes(graph: Graph, data: Data, wanted: Mapping[str, int]) -> dict[str, int]:
    """Sizes for all symbols: those given, and for the others one of the usual sizes, so that no
    tensor is too large; what the graph's facts don't allow is left to `draw`."""
    from gradc.draw import sizes_for
    from gradc.emit.symbols import symbols_in_order
    from gradc.errors import ShapeError
    from gradc.types import evaluate_dim

    symbols = symbols_in_order([t.shape for t in graph.inputs])
    free = [s for s in symbols if s not in wanted and s not in graph.facts.values]
    shapes = [t.shape for node in graph.nodes() for t in node.outputs]
    for usual in USUAL if free else ():
        try:
            sizes = sizes_for(
                graph, data, wanted={**dict.fromkeys(free, usual), **wanted}
            )
        except ShapeError:
            continue
        counts = (math.prod(evaluate_dim(d, sizes) for d in s) for s in shapes)
        if max(counts, default=0) <= MOST:
            return sizes
    return dict(wanted)


def _is_finite(value: Any) -> bool:
    import numpy as np

    return value is None or bool(np.all(np.isfinite(value)))


# -------------------------------------------------------------------------------- timing


def _compiled(graph: Graph, options: Mapping[str, Any]) -> Timed:
    """A module, and how long it took to make or to find it."""
    from gradc import driver

    start = perf_counter()
    module = driver.compile(graph, **options)
    return Timed(module, perf_counter() - start)


def _entries(timed: Timed) -> dict[str, Callable[..., Any]]:
    entries: dict[str, Callable[..., Any]] = {"forward": timed.module.run}
    if timed.module.plan.request is not None:
        entries["gradients"] = timed.module.value_and_gradients
    return entries


def _first_calls(timed: Timed, feeds: Data) -> None:
    """Call each entry point once, which makes or loads the machine code; keeps the results."""
    from gradc.cli.data import called

    start = perf_counter()
    found = {k: called(e, timed.module, feeds) for k, e in _entries(timed).items()}
    timed.first = perf_counter() - start
    timed.results = {"forward": list(found["forward"])}
    if "gradients" in found:
        values, gradients = found["gradients"]
        timed.results["gradients"] = [*values, *gradients]


def _repeat(all_timed: Sequence[Timed], feeds: Data, seconds: float) -> None:
    """Time the entry points of the modules in turn, so that all meet the same machine."""
    calls = []
    for timed in all_timed:
        inputs = timed.module.plan.graph.inputs
        names = dict(zip(inputs, timed.module.INPUTS, strict=True))
        arguments = {names[t]: v for t, v in feeds.items()}
        for name, entry in _entries(timed).items():
            calls.append((entry, arguments, timed.seconds.setdefault(name, [])))
    end = perf_counter() + seconds
    rounds = 0
    while rounds < FEWEST or perf_counter() < end:
        for entry, arguments, found in calls:
            start = perf_counter()
            entry(**arguments)
            found.append(perf_counter() - start)
        rounds += 1


# ---------------------------------------------------------------------------- comparison


def _differences(
    timed: Mapping[str, Timed], graph: Graph
) -> dict[str, tuple[float, GradcError | None]]:
    """By target, how far its values are from those of numpy, and the error where too far."""
    exact = timed["numpy"]
    found: dict[str, tuple[float, GradcError | None]] = {}
    for target, one in timed.items():
        if target == "numpy":
            continue
        worst, problem = 0.0, None
        for (name, value), (_, other) in zip(_named(one), _named(exact), strict=True):
            if value is None or other is None:
                continue
            error = _distance(value, other)
            worst = max(worst, error)
            if error > TOLERANCES.get(str(other.dtype), 1e-6) and problem is None:
                problem = GradcError(
                    f"{name} differs between the targets {target} and numpy: "
                    f"relative difference {error:.1e}",
                    code="targets-differ",
                    hint="gradc verify tells whether the gradients are right",
                )
        found[target] = worst, problem
    return found


def _named(timed: Timed) -> Iterator[tuple[str, Any]]:
    """The results of the first calls with their names."""
    module = timed.module
    names = [*module.Outputs._fields]
    yield from zip(names, timed.results["forward"], strict=True)
    if "gradients" in timed.results:
        ys = module.Values._fields
        xs = [f"the gradient by {x}" for x in module.Gradients._fields]
        yield from zip([*ys, *xs], timed.results["gradients"], strict=True)


def _distance(value: Any, other: Any) -> float:
    """The largest difference relative to the largest number; infinite where NaNs differ."""
    import numpy as np

    if not np.size(other):
        return 0.0
    wide = np.complex128 if other.dtype.kind == "c" else np.float64
    a, b = np.asarray(value).astype(wide), np.asarray(other).astype(wide)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        gap = np.where(same, 0.0, np.abs(a - b))
        scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
        error = float(gap.max() / scale) if scale else float(gap.max())
    return error if not math.isnan(error) else math.inf


# ------------------------------------------------------------------------------- results


def _time(seconds: float) -> str:
    """Seconds in three digits: `1.23 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            break
    number = seconds / scale
    digits = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:.{digits}f} {unit}"


def _lines(
    file: str,
    sizes: Mapping[str, int],
    drawn: Sequence[str],
    timed: Mapping[str, Timed],
    differences: Mapping[str, tuple[float, GradcError | None]],
) -> Iterator[str]:
    title = file
    if sizes:
        title += f" at {', '.join(f'{s} = {n}' for s, n in sizes.items())}"
    if drawn:
        title += f"; drawn: {', '.join(drawn)}"
    yield title
    for target, (error, problem) in differences.items():
        if problem is None:
            yield f"values of {target} and numpy agree: relative difference {error:.1e}"
    if any(problem is not None for _, problem in differences.values()):
        return
    has_gradients = "gradients" in timed["numpy"].seconds
    head = ["", "forward", "min"]
    if has_gradients:
        head += ["gradients", "min", "ratio"]
    rows = [(*head, "repeated")]
    for target, one in timed.items():
        row = [target]
        for found in one.seconds.values():
            row += [_time(median(found)), _time(min(found))]
        if has_gradients:
            row.append(f"{_ratio(one):.2f}")
        rows.append((*row, str(len(one.seconds["forward"]))))
    for target, one in timed.items():
        if target != "numpy":
            faster = _faster(one, timed["numpy"])
            row = [f"numpy / {target}"]
            for factor in faster.values():
                row += [f"{factor:.2f}", ""]
            rows.append(tuple(row))
    yield from table_lines(rows, "  ")
    for target, one in timed.items():
        yield (
            f"compiling for {target}: {_time(one.source)} to the source, "
            f"first calls {_time(one.first)}"
        )
    if not has_gradients:
        yield "the graph asks for no gradients"


def _ratio(timed: Timed) -> float:
    """The time of value and gradients in times of the value alone."""
    return median(timed.seconds["gradients"]) / median(timed.seconds["forward"])


def _faster(timed: Timed, plain: Timed) -> dict[str, float]:
    return {
        name: median(plain.seconds[name]) / median(found)
        for name, found in timed.seconds.items()
    }


def _plain(
    sizes: Mapping[str, int],
    drawn: Sequence[str],
    timed: Mapping[str, Timed],
    differences: Mapping[str, tuple[float, GradcError | None]],
) -> dict[str, Any]:
    """The results for JSON; times are in seconds."""

    def one(target: str, t: Timed) -> dict[str, Any]:
        fields: dict[str, Any] = {"source": t.source, "first_calls": t.first}
        for name, found in t.seconds.items():
            fields[name] = {
                "median": median(found),
                "min": min(found),
                "repeated": len(found),
            }
        if "gradients" in t.seconds:
            fields["ratio"] = _ratio(t)
        if target in differences:
            error, _ = differences[target]
            fields["difference"] = error if math.isfinite(error) else str(error)
            if t.seconds:
                fields["faster_than_numpy"] = _faster(t, timed["numpy"])
        return fields

    return {
        "sizes": dict(sizes),
        "drawn": list(drawn),
        "targets": {target: one(target, t) for target, t in timed.items()},
    }

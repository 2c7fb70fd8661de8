"""`gradc run`: a graph and its gradients, evaluated on data."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gradc.cli.files import check_output, write_file
from gradc.cli.options import (
    compile_options,
    complete_files,
    data_arguments,
    file_argument,
    gradient_options,
    json_option,
)
from gradc.cli.report import (
    UsageProblem,
    print_json,
    progress,
    table_lines,
    write_lines,
)

__all__ = ["command"]


@click.command("run")
@file_argument
@data_arguments
@click.option(
    "-o",
    "output",
    metavar="OUT.npz",
    shell_complete=complete_files,
    help="Where to keep all results.",
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
    output: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Evaluate a graph and its gradients on data.

    DATA is a .npz or .json file with arrays by the names of inputs, or NAME=VALUE, where VALUE
    is a number, a .npy or .json file, FILE.npz:NAME, FILE.json:NAME, or a table: FILE.csv,
    FILE.csv:column or FILE.csv:a,b,c. A number fills an array whose sizes the other data tell.
    Prints scalars, and of arrays their shapes and norms.
    """
    from gradc import driver
    from gradc.cli.data import called, read_data

    ctx.obj["path"] = file
    if output is not None:
        if not output.endswith(".npz"):
            raise UsageProblem(f"-o: expected a .npz file, found {output!r}")
        check_output(Path(output), file)
    options = driver.options_of(given)
    graph = driver.read(Path(file), options)
    data = read_data([*archives, *words], graph)
    with progress(f"compiling {file}"):
        module = driver.compile(graph, **{**given, "static": {}})
        results = called(module.run, module, data)._asdict()
        gradients: dict[str, Any] = {}
        if module.plan.request is not None:
            _, found = called(module.value_and_gradients, module, data)
            gradients = found._asdict()
    if output is not None:
        write_file(Path(output), _archive(results, gradients))
    if as_json:
        print_json(
            {
                "outputs": {k: _plain(v) for k, v in results.items()},
                "gradients": {k: _plain(v) for k, v in gradients.items()},
            }
        )
        return
    rows = [(name, *_described(value)) for name, value in results.items()]
    plan = module.plan.gradients
    for k, (name, value) in enumerate(gradients.items()):
        reason = plan.why(k) if plan is not None else ""
        rows.append((f"gradient by {name}", *_described(value, f"None: {reason}")))
    write_lines(table_lines(rows))


def _described(value: Any, reason: str = "None") -> tuple[str, ...]:
    """A value in a few words: itself, or shape and norm."""
    if value is None:
        return (reason,)
    if not value.shape:
        return (str(value),)
    kind = f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return (kind, f"norm {_norm(value):.6g}") if _is_inexact(value) else (kind,)


def _is_inexact(value: Any) -> bool:
    return str(value.dtype.kind) in "fc"


def _norm(value: Any) -> float:
    """The root of the sum of squares, in float64, without overflow."""
    import numpy as np

    with np.errstate(all="ignore"):
        size = np.abs(value).astype(np.float64).ravel()
        top = float(size.max(initial=0.0))
        if not math.isfinite(top) or top == 0.0:
            return top
        return top * math.sqrt(float(np.sum((size / top) ** 2)))


def _plain(value: Any) -> Any:
    """A value for JSON, which knows no NaN."""
    if value is None:
        return None
    if not value.shape:
        item = value.item()
        if isinstance(item, complex) or (
            isinstance(item, float) and not math.isfinite(item)
        ):
            return str(item)
        return item
    fields: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if _is_inexact(value):
        norm = _norm(value)
        fields["norm"] = norm if math.isfinite(norm) else str(norm)
    return fields


def _archive(results: Mapping[str, Any], gradients: Mapping[str, Any]) -> bytes:
    """The values as a `.npz` file: outputs by name, the gradient by `w` as `grad_w`."""
    import numpy as np

    arrays = {k: v for k, v in results.items() if v is not None}
    for name, value in gradients.items():
        if value is not None:
            key = f"grad_{name}"
            while key in arrays:
                key += "_"
            arrays[key] = value
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()

"""The options that commands share: those of `gradients` by their names, and how to compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gradc.cli.report import UsageProblem

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "compile_options",
    "complete_files",
    "data_arguments",
    "file_argument",
    "gradient_options",
    "json_option",
    "sizes_option",
]

F = TypeVar("F", bound=Callable[..., Any])


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several decorators as one; the first stands first in the help."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def _sizes(
    ctx: click.Context, parameter: click.Parameter, given: Sequence[str]
) -> dict[str, int]:
    """`D=10,K=25` as a dictionary."""
    option = parameter.opts[0]
    sizes: dict[str, int] = {}
    for pair in ",".join(given).split(","):
        name, equals, size = (part.strip() for part in pair.partition("="))
        if not pair.strip():
            continue
        if not equals or not name or not (size.isascii() and size.isdigit()):
            raise UsageProblem(
                f"{option}: expected NAME=SIZE, found {pair.strip()!r}",
                hint=f"{option} D=10,K=25",
            )
        if sizes.setdefault(name, int(size)) != int(size):
            raise UsageProblem(f"{option}: two sizes for {name}")
    return sizes


def complete_files(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Lets the shell complete the name of a file."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


sizes_option = click.option(
    "--sizes",
    multiple=True,
    callback=_sizes,
    metavar="N=SIZE,...",
    help="Sizes of symbols to draw data in.",
)

file_argument = click.argument("file", metavar="FILE", shell_complete=complete_files)

data_arguments = together(
    click.argument(
        "words", nargs=-1, metavar="[DATA]...", shell_complete=complete_files
    ),
    click.option(
        "--in",
        "archives",
        multiple=True,
        metavar="DATA",
        shell_complete=complete_files,
        help="Data; may be repeated.",
    ),
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Results and errors as JSON."
)

gradient_options = together(
    click.option("--ys", metavar="NAMES", help="Tensors to differentiate."),
    click.option("--xs", metavar="NAMES", help="Tensors to differentiate by."),
    click.option(
        "--grad-ys",
        metavar="NAMES",
        help="A tensor of the graph a y, or None for ones.",
    ),
    click.option(
        "--stop-gradients", metavar="NAMES", help="Tensors that no derivative passes."
    ),
    click.option(
        "--unconnected-gradients",
        type=click.Choice(["none", "zero"]),
        help="What an x that reaches no y gets.",
    ),
    click.option(
        "--aggregation-method",
        type=click.Choice(["add_n", "tree", "accumulate_n"]),
        help="How the terms of a tensor's adjoint are summed.",
    ),
    click.option(
        "--gate-gradients/--no-gate-gradients",
        default=None,
        help="Compute all adjoints of an op before any is used.",
    ),
    click.option(
        "--colocate-gradients-with-ops/--no-colocate-gradients-with-ops",
        default=None,
        help="Put the adjoint of an op into the op's section.",
    ),
    click.option(
        "--zero-adjoints",
        type=click.Choice(["strong", "ieee"]),
        help="Whether a zero adjoint times infinity is 0 or NaN.",
    ),
    click.option("--name", help="The scope that adjoints are named in."),
)
"""What the file itself asks for, unless it is given here."""

compile_options = together(
    click.option(
        "--target",
        type=click.Choice(["numba", "numpy"]),
        default="numba",
        show_default=True,
        help="What the module is written for.",
    ),
    click.option(
        "--float",
        type=click.Choice(["float64", "float32", "float16"]),
        default="float64",
        show_default=True,
        help="What `float` means in the file.",
    ),
    click.option(
        "--static",
        multiple=True,
        callback=_sizes,
        metavar="N=SIZE,...",
        help="Sizes of symbols that are known.",
    ),
    click.option(
        "--opt",
        type=click.Choice(["0", "1"]),
        default="1",
        show_default=True,
        callback=lambda ctx, parameter, level: int(level),
        help="0: one loop nest a node, for comparison.",
    ),
)

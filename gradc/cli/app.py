"""The command `gradc`: finds the command asked for, and turns whatever goes wrong into a message.

Exit status: 0 done; 1 the input is wrong or a check failed; 2 the command line is wrong; 70 a
fault of gradc itself; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from gradc import __version__
from gradc.cli.report import Failed, UsageProblem, show
from gradc.errors import (
    GradcError,
    GradcErrors,
    InternalError,
    OptionError,
    SourceError,
    UnsupportedError,
)

__all__ = ["COMMANDS", "LATER", "main", "run"]

COMMANDS = {
    "compile": "Write the gradients of a graph as a Python module.",
    "run": "Evaluate a graph and its gradients on data.",
    "verify": "Check every gradient against central differences.",
    "explain": "Say what is differentiated, what is not and why, and what it costs.",
    "bench": "Time a graph and its gradients beside plain NumPy.",
    "ops": "List the functions of the language, or describe one.",
    "cache": "Show or empty the folder of compiled modules.",
}
"""The commands with their first lines, so that `gradc --help` imports none of them."""

LATER = ("show", "build", "import")
"""Commands that later versions will have."""


COMPLETE = "_GRADC_COMPLETE"
"""The variable by which a shell asks: `bash_source`, `zsh_complete`, ..."""


class _Commands(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = import_module(f"gradc.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in LATER:
            raise UsageProblem(f"the command {name} is not in this version of gradc")
        if name not in COMMANDS:
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            ways = f"did you mean {near[0]}?" if near else f"commands are {_listed()}"
            raise UsageProblem(f"no command {name!r}", hint=ways)
        return super().resolve_command(ctx, args)


def _listed() -> str:
    return ", ".join(COMMANDS)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    subcommand_metavar="COMMAND ...",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="gradc COMMAND --help tells a command's options.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def gradc(ctx: click.Context) -> None:
    """Compile gradients of computational graphs to readable Python source."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(2)


def _invoked(arguments: Sequence[str], context: dict[str, Any]) -> int:
    """Run a command line; click's own `main` would answer for broken pipes."""
    try:
        with gradc.make_context("gradc", list(arguments), obj=context) as ctx:
            gradc.invoke(ctx)
    except click.exceptions.Exit as done:
        return done.exit_code
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run a command line; gives the exit status. All messages go to stderr, as text or JSON."""
    is_json = "--json" in arguments
    debug = bool(os.environ.get("GRADC_DEBUG"))
    context: dict[str, Any] = {}
    try:
        status = _invoked(arguments, context)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except Failed:
        return 1
    except BrokenPipeError:
        # whoever read the output has left; nothing more can be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        show(GradcError("interrupted", code="interrupted"), is_json)
        return 130
    except click.ClickException as error:
        show(_usage(error), is_json)
        return 2
    except GradcError as error:
        if debug and not isinstance(error, UsageProblem):
            _print_traceback()
        if isinstance(error, InternalError):
            show(_internal(error.message), is_json)
            return 70
        show(error, is_json, context.get("path", ""))
        return _status(error)
    except MemoryError:
        show(GradcError("out of memory", code="out-of-memory"), is_json)
        return 1
    except OSError as error:  # a full disk, a limit of the system: no fault of gradc
        what = f"{error.filename}: " if error.filename else ""
        message = f"{what}{error.strerror or error}"
        show(GradcError(message, code="system"), is_json)
        return 1
    except Exception as error:  # noqa: BLE001  (no traceback ever reaches a user)
        if debug:
            _print_traceback()
        show(_internal(f"{type(error).__name__}: {error}"), is_json)
        return 70


def _status(error: GradcError) -> int:
    """2 where the command line asks for what there is not, 1 where a file is wrong."""
    if isinstance(error, GradcErrors) or error.location is not None:
        return 1
    if isinstance(error, SourceError):  # a file that is there may still be bad
        return 2 if error.code == SourceError.default_code else 1
    if isinstance(error, UnsupportedError):  # what a graph asks for, or no .gc file
        return 2 if error.code == "bad-suffix" else 1
    return 2 if isinstance(error, UsageProblem | OptionError) else 1


def _usage(error: click.ClickException) -> UsageProblem:
    """A complaint of click's, in our words."""
    message = error.format_message().rstrip(".")
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help tells the options"
    return UsageProblem(message[:1].lower() + message[1:], hint=hint)


def _internal(what: str) -> InternalError:
    return InternalError(
        f"this is a fault of gradc, not of your file: {' '.join(what.split())}",
        hint="please report it with the file and this command line; "
        "GRADC_DEBUG=1 shows where it happened",
    )


def _print_traceback() -> None:
    import traceback

    traceback.print_exc()


def completed(arguments: str) -> int:
    """Answer a shell that completes a command line, as click does; the exit status."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(gradc, {}, "gradc", COMPLETE, arguments)
    except Exception:  # noqa: BLE001  (a half-written command line may be wrong in any way)
        return 1


def run() -> None:
    """What the shell has asked for."""
    asked = os.environ.get(COMPLETE)
    if asked:
        sys.exit(completed(asked))
    sys.exit(main(sys.argv[1:]))

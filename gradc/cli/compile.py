"""`gradc compile`: a graph to the Python module of its gradients."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gradc.cli.files import check_output, write_files
from gradc.cli.options import (
    compile_options,
    complete_files,
    file_argument,
    gradient_options,
    json_option,
)
from gradc.cli.report import UsageProblem, print_json, progress
from gradc.errors import GradcError

__all__ = ["command"]


@click.command("compile")
@file_argument
@click.option(
    "-o",
    "output",
    required=True,
    metavar="OUT.py",
    shell_complete=complete_files,
    help="The module to write; - for standard output.",
)
@gradient_options
@compile_options
@click.option("--wrap", type=click.Choice(["scipy"]), help="Add objective() for SciPy.")
@click.option("--embed", is_flag=True, help="Large constants into the text as well.")
@click.option(
    "--check", is_flag=True, help="Exit with 1 when OUT.py is stale; write nothing."
)
@click.option(
    "--depfile",
    metavar="OUT.d",
    shell_complete=complete_files,
    help="Where to say, for make, what OUT.py is made from.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    output: str,
    check: bool,
    depfile: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Write the gradients of a graph as a Python module.

    The graph is a .gc file. Constants above 4 KiB go to OUT.npz beside OUT.py. --depfile writes
    a rule of make: OUT.py depends on FILE and on the files that it loads.
    """
    from gradc.driver import emit_module, options_of

    ctx.obj["path"] = file
    options = options_of(given)
    if output == "-":
        if check:
            raise UsageProblem("--check needs a file to look at", hint="-o OUT.py")
        if depfile is not None:
            raise UsageProblem("--depfile needs the name of a file", hint="-o OUT.py")
        with progress(f"compiling {file}"):
            emitted, _ = emit_module(Path(file), options)
        if sys.stdout is not None:
            sys.stdout.buffer.write(emitted.source.encode())  # UTF-8, as files have it
        return
    path = Path(output)
    if not check:
        check_output(path, file)
    if depfile is not None:
        _check_depfile(depfile, output, file, check)
    with progress(f"compiling {file}"):
        emitted, made = emit_module(Path(file), options, path.name)
    files = {path: emitted.source.encode()}
    if emitted.data is not None:
        files = {path.with_suffix(".npz"): emitted.data, **files}
    if check:
        stale = [p for p, content in files.items() if not _holds(p, content)]
        if stale:
            found = "missing"
            if stale[-1].exists():
                why = _reasons(path, emitted.source, file, made.graph.files)
                found = f"stale: {why}" if stale[-1] == path else "stale"
            raise GradcError(
                f"{stale[-1]} is {found}",
                code="stale",
                hint=f"make it again: {_again(file, output, options.arguments())}",
            )
    else:
        _protect_data(path, [p for p in files if p != path])
        if depfile is not None:
            loaded = [os.path.join(os.path.dirname(file), f) for f in made.graph.files]
            rule = f"{_escaped(output)}: {' '.join(map(_escaped, [file, *loaded]))}\n"
            write_files({**files, Path(depfile): os.fsencode(rule)})
        else:
            write_files(files)
    if as_json:
        written = [*map(str, files), *([depfile] if depfile is not None else [])]
        print_json({"source": file, "files": written})


def _check_depfile(depfile: str, output: str, file: str, check: bool) -> None:
    """UsageProblem where no file of dependencies can be written."""
    if check:
        raise UsageProblem("--depfile is written, and --check writes nothing")
    path = Path(depfile)
    check_output(path, file)
    made = (Path(output), Path(output).with_suffix(".npz"))
    if os.path.realpath(path) in map(os.path.realpath, made):
        raise UsageProblem(f"--depfile: {depfile} is written already, for -o")
    for name in (output, file):
        if "\n" in name:
            raise UsageProblem(f"--depfile: make can't name {name!r}")


def _escaped(name: str) -> str:
    """A file's name as it stands in a rule of make; backslashes double before what they escape."""
    name = re.sub(r"(\\*)([ \t#])", r"\1\1\\\2", name)
    return name.replace("$", "$$")


def _again(file: str, output: str, arguments: str) -> str:
    return f"gradc compile {file} -o {output} {arguments}".rstrip()


def _holds(path: Path, content: bytes) -> bool:
    """Whether a file has this content; text may have been checked out with CRLF."""
    try:
        found = path.read_bytes()
    except OSError:
        return False
    return found == content or (
        path.suffix != ".npz" and found.replace(b"\r\n", b"\n") == content
    )


def _reasons(path: Path, new: str, file: str, loaded: Sequence[str]) -> str:
    """Why a module is stale: the graph, gradc or an option is another, or the text itself."""
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    old, now = _made(text), _made(new)
    if not old:
        return "gradc did not write it"
    reasons = []
    if old.get("hash") != now["hash"]:
        reasons.append(f"{file} has changed")
    if old.get("version") != now["version"]:
        reasons.append(
            f"gradc {old.get('version')} made it, and this is {now['version']}"
        )
    if old.get("options") != now["options"]:
        reasons.append("it was made with other options")
    if reasons:
        return "; ".join(reasons)
    changed = [f"{' or '.join(loaded)} has changed"] if loaded else []
    build = f"another build of gradc {now['version']} made it"
    return ", or ".join([*changed, "its text was edited", build])


def _made(text: str) -> dict[str, Any]:
    """The table GRADC of an emitted module; empty where there is none."""
    found = re.search(
        r"^GRADC: dict\[str, Any\] = (\{.*?^\})", text, re.MULTILINE | re.DOTALL
    )
    try:
        made = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        made = {}
    return made if isinstance(made, dict) else {}


def _protect_data(module: Path, files: list[Path]) -> None:
    """UsageProblem where a file of constants would replace one that no earlier module read."""
    for path in files:
        if not path.exists():
            continue
        try:
            text = module.read_bytes()
        except OSError:
            text = b""
        if b"Generated by gradc" not in text or path.name.encode() not in text:
            raise UsageProblem(
                f"{path} is there and {module} did not make it",
                hint="give another name with -o, or keep all constants in the text: --embed",
            )

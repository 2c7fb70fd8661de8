"""`gradc cache`: what is kept of earlier compilations, and where."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from gradc.cli.options import json_option
from gradc.cli.report import (
    Failed,
    UsageProblem,
    print_json,
    table_lines,
    write_lines,
)
from gradc.errors import SourceError

if TYPE_CHECKING:
    from gradc.runtime.cache import Kept, Store

__all__ = ["command"]


@click.group("cache", invoke_without_command=True, subcommand_metavar="COMMAND ...")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show or empty the folder of compiled modules.

    It is `gradc` in the user's cache folder, or GRADC_CACHE_DIR. It holds at most
    GRADC_CACHE_MAX_BYTES, or 1 GiB; what was not used for longest goes first.
    """
    if ctx.invoked_subcommand is None:
        raise UsageProblem("cache: expected list, clear, verify or path")


def _store() -> Store:
    from gradc.runtime.cache import Store

    return Store.of(os.environ)


@command.command("path")
@json_option
def path(as_json: bool) -> None:
    """Print the folder."""
    folder = _store().folder
    if folder is None:
        raise SourceError(
            "there is no home folder", code="no-home", hint="set GRADC_CACHE_DIR"
        )
    if as_json:
        print_json({"path": str(folder)})
    else:
        write_lines([str(folder)])


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List what is kept, the last used first."""
    kept = _store().kept()
    if as_json:
        print_json([_plain(k) for k in kept])
        return
    rows: list[tuple[str, ...]]
    rows = [("graph", "target", "gradc", "bytes", "last used", "where")]
    for k in kept:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(k.used))
        about = [str(k.about.get(w, "-")) for w in ("graph", "target", "version")]
        rows.append((*about, str(k.size), used, k.path.name))
    write_lines(table_lines(rows) if kept else [])
    write_lines([f"{len(kept)} kept, {sum(k.size for k in kept)} bytes"])


@command.command("clear")
@json_option
def clear(as_json: bool) -> None:
    """Delete all that is kept."""
    store = _store()
    before = store.kept()
    gone = [k for k in before if store.delete(k.path)]
    if as_json:
        print_json([_plain(k) for k in gone])
    else:
        write_lines([f"{len(gone)} deleted, {sum(k.size for k in gone)} bytes"])
    if len(gone) < len(before):
        left = next(k.path for k in before if k not in gone)
        raise SourceError(f"{left}: can't be deleted", code="bad-output")


@command.command("verify")
@json_option
def verify(as_json: bool) -> None:
    """Check every file that is kept, and delete what is damaged.

    It is made anew when it is needed. Exits with 1 where there was damage.
    """
    store = _store()
    kept = store.kept()
    problems = store.problems()
    for place, _ in problems:
        store.delete(place)
    if as_json:
        print_json([{"path": str(p), "problem": text} for p, text in problems])
    else:
        write_lines([f"{p}: {text}; deleted" for p, text in problems])
        write_lines([f"{len(kept)} checked, {len(problems)} damaged"])
    if problems:
        raise Failed


def _plain(kept: Kept) -> dict[str, Any]:
    """What is kept, for JSON."""
    return {
        **kept.about,
        "path": str(kept.path),
        "bytes": kept.size,
        "used": round(kept.used, 3),
    }

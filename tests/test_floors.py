"""The floor plan: a file imports from its own folder and from lower floors only."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / "gradc").rglob("*.py"))
FLOORS = {
    "errors": 0,
    "types": 0,
    "graph": 1,
    "write": 1,
    "ops": 2,
    "autodiff": 3,
    "frontends": 4,
    "passes": 4,
    "schedule": 5,
    "emit": 6,
    "runtime": 7,
    "driver": 8,
    "cli": 8,
    "draw": 8,
    "verify": 8,
    "__init__": 8,
    "__main__": 8,
}
HEAVY = ("numba", "llvmlite", "scipy", "numpy", "jinja2", "platformdirs")


def part(path: Path) -> str:
    """The file or folder of gradc/ that stands in the plan."""
    return path.relative_to(ROOT / "gradc").parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and dotted name of each import, but those for type checkers."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            # `from gradc.ops import basic` names a module, `from gradc.types import Dim` none
            yield from (
                (node.lineno, f"{node.module}.{alias.name}") for alias in node.names
            )
        pending += ast.iter_child_nodes(node)


def may_import(own: str, target: str) -> bool:
    """Lower floors, the own folder; files beside each other are in one folder."""
    if own == target or FLOORS[target] < FLOORS[own]:
        return True
    are_files = not any((ROOT / "gradc" / p).is_dir() for p in (own, target))
    is_top = FLOORS[own] == 8
    return FLOORS[target] == FLOORS[own] and (are_files or is_top)


def test_the_plan_forbids_what_it_should() -> None:
    assert may_import("types", "errors") and may_import("cli", "driver")
    assert not may_import("frontends", "passes") and not may_import("ops", "autodiff")
    assert not may_import("graph", "ops") and not may_import("emit", "driver")


def test_every_file_has_a_floor() -> None:
    assert {part(path) for path in FILES} <= set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    own = part(path)
    wrong = []
    for line, name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        package, *rest = name.split(".")
        if package != "gradc":
            continue
        # what is not a part is a name of the package itself, as __version__ is
        target = rest[0] if rest and rest[0] in FLOORS else "__init__"
        if not may_import(own, target):
            wrong.append(f"line {line}: {own} (floor {FLOORS[own]}) imports {name}")
    assert not wrong, "\n".join(wrong)


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that a statement loads in a fresh process, with gradc's own in full."""
    code = f"{statement}\nimport sys\nprint('|'.join(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return set(done.stderr.strip().split("|"))


def test_help_imports_nothing_heavy() -> None:
    loaded = loaded_by("from gradc.cli.app import main; assert main(['--help']) == 0")
    assert "click" in loaded
    assert not loaded & set(HEAVY)
    own = {m for m in loaded if m.startswith("gradc")}
    assert own == {
        "gradc",
        "gradc.cli",
        "gradc.cli.app",
        "gradc.cli.report",
        "gradc.errors",
    }


@pytest.mark.parametrize("command", ["compile", "run", "verify", "explain"])
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    loaded = loaded_by(
        f"from gradc.cli.app import main; assert main([{command!r}, '--help']) == 0"
    )
    assert f"gradc.cli.{command}" in loaded
    assert not loaded & set(HEAVY)


def test_importing_gradc_imports_nothing_heavy() -> None:
    assert not loaded_by("import gradc") & set(HEAVY)


def test_emission_does_not_need_a_compiler() -> None:
    text = "x: float[N]\ny = sum(x * x)\ndifferentiate(y, [x])\nreturn y\n"
    loaded = loaded_by(f"import gradc; assert 'def run' in gradc.emit({text!r})")
    assert "gradc.emit.numba" in loaded
    assert not loaded & {"numba", "llvmlite", "scipy"}

"""Running the scripts of `examples/` as their users do, and finding the modules beside them."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from gradc.cli.app import main

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
REFRESH = "pytest tests/examples --update-golden makes it again"


def check_committed(
    source: Path, update: bool, options: Sequence[str] = ("--wrap", "scipy")
) -> None:
    """The module beside `source` is what gradc makes of it; with `update`, make it so."""
    output = source.with_name(f"{source.stem}_grad.py")
    command = ["compile", str(source), "-o", str(output), *options]
    if update:
        assert main(command) == 0
    assert main([*command, "--check"]) == 0, f"{output.name} is stale; {REFRESH}"


def load_script(folder: Path) -> ModuleType:
    """The folder's fit.py, not run, with the emitted module that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        path = folder / "fit.py"
        spec = importlib.util.spec_from_file_location(f"{folder.name}_fit", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def run_script(folder: Path, cwd: Path) -> list[str]:
    """The lines that fit.py prints, run from some other folder with nothing else on the path."""
    done = subprocess.run(
        [sys.executable, str(folder / "fit.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def imports_of(script: Path) -> set[str]:
    """The modules that a script imports."""
    found = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module)
    return found

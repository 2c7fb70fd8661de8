"""What README.md says, held against what is so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import gradc
from gradc.cli.app import COMMANDS, LATER, main

ROOT = Path(gradc.__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading."""
    _, _, rest = README.partition(f"\n## {title}\n")
    return rest.partition("\n## ")[0]


def blocks(text: str) -> list[str]:
    """The code blocks of a text, of any language."""
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_quick_start_is_two_commands_of_one_line() -> None:
    commands = blocks(section("Quick start"))
    assert len(commands) == 2
    assert all(command.count("\n") == 1 for command in commands)


def test_the_checks_are_the_second_command() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert script.endswith(f"\n\n{blocks(section('Quick start'))[1]}")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_graph_shown_is_the_example() -> None:
    graph = (ROOT / "examples" / "logistic" / "logistic.gc").read_text()
    assert blocks(section("An example"))[0] == graph


def test_the_kernel_shown_is_in_the_committed_module() -> None:
    module = (ROOT / "examples" / "logistic" / "logistic_grad.py").read_text()
    assert blocks(section("An example"))[2] in module


def test_the_commands_shown_are_those_there_are() -> None:
    listed = re.findall(
        r"^gradc (\w+) ", blocks(section("The command line"))[0], re.MULTILINE
    )
    assert listed == list(COMMANDS)
    missing = section("What is there, and what is not").replace("\n  ", " ")
    for name in LATER:
        assert f"`{name}`" in missing


def test_the_sessions_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "examples" / "logistic")
    session = blocks(section("The command line"))[1]
    for part in session.split("$ gradc ")[1:]:
        command, _, expected = part.partition("\n")
        assert main(command.split()) == 0
        rounded = [
            re.sub(r"(\d\.\d{4})\d*(e-\d+)?|\d\.\de-\d+", r"\1", text)
            for text in (capsys.readouterr().out, expected)
        ]
        assert rounded[0] == rounded[1]


def test_the_error_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = blocks(section("The command line"))[2]
    inputs = "X: float[N, D]\nw: float[K]\n"
    Path("model.gc").write_text(f"{inputs}\n\n\n\nz = sigmoid(X @ w)\nreturn z\n")
    assert main(["explain", "model.gc"]) == 1
    assert capsys.readouterr().err.startswith(shown)


def test_the_changelog_has_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(gradc.__version__)}\b", text, re.MULTILINE)

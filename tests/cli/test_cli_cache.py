"""`gradc cache`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from shell import Shell

import gradc as package


@pytest.fixture
def kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own with two modules; the folder of the one used first."""
    monkeypatch.setenv("GRADC_CACHE_DIR", str(folder / "cache"))
    first = package.compile(folder / "squares.gc", target="numpy").path
    assert first is not None
    os.utime(first.with_name("entry"), (1e9, 1e9))
    package.compile("x: float\nreturn x", target="numpy")
    return first.parent


def test_path(gradc: Shell, folder: Path, kept: Path) -> None:
    done = gradc("cache", "path")
    assert (done.status, done.out) == (0, f"{folder / 'cache'}\n")
    plain = json.loads(gradc("cache", "path", "--json").out)
    assert plain == {"path": str(folder / "cache")}


def test_path_without_a_home(gradc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GRADC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    done = gradc("cache", "path")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "error: there is no home folder [no-home]\n  hint: set GRADC_CACHE_DIR\n"
    )
    assert gradc("cache", "list").out == "0 kept, 0 bytes\n"


def test_list(gradc: Shell, kept: Path) -> None:
    size = sum(p.stat().st_size for p in kept.rglob("*") if p.is_file())
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(1e9))
    lines = gradc("cache", "list").out.splitlines()
    assert lines[0].split() == [
        *("graph", "target", "gradc", "bytes", "last", "used", "where")
    ]
    wanted = f"squares numpy {package.__version__} {size} {used} {kept.name}"
    assert lines[2].split() == wanted.split()
    assert lines[3].startswith("2 kept, ")
    rows = json.loads(gradc("cache", "list", "--json").out)
    assert [row["graph"] for row in rows] == ["graph", "squares"]
    assert rows[1]["bytes"] == size and rows[1]["used"] == 1e9
    assert rows[1]["path"] == str(kept) and rows[1]["source"] == "squares.gc"


def test_verify_deletes_what_is_damaged(gradc: Shell, kept: Path) -> None:
    done = gradc("cache", "verify")
    assert (done.status, done.out) == (0, "2 checked, 0 damaged\n")
    entry = kept / "entry"
    entry.write_bytes(entry.read_bytes()[:-1])
    done = gradc("cache", "verify")
    assert (done.status, done.err) == (1, "")
    assert done.out == f"{entry}: damaged; deleted\n2 checked, 1 damaged\n"
    done = gradc("cache", "verify", "--json")
    assert (done.status, json.loads(done.out)) == (0, [])


def test_clear(gradc: Shell, folder: Path, kept: Path) -> None:
    (folder / "cache" / "mine.txt").write_text("kept")
    done = gradc("cache", "clear")
    assert done.status == 0 and done.out.startswith("2 deleted, ")
    assert gradc("cache", "clear", "--json").out == "[]\n"
    assert (folder / "cache" / "mine.txt").read_text() == "kept"


def test_wrong_uses(gradc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    done = gradc("cache")
    assert done.status == 2
    assert done.err == "error: cache: expected list, clear, verify or path [usage]\n"
    assert gradc("cache", "empty").status == 2
    monkeypatch.setenv("GRADC_CACHE_MAX_BYTES", "1 GB")
    done = gradc("cache", "list")
    assert done.status == 2
    assert done.err == (
        "error: GRADC_CACHE_MAX_BYTES: expected a number of bytes, found '1 GB' "
        "[bad-option]\n"
    )

"""A folder to work in and a shell."""

from __future__ import annotations

from pathlib import Path

import pytest
import shell as shells


@pytest.fixture
def folder(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The current folder: empty but for `squares.gc`; compiled modules are kept elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "gradc"))
    monkeypatch.delenv("GRADC_DEBUG", raising=False)
    (tmp_path / "squares.gc").write_text(shells.SQUARES)
    return tmp_path


@pytest.fixture
def gradc(folder: Path, capsys: pytest.CaptureFixture[str]) -> shells.Shell:
    """Runs a command line in the folder."""
    return shells.shell(capsys)

"""Turns between processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from gradc.runtime import lock
from gradc.runtime.lock import turn

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def holder(path: Path, seconds: float) -> int:
    """A process that has its turn, for some time."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        with turn(path):
            os.write(tell, b"1")
            time.sleep(seconds)
        os._exit(0)
    assert os.read(ready, 1) == b"1"
    os.close(ready)
    os.close(tell)
    return child


def test_a_turn_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = holder(path, 0.4)
    began = time.monotonic()
    with turn(path) as has_turn:
        waited = time.monotonic() - began
    assert has_turn and waited > 0.2
    os.waitpid(child, 0)


def test_nobody_waits_for_the_dead(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = holder(path, 60.0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    began = time.monotonic()
    with turn(path) as has_turn:
        assert has_turn and time.monotonic() - began < 5.0


def test_a_turn_ends_though_a_child_was_forked_in_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with turn(path):
        child = os.fork()
        if child == 0:
            time.sleep(60.0)
            os._exit(0)
    try:
        with turn(path, seconds=10.0) as has_turn:
            assert has_turn
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_one_that_hangs_is_not_waited_for_long(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = holder(path, 60.0)
    try:
        began = time.monotonic()
        with turn(path, seconds=0.3) as has_turn:
            assert not has_turn and 0.2 < time.monotonic() - began < 10.0
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_without_locks_all_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turn(tmp_path / "no" / "folder") as has_turn:
        assert not has_turn

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(lock, "import_module", missing)
    with turn(tmp_path / "lock") as has_turn:
        assert not has_turn


def test_errors_inside_a_turn_come_out(tmp_path: Path) -> None:
    for error in (OSError("full"), ImportError("none")):
        with pytest.raises(type(error), match=str(error)), turn(tmp_path / "lock"):
            raise error
    with turn(tmp_path / "lock") as has_turn:
        assert has_turn

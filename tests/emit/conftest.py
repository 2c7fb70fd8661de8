"""The scripts of `bench/`, for tests of the same in small."""

from __future__ import annotations

import faulthandler
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def threads() -> Iterator[ModuleType]:
    """bench/threads.py; a fork that hangs ends the tests."""
    path = ROOT / "bench" / "threads.py"
    spec = importlib.util.spec_from_file_location("bench_threads", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    faulthandler.dump_traceback_later(300, exit=True)
    yield module
    faulthandler.cancel_dump_traceback_later()

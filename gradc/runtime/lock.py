"""Turns between processes: a lock that ends with the process that holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

__all__ = ["turn"]


_held: set[IO[bytes]] = set()


def _give_up() -> None:
    """In a forked child: a turn is that of the parent's thread, and ends with it."""
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up)


@contextmanager
def turn(path: Path, seconds: float = 60.0) -> Iterator[bool]:
    """Have others wait who ask for the same file; True where the wait for them came to an end.

    The system gives the lock up when its holder dies, so nobody waits for a dead process; for
    one that hangs, no longer than `seconds`. Where there are no such locks, all go on at once:
    what they write must be right without. The file is made where it is missing, and stays.
    """
    with ExitStack() as stack:
        has_turn = False
        with suppress(ImportError, OSError):
            fcntl: Any = import_module("fcntl")
            file = stack.enter_context(open(path, "ab"))
            _held.add(file)
            stack.callback(_held.discard, file)
            until = time.monotonic() + seconds
            while not has_turn and time.monotonic() < until:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    has_turn = True
                except BlockingIOError:
                    time.sleep(0.02)
        yield has_turn

"""Running command lines inside the test process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gradc.cli.app import main

SQUARES = """\
\"\"\"Squares.\"\"\"
x: float[N]
s: float = input(2.0)
loss = sum(x**2) * s
differentiate(loss, [x, s])
return loss
"""


@dataclass(frozen=True)
class Done:
    """What a command line gave."""

    status: int
    out: str
    err: str

    @property
    def errors(self) -> Any:
        """The errors that --json told."""
        return json.loads(self.err)["errors"]


Shell = Callable[..., Done]


def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """`shell(capsys)("compile", "a.gc", "-o", "a.py")` runs it."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = main(arguments)
        out, err = capsys.readouterr()
        return Done(status, out, err)

    return run

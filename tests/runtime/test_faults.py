"""The scenarios of bench/cache_faults.py in a small form; the script runs them in full."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="forks, kills and mounts as on Linux"
)


@pytest.mark.parametrize(
    ("scenario", "counts"),
    [
        ("killed", {"processes": 50, "rounds of ten processes": 5}),
        (
            "altered",
            {"bytes edited, by gradc": 10, "bytes edited, on its own": 10},
        ),
        ("full", {"limits on the size of files": 8}),
        ("homes", {"homes": 29}),
        ("versions", {"processes of two versions": 4, "modules written anew": 2}),
    ],
)
def test_every_result_is_right(
    scenario: str, counts: dict[str, int], tmp_path: Path
) -> None:
    script = ROOT / "bench" / "cache_faults.py"
    options = ["--rounds", "5", "--edits", "20", "--quick"]
    done = subprocess.run(
        [sys.executable, str(script), scenario, *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["wrong"] == [] and done.returncode == 0
    assert {name: found["counts"][name] for name in counts} == counts

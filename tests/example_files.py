"""The graphs of `examples/`, each with the sizes that it must be given to be read."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "examples"
FILES = sorted(ROOT.rglob("*.gc"))
SIZES: dict[str, dict[str, int]] = json.loads(
    (ROOT / "bench" / "sizes.json").read_text(encoding="utf-8")
)


def static_sizes(path: Path) -> dict[str, int]:
    """The sizes of symbols that are given where the example at `path` is compiled."""
    return SIZES.get(path.stem, {}) if path.parent.name == "bench" else {}

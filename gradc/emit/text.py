"""Pieces of emitted source: dimensions, types, tables, imports, hidden globals."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from gradc.emit import layout
from gradc.emit.names import quoted
from gradc.types import NAME, WORD, Dim, TensorType, dim_text

__all__ = [
    "Hidden",
    "cost_note",
    "dim_in",
    "literal",
    "renamed",
    "result_type",
    "scalar_name",
    "shape_in",
    "sorted_imports",
    "split_constant",
    "table",
]


class Hidden:
    """Other names of a module's globals, for functions that have a parameter of the same name."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def seen_from(self, parameters: Collection[str]) -> Callable[[str], str]:
        """What a global is called inside a function with these parameters."""

        def spelled(name: str) -> str:
            if name not in parameters:
                return name
            other = self.names.setdefault(name, f"_global_{name.strip('_')}")
            return spelled(other) if other in parameters else other

        return spelled


def cost_note(entry: str, flops: Dim, moved: Dim | None, memory: str) -> str:
    """The sentence of the docstring that says what an entry point costs."""
    name = "value_and_gradients with grad_ys" if entry == "seeded" else entry
    parts = [f"{dim_text(flops)} flops"]
    parts += [] if moved is None else [f"{dim_text(moved)} bytes moved"]
    return f"{name}: {', '.join(parts)}, {memory} beyond the results."


def split_constant(dim: Dim) -> tuple[Dim, int]:
    """`N - 1` as (N, 1): the part with symbols, and what it must reach."""
    if isinstance(dim, int):
        return 0, -dim
    offset = next((c for m, c in dim.terms if m == ()), 0)
    return dim - offset, -offset


def dim_in(dim: Dim, names: Mapping[str, str]) -> str:
    return renamed(dim_text(dim), names)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Python text of dimensions with symbols by their variables' names."""
    alone = rf"(?<!{WORD})(?<![.\"]){NAME}"
    return re.sub(alone, lambda m: names.get(m[0], m[0]), text)


def shape_in(shape: Sequence[Dim], names: Mapping[str, str]) -> str:
    inside = ", ".join(dim_in(d, names) for d in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def scalar_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def result_type(type: TensorType) -> str:
    scalar = f"np.{scalar_name(type.dtype.name)}"
    return f"npt.NDArray[{scalar}]" if type.shape else scalar


def literal(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        inside = ", ".join(map(literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{quoted(k)}: {literal(v)}" for k, v in value.items())
        return "{" + inside + "}"
    return repr(value)


def table(name: str, rows: Mapping[str, Any]) -> list[str]:
    """A dictionary as a statement, a row a line."""
    head = f"{name}: dict[str, Any] = "
    if not rows:
        return [head + "{}"]
    lines = [head + "{"]
    for key, value in rows.items():
        lines += layout.item(quoted(key), literal(value), 4)
    return [*lines, "}"]


def sorted_imports(imports: set[str]) -> list[str]:
    """Import lines in two blocks, the standard library first, `import x` before `from x`."""
    outside = {
        i for i in imports if re.match(r"(import|from) (numpy|scipy|numba)\b", i)
    }

    def key(line: str) -> tuple[bool, str]:
        return line.startswith("from "), line.split()[1].lower()

    blocks = [sorted(imports - outside, key=key)]
    blocks.append(
        sorted(outside | {"import numpy as np", "import numpy.typing as npt"}, key=key)
    )
    return [*blocks[0], "", *blocks[1]]

"""The source text of the functions an emitted module needs, out of the libraries beside this file.

`mathlib` has those of compiled kernels (scalar mathematics, that of complex numbers, and rows
sorted and searched), `arraylib` those of whole-array statements.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradc.errors import InternalError

FILES = {
    "mathlib": ("mathlib.py", "complexlib.py", "rowlib.py"),
    "arraylib": ("../ops/arraylib.py",),  # beside the ops, whose values it computes too
}
REASSOCIATED = frozenset({"_add", "_add_complex"})


@dataclass(frozen=True, slots=True)
class HelperSource:
    """One function of a library.

    `text` is its definition without a final newline, `calls` the other functions it
    uses in file order, `imports` which of `math` and `np` it needs, and `flags` what
    ``njit(fastmath=...)`` must be given.
    """

    name: str
    text: str
    calls: tuple[str, ...]
    imports: frozenset[str]
    flags: frozenset[str]


def closure(names: Iterable[str], library: str = "mathlib") -> list[HelperSource]:
    """The functions of these names and all they call, in file order.

    >>> [helper.name for helper in closure(["_exp"])]
    ['_pow2', '_exp_split', '_ldexp', '_exp']
    """
    helpers = _helpers(library)
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in helpers:
            raise InternalError(f"{library} has no function {name}")
        if name not in needed:
            needed.add(name)
            waiting.extend(helpers[name].calls)
    return [helper for name, helper in helpers.items() if name in needed]


def available(library: str = "mathlib") -> tuple[str, ...]:
    """The names of all functions of the library, in file order."""
    return tuple(_helpers(library))


@cache
def _helpers(library: str) -> dict[str, HelperSource]:
    texts: dict[str, str] = {}
    functions: list[ast.FunctionDef] = []
    for file in FILES[library]:
        source = (Path(__file__).parent / file).read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                functions.append(node)
                texts[node.name] = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    order = list(texts)
    helpers = {}
    for function in functions:
        used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        helpers[function.name] = HelperSource(
            name=function.name,
            text=texts[function.name],
            calls=tuple(n for n in order if n in used and n != function.name),
            imports=frozenset(used & {"math", "np"}),
            flags=_flags(function.name),
        )
    return helpers


def _flags(name: str) -> frozenset[str]:
    if name in REASSOCIATED:
        return frozenset({"reassoc", "contract", "nsz"})
    return frozenset({"contract"})

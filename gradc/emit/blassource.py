"""The source text of the BLAS and LAPACK helpers an emitted module needs, out of blaslib.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradc.errors import InternalError

__all__ = ["BlasHelper", "BlasSource", "available", "closure"]

PLAIN = frozenset(
    {
        "_call",
        "_bind",
        "_address",
        "_numpy_address",
        "_numpy_libraries",
        "_scipy_address",
        "_thread_control",
    }
)
"""Functions that are never compiled."""
GENERIC = PLAIN | {"_pivot", "_permute", "_lu_product"}
"""Functions that serve both dtypes as they are."""
STEMS = "gemm|syrk|gemv|trsm|trsv|potrf|getrf"
ROUTINE = re.compile(rf"_[dszc]({STEMS})")
SINGLE = {"d": "s", "z": "c"}
"""The first letters of routines, and those of their twins in single precision."""
IMPORTS = ("ctypes", "importlib", "math", "np", "pathlib", "Any")
FLAGS = frozenset({"contract"})


@dataclass(frozen=True, slots=True)
class BlasHelper:
    """One function of blaslib.py.

    `text` is its definition without a final newline, `calls` what else of blaslib it
    uses in file order, `imports` which of `IMPORTS` it needs, and `flags` what
    ``njit(fastmath=...)`` must be given.
    """

    name: str
    text: str
    calls: tuple[str, ...]
    imports: frozenset[str]
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class BlasSource:
    """What a module that calls some of the helpers must hold.

    `constants` are lines of text. `helpers` are compiled, with their flags, before what
    calls them; `plain` functions stay as they are. `_bind(globals(), *routines)` comes
    before anything is compiled; `_thread_control(routine)` is for what calls the kernels.
    """

    constants: tuple[str, ...]
    helpers: tuple[BlasHelper, ...]
    plain: tuple[BlasHelper, ...]
    routines: tuple[str, ...]

    @property
    def imports(self) -> frozenset[str]:
        """Which of `IMPORTS` the module needs."""
        used = {"np"} if self.constants else set()
        return frozenset(used.union(*(f.imports for f in self.helpers + self.plain)))


def closure(names: Iterable[str]) -> BlasSource:
    """The helpers and letters of these names with all that they use, in file order.

    >>> source = closure(["_gemm", "_trsm_f32", "_N"])
    >>> [helper.name for helper in source.helpers], source.routines
    (['_gemm', '_trsm_f32'], ('dgemm', 'strsm', 'strsv'))
    """
    pieces, constants = _pieces()
    needed: set[str] = set()
    waiting = list(names)
    if any(name in pieces for name in waiting):
        waiting += ["_bind", "_thread_control"]
    while waiting:
        name = waiting.pop()
        if name not in pieces and name not in constants:
            raise InternalError(f"blaslib has no {name}")
        if name in needed:
            continue
        needed.add(name)
        if name in pieces:
            waiting.extend(pieces[name].calls)
    functions = [piece for name, piece in pieces.items() if name in needed]
    return BlasSource(
        constants=tuple(c for name, c in constants.items() if name in needed),
        helpers=tuple(f for f in functions if not _is_plain(f.name)),
        plain=tuple(f for f in functions if _is_plain(f.name)),
        routines=tuple(f.name[1:] for f in functions if ROUTINE.fullmatch(f.name)),
    )


def available() -> tuple[str, ...]:
    """The names of all helpers that kernels may call, in file order."""
    return tuple(name for name in _pieces()[0] if not _is_plain(name))


def _is_plain(name: str) -> bool:
    return name in PLAIN or ROUTINE.fullmatch(name) is not None


@cache
def _pieces() -> tuple[dict[str, BlasHelper], dict[str, str]]:
    """(functions with their twins for float32, constants), each by name in file order."""
    source = Path(__file__).with_name("blaslib.py").read_text(encoding="utf-8")
    lines = source.splitlines()
    texts: dict[str, str] = {}
    constants: dict[str, str] = {}
    for node in ast.parse(source).body:
        text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
        if isinstance(node, ast.FunctionDef):
            texts[node.name] = text
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = text
    twins = {name: _twin_name(name) for name in texts if name not in GENERIC}
    both: dict[str, str] = {}
    for name, text in texts.items():
        both[name] = text
        if name in twins:
            both[twins[name]] = _single(text, twins)
    known = [*constants, *both]
    pieces = {name: _helper(name, text, known) for name, text in both.items()}
    return pieces, constants


def _twin_name(name: str) -> str:
    if ROUTINE.fullmatch(name):
        return f"_{SINGLE[name[1]]}{name[2:]}"
    if name.endswith("_c128"):
        return name.replace("_c128", "_c64")
    return f"{name}_f32"


def _single(text: str, twins: dict[str, str]) -> str:
    """The text of a function for double precision as that of its twin for single."""
    is_complex = "_c128(" in text
    text = re.sub(r"\w+", lambda word: twins.get(word[0], word[0]), text)
    text = re.sub(rf"\bd({STEMS})\b", r"s\1", text)
    text = re.sub(rf"\bz({STEMS})\b", r"c\1", text)
    text = text.replace("np.float64(", "np.float32(")
    text = text.replace(".view(np.int64)", ".view(np.int32)")
    if is_complex:
        return text.replace("// 16", "// 8")
    return text.replace("// 8", "// 4")


def _helper(name: str, text: str, known: list[str]) -> BlasHelper:
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return BlasHelper(
        name=name,
        text=text,
        calls=tuple(other for other in known if other in used and other != name),
        imports=frozenset(used.intersection(IMPORTS)),
        flags=FLAGS,
    )

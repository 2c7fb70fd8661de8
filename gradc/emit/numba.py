"""Target `numba`: entry points over kernels that Numba compiles at their first call.

The kernels are printed by `numba_kernel` from the Programs that the schedule makes. An entry
allocates its results, borrows one piece of memory for what the kernel keeps meanwhile, and turns
the kernel's status into an error that names the statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gradc.emit import blassource, layout, mathsource
from gradc.emit.constants import Constants
from gradc.emit.names import quoted, words
from gradc.emit.numba_kernel import KernelSource, numba_kernel
from gradc.emit.numpy import Statements
from gradc.emit.text import cost_note, dim_in, shape_in
from gradc.graph import Tensor
from gradc.schedule.cost import cost
from gradc.schedule.lower import Scheduled, schedule
from gradc.schedule.program import Buffer
from gradc.types import DType, dim_text

if TYPE_CHECKING:
    from gradc.emit.module import Entry, Scope

__all__ = ["NumbaTarget"]

LINALG = {
    "cholesky": "the matrix is not positive definite",
}
MODULES = ("contextlib", "importlib", "os", "pickle", "sys", "threading", "time")
"""What `compiled.py.j2` and `machine_code.py.j2` import when the module is."""
SINGULAR = "the matrix is singular"
SAME_ELEMENTS = frozenset({"broadcast", "cast", "copy", "reshape", "transpose"})
"""Ops whose results have no other elements than their operands."""


@dataclass(frozen=True, slots=True)
class CompiledView:
    """Lines of the tables in `compiled.py.j2`.

    `parts` are the functions that kernels call in order, `routines` is the argument text of `_bind`, `routine` that of `_thread_control`;
    `has_complex` says that there are functions of complex numbers among the helpers.
    """

    helpers: tuple[str, ...]
    parts: tuple[str, ...]
    routines: str
    routine: str
    failures: tuple[str, ...]
    has_arena: bool
    has_complex: bool


class NumbaTarget:
    """Kernels of loops. `level` is that of the schedule: 0 makes one nest a node."""

    name = "numba"
    is_compiled = True
    requires = ("numpy>=2.0", "numba>=0.61")

    def __init__(self, level: int = 1) -> None:
        self.level = level
        self.constants = Constants()
        self.kernels: dict[str, tuple[Scheduled, KernelSource]] = {}
        self.aliases: dict[str, str] = {}
        self.failures: list[str] = []
        self.texts = Statements()

    def add(self, entry: Entry, outputs: Sequence[Tensor]) -> None:
        """Schedule an entry's graph and print its kernel."""
        named = {o.tensor: o for o in reversed(entry.graph.outputs)}
        graph = replace(entry.graph, outputs=tuple(named[t] for t in outputs))
        scheduled = schedule(graph, f"_{entry.name}", self.level)
        for t in scheduled.constants.values():
            self.constants.name(t.attrs.value)
        source = numba_kernel(
            scheduled.program, self.annotation, self.alias("float64", 1)
        )
        self.kernels[entry.name] = (scheduled, source)
        if scheduled.failures:
            self.failures.append(f"{quoted(f'_{entry.name}')}: [")
            for failure in scheduled.failures:
                span = failure.node.place.statement
                statement = failure.node.op.name if span is None else self.texts(span)
                kind = "index"
                if failure.kind != "index":
                    kind = LINALG.get(failure.node.op.name, SINGULAR)
                pair = f"({quoted(kind)}, {quoted(statement)})"
                self.failures += layout.item("", pair, 4)
            self.failures.append("],")

    def annotation(self, buffer: Buffer) -> str:
        """The type of a kernel's parameter: `F2`, `float`."""
        if not buffer.dims and buffer.place in ("input", "constant"):
            kind = buffer.dtype.kind
            python = {"b": "bool", "i": "int", "u": "int", "c": "complex"}
            return python.get(kind, "float")
        return self.alias(buffer.dtype.name, len(buffer.dims))

    def alias(self, dtype: str, rank: int) -> str:
        """The module's short name for arrays of a dtype and rank."""
        letters = re.sub(r"\d+", "", dtype)
        letter = {"float": "F", "int": "I", "uint": "U", "bool": "B", "complex": "C"}[
            letters
        ]
        bits = dtype.removeprefix(letters)
        usual = dtype in ("float64", "int64", "bool", "complex128")
        name = f"{letter}{rank}" if usual else f"{letter}{bits}_{rank}"
        scalar = "bool_" if dtype == "bool" else dtype
        self.aliases[name] = f"npt.NDArray[np.{scalar}]"
        return name

    def threads(self, entry: Entry) -> str:
        """What an entry does with its option `threads`."""
        if self.kernels[entry.name][1].routines:
            return "BLAS uses no more, all else one"
        return "all is computed on one thread"

    def call(self, entry: Entry, scope: Scope) -> list[str]:
        """Allocate the results, run the kernel, raise what its status says."""
        scheduled, source = self.kernels[entry.name]
        glob = scope.glob
        np = glob("np")
        lines = [f"if {scope.out} is None:"]
        for name, tensor in zip(scope.results, scope.outputs, strict=True):
            shape = shape_in(tensor.shape, scope.sizes)
            if len(tensor.shape) == 1:
                shape = dim_in(tensor.shape[0], scope.sizes)
            dtype = _dtype_argument(tensor.dtype, np)
            kind = "" if tensor.shape else ": Any"
            lines.append(f"    {name}{kind} = {glob('_empty')}({shape}{dtype})")
        if not scope.results:
            lines.append("    pass")
        arrays = [scope.inputs[k] for k, t in enumerate(entry.graph.inputs) if t.shape]
        inside = ", ".join(arrays) + ("," if len(arrays) == 1 else "")
        flat = f"{glob('_flat')}({scope.out}, {scope.structure})"
        places = f"{glob('_places')}({flat}, {scope.wanted}, ({inside}))"
        targets: list[str] = []
        seen: set[Tensor] = set()
        position = {t: k for k, t in enumerate(scope.outputs)}
        for f in entry.fields:
            if f.tensor is None:
                continue
            new = f.tensor not in seen
            targets.append(
                scope.results[position[f.tensor]] if new else scope.fresh("_again")
            )
            seen.add(f.tensor)
        tail = "," if len(targets) == 1 else ""
        lines.append("else:")
        lines.append(
            f"    {', '.join(targets)}{tail} = {places}" if targets else f"    {places}"
        )
        return lines + self._run(entry, scope, scheduled, source)

    def _run(
        self, entry: Entry, scope: Scope, scheduled: Scheduled, source: KernelSource
    ) -> list[str]:
        glob = scope.glob
        arena = scope.fresh("arena") if source.arena != 0 else ""
        arguments = self._arguments(entry, scope, scheduled, source, arena)
        tail = "," if len(arguments) == 1 else ""
        name = quoted(f"_{entry.name}")
        limit = f", {scope.threads}" if source.routines else ""
        run = f"{glob('_kernel')}({name}, ({', '.join(arguments)}{tail}){limit})"
        lines = []
        if arena:
            size = dim_in(source.arena, scope.sizes)
            lines.append(f"{arena} = {glob('_borrow')}({size})")
        status = scope.fresh("status") if scheduled.failures else ""
        lines.append(f"{status} = {run}" if status else run)
        if arena:
            lines.append(f"{glob('_give_back')}({arena})")
        if status:
            lines.append(f"if {status}:")
            known = self._looked_up(entry, scope, scheduled)
            lines.append(f"    raise {glob('_failure')}({name}, {status}{known})")
        return lines

    def _looked_up(self, entry: Entry, scope: Scope, scheduled: Scheduled) -> str:
        """An argument with the indices (where an input has them), the axis and its size, a failure."""
        if all(f.indices is None for f in scheduled.failures):
            return ""
        inputs = {t: scope.inputs[k] for k, t in enumerate(entry.graph.inputs)}
        texts = []
        for failure in scheduled.failures:
            t = failure.indices
            while t is not None and t.op.name in SAME_ELEMENTS:
                t = t.inputs[0]
            given = "None" if t is None else inputs.get(t, "None")
            size = dim_in(failure.size, scope.sizes)
            texts.append(f"({given}, {failure.axis}, {size})")
        return f", ({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def _arguments(
        self,
        entry: Entry,
        scope: Scope,
        scheduled: Scheduled,
        source: KernelSource,
        arena: str,
    ) -> list[str]:
        """The texts of a kernel's arguments."""
        inputs = {t: scope.inputs[k] for k, t in enumerate(entry.graph.inputs)}
        texts = dict(scope.sizes)
        texts |= {b: inputs[t] for b, t in scheduled.inputs.items()}
        texts |= {
            b: self.constants.name(t.attrs.value)
            for b, t in scheduled.constants.items()
        }
        texts |= dict(zip(scheduled.outputs, scope.results, strict=True))
        return [texts.get(p, arena) for p in source.parameters]

    def _costs(self) -> list[str]:
        """What each entry costs, in terms of the symbols."""
        notes = []
        for name, (scheduled, _) in self.kernels.items():
            found = cost(scheduled.program)
            memory = "no memory"
            if found.memory != 0:
                memory = f"{dim_text(found.memory)} bytes of memory"
            notes.append(cost_note(name, found.flops, found.moved, memory))
        return notes

    def view(self) -> dict[str, Any]:
        """The target's part of the view."""
        whole = [source for _, source in self.kernels.values()]
        sources = [s for source in whole for s in (*source.parts, source)]
        wanted = list(dict.fromkeys(h for s in sources for h in s.helpers))
        helpers = mathsource.closure(wanted)
        routines = list(dict.fromkeys(r for s in sources for r in s.routines))
        blas = blassource.closure(routines)
        imports = {f"import {m}" for m in MODULES}
        imports |= {"from collections.abc import Iterator"}
        used = set().union(*(h.imports for h in helpers), blas.imports)
        used_words = set().union(*(words(s.lines) for s in sources))
        imports |= {f"import {m}" for m in ("ctypes", "importlib", "math") if m in used}
        imports |= {"import math"} if "math" in used_words else set()
        imports |= {"import pathlib"} if "pathlib" in used else set()
        compiled = CompiledView(
            helpers=(
                *(f"{quoted(h.name)}: {_flags(h.flags)}," for h in helpers),
                *(f"{quoted(h.name)}: {_flags(h.flags)}," for h in blas.helpers),
            ),
            parts=tuple(f"{quoted(p.name)}," for s in whole for p in s.parts),
            routines=", ".join(quoted(r) for r in blas.routines),
            routine="".join(quoted(r) for r in blas.routines[:1]),
            failures=tuple(self.failures),
            has_arena=any(s.arena != 0 for s in sources),
            has_complex=any(h.name.endswith("_complex") for h in helpers),
        )
        return {
            "imports": imports,
            "notes": tuple(self._costs()),
            "kernels_title": "kernels",
            "kernels": tuple(s.lines for s in sources),
            "helpers": (
                *blas.constants,
                *(h.text for h in helpers),
                *(h.text for h in (*blas.helpers, *blas.plain)),
            ),
            "has_statement": False,
            "compiled": compiled,
            "aliases": tuple(f"{n} = {t}" for n, t in sorted(self.aliases.items())),
        }


def _flags(flags: frozenset[str]) -> str:
    return "{" + ", ".join(quoted(f) for f in sorted(flags)) + "}"


def _dtype_argument(dtype: DType, np: str) -> str:
    if dtype.name == "float64":
        return ""
    return f", {np}.bool_" if dtype.is_bool else f", {np}.{dtype.name}"

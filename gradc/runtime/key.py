"""What a cache entry is found by: a hash of all that can change an emitted module."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import platform
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradc.errors import Source
from gradc.graph import Attrs, Data, Graph, Node, Place, Tensor, ordered
from gradc.ops.registry import Op
from gradc.types import DType, TensorType

__all__ = ["CacheKey", "fingerprint"]


@dataclass(frozen=True, slots=True)
class CacheKey:
    """All that can change an emitted module or its machine code.

    `graph` is the `fingerprint` of the graph and its options, `compiler` a hash of gradc's own
    files, `cpu` what NumPy knows of the processor.
    """

    graph: str
    compiler: str
    python: str
    numpy: str
    numba: str
    cpu: str

    @classmethod
    def here(cls, graph: str) -> CacheKey:
        """The key of a graph in this process."""
        return cls(
            graph, own_files(), sys.version, np.__version__, _numba_version(), _cpu()
        )

    @property
    def digest(self) -> str:
        """The key as 40 letters."""
        return hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:40]


@functools.cache
def own_files() -> str:
    """A hash of gradc's own files, templates too."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for folder in (package, package.parent / "templates"):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".j2"):
                content = path.read_bytes()
                name = path.relative_to(folder).as_posix()
                digest.update(f"{name} {len(content)} ".encode())
                digest.update(content)
    return digest.hexdigest()


@functools.cache
def _numba_version() -> str:
    """What tells versions of Numba apart, found without importing it; "" where it is absent."""
    spec = importlib.util.find_spec("numba")
    if spec is None:
        return ""
    for folder in spec.submodule_search_locations or ():
        try:
            text = Path(folder, "_version.py").read_bytes()
        except OSError:
            continue
        return hashlib.sha256(text).hexdigest()
    from importlib.metadata import version

    return version("numba")


@functools.cache
def _cpu() -> str:
    """The kind of machine, and the features of its processor that NumPy finds."""
    core: Any = getattr(np, "_core", None)
    known = getattr(getattr(core, "_multiarray_umath", None), "__cpu_features__", {})
    names = [name for name, is_there in sorted(known.items()) if is_there]
    return " ".join([platform.system(), platform.machine(), *names])


# --------------------------------------------------------------------- fingerprints


def fingerprint(graph: Graph, options: Mapping[str, Any]) -> str | None:
    """A hash of all of a graph and of options, whose values may be its tensors.

    Graphs with the same hash have the same text: ops, attributes, constants, names, places and
    source are all in it. None where there is a function in a graph (a custom gradient), of which
    nothing can be told. Takes time linear in the graph's size.
    """
    try:
        return _Printer().hashed(graph, options)
    except _Opaque:
        return None


class _Opaque(Exception):
    """A value that can't be told from others of its class."""


class _Printer:
    """Spells values so that different ones have different texts, in every process the same.

    Nodes and sources are spelled once and then by their numbers.
    """

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self.seen: dict[int, tuple[str, Any]] = {}
        self.sources: list[Source] = []

    def hashed(self, graph: Graph, options: Mapping[str, Any]) -> str:
        digest = hashlib.sha256()
        given = [t for value in options.values() for t in _tensors(value)]
        roots = [*graph.inputs, *graph.roots(), *graph.names.values(), *given]
        for node in ordered(roots):
            names = [t.name for t in node.outputs]
            parts = (node.op, node.inputs, node.attrs, node.types, node.place, names)
            digest.update(f"{self.text(parts)}\n".encode())
            self.nodes[node] = len(self.nodes)
        rest = (
            graph.name,
            graph.inputs,
            graph.outputs,
            graph.request,
            graph.names,
            graph.facts,
            graph.doc,
            graph.source,
            options,
        )
        digest.update(self.text(rest).encode("utf-8", "surrogatepass"))
        for source in self.sources:
            text = f"{source.name!r} {source.text!r}"
            digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def text(self, value: Any) -> str:
        """The spelling of a value; raises _Opaque where it has none."""
        if value is None or isinstance(
            value, bool | int | float | complex | str | bytes
        ):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, Tensor):
            if value.node not in self.nodes:
                raise _Opaque
            return f"%{self.nodes[value.node]}:{value.index}"
        if isinstance(value, Graph):
            return f"Graph {_Printer().hashed(value, {})}"
        if isinstance(value, tuple | list):
            return f"({', '.join(map(self.text, value))})"
        if isinstance(value, Place | TensorType):  # the same ones at many nodes
            found = self.seen.get(id(value))
            if found is None:
                found = self.seen[id(value)] = (self.fields(value), value)
            return found[0]
        if isinstance(value, Mapping | Attrs):
            items = [f"{self.text(k)}: {self.text(v)}" for k, v in value.items()]
            return f"{{{', '.join(items)}}}"
        if isinstance(value, Op | DType):
            return f"{type(value).__name__} {value.name}"
        if isinstance(value, Data):
            return f"Data {value.digest.hex()} {value.origin!r}"
        if isinstance(value, Source):
            if value not in self.sources:
                self.sources.append(value)
            return f"Source {self.sources.index(value)}"
        if isinstance(value, frozenset):
            return f"{{{', '.join(sorted(map(self.text, value)))}}}"
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
            return self.text(Data(value))
        return self.fields(value)

    def fields(self, value: Any) -> str:
        """The spelling of an instance of a dataclass by its fields."""
        if not is_dataclass(value) or isinstance(value, type):
            raise _Opaque
        shown = [f for f in fields(value) if f.init]
        parts = [f"{f.name}={self.text(getattr(value, f.name))}" for f in shown]
        return f"{type(value).__name__}({', '.join(parts)})"


def _tensors(value: Any) -> list[Tensor]:
    """The tensors in the value of an option."""
    listed = value if isinstance(value, tuple | list) else [value]
    return [v for v in listed if isinstance(v, Tensor)]

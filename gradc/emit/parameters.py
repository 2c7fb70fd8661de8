"""The inputs of a module: how each is declared, checked and converted, and what binds the sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradc.emit import layout
from gradc.emit.constants import Constants, number_text
from gradc.emit.names import Namer, quoted
from gradc.emit.numpy import Statements
from gradc.emit.symbols import bindings
from gradc.emit.text import Hidden, dim_in, shape_in, split_constant
from gradc.errors import ShapeError
from gradc.graph import Data, Graph
from gradc.types import Dim, TensorType, dim_text, is_nonnegative, symbol, symbols_of

__all__ = ["Inputs", "Parameter", "parameters_of", "required"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """An input as a parameter: `default` is its text, None for one that must be given.

    A default that is an array is the global `constant`; one that is a number, which fills an
    array, is `number`.
    """

    name: str
    source: str
    type: TensorType
    default: str | None
    constant: str
    number: str

    @property
    def dtype(self) -> str:
        return self.type.dtype.name

    @property
    def is_array(self) -> bool:
        return bool(self.type.shape)

    @property
    def annotation(self) -> str:
        if not self.is_array:
            return {"b": "bool", "i": "int", "u": "int", "c": "complex"}.get(
                self.type.dtype.kind, "float"
            )
        if self.default == "None":
            return "npt.ArrayLike | None"
        return "npt.ArrayLike"

    @property
    def declaration(self) -> str:
        text = f"{self.name}: {self.annotation}"
        return text if self.default is None else f"{text} = {self.default}"


def parameters_of(graph: Graph, constants: Constants) -> list[Parameter]:
    """The graph's inputs as parameters; defaults that are arrays become constants."""
    namer = Namer(())
    found = []
    for t in graph.inputs:
        source = str(t.attrs.name)
        default = t.attrs.default
        text, constant, number = None, "", ""
        if default is not None:
            text = "None"
            array = np.asarray(
                default.array if isinstance(default, Data) else default,
                t.dtype.name,
            )
            if array.ndim == 0 and not t.shape:
                text = number_text(array[()], t.dtype)
            elif array.ndim == 0:
                number = number_text(array[()], t.dtype)
            else:
                constant = constants.name(Data(array))
        name = namer.fresh(source)
        found.append(Parameter(name, source, t.type, text, constant, number))
    return found


def required(graphs: Sequence[Graph]) -> dict[Dim, str]:
    """The dimensions that must not be negative for the graphs' ops to be defined.

    Each with the first statement that needs it, "" where no source has it.
    """
    found: dict[Dim, str] = {}
    texts = Statements()
    for graph in graphs:
        for node in graph.nodes():
            if node.op.requires is not None:
                for d in node.op.requires(node):
                    if d in found or is_nonnegative(d):
                        continue
                    span = node.place.statement
                    found[d] = _short(texts(span)) if span is not None else ""
    return found


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 4].rstrip()} ..."


class Inputs:
    """The inputs of a module and the sizes that follow from them.

    `source_symbols` gives the source's name of a symbol where the module has another. With
    `is_quick` the usual arguments are checked in the function itself: a call of few small arrays
    takes no longer than making its results.
    """

    def __init__(
        self,
        graph: Graph,
        constants: Constants,
        hidden: Hidden,
        source_symbols: Mapping[str, str],
        is_quick: bool,
    ) -> None:
        self.graph = graph
        self.hidden = hidden
        self.source_symbols = source_symbols
        self.is_quick = is_quick
        self.parameters = parameters_of(graph, constants)
        self.names = [p.name for p in self.parameters]
        self.bindings = bindings(
            [() if p.number else p.type.shape for p in self.parameters],
            [p.default is not None for p in self.parameters],
            graph.facts,
        )
        self.symbols = tuple(b.symbol for b in self.bindings)
        told = {s for p in self.parameters for d in p.type.shape for s in symbols_of(d)}
        for s in told - set(self.symbols):
            raise ShapeError(
                f"nothing tells {s}: the default of an input does not have its shape",
                hint=f"give another input the dimension {s}",
            )

    def signature(self) -> list[str]:
        """The parameters as they stand in a `def`: those with defaults by keyword only."""
        items = [p.declaration for p in self.parameters if p.default is None]
        keyword = [p.declaration for p in self.parameters if p.default is not None]
        return [*items, "*", *keyword]

    def function(self, graphs: Sequence[Graph]) -> list[str]:
        """`_inputs`, which checks and converts the arguments, for entries with these graphs."""
        glob = self.hidden.seen_from(self.names)
        namer = Namer(())
        for name in self.names:
            namer.take(name)
        sizes = {s: namer.fresh(s) for s in self.symbols}
        items = [f"{n}: Any" for n in self.names]
        lines = layout.parameters("def _inputs", items, " -> tuple[Any, ...]:")
        lines.append(
            '    """The inputs in their dtypes, then the sizes; raises where they don\'t fit."""'
        )
        body = [
            t for p in self.parameters if not p.number for t in self._converted(p, glob)
        ]
        body += self._bound(sizes, glob)
        for p in self.parameters:
            if p.number:
                dtype = "" if p.dtype == "float64" else f", _{p.dtype}"
                shape = shape_in(p.type.shape, sizes)
                body.append(f"if {p.name} is None:")
                body.append(
                    f"    {p.name} = {glob('np')}.full({shape}, {p.number}{dtype})"
                )
                body += self._converted(p, glob)
        body += self._checked(sizes, glob)
        body += self._told(sizes, glob, graphs)
        listed = [*self.names, *sizes.values()]
        inside = ", ".join(listed) + ("," if len(listed) == 1 else "")
        body.append(f"return {inside}" if listed else "return ()")
        return lines + layout.indented(body)

    def _converted(self, p: Parameter, glob: Callable[[str], str]) -> list[str]:
        """The lines that convert an argument."""
        lines = []
        if p.constant:
            lines = [f"if {p.name} is None:", f"    {p.name} = {glob(p.constant)}"]
        name, dtype = quoted(p.name), f"_{p.dtype}"
        if not p.is_array:
            call = f"{glob('_number')}({name}, {p.name}, {dtype})"
            return [*lines, f"{p.name} = {call}"]
        call = f"{glob('_array')}({name}, {p.name}, {dtype}, {len(p.type.shape)})"
        if not self.is_quick:
            return [*lines, f"{p.name} = {call}"]
        is_usual = (
            f"{glob('type')}({p.name}) is {glob('_ndarray')} "
            f"and {p.name}.dtype is {dtype} and {p.name}.flags.carray"
        )
        return [*lines, f"if not ({is_usual}):", f"    {p.name} = {call}"]

    def _bound(self, sizes: Mapping[str, str], glob: Callable[[str], str]) -> list[str]:
        """The lines that find the sizes of symbols."""
        lines: list[str] = []
        if self.is_quick:
            for k in dict.fromkeys(b.source for b in self.bindings if b.source >= 0):
                p = self.parameters[k]
                lines.append(f"if {p.name}.ndim != {len(p.type.shape)}:")
                lines.append(f"    {self._misfit(p, '{}', glob)}")
        done: set[str] = set()
        for b in self.bindings:
            if b.symbol in done:
                continue
            shape = self.parameters[b.source].type.shape if b.source >= 0 else ()
            whole = {
                x.axis: x.symbol
                for x in self.bindings
                if x.source == b.source and x.whole
            }
            if b.whole and len(whole) == len(shape):
                targets = ", ".join(sizes[whole[k]] for k in range(len(shape)))
                source = self.names[b.source]
                whole_shape = f"{source}.shape"
                if len(shape) == 1:
                    whole_shape = f"{glob('len')}({source})"
                lines.append(f"{targets} = {whole_shape}")
                done |= set(whole.values())
            else:
                lines.append(f"{sizes[b.symbol]} = {b.text(self.names, sizes)}")
        return lines

    def _checked(
        self, sizes: Mapping[str, str], glob: Callable[[str], str]
    ) -> list[str]:
        """The lines that compare shapes with the sizes."""
        lines: list[str] = []
        for k, p in enumerate(self.parameters):
            shape = p.type.shape
            told = {b.axis for b in self.bindings if b.source == k and b.whole}
            if len(told) == len(shape):
                continue
            differs = f"{p.name}.shape != {shape_in(shape, sizes)}"
            if self.is_quick and len(shape) == 1:
                size = f"{glob('len')}({p.name})"
                differs = f"{p.name}.ndim != 1 or {size} != {dim_in(shape[0], sizes)}"
            lines.append(f"if {differs}:")
            lines.append(f"    {self._misfit(p, self._known(shape, sizes), glob)}")
        return lines

    def _misfit(self, p: Parameter, known: str, glob: Callable[[str], str]) -> str:
        return f"raise {glob('_misfit')}({quoted(p.name)}, {p.name}, {known})"

    def _told(
        self,
        sizes: Mapping[str, str],
        glob: Callable[[str], str],
        graphs: Sequence[Graph],
    ) -> list[str]:
        """The lines that check the graph's assertions and what its ops need of the sizes."""
        facts = self.graph.facts
        told: list[tuple[str, str, tuple[Dim, ...]]] = []
        by_fact = {b.symbol for b in self.bindings if b.source < 0}
        for s, value in facts.values.items():
            if s in sizes and s not in by_fact:
                condition = f"{sizes[s]} != {dim_in(value, sizes)}"
                told.append(
                    (condition, f"{s} == {dim_text(value)}", (symbol(s), value))
                )
        for zero in facts.zeros:
            condition = f"{dim_in(zero, sizes)} != 0"
            told.append((condition, f"{dim_text(zero)} == 0", (zero,)))
        for need, statement in required(graphs).items():
            rest, least = split_constant(need)
            condition = f"{dim_in(rest, sizes)} < {least}"
            fact = f"{dim_text(rest)} >= {least}"
            if statement:
                fact += f", which {statement} needs"
            told.append((condition, fact, (need,)))
        lines: list[str] = []
        for condition, fact, dims in told:
            if all(s in sizes for d in dims for s in symbols_of(d)):
                known = self._known(dims, sizes)
                lines.append(f"if {condition}:")
                lines.append(f"    raise {glob('_untrue')}({quoted(fact)}, {known})")
        return lines

    def _known(self, dims: Sequence[Dim], sizes: Mapping[str, str]) -> str:
        """`{"D": (D, "X.shape[1]")}` for the symbols of the dimensions."""
        found = dict.fromkeys(s for d in dims for s in symbols_of(d))
        plain = {s: s for s in self.symbols}
        origin = {b.symbol: b.text(self.names, plain) for b in self.bindings}
        parts = [
            f"{quoted(self.source_symbols.get(s, s))}: ({sizes[s]}, {quoted(origin[s])})"
            for s in found
        ]
        return "{" + ", ".join(parts) + "}"

"""How an emitted module finds the sizes of its dimensions, and dimensions under other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradc.emit import layout
from gradc.emit.names import RESERVED, Namer
from gradc.emit.text import shape_in
from gradc.errors import ShapeError
from gradc.graph import Attrs, Graph, Node, Tensor, ordered
from gradc.types import (
    Dim,
    Facts,
    Poly,
    TensorType,
    substitute,
    symbol,
    symbols_of,
)

__all__ = [
    "Binding",
    "bindings",
    "legal_symbols",
    "put_dims",
    "put_sizes",
    "rename_symbols",
    "retyped",
    "symbols_in_order",
]


@dataclass(frozen=True, slots=True)
class Binding:
    """`symbol` is `(size - rest) // slope` of axis `axis` of input number `source`.

    `whole` says that the axis is the symbol itself; else its dimension must be checked. Without a
    source (-1) the symbol is `rest`, by a fact.
    """

    symbol: str
    source: int
    axis: int = 0
    rest: Dim = 0
    slope: Dim = 1

    @property
    def whole(self) -> bool:
        return self.source >= 0 and self.rest == 0 and self.slope == 1

    def text(self, inputs: Sequence[str], symbols: Mapping[str, str]) -> str:
        """The symbol as an expression, with inputs and symbols by their variables."""
        rest = shape_in((self.rest,), symbols)[1:-2]
        if self.source < 0:
            return rest
        size = f"{inputs[self.source]}.shape[{self.axis}]"
        if self.rest != 0:
            size = f"({size} - ({rest}))"
        if self.slope != 1:
            slope = f"({shape_in((self.slope,), symbols)[1:-2]})"
            size = f"{size} // {slope}"
            size += "" if isinstance(self.slope, int) else f" if {slope} else 0"
        return layout.expression(size)[0]


def symbols_in_order(shapes: Sequence[Sequence[Dim]]) -> tuple[str, ...]:
    """All symbols of the shapes, each once, as they are met."""
    found: dict[str, None] = {}
    for shape in shapes:
        for d in shape:
            found.update(dict.fromkeys(symbols_of(d)))
    return tuple(found)


def bindings(
    shapes: Sequence[Sequence[Dim]], optional: Sequence[bool], facts: Facts
) -> list[Binding]:
    """How each symbol follows from the shapes of the inputs, in the order to do it in.

    A symbol is bound by the first input that shows it alone (inputs that may be left out come
    last), else by one that shows a multiple of it plus known sizes, else by a fact. ShapeError
    where nothing tells it.
    """
    order = sorted(range(len(shapes)), key=lambda k: optional[k])
    found: dict[str, Binding] = {}
    for k in order:
        for axis, d in enumerate(shapes[k]):
            for s in symbols_of(d):
                if d == symbol(s) and s not in found:
                    found[s] = Binding(s, k, axis)
    left = [s for s in symbols_in_order(shapes) if s not in found]
    while left:
        step = _solved(shapes, order, found) or _from_facts(left, facts, found)
        if step is None:
            raise ShapeError(
                f"nothing tells {left[0]}: no input has it as a dimension of its own",
                code="unbound-dimension",
                hint=f"declare an input with the dimension {left[0]}",
            )
        found[step.symbol] = step
        left.remove(step.symbol)
    return list(found.values())


def _solved(
    shapes: Sequence[Sequence[Dim]],
    order: Sequence[int],
    found: Mapping[str, Binding],
) -> Binding | None:
    """The first symbol that a dimension linear in it gives."""
    for k in order:
        for axis, d in enumerate(shapes[k]):
            missing = [s for s in symbols_of(d) if s not in found]
            if len(missing) != 1 or isinstance(d, int):
                continue
            s = missing[0]
            rest = substitute(d, {s: 0})
            slope = substitute(d, {s: 1}) - rest
            if slope != 0 and rest + slope * symbol(s) == d:
                return Binding(s, k, axis, rest, slope)
    return None


def _from_facts(
    left: Sequence[str], facts: Facts, found: Mapping[str, Binding]
) -> Binding | None:
    for s in left:
        value = facts.values.get(s)
        if value is not None and all(x in found for x in symbols_of(value)):
            return Binding(s, -1, rest=value)
    return None


# --------------------------------------------------------------------------- renaming


def legal_symbols(graph: Graph) -> dict[str, str]:
    """New names for the symbols that can't be variables of an emitted module as they are."""
    symbols = symbols_in_order([t.shape for t in graph.inputs])
    namer = Namer(RESERVED)
    legal = [s for s in symbols if _is_legal(s)]
    for s in legal:
        namer.take(s)
    return {s: namer(s, s.strip("_") or "n") for s in symbols if not _is_legal(s)}


def _is_legal(name: str) -> bool:
    return (
        name.isidentifier()
        and name.isascii()
        and not name.startswith("_")
        and name not in RESERVED
        and len(name) <= 40
    )


def put_dims(shape: Sequence[Dim], names: Mapping[str, str]) -> tuple[Dim, ...]:
    """The dimensions with symbols under other names."""
    values: dict[str, Dim] = {old: symbol(new) for old, new in names.items()}
    return tuple(substitute(d, values) for d in shape)


def rename_symbols(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with its symbols under other names; the same graph where `names` is empty."""
    return put_sizes(graph, {old: symbol(new) for old, new in names.items()})


def retyped(graph: Graph, change: Callable[[Any], Any]) -> dict[Tensor, Tensor]:
    """Tensors of new nodes for all of a graph's, with `change` applied to each dimension and
    dtype of their types and to each value of their attributes, also inside tuples."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        if isinstance(value, TensorType):
            shape = tuple(map(change, value.shape))
            return TensorType(change(value.dtype), shape, value.weak)
        return change(value)

    done: dict[Tensor, Tensor] = {}
    for node in ordered([*graph.inputs, *graph.roots(), *graph.names.values()]):
        new = Node(
            node.op,
            tuple(done[t] for t in node.inputs),
            Attrs({k: changed(v) for k, v in node.attrs.items()}),
            tuple(changed(t) for t in node.types),
            node.place,
        )
        for old, fresh in zip(node.outputs, new.outputs, strict=True):
            fresh.name = old.name
            done[old] = fresh
    return done


def put_sizes(graph: Graph, values: Mapping[str, Dim]) -> Graph:
    """The graph with dimensions in the place of symbols, in all shapes and attributes."""
    if not values:
        return graph

    def replaced(value: Any) -> Any:
        return substitute(value, values) if isinstance(value, Poly) else value

    done = retyped(graph, replaced)
    known: dict[str, Dim] = {}
    zeros = [substitute(z, values) for z in graph.facts.zeros]
    for s, d in graph.facts.values.items():
        named = values.get(s, symbol(s))
        (name,) = symbols_of(named) or ("",)
        if named == symbol(name):
            known[name] = substitute(d, values)
        else:
            zeros.append(named - substitute(d, values))
    left = []
    for z in zeros:
        if isinstance(z, int) and z != 0:
            raise ShapeError(
                "these sizes break an assertion of the graph", code="contradiction"
            )
        left += [] if z == 0 else [z]
    return replace(graph.mapped(done), facts=Facts(known, tuple(left)))

"""Loop forms: what the schedule needs to know to turn a node into loops.

A form says how the elements of the result follow from those of the operands, in terms of axes
alone. Axis `k` of a form is axis `k` of the node's result; reduced axes come after those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gradc.types import Dim

__all__ = [
    "Accumulate",
    "Affine",
    "Assemble",
    "Call",
    "Contract",
    "Cumulate",
    "Elementwise",
    "Fill",
    "Form",
    "Gather",
    "Map",
    "Reshape",
    "Scatter",
    "Update",
    "View",
]


@dataclass(frozen=True, slots=True)
class Affine:
    """An index: `offset + sum(step * axis for axis, step in terms)`."""

    offset: Dim = 0
    terms: tuple[tuple[int, Dim], ...] = ()


Map: TypeAlias = "tuple[Affine, ...]"


def axis(k: int, step: Dim = 1, offset: Dim = 0) -> Affine:
    """The index `offset + step * axis k`."""
    return Affine(offset, ((k, step),))


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Element `i` of the result from elements `i` of the operands, by the op's scalar form."""


@dataclass(frozen=True, slots=True)
class Fill:
    """No operands to read element by element: a number, an axis number or a dimension.

    `what` is `value` (attrs.value of the node, an array or a number), `iota` (axis `axis`) or
    `dim` (attrs.value, a Dim).
    """

    what: str
    axis: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """`result[axes] = operand[map]`: transpose, broadcast, slice, flip, diagonal."""

    map: Map


@dataclass(frozen=True, slots=True)
class Reshape:
    """The operand's elements in row-major order, under another shape."""


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Combine the operand's elements over its axes `over` by the elementwise op `combine`:
    `add`, `multiply`, `maximum`, `minimum`, starting from `init`."""

    combine: str
    over: tuple[int, ...]
    init: float


@dataclass(frozen=True, slots=True)
class Contract:
    """A sum of products: labels of the axes of the left and right operand and of the result."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Assemble:
    """Operand k fills `result[offset + step * axis]` (`maps[k]`, over the operand's own axes);
    what no operand reaches is `fill`. `whole` says that the operands tile the result, `adds` that
    several elements may stand in one place, where they are added to the fill."""

    maps: tuple[Map, ...]
    fill: float
    whole: bool
    adds: bool = False


@dataclass(frozen=True, slots=True)
class Update:
    """The first operand, but for `result[maps]` (over the second operand's axes), which is the
    second."""

    map: Map


@dataclass(frozen=True, slots=True)
class Gather:
    """Advanced indexing. Operand 0 is read at the indices in operands 1.. along its `axes`; the
    common shape of the indices (`rank` axes) stands at position `at` of the result, among the
    axes of operand 0 that are not indexed."""

    axes: tuple[int, ...]
    at: int
    rank: int


@dataclass(frozen=True, slots=True)
class Scatter:
    """The transpose of `Gather`: updates (shaped like a gather's result) are written (`set`) into
    the result at the indices in the operands after, or combined with what is there by an
    elementwise op: `add`, `multiply`, `maximum`, `minimum`. The result begins as `init`, or where
    `over` as operand 0, which then stands before the updates."""

    axes: tuple[int, ...]
    at: int
    rank: int
    mode: str
    init: float = 0.0
    over: bool = False


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Running combination along one axis; `reverse` from the end.

    `combine` is an elementwise op, or `recurrence`: element by element the state, from `start`,
    before the step to operand 0 times the state plus operand 1. With `places` there are so many
    states, and operand 2 tells for each index of the axis which one it is.
    """

    combine: str
    axis: int
    reverse: bool
    start: float = 0.0
    places: Dim | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A library routine: `potrf`, `trsm`, `gesv`, ... once a batch item, on the last `core` axes."""

    routine: str
    core: int = 2


Form: TypeAlias = (
    "Elementwise | Fill | View | Reshape | Accumulate | Contract | Assemble | Update | Gather"
    " | Scatter | Cumulate | Call"
)

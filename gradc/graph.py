"""The graph: nodes, tensors, and walks that rebuild it.

A `Node` applies an op to tensors; a `Tensor` is one of its outputs. Both are made once and never
changed; equality is identity. A pass rebuilds the graph through `Graph.rewrite`. All walks are
loops, so that a chain of a hundred thousand nodes needs no deeper stack than one of ten.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradc.errors import Source, Span
from gradc.types import NO_FACTS, DType, Facts, Shape, TensorType

if TYPE_CHECKING:
    from gradc.autodiff.plan import BackwardPlan
    from gradc.ops.registry import Op

__all__ = [
    "Attrs",
    "Data",
    "Graph",
    "Node",
    "Output",
    "Place",
    "Request",
    "Tensor",
    "at",
    "collector_paused",
    "here",
    "label",
    "move",
    "ordered",
    "rebuild",
    "renewed",
    "replace_outputs",
]


# -------------------------------------------------------------------- attributes


class Attrs:
    """The attributes of a node: hashable values, read as `attrs.perm`."""

    __slots__ = ("_hash", "_items")
    _items: dict[str, Any]
    _hash: int | None

    def __init__(self, items: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_items", dict(items))
        object.__setattr__(self, "_hash", None)

    def __getattr__(self, name: str) -> Any:
        try:
            return self._items[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("attrs are never changed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._items.items()

    def as_dict(self) -> dict[str, Any]:
        return dict(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attrs) and self._items == other._items

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(tuple(sorted(self._items.items()))))
        assert self._hash is not None
        return self._hash

    def __repr__(self) -> str:
        return ", ".join(f"{k}={v!r}" for k, v in self._items.items())


NO_ATTRS = Attrs({})


class Data:
    """The value of a constant: a read-only NumPy array that hashes by its bytes.

    `origin` is the text it was written as (`load("w.npz", "W")`) or "".
    """

    __slots__ = ("_digest", "array", "origin")

    def __init__(self, array: Any, origin: str = "") -> None:
        value = np.array(array, order="C", copy=True)
        value.flags.writeable = False
        self.array: np.ndarray[Any, Any] = value
        self.origin = origin
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """sha256 of dtype, shape and bytes."""
        if self._digest is None:
            head = f"{self.array.dtype.str}{self.array.shape}".encode()
            self._digest = hashlib.sha256(head + self.array.tobytes()).digest()
        return self._digest

    def item(self) -> Any:
        """The Python number of a constant with one element."""
        return self.array.item()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Data({self.array.dtype}{self.array.shape})"


# ------------------------------------------------------------------------- places


@dataclass(frozen=True, slots=True)
class Place:
    """Where nodes come from, and what they belong to.

    `span` is the expression, `statement` the whole statement; `section` is the `with section`
    block, `scope` the name of the `gradients` call that made an adjoint node (else ""); `ieee`
    asks for `0 * inf = nan` in the adjoint instead of the strong zero; `seeded` says that the
    call has cotangents of its own, which may be 0 anywhere.
    """

    span: Span | None = None
    statement: Span | None = None
    section: str = ""
    scope: str = ""
    ieee: bool = False
    seeded: bool = False


NOWHERE = Place()
_PLACE: ContextVar[Place] = ContextVar("gradc_place", default=NOWHERE)


def here() -> Place:
    """The place that new nodes get."""
    return _PLACE.get()


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Make nodes at `place` inside the block."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def move(place: Place) -> None:
    """From here to the end of the innermost `at` block, make nodes at `place`."""
    _PLACE.set(place)


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for cyclic garbage inside: building graphs makes little, and the search through a
    large one is most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# ---------------------------------------------------------------- nodes and tensors

OPERATORS: dict[str, Callable[..., Tensor]] = {}
"""What the operators of `Tensor` build; filled by `gradc.ops`."""


class Tensor:
    """Output `index` of `node`. `name` is set at most once, by `label`."""

    __slots__ = ("index", "name", "node", "type")

    node: Node
    index: int
    type: TensorType
    name: str

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self.node = node
        self.index = index
        self.type = type
        self.name = ""

    @property
    def op(self) -> Op:
        return self.node.op

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.node.inputs

    @property
    def attrs(self) -> Attrs:
        return self.node.attrs

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def span(self) -> Span | None:
        return self.node.place.span

    def __repr__(self) -> str:
        pick = f":{self.index}" if len(self.node.outputs) > 1 else ""
        return f"<{self.name or self.node.op.name}{pick} {self.type}>"

    # Operators build nodes through the functions that `gradc.ops` enters in OPERATORS.
    # Comparison by == stays identity, so that tensors can be keys; `ops.functions` has `equal`.

    def __add__(self, other: Any) -> Tensor:
        return OPERATORS["add"](self, other)

    def __radd__(self, other: Any) -> Tensor:
        return OPERATORS["add"](other, self)

    def __sub__(self, other: Any) -> Tensor:
        return OPERATORS["subtract"](self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return OPERATORS["subtract"](other, self)

    def __mul__(self, other: Any) -> Tensor:
        return OPERATORS["multiply"](self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return OPERATORS["multiply"](other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return OPERATORS["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return OPERATORS["divide"](other, self)

    def __pow__(self, other: Any) -> Tensor:
        return OPERATORS["power"](self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return OPERATORS["power"](other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return OPERATORS["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return OPERATORS["matmul"](other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return OPERATORS["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return OPERATORS["floor_divide"](other, self)

    def __mod__(self, other: Any) -> Tensor:
        return OPERATORS["remainder"](self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return OPERATORS["remainder"](other, self)

    def __and__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return OPERATORS["bitwise_xor"](other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return OPERATORS["left_shift"](self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return OPERATORS["left_shift"](other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return OPERATORS["right_shift"](self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return OPERATORS["right_shift"](other, self)

    def __invert__(self) -> Tensor:
        return OPERATORS["invert"](self)

    def __neg__(self) -> Tensor:
        return OPERATORS["negative"](self)

    def __abs__(self) -> Tensor:
        return OPERATORS["absolute"](self)

    def __lt__(self, other: Any) -> Tensor:
        return OPERATORS["less"](self, other)

    def __le__(self, other: Any) -> Tensor:
        return OPERATORS["less_equal"](self, other)

    def __gt__(self, other: Any) -> Tensor:
        return OPERATORS["greater"](self, other)

    def __ge__(self, other: Any) -> Tensor:
        return OPERATORS["greater_equal"](self, other)


class Node:
    """An op applied to tensors. Made by calling the op, or by `rebuild`."""

    __slots__ = ("attrs", "inputs", "op", "outputs", "place")

    op: Op
    inputs: tuple[Tensor, ...]
    attrs: Attrs
    place: Place
    outputs: tuple[Tensor, ...]

    def __init__(
        self,
        op: Op,
        inputs: tuple[Tensor, ...],
        attrs: Attrs,
        types: tuple[TensorType, ...],
        place: Place | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.place = _PLACE.get() if place is None else place
        if len(types) == 1:
            self.outputs = (Tensor(self, 0, types[0]),)
        else:
            self.outputs = tuple(Tensor(self, i, t) for i, t in enumerate(types))

    @property
    def out(self) -> Tensor:
        """The only output."""
        (tensor,) = self.outputs
        return tensor

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple([t.type for t in self.outputs])

    def __repr__(self) -> str:
        return f"<{self.op.name} {', '.join(map(str, self.types))}>"


def label(tensor: Tensor, name: str) -> Tensor:
    """Give a tensor its name, unless it has one; returns it."""
    if not tensor.name:
        tensor.name = name
    return tensor


def ordered(
    roots: Iterable[Tensor], until: frozenset[Tensor] = frozenset()
) -> list[Node]:
    """All nodes that `roots` are computed from, operands first; tensors in `until` end the walk.

    The order depends on the graph's shape and the order of the roots alone.
    """
    seen: set[Node] = set()
    result: list[Node] = []
    for root in roots:
        if root in until or root.node in seen:
            continue
        seen.add(root.node)
        path = [root.node]
        open_inputs = [iter(root.node.inputs)]
        while path:
            for operand in open_inputs[-1]:
                node = operand.node
                if node not in seen and operand not in until:
                    seen.add(node)
                    path.append(node)
                    open_inputs.append(iter(node.inputs))
                    break
            else:
                result.append(path.pop())
                open_inputs.pop()
    return result


def rebuild(node: Node, inputs: tuple[Tensor, ...]) -> Node:
    """`node` on other inputs: the same node where they are the same."""
    return node if inputs == node.inputs else renewed(node, inputs)


def renewed(node: Node, inputs: tuple[Tensor, ...]) -> Node:
    """A new node like `node` on other inputs, with types derived anew where theirs differ; an input
    stays the same."""
    if node.op.name == "input":
        return node
    for a, b in zip(inputs, node.inputs, strict=True):
        if a.type is not b.type and a.type != b.type:
            types = node.op.infer(inputs, node.attrs)
            break
    else:
        types = node.types
    new = Node(node.op, inputs, node.attrs, types, node.place)
    for old, fresh in zip(node.outputs, new.outputs, strict=True):
        fresh.name = old.name
    return new


def replace_outputs(
    node: Node, results: tuple[Tensor, ...], done: dict[Tensor, Tensor]
) -> None:
    """Enter in `done` what stands for a node's outputs; names go over to it."""
    for old, new in zip(node.outputs, results, strict=True):
        if old.name and not new.name:
            new.name = old.name
        done[old] = new


# -------------------------------------------------------------------------- graphs

Rule: TypeAlias = "Callable[[Node], Tensor | tuple[Tensor, ...] | None]"


@dataclass(frozen=True, slots=True)
class Output:
    """One value a graph returns; `tensor` is None for a None gradient, with the reason in `why`."""

    name: str
    tensor: Tensor | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for gradients: SPEC section 2, tensors resolved.

    `grad_ys` has one entry a y, None for ones.
    """

    ys: tuple[Tensor, ...]
    xs: tuple[Tensor, ...]
    grad_ys: tuple[Tensor | None, ...]
    stop_gradients: tuple[Tensor, ...] = ()
    name: str = "gradients"
    colocate_gradients_with_ops: bool = False
    gate_gradients: bool = False
    aggregation_method: str | None = None
    unconnected_gradients: str = "none"
    zero_adjoints: str = "strong"

    def tensors(self) -> Iterator[Tensor]:
        yield from self.ys
        yield from self.xs
        yield from (g for g in self.grad_ys if g is not None)
        yield from self.stop_gradients

    def mapped(self, new: Callable[[Tensor], Tensor]) -> Request:
        return replace(
            self,
            ys=tuple(map(new, self.ys)),
            xs=tuple(map(new, self.xs)),
            grad_ys=tuple(None if g is None else new(g) for g in self.grad_ys),
            stop_gradients=tuple(map(new, self.stop_gradients)),
        )


@dataclass(frozen=True, slots=True)
class Graph:
    """A computation: inputs, named outputs, and (before planning) a request for gradients.

    `names` finds tensors by the names of the source, the newest where a name was rebound; `plans`
    are the backward plans of the `gradients` calls in it, oldest first; `files` are the names of
    the files that were read beside the source.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Output, ...]
    request: Request | None = None
    names: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Facts = NO_FACTS
    doc: str = ""
    source: Source | None = None
    plans: tuple[BackwardPlan, ...] = ()
    files: tuple[str, ...] = ()
    _nodes: list[Node] = field(
        default_factory=list, init=False, compare=False, repr=False
    )

    def roots(self) -> list[Tensor]:
        """What the graph is for: outputs, then the request's tensors."""
        tensors = [o.tensor for o in self.outputs if o.tensor is not None]
        if self.request is not None:
            tensors += self.request.tensors()
        return tensors

    def nodes(self) -> list[Node]:
        """The inputs, then every node that is needed, operands first."""
        if not self._nodes:
            self._nodes.extend(ordered([*self.inputs, *self.roots()]))
        return self._nodes

    def rewrite(self, rules: Mapping[str, Rule]) -> Graph:
        """Rebuild the graph, putting a rule's answer in the place of each node it answers for.

        `rules` go by op name; a rule gets a node whose operands are new already, and gives None
        to leave it alone. Its answer is not offered to the rules again. All nodes but inputs are
        new, so that names which go over to what a rule answers stay out of this graph.
        """
        nodes = self.nodes()
        if all(node.op.name not in rules for node in nodes):
            return self
        done: dict[Tensor, Tensor] = {}
        with at(here()), collector_paused():
            for node in nodes:
                fresh = renewed(node, tuple([done[t] for t in node.inputs]))
                rule = rules.get(node.op.name)
                answer = None
                if rule is not None:
                    move(node.place)
                    answer = rule(fresh)
                if answer is None:
                    results = fresh.outputs
                else:
                    results = answer if isinstance(answer, tuple) else (answer,)
                replace_outputs(node, results, done)
        return self.mapped(done)

    def mapped(self, done: Mapping[Tensor, Tensor]) -> Graph:
        """The same graph over the tensors that `done` gives for its own."""

        def new(tensor: Tensor) -> Tensor:
            return done.get(tensor, tensor)

        return replace(
            self,
            inputs=tuple(map(new, self.inputs)),
            outputs=tuple(
                replace(o, tensor=None if o.tensor is None else new(o.tensor))
                for o in self.outputs
            ),
            request=None if self.request is None else self.request.mapped(new),
            names={name: done[t] for name, t in self.names.items() if t in done},
        )

    def __str__(self) -> str:
        from gradc.write import write

        return write(self)

"""Units: what the schedule puts into loops.

A unit computes one tensor (or part of one) element by element over its axes, reading base tensors
through composed index maps: views (transpose, broadcast, slice, flip, reshape where it is affine)
have no unit of their own, they are part of how a unit reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gradc.errors import InternalError
from gradc.graph import Graph, Node, Tensor
from gradc.ops.basic import copy
from gradc.ops.loops import (
    Accumulate,
    Affine,
    Assemble,
    Call,
    Contract,
    Cumulate,
    Elementwise,
    Fill,
    Gather,
    Reshape,
    Scatter,
    Update,
    View,
    axis,
)
from gradc.ops.shape import permuted
from gradc.schedule.contract import is_windowed, matrix_product
from gradc.types import Dim, Shape, size_of

__all__ = ["WHOLE", "Index", "Lookup", "Read", "Unit", "Units", "is_axis", "make_units"]


class _Whole:
    """The index of a dimension that is read or written as a whole (by a library call)."""

    def __repr__(self) -> str:
        return "WHOLE"


@dataclass(frozen=True, slots=True)
class Lookup:
    """The index of a dimension that array `number` of a gather's or scatter's indices gives."""

    number: int


WHOLE = _Whole()
Index: TypeAlias = "Affine | Lookup | _Whole"
"""Of a dimension: an affine form, or what needs the tensor in memory."""


@dataclass(frozen=True, slots=True)
class Read:
    """A base tensor and, for each of its dimensions, the index in terms of the unit's axes.

    `after` are tensors that must be whole before the read (a gate).
    """

    tensor: Tensor
    index: tuple[Index, ...]
    after: tuple[Tensor, ...] = ()


@dataclass(eq=False, slots=True)
class Unit:
    """One node's work (or one part of it).

    `kind`: `map` (elementwise), `fill` (with `init`), `reduce`, `gather`, `scatter`, `part` (a
    store into part of the result), `cumulate`, `call`. `extents` are its axes, `store` the index of the element it
    sets in `out`, `reduced` the axes it combines over by `combine` from `init`. A call may set
    `more` tensors. A unit that `adds` is one term of a sum in memory that another unit has begun.
    `bound` has the loop variable of each axis so far; where the loop runs over the rows of a
    block, `blocks` has the block's variable.
    """

    node: Node
    kind: str
    out: Tensor
    extents: tuple[Dim, ...]
    store: tuple[Index, ...]
    reads: tuple[Read, ...]
    reduced: frozenset[int] = frozenset()
    combine: str = ""
    init: float = 0.0
    order: int = 0
    more: tuple[tuple[Tensor, tuple[Index, ...]], ...] = ()
    adds: bool = False
    bound: dict[int, str] = field(default_factory=dict)
    blocks: dict[int, str] = field(default_factory=dict)

    def free(self) -> list[int]:
        """The axes that no loop runs over yet."""
        return [k for k in range(len(self.extents)) if k not in self.bound]

    def __repr__(self) -> str:
        return f"<unit {self.kind} {self.out}>"


@dataclass(slots=True)
class Units:
    """All units of a graph in topological order, who writes each tensor, and reshaped storage.

    `alias` maps a tensor that is another one's storage under another shape to that one;
    `outputs` are the tensors that go into output buffers, by name; `windows` the views of windows
    that units lay out as matrices.
    """

    units: list[Unit]
    writers: dict[Tensor, list[Unit]]
    alias: dict[Tensor, Tensor]
    outputs: dict[str, Tensor]
    windows: dict[Unit, Tensor]


def is_axis(index: Index, k: int) -> bool:
    """Whether an index is just axis `k`."""
    return isinstance(index, Affine) and index.offset == 0 and index.terms == ((k, 1),)


def axis_in(index: Index) -> int | None:
    """The axis an index is, or None where it is more than an axis."""
    if isinstance(index, Affine) and index.offset == 0 and len(index.terms) == 1:
        k, step = index.terms[0]
        return k if step == 1 else None
    return None


Line: TypeAlias = "tuple[Dim, Dim]"
"""Offset and step of an index over one axis."""


def line_of(index: Index, k: int) -> Line | None:
    """The line over axis `k` that an index is on, None where it is another or more than an axis."""
    if isinstance(index, Affine) and len(index.terms) == 1 and index.terms[0][0] == k:
        return index.offset, index.terms[0][1]
    return None


def axis_on(index: Index, line: Line) -> int | None:
    """The axis of an index that is on this line over it, else None."""
    if isinstance(index, Affine) and len(index.terms) == 1:
        k, step = index.terms[0]
        return k if (index.offset, step) == line else None
    return None


def identity(ndim: int) -> tuple[Affine, ...]:
    """The map that reads element `i` at `i`."""
    return tuple(axis(k) for k in range(ndim))


def compose(outer: Sequence[Affine], inner: Sequence[Index]) -> tuple[Index, ...]:
    """`outer` (over the axes of a view's result) read at `inner` (the index into that result)."""
    result: list[Index] = []
    for affine in outer:
        offset, terms = affine.offset, dict[int, Dim]()
        whole: Index | None = None
        for k, step in affine.terms:
            at = inner[k]
            if not isinstance(at, Affine):
                whole = at
                if step != 1 or len(affine.terms) > 1 or affine.offset != 0:
                    raise NotAffine
                continue
            offset = offset + step * at.offset
            for a, s in at.terms:
                terms[a] = terms.get(a, 0) + step * s
        if whole is not None:
            result.append(whole)
        else:
            kept = tuple((a, s) for a, s in sorted(terms.items()) if s != 0)
            result.append(Affine(offset, kept))
    return tuple(result)


def compose_index(outer: Sequence[Index], inner: Sequence[Index]) -> tuple[Index, ...]:
    """The index a unit reads at, when its own axes are at `inner`."""
    return compose([i for i in outer if isinstance(i, Affine)], inner)


class NotAffine(Exception):
    """A view that can't be part of a read: its operand is stored, then read under its new shape."""


def reshape_index(
    base: Shape, result: Shape, index: Sequence[Index]
) -> tuple[Index, ...]:
    """The index into `base` of the element that `index` picks in its reshape to `result`.

    Raises NotAffine where axes of `base` are merged into one of `result`.
    """
    found: list[Index] = []
    k = 0
    for d in base:
        if d == 1:
            found.append(Affine())
            continue
        while k < len(result) and result[k] == 1:
            k += 1
        if k < len(result) and result[k] == d:
            found.append(index[k])
            k += 1
            continue
        group: list[int] = []
        total: Dim = 1
        while k < len(result) and total != d:
            group.append(k)
            total = total * result[k]
            k += 1
        if total != d:
            raise NotAffine
        merged, stride = Affine(), 1
        flat: Dim = 0
        terms: dict[int, Dim] = {}
        step: Dim = stride
        for g in reversed(group):
            at = index[g]
            if not isinstance(at, Affine):
                raise NotAffine
            flat = flat + step * at.offset
            for a, s in at.terms:
                terms[a] = terms.get(a, 0) + step * s
            step = step * result[g]
        merged = Affine(flat, tuple(sorted(terms.items())))
        found.append(merged)
    if any(result[j] != 1 for j in range(k, len(result))):
        raise NotAffine
    return tuple(found)


def _sums(graph: Graph) -> dict[Tensor, Tensor]:
    """The terms of adjoint sums that are themselves accumulated: each term with its sum.

    A reduction, contraction, scatter or placed slice that is used by one `add_n` alone adds
    straight into that sum's memory.
    """
    uses: dict[Tensor, int] = {}
    nodes = graph.nodes()
    for node in nodes:
        for t in node.inputs:
            uses[t] = uses.get(t, 0) + 1
    for o in graph.outputs:
        if o.tensor is not None:
            uses[o.tensor] = uses.get(o.tensor, 0) + 2
    found: dict[Tensor, Tensor] = {}
    for node in nodes:
        if node.op.name != "add_n" or not node.out.ndim:
            continue
        if node.attrs.method not in ("", "accumulate_n"):
            continue  # the caller's order of summation stands
        for t in node.inputs:
            if (
                uses[t] == 1
                and _accumulates(t)
                and t.node.place.section == node.place.section
            ):
                found[t] = node.out
    return found


def _accumulates(tensor: Tensor) -> bool:
    form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
    if isinstance(form, Accumulate):
        return form.combine == "add"
    if isinstance(form, Assemble):
        return form.fill == 0 and len(form.maps) == 1
    if isinstance(form, Scatter):
        return form.mode == "add"
    return isinstance(form, Contract) and any(v not in form.out for v in form.lhs)


class _Maker:
    def __init__(self, graph: Graph, apart: frozenset[Tensor]) -> None:
        self.graph = graph
        self.apart = apart
        self.units: list[Unit] = []
        self.writers: dict[Tensor, list[Unit]] = {}
        self.alias: dict[Tensor, Tensor] = {}
        self.copies: dict[Tensor, Tensor] = {}
        self.turned: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}
        self.windows: dict[Unit, Tensor] = {}
        self.sums = _sums(graph)

    def add(
        self,
        node: Node,
        kind: str,
        extents: Shape,
        operands: Sequence[tuple[Tensor, Sequence[Index]]],
        *,
        store: tuple[Index, ...] | None = None,
        reduced: Sequence[int] = (),
        combine: str = "",
        init: float = 0.0,
    ) -> Unit:
        out = node.outputs[0]
        adds = out in self.sums and kind != "fill"
        out = self.sums.get(out, out)
        unit = Unit(
            node=node,
            kind=kind,
            out=out,
            extents=extents,
            store=identity(len(out.shape)) if store is None else store,
            reads=tuple(self.read(t, index) for t, index in operands),
            reduced=frozenset(reduced),
            combine=combine,
            init=init,
            order=len(self.units),
            adds=adds,
        )
        self.units.append(unit)
        self.writers.setdefault(out, []).append(unit)
        return unit

    # ------------------------------------------------------------------- reads

    def read(self, tensor: Tensor, index: Sequence[Index]) -> Read:
        """Follow views from `tensor` down to a tensor that is stored or computed."""
        at = tuple(index)
        after: tuple[Tensor, ...] = ()
        while tensor not in self.writers and tensor not in self.alias:
            node = tensor.node
            if node.op.name == "gate":
                # an identity whose users wait for all operands
                after += tuple(
                    self.read(t, identity(t.ndim)).tensor for t in node.inputs
                )
                tensor = node.inputs[tensor.index]
                continue
            form = node.op.form(node) if node.op.form is not None else None
            operand = node.inputs[0] if node.inputs else None
            try:
                if isinstance(form, View):
                    assert operand is not None
                    at = compose(form.map, at)
                elif isinstance(form, Reshape):
                    assert operand is not None
                    at = reshape_index(operand.shape, tensor.shape, at)
                else:
                    break
            except NotAffine:
                self.store_view(tensor, form)
                break
            tensor = operand
        return Read(tensor, at, after)

    def store_view(self, tensor: Tensor, form: object) -> None:
        """Give a view storage: reshaped storage of its operand's, or a copy."""
        if tensor in self.alias or tensor in self.writers:
            return
        operand = tensor.node.inputs[0]
        if isinstance(form, Reshape):
            self.alias[tensor] = self.stored(operand)
        else:
            ndim = tensor.ndim
            self.add(
                tensor.node,
                "map",
                tensor.shape,
                [(operand, compose_view(tensor, ndim))],
            )

    def stored(self, tensor: Tensor) -> Tensor:
        """A tensor with the same values that has storage of its own."""
        if tensor in self.writers or tensor in self.alias:
            return tensor
        node = tensor.node
        if node.op.name == "input" and tensor.ndim:
            return tensor
        if node.op.name == "constant" and tensor.ndim:
            return tensor
        if tensor not in self.copies:
            fresh = copy(tensor)
            self.copies[tensor] = fresh
            self.add(fresh.node, "map", tensor.shape, [(tensor, identity(tensor.ndim))])
        return self.copies[tensor]

    def laid_out(
        self, tensor: Tensor, labels: Sequence[int], order: Sequence[int]
    ) -> Tensor:
        """A factor of a library's product, its axes in this order.

        Windows are many times as large as what they are made of: those that are `apart` are laid
        out for each product anew, so that they need not last from one to the next.
        """
        perm = tuple(labels.index(v) for v in order)
        turned = self.turned.setdefault((tensor, perm), permuted(tensor, perm))
        if not is_windowed(tensor):
            return self.stored(turned)
        if turned not in self.copies or tensor in self.apart:
            fresh = copy(turned)
            self.copies[turned] = fresh
            same = identity(turned.ndim)
            unit = self.add(fresh.node, "map", turned.shape, [(turned, same)])
            self.windows[unit] = tensor
        return self.copies[turned]

    # ------------------------------------------------------------------- nodes

    def visit(self, node: Node) -> None:
        """The units of one node; views, fills and inputs have none."""
        form = node.op.form(node) if node.op.form is not None else None
        out = node.outputs[0]
        same = identity(out.ndim)
        if node.op.name in ("input", "gate") or isinstance(form, View | Reshape | Fill):
            return
        if node.op.name == "add_n" and node.attrs.method == "accumulate_n" and out.ndim:
            # one buffer, to which each term is added as soon as it is there
            if out not in self.writers:
                self.add(node, "fill", out.shape, [], init=0.0)
            for t in node.inputs:
                if self.sums.get(t) is not out:
                    self.add(node, "map", out.shape, [(t, same)]).adds = True
        elif out in self.sums.values():
            # its accumulated terms are written already; the others are added at the end
            rest = [t for t in node.inputs if self.sums.get(t) is not out]
            if rest:
                self.add(node, "map", out.shape, [(t, same) for t in rest]).adds = True
        elif isinstance(form, Elementwise):
            self.add(node, "map", out.shape, [(t, same) for t in node.inputs])
        elif isinstance(form, Accumulate):
            self.reduction(node, form)
        elif isinstance(form, Contract):
            self.contraction(node, form)
        elif isinstance(form, Assemble):
            if out in self.sums:
                self.begin(node)
            elif not form.whole:
                self.add(node, "fill", out.shape, [], init=form.fill)
            for operand, where in zip(node.inputs, form.maps, strict=True):
                unit = self.add(
                    node,
                    "part",
                    operand.shape,
                    [(operand, identity(operand.ndim))],
                    store=where,
                )
                unit.adds = unit.adds or form.adds
        elif isinstance(form, Update):
            value = node.inputs[1]
            self.add(node, "part", out.shape, [(node.inputs[0], same)])
            self.add(
                node,
                "part",
                value.shape,
                [(value, identity(value.ndim))],
                store=form.map,
            )
        elif isinstance(form, Gather):
            self.gather(node, form)
        elif isinstance(form, Scatter):
            self.scatter(node, form)
        elif isinstance(form, Cumulate):
            operands = [(t, same) for t in node.inputs]
            if form.places is not None:
                operands[-1] = (node.inputs[-1], (axis(form.axis),))
            self.add(
                node,
                "cumulate",
                out.shape,
                operands,
                combine=form.combine,
                init=form.start,
            )
        elif isinstance(form, Call):
            self.call(node, form.core)
        else:
            raise InternalError(f"{node.op.name} has no loop form")

    def begin(self, node: Node) -> None:
        """Set a sum in memory to 0 before its first term; its other terms find it begun."""
        out = self.sums.get(node.outputs[0])
        if out is not None and out not in self.writers:
            self.add(node, "fill", out.shape, [], init=0.0)

    def reduction(self, node: Node, form: Accumulate) -> None:
        x = node.inputs[0]
        kept = [k for k in range(x.ndim) if k not in form.over]
        order = [*kept, *form.over]
        place = {k: i for i, k in enumerate(order)}
        self.begin(node)
        self.add(
            node,
            "reduce",
            tuple(x.shape[k] for k in order),
            [(x, tuple(axis(place[k]) for k in range(x.ndim)))],
            store=identity(len(kept)),
            reduced=range(len(kept), x.ndim),
            combine=form.combine,
            init=form.init,
        )

    def contraction(self, node: Node, form: Contract) -> None:
        a, b = node.inputs
        sizes: dict[int, Dim] = {}
        for labels, t in ((form.lhs, a), (form.rhs, b)):
            sizes.update(zip(labels, t.shape, strict=True))
        product = matrix_product(node)
        if product is not None:
            loops = (*product.batch, *product.repeated)
            place = {label: k for k, label in enumerate(loops)}

            def index(labels: Sequence[int]) -> tuple[Index, ...]:
                return tuple(axis(place[v]) if v in place else WHOLE for v in labels)

            out = self.sums.get(node.out, node.out)
            operands = [
                (self.laid_out(t, labels, order), index(order))
                for t, labels, order in (
                    (a, form.lhs, product.lhs),
                    (b, form.rhs, product.rhs),
                )
            ]
            first = out not in self.writers
            if product.repeated and first:
                self.add(node, "fill", out.shape, [], init=0.0)
                first = False
            unit = self.add(
                node,
                "call",
                tuple(sizes[v] for v in loops),
                operands,
                store=index(form.out),
                reduced=range(len(product.batch), len(loops)),
            )
            unit.adds = not first  # the first product of a sum sets it
            return
        inner = [v for v in dict.fromkeys((*form.lhs, *form.rhs)) if v not in form.out]
        order = [*form.out, *inner]
        place = {label: k for k, label in enumerate(order)}
        self.begin(node)
        self.add(
            node,
            "reduce" if inner else "map",
            tuple(sizes[v] for v in order),
            [
                (t, tuple(axis(place[v]) for v in labels))
                for t, labels in ((a, form.lhs), (b, form.rhs))
            ],
            store=identity(len(form.out)),
            reduced=range(len(form.out), len(order)),
            combine="add",
        )

    def gather(self, node: Node, form: Gather) -> None:
        x, *indices = node.inputs
        out = node.out
        middle = range(form.at, form.at + form.rank)
        free = [k for k in range(out.ndim) if k not in middle]
        rest = iter(free)
        index: list[Index] = [
            Lookup(form.axes.index(k)) if k in form.axes else axis(next(rest))
            for k in range(x.ndim)
        ]
        lookups = [(t, tuple(axis(k) for k in middle)) for t in indices]
        self.add(node, "gather", out.shape, [(x, index), *lookups])

    def scatter(self, node: Node, form: Scatter) -> None:
        out = node.out
        first = 2 if form.over else 1
        updates = node.inputs[first - 1]
        middle = range(form.at, form.at + form.rank)
        rest = iter([k for k in range(updates.ndim) if k not in middle])
        store: tuple[Index, ...] = tuple(
            Lookup(form.axes.index(k)) if k in form.axes else axis(next(rest))
            for k in range(out.ndim)
        )
        if out in self.sums:
            self.begin(node)
        elif form.over:
            self.add(node, "part", out.shape, [(node.inputs[0], identity(out.ndim))])
        else:
            self.add(node, "fill", out.shape, [], init=form.init)
        lookups = [(t, tuple(axis(k) for k in middle)) for t in node.inputs[first:]]
        self.add(
            node,
            "scatter",
            updates.shape,
            [(updates, identity(updates.ndim)), *lookups],
            store=store,
            combine="" if form.mode == "set" else form.mode,
        )

    def call(self, node: Node, core: int) -> None:
        """A library call: its batch axes are loop axes, the last `core` are the routine's."""
        batch = max(node.inputs[0].ndim - core, 0)
        whole = [self.stored(t) for t in node.inputs]
        reads = [
            (t, tuple(axis(k) if k < batch else WHOLE for k in range(t.ndim)))
            for t in whole
        ]
        stores = [
            tuple(axis(k) if k < batch else WHOLE for k in range(t.ndim))
            for t in node.outputs
        ]
        unit = self.add(
            node, "call", node.outputs[0].shape[:batch], reads, store=stores[0]
        )
        unit.more = tuple(zip(node.outputs[1:], stores[1:], strict=True))
        for t in node.outputs[1:]:
            self.writers[t] = [unit]

    def finish(self) -> Units:
        """Storage for the outputs: one that is a view, an input or another's gets a copy."""
        outputs: dict[str, Tensor] = {}
        taken: set[Tensor] = set()
        for output in self.graph.outputs:
            tensor = output.tensor
            if tensor is None:
                continue
            if tensor not in self.writers or tensor in taken:
                fresh = copy(tensor)
                self.add(
                    fresh.node, "map", tensor.shape, [(tensor, identity(tensor.ndim))]
                )
                tensor = fresh
            taken.add(tensor)
            outputs[output.name] = tensor
        return Units(self.units, self.writers, self.alias, outputs, self.windows)


def compose_view(tensor: Tensor, ndim: int) -> tuple[Index, ...]:
    """The map of a view node."""
    form = tensor.op.form(tensor.node) if tensor.op.form is not None else None
    assert isinstance(form, View)
    return compose(form.map, identity(ndim))


def make_units(graph: Graph, apart: frozenset[Tensor] = frozenset()) -> Units:
    """The units of a graph of primitives, in the order of its nodes.

    Windows in `apart` are laid out anew for each product that takes them.
    """
    maker = _Maker(graph, apart)
    for node in graph.nodes():
        maker.visit(node)
    return maker.finish()


Names: TypeAlias = Callable[[Tensor], str]
Sizes: TypeAlias = Mapping[str, int]

__all__ += ["Names", "Sizes", "axis_in", "size_of"]

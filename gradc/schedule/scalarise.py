"""Write small static axes out: a tensor becomes its elements, each a tensor of the other axes.

Vectors of three, rotation matrices, the columns of a table of parameters: where a graph picks
single elements of a short axis or puts some together, loops over that axis would be all control
and no work. Zeros, ones and equal elements then fold away like any other node.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from gradc.graph import Data, Graph, Node, Tensor, at
from gradc.ops.basic import broadcast, constant, iota, numpy_shape, reshape, transpose
from gradc.ops.functions import number
from gradc.ops.loops import Affine, Assemble, axis
from gradc.ops.registry import Absent, Op, lookup
from gradc.ops.shape import concatenate_op, embed, flip_op, slice_op
from gradc.schedule.contract import matrix_product
from gradc.types import Dim, Shape, TensorType, size_of

__all__ = ["assemble", "scalarise"]

LIMIT = 16
"""The longest axis that is written out."""
BODY = 600
"""The most elements that one connected part may have."""
MODULE = 2000
"""The most elements that all parts may have."""
IMAGE = 36
"""The most elements of two axes that are cut from together and yet no image."""

MOVES = frozenset(
    (
        "broadcast",
        "reshape",
        "transpose",
        "slice",
        "embed",
        "flip",
        "concatenate",
        "constant",
        "iota",
    )
)

Key: TypeAlias = "tuple[int, ...]"
Elements: TypeAlias = "dict[Key, Tensor]"


# --------------------------------------------------------------------- putting together


def _numpy_assemble(
    *elements: Any, shape: Shape, axes: Key, sizes: dict[str, int]
) -> Any:
    numbers = numpy_shape(shape, sizes)
    out = np.empty(numbers, elements[0].dtype)
    for key, element in zip(_keys(shape, axes), elements, strict=True):
        place: list[Any] = [slice(None)] * len(numbers)
        for a, k in zip(axes, key, strict=True):
            place[a] = k
        out[tuple(place)] = element
    return out


def _assemble_form(node: Node) -> Assemble:
    shape, axes = node.attrs.shape, node.attrs.axes
    maps = []
    for key in _keys(shape, axes):
        fixed = dict(zip(axes, key, strict=True))
        rest = iter(range(len(shape)))
        maps.append(
            tuple(
                Affine(fixed[d]) if d in fixed else axis(next(rest))
                for d in range(len(shape))
            )
        )
    return Assemble(tuple(maps), 0.0, True)


# not in the registry: no graph of a user has it
assemble = Op(
    name="assemble",
    type=lambda *elements, shape, axes: TensorType(elements[0].dtype, shape),
    evaluate=_numpy_assemble,
    derivative=Absent("it is made after differentiation"),
    form=_assemble_form,
    doc="A tensor from its elements along the short axes `axes`, in row-major order.",
)


def _keys(shape: Shape, axes: Sequence[int]) -> list[Key]:
    lengths = [shape[a] for a in axes]
    return list(itertools.product(*(range(n) for n in lengths if isinstance(n, int))))


def _is_short(dim: Dim) -> bool:
    return isinstance(dim, int) and 1 <= dim <= LIMIT


def short_axes(shape: Shape) -> Key:
    """The axes of a shape that can be written out."""
    return tuple(k for k, d in enumerate(shape) if _is_short(d))


def _rest(shape: Shape) -> Shape:
    return tuple(d for d in shape if not _is_short(d))


# ------------------------------------------------------------------------ which nodes


def _factors(node: Node) -> list[tuple[list[int], list[int]]] | None:
    """The groups of axes (of the operand, of the result) that a reshape turns into each other,
    or None where a long axis is split or merged."""
    old, new = node.inputs[0].shape, node.out.shape
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a: list[int] = []
        b: list[int] = []
        left: Dim = 1
        right: Dim = 1
        if i < len(old):
            a, left, i = [i], old[i], i + 1
        if j < len(new):
            b, right, j = [j], new[j], j + 1
        while left != right:
            if not isinstance(left, int) or not isinstance(right, int):
                if left == 1 and i < len(old):
                    a, left, i = [*a, i], old[i], i + 1
                elif right == 1 and j < len(new):
                    b, right, j = [*b, j], new[j], j + 1
                else:
                    return None
            elif left < right and i < len(old):
                a, left, i = [*a, i], left * old[i], i + 1
            elif j < len(new):
                b, right, j = [*b, j], right * new[j], j + 1
            else:
                return None
        long_a = [k for k in a if not _is_short(old[k])]
        long_b = [k for k in b if not _is_short(new[k])]
        if long_a or long_b:
            same = len(long_a) == len(long_b) == 1 and old[long_a[0]] == new[long_b[0]]
            ones = all(old[k] == 1 for k in a if k not in long_a)
            ones = ones and all(new[k] == 1 for k in b if k not in long_b)
            if not (same and ones):
                return None
        groups.append((a, b))
    return groups


def _is_supported(node: Node) -> bool:
    """Whether the elements of a node follow from those of its operands by a rule."""
    name = node.op.name
    if (
        len(node.outputs) != 1
        or name not in RULES
        and not node.op.elementwise
        and name != "add_n"
    ):
        return False
    if name == "reshape":
        return _factors(node) is not None
    if name == "contract":
        return matrix_product(node) is None
    if name == "gather":
        x = node.inputs[0]
        return not any(_is_short(x.shape[a]) for a in node.attrs.axes)
    if name == "slice":
        starts, shape = node.attrs.start, node.out.shape
        return all(
            isinstance(starts[k], int) and _is_short(shape[k])
            for k in short_axes(node.inputs[0].shape)
        )
    if name == "embed":
        return all(
            isinstance(node.attrs.start[k], int) for k in short_axes(node.out.shape)
        )
    return True


def _weight(node: Node) -> int:
    """The number of scalar nodes that a node becomes; what only moves elements is none."""
    if node.op.name in MOVES:
        return 0
    shape = [d for d in node.out.shape if _is_short(d)]
    if node.op.name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod"):
        shape = [d for d in node.inputs[0].shape if _is_short(d)]
    if node.op.name == "contract":
        sizes: dict[int, Dim] = {}
        for labels, t in zip(
            (node.attrs.lhs, node.attrs.rhs), node.inputs, strict=True
        ):
            sizes.update(zip(labels, t.shape, strict=True))
        shape = [d for d in sizes.values() if _is_short(d)]
    total = size_of(shape)
    assert isinstance(total, int)
    return total


def _picks(node: Node) -> bool:
    """Whether a node takes single elements of a short axis apart, or puts some together."""
    name = node.op.name
    if name == "slice":
        x = node.inputs[0]
        return any(node.out.shape[k] != x.shape[k] for k in short_axes(x.shape))
    if name == "embed":
        x = node.inputs[0]
        return any(node.out.shape[k] != x.shape[k] for k in short_axes(node.out.shape))
    if name == "concatenate":
        return _is_short(node.out.shape[node.attrs.axis])
    return False


def _is_of_images(node: Node) -> bool:
    """Whether a node cuts from two axes together, or pads them, as windows do, or picks from an
    axis with two long ones behind it, which is one of channels: images are loops, also small
    ones. Blocks of matrices are smaller."""
    if node.op.name not in ("slice", "embed", "concatenate"):
        return False
    x, out = node.inputs[0].shape, node.out.shape
    whole = x if node.op.name == "slice" else out
    if _picks(node):
        behind = [d for d in whole if not _is_short(d)]
        picked = [k for k in short_axes(whole) if x[k] != out[k]]
        outer = [d for d in whole[: picked[0]] if not _is_short(d)] if picked else []
        if picked and len(behind) - len(outer) > 1:
            return True
    if node.op.name == "concatenate":
        return False
    changed = [
        k for k in short_axes(whole) if x[k] != out[k] and 1 not in (x[k], out[k])
    ]
    count = size_of(whole[k] for k in changed)
    return len(changed) > 1 and isinstance(count, int) and count > IMAGE


def _chosen(graph: Graph) -> set[Node]:
    """The nodes to write out: connected parts that pick elements, or whose short axes are all of
    length 1; within the budget, and no images."""
    parent: dict[Node, Node] = {}

    def find(n: Node) -> Node:
        while parent[n] is not n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    nodes = graph.nodes()
    for node in nodes:
        if node.op.name == "input" or not _is_supported(node):
            continue
        touched = any(short_axes(t.shape) for t in (*node.inputs, *node.outputs))
        if not touched:
            continue
        parent[node] = node
        for t in node.inputs:
            if t.node in parent and short_axes(t.shape):
                a, b = find(node), find(t.node)
                if a is not b:
                    parent[a] = b
    weight: dict[Node, int] = {}
    picked: set[Node] = set()
    grown: set[Node] = set()  # parts with an axis longer than 1
    images: set[Node] = set()
    for node in nodes:
        if node in parent:
            root = find(node)
            weight[root] = weight.get(root, 0) + _weight(node)
            if _picks(node):
                picked.add(root)
            if _is_of_images(node):
                images.add(root)
            if any(
                t.shape[k] != 1
                for t in (*node.inputs, node.out)
                for k in short_axes(t.shape)
            ):
                grown.add(root)
    total = 0
    kept: set[Node] = set()
    for root, n in weight.items():
        if root in images:
            continue
        if (root in picked or root not in grown) and n <= BODY and total + n <= MODULE:
            total += n
            kept.add(root)
    return {n for n in parent if find(n) in kept}


# --------------------------------------------------------------------------- the pass


class _Writer:
    def __init__(self) -> None:
        self.whole: dict[
            Tensor, Tensor
        ] = {}  # old tensor -> new tensor, where there is one
        self.elements: dict[
            Tensor, Elements
        ] = {}  # old tensor -> elements, where written out

    def tensor(self, old: Tensor) -> Tensor:
        """The new tensor for an old one, put together from its elements where it must be."""
        if old not in self.whole:
            parts = self.elements[old]
            axes = short_axes(old.shape)
            if axes:
                fresh = assemble(*parts.values(), shape=old.shape, axes=axes)
                fresh.name = old.name
                self.whole[old] = fresh
            else:
                self.whole[old] = parts[()]
        return self.whole[old]

    def parts(self, old: Tensor) -> Elements:
        """The elements of an old tensor, picked from memory where it was not written out."""
        if old not in self.elements:
            new = self.whole[old]
            axes = short_axes(old.shape)
            self.elements[old] = {
                key: _pick(new, axes, key) for key in _keys(old.shape, axes)
            }
        return self.elements[old]


def _pick(x: Tensor, axes: Key, key: Key) -> Tensor:
    """One element along the short axes of a tensor in memory."""
    if not axes:
        return x
    if x.op is constant:
        place: list[Any] = [slice(None)] * x.ndim
        for a, k in zip(axes, key, strict=True):
            place[a] = k
        return constant(value=Data(x.attrs.value.array[tuple(place)]), weak=False)
    fixed = dict(zip(axes, key, strict=True))
    start = tuple(fixed.get(d, 0) for d in range(x.ndim))
    stop = tuple(fixed[d] + 1 if d in fixed else x.shape[d] for d in range(x.ndim))
    taken = slice_op(x, start=start, stop=stop, step=(1,) * x.ndim)
    return reshape(taken, shape=_rest(x.shape))


def scalarise(graph: Graph) -> Graph:
    """A graph with short axes written out where elements are picked from or put into them.

    Keeps values, but for the rounding of sums; gives the same graph where there is nothing to do.
    """
    chosen = _chosen(graph)
    if not chosen:
        return graph
    writer = _Writer()
    for node in graph.nodes():
        with at(node.place):
            if node in chosen:
                out = node.outputs[0]
                operands = [writer.parts(t) for t in node.inputs]
                rule = RULES.get(node.op.name, _elementwise)
                found = rule(node, operands)
                for key, element in found.items():
                    if out.name and not element.name and element.node.inputs:
                        element.name = "_".join((out.name, *map(str, key)))
                writer.elements[out] = found
                continue
            if node.op.name == "input":
                writer.whole[node.outputs[0]] = node.outputs[0]
                continue
            inputs = tuple(writer.tensor(t) for t in node.inputs)
            fresh = node.op.node(inputs, node.attrs.as_dict()) if node.inputs else node
            for old, new in zip(node.outputs, fresh.outputs, strict=True):
                if not new.name:
                    new.name = old.name
                writer.whole[old] = new
    return replace(
        graph,
        outputs=tuple(
            replace(o, tensor=None if o.tensor is None else writer.tensor(o.tensor))
            for o in graph.outputs
        ),
        names={},
        request=None,
    )


# --------------------------------------------------------------------------- the rules

Operands: TypeAlias = "Sequence[Elements]"


def _out_keys(node: Node) -> list[Key]:
    return _keys(node.out.shape, short_axes(node.out.shape))


def _full(key: Key, shape: Shape) -> dict[int, int]:
    """The index of each short axis in a key."""
    return dict(zip(short_axes(shape), key, strict=True))


def _long(shape: Shape) -> list[int]:
    return [k for k, d in enumerate(shape) if not _is_short(d)]


def _elementwise(node: Node, operands: Operands) -> Elements:
    attrs = node.attrs.as_dict()
    return {k: node.op(*(o[k] for o in operands), **attrs) for k in _out_keys(node)}


def _broadcast(node: Node, operands: Operands) -> Elements:
    shape, along = node.attrs.shape, node.attrs.along
    kept = [k for k in range(len(shape)) if k not in along]
    longs = _long(shape)
    new = tuple(i for i, k in enumerate(longs) if k in along)
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        element = operands[0][tuple(index[k] for k in kept if k in index)]
        if new:
            element = broadcast(element, shape=_rest(shape), along=new)
        found[key] = element
    return found


def _reshape(node: Node, operands: Operands) -> Elements:
    groups = _factors(node)
    assert groups is not None
    old, new = node.inputs[0].shape, node.out.shape
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, new)
        source: dict[int, int] = {}
        for a, b in groups:
            short_a = [k for k in a if _is_short(old[k])]
            flat = 0
            for k in b:
                length = new[k]
                if k in index and isinstance(length, int):
                    flat = flat * length + index[k]
            for k in reversed(short_a):
                length = old[k]
                assert isinstance(length, int)
                flat, source[k] = divmod(flat, length)
        element = operands[0][tuple(source[k] for k in sorted(source))]
        if element.shape != _rest(new):
            element = reshape(element, shape=_rest(new))
        found[key] = element
    return found


def _transpose(node: Node, operands: Operands) -> Elements:
    perm, shape = node.attrs.perm, node.out.shape
    old = node.inputs[0].shape
    order = _long(old)
    inner = tuple(order.index(k) for k in perm if k in order)
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        source = {perm[k]: i for k, i in index.items()}
        element = operands[0][tuple(source[k] for k in sorted(source))]
        if inner != tuple(range(len(inner))):
            element = transpose(element, perm=inner)
        found[key] = element
    return found


def _slice(node: Node, operands: Operands) -> Elements:
    attrs, old = node.attrs, node.inputs[0].shape
    longs = _long(old)
    found: Elements = {}
    for key in _all_keys(node.out.shape, longs):
        source = tuple(
            attrs.start[k] + attrs.step[k] * i
            for k, i in key.items()
            if _is_short(old[k])
        )
        element = operands[0][source]
        if longs:
            element = slice_op(
                element,
                start=tuple(attrs.start[k] for k in longs),
                stop=tuple(attrs.stop[k] for k in longs),
                step=tuple(attrs.step[k] for k in longs),
            )
            element = _sub_pick(element, node.out.shape, longs, key)
        found[_own_key(node.out.shape, key)] = element
    return found


def _all_keys(shape: Shape, longs: Sequence[int]) -> list[dict[int, int]]:
    """The indices of the short axes of a result."""
    axes = short_axes(shape)
    return [dict(zip(axes, key, strict=True)) for key in _keys(shape, axes)]


def _own_key(shape: Shape, index: Mapping[int, int]) -> Key:
    return tuple(index[k] for k in short_axes(shape))


def _sub_pick(
    element: Tensor, shape: Shape, longs: Sequence[int], index: Mapping[int, int]
) -> Tensor:
    """Of a long axis that a slice made short, the element at the index."""
    axes = [i for i, k in enumerate(longs) if _is_short(shape[k])]
    if not axes:
        return element
    start = [0] * element.ndim
    stop: list[Dim] = list(element.shape)
    for i in axes:
        start[i] = index[longs[i]]
        stop[i] = start[i] + 1
    taken = slice_op(
        element, start=tuple(start), stop=tuple(stop), step=(1,) * element.ndim
    )
    kept = tuple(d for i, d in enumerate(element.shape) if i not in axes)
    return reshape(taken, shape=kept)


def _embed(node: Node, operands: Operands) -> Elements:
    attrs, old, shape = node.attrs, node.inputs[0].shape, node.out.shape
    fill = attrs.fill if "fill" in attrs else 0
    longs = _long(shape)
    if any(_is_short(old[k]) for k in longs):
        return _from_memory(node, operands)
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        source = _placed_from(node, index)
        if source is None:
            found[key] = _number(fill, node, _rest(shape))
            continue
        element = operands[0][source]
        if longs:
            element = embed(
                element,
                shape=_rest(shape),
                start=tuple(attrs.start[k] for k in longs),
                step=tuple(attrs.step[k] for k in longs),
                fill=fill,
            )
        found[key] = element
    return found


def _placed_from(node: Node, index: Mapping[int, int]) -> Key | None:
    """The key of the element that an embed puts at an index; None where it is the fill."""
    attrs, old = node.attrs, node.inputs[0].shape
    source: list[int] = []
    for k, i in index.items():
        place, rest = divmod(i - attrs.start[k], attrs.step[k])
        length = old[k]
        assert isinstance(length, int)
        if rest or not 0 <= place < length:
            return None
        source.append(place)
    return tuple(source)


def _from_memory(node: Node, operands: Operands) -> Elements:
    """A node computed as it stands, its elements picked from the result."""
    inputs = [
        assemble(*o.values(), shape=t.shape, axes=short_axes(t.shape))
        if short_axes(t.shape)
        else o[()]
        for o, t in zip(operands, node.inputs, strict=True)
    ]
    whole = node.op(*inputs, **node.attrs.as_dict())
    axes = short_axes(node.out.shape)
    return {key: _pick(whole, axes, key) for key in _out_keys(node)}


def _number(value: Any, node: Node, shape: Shape) -> Tensor:
    fresh = number(value, node.out.dtype)
    return (
        broadcast(fresh, shape=shape, along=tuple(range(len(shape))))
        if shape
        else fresh
    )


def _flip(node: Node, operands: Operands) -> Elements:
    shape, axes = node.out.shape, node.attrs.axes
    longs = _long(shape)
    inner = tuple(i for i, k in enumerate(longs) if k in axes)
    found: Elements = {}
    for key in _out_keys(node):
        source = []
        for k, i in _full(key, shape).items():
            length = shape[k]
            assert isinstance(length, int)
            source.append(length - 1 - i if k in axes else i)
        element = operands[0][tuple(source)]
        found[key] = flip_op(element, axes=inner) if inner else element
    return found


def _concatenate(node: Node, operands: Operands) -> Elements:
    along, shape = node.attrs.axis, node.out.shape
    if not _is_short(shape[along]):
        if any(_is_short(t.shape[along]) for t in node.inputs):
            return _from_memory(node, operands)
        inner = _long(shape).index(along)
        return {
            k: concatenate_op(*(o[k] for o in operands), axis=inner)
            for k in _out_keys(node)
        }
    starts = [0]
    for t in node.inputs:
        length = t.shape[along]
        assert isinstance(length, int)
        starts.append(starts[-1] + length)
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        place = index[along]
        which = max(
            k for k in range(len(node.inputs)) if starts[k] <= place < starts[k + 1]
        )
        index[along] = place - starts[which]
        found[key] = operands[which][tuple(index.values())]
    return found


def _reduce(combine: str) -> Callable[[Node, Operands], Elements]:
    def rule(node: Node, operands: Operands) -> Elements:
        axes, old = node.attrs.axes, node.inputs[0].shape
        op = lookup(combine)
        assert op is not None
        longs = _long(old)
        inner = tuple(i for i, k in enumerate(longs) if k in axes)
        groups: dict[Key, list[Tensor]] = {}
        for key, element in operands[0].items():
            index = _full(key, old)
            groups.setdefault(
                tuple(i for k, i in index.items() if k not in axes), []
            ).append(element)
        found: Elements = {}
        for key, terms in groups.items():
            total = terms[0]
            for term in terms[1:]:
                total = op(total, term)
            if inner:
                attrs = {**node.attrs.as_dict(), "axes": inner}
                total = node.op(total, **attrs)
            found[key] = total
        return found

    return rule


def _contract(node: Node, operands: Operands) -> Elements:
    attrs = node.attrs
    labels = (attrs.lhs, attrs.rhs)
    sizes: dict[int, Dim] = {}
    for own, t in zip(labels, node.inputs, strict=True):
        sizes.update(zip(own, t.shape, strict=True))
    short = [v for v in sizes if _is_short(sizes[v])]
    inner = [v for v in short if v not in attrs.out]
    rest = [tuple(v for v in own if v not in short) for own in labels]
    out = tuple(v for v in attrs.out if v not in short)
    found: Elements = {}
    for key in _out_keys(node):
        index = dict(zip((v for v in attrs.out if v in short), key, strict=True))
        total: Tensor | None = None
        for more in itertools.product(*(range(int(str(sizes[v]))) for v in inner)):
            index.update(zip(inner, more, strict=True))
            a, b = (
                o[tuple(index[v] for v in own if v in short)]
                for o, own in zip(operands, labels, strict=True)
            )
            term = (
                node.op(a, b, lhs=rest[0], rhs=rest[1], out=out)
                if rest[0] or rest[1]
                else a * b
            )
            total = term if total is None else total + term
        assert total is not None
        found[key] = total
    return found


def _constant(node: Node, operands: Operands) -> Elements:
    axes = short_axes(node.out.shape)
    return {key: _pick(node.out, axes, key) for key in _out_keys(node)}


def _iota(node: Node, operands: Operands) -> Elements:
    shape, along = node.attrs.shape, node.attrs.axis
    rest = _rest(shape)
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        if along in index:
            found[key] = _number(index[along], node, rest)
        else:
            inner = _long(shape).index(along)
            found[key] = iota(shape=rest, axis=inner, dtype=node.attrs.dtype)
    return found


def _gather(node: Node, operands: Operands) -> Elements:
    x, first = node.inputs[0], node.inputs[1]
    attrs, shape = node.attrs, node.out.shape
    if short_axes(first.shape):
        return _from_memory(node, operands)
    middle = range(attrs.at, attrs.at + first.ndim)
    own = [k for k in range(len(shape)) if k not in middle]
    free = [k for k in range(x.ndim) if k not in attrs.axes]
    longs = _long(x.shape)
    axes = tuple(longs.index(a) for a in attrs.axes)
    before = sum(1 for k in own if k < attrs.at and not _is_short(shape[k]))
    found: Elements = {}
    for key in _out_keys(node):
        index = _full(key, shape)
        source = {free[own.index(k)]: i for k, i in index.items()}
        element = operands[0][tuple(source[k] for k in sorted(source))]
        found[key] = node.op(
            element, *(o[()] for o in operands[1:]), axes=axes, at=before
        )
    return found


RULES: Mapping[str, Callable[[Node, Operands], Elements]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "embed": _embed,
    "flip": _flip,
    "concatenate": _concatenate,
    "reduce_sum": _reduce("add"),
    "reduce_max": _reduce("maximum"),
    "reduce_min": _reduce("minimum"),
    "reduce_prod": _reduce("multiply"),
    "contract": _contract,
    "constant": _constant,
    "iota": _iota,
    "gather": _gather,
}

"""Cut a graph with its adjoint in two: forward, and backward from what forward keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gradc.graph import Graph, Node, Output, Tensor, label, rebuild
from gradc.ops.basic import input_
from gradc.types import Shape, evaluate_dim, size_of, symbols_of

__all__ = ["Halves", "split"]

NOMINAL = 1000
"""The size that a symbol counts as."""
CHEAP = 4
"""The most flops of an element that backward computes again rather than reads."""
VIEWS = frozenset(
    (
        "broadcast",
        "reshape",
        "transpose",
        "slice",
        "flip",
        "cast",
        "diagonal",
        "demand",
        "window",
        "iota",
        "dim",
    )
)


@dataclass(frozen=True, slots=True)
class Halves:
    """`forward` gives the ys, then the residuals; `backward` takes the residuals and the seeds.

    `kept` are the names of the residuals that forward makes, `held` those of the inputs that
    backward reads too: they are held by reference. Backward's inputs are `held`, `kept` and the
    seeds, in this order.
    """

    forward: Graph
    backward: Graph
    kept: tuple[str, ...]
    held: tuple[str, ...]


def split(graph: Graph, ys: int, seeds: Sequence[Tensor]) -> Halves:
    """Cut a graph whose first `ys` outputs are values and whose others are gradients.

    `seeds` are its inputs that only backward has. What gradients need and no seed reaches is kept
    by forward, unless it is cheap to compute again from what is kept or held anyway.
    """
    nodes = graph.nodes()
    late: set[Tensor] = set(seeds)
    for node in nodes:
        if any(t in late for t in node.inputs):
            late.update(node.outputs)
    gradients = [o.tensor for o in graph.outputs[ys:] if o.tensor is not None]
    needed: set[Tensor] = {t for t in gradients if t not in late}
    for node in nodes:
        if node.outputs[0] in late:
            needed.update(t for t in node.inputs if t not in late)
    light = _light(nodes)
    for node in reversed(nodes):
        if node.op.name == "input" or needed.isdisjoint(node.outputs):
            continue
        operands = dict.fromkeys(t for t in node.inputs if t not in needed)
        more = sum(light[t] for t in operands)
        if _is_cheap(node) and more <= sum(_size(t.shape) for t in node.outputs):
            needed.difference_update(node.outputs)
            needed.update(node.inputs)
    kept = [
        t
        for node in nodes
        for t in node.outputs
        if t in needed and t not in late and node.op.name != "input"
    ]
    held = [t for t in graph.inputs if t in needed and t not in late]
    names = _names(kept, [t.attrs.name for t in graph.inputs])
    forward = replace(
        graph,
        inputs=tuple(t for t in graph.inputs if t not in late),
        outputs=(
            *graph.outputs[:ys],
            *(Output(n, t) for n, t in zip(names, kept, strict=True)),
        ),
    )
    return Halves(
        forward,
        _backward(graph, ys, seeds, kept, names, held),
        tuple(names),
        tuple(t.attrs.name for t in held),
    )


def _is_cheap(node: Node) -> bool:
    """Whether backward may compute a node again: a view, a constant, a few flops an element."""
    if not node.inputs or node.op.name in VIEWS:
        return True
    return node.op.elementwise and node.op.cost <= CHEAP


def _light(nodes: Sequence[Node]) -> dict[Tensor, int]:
    """The least number of elements to keep for each tensor: its own, or those it is cheaply
    computed from."""
    light: dict[Tensor, int] = {}
    for node in nodes:
        if node.op.name == "input" or not node.inputs:
            light.update(dict.fromkeys(node.outputs, 0))
            continue
        below = sum(light[t] for t in dict.fromkeys(node.inputs))
        for t in node.outputs:
            size = _size(t.shape)
            light[t] = min(size, below) if _is_cheap(node) else size
    return light


@lru_cache
def _size(shape: Shape) -> int:
    size = size_of(shape)
    return evaluate_dim(size, dict.fromkeys(symbols_of(size), NOMINAL))


def _names(kept: Sequence[Tensor], taken: Sequence[str]) -> list[str]:
    """A name for each residual, that of its tensor where it has one."""
    counts = dict.fromkeys(taken, 1)
    names: list[str] = []
    for t in kept:
        base = t.name or f"residual_{len(names)}"
        name, count = base, counts.get(base, 1)
        while name in counts:
            count += 1
            name = f"{base}_{count}"
        counts[base] = count
        counts.setdefault(name, 1)
        names.append(name)
    return names


def _backward(
    graph: Graph,
    ys: int,
    seeds: Sequence[Tensor],
    kept: Sequence[Tensor],
    names: Sequence[str],
    held: Sequence[Tensor],
) -> Graph:
    """The gradients as a graph over held inputs, residuals and seeds."""
    given: dict[Tensor, Tensor] = {}
    residuals = []
    for name, t in zip(names, kept, strict=True):
        fresh = label(input_(name=name, type=t.type, default=None), name)
        given[t] = fresh
        residuals.append(fresh)
    for t in (*held, *seeds):
        given[t] = t
    wanted = [o.tensor for o in graph.outputs[ys:] if o.tensor is not None]
    stack = [t for t in wanted if t not in given]
    used: set[Node] = set()
    while stack:
        node = stack.pop().node
        if node not in used:
            used.add(node)
            stack += [t for t in node.inputs if t not in given]
    for node in graph.nodes():
        if node in used:
            fresh_node = rebuild(node, tuple(given[t] for t in node.inputs))
            for old, new in zip(node.outputs, fresh_node.outputs, strict=True):
                given.setdefault(old, new)
    return replace(
        graph,
        inputs=(*held, *residuals, *seeds),
        outputs=tuple(
            replace(o, tensor=None if o.tensor is None else given[o.tensor])
            for o in graph.outputs[ys:]
        ),
        names={},
        request=None,
    )

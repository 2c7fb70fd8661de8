"""Turn strong zeros into plain products where that cannot show.

`pull(g, slope)` is 0 where g is 0, whatever the slope. That is `g * slope`, but for the sign of a
zero, where g has no zeros or the slope is finite.
"""

from __future__ import annotations

from gradc.graph import Graph, Node, Place, Tensor
from gradc.ops.registry import lookup
from gradc.passes.ranges import Ranges
from gradc.passes.simplify import scalar_value

__all__ = ["relax_pulls"]


def relax_pulls(graph: Graph) -> Graph:
    """pull(g, slope) -> g * slope where the slope is finite or g is nowhere 0.

    Inputs count as finite, and sums and products of them (`Ranges`), unless g has zeros by
    structure or comes from a cotangent of the user's: then a NaN of the data may be what was
    masked. Also pull(where(c, g, 0), slope) -> where(c, g * slope, 0) by what is known of g.
    Keeps types and names; idempotent.
    """
    relax = _Relax()
    return graph.rewrite({"pull": relax})


class _Relax:
    """The rule for pulls, and what it has found out about the tensors of the new graph."""

    def __init__(self) -> None:
        self.trusting = Ranges(trust=True)
        self.sure = Ranges(trust=False)

    def __call__(self, node: Node) -> Tensor | None:
        g, slope = node.inputs
        if self.is_plain(g, slope, node.place):
            return _times(g, slope)
        if g.op.name == "select":
            condition, yes, no = g.inputs
            if scalar_value(no) == 0 and self.is_plain(yes, slope, node.place):
                return g.op(condition, _times(yes, slope), no)
            if scalar_value(yes) == 0 and self.is_plain(no, slope, node.place):
                return g.op(condition, yes, _times(no, slope))
        return None

    def is_plain(self, g: Tensor, slope: Tensor, place: Place) -> bool:
        """Whether g * slope is 0 wherever g is."""
        seen = self.trusting.of(g)
        if seen.nonzero and self.sure.of(g).nonzero:
            return True
        if not self.trusting.of(slope).finite:
            return False
        is_data = not seen.zero and not place.seeded
        return is_data or self.sure.of(slope).finite


def _times(g: Tensor, slope: Tensor) -> Tensor:
    multiply = lookup("multiply")
    assert multiply is not None
    return multiply(g, slope)

"""Turn strong zeros into plain products where that cannot show.

`pull(g, slope)` is 0 where g is 0, whatever the slope. That is `g * slope`, but for the sign of a
zero, where g has no zeros or the slope is finite.
"""

from __future__ import annotations

from gradc.graph import Node, Place, Tensor
from gradc.ops.elementwise import scalar_value
from gradc.ops.registry import lookup
from gradc.passes.ranges import Ranges

__all__ = ["relax_pull"]


def relax_pull(node: Node, ranges: Ranges) -> Tensor | None:
    """pull(g, slope) -> g * slope where the slope is finite or g is nowhere 0.

    Inputs count as finite, and sums and products of them, unless g has zeros by structure or comes
    from a cotangent of the user's: then a NaN of the data may be what was masked. Also
    pull(where(c, g, 0), slope) -> where(c, g * slope, 0) by what is known of g.
    """
    g, slope = node.inputs
    if _is_plain(g, slope, node.place, ranges):
        return _times(g, slope)
    if g.op.name == "select":
        condition, yes, no = g.inputs
        if scalar_value(no) == 0 and _is_plain(yes, slope, node.place, ranges):
            return g.op(condition, _times(yes, slope), no)
        if scalar_value(yes) == 0 and _is_plain(no, slope, node.place, ranges):
            return g.op(condition, yes, _times(no, slope))
    return None


def _is_plain(g: Tensor, slope: Tensor, place: Place, ranges: Ranges) -> bool:
    """Whether g * slope is 0 wherever g is."""
    seen = ranges.of(g)
    if seen.nonzero and ranges.sure.of(g).nonzero:
        return True
    if not ranges.of(slope).finite:
        return False
    is_data = not seen.zero and not place.seeded
    return is_data or ranges.sure.of(slope).finite


def _times(g: Tensor, slope: Tensor) -> Tensor:
    multiply = lookup("multiply")
    assert multiply is not None
    return multiply(g, slope)

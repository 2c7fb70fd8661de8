"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import (
    arrange,
    composite,
    contract,
    control,
    create,
    difference,
    elementary,
    elementwise,
    index,
    linalg,
    neural,
    order,
    reduce,
    shape,
    sort,
    special,
)

__all__ = [
    "arrange",
    "composite",
    "contract",
    "control",
    "create",
    "difference",
    "elementary",
    "elementwise",
    "index",
    "linalg",
    "neural",
    "order",
    "reduce",
    "shape",
    "sort",
    "special",
]

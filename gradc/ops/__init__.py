"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import (
    arrange,
    contract,
    create,
    elementary,
    elementwise,
    index,
    neural,
    shape,
    special,
)

__all__ = [
    "arrange",
    "contract",
    "create",
    "elementary",
    "elementwise",
    "index",
    "neural",
    "shape",
    "special",
]

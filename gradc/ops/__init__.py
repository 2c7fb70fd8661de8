"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import (
    arrange,
    contract,
    control,
    create,
    elementary,
    elementwise,
    index,
    linalg,
    neural,
    shape,
    special,
)

__all__ = [
    "arrange",
    "contract",
    "control",
    "create",
    "elementary",
    "elementwise",
    "index",
    "linalg",
    "neural",
    "shape",
    "special",
]

"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import contract, elementwise, index, shape

__all__ = ["contract", "elementwise", "index", "shape"]

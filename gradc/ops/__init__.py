"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import contract, index, shape

__all__ = ["contract", "index", "shape"]

"""All ops and functions of the language: importing this enters every family."""

from gradc.ops import arrange, contract, create, elementwise, index, shape

__all__ = ["arrange", "contract", "create", "elementwise", "index", "shape"]

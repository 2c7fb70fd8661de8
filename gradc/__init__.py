"""gradc compiles gradients of computational graphs to readable Python source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "CompiledModule",
    "GradcError",
    "GradcErrors",
    "Graph",
    "__version__",
    "compile",
    "emit",
    "gradients",
    "load",
    "parse",
]

__version__ = "0.1.0"

_HOMES = {
    "CompiledModule": "gradc.driver",
    "GradcError": "gradc.errors",
    "GradcErrors": "gradc.errors",
    "Graph": "gradc.graph",
    "compile": "gradc.driver",
    "emit": "gradc",  # the package of that name, which can be called
    "gradients": "gradc.driver",
    "load": "gradc.driver",
    "parse": "gradc.frontends.gc",
}

if TYPE_CHECKING:
    from gradc.driver import CompiledModule, compile, emit, gradients, load
    from gradc.errors import GradcError, GradcErrors
    from gradc.frontends.gc import parse
    from gradc.graph import Graph


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first asked for."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gradc' has no attribute {name!r}")
    from importlib import import_module

    if home == "gradc":
        return import_module(f"gradc.{name}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""From graphs and Programs to source text. `gradc.emit(graph, ...)` is `gradc.driver.emit`.

The folder and the function have one name, so the package itself can be called.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """This package, callable as the function of its name."""

    def __call__(self, source: Any, **options: Any) -> str:
        """The source text of the module of a graph: see `gradc.driver.emit`."""
        text: str = import_module("gradc.driver").emit(source, **options)
        return text


sys.modules[__name__].__class__ = _Package

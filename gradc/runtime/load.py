"""Emitted source text as a module of the running process."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

__all__ = ["load_code", "load_text"]


class _Ready:
    """Loads a module from code and text that are in memory already."""

    def __init__(self, text: str, code: CodeType) -> None:
        self.text = text
        self.code = code

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_code(self, fullname: str) -> CodeType:
        return self.code

    def create_module(self, spec: ModuleSpec) -> None:
        """Have Python make the usual module."""

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)  # noqa: S102


def load_code(name: str, code: CodeType, text: str, path: Path) -> ModuleType:
    """The module of a file whose text and byte code are at hand, under `name`.

    The file is not read again, so nothing can have changed since its content was checked. Where
    that file's module is loaded already, it is that one.
    """
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    return _loaded(name, code, text, str(path))


def load_text(text: str, name: str) -> ModuleType:
    """A module from text alone, where there is no folder to keep a file in."""
    code = compile(text, f"<{name}>", "exec", dont_inherit=True)
    return _loaded(name, code, text, "")


def _loaded(name: str, code: CodeType, text: str, path: str) -> ModuleType:
    origin = path or code.co_filename
    loader: Any = _Ready(text, code)
    spec = ModuleSpec(name, loader, origin=origin)
    spec.has_location = bool(path)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    # Other threads find it only now that it is whole; one that was first is everybody's.
    first = sys.modules.setdefault(name, module)
    if getattr(first, "__file__", None) != getattr(module, "__file__", None):
        sys.modules[name] = first = module
    return first

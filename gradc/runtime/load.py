"""Emitted source text as a module of the running process."""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

__all__ = ["load_file", "load_text"]


def load_file(path: Path, name: str) -> ModuleType:
    """The module in a file, under `name`; the one that is loaded already where it is that file's."""
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no Python file: {path}")
    return _loaded(spec, name)


def _loaded(spec: ModuleSpec, name: str) -> ModuleType:
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    assert spec.loader is not None
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Text(InspectLoader):
    """Loads a module from text alone."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        return self.text


def load_text(text: str, name: str) -> ModuleType:
    """A module from text alone, where there is no folder to keep a file in."""
    spec = importlib.util.spec_from_loader(name, _Text(text), origin=f"<{name}>")
    assert spec is not None
    return _loaded(spec, name)

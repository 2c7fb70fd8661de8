"""Texts as graphs, their values by the evaluator, and the adjoint part of an emitted module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradc.driver import emit
from gradc.frontends.gc import parse
from gradc.graph import Graph, Node, Tensor, ordered
from gradc.ops.evaluator import evaluate

Array = np.ndarray[Any, Any]


def results(text: str, **feeds: Any) -> dict[str, Array | None]:
    """The outputs of a text by name; None for a None gradient."""
    graph = parse(text, "m.gc")
    given = {t: np.asarray(feeds[t.name]) for t in graph.inputs if t.name in feeds}
    wanted = [o.tensor for o in graph.outputs if o.tensor is not None]
    values = iter(evaluate(wanted, given))
    return {o.name: None if o.tensor is None else next(values) for o in graph.outputs}


def check(text: str, expected: dict[str, Any], **feeds: Any) -> None:
    """The outputs of a text are these: NumPy's shape and dtype where an array is expected."""
    found = results(text, **feeds)
    assert list(found) == list(expected)
    for name, want in expected.items():
        value = found[name]
        if want is None:
            assert value is None, name
            continue
        assert value is not None, name
        array = np.asarray(want)
        assert value.shape == array.shape, name
        if isinstance(want, np.ndarray):
            assert value.dtype == array.dtype, name
        np.testing.assert_allclose(value, array, rtol=1e-12, atol=1e-15, err_msg=name)


def nodes_of(graph: Graph, name: str) -> list[Node]:
    """The nodes of an op, in order."""
    return [n for n in graph.nodes() if n.op.name == name]


def made_by(tensors: Sequence[Tensor | None], scope: str = "gradients") -> list[Node]:
    """The adjoint nodes that these gradients are computed from."""
    listed = [t for t in tensors if t is not None]
    return [n for n in ordered(listed) if n.place.scope == scope]


def adjoint_source(
    text: str, entry: str = "_value_and_gradients", **options: Any
) -> str:
    """The function of an emitted module that computes values and gradients."""
    source = emit(text, **options)
    found = re.search(rf"\ndef {entry}\(.*?\n\n\n", source, re.DOTALL)
    assert found is not None
    return found[0].strip("\n")

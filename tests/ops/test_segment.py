"""What is refused of segments and positions, and segments in compiled modules."""

from __future__ import annotations

import numpy as np
import pytest
from cases import call

from gradc.autodiff.reverse import gradients
from gradc.driver import compile
from gradc.errors import GradcError
from gradc.frontends.gc import parse
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.types import TensorType, float64, int64, symbol

N = symbol("N")


def tensor(*dims, dtype=float64):
    return input_(name="x", type=TensorType(dtype, dims), default=None)


ERRORS = [
    (
        lambda: call("segment_sum")(tensor(4), tensor(4), 3),
        "type-mismatch",
        ".astype(int64)",
    ),
    (
        lambda: call("segment_max")(tensor(4, 2), tensor(N, dtype=int64), 3),
        "shape-mismatch",
        "the data's first axes (4,)",
    ),
    (
        lambda: call("segment_mean")(tensor(4), tensor(4, dtype=int64), tensor()),
        "type-mismatch",
        "known when the graph is compiled",
    ),
    (
        lambda: call("segment_sum")(tensor(4), tensor(4, dtype=int64), -1),
        "shape-mismatch",
        "negative",
    ),
    (
        lambda: call("gather_nd")(tensor(4), tensor(2, N, dtype=int64)),
        "shape-mismatch",
        "must be known",
    ),
    (
        lambda: call("gather_nd")(tensor(4), tensor(2, 2, dtype=int64)),
        "shape-mismatch",
        "positions of 2 numbers",
    ),
    (
        lambda: call("gather_nd")(tensor(4, 4), tensor(2, 1, dtype=int64), 1),
        "shape-mismatch",
        "axis 0",
    ),
    (
        lambda: call("gather_nd")(tensor(4, 4), tensor(2, 1, dtype=int64), 2),
        "bad-axis",
        "batch_dims 2",
    ),
    (lambda: call("embedding")(tensor(4, 2), tensor(3)), "type-mismatch", "integers"),
    (
        lambda: call("index_max")(tensor(4, dtype=int64), 0, 0.5),
        "type-mismatch",
        "does not go into",
    ),
]


@pytest.mark.parametrize(
    "make, code, words", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, code, words):
    with pytest.raises(GradcError) as caught:
        make()
    assert caught.value.code == code
    assert words in str(caught.value)


TEXT = """
x: float[N, 2]
ids: int[N]
p = segment_prod(x, ids, 3)
m = segment_max(x[:, 0], ids, K)
t: float[K]
loss = sum(p * p) + sum(where(m > 0, m, 0.0) * t)
differentiate(loss, [x])
return loss, p
"""


@pytest.mark.parametrize("target", ["numpy", "numba"])
def test_compiled(target):
    text = TEXT.replace("x: float", "t: float[K]\nx: float", 1).replace(
        "t: float[K]\nloss", "loss"
    )
    x = np.array([[0.0, 2.0], [3.0, 0.0], [1.0, 1.0], [0.5, 0.0], [3.0, 4.0]])
    data = [np.arange(1.0, 5.0), x, np.array([0, 2, 0, -1, 2])]
    graph = parse(text)
    names = graph.names
    (bar,) = gradients(names["loss"], [names["x"]]).tensors
    feeds = dict(zip(graph.inputs, data, strict=True))
    loss, p, x_bar = evaluate([names["loss"], names["p"], bar], feeds)
    module = compile(text, target=target)
    values, found = module.value_and_gradients(*data)
    np.testing.assert_allclose(values.loss, loss)
    np.testing.assert_allclose(found.x, x_bar)
    np.testing.assert_allclose(module.run(*data).p, p)
    with pytest.raises(IndexError, match="segment_prod"):
        module.value_and_gradients(*data[:2], np.array([0, 2, 0, 3, 2]))

"""Sorting and searching in compiled modules, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import call

import gradc
from gradc.errors import GradcError
from gradc.graph import Tensor
from gradc.ops.basic import input_
from gradc.types import DType, TensorType, bool_, complex128, float64, int64, symbol

N = symbol("N")

TEXT = """
x: float[N, M]
y: float32[M]
k: int32[N]
b: bool[N]
q: float
s = sort(x, axis=0)
order = argsort(x)
best, at = top_k(y, 3)
middle = median(x, axis=1)
level = quantile(y, q)
edges = sort(y)
place = searchsorted(edges, y, side="right")
bin = digitize(x, edges[::-1])
loss = sum(s**2 * x) + sum(middle**2) + level + sum(best * y[:3])
differentiate(loss, [x, y, q])
return s, order, best, at, middle, level, place, bin, sort(k), argsort(b)
"""


@pytest.fixture(scope="module", params=["numpy", "numba"])
def module(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADC_CACHE_DIR", str(tmp_path_factory.mktemp("modules")))
        yield gradc.compile(TEXT, target=request.param)


@pytest.mark.parametrize("n, m", [(1, 3), (7, 40), (50, 8), (0, 5)])
def test_compiled(module: Any, n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(-4, 5, (n, m)).astype(float)
    x[rng.random((n, m)) < 0.1] = np.nan
    y = rng.normal(size=m).astype(np.float32)
    k, b = rng.integers(-3, 4, n).astype(np.int32), rng.random(n) < 0.5
    found = module.run(x, y, k, b, 0.3)
    order = np.argsort(x, kind="stable")
    np.testing.assert_array_equal(found.s, np.sort(x, 0))
    np.testing.assert_array_equal(found.order, order)
    np.testing.assert_array_equal(found.at, np.argsort(-y)[:3])
    np.testing.assert_array_equal(found.best, -np.sort(-y)[:3])
    np.testing.assert_array_equal(found.middle, np.median(x, 1))
    np.testing.assert_allclose(found.level, np.quantile(y, 0.3), rtol=1e-6)
    np.testing.assert_array_equal(
        found.place, np.searchsorted(np.sort(y), y, side="right")
    )
    np.testing.assert_array_equal(found.bin, np.digitize(x, np.sort(y)[::-1]))
    np.testing.assert_array_equal(found[-2], np.sort(k))
    np.testing.assert_array_equal(found[-1], np.argsort(b, kind="stable"))
    assert [f.dtype.name for f in found[2:6]] == [
        "float32",
        "int64",
        "float64",
        "float64",
    ]
    x = rng.normal(size=(n, m))
    _, bars = module.value_and_gradients(x, y, k, b, 0.3)
    s, ranks = np.sort(x, 0), np.argsort(np.argsort(x, 0), 0)
    wanted = s**2 + np.take_along_axis(2 * s * x, ranks, 0)
    for i, places in enumerate(np.argsort(x, 1)):
        for place in (places[(m - 1) // 2], places[m // 2]):
            wanted[i, place] += np.median(x[i])
    np.testing.assert_allclose(bars.x, wanted, rtol=1e-12)


def test_a_probability_outside_is_an_error_of_the_call(module: Any) -> None:
    x, y = np.zeros((2, 3)), np.zeros(3, np.float32)
    k, b = np.zeros(2, np.int32), np.zeros(2, bool)
    for q in (-0.1, 1.1, np.nan):
        with pytest.raises(IndexError, match="quantile"):
            module.run(x, y, k, b, q)


def tensor(dtype: DType = float64, *dims: Any) -> Tensor:
    return input_(name="x", type=TensorType(dtype, dims), default=None)


ERRORS = [
    (lambda: call("sort")(tensor(complex128, 2)), "type-mismatch", "no order"),
    (lambda: call("sort")(tensor()), "bad-axis", "axis -1"),
    (lambda: call("sort")(tensor(float64, 2), kind="bubble"), "bad-option", "bubble"),
    (lambda: call("argsort")(tensor(float64, 2), order="f"), "bad-option", "records"),
    (lambda: call("partition")(tensor(float64, 3), 3), "bad-axis", "3 elements"),
    (lambda: call("partition")(tensor(float64, 3), 0.5), "type-mismatch", "kth"),
    (lambda: call("top_k")(tensor(), 1), "shape-mismatch", "no axis"),
    (lambda: call("top_k")(tensor(float64, 3), 4), "shape-mismatch", "3 elements"),
    (lambda: call("top_k")(tensor(float64, 3), -1), "type-mismatch", "size"),
    (lambda: call("quantile")(tensor(float64, 3), 1.5), "bad-option", "[0, 1]"),
    (lambda: call("quantile")(tensor(float64, 0), 0.5), "shape-mismatch", "no elem"),
    (
        lambda: call("quantile")(tensor(float64, 3), 0.5, method="nearest"),
        "bad-option",
        "linear",
    ),
    (
        lambda: call("quantile")(tensor(float64, 3), tensor(float64, 2, 2)),
        "shape-mismatch",
        "a vector",
    ),
    (
        lambda: call("searchsorted")(tensor(float64, 2, 2), 1.0),
        "shape-mismatch",
        "sorted vector",
    ),
    (
        lambda: call("searchsorted")(tensor(float64, 2), 1.0, side="middle"),
        "bad-option",
        "middle",
    ),
    (
        lambda: call("digitize")(tensor(), call("array")([0.0, 2.0, 1.0])),
        "bad-option",
        "rise or fall",
    ),
]


@pytest.mark.parametrize(
    "make, code, words", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make: Any, code: str, words: str) -> None:
    with pytest.raises(GradcError) as caught:
        make()
    assert caught.value.code == code
    assert words in str(caught.value)


def test_lengths_that_must_be_there() -> None:
    """A symbolic axis may have too few elements: the call checks it."""
    values, _ = call("top_k")(tensor(float64, N), 2)
    assert [str(d) for d in values.op.requires(values.node)] == ["N - 2"]
    assert call("median")(tensor(int64, N)).dtype == float64
    assert call("median")(tensor(bool_, N)).dtype == float64

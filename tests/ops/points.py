"""Awkward points: kinks, poles, ties, overflow, emptiness. What is returned there is pinned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import call

from gradc.autodiff.reverse import gradients
from gradc.graph import Graph, Output, Tensor
from gradc.ops.basic import input_
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import as_tensor
from gradc.ops.keys import index_constant
from gradc.passes.expand import expand
from gradc.passes.merge import merge
from gradc.types import TensorType, dtype_of

inf, nan = np.inf, np.nan


@dataclass(frozen=True)
class Point:
    """`build(*at)` is `value`, its cotangents for a seed of ones are `slopes` (None: cut).

    `second` is the derivative of the sum of the first cotangent by the first operand.
    """

    name: str
    build: Callable[..., Any]
    at: Sequence[Any]
    value: Any
    slopes: Sequence[Any] = ()
    second: Any = None

    def __str__(self) -> str:
        return self.name


def check_point(point: Point) -> None:
    """The value and cotangents, as composites and as the primitives they expand into."""
    data = [np.asarray(a) for a in point.at]
    xs = [
        input_(name=f"x{k}", type=TensorType(dtype_of(a), a.shape), default=None)
        for k, a in enumerate(data)
    ]
    y = as_tensor(point.build(*xs))
    wanted: list[Any] = [point.value]
    found: list[Tensor] = [y]
    if point.slopes:
        bars = gradients(y, xs).tensors
        for bar, slope in zip(bars, point.slopes, strict=True):
            assert (bar is None) == (slope is None)
            if bar is not None:
                found.append(bar)
                wanted.append(slope)
        if point.second is not None:
            (again,) = gradients(bars[0], [xs[0]]).tensors
            assert again is not None
            found.append(again)
            wanted.append(point.second)
    graph = Graph(
        "point",
        tuple(xs),
        tuple(Output(f"o{k}", t) for k, t in enumerate(found)),
    )
    for version in (graph, merge(expand(graph))):
        feeds = dict(zip(version.inputs, data, strict=True))
        outputs = [o.tensor for o in version.outputs if o.tensor is not None]
        for k, (got, want) in enumerate(
            zip(evaluate(outputs, feeds), wanted, strict=True)
        ):
            np.testing.assert_allclose(
                got, want, rtol=1e-12, atol=1e-300, err_msg=f"output {k}"
            )


def fifth(x: Tensor) -> Tensor:
    """The fifth derivative of x**4."""
    y = x**4
    for _ in range(5):
        (next_,) = gradients(y, [x]).tensors
        assert next_ is not None
        y = next_
    return y


def _nanmax_from(x: Tensor) -> Any:
    return call("nanmax")(x, initial=-1.0)


ELEMENTWISE = [
    Point("abs at 0", abs, [[0.0, -2.0]], [0, 2], [[0, -1]], [0, 0]),
    Point("sign", call("sign"), [[0.0, -2.0, nan]], [0, -1, nan], [[0, 0, 0]], None),
    Point(
        "maximum at a tie and with NaN",
        call("maximum"),
        [[1.0, 2.0, nan, 1.0], [1.0, 1.0, 1.0, nan]],
        [1, 2, nan, nan],
        [[0.5, 1, 0, 0], [0.5, 0, 1, 1]],
    ),
    Point(
        "minimum at a tie",
        call("minimum"),
        [[1.0, 2.0], [1.0, 1.0]],
        [1, 1],
        [[0.5, 0], [0.5, 1]],
    ),
    Point(
        "fmax beside NaN",
        call("fmax"),
        [[1.0, 2.0, nan, 2.0, nan], [1.0, 1.0, 1.0, nan, nan]],
        [1, 2, 1, 2, nan],
        [[0.5, 1, 0, 1, 1], [0.5, 0, 1, 0, 0]],
    ),
    Point(
        "fmin beside NaN",
        call("fmin"),
        [[1.0, 2.0, nan, 2.0], [1.0, 1.0, 1.0, nan]],
        [1, 1, 1, 2],
        [[0.5, 0, 0, 1], [0.5, 1, 1, 0]],
    ),
    Point(
        "clip on its bounds",
        call("clip"),
        [[-1.0, 0.0, 0.5, 1.0, 2.0, nan], 0.0, 1.0],
        [0, 0, 0.5, 1, 1, nan],
        [[0, 1, 1, 1, 0, 1], 1, 1],
    ),
    Point(
        "clip where the bounds cross",
        call("clip"),
        [[0.0, 3.0], 2.0, 1.0],
        [1, 1],
        [[0, 0], 0, 2],
    ),
    Point(
        "an infinite slope behind what was cut off",
        lambda x: call("sqrt")(call("maximum")(x, 0)),
        [[-1.0, 4.0]],
        [0, 2],
        [[0, 0.25]],
    ),
    Point(
        "what is not selected",
        lambda x: call("where")(x > 0, call("sqrt")(x), 0),
        [[0.0, -1.0, 4.0]],
        [0, 0, 2],
        [[0, 0, 0.25]],
        [0, 0, -1 / 32],
    ),
    Point(
        "overflow in what is not selected",
        lambda x: call("where")(x < 10, call("exp")(x), 0),
        [[1e4, 0.0]],
        [0, 1],
        [[0, 1]],
        [0, 1],
    ),
    Point(
        "heaviside at 0",
        call("heaviside"),
        [[0.0, -1.0, 1.0], [0.5, 0.5, 0.5]],
        [0.5, 0, 1],
        [[0, 0, 0], [1, 0, 0]],
        None,
    ),
    Point(
        "copysign of zeros",
        call("copysign"),
        [[3.0, -3.0, 0.0], [-0.0, 2.0, -1.0]],
        [-3, 3, -0.0],
        [[-1, -1, 0], [0, 0, 0]],
    ),
    Point(
        "nan_to_num",
        lambda x: call("nan_to_num")(x, nan=9.0, posinf=5.0),
        [[nan, inf, -inf, 2.0]],
        [9, 5, -np.finfo(float).max, 2],
        [[0, 0, 0, 1]],
    ),
    Point(
        "halves are rounded to even",
        call("rint"),
        [[0.5, 1.5, -2.5]],
        [0, 2, -2],
        [None],
    ),
    Point("signbit of -0.0", call("signbit"), [[-0.0, 0.0]], [True, False], [None]),
    Point(
        "floor_divide is constant",
        call("floor_divide"),
        [[7.0, -7.0], [2.0, 2.0]],
        [3, -4],
        [None, None],
    ),
    Point(
        "remainder",
        call("fmod"),
        [[5.03, 0.27], [0.1, 0.1]],
        np.fmod([5.03, 0.27], [0.1, 0.1]),
        [[1, 1], [-50, -2]],
    ),
    Point(
        "div_no_nan by 0",
        call("div_no_nan"),
        [[1.0, 0.0, 1.0], [0.0, 0.0, 2.0]],
        [0, 0, 0.5],
        [[0, 0, 0.5], [0, 0, -0.25]],
    ),
    Point(
        "mul_no_nan by 0",
        call("mul_no_nan"),
        [[inf, nan, 3.0], [0.0, 0.0, 2.0]],
        [0, 0, 6],
        [[0, 0, 2], [inf, nan, 3]],
    ),
    Point(
        "integer division by 0",
        call("floor_divide"),
        [np.array([7, -7]), np.array([0, 2])],
        [0, -4],
    ),
    Point("full_like cuts", call("full_like"), [[1.0, 2.0], 3.0], [3, 3], [None, 2]),
]

ELEMENTARY = [
    Point("sqrt at 0", call("sqrt"), [0.0], 0, [inf]),
    Point("x**4, fifth derivative", fifth, [[0.0, 2.0]], [0, 0]),
    Point(
        "whole powers of 0",
        lambda x, y: x**y,
        [[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0]],
        [1, 0, 0, 0],
        [[0, 1, 0, 0], [0, 0, 0, 0]],
    ),
    Point("x**1 at 0", lambda x: x**1, [0.0], 0, [1], 0),
    Point("x**2 at 0", lambda x: x**2, [0.0], 0, [0], 2),
    Point("x**0", lambda x: x**0, [[0.0, 2.0, nan]], [1, 1, 1], [[0, 0, 0]]),
    Point("x**0.5 at 0", lambda x: x**0.5, [0.0], 0, [inf]),
    Point("x**-1", lambda x: x**-1, [[2.0, -4.0]], [0.5, -0.25], [[-0.25, -1 / 16]]),
    Point(
        "powers of negative numbers",
        lambda x, y: x**y,
        [[-2.0, 3.0], [2.0, 2.0]],
        [4, 9],
        [[-4, 6], [0, 9 * np.log(3)]],
    ),
    Point(
        "arctan2 on the axes and at the origin",
        call("arctan2"),
        [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]],
        [0, 0, np.pi / 2, np.pi],
        [[0, 1, 0, -1], [0, 0, -1, 0]],
    ),
    Point(
        "arctan2 far out",
        call("arctan2"),
        [[3e200, 3e-200], [4e200, 4e-200]],
        [np.arctan2(3, 4)] * 2,
        [[1.6e-201, 1.6e199], [-1.2e-201, -1.2e199]],
    ),
    Point(
        "hypot at the origin and far out",
        call("hypot"),
        [[0.0, 3e200], [0.0, 4e200]],
        [0, 5e200],
        [[0, 0.6], [0, 0.8]],
    ),
    Point(
        "sinc near 0",
        call("sinc"),
        [[0.0, 1e-9, 1e-6, 0.5]],
        np.sinc([0, 1e-9, 1e-6, 0.5]),
        [[0, -3.289868133696453e-09, -3.2898681336932063e-06, -4 / np.pi]],
        [
            -(np.pi**2) / 3,
            -(np.pi**2) / 3,
            -(np.pi**2) / 3 * (1 - 0.3e-12 * np.pi**2),
            16 / np.pi - 2 * np.pi,
        ],
    ),
    Point("expm1 far left", call("expm1"), [-40.0], -1, [np.exp(-40)]),
    Point("log at 0", call("log"), [0.0], -inf, [inf]),
    Point(
        "ldexp far out",
        lambda x: call("ldexp")(x, 2000),
        [[0.0, 1.0, 5e-324]],
        [0, inf, 2.0**926],
        [[inf, inf, inf]],
    ),
    Point(
        "ldexp far down",
        lambda x: call("ldexp")(x, -2000),
        [[1e300, inf]],
        [0, inf],
    ),
]

TAIL = np.exp(-40) / (1 + np.exp(-40)) ** 2

SPECIAL = [
    Point(
        "sigmoid far out",
        call("sigmoid"),
        [[-1000.0, -40.0, 0.0, 40.0, 1000.0]],
        [0, np.exp(-40), 0.5, 1, 1],
        [[0, TAIL, 0.25, TAIL, 0]],
    ),
    Point(
        "softplus far out",
        call("softplus"),
        [[-1000.0, 0.0, 30.0, 1000.0]],
        [0, np.log(2), np.logaddexp(0, 30), 1000],
        [[0, 0.5, 1 / (1 + np.exp(-30)), 1]],
        [0, 0.25, np.exp(-30) / (1 + np.exp(-30)) ** 2, 0],
    ),
    Point(
        "log_sigmoid far out",
        call("log_sigmoid"),
        [[-1000.0, 0.0, 1000.0]],
        [-1000, -np.log(2), 0],
        [[1, 0.5, 0]],
    ),
    Point(
        "logaddexp of infinities",
        call("logaddexp"),
        [[-inf, inf, -inf, 1000.0], [-inf, inf, 1.0, 0.0]],
        [-inf, inf, 1, 1000],
        [[0, 0.5, 0, 1], [0, 0.5, 1, 0]],
    ),
    Point(
        "logaddexp, second derivative",
        lambda x: call("logaddexp")(x, 0.0),
        [[0.0, 30.0, -30.0, 800.0]],
        np.logaddexp([0, 30, -30, 800], 0),
        [1 / (1 + np.exp(-np.array([0.0, 30.0, -30.0, 800.0])))],
        [0.25, 9.357622968839299e-14, 9.357622968839299e-14, 0],
    ),
    Point(
        "xlogy at 0",
        call("xlogy"),
        [[0.0, 0.0, 2.0], [2.0, 0.0, 3.0]],
        [0, 0, 2 * np.log(3)],
        [[np.log(2), 0, np.log(3)], [0, 0, 2 / 3]],
    ),
    Point(
        "xlog1py at 0",
        call("xlog1py"),
        [[0.0, 0.0], [2.0, -1.0]],
        [0, 0],
        [[np.log(3), 0], [0, 0]],
    ),
    Point("xlogy of NaN", call("xlogy"), [0.0, nan], nan),
    Point("erfc far right", call("erfc"), [10.0], 2.088487583762545e-45),
    Point("entr outside", call("entr"), [[-1.0, 0.0, 1.0]], [-inf, 0, 0]),
    Point(
        "rel_entr at the edges",
        call("rel_entr"),
        [[0.0, 1.0, -1.0, nan], [1.0, 0.0, 1.0, 1.0]],
        [0, inf, inf, nan],
    ),
    Point("gammaln at its poles", call("gammaln"), [[0.0, -1.0]], [inf, inf]),
]

NEURAL = [
    Point(
        "relu at 0 and NaN",
        call("relu"),
        [[0.0, -1.0, 2.0, nan]],
        [0, 0, 2, nan],
        [[0, 0, 1, 0]],
        [0, 0, 0, 0],
    ),
    Point(
        "an infinite slope behind relu",
        lambda x: call("sqrt")(call("relu")(x)),
        [[-1.0, 4.0]],
        [0, 2],
        [[0, 0.25]],
    ),
    Point(
        "relu6 at its kinks",
        call("relu6"),
        [[0.0, 6.0, 3.0, 7.0]],
        [0, 6, 3, 6],
        [[0, 0, 1, 0]],
    ),
    Point(
        "leaky_relu at 0",
        call("leaky_relu"),
        [[0.0, -1.0, nan]],
        [0, -0.01, nan],
        [[0.01, 0.01, 0.01]],
    ),
    Point(
        "elu at 0 and far left",
        call("elu"),
        [[0.0, -1000.0, nan]],
        [0, -1, nan],
        [[1, 0, 1]],
    ),
    Point("elu far right", call("elu"), [1000.0], 1000, [1], 0),
    Point("celu far right", call("celu"), [1000.0], 1000, [1], 0),
    Point(
        "hard_tanh on its bounds",
        call("hard_tanh"),
        [[-1.0, 1.0, 2.0]],
        [-1, 1, 1],
        [[1, 1, 0]],
    ),
    Point(
        "silu far out", call("silu"), [[-1000.0, 1000.0]], [0, 1000], [[0, 1]], [0, 0]
    ),
    Point(
        "mish far out", call("mish"), [[-1000.0, 1000.0]], [0, 1000], [[0, 1]], [0, 0]
    ),
    Point(
        "gelu far out", call("gelu"), [[-1000.0, 1000.0]], [0, 1000], [[0, 1]], [0, 0]
    ),
    Point(
        "gelu by tanh, far out",
        lambda x: call("gelu")(x, approximate=True),
        [[-1e200, 1e200]],
        [0, 1e200],
        [[0, 1]],
        [0, 0],
    ),
    Point("softsign far out", call("softsign"), [[0.0, 1e200]], [0, 1], [[1, 0]]),
    Point(
        "huber",
        call("huber"),
        [[-1.0, 0.5, 1e200]],
        [0.5, 0.125, 1e200],
        [[-1, 0.5, 1]],
    ),
    Point("huber by delta", call("huber"), [3.0, 1.0], 2.5, [1, 2]),
]

REDUCE = [
    Point(
        "prod with a zero", call("prod"), [[2.0, 0.0, 3.0]], 0, [[0, 6, 0]], [3, 5, 2]
    ),
    Point(
        "prod with two zeros", call("prod"), [[2.0, 0.0, 0.0, 5.0]], 0, [[0, 0, 0, 0]]
    ),
    Point("prod of none", call("prod"), [np.zeros(0)], 1, [np.zeros(0)]),
    Point("max with ties", call("max"), [[1.0, 3.0, 3.0]], 3, [[0, 0.5, 0.5]]),
    Point("min with ties", call("min"), [[1.0, 1.0, 3.0]], 1, [[0.5, 0.5, 0]]),
    Point("max with NaN", call("max"), [[1.0, nan, 3.0]], nan, [[nan, nan, nan]]),
    Point("max of -inf alone", call("max"), [[-inf, -inf]], -inf, [[0.5, 0.5]]),
    Point("max of some", lambda x: call("max")(x, initial=9.0), [[1.0]], 9, [[0]]),
    Point(
        "max of none",
        lambda x: call("max")(x, initial=9.0),
        [np.zeros(0)],
        9,
        [np.zeros(0)],
    ),
    Point("argmax with ties", call("argmax"), [[1.0, 3.0, 3.0]], 1, [None]),
    Point("argmax with NaN", call("argmax"), [[1.0, nan, 3.0, nan]], 1, [None]),
    Point("argmin with ties", call("argmin"), [[1.0, 0.0, 0.0]], 1, [None]),
    Point("argmax of truth values", call("argmax"), [np.array([False, True])], 1),
    Point("mean of none", call("mean"), [np.zeros(0)], nan, [np.zeros(0)]),
    Point("nanmax with ties", call("nanmax"), [[2.0, nan, 2.0]], 2, [[0.5, 0, 0.5]]),
    Point("nanmax of -inf and NaN", call("nanmax"), [[nan, -inf]], -inf, [[0, 1]]),
    Point("nanmin of NaN alone", call("nanmin"), [[nan, nan]], nan, [[0, 0]]),
    Point("nanmax of a NaN and an initial value", _nanmax_from, [[nan]], -1, [[0]]),
    Point("nanmean of NaN alone", call("nanmean"), [[nan, nan]], nan),
    Point("diff of one", call("diff"), [[3.0]], [], [[0]]),
    Point("diff of none", call("diff"), [np.zeros(0)], [], [np.zeros(0)]),
    Point("diff of truth values", call("diff"), [np.array([True, False])], [True]),
    Point("trapezoid of one", call("trapezoid"), [[3.0]], 0, [[0]]),
    Point("trapezoid of none", call("trapezoid"), [np.zeros(0)], 0, [np.zeros(0)]),
    Point(
        "std of some, all equal",
        lambda x: call("std")(x, where=x < 4),
        [[3.0, 3.0, 5.0]],
        0,
        [[0, 0, 0]],
    ),
    Point("nansum", call("nansum"), [[1.0, nan]], 1, [[1, 0]]),
    Point("nanmean", call("nanmean"), [[1.0, nan, 2.0]], 1.5, [[0.5, 0, 0.5]]),
    Point("count_nonzero is constant", call("count_nonzero"), [[1.0, 0.0]], 1, [None]),
    Point(
        "running product with a zero",
        call("cumprod"),
        [[3.0, 0.0, 2.0, 4.0]],
        [3, 0, 0, 0],
        [[1, 33, 0, 0]],
    ),
    Point(
        "cummax with ties: as max does, at each place",
        call("cummax"),
        [[1.0, 3.0, 3.0, 2.0, 5.0]],
        [1, 3, 3, 3, 5],
        [[1, 2, 1, 0, 1]],
    ),
    Point(
        "cummin with ties",
        call("cummin"),
        [[0.0, 0.0, -1.0, -1.0]],
        [0, 0, -1, -1],
        [[1.5, 0.5, 1.5, 0.5]],
    ),
    Point(
        "cummax with NaN",
        call("cummax"),
        [[1.0, 2.0, nan, 3.0]],
        [1, 2, nan, nan],
        [[nan, nan, nan, nan]],
    ),
    Point(
        "cummax of infinities",
        call("cummax"),
        [[-inf, -inf, inf]],
        [-inf, -inf, inf],
        [[1.5, 0.5, 1]],
    ),
    Point("cummax of none", call("cummax"), [np.zeros(0)], [], [[]]),
    Point("cummax of a number", call("cummax"), [2.0], [2], [1]),
    Point(
        "logcumsumexp far out",
        call("logcumsumexp"),
        [[-1000.0, 1000.0, 1000.0, 0.0]],
        [-1000, 1000, 1000 + np.log(2), 1000 + np.log(2)],
        [[1, 2, 1, 0]],
    ),
    Point(
        "logcumsumexp from -inf",
        call("logcumsumexp"),
        [[-inf, -inf, 1.0]],
        [-inf, -inf, 1],
        [[0, 0, 1]],
    ),
    Point(
        "logcumsumexp with inf",
        call("logcumsumexp"),
        [[1.0, inf, 2.0]],
        [1, inf, inf],
        [[1, 0, 0]],
    ),
    Point("logcumsumexp of none", call("logcumsumexp"), [np.zeros(0)], [], [[]]),
    Point(
        "running product of none",
        call("cumprod"),
        [np.zeros(0)],
        np.zeros(0),
        [np.zeros(0)],
    ),
]

SORT = [
    Point(
        "sort with ties and NaN",
        lambda x: call("sort")(x) * as_tensor(2.0 ** np.arange(5.0)),
        [[nan, 2.0, -inf, 2.0, 1.0]],
        [-inf, 2, 8, 16, nan],
        [[16, 4, 1, 8, 2]],
    ),
    Point(
        "sort along an axis, and of none",
        lambda x: call("sort")(x, 0),
        [np.zeros((0, 2))],
        np.zeros((0, 2)),
        [np.zeros((0, 2))],
    ),
    Point("argsort has no path", call("argsort"), [[2.0, 1.0]], [1, 0], [None]),
    Point("argsort of a number", call("argsort"), [3.0], [0]),
    Point("median of an odd number", call("median"), [[3.0, 1, 2]], 2, [[0, 0, 1]]),
    Point(
        "median with ties: the middle two by position",
        call("median"),
        [[2.0, 2.0, 2.0, 2.0]],
        2,
        [[0, 0.5, 0.5, 0]],
    ),
    Point("median with NaN", call("median"), [[1.0, nan, 2.0]], nan, [[0, 1, 0]]),
    Point("median of none", call("median"), [np.zeros(0)], nan, [np.zeros(0)]),
    Point("median of a number", call("median"), [3.0], 3, [1]),
    Point("median of infinities", call("median"), [[inf, inf, 1.0]], inf, [[1, 0, 0]]),
    Point(
        "quantile between two",
        lambda x: call("quantile")(x, 0.25),
        [[4.0, 1.0, 3.0]],
        2,
        [[0, 0.5, 0.5]],
    ),
    Point(
        "quantile at its ends",
        lambda x, q: call("quantile")(x, q),
        [[4.0, 1.0, 3.0], [0.0, 1.0]],
        [1, 4],
        [[1, 1, 0], [4, 0]],
    ),
    Point(
        "quantile with NaN",
        lambda x: call("quantile")(x, 0.5),
        [[1.0, nan, 2.0]],
        nan,
        [[0, 1, 0]],
    ),
    Point(
        "top_k with ties",
        lambda x: call("top_k")(x, 2)[0] * as_tensor(np.array([1.0, 2.0])),
        [[1.0, 3.0, 3.0, 3.0]],
        [3, 6],
        [[0, 1, 2, 0]],
    ),
    Point(
        "top_k: NaN is the largest",
        lambda x: call("top_k")(x, 2)[1],
        [[1.0, inf, nan, 2.0]],
        [2, 1],
        [None],
    ),
    Point("top_k of none", lambda x: call("top_k")(x, 0)[0], [[1.0]], [], [[0]]),
    Point(
        "searchsorted with NaN",
        call("searchsorted"),
        [[1.0, 2.0, nan], [nan, 2.0, inf]],
        [2, 1, 2],
        [None, None],
    ),
    Point(
        "digitize on the edges",
        call("digitize"),
        [[0.0, 1.0, 2.0, 0.5], [0.0, 1.0]],
        [1, 2, 2, 1],
        [None, None],
    ),
]

SHARES = np.exp([0.0, -1.0]) / np.sum(np.exp([0.0, -1.0]))

COMPOSITE = [
    Point("logsumexp of -inf alone", call("logsumexp"), [[-inf, -inf]], -inf, [[0, 0]]),
    Point("logsumexp with one -inf", call("logsumexp"), [[-inf, 1.0]], 1, [[0, 1]]),
    Point("logsumexp with inf", call("logsumexp"), [[inf, 1.0]], inf),
    Point("logsumexp of none", call("logsumexp"), [np.zeros(0)], -inf, [np.zeros(0)]),
    Point(
        "logsumexp far out",
        call("logsumexp"),
        [[1000.0, 999.0]],
        1000 + np.log(np.sum(np.exp([0.0, -1.0]))),
        [SHARES],
        [0, 0],
    ),
    Point("softmax far out", call("softmax"), [[1000.0, 999.0]], SHARES),
    Point(
        "log_softmax far out",
        call("log_softmax"),
        [[1000.0, -1000.0]],
        [0, -2000],
        [[-1, 1]],
    ),
    Point("var of equals", call("var"), [[3.0, 3.0]], 0, [[0, 0]]),
    Point("std of equals", call("std"), [[3.0, 3.0, 3.0]], 0, [[0, 0, 0]]),
    Point(
        "std of equals whose mean is rounded",
        call("std"),
        [[0.1, 0.1, 0.1]],
        float(np.std([0.1, 0.1, 0.1])),
        [[0, 0, 0]],
        second=[0, 0, 0],
    ),
    Point("var of one, as of a sample", lambda x: call("var")(x, ddof=1), [[3.0]], nan),
    Point("norm at 0", call("norm"), [[0.0, 0.0]], 0, [[0, 0]]),
    Point("3-norm at 0", lambda x: call("norm")(x, 3), [[0.0, 0.0]], 0, [[0, 0]]),
    Point("1-norm at 0", lambda x: call("norm")(x, 1), [[0.0, -2.0]], 2, [[0, -1]]),
    Point(
        "cross entropy of certain labels",
        call("softmax_cross_entropy"),
        [[1000.0, 0.0, -inf], [0.0, 1.0, 0.0]],
        1000,
        [[1, -1, 0], [0, 1000, inf]],
    ),
    Point(
        "cross entropy by ids, one from the end",
        call("sparse_softmax_cross_entropy"),
        [[[1000.0, 0.0, -1000.0], [0.0, 0.0, 0.0]], np.array([2, -3])],
        [2000, np.log(3)],
        [[[1, 0, -1], [-2 / 3, 1 / 3, 1 / 3]], None],
    ),
    Point(
        "sigmoid_cross_entropy far out",
        call("sigmoid_cross_entropy"),
        [[1000.0, -1000.0], [1.0, 1.0]],
        [0, 1000],
        [[0, -1], [-1000, 1000]],
    ),
]


def line(*numbers):
    return np.array(numbers, float)[None, None]


WINDOWS = [
    Point(
        "max_pool gives a tie to the first",
        lambda x: call("max_pool")(x, 2),
        [[[[[1.0, 1], [1, 1]]]]],
        [[[[1]]]],
        [[[[[1, 0], [0, 0]]]]],
    ),
    Point(
        "max_pool: a wins add up",
        lambda x: call("max_pool")(x, 3, 1, 1),
        [line(1, 88, 3, 4, 5, 6)],
        line(88, 88, 88, 5, 6, 6),
        [line(0, 3, 0, 0, 1, 2)],
    ),
    Point(
        "max_pool: padding never wins",
        lambda x: call("max_pool")(x, 2, 2, 1),
        [line(-1, -4, -2)],
        line(-1, -2),
        [line(1, 0, 1)],
    ),
    Point(
        "max_pool: not even over -inf",
        lambda x: call("max_pool")(x, 3, 2, 1),
        [line(-inf, -inf, 1, -inf, -inf)],
        line(-inf, 1, -inf),
        [line(1, 0, 1, 1, 0)],
    ),
    Point(
        "max_pool of a NaN",
        lambda x: call("max_pool")(x, 2),
        [line(1, nan, 2, 1, nan, nan)],
        line(nan, 2, nan),
        [line(0, 1, 1, 0, 1, 0)],
    ),
    Point(
        "max_pool: long windows give a tie to the first in row-major order",
        lambda x: call("max_pool")(x, (3, 6)),
        [np.eye(3, 6)[None, None, ::-1]],
        [[[[1]]]],
        [np.eye(3, 6)[None, None, ::-1] * [[1], [0], [0]]],
    ),
    Point(
        "avg_pool does not count padding",
        lambda x: call("avg_pool")(x, 2, 2, 1),
        [line(2, 4, 6)],
        line(2, 5),
        [line(1, 0.5, 0.5)],
    ),
    Point(
        "avg_pool of what was padded before counts it",
        lambda x: call("avg_pool")(call("pad")(x, ((0, 0), (0, 0), (1, 0))), 2),
        [line(2, 4, 6)],
        line(1, 5),
        [line(0.5, 0.5, 0.5)],
    ),
]


SEGMENTS = [
    Point(
        "segment_max: ties share, an empty segment is -inf",
        lambda x: call("segment_max")(x, index_constant([0, 0, 2, 2]), 3),
        [[1.0, 1.0, -inf, -inf]],
        [1, -inf, -inf],
        [[0.5, 0.5, 0.5, 0.5]],
    ),
    Point(
        "segment_min of a NaN",
        lambda x: call("segment_min")(x, index_constant([0, 0, 1]), 2),
        [[nan, 1.0, 2.0]],
        [nan, 2],
        [[nan, nan, 1]],
    ),
    Point(
        "segment_prod with zeros, overflow and underflow",
        lambda x: call("segment_prod")(x, index_constant([0, 1, 0, 1, 2, 2, 2]), 4),
        [[0.0, 0.0, 3.0, 0.0, 1e-200, 1e-200, 1e200]],
        [0, 0, 0, 1],
        [[3, 0, 0, 0, 1, 1, 0]],
    ),
    Point(
        "segment_mean of an empty segment",
        lambda x: call("segment_mean")(x, index_constant([1, 1]), 2),
        [[1.0, 2.0]],
        [0, 1.5],
        [[0.5, 0.5]],
    ),
    Point(
        "index_max: all that are the largest share",
        lambda x, v: call("index_max")(x, index_constant([0, 0, 2]), v),
        [[1.0, -inf, 3.0], [1.0, 1.0, 2.0]],
        [1, -inf, 3],
        [[1 / 3, 1, 1], [1 / 3, 1 / 3, 0]],
    ),
]

POINTS = [
    *ELEMENTWISE,
    *ELEMENTARY,
    *SPECIAL,
    *NEURAL,
    *REDUCE,
    *SORT,
    *COMPOSITE,
    *WINDOWS,
    *SEGMENTS,
]

"""Rows of the elementwise ops, reductions, running totals and composites.

`call("exp")` is the function of the language; a row's `numpy` is its meaning in NumPy or SciPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import segments
import windows
from rows import Row
from scipy import special as sp

import gradc.ops  # noqa: F401  (enters all functions)
from gradc.graph import Tensor
from gradc.ops.functions import lookup_function
from gradc.ops.index import index
from gradc.ops.order import exclusive_product, recurrence
from gradc.types import bool_, float32, float64, int8, int32, int64, uint8


def call(name: str) -> Callable[..., Any]:
    """The function of the language called `name`."""
    found = lookup_function(name)
    assert found is not None, name
    return found.call


def within(*bounds: tuple[float, float]) -> Callable[..., list[Any]]:
    """Draws each input evenly between bounds (the last pair serves the inputs after it)."""

    def draw(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
        return [
            rng.uniform(*bounds[min(k, len(bounds) - 1)], size=shape)
            for k, shape in enumerate(shapes)
        ]

    return draw


def quarters(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
    """Multiples of 1/4 that are no multiples of 1/2: away from every kink and tie by 1/4."""
    return [(2 * rng.integers(-6, 6, size=s) + 1) / 4 for s in shapes]


def apart(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
    """All elements of all inputs differ by 1/8 at least."""
    counts = [int(np.prod(s)) for s in shapes]
    values = (rng.permutation(sum(counts)) - sum(counts) / 2 + 0.3) / 8
    parts = np.split(values, np.cumsum(counts)[:-1])
    return [p.reshape(s) for p, s in zip(parts, shapes, strict=True)]


def unary(
    name: str,
    numpy: Callable[..., Any],
    low: float = -2.0,
    high: float = 2.0,
    **more: Any,
) -> Row:
    draw = more.pop("draw", within((low, high)))
    return Row(name, ("N M",), call(name), numpy, draw=draw, **more)


def binary(
    name: str,
    numpy: Callable[..., Any],
    shapes: tuple[str, str] = ("N M", "M"),
    **more: Any,
) -> Row:
    draw = more.pop("draw", within((-2.0, 2.0)))
    return Row(name, shapes, call(name), numpy, draw=draw, **more)


WHOLE: dict[str, Any] = {"dtypes": (int64,), "draw": None, "order": 0}
"""A row of integers."""


def integers(name: str, numpy: Callable[..., Any], low: int = -9, high: int = 9) -> Row:
    def draw(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
        return [rng.integers(low, high, size=s) for s in shapes]

    return Row(
        f"{name} of integers",
        ("N M", "M"),
        call(name),
        numpy,
        dtypes=(int64, int32, int8),
        draw=draw,
        order=0,
    )


def truths(name: str, numpy: Callable[..., Any], count: int = 2) -> Row:
    def draw(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
        return [rng.integers(0, 2, size=s) for s in shapes]

    return Row(
        f"{name} of truth values",
        ("N M", "M")[:count],
        call(name),
        numpy,
        dtypes=(bool_,),
        draw=draw,
        order=0,
    )


# ---------------------------------------------------------------------- elementwise.py

ELEMENTWISE = [
    binary("add", np.add),
    binary("add", np.add, ("", "N")),
    binary("add", np.add, ("N 1", "M")),
    binary("subtract", np.subtract),
    binary("multiply", np.multiply),
    binary("multiply", np.multiply, ("", "")),
    binary("divide", np.divide, draw=within((-2, 2), (0.5, 2))),
    unary("negative", np.negative),
    unary("positive", np.positive),
    unary("square", np.square),
    unary("reciprocal", np.reciprocal, 0.5, 2),
    unary("absolute", np.absolute, draw=quarters),
    unary("abs", np.abs, draw=quarters),
    unary("fabs", np.fabs, draw=quarters),
    unary("sign", np.sign, draw=quarters),
    binary("maximum", np.maximum, draw=apart),
    binary("minimum", np.minimum, draw=apart),
    binary("fmax", np.fmax, draw=apart),
    binary("fmin", np.fmin, draw=apart),
    binary("heaviside", np.heaviside, draw=quarters),
    binary("copysign", np.copysign, draw=quarters),
    Row(
        "where",
        ("N M", "M", "N 1"),
        lambda c, x, y: call("where")(c > 0, x, y),
        lambda c, x, y: np.where(c > 0, x, y),
        draw=quarters,
    ),
    Row(
        "select",
        ("N M", "M"),
        lambda x, y: call("select")([x > 1, x > y], [x * y, y], 7),
        lambda x, y: np.select(
            [x > 1, x > y], [x * y, np.broadcast_to(y, x.shape)], np.asarray(7, x.dtype)
        ),
        draw=apart,
    ),
    Row(
        "clip",
        ("N M", "M", ""),
        lambda x, low, high: call("clip")(x, low, high + 2),
        lambda x, low, high: np.clip(x, low, high + 2),
        draw=apart,
    ),
    Row(
        "clip below",
        ("N M",),
        lambda x: call("clip")(x, min=0.5),
        lambda x: np.maximum(x, x.dtype.type(0.5)),
        draw=quarters,
    ),
    Row(
        "clip above",
        ("N M",),
        lambda x: call("clip")(x, None, a_max=0.5),
        lambda x: np.minimum(x, x.dtype.type(0.5)),
        draw=quarters,
    ),
    Row(
        "nan_to_num",
        ("N M",),
        lambda x: call("nan_to_num")(1.0 / x, nan=3.0, posinf=2.0),
        lambda x: np.nan_to_num(1.0 / x, nan=3.0, posinf=2.0),
        draw=within((0.5, 2.0)),
    ),
    binary("remainder", np.remainder, draw=within((-5, 5), (2.0, 2.4))),
    binary("mod", np.mod, draw=within((-5, 5), (-2.4, -2.0))),
    binary("fmod", np.fmod, draw=within((-5, 5), (2.0, 2.4))),
    Row(
        "div_no_nan",
        ("N M", "M"),
        call("div_no_nan"),
        lambda x, y: x / y,
        draw=within((-2, 2), (0.5, 2.0)),
    ),
    Row(
        "mul_no_nan",
        ("N M", "M"),
        call("mul_no_nan"),
        np.multiply,
        draw=within((0.5, 2.0)),
    ),
    integers("add", np.add),
    integers("subtract", np.subtract),
    integers("multiply", np.multiply),
    integers("divide", np.divide, 1),
    integers("maximum", np.maximum),
    integers("fmin", np.fmin),
    integers("floor_divide", np.floor_divide),
    integers("remainder", np.remainder),
    integers("fmod", np.fmod),
    integers("bitwise_and", np.bitwise_and),
    integers("bitwise_or", np.bitwise_or),
    integers("bitwise_xor", np.bitwise_xor),
    integers("left_shift", np.left_shift, 0, 3),
    integers("right_shift", np.right_shift, 0, 3),
    integers("less", np.less),
    integers("equal", np.equal),
    Row("invert", ("N M",), call("invert"), np.invert, **WHOLE),
    Row("sign of integers", ("N M",), call("sign"), np.sign, **WHOLE),
    Row("absolute of integers", ("N",), call("absolute"), np.absolute, **WHOLE),
    truths("add", np.add),
    truths("multiply", np.multiply),
    truths("maximum", np.maximum),
    truths("logical_and", np.logical_and),
    truths("logical_or", np.logical_or),
    truths("logical_xor", np.logical_xor),
    truths("logical_not", np.logical_not, 1),
    truths("bitwise_and", np.bitwise_and),
    truths("invert", np.invert, 1),
    *(
        binary(name, getattr(np, name), order=0, draw=quarters)
        for name in (
            "less",
            "less_equal",
            "greater",
            "greater_equal",
            "equal",
            "not_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
        )
    ),
    binary("floor_divide", np.floor_divide, order=0, draw=quarters),
    *(
        unary(name, getattr(np, name), -3.0, 3.0, order=0)
        for name in (
            "floor",
            "ceil",
            "trunc",
            "rint",
            "signbit",
            "isnan",
            "isinf",
            "isfinite",
            "logical_not",
            "round",
        )
    ),
    Row(
        "round to places",
        ("N M",),
        lambda x: (call("round")(x, 2), call("round")(x * 100, -1)),
        lambda x: (np.round(x, 2), np.round(x * 100, -1)),
        order=0,
        dtypes=(float64,),
    ),
    Row(
        "constants like another",
        ("N M",),
        lambda x: (
            call("zeros_like")(x),
            call("ones_like")(x, dtype=int64),
            call("full_like")(x, 2.5),
        ),
        lambda x: (np.zeros_like(x), np.ones_like(x, np.int64), np.full_like(x, 2.5)),
        order=0,
    ),
    Row(
        "full_like of a tensor",
        ("N M", ""),
        call("full_like"),
        lambda x, v: np.full_like(x, v),
    ),
    unary("relu", lambda x: np.maximum(x, 0), draw=quarters),
]

# ----------------------------------------------------------------------- elementary.py

ELEMENTARY = [
    binary("power", np.power, draw=within((0.3, 2.0), (-2, 2)), order=3),
    Row(
        "power of a negative base",
        ("N",),
        lambda x: x**3,
        lambda x: x**3,
        order=4,
        tolerance=10,
    ),
    Row(
        "power with an exponent of 0",
        ("N",),
        lambda x: x**0 + 2.0**x,
        lambda x: x**0 + 2.0**x,
    ),
    binary("float_power", np.float_power, draw=within((0.5, 2)), dtypes=(float64,)),
    integers("power", np.power, 0, 4),
    unary("sqrt", np.sqrt, 0.2, 3),
    unary("cbrt", np.cbrt, 0.2, 3),
    unary("exp", np.exp),
    unary("exp2", np.exp2),
    unary("expm1", np.expm1),
    unary("log", np.log, 0.2, 3),
    unary("log2", np.log2, 0.2, 3),
    unary("log10", np.log10, 0.2, 3),
    unary("log1p", np.log1p, -0.7, 3),
    unary("sin", np.sin),
    unary("cos", np.cos),
    unary("tan", np.tan, -1.2, 1.2),
    unary("arcsin", np.arcsin, -0.8, 0.8),
    unary("arccos", np.arccos, -0.8, 0.8),
    unary("arctan", np.arctan),
    unary("sinh", np.sinh),
    unary("cosh", np.cosh),
    unary("tanh", np.tanh),
    unary("arcsinh", np.arcsinh),
    unary("arccosh", np.arccosh, 1.2, 3),
    unary("arctanh", np.arctanh, -0.8, 0.8),
    unary("deg2rad", np.deg2rad),
    unary("rad2deg", np.rad2deg),
    unary("sinc", np.sinc, order=4, tolerance=10),
    binary("arctan2", np.arctan2, draw=within((0.5, 2))),
    binary("hypot", np.hypot, draw=within((0.5, 2))),
    Row(
        "ldexp",
        ("N M",),
        lambda x: call("ldexp")(x, 3),
        lambda x: np.ldexp(x, 3),
    ),
]

# --------------------------------------------------------------------------- special.py

SPECIAL = [
    unary("sigmoid", sp.expit, -4, 4, order=3),
    unary("expit", sp.expit, -4, 4),
    unary("softplus", lambda x: np.logaddexp(x, x.dtype.type(0)), -4, 4, order=3),
    unary("log_sigmoid", sp.log_expit, -4, 4),
    unary("log_expit", sp.log_expit, -4, 4),
    unary("logit", sp.logit, 0.1, 0.9),
    binary("logaddexp", np.logaddexp),
    binary("logaddexp2", np.logaddexp2),
    unary("erf", sp.erf),
    unary("erfc", sp.erfc),
    unary("ndtr", sp.ndtr),
    unary("gammaln", sp.gammaln, 0.5, 4, tolerance=10),
    unary("digamma", sp.digamma, 0.5, 4, tolerance=10),
    Row(
        "polygamma",
        ("N M",),
        lambda x: call("polygamma")(2, x),
        lambda x: np.asarray(sp.polygamma(2, x), x.dtype),
        draw=within((1.0, 4.0)),
        tolerance=100,
    ),
    binary("betaln", sp.betaln, draw=within((0.5, 4)), tolerance=100),
    binary("xlogy", sp.xlogy, draw=within((0.3, 2))),
    binary("xlog1py", sp.xlog1py, draw=within((0.3, 2))),
    unary("entr", sp.entr, 0.2, 2),
    binary("rel_entr", sp.rel_entr, draw=within((0.3, 2))),
    binary("kl_div", sp.kl_div, draw=within((0.3, 2)), tolerance=10),
]

# ---------------------------------------------------------------------------- neural.py


def _selu(x: Any) -> Any:
    below = 1.6732632423543772 * np.expm1(np.minimum(x, 0))
    return (1.0507009873554805 * np.where(x >= 0, x, below)).astype(x.dtype)


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


NEURAL = [
    unary("relu", lambda x: np.maximum(x, 0), draw=quarters),
    unary("relu6", lambda x: np.clip(x, 0, 6), -2, 8),
    Row(
        "leaky_relu",
        ("N M", "M"),
        call("leaky_relu"),
        lambda x, a: np.where(x > 0, x, a * x),
        draw=quarters,
    ),
    Row(
        "elu",
        ("N M", "M"),
        call("elu"),
        lambda x, a: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
        draw=quarters,
    ),
    Row(
        "celu",
        ("N M",),
        lambda x: call("celu")(x, 0.7),
        lambda x: np.where(x >= 0, x, 0.7 * np.expm1(np.minimum(x, 0) / 0.7)),
        draw=quarters,
    ),
    unary("selu", _selu, draw=quarters),
    unary("hard_sigmoid", lambda x: np.clip(x + 3, 0, 6) / 6, -5, 5),
    unary("hard_tanh", lambda x: np.clip(x, -1, 1), draw=quarters),
    unary("silu", lambda x: x * sp.expit(x)),
    unary("mish", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    unary("softsign", lambda x: x / (1 + np.abs(x)), draw=quarters),
    unary("gelu", lambda x: x * sp.ndtr(x)),
    Row(
        "gelu by tanh",
        ("N M",),
        lambda x: call("gelu")(x, approximate=True),
        lambda x: _gelu_tanh(x).astype(x.dtype),
    ),
    Row(
        "huber",
        ("N M",),
        lambda x: call("huber")(x, 0.5),
        lambda x: sp.huber(np.asarray(0.5, x.dtype), x),
        draw=apart,
    ),
]

# --------------------------------------------------------------------- order.py, reduce.py

ORDER = [
    Row("cumsum", ("N M",), lambda x: call("cumsum")(x, 0), lambda x: np.cumsum(x, 0)),
    Row("cumsum of all", ("N M",), call("cumsum"), np.cumsum),
    Row(
        "cumsum of integers",
        ("N M",),
        lambda x: call("cumsum")(x, -1),
        lambda x: np.cumsum(x, -1),
        dtypes=(int64, int8, uint8, bool_),
        order=0,
    ),
    Row(
        "cumprod",
        ("N M",),
        lambda x: call("cumprod")(x, 0),
        lambda x: np.cumprod(x, 0),
        order=3,
    ),
    Row("cumprod of all", ("N",), call("cumprod"), np.cumprod),
    Row(
        "product of the others",
        ("N M",),
        lambda x: exclusive_product(x, 0),
        lambda x: np.prod(x, 0) / x if x.size else x,
        draw=within((0.5, 1.5)),
    ),
    Row(
        "recurrence from the end",
        ("N M", "N M"),
        lambda a, b: recurrence(a, b, axis=1, reverse=True, start=2.0),
        lambda a, b: _states(a[:, ::-1], b[:, ::-1], 2.0)[:, ::-1],
    ),
]


ORDER += [
    *(
        Row(
            f"{name} along {axis}",
            ("N M",),
            lambda x, name=name, axis=axis: call(name)(x, axis),
            lambda x, numpy=numpy, axis=axis: numpy.accumulate(
                x.ravel() if axis is None else x, axis or 0
            ),
            draw=apart if name != "logcumsumexp" else None,
            order=3 if name == "logcumsumexp" else 2,
        )
        for name, numpy in (
            ("cummax", np.maximum),
            ("cummin", np.minimum),
            ("logcumsumexp", np.logaddexp),
        )
        for axis in (-1, 0, None)
    ),
    *(
        Row(
            f"{name} of integers",
            ("N M",),
            lambda x, name=name: call(name)(x, 1),
            lambda x, numpy=numpy: numpy.accumulate(x, 1),
            dtypes=(int64, int8, uint8, bool_),
            order=0,
        )
        for name, numpy in (("cummax", np.maximum), ("cummin", np.minimum))
    ),
]


def _states(a: Any, b: Any, start: float) -> Any:
    out = np.empty_like(a)
    state = np.full(len(a), start, a.dtype)
    for i in range(a.shape[1]):
        out[:, i] = state
        state = a[:, i] * state + b[:, i]
    return out


# ----------------------------------------------------------------------------- sort.py


def _ties(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
    """Few different values, so that most are repeated."""
    return [rng.integers(-2, 3, size=s) for s in shapes]


def _quietly(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A function of NumPy without its warnings of empty slices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return function(*args, **options)


def _descending(x: Any, k: int) -> tuple[Any, Any]:
    order = x.shape[-1] - 1 - np.flip(np.argsort(np.flip(x, -1), -1, kind="stable"), -1)
    return np.take_along_axis(x, order, -1)[..., :k], order[..., :k]


SORT = [
    *(
        Row(
            f"sort along {axis}",
            ("N M 3",),
            lambda x, axis=axis: call("sort")(x, axis),
            lambda x, axis=axis: np.sort(x, axis),
            draw=apart,
        )
        for axis in (-1, 0, None)
    ),
    Row(
        "sort and argsort with ties",
        ("N M",),
        lambda x: (call("sort")(x, 0), call("argsort")(x), call("argsort")(x, None)),
        lambda x: (
            np.sort(x, 0),
            np.argsort(x, kind="stable"),
            np.argsort(x, None, kind="stable"),
        ),
        dtypes=(int64, int8, uint8, bool_, float64),
        draw=_ties,
        order=0,
    ),
    Row(
        "partition",
        ("N M",),
        lambda x: (
            index(call("partition")(x, 1), (slice(None), 1)),
            index(
                call("take_along_axis")(x, call("argpartition")(x, (0, -1), 0), 0), 0
            ),
        ),
        lambda x: (
            np.partition(x, 1)[:, 1],
            np.take_along_axis(x, np.argpartition(x, (0, -1), 0), 0)[0],
        ),
        draw=apart,
        zero=False,
    ),
    Row(
        "top_k",
        ("N M",),
        lambda x: call("top_k")(x, 2),
        lambda x: _descending(x, 2),
        draw=apart,
        zero=False,
    ),
    Row(
        "top_k with ties",
        ("N M",),
        lambda x: call("top_k")(x, 3),
        lambda x: _descending(x, 3),
        dtypes=(int64, float32),
        draw=_ties,
        order=0,
        zero=False,
    ),
    *(
        Row(
            f"median over {axis}",
            ("N M 3",),
            lambda x, axis=axis: call("median")(x, axis, keepdims=axis == 0),
            lambda x, axis=axis: _quietly(np.median, x, axis, keepdims=axis == 0),
            draw=apart,
            zero=axis != (0, -1),  # NumPy can't
        )
        for axis in (None, 0, -1, (0, -1))
    ),
    Row(
        "median of integers",
        ("N M",),
        call("median"),
        np.median,
        dtypes=(int64, bool_),
        draw=_ties,
        order=0,
        zero=False,
    ),
    *(
        Row(
            f"quantile at {q} over {axis}",
            ("N M 3",),
            lambda x, q=q, axis=axis: call("quantile")(x, q, axis, keepdims=axis == 1),
            lambda x, q=q, axis=axis: np.quantile(x, q, axis, keepdims=axis == 1),
            draw=apart,
            zero=False,
        )
        for q, axis in ((0.3, None), (0.0, 0), (1, (0, -1)), ([0.2, 0.65], 1))
    ),
    Row(
        "quantile at a tensor",
        ("N M", "K"),
        lambda x, q: call("quantile")(x, q, 1),
        lambda x, q: np.quantile(x, q, 1),
        draw=lambda rng, shapes: [
            *apart(rng, shapes[:1]),
            rng.uniform(0.1, 0.4, size=shapes[1]),
        ],
        zero=False,
    ),
    Row(
        "searchsorted",
        ("N", "M K", "N"),
        lambda a, v, u: (
            call("searchsorted")(call("sort")(a), v),
            call("searchsorted")(call("sort")(a), v, side="right"),
            call("searchsorted")(u, v, sorter=call("argsort")(u)),
        ),
        lambda a, v, u: (
            np.searchsorted(np.sort(a), v),
            np.searchsorted(np.sort(a), v, side="right"),
            np.searchsorted(u, v, sorter=np.argsort(u)),
        ),
        dtypes=(float64, float32, int64),
        draw=_ties,
        order=0,
    ),
    Row(
        "digitize",
        ("N", "M"),
        lambda x, bins: (
            call("digitize")(x, call("sort")(bins)),
            call("digitize")(x, call("flip")(call("sort")(bins)), right=True),
            call("digitize")(x, call("array")([1.0, 0.0])),
        ),
        lambda x, bins: (
            np.digitize(x, np.sort(bins)),
            np.digitize(x, np.sort(bins)[::-1], right=True),
            np.digitize(x, [1.0, 0.0]),
        ),
        draw=_ties,
        order=0,
    ),
]


def reduction(
    name: str, axis: Any, numpy: Callable[..., Any] | None = None, **more: Any
) -> Row:
    """A reduction of a tensor of rank 3, its axes kept where there are several."""
    meaning = numpy or getattr(np, name)
    several = {"keepdims": True} if isinstance(axis, tuple) else {}
    return Row(
        f"{name} over {axis}",
        more.pop("shapes", ("N M 2",)),
        lambda x: call(name)(x, axis=axis, **several),
        lambda x: meaning(x, axis=axis, **several),
        **more,
    )


AXES = (None, 1, (0, -1))

REDUCE = [
    *(reduction("sum", axis) for axis in AXES),
    *(reduction("prod", axis, order=3) for axis in AXES),
    *(reduction("max", axis, draw=apart, zero=False) for axis in AXES),
    *(reduction("min", axis, draw=apart, zero=False) for axis in AXES),
    reduction("amax", -1, draw=apart),
    reduction("amin", -1, draw=apart),
    *(reduction("ptp", axis, draw=apart, zero=False) for axis in (None, 1)),
    *(reduction("mean", axis, zero=False) for axis in AXES),
    *(
        reduction(name, axis, dtypes=(int64, int8, uint8, bool_), order=0, zero=False)
        for name in ("sum", "prod", "max", "min", "mean", "any", "all")
        for axis in (None, (0, 1))
    ),
    *(
        reduction(name, 1, order=0, zero=False)
        for name in ("argmax", "argmin", "any", "all", "count_nonzero")
    ),
    reduction("argmax", None, order=0, zero=False),
    Row("sum of a number", ("",), call("sum"), np.sum),
    Row("max of a number", ("",), call("max"), np.max),
    Row("prod of a number", ("",), call("prod"), np.prod),
    Row(
        "any and all of nothing",
        ("N",),
        lambda x: (call("any")(x > 9), call("all")(x > 9)),
        lambda x: (np.any(x > 9), np.all(x > 9)),
        order=0,
    ),
    Row(
        "argmax kept",
        ("N M",),
        lambda x: (
            call("argmax")(x, keepdims=True),
            call("argmin")(x, 1, keepdims=True),
        ),
        lambda x: (np.argmax(x, keepdims=True), np.argmin(x, 1, keepdims=True)),
        order=0,
        zero=False,
    ),
    Row(
        "sum of some",
        ("N M", "M"),
        lambda x, m: call("sum")(x, 0, where=m > 0, initial=2.0),
        lambda x, m: np.sum(x, 0, where=m > 0, initial=2.0),
    ),
    Row(
        "prod of some",
        ("N M", "N 1"),
        lambda x, m: call("prod")(x, 1, where=m > 0, initial=2.0, keepdims=True),
        lambda x, m: np.prod(x, 1, where=m > 0, initial=2.0, keepdims=True),
    ),
    Row(
        "max and min of some",
        ("N M", "M"),
        lambda x, m: (
            call("max")(x, 1, where=m > 0, initial=-3.0),
            call("min")(x, 1, where=m > 0, initial=3.0, keepdims=True),
        ),
        lambda x, m: (
            np.max(x, 1, where=m > 0, initial=-3.0),
            np.min(x, 1, where=m > 0, initial=3.0, keepdims=True),
        ),
        draw=apart,
    ),
    Row(
        "mean of some",
        ("N M", "M"),
        lambda x, m: call("mean")(x, 1, where=m < 9),
        lambda x, m: np.mean(x, 1, where=m < 9),
        zero=False,
    ),
    Row(
        "sum in another dtype",
        ("N M",),
        lambda x: call("sum")(x, dtype=float64),
        lambda x: np.sum(x, dtype=np.float64),
    ),
    Row(
        "average",
        ("N M", "M"),
        lambda x, w: call("average")(x, 1, weights=w),
        lambda x, w: np.average(x, 1, weights=w),
        draw=within((0.5, 1.5)),
        zero=False,
    ),
    Row(
        "average by elements",
        ("N M", "N M"),
        lambda x, w: call("average")(x, weights=w, keepdims=True),
        lambda x, w: np.average(x, weights=w, keepdims=True),
        draw=within((0.5, 1.5)),
        zero=False,
    ),
    Row(
        "average of equals",
        ("N M",),
        lambda x: call("average")(x, 0),
        lambda x: np.average(x, 0),
        zero=False,
    ),
    Row(
        "nansum and nanmean",
        ("N M",),
        lambda x: (
            call("nansum")(call("where")(x > 0, x, np.nan), 1),
            call("nanmean")(call("where")(x > -1, x, np.nan), keepdims=True),
        ),
        lambda x: (
            np.nansum(np.where(x > 0, x, np.nan), 1),
            np.nanmean(np.where(x > -1, x, np.nan), keepdims=True),
        ),
        draw=quarters,
        zero=False,
    ),
]

REDUCE += [
    *(
        Row(
            f"{name} over {axis}",
            ("N M 2",),
            lambda x, name=name, axis=axis: call(name)(
                call("where")(x > 0, x, np.nan), axis, keepdims=axis == 1
            ),
            lambda x, name=name, axis=axis: _quietly(
                getattr(np, name),
                np.where(x > 0, x, x.dtype.type(np.nan)),
                axis,
                keepdims=axis == 1,
            ),
            draw=apart,
            zero=False,
        )
        for name in ("nanmax", "nanmin")
        for axis in (None, 1, (0, -1))
    ),
    *(
        Row(
            f"{name} of some",
            ("N M", "M"),
            lambda x, m, name=name: call(name)(
                call("where")(x > 0, x, np.nan), 1, initial=0.5, where=m > 0
            ),
            lambda x, m, name=name: getattr(np, name)(
                np.where(x > 0, x, x.dtype.type(np.nan)), 1, initial=0.5, where=m > 0
            ),
            draw=apart,
        )
        for name in ("nanmax", "nanmin", "nansum")
    ),
    Row(
        "nanmean of some, and of integers",
        ("N M", "M"),
        lambda x, m: (
            call("nanmean")(call("where")(x > -1, x, np.nan), where=m < 9),
            call("nanmean")(m > 0),
        ),
        lambda x, m: (
            np.nanmean(np.where(x > -1, x, x.dtype.type(np.nan)), where=m < 9),
            np.nanmean(m > 0),
        ),
        draw=quarters,
        zero=False,
    ),
    Row(
        "nanmax and nanmin of integers",
        ("N M",),
        lambda x: (call("nanmax")(x, 0), call("nanmin")(x)),
        lambda x: (np.nanmax(x, 0), np.nanmin(x)),
        dtypes=(int64, bool_),
        order=0,
        zero=False,
    ),
    Row(
        "average and its weights",
        ("N M", "M"),
        lambda x, w: call("average")(x, 1, weights=w, returned=True),
        lambda x, w: np.average(x, 1, weights=w, returned=True),
        draw=within((0.5, 1.5)),
        zero=False,
    ),
]

# ------------------------------------------------------------------------- difference.py


def _grid(rng: np.random.Generator, shapes: list[Any]) -> list[Any]:
    """Values, and coordinates that rise unevenly."""
    first, *rest = shapes
    points = [np.sort(rng.uniform(0, 1, s), 0) + np.arange(s[0]) for s in rest]
    return [rng.normal(size=first), *points]


def _difference(name: str, *args: Any, shapes: Any = ("N M",), **options: Any) -> Row:
    """A row of a function whose arguments beside its tensors are the same in NumPy."""
    draw = options.pop("draw", None)
    said = ", ".join([*map(str, args), *(f"{k}={v}" for k, v in options.items())])
    return Row(
        f"{name} {' and '.join(shapes)} {said}",
        shapes,
        lambda *xs: call(name)(*xs, *args, **options),
        lambda *xs: getattr(np, name)(*xs, *args, **options),
        zero=False,
        draw=draw,
    )


DIFFERENCE = [
    _difference("diff"),
    _difference("diff", 2, 0),
    _difference("diff", 0),
    _difference("diff", 5, shapes=("3",)),
    Row(
        "diff between ends",
        ("N M", "N 2", ""),
        lambda x, a, b: call("diff")(x, prepend=a, append=b),
        lambda x, a, b: np.diff(x, prepend=a, append=b),
    ),
    Row(
        "diff of integers",
        ("N M",),
        lambda x: call("diff")(x, axis=0),
        lambda x: np.diff(x, axis=0),
        dtypes=(int64, uint8, bool_),
        order=0,
        zero=False,
    ),
    _difference("ediff1d"),
    Row(
        "ediff1d between ends",
        ("N M", "2", ""),
        lambda x, a, b: call("ediff1d")(x, to_end=a, to_begin=b),
        lambda x, a, b: np.ediff1d(x, to_end=a, to_begin=b),
        zero=False,
    ),
    _difference("trapezoid"),
    _difference("trapezoid", axis=0, dx=0.5),
    _difference("trapezoid", shapes=("N M", "M"), draw=_grid),
    _difference("trapezoid", shapes=("N M", "N M"), axis=0),
    Row(
        "trapezoid of integers",
        ("N M",),
        call("trapezoid"),
        np.trapezoid,
        dtypes=(int64,),
        order=0,
        zero=False,
    ),
    _difference("gradient", shapes=("N",)),
    _difference("gradient"),
    _difference("gradient", 0.5, axis=0, edge_order=2),
    _difference("gradient", 0.5, 2.0),
    _difference("gradient", shapes=("N M", "N", "M"), draw=_grid),
    _difference("gradient", shapes=("N M", "N"), axis=-2, edge_order=2, draw=_grid),
    Row(
        "gradient by a step",
        ("N M", ""),
        lambda x, h: call("gradient")(x, h, axis=(1, 0)),
        lambda x, h: np.gradient(x, h, axis=(1, 0)),
        draw=within((-2, 2), (0.5, 2)),
        zero=False,
    ),
    Row(
        "gradient of integers",
        ("N M",),
        call("gradient"),
        np.gradient,
        dtypes=(int64,),
        order=0,
        zero=False,
    ),
]

# -------------------------------------------------------------------------- composite.py


def _entropy(x: Any, p: Any, axis: int = -1) -> Any:
    return -np.sum(p * sp.log_softmax(x, axis), axis).astype(x.dtype)


def _with_ids(build: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a row of two inputs its second as integers: the signs of it as ids."""

    def made(x: Tensor, at: Tensor) -> Any:
        return build(x, call("astype")(at > 0, int64))

    return made


COMPOSITE = [
    *(
        Row(
            f"logsumexp over {axis}",
            ("N M",),
            lambda x, axis=axis: call("logsumexp")(x, axis),
            lambda x, axis=axis: sp.logsumexp(x, axis),
            order=3,
            zero=axis == 0,
        )
        for axis in (None, 0, (0, 1))
    ),
    Row(
        "logsumexp with factors",
        ("N M", "M"),
        lambda x, b: call("logsumexp")(x, 1, b=b, keepdims=True),
        lambda x, b: sp.logsumexp(x, 1, b=b, keepdims=True),
        draw=within((-2, 2), (0.5, 2)),
        zero=False,
    ),
    *(
        Row(
            f"{name} over {axis}",
            ("N M",),
            lambda x, name=name, axis=axis: call(name)(x, axis),
            lambda x, name=name, axis=axis: getattr(sp, name)(x, axis),
            zero=False,
        )
        for name in ("softmax", "log_softmax")
        for axis in (-1, 0, None)
    ),
    *(reduction(name, axis, zero=False) for name in ("var", "std") for axis in AXES),
    Row(
        "var and std of a sample",
        ("N M",),
        lambda x: (
            call("var")(x, 0, ddof=1),
            call("std")(x, ddof=2, keepdims=True),
        ),
        lambda x: (np.var(x, 0, ddof=1), np.std(x, ddof=2, keepdims=True)),
        zero=False,
    ),
    Row(
        "var and std of some",
        ("N M", "M"),
        lambda x, m: (
            call("var")(x, 1, where=m > -0.8, ddof=0.5),
            call("std")(x, 0, where=m < 9, keepdims=True),
        ),
        lambda x, m: (
            np.var(x, 1, where=m > -0.8, ddof=0.5),
            np.std(x, 0, where=m < 9, keepdims=True),
        ),
        zero=False,
    ),
    Row(
        "var and std about a value",
        ("N M", "N 1"),
        lambda x, m: (
            call("var")(x, 1, mean=m, correction=1),
            call("std")(x, 1, mean=m),
        ),
        lambda x, m: (np.var(x, 1, mean=m, correction=1), np.std(x, 1, mean=m)),
        zero=False,
    ),
    Row(
        "var of integers",
        ("N M",),
        call("var"),
        np.var,
        dtypes=(int64,),
        order=0,
        zero=False,
    ),
    Row("norm", ("N M 2",), call("norm"), np.linalg.norm),
    *(
        Row(
            f"norm {ord} of vectors",
            ("N M",),
            lambda x, ord=ord: call("norm")(x, ord, axis=1),
            lambda x, ord=ord: np.linalg.norm(x, ord, axis=1),
            draw=apart,
            zero=False,
            order=2 if ord != 0 else 0,
        )
        for ord in (None, 2, 1, np.inf, -np.inf, 3, 2.5, 0)
    ),
    *(
        Row(
            f"norm {ord} of matrices",
            ("2 N M",),
            lambda x, ord=ord: call("norm")(x, ord, axis=(-1, 1), keepdims=True),
            lambda x, ord=ord: np.linalg.norm(x, ord, axis=(-1, 1), keepdims=True),
            draw=apart,
            zero=False,
        )
        for ord in (None, "fro", 1, np.inf, -1, -np.inf)
    ),
    Row(
        "softmax_cross_entropy",
        ("N M", "N M"),
        call("softmax_cross_entropy"),
        _entropy,
        draw=within((-2, 2), (0.1, 1)),
        zero=False,
    ),
    Row(
        "sparse_softmax_cross_entropy",
        ("N M", "M"),
        _with_ids(lambda x, at: call("sparse_softmax_cross_entropy")(x, at, axis=0)),
        lambda x, at: (
            -np.where(at > 0, sp.log_softmax(x, 0)[1], sp.log_softmax(x, 0)[0])
        ),
        zero=False,
    ),
    Row(
        "sigmoid_cross_entropy",
        ("N M", "N M"),
        call("sigmoid_cross_entropy"),
        lambda x, z: -z * sp.log_expit(x) - (1 - z) * sp.log_expit(-x),
        draw=within((-2, 2), (0.1, 0.9)),
        tolerance=10,
    ),
]

ALL = [
    *ELEMENTWISE,
    *ELEMENTARY,
    *SPECIAL,
    *NEURAL,
    *ORDER,
    *SORT,
    *REDUCE,
    *DIFFERENCE,
    *COMPOSITE,
    *windows.ROWS,
    *segments.ROWS,
]

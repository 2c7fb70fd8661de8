"""The scalar maths of emitted modules: accuracy, special values, and that it vectorises."""

import builtins
import dis
import importlib.util
import itertools
import math
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath as mp
import numba
import numpy as np
import pytest
import scipy.special as sp

from gradc.emit import mathlib, mathsource
from gradc.errors import InternalError

DTYPES = {"float64": np.float64, "float32": np.float32}
POINTS = 500  # a range


def uniform(low, high):
    return lambda rng: rng.uniform(low, high, POINTS)


def spread(low, high):
    """Both signs, logarithmically even."""
    return lambda rng: (
        np.exp(rng.uniform(math.log(low), math.log(high), POINTS))
        * (rng.choice([-1.0, 1.0], POINTS))
    )


def positive(low, high):
    return lambda rng: abs(spread(low, high)(rng))


def near_one(rng):
    return 1.0 + spread(1e-12, 1e-2)(rng)


def whole(low, high):
    return lambda rng: np.rint(uniform(low, high)(rng))


def quarter_turns(rng):
    return np.arange(1.0, POINTS) * (math.pi / 2)


def powers(base):
    return lambda rng: float(base) ** np.arange(-30.0, 30.0)


ALL = (spread(1e-320, 1e308), spread(1e-44, 3e38))
UNIT = (uniform(-1, 1), spread(1e-300, 1))
POSITIVE = (positive(1e-323, 1.7e308), positive(1e-44, 3e38), uniform(0.3, 3))
ANGLES = (uniform(-10, 10), uniform(-1e6, 1e6), quarter_turns)
PAIRS = (
    (spread(1e-3, 1e3),) * 2,
    (spread(1e-307, 1e307),) * 2,
    (spread(1e-37, 1e37),) * 2,
)


@dataclass(frozen=True)
class Case:
    """One function: exact value, ranges to draw from, the largest error in ULP by dtype.

    `like` has the special values; `floor` is the least magnitude whose ULP is counted.
    """

    name: str
    exact: Callable
    ranges: tuple
    ulp64: float
    ulp32: float | None
    like: Callable | None = None
    floor: Callable = lambda *_: 0.0
    vector: tuple = ("float64", "float32")

    def __str__(self) -> str:
        return self.name


def at_least_one_below_zero(x):
    return 1.0 if x < 0.0 else 0.0


CASES = [
    Case("exp", mp.exp, (uniform(-745, 709), uniform(-103, 88)), 1.0, 1.0, np.exp),
    Case("expm1", mp.expm1, (*UNIT, uniform(-40, 709)), 2.0, 1.5, np.expm1),
    Case(
        "exp2",
        lambda x: mp.mpf(2) ** x,
        (uniform(-1074, 1023), *UNIT),
        1.5,
        1.1,
        np.exp2,
    ),
    Case("log", mp.log, POSITIVE, 0.8, 0.8, np.log),
    Case("log1p", mp.log1p, (*POSITIVE, uniform(-0.999, 1)), 0.8, 0.8, np.log1p),
    Case("log2", lambda x: mp.log(x, 2), (*POSITIVE, powers(2)), 0.8, 0.8, np.log2),
    Case("log10", mp.log10, (*POSITIVE, powers(10)), 0.8, 0.8, np.log10),
    Case("tanh", mp.tanh, (*UNIT, uniform(-22, 22)), 2.5, 2.6, np.tanh),
    Case(
        "sinh", mp.sinh, (*UNIT, uniform(-710, 710), uniform(-89, 89)), 2.2, 2, np.sinh
    ),
    Case(
        "cosh",
        mp.cosh,
        (*UNIT, uniform(-710, 710), uniform(-89, 89)),
        1.3,
        1.3,
        np.cosh,
    ),
    Case(
        "sigmoid",
        lambda x: 1 / (1 + mp.exp(-x)),
        (*UNIT, uniform(-740, 40), uniform(-100, 20)),
        2.0,
        1.6,
        sp.expit,
    ),
    Case("sin_near", mp.sin, ANGLES, 2.0, 1.6),
    Case("cos_near", mp.cos, ANGLES, 2.0, 1.6),
    Case("tan_near", mp.tan, ANGLES, 3.0, 2.6),
    Case("sin", mp.sin, (*ANGLES, *ALL), 2.0, 1.6, np.sin, vector=("float32",)),
    Case("cos", mp.cos, (*ANGLES, *ALL), 2.0, 1.6, np.cos, vector=("float32",)),
    Case("tan", mp.tan, (*ANGLES, *ALL), 3.0, 2.6, np.tan, vector=("float32",)),
    Case("arcsin", mp.asin, UNIT, 2.2, 2.2, np.arcsin),
    Case("arccos", mp.acos, UNIT, 1.3, 1.3, np.arccos),
    Case("arctan", mp.atan, (*ALL, uniform(-3, 3)), 1.6, 2.2, np.arctan),
    Case("arcsinh", mp.asinh, (*ALL, uniform(-3, 3)), 1.8, 1.8, np.arcsinh),
    Case(
        "arccosh",
        mp.acosh,
        (positive(1, 1e308), positive(1, 3e38), uniform(1, 3)),
        2.3,
        2.3,
        np.arccosh,
    ),
    Case("arctanh", mp.atanh, UNIT, 1.8, 2.1, np.arctanh),
    Case(
        "cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), (*ALL, *UNIT), 1.1, 1.1, np.cbrt
    ),
    Case("erf", mp.erf, (*UNIT, uniform(-6, 6)), 2.3, 2.0, sp.erf),
    Case("erfc", mp.erfc, (*UNIT, uniform(-6, 27), uniform(0, 10)), 4.0, 3.3, sp.erfc),
    Case("ndtr", mp.ncdf, (*UNIT, uniform(-38, 8), uniform(-14, 0)), 4.0, 3.5, sp.ndtr),
    Case("arctan2", mp.atan2, PAIRS, 2.0, 2.3, np.arctan2),
    Case("hypot", mp.hypot, PAIRS, 1.2, 1.2, np.hypot),
    Case(
        "power",
        lambda x, y: x**y,
        (
            (positive(1e-3, 1e3), uniform(-100, 100)),
            (positive(1e-308, 1e308), uniform(-1, 1)),
            (near_one, spread(1, 1e12)),
            (spread(1e-2, 1e2), whole(-12, 12)),
        ),
        1.2,
        1.2,
        np.power,
    ),
    Case(
        "logaddexp",
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        ((uniform(-5, 5),) * 2, (uniform(-80, 80),) * 2),
        1.2,
        1.2,
        np.logaddexp,
        floor=lambda x, y: max(abs(x), abs(y)),
    ),
    Case(
        "xlogy",
        lambda x, y: x * mp.log(y),
        ((uniform(-5, 5), positive(1e-30, 1e30)),),
        1.5,
        1.5,
        sp.xlogy,
    ),
    Case(
        "xlog1py",
        lambda x, y: x * mp.log1p(y),
        ((uniform(-5, 5), positive(1e-30, 1e30)),),
        1.5,
        1.5,
        sp.xlog1py,
    ),
    Case(
        "gammaln",
        lambda x: mp.re(mp.loggamma(x)),
        (uniform(0, 10), positive(1e-30, 1e300), uniform(0.9, 2.2), uniform(-9, 0)),
        4.0,
        None,
        sp.gammaln,
        floor=at_least_one_below_zero,
        vector=(),
    ),
    Case(
        "digamma",
        mp.digamma,
        (uniform(0, 12), positive(1e-30, 1e300), uniform(1.45, 1.47)),
        4.0,
        None,
        sp.digamma,
        vector=(),
    ),
    Case(
        "trigamma",
        lambda x: mp.psi(1, x),
        (uniform(0, 12), positive(1e-30, 1e150), uniform(-9, 0)),
        5.0,
        None,
        lambda x: sp.polygamma(1, x),
        vector=(),
    ),
]
MEASURED = [
    pytest.param(case, dtype, id=f"{case}-{dtype}")
    for case in CASES
    for dtype in DTYPES
    if dtype == "float64" or case.ulp32 is not None
]


def module_of(helpers, folder):
    """Import a module that holds just these helpers."""
    text = "import math\nfrom typing import Any\n\nimport numpy as np\n"
    text += "".join(f"\n\n{helper.text}\n" for helper in helpers)
    path = Path(folder) / f"{helpers[-1].name}_module.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def emitted():
    """Every function, compiled as an emitted module does it."""
    helpers = mathsource.closure(mathsource.available())
    with tempfile.TemporaryDirectory() as folder:
        module = module_of(helpers, folder)
    for helper in helpers:
        compile_ = numba.njit(
            fastmath=set(helper.flags), error_model="numpy", forceinline=True
        )
        setattr(module, helper.name, compile_(getattr(module, helper.name)))
    return vars(module)


def helper_name(name, dtype):
    return f"_{name}" if dtype == "float64" else f"_{name}_f32"


@cache
def kernel(name, arguments):
    """A loop over arrays that calls one helper."""
    helper = emitted()[name]
    if arguments == 1:

        def loop(x, out):
            for i in range(x.size):
                out[i] = helper(x[i])
    else:

        def loop(x, y, out):
            for i in range(x.size):
                out[i] = helper(x[i], y[i])

    return numba.njit(fastmath={"contract"}, error_model="numpy")(loop)


def run(name, dtype, *arrays):
    out = np.empty_like(arrays[0])
    kernel(helper_name(name, dtype), len(arrays))(*arrays, out)
    return out


def points(case, dtype):
    """The arguments of a case as arrays, those that the dtype can't hold left out."""
    rng = np.random.default_rng(20)
    ranges = [r if isinstance(r, tuple) else (r,) for r in case.ranges]
    columns = zip(*[[draw(rng) for draw in r] for r in ranges], strict=True)
    with np.errstate(over="ignore"):
        arrays = [np.concatenate(column).astype(DTYPES[dtype]) for column in columns]
    kept = np.all([np.isfinite(a) & (a != 0) for a in arrays], axis=0)
    return [array[kept] for array in arrays]


def exact_values(case, arrays):
    with mp.workprec(160):
        return [case.exact(*(mp.mpf(float(v)) for v in row)) for row in zip(*arrays)]


def error_in_ulp(got, exact, dtype, floor):
    info = np.finfo(dtype)
    limit = mp.mpf(float(info.max))
    if abs(exact) > limit or not np.isfinite(got):
        return 0.0 if abs(exact) > limit * (1 - info.eps) and np.isinf(got) else np.inf
    size = max(abs(exact), mp.mpf(float(info.tiny)), floor)
    ulp = mp.ldexp(1, int(mp.floor(mp.log(size, 2))) - info.nmant)
    return float(abs(mp.mpf(float(got)) - exact) / ulp)


@pytest.mark.parametrize(("case", "dtype"), MEASURED)
def test_accuracy(case, dtype):
    arrays = points(case, dtype)
    got = run(case.name, dtype, *arrays)
    exact = exact_values(case, arrays)
    floors = [case.floor(*(float(v) for v in row)) for row in zip(*arrays)]
    errors = [
        error_in_ulp(g, e, dtype, f) for g, e, f in zip(got, exact, floors, strict=True)
    ]
    worst = int(np.argmax(errors))
    limit = case.ulp64 if dtype == "float64" else case.ulp32
    assert errors[worst] <= limit, [float(a[worst]) for a in arrays]


SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, 1e-20, 1e300, 3e38, 1e16, 700.0, 1000.0]
SPECIAL = [*SPECIAL, math.inf, math.nan, 1e-45, 1e-40, 1e-310, 5e-324]
SPECIAL = [sign * value for value in SPECIAL for sign in (1.0, -1.0)]
# SciPy has inf for gammaln below 1e-308; log(1e310) is 714.
DENORMAL_MISMATCH = {"gammaln"}


def assert_same(got, want, dtype, arrays):
    tolerance = {"float64": 1e-14, "float32": 2e-6}[dtype]
    spacing = {"float64": 5e-324, "float32": 1.5e-45}[dtype]
    for row in zip(got, want, *arrays, strict=True):
        g, w = float(row[0]), float(row[1])
        if math.isnan(w):
            assert math.isnan(g), row
        else:
            close = abs(g - w) <= tolerance * abs(w) + 2 * spacing
            assert g == w or (close and math.isfinite(w)), row
            assert math.copysign(1, g) == math.copysign(1, w), row


@pytest.mark.parametrize(
    ("case", "dtype"), [p for p in MEASURED if p.values[0].like is not None]
)
def test_special_values(case, dtype):
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(DTYPES[dtype])
        if case.name in DENORMAL_MISMATCH:
            values = values[(abs(values) > 1e-300) | (values == 0) | np.isnan(values)]
        arrays = [values]
        if isinstance(case.ranges[0], tuple):
            arrays = [np.repeat(values, values.size), np.tile(values, values.size)]
        want = case.like(*arrays).astype(DTYPES[dtype])
        assert_same(run(case.name, dtype, *arrays), want, dtype, arrays)


@pytest.mark.parametrize(("case", "dtype"), MEASURED)
def test_plain_python_agrees(case, dtype):
    """Uncompiled, without a warning; fused multiplications may move the last bits."""
    arrays = [array[::60] for array in points(case, dtype)]
    if case.like is not None:
        extra = np.array([0.0, -0.0, math.inf, -math.inf, math.nan])
        arrays = [np.append(a, extra).astype(DTYPES[dtype]) for a in arrays]
    helper = getattr(mathlib, helper_name(case.name, dtype))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        got = [helper(*row) for row in zip(*arrays)]
    if dtype == "float32":
        assert all(isinstance(value, np.float32) for value in got)
    assert_same(got, run(case.name, dtype, *arrays), dtype, arrays)


@pytest.mark.parametrize(
    ("case", "dtype"), [p for p in MEASURED if p.values[1] in p.values[0].vector]
)
def test_vectorises(case, dtype):
    arrays = [array[:8] for array in points(case, dtype)]
    run(case.name, dtype, *arrays)
    loop = kernel(helper_name(case.name, dtype), len(arrays))
    code = "".join(loop.inspect_llvm().values())
    element = "double" if dtype == "float64" else "float"
    assert re.search(rf"<\d+ x {element}>", code)


EXACT = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "copysign": np.copysign,
    "heaviside": np.heaviside,
    "fmod": np.fmod,
    "mod": np.mod,
    "floor_divide": np.floor_divide,
    "sign": np.sign,
    "round": np.rint,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact(name, dtype):
    with np.errstate(all="ignore"):
        rng = np.random.default_rng(5)
        values = np.array([*SPECIAL, *rng.normal(0, 9, 20), 0.3, 0.1, 7, -7, 1.5])
        values = values.astype(DTYPES[dtype])
        arrays = [values]
        if EXACT[name].nin == 2:
            arrays = [np.repeat(values, values.size), np.tile(values, values.size)]
        want = EXACT[name](*arrays)
        got = run(name, dtype, *arrays)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if name not in ("maximum", "minimum", "fmax", "fmin"):
        same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
    assert same.all(), [
        (*(float(a[i]) for a in arrays), got[i], want[i])
        for i in np.flatnonzero(~same)[:5]
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_order_numbers(dtype):
    suffix = "" if dtype == "float64" else "_f32"
    names = ("_max_key", "_min_key", "_from_key")
    max_key, min_key, from_key = (emitted()[name + suffix] for name in names)
    with np.errstate(all="ignore"):
        values = np.array([v for v in SPECIAL if not math.isnan(v)]).astype(
            DTYPES[dtype]
        )
    values.sort()
    for key in (max_key, min_key):
        keys = [key(v) for v in values]
        assert all(a <= b for a, b in itertools.pairwise(keys))
        assert [float(from_key(k)) for k in keys] == [float(v) for v in values]
    for nan in (values.dtype.type(math.nan), -values.dtype.type(math.nan)):
        assert max_key(nan) > max_key(values[-1]) and math.isnan(from_key(max_key(nan)))
        assert min_key(nan) < min_key(values[0]) and math.isnan(from_key(min_key(nan)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_reduce_in_vectors(dtype):
    suffix = "" if dtype == "float64" else "_f32"
    key, from_key = emitted()["_max_key" + suffix], emitted()["_from_key" + suffix]

    @numba.njit(fastmath={"contract"}, error_model="numpy")
    def largest(x):
        best = key(x[0])
        for i in range(x.size):
            best = max(best, key(x[i]))
        return from_key(best)

    x = np.random.default_rng(3).normal(size=99).astype(dtype)
    assert largest(x) == x.max()
    assert largest(-abs(x)) == (-abs(x)).max()
    x[70] = -np.float64(math.nan)
    assert math.isnan(largest(x))
    element = "i64" if dtype == "float64" else "i32"
    assert re.search(rf"<\d+ x {element}>", "".join(largest.inspect_llvm().values()))


def test_integers():
    low = np.iinfo(np.int64).min
    values = np.array(
        [0, 1, -1, 2, -2, 3, -3, 7, -7, 62, 63, 64, 65, low, low + 1, -low - 1]
    )
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    functions = emitted()
    with np.errstate(all="ignore"):
        pairs = {"_floor_divide_int": np.floor_divide, "_mod_int": np.mod}
        for name, like in pairs.items():
            assert [functions[name](x, y) for x, y in zip(a, b)] == like(a, b).tolist()
        shifts = {"_left_shift": np.left_shift, "_right_shift": np.right_shift}
        for name, like in shifts.items():
            got = [functions[name](x, y, 64) for x, y in zip(a, b)]
            assert got == like(a, b).tolist()
        kept = (b >= 0) & (b <= 65)
        got = [functions["_power_int"](x, y) for x, y in zip(a[kept], b[kept])]
        assert got == np.power(a[kept], b[kept]).tolist()


def test_unsigned_integers():
    values = np.array([0, 1, 2, 3, 7, 62, 63, 64, 65, 2**63, 2**64 - 1], np.uint64)
    a, b = np.repeat(values, values.size), np.tile(values, values.size)
    functions = emitted()
    with np.errstate(all="ignore"):
        pairs = {"_floor_divide_uint": np.floor_divide, "_mod_uint": np.mod}
        for name, like in pairs.items():
            got = [functions[name](x, y) for x, y in zip(a, b, strict=True)]
            assert got == like(a, b).tolist()
        shifts = {
            "_left_shift_uint": np.left_shift,
            "_right_shift_uint": np.right_shift,
        }
        for name, like in shifts.items():
            got = [functions[name](x, y, 64) for x, y in zip(a, b, strict=True)]
            assert got == like(a, b).tolist()


@pytest.mark.parametrize("name", ["_gammaln", "_digamma", "_trigamma"])
def test_float32_by_way_of_float64(name):
    functions = emitted()
    for x in np.array([0.3, 1.46, 2.0, 7.5, 100.0, -1.5], np.float32):
        wide = functions[name](np.float64(x))
        assert functions[name + "_f32"](x) == np.float32(wide)


@pytest.mark.parametrize("n", range(6))
def test_polygamma(n):
    polygamma = emitted()["_polygamma"]
    rng = np.random.default_rng(7)
    for x in [*rng.uniform(0.01, 30, 60), *rng.uniform(-5, 0, 20), 1e-5, 1e5]:
        with mp.workprec(120):
            exact = mp.psi(n, mp.mpf(x))
        assert abs(polygamma(x, n) - exact) <= 4e-15 * max(
            abs(exact), 1 if x < 0 or n == 0 else 0
        )
    for x in (0.0, -1.0, -3.0, math.inf, math.nan):
        got, want = polygamma(x, n), sp.polygamma(n, x)
        assert got == polygamma(x, float(n)) or math.isnan(got)
        assert got == want or (math.isnan(got) and math.isnan(want)), x


@pytest.mark.parametrize("dtype", [*DTYPES.values(), np.complex128])
def test_pull_is_a_strong_zero(dtype):
    pull = emitted()["_pull"]
    for slope in (0.0, 2.0, math.inf, math.nan):
        assert pull(dtype(0.0), dtype(slope)) == 0.0
    assert pull(dtype(3.0), dtype(2.0)) == 6.0
    assert np.isnan(pull(dtype(math.nan), dtype(2.0)))
    (signature,) = [
        s for s in pull.nopython_signatures if s.args[0] == numba.typeof(dtype(0))
    ]
    assert signature.return_type == numba.typeof(dtype(0))


def test_add_may_be_reassociated():
    (helper,) = mathsource.closure(["_add"])
    assert helper.flags == {"reassoc", "contract", "nsz"}
    assert all(
        h.flags == {"contract"}
        for h in mathsource.closure(["_exp", "_power", "_erfc_f32"])
    )


@pytest.mark.parametrize("name", mathsource.available())
def test_closure_is_self_contained(name, tmp_path):
    helpers = mathsource.closure([name])
    assert name in [helper.name for helper in helpers]
    assert helpers == mathsource.closure([name, *(h.name for h in reversed(helpers))])
    module = module_of(helpers, tmp_path)
    known = set(vars(module)) | set(dir(builtins))
    for helper in helpers:
        function = getattr(module, helper.name)
        for instruction in dis.get_instructions(function):
            if instruction.opname == "LOAD_GLOBAL":
                assert instruction.argval in known
        assert function.__doc__
        assert helper.text.isascii()
        assert not helper.text.endswith("\n")
        assert helper.imports <= {"math", "np"}


def test_closure_refuses_unknown_names():
    with pytest.raises(InternalError, match="_no_such"):
        mathsource.closure(["_no_such"])


def test_closure_keeps_file_order():
    names = [helper.name for helper in mathsource.closure(["_tanh", "_log", "_add"])]
    assert names == sorted(names, key=mathsource.available().index)
    assert names[0] == "_add"

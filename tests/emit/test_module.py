"""Emitted modules: their text, their calls, their errors, and how they are loaded."""

import ast
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
import zipimport
from pathlib import Path

import numpy as np
import pytest

import gradc
from gradc.driver import emit_module, options_of
from gradc.emit.module import environment, fields_of
from gradc.frontends.gc import parse
from gradc.graph import Graph, Output, label
from gradc.ops.basic import input_
from gradc.ops.elementary import tanh
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import number
from gradc.ops.reduce import reduce_sum
from gradc.types import TensorType, float64, symbol

GOLDEN = Path(__file__).parent.parent / "golden"
TARGETS = ["numpy", "numba"]
RUFF = shutil.which("ruff", path=sysconfig.get_path("scripts")) or shutil.which("ruff")
MYPY = shutil.which("mypy", path=sysconfig.get_path("scripts")) or shutil.which("mypy")
LOGISTIC = (GOLDEN / "logistic.gc").read_text(encoding="utf-8")
CASES = [
    ("logistic", "numpy", {"wrap": "scipy"}),
    ("logistic", "numba", {"wrap": "scipy"}),
    ("embedding", "numpy", {}),
    ("embedding", "numba", {}),
    ("names", "numpy", {}),
    ("differences", "numpy", {}),
    ("factor", "numpy", {}),
]


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    """One cache folder for all tests here, so that a kernel is compiled once."""
    base = tmp_path_factory.getbasetemp() / "gradc-cache"
    monkeypatch.setenv("GRADC_CACHE_DIR", str(base))


def inputs_of(module, seed=0):
    """Values for all inputs without a default, by name: every symbol is 4, but for M."""
    rng = np.random.default_rng(seed)
    sizes = {"N": 4, "D": 3, "V": 5, "B": 6, "M": 8}
    found = {}
    for name, row in module.INPUTS.items():
        shape = tuple(
            d if isinstance(d, int) else eval(d, {}, sizes) for d in row["shape"]
        )
        if row["dtype"] == "int64":
            found[name] = rng.integers(-3, 3, shape)
        else:
            found[name] = rng.normal(size=shape).astype(row["dtype"])[()]
    if "K" in found:
        found["K"] = found["K"] @ found["K"].T + np.eye(4)
    return found


@contextlib.contextmanager
def refused(error, text):
    """The error with just this text."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == text


def flat(result):
    """All values of a result, of `run` or of `value_and_gradients`."""
    is_pair = isinstance(result, tuple) and not hasattr(result, "_fields")
    return [v for part in (result if is_pair else (result,)) for v in part]


# ------------------------------------------------------------------------ golden files


@pytest.mark.parametrize(("name", "target", "options"), CASES)
def test_golden(name, target, options, request):
    """The emitted text is what is committed and read, and it computes the right values."""
    graph = gradc.load(GOLDEN / f"{name}.gc")
    output = f"{name}_{target}.py"
    emitted, _ = emit_module(graph, options_of({"target": target, **options}), output)
    path = GOLDEN / output
    if request.config.getoption("--update-golden"):
        path.write_text(emitted.source, encoding="utf-8")
    assert emitted.source == path.read_text(encoding="utf-8")
    module = gradc.compile(graph, target=target, **options)
    feeds = inputs_of(module)
    values = {t: feeds[n] for t, n in zip(graph.inputs, module.INPUTS, strict=True)}
    outputs = [o.tensor for o in graph.outputs]
    for found, want in zip(module.run(**feeds), evaluate(outputs, values), strict=True):
        assert np.shape(found) == want.shape
        assert np.asarray(found).dtype == want.dtype
        np.testing.assert_allclose(
            found, want, rtol=1e-5 if want.itemsize < 8 else 1e-12
        )
    request_ = graph.request
    bars = gradc.gradients(request_.ys, request_.xs)
    _, gradients = module.value_and_gradients(**feeds)
    for found, bar in zip(gradients, bars, strict=True):
        assert (found is None) == (bar is None)
        if bar is not None:
            (want,) = evaluate([bar], values)
            assert np.asarray(found).dtype == want.dtype
            np.testing.assert_allclose(
                found, want, rtol=1e-5 if want.itemsize < 8 else 1e-10, atol=1e-12
            )


@pytest.mark.skipif(RUFF is None, reason="ruff is not installed")
def test_emitted_text_is_clean():
    files = [str(p) for p in sorted(GOLDEN.glob("*.py"))]
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run(
            [RUFF, *command, "--isolated", *files],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


ALL_KINDS = """\
X: float[N, D]
W: float64[40, 40] = load("w.npz", "large")
k: float64[3, 4] = load("w.npz", "small")
w: float[D]
b: float
c: complex128[N]
i: int[N]
m: bool[N]
h: float32[2 * N + 1]
A: float[N, N]
count: float
index: float
l2: float = input(0.1)
V: float[D] = input([1.0, 2.0])
assert D == 2

with section("encoder"):
    z = tanh(X @ w + b)
rows = X[i]
L = cholesky(A @ A.T + eye(N))
out = where(m, z, 0.0)
y = sum(out) + sum(rows) + sum(diag(L)) + sum(h).astype(float64) + count * index
q = y + l2 * sum(w * V) + sum(W) + sum(k) + sum(abs(c))
e = X[1:, 0] * index
differentiate([q, e, i], [X, w, b, c, i, h, z, A, count], unconnected_gradients="none")
return q, e, i, m, c, count, *gradients(e, [w, i])
"""


TWO_XS = """\
x: float[N]
b: float32
N1: int[N]
y = sum(x**N1) + b
differentiate(y, [x, b])
return y
"""


@pytest.mark.skipif(MYPY is None, reason="mypy is not installed")
def test_emitted_text_has_right_types(tmp_path):
    """What is committed, and modules with all that there can be in one."""
    root = GOLDEN.parent.parent
    files = [*GOLDEN.glob("*.py"), *(root / "examples").rglob("*_grad.py")]
    np.savez(tmp_path / "w.npz", small=np.ones((3, 4)), large=np.ones((40, 40)))
    (tmp_path / "all.gc").write_text(ALL_KINDS)
    texts = {
        "all": (tmp_path / "all.gc", {}),
        "embedded": (tmp_path / "all.gc", {"embed": True}),
        "plain": ("x: float\nreturn x, x > 0.0", {}),
        "nothing": ("x: float[N]\ny = sum(x)\ndifferentiate(y, [])\nreturn y", {}),
        "none": ("x: float\ny: float\ndifferentiate(y, [x])\nreturn y", {}),
        "wrapped": (TWO_XS, {"wrap": "scipy"}),
    }
    for name, (text, options) in texts.items():
        for target in TARGETS:
            files.append(tmp_path / f"{name}_{target}.py")
            given = options_of({"target": target, **options})
            files[-1].write_text(emit_module(text, given, files[-1].name)[0].source)
    done = subprocess.run(
        [MYPY, "--strict", "--cache-dir", str(tmp_path), *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_same_bytes_under_another_hash_seed(target, tmp_path):
    code = (
        "import sys, gradc; sys.stdout.reconfigure(encoding='utf-8');"
        f"print(gradc.emit(gradc.load(sys.argv[1]), target='{target}', wrap='scipy'))"
    )
    texts = set()
    for seed in ("0", "1", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(GOLDEN / "logistic.gc")],
            capture_output=True,
            check=True,
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": str(Path(gradc.__file__).parent.parent),
            },
            cwd=tmp_path,
        )
        texts.add(done.stdout)
    assert len(texts) == 1


def test_line_ends_do_not_matter_to_the_hash():
    unix = gradc.emit(parse(LOGISTIC, "a.gc"), target="numpy")
    windows = gradc.emit(parse(LOGISTIC.replace("\n", "\r\n"), "a.gc"), target="numpy")
    assert unix == windows


# ---------------------------------------------------------------------------- calls


@pytest.fixture(params=TARGETS)
def logistic(request):
    return gradc.compile(LOGISTIC, target=request.param, wrap="scipy")


def test_kinds_of_arrays_give_the_same(logistic):
    feeds = inputs_of(logistic)
    X = feeds.pop("X")
    wanted = flat(logistic.value_and_gradients(X, **feeds))
    read_only = X.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b" " + X.tobytes(), np.uint8)[1:].view(np.float64)
    kinds = [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1].copy()[::-1],
        X.astype(X.dtype.newbyteorder()),
        read_only,
        unaligned.reshape(X.shape),
        X.tolist(),
    ]
    for kind in kinds:
        for found, want in zip(
            flat(logistic.value_and_gradients(kind, **feeds)), wanted, strict=True
        ):
            np.testing.assert_allclose(found, want, rtol=1e-13)


def test_results_are_scalars_and_fresh_arrays(logistic):
    feeds = inputs_of(logistic)
    before = {name: np.copy(value) for name, value in feeds.items()}
    result = logistic.run(**feeds)
    assert type(result.loss) is np.float64
    assert not any(np.may_share_memory(result.p, v) for v in feeds.values())
    result.p[:] = 7.0
    assert logistic.run(**feeds).p[0] != 7.0
    for name, value in before.items():
        np.testing.assert_array_equal(feeds[name], value)


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_never_alias_inputs_or_each_other(target):
    module = gradc.compile(
        "x: float[N, 3]\ny = x\nk = array([1.0, 2.0])\n"
        "return x, y, x.T, x[0], x.reshape(3 * N), broadcast_to(x[:, 0], (2, N)), k, k",
        target=target,
    )
    x = np.arange(6.0).reshape(2, 3)
    result = module.run(x)
    kept = [np.copy(v) for v in result]
    for value in result:
        assert value.flags.writeable
        value[...] = -1.0
    np.testing.assert_array_equal(x, np.arange(6.0).reshape(2, 3))
    for found, want in zip(module.run(x), kept, strict=True):
        np.testing.assert_array_equal(found, want)


def test_zero_sizes(logistic):
    value, gradient = logistic.value_and_gradients(np.zeros((3, 0)), np.zeros(3), [])
    np.testing.assert_allclose(value.loss, np.log(2.0))
    assert gradient.w.shape == (0,)
    value, gradient = logistic.value_and_gradients(np.zeros((0, 2)), [], np.ones(2))
    assert np.isnan(value.loss)
    assert gradient.w.shape == (2,)


class Frame:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class Interface:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Subclass(np.ndarray):
    pass


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("target", TARGETS)
def test_arrays_of_all_kinds_in_all_places(target):
    """One graph with inputs of many dtypes, each given as each kind of array."""
    module = gradc.compile(
        "A: float[N, M]\ns: float\nk: int[M]\nf: float32[M]\nb: bool[M]\n"
        "c: complex128[M]\nx = A[0]\n"
        "y = sum(A @ x) * s + sum(where(b, x, 0.0)) + sum(x[k]) + sum(abs(c))\n"
        "g = sum(f).astype(float64)\ndifferentiate([y, g], [A, s, f, c])\nreturn y, A.T, k",
        target=target,
    )
    rng = np.random.default_rng(0)
    feeds = {
        "A": rng.normal(size=(3, 4)),
        "s": np.float64(1.5),
        "k": np.array([0, -1, 2, 3]),
        "f": rng.normal(size=4).astype(np.float32),
        "b": np.array([True, False, True, False]),
        "c": rng.normal(size=4) + 1j,
    }
    want = flat(module.value_and_gradients(**feeds)) + flat(module.run(**feeds))

    def read_only(a):
        a.flags.writeable = False
        return a

    kinds = [
        np.asfortranarray,
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
        lambda a: a.astype(a.dtype.newbyteorder()),
        lambda a: read_only(a.astype(a.dtype.newbyteorder())),
        read_only,
        lambda a: (
            np.frombuffer(b" " + a.tobytes(), "u1")[1:].view(a.dtype).reshape(a.shape)
        ),
        lambda a: a.view(Subclass),
        Frame,
        Interface,
        lambda a: a.tolist(),
        lambda a: list(a),
    ]
    for k, kind in enumerate(kinds):
        for name in ("A", "k", "f", "b", "c"):
            given = {**feeds, name: kind(feeds[name].copy())}
            results = flat(module.value_and_gradients(**given)) + flat(
                module.run(**given)
            )
            for found, wanted in zip(results, want, strict=True):
                assert type(found) is type(wanted), (k, name)
                np.testing.assert_allclose(found, wanted, rtol=1e-6)
    large = {**feeds, "f": [1e300, 0.0, 0.0, 0.0]}  # Python's numbers are weak
    assert np.isinf(module.value_and_gradients(**large)[0].g)
    for s in (3 / 2, np.float32(1.5), np.array(1.5), read_only(np.array(1.5, ">f8"))):
        assert module.run(**{**feeds, "s": s}).y == want[0]
    one = {**feeds, "A": np.broadcast_to(feeds["A"][0], (3, 4)), "k": feeds["k"][::-1]}
    other = {**one, "A": one["A"].copy(), "k": one["k"].copy()}
    for found, wanted in zip(module.run(**one), module.run(**other), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.filterwarnings("error")
def test_no_floating_point_warnings(logistic):
    X = np.array([[np.inf, 1e308], [np.nan, -1e308]])
    with np.errstate(all="warn"):
        logistic.value_and_gradients(X, np.zeros(2), np.full(2, 1e308))


RAGGED = (
    "X: expected float64[N, D]: setting an array element with a sequence. The requested array "
    "has an inhomogeneous shape after 1 dimensions. The detected shape was (2,) + inhomogeneous "
    "part."
)
WRONG = [
    (
        {"w": np.zeros(4)},
        ValueError,
        "w: expected float64[D] with D = 3 (from X.shape[1]), got shape (4,)",
    ),
    (
        {"w": [0.0] * 4},
        ValueError,
        "w: expected float64[D] with D = 3 (from X.shape[1]), got shape (4,)",
    ),
    ({"X": np.zeros(3)}, ValueError, "X: expected float64[N, D], got shape (3,)"),
    ({"X": 1.0}, ValueError, "X: expected float64[N, D], got shape ()"),
    ({"y": np.zeros((4, 1))}, ValueError, "y: expected float64[N], got shape (4, 1)"),
    (
        {"X": np.zeros((4, 3), complex)},
        TypeError,
        "X: expected float64[N, D], got complex128; write X.real",
    ),
    (
        {"X": np.zeros((4, 3), np.complex64)},
        TypeError,
        "X: expected float64[N, D], got complex64; write X.real",
    ),
    (
        {"y": np.zeros((4, 1), complex)},
        ValueError,
        "y: expected float64[N], got shape (4, 1)",
    ),
    (
        {"w": np.zeros(3, np.longdouble)},
        TypeError,
        "w: expected float64[D], got float128; write w.astype(np.float64)",
    ),
    (
        {"w": np.ma.masked_array(np.zeros(3), [True, False, False])},
        TypeError,
        (
            "w: expected float64[D], got a masked array; "
            "write w.filled(0) or another value"
        ),
    ),
    (
        {"l2": np.ma.masked},
        TypeError,
        (
            "l2: expected float64, got a masked array; "
            "write l2.filled(0) or another value"
        ),
    ),
    ({"y": None}, TypeError, "y: expected float64[N], got NoneType"),
    (
        {"y": [1, None, 2, "a"]},
        TypeError,
        "y: expected float64[N], got NoneType and int and str",
    ),
    ({"y": ["a"] * 4}, TypeError, "y: expected float64[N], got str"),
    ({"y": b"abcd"}, TypeError, "y: expected float64[N], got bytes"),
    ({"y": {1.0, 2.0}}, TypeError, "y: expected float64[N], got set"),
    (
        {"y": np.zeros(4, "M8[D]")},
        TypeError,
        "y: expected float64[N], got datetime64[D]",
    ),
    ({"l2": 1j}, TypeError, "l2: expected float64, got 1j"),
    ({"l2": None}, TypeError, "l2: expected float64, got NoneType"),
    ({"l2": "1"}, TypeError, "l2: expected float64, got str"),
    ({"l2": [1.0]}, ValueError, "l2: expected float64, got shape (1,)"),
    (
        {"l2": 2**60 + 1},
        TypeError,
        "l2: expected float64, got 1152921504606846977, which it can't hold",
    ),
    (
        {"l2": 10**5000},
        TypeError,
        "l2: expected float64, got an int of 16610 bits, which it can't hold",
    ),
    ({"X": [[1.0], [1.0, 2.0]]}, ValueError, RAGGED),
    ({"threads": 0}, ValueError, "threads: expected at least 1, got 0"),
    ({"threads": "2"}, TypeError, "threads: expected an int, got str"),
    ({"threads": False}, TypeError, "threads: expected an int, got bool"),
    ({"out": 1}, TypeError, "out: expected a tuple of 2, got int"),
    ({"nought": 1}, TypeError, "run() got an unexpected keyword argument 'nought'"),
]


@pytest.mark.parametrize(("changes", "error", "text"), WRONG)
def test_wrong_arguments(logistic, changes, error, text):
    with pytest.raises(error) as caught:
        logistic.run(**{**inputs_of(logistic), **changes})
    assert str(caught.value) == text


def test_missing_argument_is_named(logistic):
    with refused(TypeError, "run() missing 1 required positional argument: 'w'"):
        logistic.run(np.zeros((2, 2)), np.zeros(2))


@pytest.mark.parametrize("target", TARGETS)
def test_python_numbers_are_weak(target):
    module = gradc.compile(
        "x: float32\nk: int8\nb: bool\nz: complex128\nreturn x + 0.0, k, b",
        target=target,
    )
    for x in (1, 0.1, np.float32(2.0), True):
        assert module.run(x, 3, True, 1.0).x if hasattr(module, "x") else True
        assert type(module.run(x, 3, True, 1.0)[0]) is np.float32
    assert module.run(1, 3.0, 0, 2)[1] == 3
    held = ", which it can't hold"
    for name, wrong, text in (
        ("k", 300, f"k: expected int8, got 300{held}"),
        ("k", 2.5, f"k: expected int8, got 2.5{held}"),
        ("k", float("nan"), f"k: expected int8, got nan{held}"),
        ("x", 2**24 + 1, f"x: expected float32, got 16777217{held}"),
        ("b", 2, f"b: expected bool, got 2{held}"),
        ("x", 1j, "x: expected float32, got 1j"),
        (
            "x",
            np.float64(1.0),
            "x: expected float32, got float64; write np.asarray(x).astype(np.float32)",
        ),
    ):
        with refused(TypeError, text):
            module.run(**{"x": 1.0, "k": 1, "b": False, "z": 1j, name: wrong})


@pytest.mark.parametrize("target", TARGETS)
def test_a_size_that_a_slice_rules_out_names_the_statement(target):
    line = "x[3:] * 2.0" + " + sum(x)" * 9
    module = gradc.compile(
        f"x: float[N]\ny: float[M]\na = sum(x[2:])\nb = {line}\nc = y[1:]\n"
        "return a, b, c",
        target=target,
    )
    cut = "b = x[3:] * 2.0 + sum(x) + sum(x) + sum(x) + sum(x) + su ..."
    for n, m, fact, size in (
        (1, 4, "N >= 2, which a = sum(x[2:])", "N = 1 (from x.shape[0])"),
        (2, 4, f"N >= 3, which {cut}", "N = 2 (from x.shape[0])"),
        (3, 0, "M >= 1, which c = y[1:]", "M = 0 (from y.shape[0])"),
    ):
        with refused(ValueError, f"{fact} needs: not so with {size}"):
            module.run(np.ones(n), np.ones(m))


@pytest.mark.parametrize("target", TARGETS)
def test_indices_that_are_outside_are_told(target):
    module = gradc.compile(
        "x: float[N, M]\nk: int[K]\nl: int32[K]\ns: float[K]\n"
        "y = x[k, l.reshape(K, 1)[:, 0]]\nz = x[:, 0][k * 2]\nreturn y, z",
        target=target,
    )
    x, s = np.ones((3, 2)), np.ones(2)
    for k, l, text in (
        ([0, 3], [0, 0], "y = .*index 3 is out of bounds for axis 0 with size 3"),
        ([0, 1], [0, -3], "y = .*ind.* is out of bounds for axis 1 with size 2"),
        ([0, 2], [0, 1], "z = .*ind.* is out of bounds for axis 0 with size 3"),
    ):
        with pytest.raises(IndexError, match=text):
            module.run(x, k, l, s)
    assert module.run(x, [], [], s[:0])[0].shape == (0,)


@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_are_found_and_checked(target):
    module = gradc.compile(
        "x: float[2 * N + 1]\ny: float[3 * M]\nz: float[K, 2]\nassert K == M + N\n"
        "return sum(x[:N]) + sum(y[:M]) + sum(z)",
        target=target,
    )
    assert module.run(np.ones(5), np.ones(9), np.ones((5, 2)))[0] == 15.0
    with refused(
        ValueError,
        "x: expected float64[2 * N + 1] with N = 1 (from (x.shape[0] - 1) // 2), "
        "got shape (4,)",
    ):
        module.run(np.ones(4), np.ones(9), np.ones((5, 2)))
    with refused(
        ValueError,
        "z: expected float64[M + N, 2] with M = 3 (from y.shape[0] // 3), "
        "N = 2 (from (x.shape[0] - 1) // 2), got shape (6, 2)",
    ):
        module.run(np.ones(5), np.ones(9), np.ones((6, 2)))


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_slice_needs_is_checked(target):
    module = gradc.compile("x: float[N]\nreturn x[2:] - x[:-2]", target=target)
    assert module.run(np.zeros(2))[0].shape == (0,)
    with refused(
        ValueError,
        "N >= 2, which return x[2:] - x[:-2] needs: not so with N = 1 (from x.shape[0])",
    ):
        module.run(np.zeros(1))


# ------------------------------------------------------------------------------- out


def test_out_is_written_to(logistic):
    feeds = inputs_of(logistic)
    wanted = flat(logistic.value_and_gradients(**feeds))
    w = np.empty(3)
    values, gradients = logistic.value_and_gradients(**feeds, out=((None,), (w,)))
    assert gradients.w is w
    np.testing.assert_allclose(w, wanted[1])
    loss = np.empty(())
    values, _ = logistic.value_and_gradients(**feeds, out=((loss,), None))
    assert values.loss is loss
    np.testing.assert_allclose(loss, wanted[0])


def test_out_may_be_an_input_or_overlap_one(logistic):
    feeds = inputs_of(logistic)
    wanted = logistic.value_and_gradients(**feeds)[1].w.copy()
    logistic.value_and_gradients(**feeds, out=(None, (feeds["w"],)))
    np.testing.assert_allclose(feeds["w"], wanted)
    feeds = inputs_of(logistic)
    memory = np.zeros(6)
    memory[:3] = feeds["w"]
    feeds["w"] = memory[:3]
    logistic.value_and_gradients(**feeds, out=(None, (memory[1:4],)))
    np.testing.assert_allclose(memory[1:4], wanted)
    strided = np.zeros((3, 2))
    logistic.value_and_gradients(**inputs_of(logistic), out=(None, (strided[:, 0],)))
    np.testing.assert_allclose(strided[:, 0], wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_out_of_several_results(target):
    module = gradc.compile(
        "x: float[N]\ny, z, s = x[:2] * 2.0, x * 3.0, sum(x)\nreturn y, z, s",
        target=target,
    )
    x, memory = np.arange(3.0), np.zeros(6)
    with refused(ValueError, "out: y and z share memory"):
        module.run(x, out=(memory[:2], memory[:3], None))
    with refused(
        TypeError,
        "out: s: expected an array of float64, got a scalar, in whose place stands None",
    ):
        module.run(x, out=module.run(x))
    module.run(x, out=(memory[:4:2], memory[1::2], None))
    np.testing.assert_array_equal(memory, [0, 0, 2, 3, 0, 6])


@pytest.mark.parametrize(
    ("out", "error", "text"),
    [
        (
            (None, (np.empty(2),)),
            ValueError,
            "out: w: expected shape (3,), got (2,)",
        ),
        (
            (None, (np.empty(3, np.float32),)),
            TypeError,
            "out: w: expected an array of float64, got float32",
        ),
        (
            (None, ([0.0] * 3,)),
            TypeError,
            "out: w: expected an array of float64, got list",
        ),
        (
            (None, (np.broadcast_to(np.zeros(1), 3),)),
            ValueError,
            "out: w: the array is read-only",
        ),
        ((None, ()), TypeError, "out: expected a tuple of 1, got tuple of 0"),
        ((None, 3), TypeError, "out: expected a tuple of 1, got int"),
        (((None,),), TypeError, "out: expected a pair like the result, got tuple"),
    ],
)
def test_wrong_out(logistic, out, error, text):
    with refused(error, text):
        logistic.value_and_gradients(**inputs_of(logistic), out=out)


# ------------------------------------------------------------------------- failures


@pytest.mark.parametrize("target", TARGETS)
def test_errors_name_the_statement(target):
    module = gradc.compile(
        "t: float[V]\ni: int[B]\nrows = t[i]\nreturn rows", target=target
    )
    np.testing.assert_array_equal(module.run([1.0, 2.0], [0, -1])[0], [1.0, 2.0])
    for wrong in (2, -3, 2**62):
        where = f"index {wrong} is out of bounds for axis 0 with size 2"
        with refused(IndexError, f"rows = t[i]: {where}"):
            module.run([1.0, 2.0], [0, wrong])
    module = gradc.compile("K: float[N, N]\nL = cholesky(K)\nreturn L", target=target)
    what = {"numba": "the matrix is not", "numpy": "Matrix is not"}[target]
    with refused(np.linalg.LinAlgError, f"L = cholesky(K): {what} positive definite"):
        module.run(-np.eye(2))


# ------------------------------------------------------------------------ objective


def test_objective(logistic):
    scipy_optimize = pytest.importorskip("scipy.optimize")
    feeds = inputs_of(logistic)
    w = feeds.pop("w")
    feeds["l2"] = 0.1
    o = logistic.objective(**feeds)
    theta = o.pack(w=w)
    value, gradient = o.fun(theta)
    assert type(value) is float
    np.testing.assert_allclose(
        gradient, logistic.value_and_gradients(w=w, **feeds)[1].w
    )
    fit = scipy_optimize.minimize(o.fun, o.pack(w=np.zeros(3)), jac=True)
    assert np.abs(fit.jac).max() < 1e-4
    assert o.unpack(fit.x)["w"].shape == (3,)
    assert o.bounds(w=(0.0, None)) == [(0.0, np.inf)] * 3
    for call, text in (
        (lambda: o.pack(v=w), "pack() takes w; it got 'v'"),
        (lambda: o.bounds(v=(0, 1)), "bounds() takes w; it got 'v'"),
        (lambda: o.pack(), "pack() missing the argument 'w'"),
    ):
        with refused(TypeError, text):
            call()
    with refused(ValueError, "w: expected shape (3,), got shape (2,)"):
        o.pack(w=w[:2])
    with refused(ValueError, "theta: expected shape (3,), got (4,)"):
        o.fun(np.zeros(4))


@pytest.mark.parametrize("target", TARGETS)
def test_objective_of_several_xs(target):
    module = gradc.compile(
        "a: float[K, 2]\nb: float32\nc: float[3]\nu: float\nx: float[N]\n"
        "y = sum(a**2) * b + sum(c) * sum(x)\ndifferentiate(y, [b, a, c, u])\nreturn y",
        target=target,
        wrap="scipy",
    )
    o = module.objective(np.ones(2))
    with refused(ValueError, "a: its shape is not known before pack(...)"):
        o.fun(np.zeros(3))
    theta = o.pack(a=np.ones((2, 2)), b=3.0, c=[1.0, 2.0, 3.0], u=0.0)
    value, gradient = o.fun(theta)
    assert value == 24.0
    np.testing.assert_allclose(gradient, [4.0, 6.0, 6.0, 6.0, 6.0, 2.0, 2.0, 2.0, 0.0])
    assert o.bounds(c=([0, 1, 2], 3))[5:8] == [(0, 3), (1, 3), (2, 3)]


@pytest.fixture(scope="module")
def bounded():
    """An objective of parts of shapes (), (3,) and (2,)."""
    text = (
        "b: float\nc: float[3]\nd: float[2]\ny = b * sum(c) * sum(d)\n"
        "differentiate(y, [b, c, d])\nreturn y"
    )
    return gradc.compile(text, target="numpy", wrap="scipy").objective()


NONE = (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ({}, [NONE] * 6),
        ({"b": (0, None)}, [(0, np.inf), *[NONE] * 5]),
        ({"b": [(0, 2)]}, [(0, 2), *[NONE] * 5]),
        ({"b": np.array([0, 2])}, [(0, 2), *[NONE] * 5]),
        ({"c": [(0, 1), (None, 2), [3, None]]}, [(0, 1), (-np.inf, 2), (3, np.inf)]),
        ({"c": ((0, 1), (1, 2), (2, 3))}, [(0, 1), (1, 2), (2, 3)]),
        ({"c": np.array([[0, 1], [1, 2], [2, 3]])}, [(0, 1), (1, 2), (2, 3)]),
        ({"c": (None, [1, 2, 3])}, [(-np.inf, 1), (-np.inf, 2), (-np.inf, 3)]),
        ({"d": [(0, 1), (2, 3)]}, [(0, 1), (2, 3)]),
        ({"d": (np.array([0, 1]), np.array([2, 3]))}, [(0, 2), (1, 3)]),
    ],
)
def test_bounds(bounded, given, pairs):
    start = {"b": 0, "c": 1, "d": 4}[next(iter(given), "b")]
    assert bounded.bounds(**given)[start:][: len(pairs)] == pairs


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"b": 0}, TypeError, "b: expected (low, high) or 1 of such pairs, got 0"),
        ({"b": None}, TypeError, "b: expected (low, high)"),
        ({"b": "ab"}, TypeError, "b: expected (low, high)"),
        ({"b": np.array(0.0)}, TypeError, "b: expected (low, high)"),
        ({"b": ("a", 1)}, TypeError, "got ('a', 1)"),
        ({"b": (1j, 2)}, TypeError, "b: expected (low, high)"),
        ({"b": (1,)}, ValueError, "got (1,)"),
        ({"b": ()}, ValueError, "got ()"),
        ({"b": (2, 1)}, ValueError, "b: expected low <= high, got (2, 1)"),
        ({"b": (np.nan, 1)}, ValueError, "b: expected low <= high"),
        ({"c": (0, 1, 2)}, ValueError, "c: expected (low, high) or 3 of such pairs"),
        ({"c": [(0, 1), (2, 3)]}, ValueError, "c: expected"),
        ({"c": [(0, 1), (2, 1), (0, 1)]}, ValueError, "c: expected low <= high"),
        ({"c": [(0, (1, 2)), (2, 3), (0, 1)]}, ValueError, "c: expected (low, high)"),
        ({"c": ([0, 1], 2)}, ValueError, "c: expected (low, high)"),
        ({"d": ((0, 1), (2, 3))}, ValueError, "write a list of pairs"),
    ],
)
def test_bounds_that_are_none(bounded, given, error, message):
    with pytest.raises(error) as caught:
        bounded.bounds(**given)
    assert message in str(caught.value)


# ------------------------------------------------------------------------- the text


def test_tables(logistic):
    assert logistic.GRADC["interface"] == 1
    assert logistic.GRADC["options"]["wrap"] == "scipy"
    assert any(r.startswith("numpy") for r in logistic.GRADC["requires"])
    assert logistic.INPUTS["X"]["shape"] == ("N", "D")
    assert logistic.INPUTS["w"]["differentiable"]
    assert not logistic.INPUTS["X"]["differentiable"]
    assert logistic.OUTPUTS["p"] == {"dtype": "float64", "shape": ("N",)}
    names = ast.parse(logistic.source)
    assert ast.get_docstring(names).startswith("l2-regularised logistic regression.")


NAMES = [
    *("x\u0302", "\u0915\u093e", "\u00e9t\u00e9", "a\u00b7b", "\u2118", "x\u203fy"),
    *("__debug__", "__file__", "__name__", "__doc__", "__builtins__", "__import__"),
    *("__class__", "__slots__", "__new__", "__x", "__annotations__", "super", "self"),
    *("_", "match", "type", "case", "print", "int", "range", "len", "object", "tuple"),
    *("np", "npt", "numba", "math", "warnings", "Any", "NamedTuple", "annotations"),
    *("out", "threads", "grad_ys", "residuals", "arena", "rows", "i", "theta"),
    *("run", "forward", "backward", "Values", "Objective", "INPUTS", "GRADC"),
    *("_fields", "_replace", "_asdict", "count", "index", "fun", "pack", "bounds"),
]


def test_any_name_is_a_legal_name():
    """Marks that combine with letters, and names that Python means something by."""
    inputs = [
        input_(name=n, type=TensorType(float64, (symbol(s),)), default=None)
        for n, s in zip(NAMES, ["N", "N\u0302"] * len(NAMES), strict=False)
    ]
    inputs = [label(t, n) for t, n in zip(inputs, NAMES, strict=True)]
    y = sum(
        (reduce_sum(tanh(t), axes=(0,)) for t in inputs), start=number(0.0, float64)
    )
    graph = Graph(
        "names",
        tuple(inputs),
        tuple(Output(n, t * 2.0) for n, t in zip(NAMES, inputs, strict=True)),
        names={"y": y},
    )
    module = gradc.compile(graph, ys=[y], xs=inputs, target="numpy", wrap="scipy")
    assert set(NAMES) - set(module.INPUTS) == {"__debug__"}
    arrays = [np.arange(3.0) + k for k in range(len(NAMES))]
    given = dict(zip(module.INPUTS, arrays, strict=True))
    for found, x in zip(module.run(**given), arrays, strict=True):
        np.testing.assert_array_equal(found, x * 2.0)
    (value,), gradients = module.value_and_gradients(*arrays)
    for found, x in zip(gradients, arrays, strict=True):
        np.testing.assert_allclose(found, 1.0 - np.tanh(x) ** 2)
    _, residuals = module.forward(**given)
    for found, bar in zip(module.backward(residuals), gradients, strict=True):
        np.testing.assert_array_equal(found, bar)
    objective = module.objective()
    assert objective.fun(objective.pack(**given))[0] == value


def test_options_are_renamed_where_an_input_has_the_name():
    module = gradc.compile(
        "out: float[N]\nthreads: float\nreturn out * threads", target="numpy"
    )
    array = np.empty(2)
    result = module.run(out=[1.0, 2.0], threads=3.0, out_=(array,), threads_=2)
    assert result[0] is array
    np.testing.assert_array_equal(array, [3.0, 6.0])
    assert "the option `out` is called `out_`" in module.source


@pytest.mark.parametrize("target", TARGETS)
def test_hostile_text_stays_text(target):
    doc = '"""\nimport os\nos.abort()\n\\'
    graph = gradc.parse("x: float[N]\ny = x * 2.0\nreturn y", "a'b\"; rm -rf c.gc")
    import dataclasses

    graph = dataclasses.replace(graph, doc=doc)
    module = gradc.compile(graph, target=target)
    tree = ast.parse(module.source)
    imported = [a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names]
    assert "gradc" not in " ".join(imported)
    assert module.run([1.0])[0] == [2.0]


def loaded(path, name):
    """The module in a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_constants_of_all_sizes(tmp_path):
    rng = np.random.default_rng(0)
    small, large = rng.normal(size=(3, 4)), rng.normal(size=(40, 40))
    np.savez(tmp_path / "w.npz", small=small, large=large)
    path = tmp_path / "model.gc"
    path.write_text(
        'a: float64[3, 4] = load("w.npz", "small")\n'
        'b: float64[40, 40] = load("w.npz", "large")\n'
        "x: float[40]\nreturn sum(a) + b @ x"
    )
    x = rng.normal(size=40)
    for target in TARGETS:
        for embed in (True, False):
            options = options_of({"target": target, "embed": embed})
            emitted, _ = emit_module(path, options, "model_grad.py")
            again, _ = emit_module(path, options, "model_grad.py")
            assert again == emitted
            assert (emitted.data is None) == embed
            folder = tmp_path / f"{target}{embed}"
            folder.mkdir()
            (folder / "model_grad.py").write_text(emitted.source)
            if emitted.data is not None:
                (folder / "model_grad.npz").write_bytes(emitted.data)
            module = loaded(folder / "model_grad.py", f"m{target}{embed}")
            np.testing.assert_allclose(module.run(x)[0], small.sum() + large @ x)
            with zipfile.ZipFile(folder / "made.zip", "w") as archive:
                for file in sorted(folder.glob("model_grad.*")):
                    archive.write(file, file.name)
            spec = zipimport.zipimporter(str(folder / "made.zip")).find_spec(
                "model_grad"
            )
            inside = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(inside)
            if target == "numpy":
                np.testing.assert_array_equal(inside.run(x)[0], module.run(x)[0])
            if emitted.data is not None:
                (folder / "model_grad.npz").write_bytes(emitted.data[:-1] + b"?")
                where = folder / "model_grad.npz"
                text = f"{where} is not the file that belongs to this module"
                with refused(ImportError, text):
                    loaded(folder / "model_grad.py", "altered")


def test_fields_of():
    assert fields_of(["loss", "_k0", "a", "a", "__"]) == [
        "loss",
        "k0",
        "a",
        "a_2",
        "out_4",
    ]


def test_templates_refuse_what_is_not_there():
    import jinja2

    template = environment().from_string("{{ view.nothing }}")
    with pytest.raises(jinja2.UndefinedError):
        template.render(view=object())


# --------------------------------------------------------------------- as a file

USE = """
import sys
for name in ("gradc", "jinja2", "click", "rich", "platformdirs", "filelock"):
    sys.modules[name] = None
sys.path.insert(0, sys.argv[1])
import numpy
before = set(sys.modules)
import model
assert "numba" not in sys.modules
assert not any(m.split(".")[0] == "scipy" for m in set(sys.modules) - before)
value, gradient = model.value_and_gradients(numpy.arange(3.0))
assert abs(value.y - 5.0) < 1e-12, value
assert gradient.x.tolist() == [0.0, 2.0, 4.0], gradient
print("right")
"""


def use(folder, script=USE, **environment):
    """Import the module in a folder (or zip file) in a process without gradc, and call it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": "", **environment},
    )
    assert done.stdout == "right\n", done.stderr


@pytest.fixture(params=TARGETS)
def square(request, tmp_path):
    """A folder with a module of the sum of squares."""
    text = "x: float[N]\ny = sum(x * x)\ndifferentiate(y, [x])\nreturn y"
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "model.py").write_text(gradc.emit(text, target=request.param))
    return folder


def test_runs_without_gradc(square):
    use(square)


def test_runs_from_a_zip_file(square, tmp_path):
    archive = tmp_path / "made.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(square / "model.py", "model.py")
    use(archive, GRADC_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_calls_after_a_fork(logistic):
    feeds = inputs_of(logistic)
    want = logistic.run(**feeds).loss
    child = os.fork()
    if child == 0:
        os._exit(0 if logistic.run(**feeds).loss == want else 1)
    assert os.waitpid(child, 0)[1] == 0


FORK = """
import os, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy
import model
x = numpy.arange(3.0)
for work, seconds in ((model.run, 0.0), (model.value_and_gradients, 0.2)):
    thread = threading.Thread(target=work, args=(x,))
    thread.start()
    time.sleep(seconds)
    child = os.fork()
    if not child:
        signal.alarm(100)  # one that hangs ends
        right = model.run(x).y == 5.0 and model.value_and_gradients(x)[0].y == 5.0
        grandchild = os.fork()
        if not grandchild:
            os._exit(model.run(x).y != 5.0)
        os._exit(not right or os.waitpid(grandchild, 0)[1])
    status = os.waitpid(child, 0)[1]
    thread.join()
    assert status == 0, status
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_during_another_threads_first_call(square, tmp_path):
    use(square, FORK, GRADC_CACHE_DIR=str(tmp_path / "cache"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, /proc")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_calls_from_several_threads_with_forks_between(logistic, threads):
    feeds = [threads.data(n, d) for n, d in ((1, 1), (33, 4), (200000, 3))]
    calls = (logistic.run, logistic.value_and_gradients)
    work = threads.Work([(call, f) for call in calls for f in feeds])
    # a child of NumPy's may inherit a lock of its BLAS: modules without it know better
    forks = 3 if "_kernel" in logistic.source else 0
    found = work.soak(threads=8, calls=60, forks=forks)
    assert found["wrong"] == 0
    assert found["children"] == {"right": forks, "wrong": 0, "died": 0, "hung": 0}
    first, _, last = found["MB before, highest, after"]
    assert last < first + 60.0  # what the calls return is 128 MB


# --------------------------------------------------------------------------- grad_ys


@pytest.mark.parametrize("target", TARGETS)
def test_cotangents_of_several_ys(target):
    module = gradc.compile(
        "x: float[N]\nk: int\ny = x * x\nz = sum(sin(x))\n"
        "differentiate([y, z, k], [x, y])\nreturn y, z",
        target=target,
    )
    x = np.array([1.0, 2.0])
    _, plain = module.value_and_gradients(x, 3)
    np.testing.assert_allclose(plain.x, 2.0 * x + np.cos(x))
    seed = np.array([2.0, 3.0])
    _, seeded = module.value_and_gradients(x, 3, grad_ys=[seed, 2, None])
    np.testing.assert_allclose(seeded.x, 2.0 * x * seed + 2.0 * np.cos(x))
    np.testing.assert_allclose(seeded.y, seed)
    _, ones = module.value_and_gradients(x, 3, grad_ys=(None, 0, None))
    np.testing.assert_allclose(ones.x, 2.0 * x)
    for wrong, error, text in [
        ([1.0, 2.0], ValueError, "expected 3 entries, one a y, got 2"),
        ([None, None, 1], TypeError, "expected None for a y without a derivative"),
        ([np.zeros(3), None, None], ValueError, "y: expected shape (2,), got (3,)"),
        ([1j * x, None, None], TypeError, "y: expected float64, got complex128"),
    ]:
        with refused(error, f"grad_ys: {text}"):
            module.value_and_gradients(x, 3, grad_ys=wrong)


@pytest.mark.parametrize("target", TARGETS)
def test_cotangent_of_one_number(target):
    module = gradc.compile(
        "x: float[N]\nw: float32\ny = sum(sqrt(x)) * w.astype(float64)\n"
        "differentiate(y, [x, w, y])\nreturn y",
        target=target,
    )
    feeds = {"x": np.array([0.0, 4.0]), "w": 2.0}
    _, plain = module.value_and_gradients(**feeds)
    assert np.isinf(plain.x[0])
    array = np.empty(2)
    values, seeded = module.value_and_gradients(
        **feeds, grad_ys=3.0, out=(None, (array, None, None))
    )
    assert values.y == 4.0
    assert seeded.x is array
    np.testing.assert_allclose(array, 3.0 * plain.x)
    assert seeded.w == 6.0
    assert type(seeded.w) is np.float32
    assert seeded.y == 3.0
    _, nothing = module.value_and_gradients(**feeds, grad_ys=[0])
    np.testing.assert_array_equal(nothing.x, [0.0, 0.0])


@pytest.mark.parametrize("target", TARGETS)
def test_cotangent_where_value_and_gradient_are_one_array(target):
    module = gradc.compile(
        "x: float\ny = exp(x)\ndifferentiate(y, [x])\nreturn y", target=target
    )
    values, gradients = module.value_and_gradients(1.0, grad_ys=2.0)
    np.testing.assert_allclose(values.y, np.e)
    np.testing.assert_allclose(gradients.x, 2.0 * np.e)

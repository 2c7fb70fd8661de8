"""The BLAS and LAPACK helpers of emitted modules, against NumPy.

Run three ways: as plain Python, and compiled against a library of 64-bit integers (NumPy's) and
one of 32-bit integers (SciPy's).
"""

import importlib.util
import math
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from gradc.emit import blaslib, blassource
from gradc.errors import InternalError

LETTERS = ("_N", "_T", "_L", "_U")
API = ["_gemm", "_syrk", "_gemv", "_trsm", "_potrf", "_getrf", "_getrs", "_getri"]
API += ["_det", "_slogdet"]
SIZES = (0, 1, 2, 3, 4, 5, 7, 11, 16, 20)
TOLERANCE = {"float64": 1e-11, "float32": 2e-3}


def module_text(names, flags="", tail=""):
    """A module of these helpers; with `flags` they are compiled."""
    source = blassource.closure([*names, *LETTERS])
    lines = [f"import {m}" for m in sorted(source.imports - {"np", "Any"})]
    lines += ["from typing import Any", "import numpy as np", *source.constants]
    lines += [helper.text for helper in (*source.helpers, *source.plain)]
    if flags:
        lines.append(f"_bind(globals(), *{source.routines!r})")
        lines.append("import numba")
        lines += [
            f"{h.name} = numba.njit(fastmath={set(h.flags)}, error_model='numpy', "
            f"nogil=True, {flags})({h.name})"
            for h in source.helpers
        ]
    return "\n".join([*lines, tail, ""])


def load(folder, text):
    """The text as a module."""
    path = folder / "emitted.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("emitted", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["plain", "wide", "narrow"])
def way(request):
    return request.param


@pytest.fixture(scope="module", params=["float64", "float32"])
def lib(request, way, tmp_path_factory):
    """The helpers for one dtype, under their names for float64."""
    suffix = "_f32" if request.param == "float32" else ""
    names = [name + suffix for name in API]
    flags = "" if way == "plain" else "forceinline=False"
    text = module_text(names, flags)
    if way == "narrow":
        text = text.replace("_numpy_address(name) or ", "")
    module = load(tmp_path_factory.mktemp("blas"), text)
    found = SimpleNamespace(**{name: getattr(module, name) for name in LETTERS})
    for name in API:
        setattr(found, name, getattr(module, name + suffix))
    found.dtype = np.dtype(request.param)
    found.tolerance = TOLERANCE[request.param]
    found.slots = np.zeros(16, np.int64)
    found.rng = np.random.default_rng(20)
    return found


def draw(lib, *shape):
    return lib.rng.standard_normal(shape).astype(lib.dtype)


def spread(lib, x):
    """x inside a larger array, so that its rows are not adjacent."""
    wide = np.full((x.shape[0] * 2 + 1, x.shape[1] + 3), np.nan, x.dtype)
    view = wide[: 2 * x.shape[0] : 2, 1 : 1 + x.shape[1]]
    view[:] = x
    return view


def close(lib, x, y):
    scale = max(1.0, float(np.max(np.abs(y), initial=0.0)))
    np.testing.assert_allclose(x, y, rtol=0, atol=lib.tolerance * scale)


def op(lib, letter, x):
    return x.T if letter == lib._T else x


def well(lib, n):
    """A matrix that is not close to a singular one, with rows to exchange."""
    a = draw(lib, n, n) + 2 * math.sqrt(n) * np.eye(n, dtype=lib.dtype)
    return np.ascontiguousarray(a[lib.rng.permutation(n)])


def definite(lib, n):
    a = draw(lib, n, n)
    return a @ a.T + n * np.eye(n, dtype=lib.dtype)


# ------------------------------------------------------------------------- products


@pytest.mark.parametrize("alpha, beta", [(1.0, 0.0), (1.0, 1.0), (-0.5, 0.25)])
@pytest.mark.parametrize("letters", ["NN", "NT", "TN", "TT"])
def test_gemm(lib, letters, alpha, beta):
    ta, tb = (getattr(lib, f"_{letter}") for letter in letters)
    shapes = [tuple(lib.rng.choice(SIZES, 3)) for _ in range(30)]
    shapes += [(0, 3, 2), (2, 0, 1), (3, 2, 0), (64, 64, 64), (300, 5, 40)]
    for m, n, k in shapes:
        a = draw(lib, *((k, m) if ta == lib._T else (m, k)))
        b = draw(lib, *((n, k) if tb == lib._T else (k, n)))
        c = draw(lib, m, n) if beta else np.full((m, n), np.nan, lib.dtype)
        want = alpha * (op(lib, ta, a) @ op(lib, tb, b))
        if beta:
            want = want + beta * c
        apart = [spread(lib, x) for x in (a, b, c)]
        for x, y, out in ((a, b, c), apart):
            lib._gemm(ta, tb, alpha, x, y, beta, out, lib.slots)
            close(lib, out, want)


def test_gemm_of_a_large_matrix(lib):
    a, b = draw(lib, 300, 300), draw(lib, 300, 300)
    c = np.empty((300, 300), lib.dtype)
    lib._gemm(lib._N, lib._T, 1.0, a, b, 0.0, c, lib.slots)
    close(lib, c, a.astype(float) @ b.T.astype(float))


def test_single_rows_and_columns_with_odd_strides(lib):
    base = draw(lib, 6, 6)
    row, column = base[2:3, 1:5], base[1:5, 2:3]
    one = np.lib.stride_tricks.as_strided(base, (1, 4), (0, base.itemsize))
    c = np.empty((4, 4), lib.dtype)
    lib._gemm(lib._N, lib._N, 1.0, column, row, 0.0, c, lib.slots)
    close(lib, c, column @ row)
    lib._gemm(lib._N, lib._N, 1.0, column, one, 0.0, c, lib.slots)
    close(lib, c, column @ one)


@pytest.mark.parametrize("beta", [0.0, 1.0, 0.25])
@pytest.mark.parametrize("letter", ["_N", "_T"])
def test_gemv(lib, letter, beta):
    ta = getattr(lib, letter)
    for m, n in [(0, 3), (3, 0), (0, 0), (1, 1), (4, 7), (20, 3), (64, 64), (300, 200)]:
        a = draw(lib, m, n)
        rows, columns = op(lib, ta, a).shape
        x = draw(lib, columns)
        y = draw(lib, rows) if beta else np.full(rows, np.nan, lib.dtype)
        want = 0.5 * (op(lib, ta, a) @ x)
        if beta:
            want = want + beta * y
        strided = np.zeros((2, rows, 3), lib.dtype)
        strided[1, :, 1] = y
        pairs = np.repeat(x, 2)
        apart = spread(lib, a), pairs[::2], strided[1, :, 1]
        for matrix, vector, out in ((a, x, y), apart):
            lib._gemv(ta, 0.5, matrix, vector, beta, out, lib.slots)
            close(lib, out, want)
        assert not strided[0].any() and not strided[1, :, ::2].any()


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("letter", ["_N", "_T"])
def test_syrk(lib, letter, beta):
    ta = getattr(lib, letter)
    for n, k in [(0, 2), (2, 0), (1, 1), (5, 3), (20, 30), (100, 64)]:
        a = draw(lib, *((k, n) if ta == lib._T else (n, k)))
        c = definite(lib, n) if beta else np.full((n, n), np.nan, lib.dtype)
        want = 2.0 * (op(lib, ta, a) @ op(lib, ta, a).T)
        if beta:
            want = want + beta * c
        c = spread(lib, c)
        lib._syrk(ta, 2.0, a, beta, c, lib.slots)
        close(lib, c, want)
        assert np.array_equal(c, c.T)


# ------------------------------------------------------------------------ triangles


@pytest.mark.parametrize("diag", ["_N", "_U"])
@pytest.mark.parametrize("letter", ["_N", "_T"])
@pytest.mark.parametrize("uplo", ["_L", "_U"])
def test_trsm(lib, uplo, letter, diag):
    ta = getattr(lib, letter)
    keep = np.tril if uplo == "_L" else np.triu
    for n in (0, 1, 2, 5, 20, 64):
        whole = draw(lib, n, n) / (n + 1) + 2 * np.eye(n, dtype=lib.dtype)
        a = keep(whole)
        stored = np.where(keep(np.ones((n, n), bool)), whole, np.nan).astype(lib.dtype)
        if diag == "_U":
            np.fill_diagonal(a, 1.0)
            np.fill_diagonal(stored, np.nan)
        for r in (0, 1, 2, 3, 4, 9):
            want = draw(lib, n, r)
            b = op(lib, ta, a) @ want
            for m, x in (
                (stored, np.ascontiguousarray(b)),
                (spread(lib, stored), spread(lib, b)),
            ):
                which = getattr(lib, uplo), ta, getattr(lib, diag)
                lib._trsm(*which, m, x, lib.slots)
                close(lib, x, want)


def test_potrf(lib):
    for n in (*SIZES, 64, 300):
        a = definite(lib, n)
        factor = np.where(np.tri(n, dtype=bool), a, np.nan).astype(lib.dtype)
        assert lib._potrf(factor, lib.slots) == 0
        close(lib, factor, np.linalg.cholesky(a))
        assert not np.triu(factor, 1).any()


def test_potrf_tells_what_is_not_positive_definite(lib):
    for n, value in [(1, 0.0), (1, -1.0), (3, 0.0), (20, -2.0), (150, -1.0)]:
        a = np.eye(n, dtype=lib.dtype)
        a[n // 2, n // 2] = value
        assert lib._potrf(a, lib.slots) > 0
    assert lib._potrf(np.eye(3, dtype=lib.dtype), lib.slots) == 0


# -------------------------------------------------------------------------- systems


def factors(lib, a):
    lu = a.copy()
    pivots = np.full(len(a), -1, np.int64)  # a library may leave parts of it alone
    return lib._getrf(lu, pivots, lib.slots), lu, pivots


@pytest.mark.parametrize("letter", ["_N", "_T"])
def test_getrs(lib, letter):
    ta = getattr(lib, letter)
    for n in (*SIZES, 64, 300):
        a = well(lib, n)
        status, lu, pivots = factors(lib, a)
        assert status == 0
        for r in (0, 1, 2, 5):
            want = draw(lib, n, r)
            b = spread(lib, op(lib, ta, a) @ want)
            lib._getrs(ta, lu, pivots, b, lib.slots)
            close(lib, b, want)


def test_getri(lib):
    for n in (*SIZES, 64, 300):
        a = well(lib, n)
        _, lu, pivots = factors(lib, a)
        x = np.full((n, n), np.nan, lib.dtype)
        lib._getri(lu, pivots, x, lib.slots)
        close(lib, a.astype(float) @ x.astype(float), np.eye(n))


def test_determinants(lib):
    for n in (*SIZES, 64, 300):
        for _ in range(8 if n < 30 else 1):
            a = well(lib, n) / (2 * math.sqrt(n) if n else 1)
            _, lu, pivots = factors(lib, a)
            sign, log = np.linalg.slogdet(a.astype(float))
            got = lib._slogdet(lu, pivots)
            assert got[0] == sign
            assert got[1] == pytest.approx(log, rel=lib.tolerance, abs=lib.tolerance)
            want = sign * math.exp(log)
            assert lib._det(lu, pivots) == pytest.approx(want, rel=10 * lib.tolerance)


def test_all_permutations_of_four_have_the_right_sign(lib):
    for code in range(4**4):
        order = [code >> shift & 3 for shift in (0, 2, 4, 6)]
        if len(set(order)) < 4:
            continue
        a = np.eye(4, dtype=lib.dtype)[order]
        _, lu, pivots = factors(lib, a)
        assert lib._det(lu, pivots) == round(np.linalg.det(a))


def test_singular_matrices(lib):
    for n in (1, 2, 6, 70):
        a = np.eye(n, dtype=lib.dtype)[::-1].copy()
        a[n // 2] = 0.0
        status, lu, pivots = factors(lib, a)
        assert status > 0
        assert lib._det(lu, pivots) == 0.0
        assert lib._slogdet(lu, pivots) == (0.0, -math.inf)
    assert factors(lib, np.eye(2, dtype=lib.dtype))[0] == 0


@pytest.mark.parametrize(
    "diagonal, want, sign, log",
    [
        ([1e30, 1e35, 1e-30, 1e-30, 1e-4], 10.0, 1.0, math.log(10.0)),
        ([1e-37] * 30 + [1e37] * 30, 1.0, 1.0, 0.0),
        ([1e37] * 20, math.inf, 1.0, 740 * math.log(10.0)),
        ([1e-37] * 20, 0.0, 1.0, -740 * math.log(10.0)),
        ([math.inf, -2.0], -math.inf, -1.0, math.inf),
        ([math.nan, 0.5], math.nan, 1.0, math.nan),
    ],
)
def test_determinants_do_not_overflow_on_the_way(lib, diagonal, want, sign, log):
    _, lu, pivots = factors(lib, np.diag(np.asarray(diagonal, lib.dtype)))
    assert lib._det(lu, pivots) == pytest.approx(want, rel=1e-5, nan_ok=True)
    got = lib._slogdet(lu, pivots)
    assert got == pytest.approx((sign, log), rel=1e-6, abs=1e-5, nan_ok=True)


def test_each_width_of_integers_was_met(lib, way):
    _, _, pivots = factors(lib, np.eye(4, dtype=lib.dtype)[::-1].copy())
    packed = pivots.view(np.int32).tolist()
    assert packed[:4] == ([4, 3, 3, 4] if way == "narrow" else [4, 0, 3, 0])


# ------------------------------------------------------------------ compiled modules

ENTRY = """
def entry(a, b, c, lu, pivots, slots):
    for i in range(a.shape[0]):
        _gemm(_N, _N, 1.0, a[i], b[i], 0.0, c[i], slots)
        _gemm(_T, _N, 1.0, a[i], b[i], 1.0, c[i], slots)
        _gemm(_N, _T, 1.0, a[i], b[i], 1.0, c[i], slots)
        for j in range(lu.shape[0]):
            for k in range(lu.shape[0]):
                lu[j, k] = a[i, j, k]
        if _getrf(lu, pivots, slots) != 0:
            return i + 1
        _getrs(_N, lu, pivots, c[i], slots)
    return 0
entry = numba.njit(cache=True, nogil=True, error_model="numpy")(entry)
"""
USED = ("_gemm", "_getrf", "_getrs")


def entry_arguments(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((3, n, n)) + 3 * n * np.eye(n)
    b = rng.standard_normal((3, n, n))
    t = (0, 2, 1)
    want = np.linalg.solve(a, a @ b + a.transpose(t) @ b + a @ b.transpose(t))
    scratch = np.empty((n, n)), np.zeros(n, np.int64), np.zeros(16, np.int64)
    return (a, b, np.empty_like(a), *scratch), want


def test_a_cached_kernel_finds_the_library_at_another_address(tmp_path):
    inner = "no_cpython_wrapper=True, no_cfunc_wrapper=True"
    text = module_text(USED, inner, ENTRY)
    # the same file in both runs; the second run binds to another library
    switch = "(not OTHER and _numpy_address(name)) or "
    text = text.replace("_numpy_address(name) or ", switch)
    text = "import os\nOTHER = bool(os.environ.get('OTHER'))\n" + text
    (tmp_path / "emitted.py").write_text(text)
    program = """
import numpy as np
import emitted
rng = np.random.default_rng(0)
n = 5
a = rng.standard_normal((3, n, n)) + 3 * n * np.eye(n)
b = rng.standard_normal((3, n, n))
c, lu = np.empty_like(a), np.empty((n, n))
p, s = np.zeros(n, np.int64), np.zeros(16, np.int64)
assert emitted.entry(a, b, c, lu, p, s) == 0
t = (0, 2, 1)
want = np.linalg.solve(a, a @ b + a.transpose(t) @ b + a @ b.transpose(t))
assert np.allclose(c, want)
stats = emitted.entry.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), p[0] > n)
"""
    answers = []
    for other in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env={"PATH": "", "OTHER": other, "NUMBA_CACHE_DIR": str(tmp_path / "c")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.split())
    assert answers == [["0", "1", "False"], ["1", "0", "True"]]


SPIN = """
def spin(flag, a, c, slots):
    for _ in range(300_000_000):
        if flag[0] != 0:
            return True
        _gemm(_N, _N, 1.0, a, a, 0.0, c, slots)
    return False
spin = numba.njit(nogil=True)(spin)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    text = module_text(USED, "forceinline=False", ENTRY + SPIN)
    return load(tmp_path_factory.mktemp("blas"), text)


def test_flags_cost_no_compilation_each(kernel):
    arguments, _ = entry_arguments(3)
    kernel.entry(*arguments)
    assert len(kernel._gemm.signatures) == 1


def test_ten_threads_at_once(kernel):
    sizes = (2, 3, 9, 20)
    problems = [[entry_arguments(n, seed) for n in sizes] for seed in range(10)]

    def work(problems):
        for _ in range(100):
            for arguments, want in problems:
                assert kernel.entry(*arguments) == 0
                assert np.allclose(arguments[2], want)
                arguments[2][:] = np.nan
        return True

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(work, problems))


def test_calls_run_beside_the_interpreter(kernel):
    a, c, slots = np.eye(3), np.eye(3), np.zeros(16, np.int64)
    flag = np.ones(1, np.int64)
    assert kernel.spin(flag, a, c, slots)
    flag[0] = 0
    seen = []
    thread = threading.Thread(
        target=lambda: seen.append(kernel.spin(flag, a, c, slots))
    )
    thread.start()
    time.sleep(0.01)
    flag[0] = 1
    thread.join()
    assert seen == [True]


# ---------------------------------------------------------------------- source, binding


def test_closure_takes_what_is_used_and_no_more():
    source = blassource.closure(["_gemv_f32", "_T"])
    assert [helper.name for helper in source.helpers] == ["_gemv_f32"]
    assert source.routines == ("sgemv",)
    assert [helper.name for helper in source.plain] == [
        "_sgemv",
        "_call",
        "_bind",
        "_address",
        "_numpy_address",
        "_numpy_libraries",
        "_scipy_address",
        "_thread_control",
    ]
    (helper,) = source.helpers
    assert "float64" not in helper.text and "// 8" not in helper.text
    assert blassource.closure(["_N"]).plain == ()
    assert "math" in blassource.closure(["_det"]).imports


@pytest.mark.parametrize("name", ["_nonsense", "_gemm_f16"])
def test_closure_of_an_unknown_name(name):
    with pytest.raises(InternalError, match=f"blaslib has no {name}"):
        blassource.closure([name])


def test_each_helper_has_a_twin():
    names = set(blassource.available())
    assert {name for api in API for name in (api, f"{api}_f32")} <= names


def test_both_libraries_have_every_routine():
    routines = blassource.closure(API + [f"{name}_f32" for name in API]).routines
    assert len(routines) == 14
    for name in routines:
        ours = blaslib._numpy_address(name)
        theirs = blaslib._scipy_address(name)
        assert ours and theirs and ours != theirs
        assert blaslib._address(name) == ours


def test_no_library_at_all(monkeypatch):
    monkeypatch.setattr(blaslib, "_numpy_address", lambda name: 0)
    monkeypatch.setattr(blaslib, "_scipy_address", lambda name: 0)
    with pytest.raises(ImportError, match="no BLAS routine dgemm: .*install SciPy"):
        blaslib._address("dgemm")

"""BLAS and LAPACK for emitted modules: the source that `blassource.closure` copies, only what a module uses.

Row-major helpers over 2-D views, called by kernels. They allocate nothing and raise nothing:

    _gemm(ta, tb, alpha, a, b, beta, c, slots)  c[m, n] = alpha * op(a) @ op(b) + beta * c
    _syrk(ta, alpha, a, beta, c, slots)         c[n, n] = alpha * op(a) @ op(a).T + beta * c
    _gemv(ta, alpha, a, x, beta, y, slots)      y = alpha * op(a) @ x + beta * y
    _trsm(uplo, ta, diag, a, b, slots)          b[n, r] := the x of op(a) @ x = b
    _potrf(a, slots) -> status                  a := its lower Cholesky factor, 0 above the diagonal
    _getrf(a, pivots, slots) -> status          a := its factors; opaque, as pivots is
    _getrs(ta, lu, pivots, b, slots)            b[n, r] := the x of op(a) @ x = b, from _getrf's lu
    _getri(lu, pivots, x, slots)                x[n, n] := the inverse
    _det(lu, pivots) -> float                   the determinant
    _slogdet(lu, pivots) -> (sign, log)         its sign (0 if singular) and the log of its size (-inf)
    _cofactor(a, adjugate, order, out)          the cofactors of a, which is overwritten

- Each has a twin for float32 (`_gemm_f32`), which `closure` derives from the text here; scalars stay Python floats.
- `_gemm_c128` and its twin `_gemm_c64` are for complex numbers; alpha and beta are real and not negative.
- `ta`, `tb`: `_N` (as it is) or `_T` (transposed). `uplo`: `_L` or `_U`, the triangle of `a` that is read. `diag`: `_N`,
  or `_U` for a diagonal of ones that is not read. These are NumPy scalars because Numba compiles a function anew for
  each literal it is called with.
- Matrices are views whose last stride is one element and whose row stride is positive; vectors have a positive stride.
  Every size may be 0. `c` and `y` are not read where beta is 0. Outputs overlap no input.
- `_potrf` reads the lower triangle only. Its status is 0, or positive if `a` is not positive definite; `_getrf`'s is
  positive if `a` is singular (its determinant is then 0, and `_getrs` divides by zero). Of a failed factor nothing is
  promised.
- A NaN in a matrix spoils its factors, and with them what is made of them; one that is not finite
  makes all cofactors NaN.
- `_cofactor` needs adjugate[n, n] and order, int64[2, n], to work in; it calls no library.
- `pivots` is int64[n]. `slots` is int64[16] that no other call uses meanwhile: the scalars, which BLAS takes by
  address, are written there. On a little-endian machine the low half of a small 64-bit integer is the same 32-bit
  integer at the same address, so one text serves libraries of both widths.

`_bind` hands Numba the addresses of the routines, under names of our own; a compiled kernel then calls them by symbol
and can be cached. Uncompiled, the same kernels run through ctypes. The library is the one NumPy has loaded, or SciPy's
where NumPy's cannot be reached. `_thread_control` gives OpenBLAS's own reader and setter of its number of threads.
There is one number for the process, so what is set around a call holds for other threads' BLAS too meanwhile. It is
worth that: idle threads of OpenBLAS wait in a busy loop, and where other work had the cores, value and gradient of a
Gaussian process of 180 points took 1.1 ms with one thread and 20 to 500 ms with two (1.4 ms at best).

Measured (OpenBLAS 0.3.31, one thread, float64): `_gemm` of 4 x 4 takes 28 ns (np.dot in Numba 76), 16 x 16 174 ns;
with `_N`, `_T` it is twice as slow up to 32 x 32. `_syrk` is faster than `_gemm` from n = 64 on. `_getri` costs what
`_getrs` on the identity costs: it is that. An inverse by dtrtri was 9% faster at 256 x 256; by dgetri 20% (64 to 1000),
but that wants more workspace, and pivots written by the same library.
"""

import ctypes
import importlib
import math
import pathlib
from typing import Any

import numpy as np

_N = np.int64(78)  # "N": as it is
_T = np.int64(84)  # "T": transposed
_L = np.int64(76)  # "L": lower
_U = np.int64(85)  # "U": upper, or of unit diagonal

_ARITY = {
    "gemm": 13,
    "gemv": 11,
    "syrk": 10,
    "trsm": 11,
    "trsv": 8,
    "potrf": 5,
    "getrf": 6,
}


def _gemm(
    ta: Any, tb: Any, alpha: float, a: Any, b: Any, beta: float, c: Any, slots: Any
) -> None:
    """c = alpha * op(a) @ op(b) + beta * c, that is c.T = op(b).T @ op(a).T by columns."""
    m, n = c.shape
    slots[0] = tb
    slots[1] = ta
    slots[2] = n
    slots[3] = m
    slots[4] = a.shape[0] if ta == _T else a.shape[1]
    slots[5] = np.float64(alpha).view(np.int64)
    slots[6] = max(1, b.shape[1], b.strides[0] // 8)
    slots[7] = max(1, a.shape[1], a.strides[0] // 8)
    slots[8] = np.float64(beta).view(np.int64)
    slots[9] = max(1, n, c.strides[0] // 8)
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    pb = np.intp(b.ctypes.data)
    pc = np.intp(c.ctypes.data)
    t = s + 40
    _dgemm(
        s, s + 8, s + 16, s + 24, s + 32, t, pb, t + 8, pa, t + 16, t + 24, pc, t + 32
    )


def _gemm_c128(
    ta: Any, tb: Any, alpha: float, a: Any, b: Any, beta: float, c: Any, slots: Any
) -> None:
    """c = alpha * op(a) @ op(b) + beta * c for complex numbers."""
    m, n = c.shape
    slots[0] = tb
    slots[1] = ta
    slots[2] = n
    slots[3] = m
    slots[4] = a.shape[0] if ta == _T else a.shape[1]
    slots[5] = np.float64(alpha).view(np.int64)
    slots[6] = 0  # the imaginary part of alpha
    slots[7] = max(1, b.shape[1], b.strides[0] // 16)
    slots[8] = max(1, a.shape[1], a.strides[0] // 16)
    slots[9] = np.float64(beta).view(np.int64)
    slots[10] = 0
    slots[11] = max(1, n, c.strides[0] // 16)
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    pb = np.intp(b.ctypes.data)
    pc = np.intp(c.ctypes.data)
    t = s + 40
    _zgemm(
        s, s + 8, s + 16, s + 24, s + 32, t, pb, s + 56, pa, s + 64, s + 72, pc, s + 88
    )


def _syrk(ta: Any, alpha: float, a: Any, beta: float, c: Any, slots: Any) -> None:
    """c = alpha * op(a) @ op(a).T + beta * c, where c is symmetric unless beta is 0."""
    n = c.shape[0]
    slots[0] = _U
    slots[1] = _N + _T - ta
    slots[2] = n
    slots[3] = a.shape[0] if ta == _T else a.shape[1]
    slots[4] = np.float64(alpha).view(np.int64)
    slots[5] = max(1, a.shape[1], a.strides[0] // 8)
    slots[6] = np.float64(beta).view(np.int64)
    slots[7] = max(1, n, c.strides[0] // 8)
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    pc = np.intp(c.ctypes.data)
    _dsyrk(s, s + 8, s + 16, s + 24, s + 32, pa, s + 40, s + 48, pc, s + 56)
    for i in range(n):
        for j in range(i):
            c[j, i] = c[i, j]


def _gemv(
    ta: Any, alpha: float, a: Any, x: Any, beta: float, y: Any, slots: Any
) -> None:
    """y = alpha * op(a) @ x + beta * y."""
    if beta == 0.0:
        for i in range(y.size):
            y[i] = 0.0
    elif a.size == 0:
        for i in range(y.size):
            y[i] *= beta
    slots[0] = _N + _T - ta
    slots[1] = a.shape[1]
    slots[2] = a.shape[0]
    slots[3] = np.float64(alpha).view(np.int64)
    slots[4] = max(1, a.shape[1], a.strides[0] // 8)
    slots[5] = max(1, x.strides[0] // 8)
    slots[6] = np.float64(beta).view(np.int64)
    slots[7] = max(1, y.strides[0] // 8)
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    px = np.intp(x.ctypes.data)
    py = np.intp(y.ctypes.data)
    _dgemv(s, s + 8, s + 16, s + 24, pa, s + 32, px, s + 40, s + 48, py, s + 56)


def _trsm(uplo: Any, ta: Any, diag: Any, a: Any, b: Any, slots: Any) -> None:
    """b := the x of op(a) @ x = b, where a is triangular; by columns x.T @ op(a).T = b.T."""
    n, r = b.shape
    slots[0] = 82  # "R": op(a).T stands at the right
    slots[1] = _L + _U - uplo
    slots[2] = ta
    slots[3] = diag
    slots[4] = r
    slots[5] = n
    slots[6] = np.float64(1.0).view(np.int64)
    slots[7] = max(1, n, a.strides[0] // 8)
    slots[8] = max(1, r, b.strides[0] // 8)
    slots[9] = _N + _T - ta
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    pb = np.intp(b.ctypes.data)
    if r <= 3:  # cheaper column by column
        for j in range(r):
            px = pb + j * b.strides[1]
            _dtrsv(s + 8, s + 72, s + 24, s + 40, pa, s + 56, px, s + 64)
    else:
        _dtrsm(s, s + 8, s + 16, s + 24, s + 32, s + 40, s + 48, pa, s + 56, pb, s + 64)


def _potrf(a: Any, slots: Any) -> int:
    """a := its lower Cholesky factor; positive if there is none."""
    n = a.shape[0]
    slots[0] = _U
    slots[1] = n
    slots[2] = max(1, n, a.strides[0] // 8)
    slots[3] = 0
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    _dpotrf(s, s + 8, pa, s + 16, s + 24)
    for i in range(n):
        for j in range(i + 1, n):
            a[i, j] = 0.0
    return int(slots[3])


def _getrf(a: Any, pivots: Any, slots: Any) -> int:
    """a := the triangles l and u of a = l @ u @ p.T; positive if a is singular.

    By columns these are LAPACK's factors of a.T; u has the diagonal of ones. Those of a matrix
    that holds a NaN are NaN throughout.
    """
    n = a.shape[0]
    if _has_nan(a):
        a[:] = math.nan
        pivots[:] = np.arange(1, n + 1)
        return 0
    slots[0] = n
    slots[1] = max(1, n, a.strides[0] // 8)
    slots[2] = 0
    s = np.intp(slots.ctypes.data)
    pa = np.intp(a.ctypes.data)
    pivot = np.intp(pivots.ctypes.data)
    _dgetrf(s, s, pa, s + 8, pivot, s + 16)
    return int(slots[2])


def _has_nan(a: Any) -> bool:
    """Whether an element of a matrix is NaN."""
    for i in range(a.shape[0]):
        found = False
        for j in range(a.shape[1]):
            found |= a[i, j] != a[i, j]
        if found:
            return True
    return False


def _pivot(pivots: Any, i: int) -> int:
    """The row that changed places with row i, where there are rows below i.

    A library of 32-bit integers packs two pivots into each of the 64-bit integers. It
    shows in the first: pivots count from 1, so the second pivot would make it larger
    than any size.
    """
    if pivots[0] <= pivots.size:
        return int(pivots[i]) - 1
    return int((pivots[i >> 1] >> ((i & 1) << 5)) & 0xFFFFFFFF) - 1


def _permute(ta: Any, pivots: Any, b: Any) -> None:
    """b := op(p) @ b."""
    n, r = b.shape
    for step in range(n - 1):
        i = step if ta == _T else n - 2 - step
        k = _pivot(pivots, i)
        if k != i:
            for j in range(r):
                b[i, j], b[k, j] = b[k, j], b[i, j]


def _getrs(ta: Any, lu: Any, pivots: Any, b: Any, slots: Any) -> None:
    """b := the x of op(a) @ x = b, from the factors of a."""
    if ta == _T:
        _permute(_T, pivots, b)
        _trsm(_U, _T, _U, lu, b, slots)
        _trsm(_L, _T, _N, lu, b, slots)
    else:
        _trsm(_L, _N, _N, lu, b, slots)
        _trsm(_U, _N, _U, lu, b, slots)
        _permute(_N, pivots, b)


def _getri(lu: Any, pivots: Any, x: Any, slots: Any) -> None:
    """x := the inverse of a, from the factors of a."""
    n = x.shape[0]
    for i in range(n):
        for j in range(n):
            x[i, j] = 0.0
        x[i, i] = 1.0
    _getrs(_N, lu, pivots, x, slots)


def _lu_product(lu: Any, pivots: Any) -> tuple[float, float]:
    """p and e with det(a) = p * 2**(256 e), where |p| is 0 or from 2**-256 to 2**256."""
    n = lu.shape[0]
    p = 1.0
    e = 0.0
    for i in range(n):
        if i < n - 1 and _pivot(pivots, i) != i:
            p = -p
        d = float(lu[i, i])
        while 2.0**256 < abs(d) < math.inf:
            d *= 2.0**-256
            e += 1.0
        while 0.0 < abs(d) < 2.0**-256:
            d *= 2.0**256
            e -= 1.0
        p *= d
        if 2.0**256 < abs(p) < math.inf:
            p *= 2.0**-256
            e += 1.0
        elif 0.0 < abs(p) < 2.0**-256:
            p *= 2.0**256
            e -= 1.0
    return p, e


def _det(lu: Any, pivots: Any) -> float:
    """The determinant of a, from its factors."""
    p, e = _lu_product(lu, pivots)
    while e > 0.0 and abs(p) < math.inf:
        p *= 2.0**256
        e -= 1.0
    while e < 0.0 and p != 0.0:
        p *= 2.0**-256
        e += 1.0
    return p


def _slogdet(lu: Any, pivots: Any) -> tuple[float, float]:
    """The sign of the determinant of a and the log of its size, from its factors."""
    p, e = _lu_product(lu, pivots)
    if p == 0.0:
        return 0.0, -math.inf
    sign = -1.0 if p < 0.0 else 1.0
    return sign, math.log(abs(p)) + e * 177.445678223346


def _cofactor(a: Any, adjugate: Any, order: Any, out: Any) -> None:
    """out := the cofactors of a, which is overwritten; singular matrices too.

    With complete pivoting a[rows, columns] = L @ U; the adjugates of U's leading blocks follow
    one from the other without a division, and adj(a) is adj(U) @ inv(L) in a's order.
    """
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            if not abs(a[i, j]) < math.inf:
                out[:] = math.nan
                return
    sign = 1.0
    for i in range(n):
        order[0, i] = i
        order[1, i] = i
    for k in range(n):
        p, q, largest = k, k, -1.0
        for i in range(k, n):
            for j in range(k, n):
                if abs(a[i, j]) > largest:
                    p, q, largest = i, j, abs(a[i, j])
        if p != k:
            sign = -sign
            order[0, k], order[0, p] = order[0, p], order[0, k]
            for j in range(n):
                a[k, j], a[p, j] = a[p, j], a[k, j]
        if q != k:
            sign = -sign
            order[1, k], order[1, q] = order[1, q], order[1, k]
            for i in range(n):
                a[i, k], a[i, q] = a[i, q], a[i, k]
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k] if a[k, k] != 0.0 else 0.0
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    det = 1.0
    for k in range(n):
        for i in range(k):
            total = 0.0
            for j in range(i, k):
                total += adjugate[i, j] * a[j, k]
            for j in range(i, k):
                adjugate[i, j] *= a[k, k]
            adjugate[i, k] = -total
            adjugate[k, i] = 0.0
        adjugate[k, k] = det
        det *= a[k, k]
    for i in range(n):
        for j in range(n - 1, -1, -1):
            for k in range(j + 1, n):
                adjugate[i, j] -= adjugate[i, k] * a[k, j]
            out[order[0, j], order[1, i]] = sign * adjugate[i, j]


def _dgemm(*addresses: Any) -> Any:
    """BLAS's dgemm; `_bind` puts its symbol in the place of this function."""
    return _call("dgemm", addresses)


def _zgemm(*addresses: Any) -> Any:
    """BLAS's zgemm; `_bind` puts its symbol in the place of this function."""
    return _call("zgemm", addresses)


def _dsyrk(*addresses: Any) -> Any:
    """BLAS's dsyrk; `_bind` puts its symbol in the place of this function."""
    return _call("dsyrk", addresses)


def _dgemv(*addresses: Any) -> Any:
    """BLAS's dgemv; `_bind` puts its symbol in the place of this function."""
    return _call("dgemv", addresses)


def _dtrsm(*addresses: Any) -> Any:
    """BLAS's dtrsm; `_bind` puts its symbol in the place of this function."""
    return _call("dtrsm", addresses)


def _dtrsv(*addresses: Any) -> Any:
    """BLAS's dtrsv; `_bind` puts its symbol in the place of this function."""
    return _call("dtrsv", addresses)


def _dpotrf(*addresses: Any) -> Any:
    """LAPACK's dpotrf; `_bind` puts its symbol in the place of this function."""
    return _call("dpotrf", addresses)


def _dgetrf(*addresses: Any) -> Any:
    """LAPACK's dgetrf; `_bind` puts its symbol in the place of this function."""
    return _call("dgetrf", addresses)


def _call(name: str, addresses: Any) -> Any:
    """Call a routine without Numba."""
    kinds = [ctypes.c_void_p] * _ARITY[name[1:]]
    routine = ctypes.CFUNCTYPE(None, *kinds)(_address(name))
    return routine(*[int(address) for address in addresses])


def _bind(scope: dict[str, Any], *names: str) -> None:
    """In this scope let compiled code call each routine by symbol, `gradc_` and its name."""
    types = importlib.import_module("numba").types
    register = importlib.import_module("llvmlite.binding").add_symbol
    for name in names:
        register("gradc_" + name, _address(name))
        signature = types.int32(*[types.intp] * _ARITY[name[1:]])
        scope["_" + name] = types.ExternalFunction("gradc_" + name, signature)


def _address(name: str) -> int:
    """Where the routine is: in the library that NumPy has loaded, else in SciPy's."""
    address = _numpy_address(name) or _scipy_address(name)
    if not address:
        raise ImportError(
            f"no BLAS routine {name}: NumPy's library cannot be called by symbol here; "
            "install SciPy, whose own will be used"
        )
    return address


def _numpy_address(name: str) -> int:
    """The routine among what NumPy's linear algebra is linked to; 0 if it is not there.

    The wheels' OpenBLAS, a system's or conda's library, Apple's Accelerate.
    """
    affixes = ("scipy_", "_64_"), ("", "_64_"), ("scipy_", "_"), ("", "_")
    apple = ("", "$NEWLAPACK$ILP64"), ("", "$NEWLAPACK")
    for library in _numpy_libraries():
        for prefix, suffix in affixes + apple:
            routine = getattr(library, prefix + name + suffix, None)
            if routine is not None:
                return ctypes.cast(routine, ctypes.c_void_p).value or 0
    return 0


def _numpy_libraries() -> list[Any]:
    """Through the first, what NumPy's linear algebra is linked to; then what is shipped with it."""
    module = importlib.import_module("numpy.linalg._umath_linalg").__file__
    beside = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
    libraries = []
    for path in [str(module), *map(str, sorted(beside.glob("*openblas*")))]:
        try:
            libraries.append(ctypes.CDLL(path))
        except OSError:
            continue
    return libraries


def _scipy_address(name: str) -> int:
    """The routine in what SciPy offers to other compiled modules; 0 if it is not there."""
    api = ctypes.pythonapi
    label = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    for module in ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"):
        try:
            table = importlib.import_module(module).__pyx_capi__
        except ImportError:
            return 0
        if name in table:
            signature = label(("PyCapsule_GetName", api))(table[name])
            address = pointer(("PyCapsule_GetPointer", api))(table[name], signature)
            return int(address)
    return 0


def _thread_control(name: str) -> list[Any]:
    """What reads and what sets the number of threads of the OpenBLAS that has a routine.

    Nothing where the library is another, whose threads are left alone.
    """
    if _numpy_address(name):
        libraries = _numpy_libraries()
    else:
        module = importlib.import_module("scipy.linalg.cython_blas")
        libraries = [ctypes.CDLL(str(module.__file__))]
    read, write = "openblas_get_num_threads", "openblas_set_num_threads"
    for library in libraries:
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                if hasattr(library, prefix + write + suffix):
                    reader = ctypes.PYFUNCTYPE(ctypes.c_int)
                    setter = ctypes.PYFUNCTYPE(None, ctypes.c_int)
                    return [
                        reader((prefix + read + suffix, library)),
                        setter((prefix + write + suffix, library)),
                    ]
    return []

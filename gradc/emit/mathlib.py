"""Scalar mathematics that is copied into the Numba modules gradc emits.

Every function is plain Python on one scalar, and calls nothing but other functions of
this file; a module gets those it uses (see mathsource). Compiled with
``njit(fastmath={'contract'}, error_model='numpy', forceinline=True)``, the functions
before `_fmod` are straight lines of arithmetic, selects and bit moves, so a loop that
calls them becomes SIMD code: all but `_sin`, `_cos` and `_tan`, whose `_near` forms do,
and a loop may watch the range of their arguments at no cost. None but `_add` may be
compiled with 'reassoc': adding and subtracting 1.5 * 2**52 (in float32 2**23), which
rounds to an integer, would be folded away.

Products that must not round are products of numbers cut to half their bits, so it makes
no difference whether the compiler fuses a multiplication with an addition.

Accuracies are the largest errors seen against mpmath, in units in the last place (ULP)
of the result. Polynomials are Chebyshev interpolants made with 50 digits. Names ending
in ``_f32`` work in float32, but for what they say.
"""

import math
from typing import Any

import numpy as np


def _add(total: Any, term: Any) -> Any:
    """The addition of a sum, which may be reassociated (and so vectorised)."""
    return total + term


def _pull(g: Any, slope: Any) -> Any:
    """g * slope, but 0 where g is 0 whatever the slope: the strong zero."""
    return g * slope if g != 0.0 else g


def _pow2(shifted: float) -> float:
    """2**n for shifted = n + 1.5 * 2**52; exact for normal results."""
    bits = np.float64(shifted).view(np.int64) + np.int64(1023)
    power: float = np.int64(bits << np.int64(52)).view(np.float64)
    return power


def _head(x: float) -> float:
    """x without its low 27 bits, so that a product of two heads is exact."""
    bits = np.float64(x).view(np.int64) & np.int64(-134217728)
    head: float = np.int64(bits).view(np.float64)
    return head


def _pow2_f32(shifted: np.float32) -> np.float32:
    """2**n for shifted = n + 1.5 * 2**23; exact for normal results."""
    bits = np.int32(np.float32(shifted).view(np.int32) + np.int32(127))
    power: np.float32 = np.int32(bits << np.int32(23)).view(np.float32)
    return power


def _head_f32(x: np.float32) -> np.float32:
    """x without its low 12 bits, so that a product of two heads is exact."""
    bits = np.int32(np.float32(x).view(np.int32) & np.int32(-4096))
    head: np.float32 = np.int32(bits).view(np.float32)
    return head


def _exp_split(x: float) -> tuple[float, float]:
    """n and p with exp(x) = 2**n (1 + p) and |p| <= 0.42."""
    shifted = x * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = x - n * 0.6931471806019545
    r = r + n * 4.2009150726810846e-11
    q0 = 0.5 + r * 0.1666666666666667
    q2 = 0.04166666666666667 + r * 0.008333333333326084
    q4 = 0.0013888888888883711 + r * 0.0001984126987500228
    q6 = 2.480158732567746e-05 + r * 2.755725517000089e-06
    q8 = 2.755727347871858e-07 + r * 2.5105312729622103e-08
    r2 = r * r
    q0 = q0 + r2 * q2
    q4 = q4 + r2 * q6
    q8 = q8 + r2 * 2.09147553258932e-09
    r4 = r2 * r2
    q0 = q0 + r4 * q4
    r8 = r4 * r4
    q = q0 + r8 * q8
    return n, r + r * r * q


def _ldexp(x: float, n: float) -> float:
    """x * 2**n for an integer n, in two steps: results may be denormal or infinite."""
    half = n * 0.5 + 6755399441055744.0
    rest = (n - (half - 6755399441055744.0)) + 6755399441055744.0
    return x * _pow2(half) * _pow2(rest)


def _exp(x: float) -> float:
    """exp(x); 1 ULP, with gradual underflow."""
    n, p = _exp_split(x)
    y = _ldexp(1.0 + p, n)
    y = math.inf if x > 709.782712893384 else y
    return 0.0 if x < -745.1332191019412 else y


def _expm1(x: float) -> float:
    """exp(x) - 1; 2 ULP."""
    n, p = _exp_split(x)
    scale = _pow2((n - 1.0) + 6755399441055744.0)
    y = (p * scale + (scale - 0.5)) * 2.0
    y = math.inf if x > 709.782712893384 else y
    y = -1.0 if x < -40.0 else y
    return x if abs(x) < 1e-17 else y


def _exp2(x: float) -> float:
    """2**x; 1.4 ULP, with gradual underflow."""
    n = (x + 6755399441055744.0) - 6755399441055744.0
    r = x - n
    p0 = 0.6931471805599453 + r * 0.24022650695910097
    p2 = 0.0555041086648216 + r * 0.009618129107606715
    p4 = 0.0013333558146416842 + r * 0.0001540353044202707
    p6 = 1.525273382999124e-05 + r * 1.3215442410711872e-06
    p8 = 1.0178062351388103e-07 + r * 7.072621356539349e-09
    r2 = r * r
    p0 = p0 + r2 * p2
    p4 = p4 + r2 * p6
    p8 = p8 + r2 * 4.4549794711760616e-10
    r4 = r2 * r2
    p0 = p0 + r4 * p4
    r8 = r4 * r4
    p = p0 + r8 * p8
    y = _ldexp(1.0 + r * p, n)
    y = math.inf if x >= 1024.0 else y
    return 0.0 if x < -1076.0 else y


def _exp_split_f32(x: np.float32) -> tuple[np.float32, np.float32]:
    """n and p with exp(x) = 2**n (1 + p) and |p| <= 0.42."""
    shifted = x * np.float32(1.442695) + np.float32(1.2582912e07)
    n = shifted - np.float32(1.2582912e07)
    r = x - n * np.float32(0.69317627)
    r = r + n * np.float32(2.9088971e-05)
    q0 = np.float32(0.5) + r * np.float32(0.16666576)
    q2 = np.float32(0.041666552) + r * np.float32(0.008363233)
    r2 = r * r
    q0 = q0 + r2 * q2
    r4 = r2 * r2
    q = q0 + r4 * np.float32(0.001392625)
    return n, r + r * r * q


def _ldexp_f32(x: np.float32, n: np.float32) -> np.float32:
    """x * 2**n for an integer n, in two steps: results may be denormal or infinite."""
    half = n * np.float32(0.5) + np.float32(1.2582912e07)
    rest = (n - (half - np.float32(1.2582912e07))) + np.float32(1.2582912e07)
    return x * _pow2_f32(half) * _pow2_f32(rest)


def _exp_f32(x: np.float32) -> np.float32:
    """exp(x); 1 ULP, with gradual underflow."""
    n, p = _exp_split_f32(x)
    y = _ldexp_f32(np.float32(1.0) + p, n)
    y = np.float32(math.inf) if x > np.float32(88.72284) else y
    return np.float32(0.0) if x < np.float32(-103.972084) else y


def _expm1_f32(x: np.float32) -> np.float32:
    """exp(x) - 1; 2 ULP."""
    n, p = _exp_split_f32(x)
    scale = _pow2_f32((n - np.float32(1.0)) + np.float32(1.2582912e07))
    y = (p * scale + (scale - np.float32(0.5))) * np.float32(2.0)
    y = np.float32(math.inf) if x > np.float32(88.72284) else y
    y = np.float32(-1.0) if x < np.float32(-20.0) else y
    return x if abs(x) < np.float32(1e-08) else y


def _exp2_f32(x: np.float32) -> np.float32:
    """2**x; 1.1 ULP, with gradual underflow."""
    n = (x + np.float32(1.2582912e07)) - np.float32(1.2582912e07)
    r = x - n
    p0 = np.float32(0.6931472) + r * np.float32(0.2402265)
    p2 = np.float32(0.05550357) + r * np.float32(0.009618082)
    p4 = np.float32(0.0013390979) + r * np.float32(0.00015453262)
    r2 = r * r
    p0 = p0 + r2 * p2
    r4 = r2 * r2
    p = p0 + r4 * p4
    y = _ldexp_f32(np.float32(1.0) + r * p, n)
    y = np.float32(math.inf) if x >= np.float32(128.0) else y
    return np.float32(0.0) if x < np.float32(-151.0) else y


def _log_split(x: float) -> tuple[float, float]:
    """e and f with x = 2**e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); x normal, positive."""
    bits = np.float64(x).view(np.int64) + np.int64(2638147582215219)
    # The exponent's bits under those of 2**52 are a float: no conversion, which AVX2 lacks.
    biased = ((bits >> np.int64(52)) & np.int64(2047)) | np.int64(4841369599423283200)
    e = np.int64(biased).view(np.float64) - 4503599627371519.0
    mantissa = (bits & np.int64(4503599627370495)) + np.int64(4604544271217802189)
    return e, np.int64(mantissa).view(np.float64) - 1.0


def _log_split_f32(x: np.float32) -> tuple[np.float32, np.float32]:
    """e and f with x = 2**e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); x normal, positive."""
    bits = np.int32(np.float32(x).view(np.int32) + np.int32(4913933))
    e = np.float32(np.int32(np.int32(bits >> np.int32(23)) - np.int32(127)))
    fraction = np.int32(bits & np.int32(8388607))
    mantissa = np.int32(fraction + np.int32(1060439283))
    return e, np.int32(mantissa).view(np.float32) - np.float32(1.0)


def _log_normal(x: float) -> tuple[float, float]:
    """As _log_split, for any positive x."""
    small = x < 2.2250738585072014e-308
    e, f = _log_split(x * 1.8014398509481984e16 if small else x)
    return (e - 54.0 if small else e), f


def _log_series(f: float) -> float:
    """log(1 + f) - f + f**2 / 2, by s = f / (2 + f): log(1 + f) = 2 atanh(s)."""
    s = f / (2.0 + f)
    z = s * s
    p0 = 0.666666666666667 + z * 0.3999999999989938
    p2 = 0.28571428626031065 + z * 0.2222221112572281
    p4 = 0.18182889786191042 + z * 0.15331699633543858
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * 0.14616721179861816
    z4 = z2 * z2
    p = p0 + z4 * p4
    return s * (0.5 * f * f + z * p)


def _log_sum(e: float, f: float, c: float) -> float:
    """e log 2 + log(1 + f) + c for a small c."""
    low = _log_series(f) + (e * -4.2009150726810846e-11 + c)
    return e * 0.6931471806019545 + (f - (0.5 * f * f - low))


def _log_ends(y: float, x: float) -> float:
    """y, a logarithm of x, put right where x is 0, negative, infinite or NaN."""
    y = x if x == math.inf else y
    y = -math.inf if x == 0.0 else y
    return y if x >= 0.0 else math.nan


def _log(x: float) -> float:
    """Natural logarithm; 1 ULP."""
    e, f = _log_normal(x)
    return _log_ends(_log_sum(e, f, 0.0), x)


def _log1p(x: float) -> float:
    """log(1 + x); 1 ULP."""
    u = 1.0 + x
    e, f = _log_split(u)
    c = 1.0 - (u - x) if e > 1.0 else x - (u - 1.0)
    c = 0.0 if e == 0.0 or e > 54.0 else c / u
    y = _log_sum(e, x if e == 0.0 else f, c)
    y = _log_ends(y, u)
    return x if abs(x) < 1e-17 else y


def _log_halves(f: float) -> tuple[float, float]:
    """log(1 + f) as a head and a tail."""
    half = 0.5 * f * f
    head = _head(f - half)
    return head, ((f - head) - half) + _log_series(f)


def _log2(x: float) -> float:
    """Logarithm to base 2; 1 ULP, exact for powers of 2."""
    e, f = _log_normal(x)
    head, tail = _log_halves(f)
    product = head * 1.4426950514316559
    y = e + product
    low = (head + tail) * -1.0542692476429138e-08
    low = (low + tail * 1.4426950514316559) + ((e - y) + product)
    return _log_ends(y + low, x)


def _log10(x: float) -> float:
    """Logarithm to base 10; 1 ULP."""
    e, f = _log_normal(x)
    head, tail = _log_halves(f)
    product = head * 0.4342944845557213
    whole = e * 0.3010299956658855
    y = whole + product
    low = (head + tail) * -2.6524694553078553e-09
    low = low + tail * 0.4342944845557213
    low = low + e * -1.9043128467164274e-12
    return _log_ends(y + (low + ((whole - y) + product)), x)


def _tanh(x: float) -> float:
    """Hyperbolic tangent; 2.4 ULP."""
    a = abs(x)
    a = min(a, 22.0)
    n, p = _exp_split(a + a)
    scale = _pow2(n + 6755399441055744.0)
    e = p * scale + (scale - 1.0)
    return float(np.copysign(e / (e + 2.0), x))


def _sinh(x: float) -> float:
    """Hyperbolic sine; 2.3 ULP."""
    a = abs(x)
    n, p = _exp_split(a)
    scale = _pow2((n - 2.0) + 6755399441055744.0)
    v = p * scale + (scale - 0.25)
    y = (v + v / (4.0 * v + 1.0)) * 2.0
    y = math.inf if a > 710.4758600739439 else y
    y = a if a < 1e-09 else y
    return float(np.copysign(y, x))


def _cosh(x: float) -> float:
    """Hyperbolic cosine; 2 ULP."""
    a = abs(x)
    n, p = _exp_split(a)
    scale = _pow2((n - 2.0) + 6755399441055744.0)
    v = scale + scale * p
    y = (v + 0.0625 / v) * 2.0
    return math.inf if a > 710.4758600739439 else y


def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)); 2 ULP on both sides."""
    e = _exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


def _log_normal_f32(x: np.float32) -> tuple[np.float32, np.float32]:
    """As _log_split, for any positive x."""
    small = x < np.float32(1.1754944e-38)
    e, f = _log_split_f32(x * np.float32(1.6777216e07) if small else x)
    return (e - np.float32(24.0) if small else e), f


def _log_series_f32(f: np.float32) -> np.float32:
    """log(1 + f) - f + f**2 / 2, by s = f / (2 + f): log(1 + f) = 2 atanh(s)."""
    s = f / (np.float32(2.0) + f)
    z = s * s
    p0 = np.float32(0.6666667) + z * np.float32(0.40000123)
    p2 = np.float32(0.28550813) + z * np.float32(0.23330697)
    z2 = z * z
    p = p0 + z2 * p2
    return s * (np.float32(0.5) * f * f + z * p)


def _log_sum_f32(e: np.float32, f: np.float32, c: np.float32) -> np.float32:
    """e log 2 + log(1 + f) + c for a small c."""
    low = _log_series_f32(f) + (e * np.float32(-2.9088971e-05) + c)
    return e * np.float32(0.69317627) + (f - (np.float32(0.5) * f * f - low))


def _log_ends_f32(y: np.float32, x: np.float32) -> np.float32:
    """y, a logarithm of x, put right where x is 0, negative, infinite or NaN."""
    y = x if x == np.float32(math.inf) else y
    y = np.float32(-math.inf) if x == np.float32(0.0) else y
    return y if x >= np.float32(0.0) else np.float32(math.nan)


def _log_f32(x: np.float32) -> np.float32:
    """Natural logarithm; 1 ULP."""
    e, f = _log_normal_f32(x)
    return _log_ends_f32(_log_sum_f32(e, f, np.float32(0.0)), x)


def _log1p_f32(x: np.float32) -> np.float32:
    """log(1 + x); 1 ULP."""
    u = np.float32(1.0) + x
    e, f = _log_split_f32(u)
    c = np.float32(1.0) - (u - x) if e > np.float32(1.0) else x - (u - np.float32(1.0))
    c = np.float32(0.0) if e == np.float32(0.0) or e > np.float32(25.0) else c / u
    y = _log_sum_f32(e, x if e == np.float32(0.0) else f, c)
    y = _log_ends_f32(y, u)
    return x if abs(x) < np.float32(1e-08) else y


def _log_halves_f32(f: np.float32) -> tuple[np.float32, np.float32]:
    """log(1 + f) as a head and a tail."""
    half = np.float32(0.5) * f * f
    head = _head_f32(f - half)
    return head, ((f - head) - half) + _log_series_f32(f)


def _log2_f32(x: np.float32) -> np.float32:
    """Logarithm to base 2; 1 ULP, exact for powers of 2."""
    e, f = _log_normal_f32(x)
    head, tail = _log_halves_f32(f)
    product = head * np.float32(1.4428711)
    y = e + product
    low = (head + tail) * np.float32(-0.00017605285)
    low = (low + tail * np.float32(1.4428711)) + ((e - y) + product)
    return _log_ends_f32(y + low, x)


def _log10_f32(x: np.float32) -> np.float32:
    """Logarithm to base 10; 1 ULP."""
    e, f = _log_normal_f32(x)
    head, tail = _log_halves_f32(f)
    product = head * np.float32(0.43432617)
    whole = e * np.float32(0.3010254)
    y = whole + product
    low = (head + tail) * np.float32(-3.168997e-05)
    low = low + tail * np.float32(0.43432617)
    low = low + e * np.float32(4.605039e-06)
    return _log_ends_f32(y + (low + ((whole - y) + product)), x)


def _tanh_f32(x: np.float32) -> np.float32:
    """Hyperbolic tangent; 2.4 ULP."""
    a = abs(x)
    a = min(a, np.float32(10.0))
    n, p = _exp_split_f32(a + a)
    scale = _pow2_f32(n + np.float32(1.2582912e07))
    e = p * scale + (scale - np.float32(1.0))
    return np.float32(np.copysign(e / (e + np.float32(2.0)), x))


def _sinh_f32(x: np.float32) -> np.float32:
    """Hyperbolic sine; 2 ULP."""
    a = abs(x)
    n, p = _exp_split_f32(a)
    scale = _pow2_f32((n - np.float32(2.0)) + np.float32(1.2582912e07))
    v = p * scale + (scale - np.float32(0.25))
    y = (v + v / (np.float32(4.0) * v + np.float32(1.0))) * np.float32(2.0)
    y = np.float32(math.inf) if a > np.float32(89.41599) else y
    y = a if a < np.float32(1e-05) else y
    return np.float32(np.copysign(y, x))


def _cosh_f32(x: np.float32) -> np.float32:
    """Hyperbolic cosine; 2 ULP."""
    a = abs(x)
    n, p = _exp_split_f32(a)
    scale = _pow2_f32((n - np.float32(2.0)) + np.float32(1.2582912e07))
    v = scale + scale * p
    y = (v + np.float32(0.0625) / v) * np.float32(2.0)
    return np.float32(math.inf) if a > np.float32(89.41599) else y


def _sigmoid_f32(x: np.float32) -> np.float32:
    """1 / (1 + exp(-x)); 2 ULP on both sides."""
    e = _exp_f32(-abs(x))
    return (np.float32(1.0) if x >= np.float32(0.0) else e) / (np.float32(1.0) + e)


def _sin_series(r: float) -> float:
    """sin(r) for |r| <= 0.79."""
    z = r * r
    p0 = -0.16666666666666666 + z * 0.008333333333333331
    p2 = -0.00019841269841265017 + z * 2.755731921930192e-06
    p4 = -2.5052106219521895e-08 + z * 1.6058529572267877e-10
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * -7.586576588171073e-13
    z4 = z2 * z2
    p = p0 + z4 * p4
    # The sign is copied for the sake of -0.
    return float(np.copysign(r + r * (z * p), r))


def _cos_series(r: float) -> float:
    """cos(r) for |r| <= 0.79."""
    z = r * r
    p0 = 0.041666666666666664 + z * -0.0013888888888887382
    p2 = 2.480158729874307e-05 + z * -2.7557317260008837e-07
    p4 = 2.087614382799313e-09 + z * -1.1382456778061164e-11
    z2 = z * z
    p0 = p0 + z2 * p2
    z4 = z2 * z2
    p = p0 + z4 * p4
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + z * z * p)


def _sin_series_f32(r: np.float32) -> np.float32:
    """sin(r) for |r| <= 0.79."""
    z = r * r
    p0 = np.float32(-0.16666667) + z * np.float32(0.008333332)
    p2 = np.float32(-0.00019840083) + z * np.float32(2.7249314e-06)
    z2 = z * z
    p = p0 + z2 * p2
    # The sign is copied for the sake of -0.
    return np.float32(np.copysign(r + r * (z * p), r))


def _cos_series_f32(r: np.float32) -> np.float32:
    """cos(r) for |r| <= 0.79."""
    z = r * r
    p0 = np.float32(0.041666664) + z * np.float32(-0.00138883)
    z2 = z * z
    p = p0 + z2 * np.float32(2.4547437e-05)
    half = np.float32(0.5) * z
    w = np.float32(1.0) - half
    return w + (((np.float32(1.0) - w) - half) + z * z * p)


def _quadrant(x: float) -> tuple[float, np.int64]:
    """r and n with x = n pi / 2 + r and |r| <= 0.79, for |x| <= 1e6."""
    shifted = x * 0.6366197723675814 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = x - n * 1.5707963267341256
    r = r - n * 6.077100506303966e-11
    r = r - n * 2.0222662487959506e-21
    return r, np.float64(shifted).view(np.int64)


def _negate_if(y: float, bit: np.int64) -> float:
    """-y if bit is 2, y if it is 0."""
    bits = np.float64(y).view(np.int64) ^ (bit << np.int64(62))
    result: float = np.int64(bits).view(np.float64)
    return result


def _quadrant_f32(x: np.float32) -> tuple[np.float32, np.int32]:
    """As _quadrant; the reduction is in float64."""
    wide = np.float64(x)
    shifted = wide * 0.6366197723675814 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = np.float32((wide - n * 1.5707963267341256) - n * 6.077100506506192e-11)
    return r, np.int32(np.float64(shifted).view(np.int64))


def _quadrant_far_f32(x: np.float32) -> tuple[np.float32, np.int32]:
    """As _quadrant_f32, for any x: a product by 2 / pi without its multiples of 4."""
    wide = np.float64(x)
    a = abs(wide)
    # 2 / pi in pieces of 29 bits, from the first that matters: first + second + third.
    over54 = a >= 1.8014398509481984e16
    over83 = a >= 9.671406556917033e24
    over112 = a >= 5.192296858534828e33
    first = 1.4681663246252086e-09 if over54 else 0.636619770899415
    first = 2.2760100671971816e-18 if over83 else first
    first = 5.8812147387730434e-27 if over112 else first
    second = 2.2760100671971816e-18 if over54 else 1.4681663246252086e-09
    second = 5.8812147387730434e-27 if over83 else second
    second = 1.0346868700836215e-35 if over112 else second
    third = 5.881214749119912e-27 if over54 else 2.276010073078396e-18
    third = 1.0346868704619472e-35 if over83 else third
    third = 3.7832563882960676e-45 if over112 else third
    u = wide * first
    u = u - 4.0 * np.rint(0.25 * u)
    v = wide * second
    v = v - 4.0 * np.rint(0.25 * v)
    shifted = (u + v) + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = 1.5707963267948966 * (((u - n) + v) + wide * third)
    r = wide if a < 0.5 else r  # and so -0 stays -0
    return np.float32(r), np.int32(np.float64(shifted).view(np.int64))


def _negate_if_f32(y: np.float32, bit: np.int32) -> np.float32:
    """-y if bit is 2, y if it is 0."""
    flip = np.int32(bit << np.int32(30))
    bits = np.int32(np.float32(y).view(np.int32) ^ flip)
    result: np.float32 = np.int32(bits).view(np.float32)
    return result


def _sin_of(r: float, n: np.int64) -> float:
    """sin(n pi / 2 + r)."""
    odd = (n & np.int64(1)) != 0
    y = _cos_series(r) if odd else _sin_series(r)
    return _negate_if(y, np.int64(n & np.int64(2)))


def _cos_of(r: float, n: np.int64) -> float:
    """cos(n pi / 2 + r)."""
    odd = (n & np.int64(1)) != 0
    y = _sin_series(r) if odd else _cos_series(r)
    return _negate_if(y, np.int64((n + np.int64(1)) & np.int64(2)))


def _tan_of(r: float, n: np.int64) -> float:
    """tan(n pi / 2 + r)."""
    odd = (n & np.int64(1)) != 0
    s = _sin_series(r)
    c = _cos_series(r)
    return (-c if odd else s) / (s if odd else c)


def _sin_near(x: float) -> float:
    """sin(x) for |x| <= 1e6 only; 2 ULP. Vectorises, as _sin does not."""
    r, n = _quadrant(x)
    return _sin_of(r, n)


def _cos_near(x: float) -> float:
    """cos(x) for |x| <= 1e6 only; 2 ULP. Vectorises, as _cos does not."""
    r, n = _quadrant(x)
    return _cos_of(r, n)


def _tan_near(x: float) -> float:
    """tan(x) for |x| <= 1e6 only; 3 ULP. Vectorises, as _tan does not."""
    r, n = _quadrant(x)
    return _tan_of(r, n)


def _sin_of_f32(r: np.float32, n: np.int32) -> np.float32:
    """sin(n pi / 2 + r)."""
    odd = (n & np.int32(1)) != 0
    y = _cos_series_f32(r) if odd else _sin_series_f32(r)
    return _negate_if_f32(y, np.int32(n & np.int32(2)))


def _cos_of_f32(r: np.float32, n: np.int32) -> np.float32:
    """cos(n pi / 2 + r)."""
    odd = (n & np.int32(1)) != 0
    y = _sin_series_f32(r) if odd else _cos_series_f32(r)
    return _negate_if_f32(y, np.int32((n + np.int32(1)) & np.int32(2)))


def _tan_of_f32(r: np.float32, n: np.int32) -> np.float32:
    """tan(n pi / 2 + r)."""
    odd = (n & np.int32(1)) != 0
    s = _sin_series_f32(r)
    c = _cos_series_f32(r)
    return (-c if odd else s) / (s if odd else c)


def _sin_near_f32(x: np.float32) -> np.float32:
    """sin(x) for |x| <= 1e6 only; 2 ULP. Faster than _sin_f32."""
    r, n = _quadrant_f32(x)
    return _sin_of_f32(r, n)


def _cos_near_f32(x: np.float32) -> np.float32:
    """cos(x) for |x| <= 1e6 only; 2 ULP. Faster than _cos_f32."""
    r, n = _quadrant_f32(x)
    return _cos_of_f32(r, n)


def _tan_near_f32(x: np.float32) -> np.float32:
    """tan(x) for |x| <= 1e6 only; 3 ULP. Faster than _tan_f32."""
    r, n = _quadrant_f32(x)
    return _tan_of_f32(r, n)


def _sin(x: float) -> float:
    """sin(x); 2 ULP. The branch keeps loops scalar: see _sin_near."""
    return _sin_near(x) if abs(x) <= 1e6 else float(np.sin(x))


def _cos(x: float) -> float:
    """cos(x); 2 ULP. The branch keeps loops scalar: see _cos_near."""
    return _cos_near(x) if abs(x) <= 1e6 else float(np.cos(x))


def _tan(x: float) -> float:
    """tan(x); 3 ULP. The branch keeps loops scalar: see _tan_near."""
    return _tan_near(x) if abs(x) <= 1e6 else float(np.tan(x))


def _sin_f32(x: np.float32) -> np.float32:
    """sin(x); 2 ULP."""
    r, n = _quadrant_far_f32(x)
    return _sin_of_f32(r, n)


def _cos_f32(x: np.float32) -> np.float32:
    """cos(x); 2 ULP."""
    r, n = _quadrant_far_f32(x)
    return _cos_of_f32(r, n)


def _tan_f32(x: np.float32) -> np.float32:
    """tan(x); 3 ULP."""
    r, n = _quadrant_far_f32(x)
    return _tan_of_f32(r, n)


def _arcsin_series(s: float, z: float) -> float:
    """arcsin(s) for s * s = z <= 1/4."""
    p0 = 0.16666666666666669 + z * 0.07499999999998425
    p2 = 0.04464285714637338 + z * 0.030381944137085216
    p4 = 0.022372173002005596 + z * 0.017352391265909227
    p6 = 0.013971235301124539 + z * 0.011478952690257387
    p8 = 0.010324318288744113 + z * 0.00545087818772055
    p10 = 0.017419357964884856 + z * -0.014881409392818064
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * p6
    p8 = p8 + z2 * p10
    z4 = z2 * z2
    p0 = p0 + z4 * p4
    p8 = p8 + z4 * 0.02877844261259304
    z8 = z4 * z4
    p = p0 + z8 * p8
    return s + s * (z * p)


def _arcsin(x: float) -> float:
    """Arc sine; 2.3 ULP."""
    a = abs(x)
    outer = a > 0.5
    z = (1.0 - a) * 0.5 if outer else a * a
    y = _arcsin_series(float(np.sqrt(z)) if outer else a, z)
    folded = 1.5707963267948966 - (2.0 * y - 6.123233995736766e-17)
    return float(np.copysign(folded if outer else y, x))


def _arccos(x: float) -> float:
    """Arc cosine; 2 ULP."""
    a = abs(x)
    outer = a > 0.5
    z = (1.0 - a) * 0.5 if outer else a * a
    y = _arcsin_series(float(np.sqrt(z)) if outer else x, z)
    low = 6.123233995736766e-17
    inner = 1.5707963267948966 - (y - low)
    y = 2.0 * y
    folded = y if x > 0.0 else 3.141592653589793 - (y - 2.0 * low)
    return folded if outer else inner


def _arctan_series(t: float) -> float:
    """arctan(t) for |t| <= tan(pi / 8)."""
    z = t * t
    p0 = -0.3333333333333333 + z * 0.1999999999999548
    p2 = -0.14285714284657894 + z * 0.11111111014561013
    p4 = -0.09090904549884611 + z * 0.07692182535116648
    p6 = -0.06664502215671447 + z * 0.058580687568615106
    p8 = -0.05085030492810941 + z * 0.03921955253255129
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * p6
    p8 = p8 + z2 * -0.019162068915902573
    z4 = z2 * z2
    p0 = p0 + z4 * p4
    z8 = z4 * z4
    p = p0 + z8 * p8
    return t + t * (z * p)


def _arctan(x: float) -> float:
    """Arc tangent; 2 ULP."""
    a = abs(x)
    far = a > 2.414213562373095
    mid = a > 0.41421356237309503
    top = -1.0 if far else (a - 1.0 if mid else a)
    bottom = a if far else (a + 1.0 if mid else 1.0)
    low = 6.123233995736766e-17
    low = low if far else (low * 0.5 if mid else 0.0)
    base = 1.5707963267948966 if far else (0.7853981633974483 if mid else 0.0)
    y = base + (_arctan_series(top / bottom) + low)
    return float(np.copysign(y, x))


def _arctan2(y: float, x: float) -> float:
    """Angle of the point (x, y); 2 ULP. Zeros and infinities as in C."""
    a = abs(x)
    b = abs(y)
    steep = b > a
    big = b if steep else a
    small = a if steep else b
    shrink = 0.25 if big > 1e300 else 1.0
    u = big * shrink
    v = small * shrink
    mid = v > u * 0.41421356237309503 or small == math.inf
    t = (v - u if mid else v) / (v + u if mid else u)
    t = 0.0 if big == 0.0 or small == math.inf else t
    # The angle is k pi / 4 + arctan(t) or k pi / 4 - arctan(t).
    k = 1.0 if mid else 0.0
    k = 2.0 - k if steep else k
    t = -t if steep else t
    left = float(np.copysign(1.0, x)) < 0.0
    k = 4.0 - k if left else k
    t = -t if left else t
    low = _arctan_series(t) + k * 3.061616997868383e-17
    angle = float(np.copysign(k * 0.7853981633974483 + low, y))
    return x + y if math.isnan(x) or math.isnan(y) else angle


def _arcsinh(x: float) -> float:
    """Inverse hyperbolic sine; 2 ULP."""
    a = abs(x)
    huge = a > 1000000000.0
    z = a * a
    u = a + z / (1.0 + float(np.sqrt(z + 1.0)))
    y = _log1p(a - 1.0 if huge else u)
    return float(np.copysign(y + 0.6931471805599453 if huge else y, x))


def _arccosh(x: float) -> float:
    """Inverse hyperbolic cosine; 2 ULP."""
    huge = x > 1000000000.0
    t = x - 1.0
    u = t + float(np.sqrt(t * (t + 2.0)))
    y = _log1p(t if huge else u)
    y = y + 0.6931471805599453 if huge else y
    return y if x >= 1.0 else math.nan


def _arctanh(x: float) -> float:
    """Inverse hyperbolic tangent; 2 ULP."""
    a = abs(x)
    y = 0.5 * _log1p((a + a) / (1.0 - a))
    return float(np.copysign(y, x))


def _cbrt(x: float) -> float:
    """Cube root; 1 ULP."""
    a = abs(x)
    e, f = _log_normal(a)
    third = (e * 0.3333333333333333 + 6755399441055744.0) - 6755399441055744.0
    rest = e - 3.0 * third
    m = 1.0 + f
    y0 = 0.4229171802202065 + m * 1.0496883299065929
    y2 = -0.8232547933596233 + m * 0.4982099055485295
    y4 = -0.17331283671635225 + m * 0.02575148578044183
    m2 = m * m
    y0 = y0 + m2 * y2
    m4 = m2 * m2
    y = y0 + m4 * y4
    # Of the exponent, -1, 0 or 1 stays with the mantissa.
    y = y * (
        1.2599210498948732
        if rest > 0.0
        else (0.7937005259840998 if rest < 0.0 else 1.0)
    )
    m = m * (2.0 if rest > 0.0 else (0.5 if rest < 0.0 else 1.0))
    slope = 0.3333333333333333 / (y * y)
    y = y - (y * y * y - m) * slope
    y = y - (y * y * y - m) * slope
    y = y * _pow2(third + 6755399441055744.0)
    return float(np.copysign(y, x)) if a > 0.0 and a < math.inf else x


def _erf_series(x: float) -> float:
    """erf(x) for |x| <= 1/2."""
    z = x * x
    p0 = 0.12837916709551256 + z * -0.3761263890318347
    p2 = 0.11283791670925271 + z * -0.026866170632859
    p4 = 0.0052239773725259965 + z * -0.0008548297707906897
    p6 = 0.00012053332795966865 + z * -1.4845787890421724e-05
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * p6
    z4 = z2 * z2
    p0 = p0 + z4 * p4
    z8 = z4 * z4
    p = p0 + z8 * 1.472521125226674e-06
    return x + x * p


def _erfc_scaled(a: float) -> float:
    """exp(a**2) erfc(a) for 0.49 <= a <= 28."""
    t = (a - 3.75) / (a + 3.75)
    p0 = -0.14024059858554674 + t * 0.0035854154854638117
    p2 = 0.08227673849011781 + t * -0.10880393014174103
    p4 = 0.09230432116143324 + t * -0.05869339858907506
    p6 = 0.028362277400420282 + t * -0.009746579574659808
    p8 = 0.0017556260309727592 + t * 0.0002937138597982686
    p10 = -0.00029015510634924804 + t * 5.1647864268337116e-05
    p12 = 2.2387942279838108e-05 + t * -1.1439428608792487e-05
    p14 = -9.820279297284889e-07 + t * 1.740461742894323e-06
    p16 = -4.523221677814912e-08 + t * -2.4248310304262076e-07
    p18 = 1.3516829631853066e-08 + t * 2.531654093188446e-08
    t2 = t * t
    p0 = p0 + t2 * p2
    p4 = p4 + t2 * p6
    p8 = p8 + t2 * p10
    p12 = p12 + t2 * p14
    p16 = p16 + t2 * p18
    t4 = t2 * t2
    p0 = p0 + t4 * p4
    p8 = p8 + t4 * p12
    t8 = t4 * t4
    p0 = p0 + t8 * p8
    t16 = t8 * t8
    p = p0 + t16 * p16
    p = 1.2375126308378275 + t * p
    return p / (1.0 + (a + a))


def _exp_times(high: float, low: float, factor: float) -> float:
    """exp(high + low) * factor for a tiny low and no overflow."""
    shifted = (high + low) * 1.4426950408889634 + 6755399441055744.0
    n = shifted - 6755399441055744.0
    r = high - n * 0.6931471806019545
    r = (r + n * 4.2009150726810846e-11) + low
    q0 = 0.5 + r * 0.1666666666666667
    q2 = 0.04166666666666667 + r * 0.008333333333326084
    q4 = 0.0013888888888883711 + r * 0.0001984126987500228
    q6 = 2.480158732567746e-05 + r * 2.755725517000089e-06
    q8 = 2.755727347871858e-07 + r * 2.5105312729622103e-08
    r2 = r * r
    q0 = q0 + r2 * q2
    q4 = q4 + r2 * q6
    q8 = q8 + r2 * 2.09147553258932e-09
    r4 = r2 * r2
    q0 = q0 + r4 * q4
    r8 = r4 * r4
    q = q0 + r8 * q8
    return _ldexp(factor + (r + r * r * q) * factor, n)


def _erf(x: float) -> float:
    """Error function; 2 ULP."""
    a = abs(x)
    a = min(a, 6.5)
    n, p = _exp_split(-(a * a))
    tail = (1.0 + p) * _pow2(n + 6755399441055744.0) * _erfc_scaled(a)
    y = 1.0 - tail if a > 0.5 else _erf_series(a)
    return float(np.copysign(y, x))


def _erfc(x: float) -> float:
    """1 - erf(x); 3 ULP, tail included."""
    a = abs(x)
    a = min(a, 27.5)
    head = _head(a)
    high = -(head * head)
    low = (head - a) * (head + a)
    tail = _exp_times(high, low, _erfc_scaled(a))
    tail = tail if x > 0.0 else 2.0 - tail
    return tail if a > 0.5 else 1.0 - _erf_series(x)


def _ndtr(x: float) -> float:
    """Standard normal distribution function; 4 ULP, tail included."""
    a = abs(x)
    a = min(a, 38.8)
    head = _head(a)
    high = -0.5 * head * head
    low = (0.5 * head - 0.5 * a) * (head + a)
    u = a * 0.7071067811865476
    tail = _exp_times(high, low, 0.5 * _erfc_scaled(u))
    tail = 1.0 - tail if x > 0.0 else tail
    middle = 0.5 + 0.5 * _erf_series(x * 0.7071067811865476)
    return tail if u > 0.5 else middle


def _hypot(x: float, y: float) -> float:
    """sqrt(x**2 + y**2) without overflow; 1 ULP."""
    a = abs(x)
    b = abs(y)
    big = max(b, a)
    up = big < 3.8725919148493183e-121
    down = big > 2.5822498780869086e120
    scale = 4.149515568880993e180 if up else (2.409919865102884e-181 if down else 1.0)
    back = 2.409919865102884e-181 if up else (4.149515568880993e180 if down else 1.0)
    u = a * scale
    v = b * scale
    root = float(np.sqrt(u * u + v * v)) * back
    return math.inf if a == math.inf or b == math.inf else root


def _logaddexp(x: float, y: float) -> float:
    """log(exp(x) + exp(y)); 2 ULP of the larger of x, y and the result."""
    big = max(y, x)
    z = big + _log1p(_exp(-abs(x - y)))
    return x + 0.6931471805599453 if x == y else z


def _xlogy(x: float, y: float) -> float:
    """x log(y), which is 0 for x = 0."""
    return 0.0 if x == 0.0 and not math.isnan(y) else x * _log(y)


def _xlog1py(x: float, y: float) -> float:
    """x log(1 + y), which is 0 for x = 0."""
    return 0.0 if x == 0.0 and not math.isnan(y) else x * _log1p(y)


def _log2_halves(x: float) -> tuple[float, float]:
    """log2(x) of a positive x as a head and a tail, good to 65 bits."""
    e, f = _log_normal(x)
    # s = f / (2 + f) = head + tail
    m = 1.0 + f
    u = 2.0 + f
    u_head = _head(u)
    u_tail = m - (u_head - 1.0)
    inverse = 1.0 / u
    s_head = _head(f * inverse)
    s_tail = inverse * ((f - s_head * u_head) - s_head * u_tail)
    s = s_head + s_tail
    # 3 atanh(s) / s = 3 + z + z**2 (3/5 + ...), z = s**2
    z_head = s_head * s_head
    z_tail = s_tail * (s_head + s)
    z = z_head + z_tail
    p0 = 0.6000000000000004 + z * 0.42857142857007674
    p2 = 0.3333333340669086 + z * 0.27272712365220025
    p4 = 0.23078362638836147 + z * 0.1992892139162238
    z2 = z * z
    p0 = p0 + z2 * p2
    p4 = p4 + z2 * 0.19370608936695047
    z4 = z2 * z2
    p = p0 + z4 * p4
    rest = z * z * p + z_tail
    t_head = _head(3.0 + z_head + rest)
    t_tail = rest - ((t_head - 3.0) - z_head)
    product = s_head * t_head
    low = s_tail * t_head + t_tail * s
    w_head = _head(product + low)
    w_tail = low - (w_head - product)
    # times 2 / (3 log 2)
    head = w_head * 0.9617967009544373
    tail = w_head * -7.028461650952758e-09
    tail = tail + w_tail * 0.9617966939259756
    y_head = _head(e + (head + tail))
    return y_head, tail - ((y_head - e) - head)


def _power(x: float, y: float) -> float:
    """x**y as C's pow; 0.8 ULP."""
    a = abs(x)
    l_head, l_tail = _log2_halves(a)
    limit = 1e300
    v = max(min(y, limit), -limit)
    v_head = _head(v)
    high = v_head * l_head
    low = (v - v_head) * l_head + v * l_tail
    n = ((high + low) + 6755399441055744.0) - 6755399441055744.0
    r = (high - n) + low
    q0 = 0.24022650695910075 + r * 0.05550410866482158
    q2 = 0.009618129107618587 + r * 0.0013333558146423172
    q4 = 0.00015403530424965467 + r * 1.5252733820896517e-05
    q6 = 1.3215451492282766e-06 + r * 1.0178067192323587e-07
    q8 = 7.071010049621724e-09 + r * 4.454120565395306e-10
    r2 = r * r
    q0 = q0 + r2 * q2
    q4 = q4 + r2 * q6
    r4 = r2 * r2
    q0 = q0 + r4 * q4
    r8 = r4 * r4
    q = q0 + r8 * q8
    # 2**r - 1 = r log 2 + r**2 q, its first part exact
    r_head = _head(high - n)
    r_tail = ((high - n) - r_head) + low
    first = r_head * 0.6931471824645996
    rest = r_head * -1.904654299957768e-09 + (r_tail * 0.6931471805599453 + r * r * q)
    lead = 1.0 + first
    power = _ldexp(lead + (((1.0 - lead) + first) + rest), n)
    power = math.inf if high + low >= 1025.0 else power
    power = 0.0 if high + low < -1080.0 else power
    grows = (a > 1.0) == (y > 0.0)
    ends = a == 0.0 or a == math.inf or abs(y) == math.inf
    power = (math.inf if grows else 0.0) if ends else power
    floor = float(np.floor(y))
    half = 0.5 * y
    odd = y == floor and half != float(np.floor(half))
    power = float(np.copysign(power, x)) if odd else power
    power = math.nan if x < 0.0 and a < math.inf and y != floor else power
    power = x + y if math.isnan(x) or math.isnan(y) else power
    power = 1.0 if a == 1.0 and (abs(y) == math.inf or x == 1.0) else power
    return 1.0 if y == 0.0 else power


def _arcsin_series_f32(s: np.float32, z: np.float32) -> np.float32:
    """arcsin(s) for s * s = z <= 1/4."""
    p0 = np.float32(0.16666666) + z * np.float32(0.07500095)
    p2 = np.float32(0.04459932) + z * np.float32(0.031101728)
    p4 = np.float32(0.017143717) + z * np.float32(0.033700727)
    z2 = z * z
    p0 = p0 + z2 * p2
    z4 = z2 * z2
    p = p0 + z4 * p4
    return s + s * (z * p)


def _arcsin_f32(x: np.float32) -> np.float32:
    """Arc sine; 2.3 ULP."""
    a = abs(x)
    outer = a > np.float32(0.5)
    z = (np.float32(1.0) - a) * np.float32(0.5) if outer else a * a
    y = _arcsin_series_f32(np.float32(np.sqrt(z)) if outer else a, z)
    folded = np.float32(1.5707964) - (np.float32(2.0) * y - np.float32(-4.371139e-08))
    return np.float32(np.copysign(folded if outer else y, x))


def _arccos_f32(x: np.float32) -> np.float32:
    """Arc cosine; 2 ULP."""
    a = abs(x)
    outer = a > np.float32(0.5)
    z = (np.float32(1.0) - a) * np.float32(0.5) if outer else a * a
    y = _arcsin_series_f32(np.float32(np.sqrt(z)) if outer else x, z)
    low = np.float32(-4.371139e-08)
    inner = np.float32(1.5707964) - (y - low)
    y = np.float32(2.0) * y
    folded = (
        y
        if x > np.float32(0.0)
        else np.float32(3.1415927) - (y - np.float32(2.0) * low)
    )
    return folded if outer else inner


def _arctan_series_f32(t: np.float32) -> np.float32:
    """arctan(t) for |t| <= tan(pi / 8)."""
    z = t * t
    p0 = np.float32(-0.3333333) + z * np.float32(0.19999538)
    p2 = np.float32(-0.14263897) + z * np.float32(0.107430995)
    z2 = z * z
    p0 = p0 + z2 * p2
    z4 = z2 * z2
    p = p0 + z4 * np.float32(-0.06449835)
    return t + t * (z * p)


def _arctan_f32(x: np.float32) -> np.float32:
    """Arc tangent; 2 ULP."""
    a = abs(x)
    far = a > np.float32(2.4142137)
    mid = a > np.float32(0.41421357)
    top = np.float32(-1.0) if far else (a - np.float32(1.0) if mid else a)
    bottom = a if far else (a + np.float32(1.0) if mid else np.float32(1.0))
    low = np.float32(-4.371139e-08)
    low = low if far else (low * np.float32(0.5) if mid else np.float32(0.0))
    base = (
        np.float32(1.5707964)
        if far
        else (np.float32(0.7853982) if mid else np.float32(0.0))
    )
    y = base + (_arctan_series_f32(top / bottom) + low)
    return np.float32(np.copysign(y, x))


def _arctan2_f32(y: np.float32, x: np.float32) -> np.float32:
    """Angle of the point (x, y); 2 ULP. Zeros and infinities as in C."""
    a = abs(x)
    b = abs(y)
    steep = b > a
    big = b if steep else a
    small = a if steep else b
    shrink = np.float32(0.25) if big > np.float32(1e37) else np.float32(1.0)
    u = big * shrink
    v = small * shrink
    mid = v > u * np.float32(0.41421357) or small == np.float32(math.inf)
    t = (v - u if mid else v) / (v + u if mid else u)
    t = (
        np.float32(0.0)
        if big == np.float32(0.0) or small == np.float32(math.inf)
        else t
    )
    # The angle is k pi / 4 + arctan(t) or k pi / 4 - arctan(t).
    k = np.float32(1.0) if mid else np.float32(0.0)
    k = np.float32(2.0) - k if steep else k
    t = -t if steep else t
    left = np.float32(np.copysign(np.float32(1.0), x)) < np.float32(0.0)
    k = np.float32(4.0) - k if left else k
    t = -t if left else t
    low = _arctan_series_f32(t) + k * np.float32(1.5695824e-07)
    angle = np.float32(np.copysign(k * np.float32(0.785398) + low, y))
    return x + y if math.isnan(x) or math.isnan(y) else angle


def _arcsinh_f32(x: np.float32) -> np.float32:
    """Inverse hyperbolic sine; 2 ULP."""
    a = abs(x)
    huge = a > np.float32(100000.0)
    z = a * a
    u = a + z / (np.float32(1.0) + np.float32(np.sqrt(z + np.float32(1.0))))
    y = _log1p_f32(a - np.float32(1.0) if huge else u)
    return np.float32(np.copysign(y + np.float32(0.6931472) if huge else y, x))


def _arccosh_f32(x: np.float32) -> np.float32:
    """Inverse hyperbolic cosine; 2 ULP."""
    huge = x > np.float32(100000.0)
    t = x - np.float32(1.0)
    u = t + np.float32(np.sqrt(t * (t + np.float32(2.0))))
    y = _log1p_f32(t if huge else u)
    y = y + np.float32(0.6931472) if huge else y
    return y if x >= np.float32(1.0) else np.float32(math.nan)


def _arctanh_f32(x: np.float32) -> np.float32:
    """Inverse hyperbolic tangent; 2 ULP."""
    a = abs(x)
    y = np.float32(0.5) * _log1p_f32((a + a) / (np.float32(1.0) - a))
    return np.float32(np.copysign(y, x))


def _cbrt_f32(x: np.float32) -> np.float32:
    """Cube root; 1 ULP."""
    a = abs(x)
    e, f = _log_normal_f32(a)
    third = (e * np.float32(0.33333334) + np.float32(1.2582912e07)) - np.float32(
        1.2582912e07
    )
    rest = e - np.float32(3.0) * third
    m = np.float32(1.0) + f
    y0 = np.float32(0.4947122) + m * np.float32(0.7328922)
    y2 = np.float32(-0.2835718) + m * np.float32(0.056028515)
    m2 = m * m
    y = y0 + m2 * y2
    # Of the exponent, -1, 0 or 1 stays with the mantissa.
    y = y * (
        np.float32(1.2599211)
        if rest > np.float32(0.0)
        else (np.float32(0.7937005) if rest < np.float32(0.0) else np.float32(1.0))
    )
    m = m * (
        np.float32(2.0)
        if rest > np.float32(0.0)
        else (np.float32(0.5) if rest < np.float32(0.0) else np.float32(1.0))
    )
    slope = np.float32(0.33333334) / (y * y)
    y = y - (y * y * y - m) * slope
    y = y - (y * y * y - m) * slope
    y = y * _pow2_f32(third + np.float32(1.2582912e07))
    return (
        np.float32(np.copysign(y, x))
        if a > np.float32(0.0) and a < np.float32(math.inf)
        else x
    )


def _erf_series_f32(x: np.float32) -> np.float32:
    """erf(x) for |x| <= 1/2."""
    z = x * x
    p0 = np.float32(0.12837917) + z * np.float32(-0.37612608)
    p2 = np.float32(0.1128283) + z * np.float32(-0.02675765)
    z2 = z * z
    p0 = p0 + z2 * p2
    z4 = z2 * z2
    p = p0 + z4 * np.float32(0.004718892)
    return x + x * p


def _erfc_scaled_f32(a: np.float32) -> np.float32:
    """exp(a**2) erfc(a) for 0.49 <= a <= 10.5."""
    t = (a - np.float32(2.5)) / (a + np.float32(2.5))
    p0 = np.float32(-0.12235676) + t * np.float32(-0.09902438)
    p2 = np.float32(0.15762983) + t * np.float32(-0.102970466)
    p4 = np.float32(0.0327595) + t * np.float32(0.00095748744)
    p6 = np.float32(-0.0043608877) + t * np.float32(0.00041273047)
    t2 = t * t
    p0 = p0 + t2 * p2
    p4 = p4 + t2 * p6
    t4 = t2 * t2
    p0 = p0 + t4 * p4
    t8 = t4 * t4
    p = p0 + t8 * np.float32(0.0005474145)
    p = np.float32(1.2648382) + t * p
    return p / (np.float32(1.0) + (a + a))


def _exp_times_f32(high: np.float32, low: np.float32, factor: np.float32) -> np.float32:
    """exp(high + low) * factor for a tiny low and no overflow."""
    shifted = (high + low) * np.float32(1.442695) + np.float32(1.2582912e07)
    n = shifted - np.float32(1.2582912e07)
    r = high - n * np.float32(0.69317627)
    r = (r + n * np.float32(2.9088971e-05)) + low
    q0 = np.float32(0.5) + r * np.float32(0.16666576)
    q2 = np.float32(0.041666552) + r * np.float32(0.008363233)
    r2 = r * r
    q0 = q0 + r2 * q2
    r4 = r2 * r2
    q = q0 + r4 * np.float32(0.001392625)
    return _ldexp_f32(factor + (r + r * r * q) * factor, n)


def _erf_f32(x: np.float32) -> np.float32:
    """Error function; 2.1 ULP."""
    a = abs(x)
    a = min(a, np.float32(4.5))
    n, p = _exp_split_f32(-(a * a))
    tail = (
        (np.float32(1.0) + p)
        * _pow2_f32(n + np.float32(1.2582912e07))
        * _erfc_scaled_f32(a)
    )
    y = np.float32(1.0) - tail if a > np.float32(0.5) else _erf_series_f32(a)
    return np.float32(np.copysign(y, x))


def _erfc_f32(x: np.float32) -> np.float32:
    """1 - erf(x); 3.2 ULP, tail included."""
    a = abs(x)
    a = min(a, np.float32(10.4))
    head = _head_f32(a)
    high = -(head * head)
    low = (head - a) * (head + a)
    tail = _exp_times_f32(high, low, _erfc_scaled_f32(a))
    tail = tail if x > np.float32(0.0) else np.float32(2.0) - tail
    return tail if a > np.float32(0.5) else np.float32(1.0) - _erf_series_f32(x)


def _ndtr_f32(x: np.float32) -> np.float32:
    """Standard normal distribution function; 4 ULP, tail included."""
    a = abs(x)
    a = min(a, np.float32(14.7))
    head = _head_f32(a)
    high = np.float32(-0.5) * head * head
    low = (np.float32(0.5) * head - np.float32(0.5) * a) * (head + a)
    u = a * np.float32(0.70710677)
    tail = _exp_times_f32(high, low, np.float32(0.5) * _erfc_scaled_f32(u))
    tail = np.float32(1.0) - tail if x > np.float32(0.0) else tail
    middle = np.float32(0.5) + np.float32(0.5) * _erf_series_f32(
        x * np.float32(0.70710677)
    )
    return tail if u > np.float32(0.5) else middle


def _hypot_f32(x: np.float32, y: np.float32) -> np.float32:
    """sqrt(x**2 + y**2) without overflow; 1 ULP."""
    a = abs(x)
    b = abs(y)
    big = max(b, a)
    up = big < np.float32(8.881784e-16)
    down = big > np.float32(1.1258999e15)
    scale = (
        np.float32(1.2089258e24)
        if up
        else (np.float32(8.271806e-25) if down else np.float32(1.0))
    )
    back = (
        np.float32(8.271806e-25)
        if up
        else (np.float32(1.2089258e24) if down else np.float32(1.0))
    )
    u = a * scale
    v = b * scale
    root = np.float32(np.sqrt(u * u + v * v)) * back
    return (
        np.float32(math.inf)
        if a == np.float32(math.inf) or b == np.float32(math.inf)
        else root
    )


def _logaddexp_f32(x: np.float32, y: np.float32) -> np.float32:
    """log(exp(x) + exp(y)); 2 ULP of the larger of x, y and the result."""
    big = max(y, x)
    z = big + _log1p_f32(_exp_f32(-abs(x - y)))
    return x + np.float32(0.6931472) if x == y else z


def _xlogy_f32(x: np.float32, y: np.float32) -> np.float32:
    """x log(y), which is 0 for x = 0."""
    return (
        np.float32(0.0)
        if x == np.float32(0.0) and not math.isnan(y)
        else x * _log_f32(y)
    )


def _xlog1py_f32(x: np.float32, y: np.float32) -> np.float32:
    """x log(1 + y), which is 0 for x = 0."""
    return (
        np.float32(0.0)
        if x == np.float32(0.0) and not math.isnan(y)
        else x * _log1p_f32(y)
    )


def _log2_halves_f32(x: np.float32) -> tuple[np.float32, np.float32]:
    """log2(x) of a positive x as a head and a tail, good to 35 bits."""
    e, f = _log_normal_f32(x)
    # s = f / (2 + f) = head + tail
    m = np.float32(1.0) + f
    u = np.float32(2.0) + f
    u_head = _head_f32(u)
    u_tail = m - (u_head - np.float32(1.0))
    inverse = np.float32(1.0) / u
    s_head = _head_f32(f * inverse)
    s_tail = inverse * ((f - s_head * u_head) - s_head * u_tail)
    s = s_head + s_tail
    # 3 atanh(s) / s = 3 + z + z**2 (3/5 + ...), z = s**2
    z_head = s_head * s_head
    z_tail = s_tail * (s_head + s)
    z = z_head + z_tail
    p0 = np.float32(0.6) + z * np.float32(0.42857298)
    p2 = np.float32(0.33307138) + z * np.float32(0.28680828)
    z2 = z * z
    p = p0 + z2 * p2
    rest = z * z * p + z_tail
    t_head = _head_f32(np.float32(3.0) + z_head + rest)
    t_tail = rest - ((t_head - np.float32(3.0)) - z_head)
    product = s_head * t_head
    low = s_tail * t_head + t_tail * s
    w_head = _head_f32(product + low)
    w_tail = low - (w_head - product)
    # times 2 / (3 log 2)
    head = w_head * np.float32(0.96191406)
    tail = w_head * np.float32(-0.000117368574)
    tail = tail + w_tail * np.float32(0.9617967)
    y_head = _head_f32(e + (head + tail))
    return y_head, tail - ((y_head - e) - head)


def _power_f32(x: np.float32, y: np.float32) -> np.float32:
    """x**y as C's pow; 0.8 ULP."""
    a = abs(x)
    l_head, l_tail = _log2_halves_f32(a)
    limit = np.float32(1e36)
    v = max(min(y, limit), -limit)
    v_head = _head_f32(v)
    high = v_head * l_head
    low = (v - v_head) * l_head + v * l_tail
    n = ((high + low) + np.float32(1.2582912e07)) - np.float32(1.2582912e07)
    r = (high - n) + low
    q0 = np.float32(0.2402265) + r * np.float32(0.055503808)
    q2 = np.float32(0.0096181035) + r * np.float32(0.0013381399)
    r2 = r * r
    q0 = q0 + r2 * q2
    r4 = r2 * r2
    q = q0 + r4 * np.float32(0.00015444966)
    # 2**r - 1 = r log 2 + r**2 q, its first part exact
    r_head = _head_f32(high - n)
    r_tail = ((high - n) - r_head) + low
    first = r_head * np.float32(0.69311523)
    rest = r_head * np.float32(3.1946183e-05) + (
        r_tail * np.float32(0.6931472) + r * r * q
    )
    lead = np.float32(1.0) + first
    power = _ldexp_f32(lead + (((np.float32(1.0) - lead) + first) + rest), n)
    power = np.float32(math.inf) if high + low >= np.float32(129.0) else power
    power = np.float32(0.0) if high + low < np.float32(-155.0) else power
    grows = (a > np.float32(1.0)) == (y > np.float32(0.0))
    ends = (
        a == np.float32(0.0)
        or a == np.float32(math.inf)
        or abs(y) == np.float32(math.inf)
    )
    power = (np.float32(math.inf) if grows else np.float32(0.0)) if ends else power
    floor = np.float32(np.floor(y))
    half = np.float32(0.5) * y
    odd = y == floor and half != np.float32(np.floor(half))
    power = np.float32(np.copysign(power, x)) if odd else power
    power = (
        np.float32(math.nan)
        if x < np.float32(0.0) and a < np.float32(math.inf) and y != floor
        else power
    )
    power = x + y if math.isnan(x) or math.isnan(y) else power
    power = (
        np.float32(1.0)
        if a == np.float32(1.0)
        and (abs(y) == np.float32(math.inf) or x == np.float32(1.0))
        else power
    )
    return np.float32(1.0) if y == np.float32(0.0) else power


def _max_key(x: float) -> np.int64:
    """An integer that orders as x does, NaN above all: max() of keys vectorises.

    NaN is treated before the order: after it, LLVM would move its choice out of max().
    """
    bits = np.float64(x).view(np.int64)
    bits = bits & np.int64(9223372036854775807) if math.isnan(x) else bits
    return np.int64(bits ^ ((bits >> np.int64(63)) & np.int64(9223372036854775807)))


def _min_key(x: float) -> np.int64:
    """An integer that orders as x does, NaN below all: min() of keys vectorises."""
    bits = np.float64(x).view(np.int64)
    bits = bits | np.int64(-9223372036854775808) if math.isnan(x) else bits
    return np.int64(bits ^ ((bits >> np.int64(63)) & np.int64(9223372036854775807)))


def _from_key(key: np.int64) -> float:
    """The number whose _max_key or _min_key is key."""
    flip = (key >> np.int64(63)) & np.int64(9223372036854775807)
    x: float = np.int64(key ^ flip).view(np.float64)
    return x


def _max_key_f32(x: np.float32) -> np.int32:
    """An integer that orders as x does, NaN above all: max() of keys vectorises."""
    bits = np.float32(x).view(np.int32)
    bits = np.int32(bits & np.int32(2147483647)) if math.isnan(x) else bits
    return np.int32(bits ^ np.int32((bits >> np.int32(31)) & np.int32(2147483647)))


def _min_key_f32(x: np.float32) -> np.int32:
    """An integer that orders as x does, NaN below all: min() of keys vectorises."""
    bits = np.float32(x).view(np.int32)
    bits = np.int32(bits | np.int32(-2147483648)) if math.isnan(x) else bits
    return np.int32(bits ^ np.int32((bits >> np.int32(31)) & np.int32(2147483647)))


def _from_key_f32(key: np.int32) -> np.float32:
    """The number whose _max_key_f32 or _min_key_f32 is key."""
    flip = np.int32((key >> np.int32(31)) & np.int32(2147483647))
    x: np.float32 = np.int32(key ^ flip).view(np.float32)
    return x


def _maximum(a: float, b: float) -> float:
    """The larger of a and b; NaN if either is. To reduce, see _max_key."""
    return a if a > b or math.isnan(a) else b


def _minimum(a: float, b: float) -> float:
    """The smaller of a and b; NaN if either is. To reduce, see _min_key."""
    return a if a < b or math.isnan(a) else b


def _fmax(a: float, b: float) -> float:
    """The larger of a and b, or the one that is not NaN."""
    return a if a >= b or math.isnan(b) else b


def _fmin(a: float, b: float) -> float:
    """The smaller of a and b, or the one that is not NaN."""
    return a if a <= b or math.isnan(b) else b


def _sign(x: float) -> float:
    """-1, 0 or 1; NaN of NaN."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else (0.0 if x == 0.0 else x))


def _heaviside(x: float, middle: float) -> float:
    """0 for x < 0, middle for x = 0, 1 for x > 0; NaN of NaN."""
    return 0.0 if x < 0.0 else (1.0 if x > 0.0 else (middle if x == 0.0 else x))


def _copysign(x: float, y: float) -> float:
    """|x| with the sign of y."""
    return float(np.copysign(x, y))


def _round(x: float) -> float:
    """x to the nearest integer, halves to even."""
    return float(np.rint(x))


def _maximum_f32(a: np.float32, b: np.float32) -> np.float32:
    """The larger of a and b; NaN if either is. To reduce, see _max_key_f32."""
    return a if a > b or math.isnan(a) else b


def _minimum_f32(a: np.float32, b: np.float32) -> np.float32:
    """The smaller of a and b; NaN if either is. To reduce, see _min_key_f32."""
    return a if a < b or math.isnan(a) else b


def _fmax_f32(a: np.float32, b: np.float32) -> np.float32:
    """The larger of a and b, or the one that is not NaN."""
    return a if a >= b or math.isnan(b) else b


def _fmin_f32(a: np.float32, b: np.float32) -> np.float32:
    """The smaller of a and b, or the one that is not NaN."""
    return a if a <= b or math.isnan(b) else b


def _sign_f32(x: np.float32) -> np.float32:
    """-1, 0 or 1; NaN of NaN."""
    return (
        np.float32(1.0)
        if x > np.float32(0.0)
        else (
            np.float32(-1.0)
            if x < np.float32(0.0)
            else (np.float32(0.0) if x == np.float32(0.0) else x)
        )
    )


def _heaviside_f32(x: np.float32, middle: np.float32) -> np.float32:
    """0 for x < 0, middle for x = 0, 1 for x > 0; NaN of NaN."""
    return (
        np.float32(0.0)
        if x < np.float32(0.0)
        else (
            np.float32(1.0)
            if x > np.float32(0.0)
            else (middle if x == np.float32(0.0) else x)
        )
    )


def _copysign_f32(x: np.float32, y: np.float32) -> np.float32:
    """|x| with the sign of y."""
    return np.float32(np.copysign(x, y))


def _round_f32(x: np.float32) -> np.float32:
    """x to the nearest integer, halves to even."""
    return np.float32(np.rint(x))


def _fmod(x: float, y: float) -> float:
    """Remainder with the sign of x, exact."""
    return float(np.fmod(x, y))


def _mod(x: float, y: float) -> float:
    """np.mod: remainder of floor division, with the sign of y."""
    r = float(np.fmod(x, y))
    if y == 0.0:
        return r
    if r == 0.0:
        return float(np.copysign(0.0, y))
    return r + y if (y < 0.0) != (r < 0.0) else r


def _floor_divide(x: float, y: float) -> float:
    """np.floor_divide: floor(x / y) of the exact quotient."""
    if y == 0.0:
        return x / y
    r = float(np.fmod(x, y))
    q = (x - r) / y
    if r != 0.0 and (y < 0.0) != (r < 0.0):
        q = q - 1.0
    if q == 0.0:
        return float(np.copysign(0.0, x / y))
    floor = float(np.floor(q))
    return floor + 1.0 if q - floor > 0.5 else floor


def _fmod_f32(x: np.float32, y: np.float32) -> np.float32:
    """Remainder with the sign of x, exact."""
    return np.float32(np.fmod(x, y))


def _mod_f32(x: np.float32, y: np.float32) -> np.float32:
    """np.mod: remainder of floor division, with the sign of y."""
    r = np.float32(np.fmod(x, y))
    if y == np.float32(0.0):
        return r
    if r == np.float32(0.0):
        return np.float32(np.copysign(np.float32(0.0), y))
    return r + y if (y < np.float32(0.0)) != (r < np.float32(0.0)) else r


def _floor_divide_f32(x: np.float32, y: np.float32) -> np.float32:
    """np.floor_divide: floor(x / y) of the exact quotient."""
    if y == np.float32(0.0):
        return x / y
    r = np.float32(np.fmod(x, y))
    q = (x - r) / y
    if r != np.float32(0.0) and (y < np.float32(0.0)) != (r < np.float32(0.0)):
        q = q - np.float32(1.0)
    if q == np.float32(0.0):
        return np.float32(np.copysign(np.float32(0.0), x / y))
    floor = np.float32(np.floor(q))
    return floor + np.float32(1.0) if q - floor > np.float32(0.5) else floor


def _floor_divide_int(a: int, b: int) -> int:
    """np.floor_divide of signed integers: 0 for b = 0; the lowest by -1 wraps round."""
    if b == 0:
        return 0
    return -a if b == -1 else a // b


def _mod_int(a: int, b: int) -> int:
    """np.mod of signed integers: the sign of b, 0 for b = 0."""
    return 0 if b == 0 or b == -1 else a % b


def _floor_divide_uint(a: np.uint64, b: np.uint64) -> np.uint64:
    """np.floor_divide of unsigned integers: 0 for b = 0."""
    return a // b if b != 0 else b


def _mod_uint(a: np.uint64, b: np.uint64) -> np.uint64:
    """np.mod of unsigned integers: 0 for b = 0."""
    return a % b if b != 0 else b


def _fmod_int(a: int, b: int) -> int:
    """np.fmod of signed integers: the sign of a, 0 for b = 0."""
    r = 0 if b == 0 or b == -1 else a % b
    return r - b if r != 0 and (r < 0) != (a < 0) else r


def _power_int(base: int, exponent: int) -> int:
    """base**exponent by squaring, wrapping round; 0 for a negative exponent."""
    result = 0 if exponent < 0 else 1
    while exponent > 0:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def _left_shift(a: int, count: int, bits: int) -> int:
    """a << count of a type with so many bits; 0 if count is not in [0, bits)."""
    return a << count if 0 <= count < bits else 0


def _right_shift(a: int, count: int, bits: int) -> int:
    """a >> count; 0 or -1 by a's sign if count is not in [0, bits)."""
    return a >> (count if 0 <= count < bits else bits - 1)


def _left_shift_uint(a: np.uint64, count: np.uint64, bits: int) -> np.uint64:
    """a << count of an unsigned type with so many bits; 0 if count >= bits."""
    return a << count if count < np.uint64(bits) else np.uint64(0)


def _right_shift_uint(a: np.uint64, count: np.uint64, bits: int) -> np.uint64:
    """a >> count of an unsigned type with so many bits; 0 if count >= bits."""
    return a >> count if count < np.uint64(bits) else np.uint64(0)


def _gammaln(x: float) -> float:
    """log |gamma(x)|; 4 ULP for x > 0, and for x < 0 that of max(1, |result|)."""
    if abs(x) < 1e-20 and x != 0.0:
        return -_log(abs(x))
    if x <= 0.0:
        r = abs(x - np.rint(x))
        if x == -math.inf:
            return x
        if r == 0.0:
            return math.inf
        # pi / (x sin(pi x)) = -gamma(x) gamma(-x)
        sine = _sin_near(3.141592653589793 * r)
        return _log(3.141592653589793) - _log(sine) - _log(-x) - _gammaln_positive(-x)
    return _gammaln_positive(x)


def _gammaln_positive(x: float) -> float:
    """log gamma(x) for x > 0."""
    if x >= 8.0:
        w = 1.0 / x
        z = w * w
        p = 0.0008417508417508417 - z * (
            0.0019175269175269176 - z * 0.00641025641025641
        )
        p = 0.0007936507936507937 - z * (0.0005952380952380953 - z * p)
        p = 0.08333333333333333 - z * (0.002777777777777778 - z * p)
        y = (x - 0.5) * (_log(x) - 1.0) + (w * p + 0.4189385332046727)
        return y if x < math.inf else x
    # gamma(2 + t) times or over what lies between x and 2 + t
    product = 1.0
    while x >= 2.5:
        x = x - 1.0
        product = product * x
    if 0.75 <= x < 1.5:
        t = x - 1.0
        p0 = -0.5772156649015329 + t * 0.8224670334241129
        p2 = -0.4006856343865417 + t * 0.2705808084279909
        p4 = -0.20738555102603232 + t * 0.16955717695696884
        p6 = -0.14404989699492773 + t * 0.1255096731588855
        p8 = -0.11133425958523487 + t * 0.10009928647419655
        p10 = -0.0909539001387811 + t * 0.08335812702380387
        p12 = -0.07694334439087364 + t * 0.07138306403170148
        p14 = -0.06642574558660726 + t * 0.06254120281788816
        p16 = -0.060949560383579335 + t * 0.059660368895494024
        p18 = -0.050265763857277726 + t * 0.02880113714404824
        t2 = t * t
        p0 = p0 + t2 * p2
        p4 = p4 + t2 * p6
        p8 = p8 + t2 * p10
        p12 = p12 + t2 * p14
        p16 = p16 + t2 * p18
        t4 = t2 * t2
        p0 = p0 + t4 * p4
        p8 = p8 + t4 * p12
        p16 = p16 + t4 * -0.007830326629864076
        t8 = t4 * t4
        p0 = p0 + t8 * p8
        t16 = t8 * t8
        p = p0 + t16 * p16
        return t * p + 0.0
    low = 0.0
    if x < 0.5:
        low = _log(x) + _log1p(x)
        t = x
    elif x < 1.0:
        low = _log(x)
        t = x - 1.0
    else:
        t = x - 2.0
    p0 = 0.42278433509846713 + t * 0.3224670334241132
    p2 = -0.06735230105319814 + t * 0.02058080842778457
    p4 = -0.0073855510286681345 + t * 0.002890510330738728
    p6 = -0.0011927539120018926 + t * 0.0005096695248857253
    p8 = -0.00022315475072578643 + t * 9.945750908961502e-05
    p10 = -4.4926351345772486e-05 + t * 2.050726753167361e-05
    p12 = -9.438456954820869e-06 + t * 4.374374075177684e-06
    p14 = -2.0449275862304883e-06 + t * 9.578698885829385e-07
    p16 = -4.303390000401032e-07 + t * 2.0304000285413188e-07
    p18 = -1.3414409147246934e-07 + t * 6.379807043609943e-08
    t2 = t * t
    p0 = p0 + t2 * p2
    p4 = p4 + t2 * p6
    p8 = p8 + t2 * p10
    p12 = p12 + t2 * p14
    p16 = p16 + t2 * p18
    t4 = t2 * t2
    p0 = p0 + t4 * p4
    p8 = p8 + t4 * p12
    t8 = t4 * t4
    p0 = p0 + t8 * p8
    t16 = t8 * t8
    p = p0 + t16 * p16
    return t * p + (_log(product) - low)


def _digamma(x: float) -> float:
    """Derivative of log gamma; 4 ULP for x > 0, roots included; poles as SciPy's."""
    if x == 0.0:
        return float(np.copysign(math.inf, -x))
    y = 0.0
    if x < 0.0:
        r = x - np.rint(x)
        if r == 0.0 or x == -math.inf:
            return math.nan
        y = -3.141592653589793 / _tan_near(3.141592653589793 * r)
        x = 1.0 - x
    if x >= 10.0:
        z = 1.0 / (x * x)
        p = 0.003968253968253968 - z * (
            0.004166666666666667
            - z
            * (
                0.007575757575757576
                - z * (0.021092796092796094 - z * 0.08333333333333333)
            )
        )
        p = z * (0.08333333333333333 - z * (0.008333333333333333 - z * p))
        return y + (_log(x) - 0.5 / x - p if x < math.inf else x)
    if x < 1.0:
        y = y - 1.0 / x
        x = x + 1.0
    while x > 2.0:
        x = x - 1.0
        y = y + 1.0 / x
    t = x - 1.5
    p0 = 0.9510558760318328 + t * -0.4236274212814573
    p2 = 0.24054248424078478 + t * -0.14840492305485808
    p4 = 0.09498872445354183 + t * -0.06192213319072707
    p6 = 0.0407608338843387 + t * -0.026975800029253667
    p8 = 0.017907250563619775 + t * -0.011908146513976738
    p10 = 0.007926972735646359 + t * -0.005280903066090605
    p12 = 0.0035187504361950134 + t * -0.002337552647103118
    p14 = 0.0015580749137213761 + t * -0.0010776863967234226
    p16 = 0.0007184107969046378 + t * -0.00035476352053371977
    p18 = 0.00023650171719339814 + t * -0.0003783907897248858
    t2 = t * t
    p0 = p0 + t2 * p2
    p4 = p4 + t2 * p6
    p8 = p8 + t2 * p10
    p12 = p12 + t2 * p14
    p16 = p16 + t2 * p18
    t4 = t2 * t2
    p0 = p0 + t4 * p4
    p8 = p8 + t4 * p12
    p16 = p16 + t4 * 0.0002522590506964885
    t8 = t4 * t4
    p0 = p0 + t8 * p8
    t16 = t8 * t8
    p = p0 + t16 * p16
    # the root, 1.46..., in three parts
    root = (x - 1.461632144968462) - -9.960252765705997e-14
    return y + (root - 2.0574000666111322e-26) * p


def _trigamma(x: float) -> float:
    """Second derivative of log gamma; 5 ULP; inf at the poles."""
    if x <= 0.0:
        r = x - np.rint(x)
        if r == 0.0 or x == -math.inf:
            return math.inf
        w = 3.141592653589793 / _sin_near(3.141592653589793 * r)
        return w * w - _trigamma_positive(1.0 - x)
    return _trigamma_positive(x)


def _trigamma_positive(x: float) -> float:
    """The same for x > 0."""
    y = 0.0
    while x < 10.0:
        y = y + 1.0 / (x * x)
        x = x + 1.0
    w = 1.0 / x
    z = w * w
    p = 0.023809523809523808 - z * (
        0.03333333333333333
        - z
        * (
            0.07575757575757576
            - z
            * (
                0.2531135531135531
                - z
                * (
                    1.1666666666666667
                    - z * (7.092156862745098 - z * 54.971177944862156)
                )
            )
        )
    )
    p = 0.16666666666666666 - z * (0.03333333333333333 - z * p)
    return y + (w + (0.5 * z + w * z * p))


def _polygamma(x: float, n: float) -> float:
    """The nth derivative of digamma, n whole; 10 ULP for x > 0; poles as SciPy's."""
    if not n >= 0.0 or n != np.floor(n):
        return math.nan
    order = int(n)
    if order == 0:
        return _digamma(x)
    if order == 1:
        return _trigamma(x)
    sign = 1.0 if order & 1 else -1.0
    if x <= 0.0 and x == np.floor(x):
        return sign * math.inf
    factorial = 1.0
    for i in range(2, order + 1):
        factorial = factorial * i
    # Hurwitz zeta(n + 1, x) by Euler and Maclaurin
    total = 0.0
    while x < 12.0 + n:
        total = total + _powi(x, -order - 1)
        x = x + 1.0
    w = 1.0 / x
    z = w * w
    lead = _powi(x, -order)
    total = total + (lead / n + 0.5 * lead * w)
    c = lead * z * (n + 1.0)
    total = total + c * 0.08333333333333333
    c = c * z * (n + 2.0) * (n + 3.0)
    total = total - c * 0.001388888888888889
    c = c * z * (n + 4.0) * (n + 5.0)
    total = total + c * 3.3068783068783064e-05
    c = c * z * (n + 6.0) * (n + 7.0)
    total = total - c * 8.267195767195768e-07
    c = c * z * (n + 8.0) * (n + 9.0)
    total = total + c * 2.08767569878681e-08
    c = c * z * (n + 10.0) * (n + 11.0)
    total = total - c * 5.284190138687493e-10
    c = c * z * (n + 12.0) * (n + 13.0)
    total = total + c * 1.3382536530684679e-11
    return sign * factorial * total


def _powi(x: float, n: int) -> float:
    """x**n for an integer n by squaring."""
    count = abs(n)
    result = 1.0
    while count > 0:
        if count & 1:
            result = result * x
        x = x * x
        count = count >> 1
    return 1.0 / result if n < 0 else result


def _gammaln_f32(x: np.float32) -> np.float32:
    """log |gamma(x)|, by way of float64."""
    return np.float32(_gammaln(np.float64(x)))


def _digamma_f32(x: np.float32) -> np.float32:
    """Derivative of log gamma, by way of float64."""
    return np.float32(_digamma(np.float64(x)))


def _trigamma_f32(x: np.float32) -> np.float32:
    """Second derivative of log gamma, by way of float64."""
    return np.float32(_trigamma(np.float64(x)))


def _polygamma_f32(x: np.float32, n: np.float32) -> np.float32:
    """The nth derivative of digamma, by way of float64."""
    return np.float32(_polygamma(np.float64(x), np.float64(n)))

"""Scalar mathematics of complex numbers that is copied into the Numba modules gradc emits.

The functions stand behind those of mathlib, which they are made of (see mathsource), and have
complex128 operands; complex64 goes by way of them, but for the first two, which take both. Branch cuts are NumPy's. The inverse functions
are those of W. Kahan, Branch cuts for complex elementary functions (1987).
"""

import math

from gradc.emit.mathlib import (
    _arcsinh,
    _arctan2,
    _cos,
    _cosh,
    _exp,
    _exp2,
    _expm1,
    _hypot,
    _log,
    _log1p,
    _sin,
    _sinh,
    _tan,
)


def _add_complex(total: complex, term: complex) -> complex:
    """The addition of a sum, which may be reassociated (and so vectorised)."""
    return total + term


def _pull_complex(g: complex, slope: complex) -> complex:
    """g * slope, but 0 where g is 0 whatever the slope: the strong zero."""
    return g * slope if g != 0.0 else g


def _divide_complex(a: complex, b: complex) -> complex:
    """a / b without overflow in between (R. L. Smith, 1962); a / 0 has no finite part."""
    if abs(b.real) >= abs(b.imag):
        if b.real == 0.0 and b.imag == 0.0:
            return complex(a.real / abs(b.real), a.imag / abs(b.real))
        ratio = b.imag / b.real
        scale = 1.0 / (b.real + b.imag * ratio)
        return complex(
            (a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale
        )
    ratio = b.real / b.imag
    scale = 1.0 / (b.imag + b.real * ratio)
    return complex((a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale)


def _exp_complex(z: complex) -> complex:
    """exp(z), also where exp of the real part alone would overflow."""
    x, y = z.real, z.imag
    if x == -math.inf:
        return complex(0.0, 0.0)
    if y == 0.0:
        return complex(_exp(x), y)
    if 709.0 < x < 1400.0:
        scale = _exp(x - 700.0)
        return complex(
            _cos(y) * scale * 1.0142320547350045e304,
            _sin(y) * scale * 1.0142320547350045e304,
        )
    scale = _exp(x)
    return complex(_cos(y) * scale, _sin(y) * scale)


def _exp2_complex(z: complex) -> complex:
    """2 to the power z."""
    angle, scale = z.imag * 0.6931471805599453, _exp2(z.real)
    return complex(_cos(angle) * scale, _sin(angle) * scale)


def _expm1_complex(z: complex) -> complex:
    """exp(z) - 1, exact near 0."""
    half = _sin(0.5 * z.imag)
    return complex(
        _expm1(z.real) * _cos(z.imag) - 2.0 * half * half, _exp(z.real) * _sin(z.imag)
    )


def _log_size(x: float, y: float) -> float:
    """The logarithm of the absolute value of x + iy, exact where that is near 1."""
    high, low = abs(x), abs(y)
    if high < low:
        high, low = low, high
    if 0.5 < high < 1.5 and low < 1.0:
        return 0.5 * _log1p((high - 1.0) * (high + 1.0) + low * low)
    if 1e300 < high < math.inf:
        return _log(_hypot(0.25 * x, 0.25 * y)) + 1.3862943611198906
    return _log(_hypot(x, y))


def _log_complex(z: complex) -> complex:
    """The natural logarithm, its imaginary part from -pi to pi."""
    return complex(_log_size(z.real, z.imag), _arctan2(z.imag, z.real))


def _log2_complex(z: complex) -> complex:
    """The logarithm to base 2."""
    return _log_complex(z) * 1.4426950408889634


def _log10_complex(z: complex) -> complex:
    """The logarithm to base 10."""
    return _log_complex(z) * 0.4342944819032518


def _log1p_complex(z: complex) -> complex:
    """log(1 + z), exact near 0."""
    x, y = z.real, z.imag
    angle = _arctan2(y, 1.0 + x)
    if abs(x) < 0.5 and abs(y) < 0.5:
        return complex(0.5 * _log1p(x * (2.0 + x) + y * y), angle)
    return complex(_log_size(1.0 + x, y), angle)


def _sqrt_complex(z: complex) -> complex:
    """The square root with a real part that is not negative."""
    x, y = z.real, z.imag
    if x == 0.0 and y == 0.0:
        return complex(0.0, y)
    if abs(y) == math.inf:
        return complex(math.inf, y)
    scale, back = 1.0, 1.0
    if abs(x) > 4e307 or abs(y) > 4e307:
        scale, back = 0.0625, 4.0
    elif abs(x) < 1e-280 and abs(y) < 1e-280:
        scale, back = 2.0**120, 2.0**-60
    x, y = x * scale, y * scale
    t = math.sqrt(0.5 * (abs(x) + _hypot(x, y)))
    if x >= 0.0:
        return complex(t * back, y / (2.0 * t) * back)
    return complex(abs(y) / (2.0 * t) * back, math.copysign(t, y) * back)


def _sin_complex(z: complex) -> complex:
    """The sine."""
    return complex(_sin(z.real) * _cosh(z.imag), _cos(z.real) * _sinh(z.imag))


def _cos_complex(z: complex) -> complex:
    """The cosine."""
    return complex(_cos(z.real) * _cosh(z.imag), -(_sin(z.real) * _sinh(z.imag)))


def _sinh_complex(z: complex) -> complex:
    """The hyperbolic sine."""
    return complex(_sinh(z.real) * _cos(z.imag), _cosh(z.real) * _sin(z.imag))


def _cosh_complex(z: complex) -> complex:
    """The hyperbolic cosine."""
    return complex(_cosh(z.real) * _cos(z.imag), _sinh(z.real) * _sin(z.imag))


def _tanh_complex(z: complex) -> complex:
    """The hyperbolic tangent."""
    x, y = z.real, z.imag
    if abs(x) > 22.0:
        left = 4.0 * _sin(y) * _cos(y) * _exp(-2.0 * abs(x))
        return complex(math.copysign(1.0, x), left)
    t = _tan(y)
    beta = 1.0 + t * t
    s = _sinh(x)
    below = 1.0 + beta * s * s
    return complex(beta * math.sqrt(1.0 + s * s) * s / below, t / below)


def _tan_complex(z: complex) -> complex:
    """The tangent."""
    turned = _tanh_complex(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def _arcsin_complex(z: complex) -> complex:
    """The inverse sine."""
    p = _sqrt_complex(complex(1.0 - z.real, -z.imag))
    q = _sqrt_complex(complex(1.0 + z.real, z.imag))
    return complex(
        _arctan2(z.real, p.real * q.real - p.imag * q.imag),
        _arcsinh(p.real * q.imag - p.imag * q.real),
    )


def _arccos_complex(z: complex) -> complex:
    """The inverse cosine."""
    p = _sqrt_complex(complex(1.0 - z.real, -z.imag))
    q = _sqrt_complex(complex(1.0 + z.real, z.imag))
    return complex(
        2.0 * _arctan2(p.real, q.real), _arcsinh(q.real * p.imag - q.imag * p.real)
    )


def _arctan_complex(z: complex) -> complex:
    """The inverse tangent."""
    turned = _arctanh_complex(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def _arcsinh_complex(z: complex) -> complex:
    """The inverse hyperbolic sine."""
    turned = _arcsin_complex(complex(-z.imag, z.real))
    return complex(turned.imag, -turned.real)


def _arccosh_complex(z: complex) -> complex:
    """The inverse hyperbolic cosine."""
    p = _sqrt_complex(complex(z.real - 1.0, z.imag))
    q = _sqrt_complex(complex(z.real + 1.0, z.imag))
    return complex(
        _arcsinh(p.real * q.real + p.imag * q.imag), 2.0 * _arctan2(p.imag, q.real)
    )


def _arctanh_complex(z: complex) -> complex:
    """The inverse hyperbolic tangent."""
    x, y = z.real, z.imag
    size = _hypot(x, y)
    if size > 1e100:
        real = (x / size) / size if size < math.inf else math.copysign(0.0, x)
        return complex(real, math.copysign(1.5707963267948966, y))
    near = 1.0 - abs(x)
    real = 0.25 * _log1p(4.0 * abs(x) / (near * near + y * y))
    return complex(
        math.copysign(real, x),
        0.5 * _arctan2(2.0 * y, near * (1.0 + abs(x)) - y * y),
    )


def _power_complex(z: complex, w: complex) -> complex:
    """z to the power w; whole powers up to 100 by products."""
    n = w.real
    if w.imag == 0.0 and abs(n) <= 100.0 and n == math.floor(n):
        result, square = complex(1.0, 0.0), z
        count = int(abs(n))
        while count > 0:
            if count % 2 == 1:
                result = result * square
            square = square * square
            count //= 2
        return result if n >= 0.0 else _divide_complex(complex(1.0, 0.0), result)
    if z.real == 0.0 and z.imag == 0.0:
        if n > 0.0 and w.imag == 0.0:
            return complex(0.0, 0.0)
        return complex(math.nan, math.nan)
    return _exp_complex(w * _log_complex(z))

"""Complex numbers: their parts, and how they are made of these.

The cotangent of a real y by z = a + ib is dy/da + i dy/db, as in TensorFlow: `z - rate * z_bar`
descends. A function with the derivative f' passes g on as g times the conjugate of f'.
"""

from __future__ import annotations

import numpy as np

from gradc.errors import TypeMismatch
from gradc.graph import Tensor
from gradc.ops import arraylib
from gradc.ops.basic import cast
from gradc.ops.basic import copy as copy_op
from gradc.ops.elementary import arctan2
from gradc.ops.elementwise import filled, scalar_value
from gradc.ops.functions import (
    TensorLike,
    as_tensor,
    convert,
    function,
    operands,
    type_of,
)
from gradc.ops.registry import COMPLEX, Linear, Op, elementwise
from gradc.types import (
    DType,
    TensorType,
    complex64,
    complex128,
    float32,
    float64,
    promote,
)

__all__ = ["complex_op", "conj", "conjugate", "imag", "part_of", "real", "whole_of"]


def part_of(dtype: DType) -> DType:
    """The dtype of the parts of a complex one; a real one as it is."""
    if not dtype.is_complex:
        return dtype
    return float32 if dtype == complex64 else float64


def whole_of(dtype: DType) -> DType:
    """The complex dtype whose parts have this one, or float64."""
    return complex64 if part_of(dtype) == float32 else complex128


def _part_type(z: TensorType) -> TensorType:
    return TensorType(part_of(z.dtype), z.shape, z.weak)


def _whole_type(a: TensorType, b: TensorType) -> TensorType:
    return TensorType(whole_of(a.dtype), a.shape, a.weak and b.weak)


real_op: Op = elementwise(
    "real",
    numpy=lambda z: np.array(np.real(z)),
    derivative=Linear(lambda g, z: complex_op(g, filled(0, g))),
    type=_part_type,
    accepts=COMPLEX,
    text=lambda node, args: f"{args[0]}.real",
    scalar=".real",
    finite=True,
    doc="The real part of a complex number.",
)

imag_op: Op = elementwise(
    "imag",
    numpy=lambda z: np.array(np.imag(z)),
    derivative=Linear(lambda g, z: complex_op(filled(0, g), g)),
    type=_part_type,
    accepts=COMPLEX,
    text=lambda node, args: f"{args[0]}.imag",
    scalar=".imag",
    finite=True,
    doc="The imaginary part of a complex number.",
)

conj_op: Op = elementwise(
    "conj",
    numpy=np.conj,
    derivative=Linear(lambda g, z: conj_op(g)),
    accepts=COMPLEX,
    text="np.conj",
    scalar="np.conj",
    finite=True,
    doc="The number with its imaginary part's sign changed.",
)

complex_op: Op = elementwise(
    "complex",
    numpy=arraylib._complex,
    derivative=Linear(lambda g, a, b: [real_op(g), imag_op(g)]),
    type=_whole_type,
    accepts=frozenset({"float32", "float64"}),
    text=lambda node, args: f"_complex({args[0]}, {args[1]})",
    scalar="complex",
    finite=True,
    doc="The complex number with these parts.",
)


def conjugate(x: Tensor) -> Tensor:
    """The complex conjugate; a tensor that is known to be real as it is."""
    known = scalar_value(x)
    is_real = not x.dtype.is_complex or (known is not None and known.imag == 0)
    return x if is_real else conj_op(x)


def _number(x: TensorLike) -> Tensor:
    tensor = as_tensor(x)
    return convert(tensor, tensor.dtype) if tensor.ndim else tensor


@function("real")
def real(z: TensorLike) -> Tensor:
    """The real part; of real numbers all."""
    tensor = _number(z)
    return real_op(tensor) if tensor.dtype.is_complex else copy_op(tensor)


@function("imag")
def imag(z: TensorLike) -> Tensor:
    """The imaginary part; of real numbers 0."""
    tensor = _number(z)
    return imag_op(tensor) if tensor.dtype.is_complex else filled(0, tensor)


@function("conj", "conjugate", method=True)
def conj(z: TensorLike) -> Tensor:
    """The complex conjugate: the imaginary part with its sign changed."""
    tensor = _number(z)
    return conj_op(tensor) if tensor.dtype.is_complex else copy_op(tensor)


@function("complex")
def complex_(a: TensorLike, b: TensorLike = 0.0) -> Tensor:
    """The complex number a + ib, also where a part is infinite; parts of float32 give complex64."""
    dtype, weak = promote([type_of(a), type_of(b)])
    if dtype.is_complex:
        raise TypeMismatch(
            "complex takes two real parts", hint="a + 1j * b takes complex a and b"
        )
    if weak:
        parts = [cast(as_tensor(v), dtype=float64, weak=True) for v in (a, b)]
        return complex_op(*parts)
    part = dtype if dtype in (float32, float64) else float64
    return complex_op(*operands(a, b, dtypes=(part, part)))


@function("angle")
def angle(z: TensorLike, deg: bool = False) -> Tensor:
    """The angle of a complex number from -pi to pi, with slopes 0 at 0; in degrees with `deg`."""
    tensor = _number(z)
    if not tensor.dtype.is_inexact:
        tensor = convert(tensor, float64)
    found = arctan2(imag(tensor), real(tensor))
    return found * (180 / np.pi) if deg else found

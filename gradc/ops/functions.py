"""The functions a user calls: NumPy's names and signatures over the ops.

A family file enters a function with `@function(...)`. Its parameters tell the front ends what to
pass: one annotated `TensorLike` (or `Sequence[TensorLike]`) gets tensors or numbers; any other
gets a value known at compile time (int, `Poly`, str, bool, tuple, `DType`, None).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from gradc.errors import InternalError, ShapeError, TypeMismatch
from gradc.graph import OPERATORS, Data, Tensor
from gradc.ops.basic import broadcast, cast, constant, dim, reshape
from gradc.types import (
    DType,
    Poly,
    Shape,
    TensorType,
    bool_,
    broadcast_shapes,
    complex128,
    dtype_of,
    float64,
    int64,
    promote,
    shape_text,
)

__all__ = [
    "Axes",
    "Function",
    "Key",
    "Nested",
    "TensorLike",
    "apply",
    "as_tensor",
    "axes_of",
    "axis_of",
    "broadcast_to",
    "convert",
    "function",
    "functions",
    "lookup_function",
    "number",
    "operands",
    "ufunc_dtypes",
]

TensorLike: TypeAlias = "Tensor | int | float | complex | bool | Poly"
F = TypeVar("F", bound=Callable[..., Any])

Axes: TypeAlias = "int | tuple[int, ...] | None"
Key: TypeAlias = Any
"""What may stand in brackets: ints, dimensions, slices, `...`, None, integer tensors, a tuple."""
Nested: TypeAlias = Any
"""Lists of lists of tensors and numbers."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language: its name, what it calls, its signature and one-line doc.

    `method` says that it may be called as `x.name(...)` too.
    """

    name: str
    call: Callable[..., Any]
    signature: inspect.Signature
    method: bool

    @property
    def doc(self) -> str:
        return (inspect.getdoc(self.call) or "").split("\n", 1)[0]

    def takes_tensor(self, parameter: str) -> bool:
        """Whether the parameter gets tensors rather than compile-time values."""
        text = str(self.signature.parameters[parameter].annotation)
        return any(word in text for word in ("TensorLike", "Key", "Nested"))


_FUNCTIONS: dict[str, Function] = {}


def function(*names: str, method: bool = False, operator: str = "") -> Callable[[F], F]:
    """Enter a function of the language under `names`, and behind a `Tensor` operator."""

    def enter(call: F) -> F:
        for name in names:
            if name in _FUNCTIONS:
                raise InternalError(f"two functions are called {name}")
            _FUNCTIONS[name] = Function(name, call, inspect.signature(call), method)
        if operator:
            OPERATORS[operator] = call
        return call

    return enter


def lookup_function(name: str) -> Function | None:
    """The function of this name (`sum`, `linalg.norm` by its short name `norm`), or None."""
    return _FUNCTIONS.get(name)


def apply(name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of the language by its name, whichever family it is of."""
    return _FUNCTIONS[name].call(*arguments, **options)


def functions() -> tuple[str, ...]:
    """The names of all functions, sorted."""
    return tuple(sorted(_FUNCTIONS))


# ----------------------------------------------------------------------- operands


def type_of(value: TensorLike) -> TensorType:
    """The type of an operand; Python numbers and dimensions are weak."""
    if isinstance(value, Tensor):
        return value.type
    if isinstance(value, bool | np.bool_):
        return TensorType(bool_)
    if isinstance(value, int | Poly):
        return TensorType(int64, (), True)
    if isinstance(value, float):
        return TensorType(float64, (), not isinstance(value, np.floating))
    if isinstance(value, complex):
        return TensorType(complex128, (), not isinstance(value, np.complexfloating))
    if isinstance(value, np.generic):
        return TensorType(dtype_of(value))
    raise TypeMismatch(f"expected a tensor or a number, found {type(value).__name__}")


def number(value: Any, dtype: DType, *, weak: bool = False) -> Tensor:
    """A constant of rank 0, or a dimension as a number."""
    if isinstance(value, Poly):
        return dim(value=value, dtype=dtype, weak=weak)
    if dtype.kind in "iu" and isinstance(value, int):
        info = np.iinfo(dtype.name)
        if not info.min <= value <= info.max:
            raise TypeMismatch(
                f"{value} does not fit in {dtype.name}", hint="declare a wider dtype"
            )
    with np.errstate(all="ignore"):
        return constant(value=Data(np.asarray(value, dtype=dtype.name)), weak=weak)


def as_tensor(value: TensorLike | np.ndarray[Any, Any]) -> Tensor:
    """A tensor as it is; numbers and arrays as constants."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        dtype_of(value)
        return constant(value=Data(value), weak=False)
    t = type_of(value)
    return number(value, t.dtype, weak=t.weak)


def convert(value: TensorLike, dtype: DType) -> Tensor:
    """The value in this dtype: the same tensor where it has it, a constant made anew, or a cast."""
    if not isinstance(value, Tensor):
        if isinstance(value, complex) and not dtype.is_complex:
            value = value.real
        return number(value, dtype)
    if value.dtype == dtype and not value.type.weak:
        return value
    return cast(value, dtype=dtype)


def broadcast_to(x: Tensor, shape: Shape) -> Tensor:
    """NumPy's broadcast: axes of length 1 are dropped, then new ones put in."""
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0:
        raise ShapeError(
            f"can't broadcast {shape_text(x.shape)} to {shape_text(shape)}"
        )
    kept: list[int] = []
    for k, d in enumerate(x.shape):
        if d == shape[lead + k]:
            kept.append(k)
        elif d != 1:
            raise ShapeError(
                f"can't broadcast {shape_text(x.shape)} to {shape_text(shape)}"
            )
    if len(kept) < x.ndim:
        x = reshape(x, shape=tuple(x.shape[k] for k in kept))
    along = tuple(k for k in range(len(shape)) if k - lead not in kept)
    return broadcast(x, shape=shape, along=along) if along else x


def operands(
    *values: TensorLike, dtypes: Sequence[DType] | None = None
) -> tuple[Tensor, ...]:
    """The values cast to their common dtype (or to `dtypes`) and broadcast to one shape.

    All-weak operands (Python numbers) give weak ones.
    """
    types = [type_of(v) for v in values]
    weak = False
    if dtypes is None:
        common, weak = promote(types)
        dtypes = [common] * len(values)
    shape = broadcast_shapes(*(t.shape for t in types))
    result = []
    for value, dtype, t in zip(values, dtypes, types, strict=True):
        if weak:
            fresh = as_tensor(value)
            if fresh.dtype != dtype:
                fresh = cast(fresh, dtype=dtype, weak=True)
        elif isinstance(value, Tensor) and t.dtype == dtype and not t.weak:
            fresh = value
        else:
            fresh = convert(value, dtype)
        result.append(broadcast_to(fresh, shape))
    return tuple(result)


def ufunc_dtypes(
    ufunc: np.ufunc, *values: TensorLike
) -> tuple[tuple[DType, ...], bool]:
    """The input dtypes NumPy's `ufunc` computes these operands in, and whether all are weak."""
    types = [type_of(v) for v in values]
    weak = all(t.weak for t in types)
    try:
        return _loop_dtypes(ufunc, tuple((t.dtype, t.weak) for t in types)), weak
    except TypeError:
        kinds = " and ".join(str(t) for t in types)
        raise TypeMismatch(f"{ufunc.__name__} does not take {kinds}") from None


@cache
def _loop_dtypes(
    ufunc: np.ufunc, operands: tuple[tuple[DType, bool], ...]
) -> tuple[DType, ...]:
    """What NumPy casts operands of these dtypes (and weak or not) to. TypeError where to none."""
    python = {"b": bool, "i": int, "f": float, "c": complex}
    all_weak = all(weak for _, weak in operands)
    given: list[Any] = [
        python[dtype.kind] if weak and not all_weak else dtype.numpy
        for dtype, weak in operands
    ]
    resolved = ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))
    return tuple(dtype_of(d) for d in resolved[: len(operands)])


# --------------------------------------------------------------------------- axes


def axis_of(axis: Any, ndim: int, what: str = "axis") -> int:
    """One axis as a non-negative int. ShapeError outside `-ndim .. ndim - 1`."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeMismatch(f"{what} must be an int, found {type(axis).__name__}")
    if not -ndim <= axis < ndim:
        raise ShapeError(
            f"{what} {axis} is out of bounds for a tensor of rank {ndim}",
            code="bad-axis",
        )
    return axis % ndim


def axes_of(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple of non-negative ints; None is all. ShapeError where one repeats."""
    if axis is None:
        return tuple(range(ndim))
    listed = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    found = [axis_of(a, ndim) for a in listed]
    if len(set(found)) < len(found):
        raise ShapeError(f"axis {axis} names an axis twice", code="bad-axis")
    return tuple(sorted(found))

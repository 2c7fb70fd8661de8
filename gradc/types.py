"""Element types, symbolic dimensions and the types of tensors.

A dimension is an `int` where it is known, else a `Poly`: a polynomial with integer coefficients
in the symbols of the graph and in floor quotients of polynomials. Both kinds print as Python.
Symbols stand for sizes, so they are never negative.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from gradc.errors import OptionError, ShapeError, TypeMismatch

__all__ = [
    "DTYPES",
    "NAME",
    "WORD",
    "DType",
    "Dim",
    "Facts",
    "Floor",
    "Poly",
    "Shape",
    "TensorType",
    "as_dim",
    "bool_",
    "broadcast_shapes",
    "check_static",
    "complex64",
    "complex128",
    "dim_floordiv",
    "dim_text",
    "dtype_of",
    "evaluate_dim",
    "exact_quotient",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_nonnegative",
    "promote",
    "shape_text",
    "size_of",
    "substitute",
    "symbol",
    "symbols_of",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]


WORD = r"[^\x00-/:-@\[-^`{-\x7f]"
"""A character of a name in Python text, as a pattern: outside strings and comments all that is not
ASCII belongs to names (`\\w` misses the marks that combine with letters). It says what is none,
which compiles fifty times as fast as what is one."""
NAME = rf"(?!\d){WORD}+"
"""A whole name in Python text, as a pattern."""

# ------------------------------------------------------------------ element types


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type by its NumPy name; `kind` is one of `b i u f c`, `bits` its width.

    There is one of each name, in `DTYPES`; equality is identity.
    """

    name: str
    kind: str
    bits: int

    @property
    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @property
    def is_inexact(self) -> bool:
        """Real or complex floating point: the types a gradient can flow through."""
        return self.kind in "fc"

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


bool_ = DType("bool", "b", 8)
int8, int16, int32, int64 = (DType(f"int{n}", "i", n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", "u", n) for n in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{n}", "f", n) for n in (16, 32, 64))
complex64, complex128 = (DType(f"complex{n}", "c", n) for n in (64, 128))

DTYPES: Mapping[str, DType] = {
    d.name: d
    for d in (
        bool_,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        float16,
        float32,
        float64,
        complex64,
        complex128,
    )
}


def dtype_of(value: Any) -> DType:
    """The `DType` of a NumPy array, scalar or dtype. TypeMismatch for any other dtype."""
    return _dtype_of(np.dtype(getattr(value, "dtype", value)))


@cache
def _dtype_of(dtype: np.dtype[Any]) -> DType:
    if dtype.name not in DTYPES:
        raise TypeMismatch(
            f"no dtype {dtype.name} in gradc",
            hint="dtypes are " + ", ".join(DTYPES),
        )
    return DTYPES[dtype.name]


@cache
def _promote(a: DType, b: DType) -> DType:
    return DTYPES[np.promote_types(a.numpy, b.numpy).name]


_WEAK_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def promote(types: Iterable[TensorType]) -> tuple[DType, bool]:
    """(dtype, weak) that NumPy 2 gives operands of these types; weak ones are Python scalars.

    A weak scalar takes the other operand's dtype unless its kind is higher (a float with an
    integer array gives float64, a complex with float32 gives complex64).
    """
    strong: DType | None = None
    weak: DType | None = None
    for t in types:
        if t.weak:
            weak = t.dtype if weak is None else _promote(weak, t.dtype)
        else:
            strong = t.dtype if strong is None else _promote(strong, t.dtype)
    if strong is None:
        assert weak is not None
        return weak, True
    if weak is None or _WEAK_RANK[weak.kind] <= _WEAK_RANK[strong.kind]:
        return strong, False
    if weak.kind == "c" and strong.kind == "f":
        return (complex64 if strong.bits <= 32 else complex128), False
    if weak.kind == "i":  # bool array with a Python int
        return int64, False
    return (float64 if weak.kind == "f" else complex128), False


# --------------------------------------------------------------------- dimensions

Atom: TypeAlias = "str | Floor"
Monomial: TypeAlias = "tuple[tuple[Atom, int], ...]"


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor quotient `num // den` as an atom of a polynomial."""

    num: Dim
    den: Dim

    def __str__(self) -> str:
        return f"{_wrap(self.num)} // {_wrap(self.den)}"


@dataclass(frozen=True, slots=True)
class Poly:
    """A polynomial that is no constant: sorted `((monomial, coefficient), ...)`."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _combine(self, other, -1)

    def __rsub__(self, other: Dim) -> Dim:
        return _combine(_scale(self, -1), other, 1)

    def __neg__(self) -> Dim:
        return _scale(self, -1)

    def __mul__(self, other: Dim) -> Dim:
        return _multiply(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return dim_floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return dim_floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return self - other * dim_floordiv(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return other - self * dim_floordiv(other, self)

    def __str__(self) -> str:
        return dim_text(self)

    __repr__ = __str__


Dim: TypeAlias = "int | Poly"
Shape: TypeAlias = "tuple[Dim, ...]"


def symbol(name: str) -> Poly:
    """The dimension called `name`."""
    return Poly((((((name, 1),)), 1),))


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, str(atom))


def _terms(dim: Dim) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(dim, Poly):
        return dim.terms
    return (((), dim),) if dim else ()


def _term_key(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    monomial = term[0]
    return (
        -sum(p for _, p in monomial),
        tuple((_atom_key(a), -p) for a, p in monomial),
    )


def _build(terms: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Poly(tuple(sorted(kept, key=_term_key)))


def _combine(a: Dim, b: Dim, sign: int) -> Dim:
    total: dict[Monomial, int] = dict(_terms(a))
    for monomial, c in _terms(b):
        total[monomial] = total.get(monomial, 0) + sign * c
    return _build(total)


def _scale(a: Dim, factor: int) -> Dim:
    return _build({m: c * factor for m, c in _terms(a)})


def _multiply(a: Dim, b: Dim) -> Dim:
    if isinstance(b, int):
        return a if b == 1 else _scale(a, b)
    total: dict[Monomial, int] = {}
    for ma, ca in _terms(a):
        for mb, cb in _terms(b):
            powers: dict[Atom, int] = dict(ma)
            for atom, p in mb:
                powers[atom] = powers.get(atom, 0) + p
            m = tuple(sorted(powers.items(), key=lambda item: _atom_key(item[0])))
            total[m] = total.get(m, 0) + ca * cb
    return _build(total)


def exact_quotient(num: Dim, den: Dim) -> Dim | None:
    """`num / den` where it is a polynomial with integer coefficients, else None.

    Decides any integer and any single-term divisor, and `den * k` for an integer k.
    """
    if den == 0:
        return None
    if num == den:
        return 1
    if isinstance(den, int):
        if isinstance(num, int):
            return num // den if num % den == 0 else None
        if all(c % den == 0 for _, c in num.terms):
            return _build({m: c // den for m, c in num.terms})
        return None
    if num == 0:
        return 0
    if len(den.terms) == 1:
        (mono, coefficient) = den.terms[0]
        total: dict[Monomial, int] = {}
        for m, c in _terms(num):
            powers = dict(m)
            for atom, p in mono:
                powers[atom] = powers.get(atom, 0) - p
            if c % coefficient or any(p < 0 for p in powers.values()):
                return None
            left = tuple((a, p) for a, p in powers.items() if p)
            total[tuple(sorted(left, key=lambda item: _atom_key(item[0])))] = (
                c // coefficient
            )
        return _build(total)
    lead_n, lead_d = _terms(num)[0][1], den.terms[0][1]
    if lead_n % lead_d == 0 and den * (lead_n // lead_d) == num:
        return lead_n // lead_d
    return None


def dim_floordiv(num: Dim, den: Dim) -> Dim:
    """Floor quotient. ShapeError where the divisor is 0."""
    if isinstance(den, int) and den == 0:
        raise ShapeError("division of a dimension by zero", code="bad-dimension")
    if isinstance(num, int) and isinstance(den, int):
        return num // den
    exact = exact_quotient(num, den)
    if exact is not None:
        return exact
    if isinstance(den, int) and den < 0:
        return dim_floordiv(-num, -den)
    if isinstance(den, int):
        # (a * d + r) // d = a + r // d, coefficient by coefficient
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for m, c in _terms(num):
            whole[m], rest[m] = c // den, c % den
        left = _build(rest)
        if isinstance(left, int):
            return _combine(_build(whole), left // den, 1)
        return _combine(_build(whole), Poly(((((Floor(left, den), 1),), 1),)), 1)
    return Poly(((((Floor(num, den), 1),), 1),))


def as_dim(value: int | str | Poly) -> Dim:
    """A dimension from an int, a symbol's name or a `Poly`."""
    if isinstance(value, str):
        return symbol(value)
    return value if isinstance(value, Poly) else int(value)


def symbols_of(dim: Dim) -> tuple[str, ...]:
    """The symbols in a dimension, each once, in reading order."""
    found: dict[str, None] = {}
    stack: list[Dim] = [dim]
    while stack:
        for monomial, _ in _terms(stack.pop()):
            for atom, _ in monomial:
                if isinstance(atom, str):
                    found[atom] = None
                else:
                    stack += [atom.den, atom.num]
    return tuple(found)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """`dim` with the symbols in `values` replaced."""
    if isinstance(dim, int) or not values:
        return dim
    total: Dim = 0
    for monomial, c in dim.terms:
        product: Dim = c
        for atom, power in monomial:
            base: Dim
            if isinstance(atom, str):
                base = values[atom] if atom in values else symbol(atom)
            else:
                base = dim_floordiv(
                    substitute(atom.num, values), substitute(atom.den, values)
                )
            for _ in range(power):
                product = product * base
        total = total + product
    return total


def evaluate_dim(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The number a dimension is for these sizes. KeyError for a symbol without one."""
    if isinstance(dim, int):
        return dim
    total = 0
    for monomial, c in dim.terms:
        product = c
        for atom, power in monomial:
            if isinstance(atom, str):
                base = sizes[atom]
            else:
                base = evaluate_dim(atom.num, sizes) // evaluate_dim(atom.den, sizes)
            product *= base**power
        total += product
    return total


def is_nonnegative(dim: Dim) -> bool:
    """True where `dim >= 0` for all sizes (every coefficient is); False where not known."""
    return all(
        c >= 0 and all(isinstance(a, str) or _floor_nonnegative(a) for a, _ in m)
        for m, c in _terms(dim)
    )


def _floor_nonnegative(atom: Floor) -> bool:
    return is_nonnegative(atom.num) and is_nonnegative(atom.den)


def _wrap(dim: Dim) -> str:
    text = dim_text(dim)
    return text if re.fullmatch(f"{WORD}+", text) else f"({text})"


def dim_text(dim: Dim) -> str:
    """A dimension as Python writes it: `2 * N + 1`, `(N - 1) // 2`."""
    if isinstance(dim, int):
        return str(dim)
    parts: list[str] = []
    # a term with a plus goes first, so that the text never begins with a minus where it need not
    ordered = sorted(dim.terms, key=lambda t: (t[0] == (), t[1] < 0))
    for monomial, c in ordered:
        factors = [] if abs(c) == 1 and monomial else [str(abs(c))]
        for atom, power in monomial:
            text = atom if isinstance(atom, str) else f"({atom})"
            factors.append(text if power == 1 else f"{text}**{power}")
        body = " * ".join(factors)
        if (
            len(monomial) == 1
            and len(factors) == 1
            and not isinstance(monomial[0][0], str)
        ):
            body = str(monomial[0][0]) if len(dim.terms) == 1 and c == 1 else body
        if not parts:
            parts.append(f"-{body}" if c < 0 else body)
        else:
            parts.append(f"- {body}" if c < 0 else f"+ {body}")
    return " ".join(parts)


def shape_text(shape: Shape) -> str:
    """`(N, 3)`, `(N,)`, `()`."""
    inside = ", ".join(dim_text(d) for d in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def size_of(shape: Iterable[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = 1
    for dim in shape:
        total = total * dim
    return total


@dataclass(frozen=True, slots=True)
class Facts:
    """What `assert` told about the symbols: `values` replaces, `zeros` lists polynomials that are 0."""

    values: Mapping[str, Dim]
    zeros: tuple[Dim, ...] = ()

    def apply(self, dim: Dim) -> Dim:
        return substitute(dim, self.values)

    def equal(self, a: Dim, b: Dim) -> bool:
        """True where the two are known to be the same for all sizes."""
        if a == b:
            return True
        difference = self.apply(a) - self.apply(b)
        return difference == 0 or any(
            difference == z
            or difference == -z
            or exact_quotient(difference, z) is not None
            for z in self.zeros
        )


NO_FACTS = Facts({})


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy's broadcasting. ShapeError names the two dimensions that don't go together."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        for k, dim in enumerate(shape, start=rank - len(shape)):
            if dim == 1 or dim == result[k]:
                continue
            if result[k] != 1:
                raise ShapeError(
                    f"shapes do not broadcast: {dim_text(result[k])} and {dim_text(dim)} "
                    f"(axis {k - rank} of {' and '.join(shape_text(s) for s in shapes)})",
                    hint=""
                    if isinstance(dim, int) and isinstance(result[k], int)
                    else f"where they are the same, write: assert {dim_text(result[k])} == {dim_text(dim)}",
                )
            result[k] = dim
    return tuple(result)


# -------------------------------------------------------------------------- tensors


@dataclass(frozen=True, slots=True)
class TensorType:
    """dtype and shape of a tensor; `weak` marks a Python number (rank 0 only)."""

    dtype: DType
    shape: Shape = ()
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return size_of(self.shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape)

    def with_shape(self, shape: Iterable[Dim]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def without(self, axes: Iterable[int]) -> TensorType:
        """The type with these (non-negative) axes removed."""
        gone = set(axes)
        return self.with_shape(d for k, d in enumerate(self.shape) if k not in gone)

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype.name
        return f"{self.dtype.name}[{', '.join(dim_text(d) for d in self.shape)}]"


def check_static(static: Mapping[str, int], symbols: Collection[str]) -> None:
    """Raises OptionError for a given size of what is no symbol."""
    for name in static:
        if name not in symbols:
            listed = ", ".join(symbols) or "none"
            raise OptionError(
                f"static: no dimension is called {name!r}", hint=f"symbols are {listed}"
            )

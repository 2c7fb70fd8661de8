"""Dimensions of the text language: facts told by `assert`, and what the inputs determine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gradc.errors import ParseError, ShapeError
from gradc.types import (
    Dim,
    Facts,
    Floor,
    Poly,
    Shape,
    exact_quotient,
    substitute,
    symbol,
    symbols_of,
)

__all__ = [
    "MAX_TERMS",
    "arithmetic",
    "check_size",
    "no_dimension",
    "solve_facts",
    "unbound_symbols",
]

MAX_TERMS = 200
"""Terms of a dimension; products of sums grow fast."""
MAX_SIZE = 2**62


def arithmetic(symbol: str, a: Dim, b: Dim) -> Dim:
    """`a symbol b` for `+ - * // % **`, within bounds. ShapeError outside them."""
    for d in (a, b):
        if isinstance(d, Poly) and len(d.terms) > MAX_TERMS:
            raise ShapeError(
                f"a dimension of more than {MAX_TERMS} terms", code="bad-dimension"
            )
    result: Dim
    if symbol == "+":
        result = a + b
    elif symbol == "-":
        result = a - b
    elif symbol == "*":
        result = a * b
    elif symbol in ("//", "%"):
        if b == 0:
            raise ShapeError("division by zero", code="bad-dimension")
        result = a // b if symbol == "//" else a % b
    elif (
        isinstance(a, int) and isinstance(b, int) and 0 <= b <= 64 and abs(a) < MAX_SIZE
    ):
        result = a**b
    else:
        if not isinstance(b, int) or not 0 <= b <= 16:
            raise ShapeError(
                f"a dimension to the power {b}: the power must be an int from 0 to 16",
                code="bad-dimension",
            )
        result = 1
        for _ in range(b):
            result = arithmetic("*", result, a)
    coefficients = [c for _, c in result.terms] if isinstance(result, Poly) else []
    if any(abs(c) > MAX_SIZE for c in coefficients):
        raise ShapeError("a dimension above 2**62", code="bad-dimension")
    return result


# ---------------------------------------------------------------------------- facts


def solve_facts(equations: Iterable[Dim]) -> Facts:
    """Facts from polynomials that are 0: solved for a symbol where one stands alone.

    Raises ShapeError for an equation that no sizes fulfil.
    """
    values: dict[str, Dim] = {}
    zeros: list[Dim] = []
    for equation in equations:
        left = _primitive_part(substitute(equation, values))
        if left == 0:
            continue
        if isinstance(left, int):
            raise ShapeError(
                "the assertion can't hold together with those before it",
                code="contradiction",
            )
        solved = _solve(left)
        if solved is None:
            zeros.append(left)
            continue
        name, value = solved
        new = {name: value}
        values = {k: substitute(v, new) for k, v in values.items()} | new
    kept = [substitute(z, values) for z in zeros]
    return Facts(values, tuple(z for z in kept if z != 0))


def _primitive_part(equation: Dim) -> Dim:
    """The equation divided by the common factor of its coefficients."""
    if not isinstance(equation, Poly):
        return equation
    factor = math.gcd(*(c for _, c in equation.terms))
    return exact_quotient(equation, factor) or equation


def _solve(equation: Poly) -> tuple[str, Dim] | None:
    """(symbol, value) for a symbol that stands once, alone, with coefficient 1 or -1.

    The last such symbol in reading order goes, so that `M == 2 * N` keeps `N`.
    """
    count: dict[str, int] = {}
    for monomial, _ in equation.terms:
        for atom, _power in monomial:
            for name in _names_of(atom):
                count[name] = count.get(name, 0) + 1
    alone = [
        (monomial[0][0], c)
        for monomial, c in equation.terms
        if len(monomial) == 1 and monomial[0][1] == 1 and abs(c) == 1
    ]
    candidates = [
        (name, c) for name, c in alone if isinstance(name, str) and count[name] == 1
    ]
    if not candidates:
        return None
    # prefer a symbol whose value has no minus: M = 2 * N, not N = M - ...
    best: tuple[str, Dim] | None = None
    for name, c in candidates:
        value = (equation - c * symbol(name)) * -c
        if best is None or _negatives(value) < _negatives(best[1]):
            best = (name, value)
    return best


def _names_of(atom: str | Floor) -> tuple[str, ...]:
    if isinstance(atom, str):
        return (atom,)
    return (*symbols_of(atom.num), *symbols_of(atom.den))


def _negatives(d: Dim) -> int:
    if isinstance(d, int):
        return d < 0
    return sum(c < 0 for _, c in d.terms)


# ---------------------------------------------------- what the inputs' shapes determine


def unbound_symbols(shapes: Sequence[Shape]) -> tuple[str, ...]:
    """The symbols that no input's shape determines, in reading order.

    A symbol is determined by a dimension that is linear in it with a number as its coefficient
    and holds no other symbol that is not determined.
    """
    pending: list[Dim] = [d for shape in shapes for d in shape if isinstance(d, Poly)]
    known: set[str] = set()
    every: dict[str, None] = {}
    for d in pending:
        every.update(dict.fromkeys(symbols_of(d)))
    progress = True
    while progress:
        progress = False
        for d in pending:
            unknown = [s for s in symbols_of(d) if s not in known]
            if len(unknown) == 1 and is_linear(d, unknown[0]):
                known.add(unknown[0])
                progress = True
    return tuple(s for s in every if s not in known)


def is_linear(d: Dim, name: str) -> bool:
    """Whether `d` is an integer times the symbol, plus what does not hold it."""
    assert isinstance(d, Poly)
    for monomial, _ in d.terms:
        if monomial == ((name, 1),):
            continue
        if any(name in _names_of(atom) for atom, _ in monomial):
            return False
    return True


def check_size(d: Dim) -> Dim:
    """A dimension as an axis length. ShapeError where it is negative or beyond 2**62."""
    if isinstance(d, int) and d < 0:
        raise ShapeError(f"a dimension can't be negative: {d}", code="bad-dimension")
    if isinstance(d, int) and d > MAX_SIZE:
        raise ShapeError(f"a dimension above 2**62: {d}", code="bad-dimension")
    return d


def no_dimension(found: str) -> ParseError:
    """The error for something else where a dimension stands."""
    return ParseError(
        f"a dimension must be a name, an int or arithmetic of these, found {found}",
        code="bad-dimension",
    )

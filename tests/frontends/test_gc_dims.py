"""Facts about dimensions, and what the inputs' shapes determine."""

from __future__ import annotations

import pytest

from gradc.errors import GradcErrors, ShapeError
from gradc.frontends.gc import parse
from gradc.frontends.gc_dims import arithmetic, solve_facts, unbound_symbols
from gradc.types import Dim, symbol

N, M, K = symbol("N"), symbol("M"), symbol("K")


@pytest.mark.parametrize(
    ("equations", "values", "zeros"),
    [
        ([M - 2 * N], {"M": 2 * N}, ()),
        ([2 * N - M], {"M": 2 * N}, ()),
        ([N - 3], {"N": 3}, ()),
        ([2 * N - 6], {"N": 3}, ()),
        ([M - N, N - K], {"K": N, "M": N}, ()),
        ([M - 2 * N, N - 4], {"M": 8, "N": 4}, ()),
        ([N * M - K], {"K": N * M}, ()),
        ([N * M - 2 * K * K], {}, (N * M - 2 * K * K,)),
        ([M - M], {}, ()),
        ([M - N // 2], {"M": N // 2}, ()),
        ([N // 2 - N], {}, (N // 2 - N,)),
        ([M - 2 * N, M - 2 * N], {"M": 2 * N}, ()),
    ],
)
def test_facts(
    equations: list[Dim], values: dict[str, Dim], zeros: tuple[Dim, ...]
) -> None:
    facts = solve_facts(equations)
    assert dict(facts.values) == values
    assert [z in (zero, -zero) for z, zero in zip(facts.zeros, zeros, strict=True)] == [
        True
    ] * len(zeros)


def test_facts_that_no_sizes_fulfil() -> None:
    with pytest.raises(ShapeError, match="can't hold"):
        solve_facts([M - N, M - N - 1])


@pytest.mark.parametrize(
    ("shapes", "loose"),
    [
        ([(N,)], ()),
        ([(N * M, M)], ("N",)),
        ([(2 * N + 1,)], ()),
        ([(N + M, M)], ()),
        ([(N + M,)], ("M", "N")),
        ([(N // 2,)], ("N",)),
        ([(N + N // 2,)], ("N",)),
        ([(3, 4)], ()),
        ([(N * N,), (M, 2)], ("N",)),
        ([(N + M, M - K), (K,)], ()),
    ],
)
def test_unbound_symbols(shapes: list[tuple[Dim, ...]], loose: tuple[str, ...]) -> None:
    assert sorted(unbound_symbols(shapes)) == sorted(loose)


def test_bounds_of_arithmetic() -> None:
    with pytest.raises(ShapeError, match="power"):
        arithmetic("**", N, 17)
    with pytest.raises(ShapeError, match="division by zero"):
        arithmetic("%", N, 0)
    with pytest.raises(ShapeError, match=r"2\*\*62"):
        arithmetic("*", N, 2**63)
    wide: Dim = 0
    for k in range(300):
        wide = wide + symbol(f"s{k}")
    with pytest.raises(ShapeError, match="terms"):
        arithmetic("*", wide, wide)
    assert arithmetic("**", N + 1, 2) == N * N + 2 * N + 1


def test_types_are_made_with_the_facts() -> None:
    graph = parse(
        "assert M == 2 * N\nassert K == M\nx: float[N]\ny: float[K]\nreturn x, y"
    )
    assert graph.inputs[1].shape == (2 * N,)
    assert graph.facts.equal(K, 2 * N)


def test_facts_that_are_not_solved_still_decide_declarations() -> None:
    text = "assert N * M == 2 * K * K\nx: float[N, M]\nk: float[K]\ny: float[2 * K * K] = x.ravel()\nreturn y"
    assert len(parse(text).facts.zeros) == 1
    with pytest.raises(GradcErrors, match=r"y is declared float64\[2 \* K\*\*2\]"):
        parse(text.replace("assert N * M == 2 * K * K\n", ""))


def test_different_symbols_never_broadcast() -> None:
    with pytest.raises(GradcErrors, match="N and M") as caught:
        parse("x: float[N]\ny: float[M]\nz = x + y\nreturn z", "m.gc")
    (error,) = caught.value.errors
    assert error.notes == ("x: float64[N] (m.gc:1)", "y: float64[M] (m.gc:2)")
    assert error.hint == "where they are the same, write: assert N == M"

"""Where buffers lie: never over each other while both are in use, and reused after."""

from __future__ import annotations

import itertools

import numpy as np
from handmade import (
    CASES,
    ap,
    arguments,
    compiled,
    given,
    lanes,
    load,
    num,
    outputs_of,
    result,
    store,
    tile,
    workspace,
)

from gradc.emit.numba_kernel import numba_kernel
from gradc.schedule.buffers import arena, buffers_of
from gradc.schedule.program import Buffer, Program, Stmt
from gradc.types import evaluate_dim, float32, float64, size_of, symbol

N, D = symbol("N"), symbol("D")


def chain(length: int) -> Program:
    """x + 1 + 1 + ..., a workspace a step."""
    names = ["x", *(f"h{k}" for k in range(length)), "out"]
    body: list[Stmt] = [
        lanes("i", N, store(to, "i", value=ap("add", load(of, "i"), num(1))))
        for of, to in itertools.pairwise(names)
    ]
    spaces = [workspace(name, N) for name in names[1:-1]]
    return Program(
        "chain", ("N",), (given("x", N), *spaces, result("out", N)), tuple(body)
    )


def test_a_chain_needs_two_places() -> None:
    assert arena(chain(100)).size == 16 * ((N + 7) // 8)


def test_a_chain_computes_what_it_should() -> None:
    program = chain(5)
    kernel = numba_kernel(program)
    arrays = {"x": np.arange(11.0)} | outputs_of(program, {"N": 11})
    assert compiled(kernel)(*arguments(program, kernel, arrays, {"N": 11})) == 0
    np.testing.assert_array_equal(arrays["out"], np.arange(11.0) + 6)


def test_a_long_chain_is_placed_in_linear_time() -> None:
    found = arena(chain(20_000))
    assert len(found.offsets) == 20_000


def test_live_buffers_never_overlap() -> None:
    sizes = {"N": 13, "D": 5}
    for program in [chain(7), *(case.program for case in CASES)]:
        found = arena(program)
        buffers = {b.name: b for b in program.buffers}
        uses: dict[str, list[int]] = {}
        for place, stmt in enumerate(program.body):
            for name in buffers_of(stmt):
                uses.setdefault(name, []).append(place)
        spans = []
        for name, offset in found.offsets.items():
            b = buffers[name]
            first = evaluate_dim(offset, sizes) * 8
            last = first + evaluate_dim(size_of(b.dims), sizes) * b.dtype.bits // 8
            assert first % 64 == 0
            assert last <= evaluate_dim(found.size, sizes) * 8
            spans.append((first, last, min(uses[name]), max(uses[name])))
        for k, a in enumerate(spans):
            for b in spans[:k]:
                apart = a[1] <= b[0] or b[1] <= a[0]
                assert apart or a[3] < b[2] or b[3] < a[2]


def test_literal_buffers_lie_at_literal_offsets() -> None:
    body = (
        lanes("i", N, store("h", "i", value=num(0))),
        lanes("i", 3, store("a", "i", value=num(0))),
        lanes("i", 3, store("b", "i", value=load("a", "i"))),
        lanes("i", N, store("out", "i", value=ap("add", load("h", "i"), load("b", 1)))),
    )
    buffers = (workspace("h", N), tile("a", 3), tile("b", 3), result("out", N))
    found = arena(Program("p", ("N",), buffers, body))
    assert found.offsets == {"h": 16, "a": 0, "b": 8}


def test_two_sizes_share_a_place_where_one_is_known_to_be_larger() -> None:
    body = (
        lanes("i", N, store("h", "i", value=num(0))),
        lanes("i", 2 * N, store("g", "i", value=num(0))),
        lanes("i", D, store("k", "i", value=num(0))),
    )
    small = workspace("h", N)
    large = workspace("g", 2 * N)
    other = workspace("k", D)
    found = arena(Program("p", ("N", "D"), (small, large, other), body))
    assert found.offsets["h"] == found.offsets["g"] == 0
    assert found.offsets["k"] != 0  # which of D and 2 * N is larger is not known
    assert found.size == 8 * ((D + 7) // 8) + 8 * ((N + 3) // 4)


def test_other_dtypes_take_their_own_room() -> None:
    body = (lanes("i", 20, store("s", "i", value=num(0, float32))),)
    found = arena(Program("p", (), (tile("s", 20, dtype=float32),), body))
    assert found.size == 16


def test_an_alias_keeps_its_storage_alive() -> None:
    again = Buffer("again", float64, (N, 1), "workspace", "h")
    body = (
        lanes("i", N, store("h", "i", value=num(0))),
        lanes("i", N, store("g", "i", value=num(0))),
        lanes("i", N, store("out", "i", value=load("again", "i", 0))),
    )
    buffers = (workspace("h", N), workspace("g", N), again, result("out", N))
    found = arena(Program("p", ("N",), buffers, body))
    assert found.offsets["h"] != found.offsets["g"]
    assert "again" not in found.offsets

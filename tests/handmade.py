"""Programs written by hand, with what they should compute, and a way to run their kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

import gradc.ops.elementwise  # noqa: F401  (enters the ops)
from gradc.emit import blassource, mathsource
from gradc.emit.numba_kernel import KernelSource
from gradc.ops.registry import lookup
from gradc.schedule.program import (
    Apply,
    AxisValue,
    Buffer,
    Call,
    Check,
    Expr,
    If,
    Index,
    Let,
    Lin,
    Lit,
    Load,
    Loop,
    Note,
    Program,
    Ref,
    Size,
    Stmt,
    Store,
    StoreMode,
    View,
    While,
)
from gradc.types import (
    Dim,
    DType,
    TensorType,
    bool_,
    evaluate_dim,
    float32,
    float64,
    int32,
    int64,
    symbol,
)

N, D, m = symbol("N"), symbol("D"), symbol("m")


# ------------------------------------------------------------------- short spellings


def ap(op: str, *args: Expr, **attrs: Any) -> Apply:
    """An op of expressions, its dtype by the op's own rule."""
    found = lookup(op)
    assert found is not None, op
    type_ = found.type(*(TensorType(a.dtype) for a in args), **attrs)
    return Apply(op, args, type_.dtype, tuple(attrs.items()))


def cast(expr: Expr, dtype: DType) -> Apply:
    return Apply("cast", (expr,), dtype)


def at(index: str | int | Index | tuple[str, ...]) -> Index:
    """`"i"`, `("n", "i")` for n + i, a number, or an index as it is."""
    if isinstance(index, str):
        return Lin(0, ((index, 1),))
    if isinstance(index, int):
        return Lin(index)
    if isinstance(index, tuple):
        return Lin(0, tuple((a, 1) for a in index))
    return index


def load(name: str, *index: Any, dtype: DType = float64) -> Load:
    return Load(name, tuple(at(i) for i in index), dtype)


def store(name: str, *index: Any, value: Expr, mode: StoreMode = "=") -> Store:
    return Store(name, tuple(at(i) for i in index), mode, value)


def num(value: Any, dtype: DType = float64) -> Lit:
    return Lit(value, dtype)


def lanes(axis: str, extent: Dim, *body: Stmt) -> Loop:
    return Loop(axis, extent, body, "lanes")


def loop(axis: str, extent: Dim, *body: Stmt, **more: Any) -> Loop:
    return Loop(axis, extent, body, **more)


def block(axis: str, extent: Dim, step: int, *body: Stmt, rows: str = "m") -> Loop:
    return Loop(axis, extent, body, "block", step, rows)


def given(name: str, *dims: Dim, dtype: DType = float64) -> Buffer:
    return Buffer(name, dtype, dims, "input")


def result(name: str, *dims: Dim, dtype: DType = float64) -> Buffer:
    return Buffer(name, dtype, dims, "output")


def tile(name: str, *dims: int, dtype: DType = float64) -> Buffer:
    return Buffer(name, dtype, dims, "tile")


def workspace(name: str, *dims: Dim, dtype: DType = float64) -> Buffer:
    return Buffer(name, dtype, dims, "workspace")


# ----------------------------------------------------------------------- running them


def compiled(kernel: KernelSource) -> Callable[..., int]:
    """The kernel through Numba, its helpers as an emitted module has them."""
    scope: dict[str, Any] = {"np": np, "math": math}
    blas = blassource.closure(kernel.routines)
    if blas.plain or blas.constants:
        scope |= {n: __import__(n) for n in ("ctypes", "importlib", "pathlib")}
        scope["Any"] = Any
        exec("\n".join(blas.constants), scope)  # noqa: S102
        for plain in blas.plain:
            exec(plain.text, scope)  # noqa: S102
        scope["_bind"](scope, *blas.routines)
    options: dict[str, Any] = {"error_model": "numpy"}
    for helper in mathsource.closure(kernel.helpers):
        exec(helper.text, scope)  # noqa: S102
        flags = set(helper.flags)
        wrap = njit(fastmath=flags, forceinline=True, **options)
        scope[helper.name] = wrap(scope[helper.name])
    for routine in blas.helpers:
        exec(routine.text, scope)  # noqa: S102
        wrap = njit(fastmath=set(routine.flags), **options)
        scope[routine.name] = wrap(scope[routine.name])
    exec(kernel.text, scope)  # noqa: S102
    for part in kernel.parts:
        scope[part.name] = njit(fastmath={"contract"}, **options)(scope[part.name])
    found: Callable[..., int] = njit(fastmath={"contract"}, **options)(
        scope[kernel.name]
    )
    return found


def outputs_of(program: Program, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Arrays for the outputs, with nothing in them that should be there."""
    found = {}
    for b in program.buffers:
        if b.place == "output":
            shape = tuple(evaluate_dim(d, sizes) for d in b.dims)
            found[b.name] = np.full(shape, 77, b.dtype.name)
    return found


def arguments(
    program: Program,
    kernel: KernelSource,
    arrays: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> list[Any]:
    """The kernel's arguments in order; the arena is full of NaN."""
    arena = np.full(evaluate_dim(kernel.arena, sizes), np.nan)
    return [
        sizes[name] if name in sizes else arrays.get(name, arena)
        for name in kernel.parameters
    ]


# --------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Case:
    """A program, inputs for sizes, and the outputs wanted (a status where they are None)."""

    program: Program
    inputs: Callable[[np.random.Generator, Mapping[str, int]], dict[str, Any]]
    wanted: Callable[..., dict[str, Any] | int]
    sizes: tuple[dict[str, int], ...] = tuple({"N": n} for n in (0, 1, 63, 64, 65, 513))
    tolerance: float = 1e-12

    def __str__(self) -> str:
        return self.program.name


def _axpy() -> Case:
    body = lanes(
        "i",
        N,
        store(
            "out",
            "i",
            value=ap("add", ap("multiply", load("a"), load("x", "i")), load("y", "i")),
        ),
    )
    return Case(
        Program(
            "axpy",
            ("N",),
            (given("a"), given("x", N), given("y", N), result("out", N)),
            (body,),
        ),
        lambda rng, s: {
            "a": np.float64(1.5),
            "x": rng.normal(size=s["N"]),
            "y": rng.normal(size=s["N"]),
        },
        lambda a, x, y, **_: {"out": a * x + y},
    )


def _total(dtype: DType) -> Case:
    body = (
        store("s", value=num(0, dtype)),
        lanes("i", N, store("s", value=load("x", "i", dtype=dtype), mode="+")),
        store("total", value=load("s", dtype=dtype)),
        store("greatest", value=num(-np.inf, dtype)),
        lanes(
            "i",
            N,
            store("greatest", value=load("x", "i", dtype=dtype), mode="max"),
        ),
    )
    return Case(
        Program(
            f"total_{dtype}",
            ("N",),
            (
                given("x", N, dtype=dtype),
                result("total", dtype=dtype),
                result("greatest", dtype=dtype),
                tile("s", dtype=dtype),
            ),
            body,
        ),
        lambda rng, s: {"x": rng.normal(size=s["N"]).astype(dtype.name)},
        lambda x, **_: {"total": x.sum(), "greatest": x.max(initial=-np.inf)},
        tolerance=1e-12 if dtype == float64 else 1e-4,
    )


def _extremes(dtype: DType) -> Case:
    """Extremes of rows, NaN of either sign in some; one kept in a scalar, one in the output."""
    x = load("x", "i", "j", dtype=dtype)
    body = loop(
        "i",
        N,
        store("t", value=num(-np.inf, dtype)),
        lanes("j", D, store("t", value=x, mode="max")),
        store("high", "i", value=load("t", dtype=dtype)),
        store("low", "i", value=num(np.inf, dtype)),
        lanes("j", D, store("low", "i", value=x, mode="min")),
    )

    def inputs(rng: np.random.Generator, s: Mapping[str, int]) -> dict[str, Any]:
        x = rng.normal(size=(s["N"], s["D"])).astype(dtype.name)
        x[1, 5:] = np.nan
        x[2, 3] = -x[1, -1]
        x[3] = -np.inf
        x[4] = 0 * np.sign(x[4])
        return {"x": x}

    return Case(
        Program(
            f"extremes_{dtype}",
            ("N", "D"),
            (
                given("x", N, D, dtype=dtype),
                result("high", N, dtype=dtype),
                result("low", N, dtype=dtype),
                tile("t", dtype=dtype),
            ),
            (body,),
        ),
        inputs,
        lambda x, **_: {"high": x.max(1), "low": x.min(1)},
        sizes=tuple({"N": 6, "D": d} for d in (7, 63, 64, 65, 513)),
    )


def _logsumexp() -> Case:
    """Three phases over one axis; exp in the gradient's own memory."""
    e = Ref("e", float64)
    body = (
        Note("value = logsumexp(x)"),
        store("top", value=num(-np.inf)),
        lanes("i", N, store("top", value=load("x", "i"), mode="max")),
        store("s", value=num(0)),
        lanes(
            "i",
            N,
            Let("e", ap("exp", ap("subtract", load("x", "i"), load("top")))),
            store("x_bar", "i", value=e),
            store("s", value=e, mode="+"),
        ),
        store("value", value=ap("add", load("top"), ap("log", load("s")))),
        Let("scale", ap("divide", num(1), load("s"))),
        lanes("i", N, store("x_bar", "i", value=Ref("scale", float64), mode="*")),
    )

    def wanted(x: Any, **_: Any) -> dict[str, Any]:
        top = x.max(initial=-np.inf)
        e = np.exp(x - top)
        return {"value": top + np.log(e.sum()), "x_bar": e / e.sum()}

    return Case(
        Program(
            "logsumexp",
            ("N",),
            (
                given("x", N),
                result("value"),
                result("x_bar", N),
                tile("top"),
                tile("s"),
            ),
            body,
        ),
        lambda rng, s: {"x": 3 * rng.normal(size=s["N"])},
        wanted,
        sizes=tuple({"N": n} for n in (1, 63, 64, 65, 513)),
    )


def _softmax_blocks() -> Case:
    """Rows of a softmax, 64 at a time in a tile with the rows innermost."""
    body = block(
        "n",
        N,
        64,
        loop("k", D, lanes("i", m, store("top", "i", value=num(-np.inf)))),
        lanes("i", m, store("top", "i", value=num(-np.inf))),
        lanes("i", m, store("s", "i", value=num(0))),
        loop(
            "i",
            m,
            loop("k", 5, store("t", "k", "i", value=load("x", ("n", "i"), "k"))),
        ),
        loop(
            "k",
            5,
            lanes("i", m, store("top", "i", value=load("t", "k", "i"), mode="max")),
        ),
        loop(
            "k",
            5,
            lanes(
                "i",
                m,
                Let(
                    "e",
                    ap("exp", ap("subtract", load("t", "k", "i"), load("top", "i"))),
                ),
                store("t", "k", "i", value=Ref("e", float64)),
                store("s", "i", value=Ref("e", float64), mode="+"),
            ),
        ),
        loop(
            "i",
            m,
            Loop(
                "k",
                5,
                (
                    store(
                        "out",
                        ("n", "i"),
                        "k",
                        value=ap("divide", load("t", "k", "i"), load("s", "i")),
                    ),
                ),
                "unroll",
            ),
        ),
    )

    def wanted(x: Any, **_: Any) -> dict[str, Any]:
        e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf))
        return {"out": e / e.sum(1, keepdims=True)}

    return Case(
        Program(
            "softmax",
            ("N", "D"),
            (
                given("x", N, 5),
                result("out", N, 5),
                tile("t", 5, 64),
                tile("top", 64),
                tile("s", 64),
            ),
            (body,),
        ),
        lambda rng, s: {"x": 3 * rng.normal(size=(s["N"], 5))},
        wanted,
        sizes=tuple({"N": n, "D": 1} for n in (0, 1, 63, 64, 65, 513)),
    )


def logistic_program() -> Program:
    """Logistic regression, value and gradient, one pass over X in blocks of 512 rows."""
    z, zi, e = load("z", "i"), Ref("zi", float64), Ref("e", float64)
    y = load("y", ("n", "i"))
    slope = ap(
        "divide",
        ap("select", ap("greater_equal", zi, num(0)), num(1), e),
        ap("add", num(1), e),
    )
    size = cast(Size(N), float64)
    product = ap("multiply", load("X", ("n", "i"), "j"), load("w", "j"))
    body = (
        lanes("j", D, store("w_bar", "j", value=num(0))),
        store("s", value=num(0)),
        block(
            "n",
            N,
            512,
            Note("z = X @ w"),
            loop(
                "i",
                m,
                store("dot", value=num(0)),
                lanes("j", D, store("dot", value=product, mode="+")),
                store("z", "i", value=load("dot")),
            ),
            Note("loss = sum(softplus(z) - y * z) / N + l2 * sum(w**2)"),
            lanes(
                "i",
                m,
                Let("zi", z),
                Let("e", ap("exp", ap("negative", ap("absolute", zi)))),
                store(
                    "s",
                    value=ap(
                        "subtract",
                        ap("add", ap("maximum", zi, num(0)), ap("log1p", e)),
                        ap("multiply", y, zi),
                    ),
                    mode="+",
                ),
                store("z", "i", value=ap("divide", ap("subtract", slope, y), size)),
            ),
            Note("adjoint of X @ w by w"),
            Loop(
                "i",
                m,
                (
                    lanes(
                        "j",
                        D,
                        store(
                            "w_bar",
                            "j",
                            value=ap("multiply", z, load("X", ("n", "i"), "j")),
                            mode="+",
                        ),
                    ),
                ),
                "jam",
                4,
            ),
        ),
        store("r", value=num(0)),
        lanes(
            "j",
            D,
            store("r", value=ap("multiply", load("w", "j"), load("w", "j")), mode="+"),
            store(
                "w_bar",
                "j",
                value=ap(
                    "multiply", ap("multiply", num(2), load("l2")), load("w", "j")
                ),
                mode="+",
            ),
        ),
        store(
            "loss",
            value=ap(
                "add",
                ap("divide", load("s"), size),
                ap("multiply", load("l2"), load("r")),
            ),
        ),
    )
    return Program(
        "value_and_gradients",
        ("N", "D"),
        (
            given("X", N, D),
            given("y", N),
            given("w", D),
            given("l2"),
            result("loss"),
            result("w_bar", D),
            tile("z", 512),
            tile("dot"),
            tile("s"),
            tile("r"),
        ),
        body,
        doc="One pass over X.",
    )


def _logistic() -> Case:
    def inputs(rng: np.random.Generator, s: Mapping[str, int]) -> dict[str, Any]:
        return {
            "X": rng.normal(size=(s["N"], s["D"])),
            "y": (rng.random(s["N"]) > 0.5).astype(float),
            "w": rng.normal(size=s["D"]),
            "l2": np.float64(0.1),
        }

    def wanted(X: Any, y: Any, w: Any, l2: Any, **_: Any) -> dict[str, Any]:
        z = X @ w
        loss = np.sum(np.logaddexp(0, z) - y * z) / len(y) + l2 * np.sum(w * w)
        slope = (1 / (1 + np.exp(-z)) - y) / len(y)
        return {"loss": loss, "w_bar": X.T @ slope + 2 * l2 * w}

    pairs = [(1, 1), (1, 3), (3, 0), (5, 1), (63, 3), (512, 2), (514, 3), (1027, 2)]
    return Case(
        logistic_program(),
        inputs,
        wanted,
        sizes=tuple({"N": n, "D": d} for n, d in pairs),
    )


def _gather(checked: bool) -> Case:
    """Rows of a table by wrapped indices, and their cotangents added back."""
    raw = load("ids", "i", dtype=int64)
    size = Size(D)
    wrapped = ap("select", ap("less", raw, num(0, int64)), ap("add", raw, size), raw)
    row = Ref("row", int64)
    inside = ap(
        "logical_and",
        ap("less_equal", num(0, int64), row),
        ap("less", row, size),
    )
    body = (
        loop("k", D, loop("j", 3, store("back", "k", "j", value=num(0)))),
        loop(
            "i",
            N,
            Let("row", wrapped),
            *([Check(inside, 3)] if checked else []),
            lanes(
                "j",
                3,
                store("out", "i", "j", value=load("table", row, "j")),
                store("back", row, "j", value=load("bar", "i", "j"), mode="+"),
            ),
        ),
    )

    def wanted(table: Any, ids: Any, bar: Any, **_: Any) -> dict[str, Any] | int:
        if np.any((ids >= len(table)) | (ids < -len(table))):
            return 3
        back = np.zeros_like(table)
        np.add.at(back, ids, bar)
        return {"out": table[ids], "back": back}

    def inputs(rng: np.random.Generator, s: Mapping[str, int]) -> dict[str, Any]:
        high = s["D"] + (checked and s["N"] > 63)
        return {
            "table": rng.normal(size=(s["D"], 3)),
            "ids": rng.integers(-s["D"], high, s["N"]),
            "bar": rng.normal(size=(s["N"], 3)),
        }

    return Case(
        Program(
            "gather_checked" if checked else "gather",
            ("N", "D"),
            (
                given("table", D, 3),
                given("ids", N, dtype=int64),
                given("bar", N, 3),
                result("out", N, 3),
                result("back", D, 3),
            ),
            body,
        ),
        inputs,
        wanted,
        sizes=tuple({"N": n, "D": 7} for n in (0, 1, 63, 64, 65, 513)),
    )


def _cumsum() -> Case:
    """Running sums from both ends, with the sum so far in a local variable."""
    body = (
        store("t", value=num(0)),
        loop(
            "i",
            N,
            store("t", value=load("x", "i"), mode="+"),
            store("out", "i", value=load("t")),
        ),
        store("t", value=num(0)),
        loop(
            "i",
            N,
            store("t", value=load("x", "i"), mode="+"),
            store("back", "i", value=load("t")),
            reverse=True,
        ),
    )
    return Case(
        Program(
            "cumsum",
            ("N",),
            (given("x", N), result("out", N), result("back", N), tile("t")),
            body,
        ),
        lambda rng, s: {"x": rng.normal(size=s["N"])},
        lambda x, **_: {"out": np.cumsum(x), "back": np.cumsum(x[::-1])[::-1]},
    )


def _flip_and_shift() -> Case:
    """Affine indices with offsets, strides and a negative step."""
    last = Lin(N - 1, (("i", -1),))
    body = (
        lanes("i", N, store("flipped", "i", value=load("x", last))),
        lanes("i", N, store("even", "i", value=load("x2", Lin(0, (("i", 2),))))),
        lanes("i", N, store("odd", "i", value=load("x2", Lin(1, (("i", 2),))))),
    )
    return Case(
        Program(
            "flip_and_shift",
            ("N",),
            (
                given("x", N),
                given("x2", 2 * N),
                result("flipped", N),
                result("even", N),
                result("odd", N),
            ),
            body,
        ),
        lambda rng, s: {
            "x": rng.normal(size=s["N"]),
            "x2": rng.normal(size=2 * s["N"]),
        },
        lambda x, x2, **_: {"flipped": x[::-1], "even": x2[::2], "odd": x2[1::2]},
    )


def _lane_sum() -> Case:
    """Sums over the lanes that land in an array; a workspace between two loops."""
    body = (
        loop("k", D, store("sums", "k", value=num(0))),
        loop(
            "k",
            D,
            lanes(
                "i",
                N,
                Let("v", ap("multiply", load("x", "k", "i"), load("w", "i"))),
                store("h", "k", "i", value=Ref("v", float64)),
                store("sums", "k", value=Ref("v", float64), mode="+"),
            ),
        ),
        loop(
            "k",
            D,
            lanes(
                "i",
                N,
                store("out", "k", "i", value=ap("negative", load("h", "k", "i"))),
            ),
        ),
    )
    return Case(
        Program(
            "lane_sum",
            ("N", "D"),
            (
                given("x", D, N),
                given("w", N),
                result("sums", D),
                result("out", D, N),
                workspace("h", D, N),
                workspace("spare", N, dtype=float32),
            ),
            body,
        ),
        lambda rng, s: {
            "x": rng.normal(size=(s["D"], s["N"])),
            "w": rng.normal(size=s["N"]),
        },
        lambda x, w, **_: {"sums": x @ w, "out": -(x * w)},
        sizes=tuple({"N": n, "D": 3} for n in (0, 1, 63, 64, 65, 513)),
    )


def _jam_rows() -> Case:
    """A jammed loop with a dot product a row: each row has its own accumulator."""
    product = ap("multiply", load("x", "i", "j"), load("w", "j"))
    body = Loop(
        "i",
        N,
        (
            store("dot", value=num(0)),
            lanes("j", D, store("dot", value=product, mode="+")),
            Let("d", ap("multiply", load("dot"), load("dot"))),
            store("out", "i", value=Ref("d", float64)),
        ),
        "jam",
    )
    return Case(
        Program(
            "jam_rows",
            ("N", "D"),
            (given("x", N, D), given("w", D), result("out", N), tile("dot")),
            (body,),
        ),
        lambda rng, s: {
            "x": rng.normal(size=(s["N"], s["D"])),
            "w": rng.normal(size=s["D"]),
        },
        lambda x, w, **_: {"out": (x @ w) ** 2},
        sizes=tuple({"N": n, "D": 7} for n in (0, 1, 2, 3, 4, 5, 65)),
    )


def _control() -> Case:
    """If and While: halve until it is below 1; bool and int32 arithmetic."""
    x = load("t")
    above = ap("greater", x, num(1))
    one = num(1, int32)
    body = (
        store("any_negative", value=num(False, bool_)),
        loop(
            "i",
            N,
            store("t", value=ap("absolute", load("x", "i"))),
            store("count", value=num(0, int32)),
            While(
                above,
                (
                    store("t", value=ap("divide", x, num(2))),
                    store("count", value=one, mode="+"),
                ),
            ),
            If(
                ap("less", load("x", "i"), num(0)),
                (
                    store(
                        "halvings",
                        "i",
                        value=ap("negative", load("count", dtype=int32)),
                    ),
                ),
                (store("halvings", "i", value=load("count", dtype=int32)),),
            ),
            store("any_negative", value=ap("less", load("x", "i"), num(0)), mode="max"),
            store("place", "i", value=cast(AxisValue("i"), int32)),
        ),
    )

    def wanted(x: Any, **_: Any) -> dict[str, Any]:
        count = np.ceil(np.log2(np.maximum(np.abs(x), 1))).astype(np.int32)
        return {
            "halvings": np.where(x < 0, -count, count),
            "any_negative": np.any(x < 0),
            "place": np.arange(len(x), dtype=np.int32),
        }

    return Case(
        Program(
            "control",
            ("N",),
            (
                given("x", N),
                result("halvings", N, dtype=int32),
                result("any_negative", dtype=bool_),
                result("place", N, dtype=int32),
                tile("t"),
                tile("count", dtype=int32),
            ),
            body,
        ),
        lambda rng, s: {"x": 20 * rng.normal(size=s["N"])},
        wanted,
        sizes=tuple({"N": n} for n in (0, 1, 65)),
    )


def matrix(name: str, rows: Dim, columns: Dim, *start: Any) -> View:
    """A whole matrix as a view, or one item of a batch."""
    index = (*(at(i) for i in start), Lin(), Lin())
    return View(name, index, (rows, columns), (columns, 1))


def _products(dtype: DType) -> Case:
    """Library products: whole, by blocks of rows, in a tile, of a flattened batch."""
    rows = View("x", (at("n"), Lin()), (m, 4), (4, 1))
    part = View("t", (Lin(), Lin()), (m, 3), (8, 1))
    one, zero = num(1, dtype), num(0, dtype)
    body = (
        Call(
            "gemm",
            (
                "T",
                "N",
                one,
                matrix("x", N, 4),
                matrix("x", N, 4),
                zero,
                matrix("xx", 4, 4),
            ),
        ),
        Call("syrk", ("T", num(2, dtype), matrix("x", N, 4), one, matrix("xx", 4, 4))),
        block(
            "n",
            N,
            64,
            Call("gemm", ("N", "T", one, rows, matrix("w", 3, 4), zero, part)),
            loop(
                "i",
                m,
                loop(
                    "k",
                    3,
                    store(
                        "out", ("n", "i"), "k", value=load("t", "i", "k", dtype=dtype)
                    ),
                ),
            ),
        ),
        Call(
            "gemv",
            (
                "N",
                one,
                matrix("x", N, 4),
                View("w", (Lin(1), Lin()), (4,), (1,)),
                zero,
                View("y", (Lin(),), (N,), (1,)),
            ),
        ),
        Call(
            "gemm",
            (
                "N",
                "N",
                one,
                View("batch", (Lin(), Lin(), Lin()), (2 * N, 4), (4, 1)),
                View("w", (Lin(), Lin()), (4, 1), (1, 1)),
                zero,
                View("flat", (Lin(), Lin()), (2 * N, 1), (1, 1)),
            ),
        ),
    )

    def wanted(x: Any, w: Any, batch: Any, **_: Any) -> dict[str, Any]:
        return {
            "xx": 3 * (x.T @ x),
            "out": x @ w.T,
            "y": x @ w[1],
            "flat": batch @ w[0],
        }

    return Case(
        Program(
            f"products_{dtype}",
            ("N",),
            (
                given("x", N, 4, dtype=dtype),
                given("w", 3, 4, dtype=dtype),
                given("batch", N, 2, 4, dtype=dtype),
                result("xx", 4, 4, dtype=dtype),
                result("out", N, 3, dtype=dtype),
                result("y", N, dtype=dtype),
                result("flat", N, 2, dtype=dtype),
                tile("t", 64, 8, dtype=dtype),
            ),
            body,
        ),
        lambda rng, s: {
            "x": rng.normal(size=(s["N"], 4)).astype(dtype.name),
            "w": rng.normal(size=(3, 4)).astype(dtype.name),
            "batch": rng.normal(size=(s["N"], 2, 4)).astype(dtype.name),
        },
        wanted,
        tolerance=1e-12 if dtype == float64 else 1e-4,
    )


def _factors() -> Case:
    """Cholesky with a status, a triangular solve, and LU's solve and determinant, in a batch."""
    zero = Lin()
    body = loop(
        "b",
        N,
        loop(
            "i",
            3,
            loop("j", 3, store("chol", "b", "i", "j", value=load("a", "b", "i", "j"))),
        ),
        Call("potrf", (matrix("chol", 3, 3, "b"),), code=5),
        loop(
            "i",
            3,
            store("half", "b", "i", zero, value=load("r", "b", "i")),
        ),
        Call(
            "trsm",
            ("L", "N", "N", matrix("chol", 3, 3, "b"), matrix("half", 3, 1, "b")),
        ),
        loop(
            "i", 3, loop("j", 3, store("lu", "i", "j", value=load("a", "b", "i", "j")))
        ),
        Call("getrf", (matrix("lu", 3, 3), View("pivots", (zero,), (3,), (1,)))),
        loop("i", 3, store("x", "b", "i", zero, value=load("r", "b", "i"))),
        Call(
            "getrs",
            (
                "N",
                matrix("lu", 3, 3),
                View("pivots", (zero,), (3,), (1,)),
                matrix("x", 3, 1, "b"),
            ),
        ),
        Call(
            "det",
            (
                matrix("lu", 3, 3),
                View("pivots", (zero,), (3,), (1,)),
                View("det", (at("b"),), (), ()),
            ),
        ),
        Call(
            "slogdet",
            (
                matrix("lu", 3, 3),
                View("pivots", (zero,), (3,), (1,)),
                View("sign", (), (), ()),
                View("log", (at("b"),), (), ()),
            ),
        ),
    )

    def inputs(rng: np.random.Generator, s: Mapping[str, int]) -> dict[str, Any]:
        a = rng.normal(size=(s["N"], 3, 3))
        a = a @ a.transpose(0, 2, 1) + 0.1 * np.eye(3)
        if s["N"] > 64:
            a[-1] = -a[-1]
        return {"a": a, "r": rng.normal(size=(s["N"], 3))}

    def wanted(a: Any, r: Any, **_: Any) -> dict[str, Any] | int:
        if len(a) > 64:
            return 5
        chol = np.linalg.cholesky(a)
        return {
            "chol": chol,
            "half": np.linalg.solve(chol, r[..., None]),
            "x": np.linalg.solve(a, r[..., None]),
            "det": np.linalg.det(a),
            "log": np.linalg.slogdet(a)[1],
        }

    return Case(
        Program(
            "factors",
            ("N",),
            (
                given("a", N, 3, 3),
                given("r", N, 3),
                result("chol", N, 3, 3),
                result("half", N, 3, 1),
                result("x", N, 3, 1),
                result("det", N),
                result("log", N),
                tile("lu", 3, 3),
                tile("pivots", 3, dtype=int64),
                tile("sign"),
            ),
            (body,),
        ),
        inputs,
        wanted,
        sizes=tuple({"N": n} for n in (0, 1, 5, 65)),
        tolerance=1e-8,
    )


CASES = [
    _axpy(),
    _total(float64),
    _total(float32),
    _extremes(float64),
    _extremes(float32),
    _logsumexp(),
    _softmax_blocks(),
    _logistic(),
    _gather(False),
    _gather(True),
    _cumsum(),
    _flip_and_shift(),
    _lane_sum(),
    _jam_rows(),
    _control(),
    _products(float64),
    _products(float32),
    _factors(),
]

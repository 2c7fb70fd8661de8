"""Programs run statement by statement on NumPy scalars, as a test of schedules.

Slow and strict: an index outside its buffer, the read of an element that was never stored, a value
of another dtype than its expression says and an output that is not wholly stored are errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gradc.errors import InternalError
from gradc.ops.linalg import cofactor
from gradc.ops.registry import lookup
from gradc.schedule.program import (
    ROUTINES,
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
    Loop,
    Program,
    Ref,
    Size,
    Stmt,
    Store,
    View,
    While,
    children,
    expression_text,
)
from gradc.types import evaluate_dim

__all__ = ["interpret"]

Array: TypeAlias = "npt.NDArray[Any]"

COMBINE: Mapping[str, np.ufunc] = {
    "+": np.add,
    "*": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def interpret(
    program: Program, arrays: Mapping[str, Any], sizes: Mapping[str, int]
) -> int:
    """Run the Program; gives 0, or the code of the check or call that failed.

    `arrays` has the inputs and constants (numbers where their rank is 0) and the outputs, which
    are written in place. `sizes` has the symbols.
    """
    machine = _Machine(program, arrays, sizes)
    with np.errstate(all="ignore"):
        try:
            machine.body(program.body)
        except _Stopped as stopped:
            return stopped.code
    machine.finish()
    return 0


class _Stopped(Exception):
    """A check or a call has failed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Machine:
    def __init__(
        self, program: Program, arrays: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> None:
        self.program = program
        self.sizes = dict(sizes)
        self.axes: dict[str, int] = {}
        self.lets: dict[str, Any] = {}
        self.arrays: dict[str, Array] = {}
        self.stored: dict[str, npt.NDArray[np.bool_]] = {}
        self.buffers = {b.name: b for b in program.buffers}
        self.codes: dict[int, tuple[Expr, list[tuple[Expr, int]]]] = {}
        for b in program.buffers:
            if b.alias:
                shape = tuple(evaluate_dim(d, self.sizes) for d in b.dims)
                self.arrays[b.name] = self.arrays[b.alias].reshape(shape)
                self.stored[b.name] = self.stored[b.alias].reshape(shape)
                continue
            self.arrays[b.name] = self.array(b, arrays)
            filled = b.place in ("input", "constant")
            self.stored[b.name] = np.full(self.arrays[b.name].shape, filled)

    def array(self, buffer: Buffer, arrays: Mapping[str, Any]) -> Array:
        shape = tuple(evaluate_dim(d, self.sizes) for d in buffer.dims)
        if buffer.place in ("tile", "workspace"):
            return np.zeros(shape, buffer.dtype.name)
        given = np.asarray(arrays[buffer.name])
        if given.shape != shape or given.dtype.name != buffer.dtype.name:
            raise InternalError(
                f"{buffer.name}: {given.dtype}{given.shape}, not {buffer.dtype}{shape}"
            )
        return given

    def finish(self) -> None:
        """After the last statement: the outputs are there."""
        for b in self.program.buffers:
            if b.place == "output" and not self.stored[b.name].all():
                raise InternalError(f"{b.name} is not wholly stored")

    # ------------------------------------------------------------------ statements

    def body(self, body: Sequence[Stmt]) -> None:
        for stmt in body:
            if isinstance(stmt, Let):
                self.lets[stmt.name] = self.value(stmt.expr)
            elif isinstance(stmt, Store):
                self.store(stmt)
            elif isinstance(stmt, Loop):
                self.loop(stmt)
            elif isinstance(stmt, If):
                self.body(stmt.then if self.value(stmt.cond) else stmt.orelse)
            elif isinstance(stmt, While):
                while self.value(stmt.cond):
                    self.body(stmt.body)
            elif isinstance(stmt, Check):
                if not self.value(stmt.cond):
                    raise _Stopped(stmt.code)
            elif isinstance(stmt, Call):
                self.call(stmt)

    def loop(self, loop: Loop) -> None:
        extent = evaluate_dim(loop.extent, self.sizes)
        step = loop.step if loop.mode == "block" else 1
        rounds = range(0, extent, step)
        for k in reversed(rounds) if loop.reverse else rounds:
            self.axes[loop.axis] = k
            if loop.rows:
                self.sizes[loop.rows] = min(step, extent - k)
            self.body(loop.body)
        self.axes.pop(loop.axis, None)
        self.sizes.pop(loop.rows, None)

    def store(self, store: Store) -> None:
        value = self.value(store.expr)
        place = self.place(store.buffer, store.index)
        array = self.arrays[store.buffer]
        if store.mode != "=":
            value = COMBINE[store.mode](self.element(store.buffer, place), value)
        array[place] = value
        self.stored[store.buffer][place] = True

    # ----------------------------------------------------------------- expressions

    def value(self, expr: Expr) -> Any:
        """The value of an expression, a NumPy scalar of its dtype."""
        values: list[Any] = []
        for e, count in self.code(expr):
            args = values[len(values) - count :]
            del values[len(values) - count :]
            values.append(self.evaluated(e, args))
        return values[0]

    def code(self, expr: Expr) -> list[tuple[Expr, int]]:
        """The expression's parts, leaves first, each with its number of operands."""
        known = self.codes.get(id(expr))
        if known is not None:
            return known[1]
        order: list[tuple[Expr, int]] = []
        stack = [expr]
        while stack:
            e = stack.pop()
            below = children(e)
            order.append((e, len(below)))
            stack += below
        order.reverse()
        # kept with its expression, so that the id stays its own
        self.codes[id(expr)] = (expr, order)
        return order

    def evaluated(self, e: Expr, args: Sequence[Any]) -> Any:
        if isinstance(e, Apply):
            return self.applied(e, args)
        if isinstance(e, Lit):
            return e.dtype.numpy.type(e.value)
        if isinstance(e, Size):
            return np.int64(evaluate_dim(e.dim, self.sizes))
        if isinstance(e, AxisValue):
            return np.int64(self.axes[e.axis])
        if isinstance(e, Ref):
            return self.lets[e.name]
        return self.element(e.buffer, self.place(e.buffer, e.index, args))

    def applied(self, e: Apply, args: Sequence[Any]) -> Any:
        op = lookup(e.op)
        if op is None:
            raise InternalError(f"there is no op {e.op}")
        attrs = dict(e.attrs)
        if e.op == "cast":
            attrs.setdefault("dtype", e.dtype)
        elif e.op == "add_n":
            attrs.setdefault("method", "")
        found = np.asarray(op.evaluate(*args, **attrs))
        if found.dtype.name != e.dtype.name or found.shape:
            raise InternalError(
                f"{expression_text(e)} gives {found.dtype}{list(found.shape)}, not {e.dtype}"
            )
        return found[()]

    def place(
        self, buffer: str, index: Sequence[Index], gathered: Sequence[Any] | None = None
    ) -> tuple[int, ...]:
        """The index of an element as numbers, inside the buffer."""
        left = iter(gathered) if gathered is not None else None
        numbers: list[int] = []
        for i in index:
            if isinstance(i, Lin):
                at = evaluate_dim(i.offset, self.sizes)
                for axis, step in i.terms:
                    at += evaluate_dim(step, self.sizes) * self.axes[axis]
                numbers.append(at)
            else:
                numbers.append(int(next(left) if left is not None else self.value(i)))
        shape = self.arrays[buffer].shape
        if any(not 0 <= n < d for n, d in zip(numbers, shape, strict=True)):
            raise InternalError(f"{buffer}{numbers} is outside {list(shape)}")
        return tuple(numbers)

    def element(self, buffer: str, place: tuple[int, ...]) -> Any:
        if not self.stored[buffer][place]:
            raise InternalError(f"{buffer}{list(place)} is read but not stored before")
        return self.arrays[buffer][place]

    # ----------------------------------------------------------------------- calls

    def call(self, call: Call) -> None:
        """A library routine, by NumPy."""
        routine = ROUTINES[call.routine]
        args: list[Any] = []
        results: list[View] = []
        written: list[Any] = []
        last: Any = None
        for kind, arg in zip(routine.kinds, call.args, strict=True):
            if isinstance(arg, str):
                args.append(arg)
            elif not isinstance(arg, View):
                last = self.value(arg)
                args.append(float(last))
            elif kind == "result":
                results.append(arg)
            else:
                data, stored = self.view(arg)
                reads = kind == "in" or (kind == "update" and last != 0)
                if reads and not stored.all():
                    raise InternalError(f"{call.routine}: {arg.buffer} is not stored")
                if kind != "in":
                    written.append(stored)
                args.append(data)
        found = LIBRARY[call.routine](*args)
        if routine.status and found and call.code:
            raise _Stopped(call.code)
        for stored in written:
            stored[...] = True
        for view, value in zip(results, found if results else (), strict=True):
            place = self.place(view.buffer, view.index)
            self.arrays[view.buffer][place] = value
            self.stored[view.buffer][place] = True

    def view(self, view: View) -> tuple[Array, Array]:
        """(the elements of a view, which of them are stored), both of the memory itself."""
        array, stored = self.arrays[view.buffer], self.stored[view.buffer]
        dims = tuple(evaluate_dim(d, self.sizes) for d in view.dims)
        strides = tuple(evaluate_dim(s, self.sizes) for s in view.strides)
        if 0 in dims:
            return np.zeros(dims, array.dtype), np.ones(dims, np.bool_)
        first = int(
            np.ravel_multi_index(self.place(view.buffer, view.index), array.shape)
            if array.ndim
            else 0
        )
        reach = sum((d - 1) * s for d, s in zip(dims, strides, strict=True))
        if first + reach >= array.size or any(s < 0 for s in strides):
            raise InternalError(f"a view of {view.buffer} ends outside it")
        parts = []
        for whole in (array, stored):
            if not whole.flags.c_contiguous:
                raise InternalError(f"{view.buffer} is not contiguous")
            parts.append(
                np.lib.stride_tricks.as_strided(
                    whole.reshape(-1)[first:],
                    dims,
                    tuple(s * whole.itemsize for s in strides),
                )
            )
        return parts[0], parts[1]


# ---------------------------------------------------------------------- the routines


def _turned(flag: str, a: Array) -> Array:
    return a.T if flag == "T" else a


def _scaled(beta: float, c: Array, product: Array) -> None:
    c[...] = product if beta == 0 else product + c.dtype.type(beta) * c


def _gemm(
    ta: str, tb: str, alpha: float, a: Array, b: Array, beta: float, c: Array
) -> None:
    _scaled(beta, c, c.dtype.type(alpha) * (_turned(ta, a) @ _turned(tb, b)))


def _syrk(ta: str, alpha: float, a: Array, beta: float, c: Array) -> None:
    x = _turned(ta, a)
    _scaled(beta, c, c.dtype.type(alpha) * (x @ x.T))


def _gemv(ta: str, alpha: float, a: Array, x: Array, beta: float, y: Array) -> None:
    _scaled(beta, y, y.dtype.type(alpha) * (_turned(ta, a) @ x))


def _cofactor(a: Array, adjugate: Array, order: Array, out: Array) -> None:
    out[...] = cofactor.evaluate(a)


def _trsm(uplo: str, ta: str, diag: str, a: Array, b: Array) -> None:
    triangle = np.tril(a) if uplo == "L" else np.triu(a)
    if diag == "U":
        triangle = np.tril(triangle, -1) + np.triu(triangle, 1) + np.eye(len(a))
    try:
        b[...] = np.linalg.solve(_turned(ta, triangle), b)
    except np.linalg.LinAlgError:  # a zero on the diagonal
        b[...] = np.nan


def _potrf(a: Array) -> int:
    lower = np.tril(a)
    try:
        a[...] = np.linalg.cholesky(lower + np.tril(a, -1).T)
    except np.linalg.LinAlgError:
        return 1
    return 0


def _getrf(a: Array, pivots: Array) -> int:
    """Factors with partial pivoting, row by row; 1 where the matrix is singular."""
    status = 0
    for k in range(len(a)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        pivots[k] = p
        a[[k, p]] = a[[p, k]]
        if a[k, k] == 0:
            status = 1
            continue
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return status


def _matrix(lu: Array, pivots: Array) -> Array:
    """The matrix that `_getrf` was given."""
    lower = np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype)
    found: Array = lower @ np.triu(lu)
    for k in reversed(range(len(lu))):
        p = int(pivots[k])
        found[[k, p]] = found[[p, k]]
    return found


def _getrs(ta: str, lu: Array, pivots: Array, b: Array) -> None:
    try:
        b[...] = np.linalg.solve(_turned(ta, _matrix(lu, pivots)), b)
    except np.linalg.LinAlgError:
        b[...] = np.nan


def _getri(lu: Array, pivots: Array, x: Array) -> None:
    try:
        x[...] = np.linalg.inv(_matrix(lu, pivots))
    except np.linalg.LinAlgError:
        x[...] = np.nan


def _slogdet(lu: Array, pivots: Array) -> tuple[Any, Any]:
    found = np.linalg.slogdet(_matrix(lu, pivots))
    return found.sign, found.logabsdet


def _sort(x: Array, values: Array, order: Array, spare: Array, places: Array) -> None:
    order[...] = np.argsort(x, kind="stable")
    values[...] = x[order]


def _search(a: Array, v: Array, out: Array, side: Literal["left", "right"]) -> None:
    out[...] = np.searchsorted(a, v, side)


LIBRARY: Mapping[str, Callable[..., Any]] = {
    "gemm": _gemm,
    "syrk": _syrk,
    "gemv": _gemv,
    "trsm": _trsm,
    "potrf": _potrf,
    "getrf": _getrf,
    "getrs": _getrs,
    "getri": _getri,
    "det": lambda lu, pivots: (np.linalg.det(_matrix(lu, pivots)),),
    "slogdet": _slogdet,
    "cofactor": _cofactor,
    "sort": _sort,
    "search_left": lambda a, v, out: _search(a, v, out, "left"),
    "search_right": lambda a, v, out: _search(a, v, out, "right"),
}

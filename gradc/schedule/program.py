"""The Program: loops, statements and library calls over buffers, as the printers spell them.

The schedule makes a Program of a Graph; each of its decisions is visible in it, and `str` shows
it as text:

```
program value_and_gradients  symbols N D
input      X float64[N, D]
input      y float64[N]
output     loss float64
output     w_bar float64[D]
tile       z float64[512]
tile       dot float64
for j < D lanes:
    w_bar[j] = 0.0
block n of N by 512, m rows:
    # z = X @ w
    for i < m:
        dot = 0.0
        for j < D lanes:
            dot += X[n + i, j] * w[j]
        z[i] = dot
```

Nothing here allocates or raises: buffers are given, and a failed `Check` or `Call` ends the
kernel with its code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from gradc.ops.registry import lookup
from gradc.types import Dim, DType, Poly, dim_text, int64

__all__ = [
    "ATOM",
    "PRECEDENCE",
    "ROUTINES",
    "SELECT",
    "UNARY",
    "Apply",
    "ArgumentKind",
    "AxisValue",
    "Buffer",
    "Call",
    "Check",
    "Expr",
    "If",
    "Index",
    "Let",
    "Lin",
    "Lit",
    "Load",
    "Loop",
    "LoopMode",
    "Note",
    "Place",
    "Program",
    "Ref",
    "Routine",
    "Size",
    "Stmt",
    "Store",
    "StoreMode",
    "Text",
    "View",
    "While",
    "axis_index",
    "children",
    "dim_level",
    "expression_text",
    "expressions",
    "fold",
    "index_text",
    "infix",
    "lin_text",
    "loads",
    "numbered_lines",
    "statement_lines",
    "statements",
    "takes_slots",
    "walk",
    "with_children",
]

# ---------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class Lit:
    """A number of this dtype."""

    value: Any
    dtype: DType


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension as an int64."""

    dim: Dim
    dtype: ClassVar[DType] = int64


@dataclass(frozen=True, slots=True)
class AxisValue:
    """The counter of the loop over `axis`, an int64."""

    axis: str
    dtype: ClassVar[DType] = int64


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of the `Let` of this name."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """An element of a buffer; of a rank-0 buffer its value (`index` is then empty)."""

    buffer: str
    index: tuple[Index, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise op of the registry, by name, with the dtype of its result."""

    op: str
    args: tuple[Expr, ...]
    dtype: DType
    attrs: tuple[tuple[str, Any], ...] = ()


Expr: TypeAlias = "Lit | Size | AxisValue | Ref | Load | Apply"


@dataclass(frozen=True, slots=True)
class Lin:
    """The index `offset + sum(step * axis for axis, step in terms)`."""

    offset: Dim = 0
    terms: tuple[tuple[str, Dim], ...] = ()


Index: TypeAlias = "Lin | Expr"
"""An affine form in the axes, or an integer expression (a gathered index, wrapped and checked)."""


def axis_index(*axes: str, offset: Dim = 0) -> Lin:
    """The index `offset + axis + axis ...`."""
    return Lin(offset, tuple((axis, 1) for axis in axes))


# ----------------------------------------------------------------------- statements

StoreMode: TypeAlias = Literal["=", "+", "*", "max", "min"]
LoopMode: TypeAlias = Literal["serial", "lanes", "jam", "unroll", "block"]
Place: TypeAlias = Literal["input", "output", "workspace", "tile", "constant"]


@dataclass(frozen=True, slots=True)
class Let:
    """A scalar with a name, bound once, seen in the rest of its body and below."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """Set an element, or combine it with what is there. `max` and `min` keep NaN."""

    buffer: str
    index: tuple[Index, ...]
    mode: StoreMode
    expr: Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """`for axis in range(extent)`.

    `serial`: in order (from the end with `reverse`). `lanes`: innermost, any order, SIMD.
    `jam`: `step` (4 where it is 1) iterations side by side in one run of the loop inside.
    `unroll`: a literal extent, written out. `block`: `axis` is a block's first row (0, step,
    2 * step, ...) and `rows` a symbol of the body, `min(step, extent - axis)`; loops inside
    address row `i` of the block as `Lin(0, ((axis, 1), ("i", 1)))`.
    """

    axis: str
    extent: Dim
    body: tuple[Stmt, ...]
    mode: LoopMode = "serial"
    step: int = 1
    rows: str = ""
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """`then` where the bool `cond` is true, else `orelse`."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class While:
    """`body` as long as the bool `cond`, evaluated anew before each round, is true."""

    cond: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """The kernel ends with `code` where the bool `cond` is false."""

    cond: Expr
    code: int


@dataclass(frozen=True, slots=True)
class View:
    """Part of a buffer: the index of its first element, its dims, strides in elements."""

    buffer: str
    index: tuple[Index, ...]
    dims: tuple[Dim, ...]
    strides: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A library routine. Where it fails the kernel ends with `code`, if that is not 0."""

    routine: str
    args: tuple[View | Expr | str, ...]
    code: int = 0


ArgumentKind: TypeAlias = Literal["flag", "scalar", "in", "out", "update", "result"]


@dataclass(frozen=True, slots=True)
class Routine:
    """The arguments a routine takes, in order.

    `flag` is one of "N", "T", "L", "U"; `scalar` an expression; the others are views: read (`in`),
    written without being read (`out`), changed (`update`), or one element set to a value the
    routine gives (`result`). `status` says that it may fail, `slots` that it is BLAS or LAPACK,
    `generic` that one text serves all dtypes.
    """

    kinds: tuple[ArgumentKind, ...]
    status: bool = False
    slots: bool = True
    generic: bool = False


ROUTINES: Mapping[str, Routine] = {
    # c = alpha * op(a) @ op(b) + beta * c; c is not read where beta is 0
    "gemm": Routine(("flag", "flag", "scalar", "in", "in", "scalar", "update")),
    # c = alpha * op(a) @ op(a).T + beta * c
    "syrk": Routine(("flag", "scalar", "in", "scalar", "update")),
    # y = alpha * op(a) @ x + beta * y
    "gemv": Routine(("flag", "scalar", "in", "in", "scalar", "update")),
    # uplo, trans, diag, a, b: b = the x of op(a) @ x = b
    "trsm": Routine(("flag", "flag", "flag", "in", "update")),
    # a = its lower Cholesky factor, 0 above the diagonal
    "potrf": Routine(("update",), status=True),
    # a, pivots (int64[n]): a = its factors, for the routines below only
    "getrf": Routine(("update", "out"), status=True),
    # trans, lu, pivots, b: b = the x of op(a) @ x = b
    "getrs": Routine(("flag", "in", "in", "update")),
    # lu, pivots, x = the inverse
    "getri": Routine(("in", "in", "out")),
    # lu, pivots, the determinant
    "det": Routine(("in", "in", "result"), slots=False),
    # lu, pivots, the determinant's sign, the logarithm of its size
    "slogdet": Routine(("in", "in", "result", "result"), slots=False),
    # a (overwritten), adjugate and order (int64[2, n]) to work in, the cofactors
    "cofactor": Routine(("update", "out", "out", "out"), slots=False),
    # x, its values in ascending order, int64 places they stood at, both again to work in
    "sort": Routine(("in", "out", "out", "out", "out"), slots=False, generic=True),
    # a in ascending order, v, the int64 places before (behind) equals that keep the order
    "search_left": Routine(("in", "in", "out"), slots=False, generic=True),
    "search_right": Routine(("in", "in", "out"), slots=False, generic=True),
}
"""The library routines. Matrices have a unit last stride and a positive row stride."""


def takes_slots(body: Sequence[Stmt]) -> bool:
    """Whether BLAS or LAPACK is called, which keeps its scalars in memory."""
    return any(
        isinstance(s, Call) and ROUTINES[s.routine].slots for s in statements(body)
    )


@dataclass(frozen=True, slots=True)
class Note:
    """A comment: the source's statement that follows, or the section that begins or ends."""

    text: str
    is_section: bool = False


Stmt: TypeAlias = "Let | Store | Loop | If | While | Check | Call | Note"


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array. A `tile` has literal dims; a rank-0 tile is a local variable.

    `alias` names the (contiguous) buffer whose storage this is under other dims, else "".
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    place: Place
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """One kernel: sizes (`symbols`), buffers and what is done with them."""

    name: str
    symbols: tuple[str, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    doc: str = ""

    def __str__(self) -> str:
        symbols = f"  symbols {' '.join(self.symbols)}" if self.symbols else ""
        lines = [f"program {self.name}{symbols}"]
        lines += [_buffer_text(buffer) for buffer in self.buffers]
        lines += statement_lines(self.body)
        return "\n".join(lines)


# ---------------------------------------------------------------------------- walks

T = TypeVar("T")


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below; of a load, those in its index."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Load):
        return tuple(i for i in expr.index if not isinstance(i, Lin))
    return ()


def fold(expr: Expr, visit: Callable[[Expr, Sequence[T]], T]) -> T:
    """`visit(e, results of its children)` from the leaves up, without recursion."""
    done: list[T] = []
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        e, ready = stack.pop()
        below = children(e)
        if ready or not below:
            count = len(below)
            results = done[len(done) - count :]
            del done[len(done) - count :]
            done.append(visit(e, results))
        else:
            stack.append((e, True))
            stack += [(child, False) for child in reversed(below)]
    return done[0]


def with_children(expr: Expr, args: Sequence[Expr]) -> Expr:
    """The expression with other children."""
    if not args or tuple(args) == children(expr):
        return expr
    if isinstance(expr, Apply):
        return replace(expr, args=tuple(args))
    assert isinstance(expr, Load)
    given = iter(args)
    index = tuple(i if isinstance(i, Lin) else next(given) for i in expr.index)
    return replace(expr, index=index)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, outermost first."""
    stack = [expr]
    while stack:
        e = stack.pop()
        yield e
        stack += reversed(children(e))


def statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """All statements in program order, each before those inside it."""
    stack = list(reversed(body))
    while stack:
        s = stack.pop()
        yield s
        if isinstance(s, Loop | While):
            stack += reversed(s.body)
        elif isinstance(s, If):
            stack += reversed(s.then + s.orelse)


def expressions(body: Sequence[Stmt]) -> Iterator[Expr]:
    """All expressions, in program order; of an index, those that are no affine form."""
    for s in statements(body):
        if isinstance(s, Let):
            yield s.expr
        elif isinstance(s, Store):
            yield s.expr
            yield from (i for i in s.index if not isinstance(i, Lin))
        elif isinstance(s, If | While | Check):
            yield s.cond
        elif isinstance(s, Call):
            for a in s.args:
                if isinstance(a, View):
                    yield from (i for i in a.index if not isinstance(i, Lin))
                elif not isinstance(a, str):
                    yield a


def loads(body: Sequence[Stmt]) -> Iterator[Load]:
    """All loads in the expressions of a body."""
    for expr in expressions(body):
        yield from (e for e in walk(expr) if isinstance(e, Load))


# ----------------------------------------------------------------------------- text

PRECEDENCE = {
    "or": 2,
    "and": 3,
    "not": 4,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 5),
    "|": 6,
    "^": 7,
    "&": 8,
    "<<": 9,
    ">>": 9,
    "+": 10,
    "-": 10,
    "*": 11,
    "/": 11,
    "//": 11,
    "%": 11,
    "**": 13,
}
"""How tightly Python's infix operators bind."""
UNARY = 12
ATOM = 15
SELECT = 1

Text: TypeAlias = tuple[str, int]
"""Source text and how tightly its outermost operator binds."""


def infix(operator: str, left: Text, right: Text) -> Text:
    """`left operator right`, in the fewest parentheses that keep the grouping."""
    level = PRECEDENCE[operator]
    # comparisons chain, so neither side may be one; all others group from the left
    left_level = level + 1 if level == PRECEDENCE["<"] else level
    a = left[0] if left[1] >= left_level else f"({left[0]})"
    b = right[0] if right[1] > level else f"({right[0]})"
    return f"{a} {operator} {b}", level


def dim_level(dim: Dim) -> int:
    """How tightly the text of a dimension binds."""
    if isinstance(dim, int):
        return ATOM if dim >= 0 else UNARY
    if len(dim.terms) > 1:
        return PRECEDENCE["+"]
    monomial, coefficient = dim.terms[0]
    if coefficient == 1 and len(monomial) == 1:
        atom, power = monomial[0]
        if power > 1:
            return PRECEDENCE["**"]
        return ATOM if isinstance(atom, str) else PRECEDENCE["//"]
    return PRECEDENCE["*"] if coefficient > 0 else PRECEDENCE["+"]


def expression_text(expr: Expr) -> str:
    """The expression as a reader of Programs sees it; the printers spell their own."""
    return fold(expr, _spell)[0]


def _spell(expr: Expr, args: Sequence[Text]) -> Text:
    if isinstance(expr, Lit):
        text = repr(getattr(expr.value, "item", lambda: expr.value)())
        return text, UNARY if text.startswith("-") else ATOM
    if isinstance(expr, Size):
        return dim_text(expr.dim), dim_level(expr.dim)
    if isinstance(expr, AxisValue):
        return expr.axis, ATOM
    if isinstance(expr, Ref):
        return expr.name, ATOM
    if isinstance(expr, Load):
        return _element_text(expr.buffer, expr.index, [a for a, _ in args]), ATOM
    op = lookup(expr.op)
    spelling = op.spell.get("numba", "") if op else ""
    if spelling in PRECEDENCE and len(args) == 2:
        return infix(spelling, args[0], args[1])
    if spelling == "-x" and len(args) == 1:
        text, own = args[0]
        return f"-{text}" if own >= UNARY else f"-({text})", UNARY
    if expr.op == "cast":
        return f"{expr.dtype}({args[0][0]})", ATOM
    attrs = [f"{k}={v}" for k, v in expr.attrs]
    return f"{expr.op}({', '.join([a for a, _ in args] + attrs)})", ATOM


def lin_text(index: Lin) -> Text:
    """`n + i`, `i + 1`, `N - 1 - i`: axes, then the constant, then the axes taken away."""
    added = [(n, step) for n, step in index.terms if not _is_negative(step)]
    taken = [(n, step) for n, step in index.terms if _is_negative(step)]
    pieces = [("+", _product(step, name)) for name, step in added]
    pieces += _pieces(index.offset)
    pieces += [("-", _product(-step, name)) for name, step in taken]
    if not pieces:
        return "0", ATOM
    sign, total = pieces[0]
    if sign == "-":
        inside = total[0] if total[1] >= UNARY else f"({total[0]})"
        total = f"-{inside}", UNARY
    for sign, piece in pieces[1:]:
        total = infix(sign, total, piece)
    return total


def _pieces(dim: Dim) -> list[tuple[str, Text]]:
    """A dimension as terms with their signs, those with a plus first."""
    if isinstance(dim, int):
        return [("-" if dim < 0 else "+", (str(abs(dim)), ATOM))] if dim else []
    found: list[tuple[str, Text]] = []
    for monomial, coefficient in sorted(dim.terms, key=lambda t: (t[1] < 0, not t[0])):
        size = abs(coefficient)
        part: Dim = Poly(((monomial, size),)) if monomial else size
        sign = "-" if coefficient < 0 else "+"
        found.append((sign, (dim_text(part), dim_level(part))))
    return found


def _is_negative(step: Dim) -> bool:
    if isinstance(step, int):
        return step < 0
    return all(coefficient < 0 for _, coefficient in step.terms)


def _product(step: Dim, name: str) -> Text:
    if step == 1:
        return name, ATOM
    return infix("*", (dim_text(step), dim_level(step)), (name, ATOM))


def index_text(index: Index) -> str:
    """One index of an element."""
    return lin_text(index)[0] if isinstance(index, Lin) else expression_text(index)


def _element_text(
    buffer: str, index: tuple[Index, ...], expressions: Sequence[str] = ()
) -> str:
    left = list(reversed(expressions))
    inside = [
        index_text(i)
        if isinstance(i, Lin)
        else (left.pop() if left else expression_text(i))
        for i in index
    ]
    return f"{buffer}[{', '.join(inside)}]" if index else buffer


def _buffer_text(buffer: Buffer) -> str:
    dims = f"[{', '.join(dim_text(d) for d in buffer.dims)}]" if buffer.dims else ""
    alias = f" = {buffer.alias}" if buffer.alias else ""
    return f"{buffer.place:<10} {buffer.name} {buffer.dtype}{dims}{alias}"


def _argument_text(arg: View | Expr | str) -> str:
    if isinstance(arg, str):
        return repr(arg)
    if isinstance(arg, View):
        dims = " x ".join(_factor_text(d) for d in arg.dims) or "1"
        strides = ", ".join(dim_text(s) for s in arg.strides)
        return f"{_element_text(arg.buffer, arg.index)}: {dims} by ({strides})"
    return expression_text(arg)


def _factor_text(dim: Dim) -> str:
    text = dim_text(dim)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _loop_head(loop: Loop) -> str:
    extent = dim_text(loop.extent)
    if loop.mode == "block":
        return f"block {loop.axis} of {extent} by {loop.step}, {loop.rows} rows:"
    words = [f"for {loop.axis} < {extent}"]
    if loop.reverse:
        words.append("reverse")
    if loop.mode == "jam":
        words.append(f"jam {loop.step if loop.step > 1 else 4}")
    elif loop.mode != "serial":
        words.append(loop.mode)
    return " ".join(words) + ":"


_MODES = {"=": "=", "+": "+=", "*": "*=", "max": "max=", "min": "min="}


def _line(stmt: Stmt) -> str:
    if isinstance(stmt, Let):
        return f"let {stmt.name} = {expression_text(stmt.expr)}"
    if isinstance(stmt, Store):
        target = _element_text(stmt.buffer, stmt.index)
        return (
            f"{target} {_MODES.get(stmt.mode, stmt.mode)} {expression_text(stmt.expr)}"
        )
    if isinstance(stmt, Loop):
        return _loop_head(stmt)
    if isinstance(stmt, If):
        return f"if {expression_text(stmt.cond)}:"
    if isinstance(stmt, While):
        return f"while {expression_text(stmt.cond)}:"
    if isinstance(stmt, Check):
        return f"check {expression_text(stmt.cond)} else {stmt.code}"
    if isinstance(stmt, Call):
        args = ", ".join(_argument_text(a) for a in stmt.args)
        tail = f" else {stmt.code}" if stmt.code else ""
        return f"call {stmt.routine}({args}){tail}"
    return f"# {stmt.text}"


def numbered_lines(
    body: Sequence[Stmt], depth: int = 0
) -> Iterator[tuple[str, Stmt | None]]:
    """The lines of the statements' text, each with the statement it begins."""
    stack: list[tuple[int, Stmt | str]] = [(depth, s) for s in reversed(body)]
    while stack:
        level, item = stack.pop()
        margin = "    " * level
        if isinstance(item, str):
            yield margin + item, None
            continue
        yield margin + _line(item), item
        if isinstance(item, Loop | While):
            stack += [(level + 1, s) for s in reversed(item.body)]
        elif isinstance(item, If):
            if item.orelse:
                stack += [(level + 1, s) for s in reversed(item.orelse)]
                stack.append((level, "else:"))
            stack += [(level + 1, s) for s in reversed(item.then)]


def statement_lines(body: Sequence[Stmt], depth: int = 0) -> list[str]:
    """The statements as lines, four spaces a level."""
    return [text for text, _ in numbered_lines(body, depth)]

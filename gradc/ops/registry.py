"""What an op is: its type rule, its NumPy meaning, its derivative and its loop form.

An op is defined once, by one of `elementwise`, `linear`, `bilinear`, `primitive` or `composite`,
in one of the family files beside this one; everything else in gradc reads the `Op` made here.
Calling an op builds a node. Ops take operands of exactly the shapes and dtypes they need: the
user's functions (`functions.py` of this folder) put broadcasts and casts in before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gradc.errors import GradcError, InternalError, TypeMismatch
from gradc.graph import NO_ATTRS, Attrs, Node, Tensor
from gradc.ops.loops import Elementwise, Form
from gradc.types import DType, TensorType

__all__ = [
    "ALL",
    "ANY_NUMBER",
    "BOOL",
    "INEXACT",
    "INTEGER",
    "ONE",
    "REAL",
    "ZERO",
    "Absent",
    "Bilinear",
    "Constant",
    "Derivative",
    "Explicit",
    "Linear",
    "Op",
    "Partials",
    "Slope",
    "bilinear",
    "composite",
    "elementwise",
    "linear",
    "lookup",
    "names",
    "primitive",
]

# ------------------------------------------------------------------- dtype classes

FLOATS = frozenset({"float16", "float32", "float64"})
COMPLEX = frozenset({"complex64", "complex128"})
INTEGER = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
BOOL = frozenset({"bool"})
INEXACT = FLOATS | COMPLEX
REAL = FLOATS | INTEGER
ANY_NUMBER = INEXACT | INTEGER
ALL = ANY_NUMBER | BOOL


# ---------------------------------------------------------------- derivative forms


class _Sign:
    """A slope known without a tensor: `ZERO` (connected, derivative 0) or `ONE`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


ZERO = _Sign("ZERO")
ONE = _Sign("ONE")

Slope: TypeAlias = "Tensor | _Sign | float | Callable[[], Tensor | _Sign | float]"
Bar: TypeAlias = "Tensor | _Sign | None"


@dataclass(frozen=True, slots=True)
class Partials:
    """Elementwise: one slope an operand; `fn(*inputs, out=, **attrs)`.

    A slope is a tensor of the output's shape, a number, `ONE`, `ZERO`, or a function that makes
    one (for a slope that is dear and perhaps not wanted). The reverse mode multiplies it to the
    cotangent as a strong zero does.
    """

    fn: Callable[..., Sequence[Slope]]


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear in all differentiable operands: `transpose(out_bar, *inputs, **attrs)`.

    Gives the cotangent of the operand, or a sequence of one an operand (None for an operand that
    is no part of the linear map, such as an index).
    """

    transpose: Callable[..., Tensor | Sequence[Bar]]


@dataclass(frozen=True, slots=True)
class Bilinear:
    """Linear in each of two operands: `lhs(out_bar, rhs, node)`, `rhs(out_bar, lhs, node)`."""

    lhs: Callable[[Tensor, Tensor, Node], Tensor]
    rhs: Callable[[Tensor, Tensor, Node], Tensor]


@dataclass(frozen=True, slots=True)
class Explicit:
    """`vjp(node, *out_bars)` gives one cotangent an operand: a tensor, `ZERO`, or None for an
    operand that no derivative flows to.

    `out_bars` has an entry an output, None where none arrived. `active` names the operands that
    derivatives flow to (of a node, where it is a function), `through` the outputs they flow
    through, where that is not all inexact ones.
    """

    vjp: Callable[..., Sequence[Bar]]
    active: Collection[int] | Callable[[Node], Collection[int]] | None = None
    through: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant for every operand: there is no path through it (rounding, comparisons, indices)."""

    why: str = "it is constant almost everywhere"


@dataclass(frozen=True, slots=True)
class Absent:
    """It has a derivative that gradc cannot give: an error where a path needs it."""

    why: str = "it has no derivative"
    code: str = "no-gradient"


Derivative: TypeAlias = "Partials | Linear | Bilinear | Explicit | Constant | Absent"


# ------------------------------------------------------------------------------- ops

TypeRule: TypeAlias = "Callable[..., TensorType | tuple[TensorType, ...]]"


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """An operation. Equality is identity.

    `type(*input_types, **attrs)` derives the outputs' types; `evaluate(*arrays, **attrs)` is the
    NumPy meaning, the oracle of all targets (`out_types=` is passed where `wants_types`).
    `form(node)` is its loop form; `expand(node)` rewrites it into other ops after differentiation.
    `text(node, args)` spells it as NumPy source; `spell` names its scalar forms by target
    (`"+"` infix, `"-x"` prefix, a name for a call). `finite(node)` is True where the partials are
    finite for all finite operands. `requires(node)` gives dims that must be >= 0 at run time.
    """

    name: str
    type: TypeRule
    evaluate: Callable[..., Any]
    derivative: Derivative
    doc: str
    form: Callable[[Node], Form] | None = None
    expand: Callable[[Node], Tensor | tuple[Tensor, ...]] | None = None
    text: Callable[[Node, Sequence[str]], str] | None = None
    spell: Mapping[str, str] = field(default_factory=dict)
    accepts: frozenset[str] = ALL
    finite: bool = False
    requires: Callable[[Node], Sequence[Any]] | None = None
    sample: tuple[float, float] = (-2.0, 2.0)
    elementwise: bool = False
    cost: int = 1

    def infer(self, inputs: Sequence[Tensor], attrs: Attrs) -> tuple[TensorType, ...]:
        """The outputs' types. Errors carry the op's name."""
        for position, t in enumerate(inputs):
            if t.type.dtype.name not in self.accepts:
                raise TypeMismatch(
                    f"{self.name}: operand {position + 1} is {t.type}, which it does not take",
                    hint="it takes " + ", ".join(sorted(self.accepts)),
                )
        types = [t.type for t in inputs]
        try:
            found = self.type(*types, **attrs.as_dict()) if attrs else self.type(*types)
        except GradcError as error:
            if not error.message.startswith(self.name):
                error.message = f"{self.name}: {error.message}"
            raise
        return found if isinstance(found, tuple) else (found,)

    def node(
        self, inputs: Sequence[Tensor], attrs: Mapping[str, Any] | None = None
    ) -> Node:
        """A new node, at the current place."""
        frozen = Attrs(attrs) if attrs else NO_ATTRS
        operands = tuple(inputs)
        return Node(self, operands, frozen, self.infer(operands, frozen))

    def __call__(self, *inputs: Tensor, **attrs: Any) -> Tensor:
        """Build a node with one output. Multi-output ops are called through `many`."""
        return self.node(inputs, attrs).out

    def many(self, *inputs: Tensor, **attrs: Any) -> tuple[Tensor, ...]:
        """Build a node and give all its outputs."""
        return self.node(inputs, attrs).outputs

    def __repr__(self) -> str:
        return f"<op {self.name}>"


_OPS: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Enter an op in the registry; the name must be free."""
    if op.name in _OPS:
        raise InternalError(f"two ops are called {op.name}")
    _OPS[op.name] = op
    return op


def lookup(name: str) -> Op | None:
    """The op of this name, or None."""
    return _OPS.get(name)


def names() -> tuple[str, ...]:
    """All op names, sorted."""
    return tuple(sorted(_OPS))


def same_type(*types: TensorType) -> TensorType:
    """The type rule of elementwise ops: operands of one shape and dtype."""
    first = types[0]
    weak = first.weak
    for t in types:
        if t is not first:
            if t.dtype != first.dtype or t.shape != first.shape:
                raise InternalError(f"operands differ: {first} and {t}")
            weak = weak and t.weak
    return first.with_shape(first.shape) if first.weak and not weak else first


def elementwise(
    name: str,
    *,
    numpy: Callable[..., Any],
    partials: Callable[..., Sequence[Slope]] | None = None,
    derivative: Derivative | None = None,
    doc: str,
    accepts: frozenset[str] = INEXACT,
    type: TypeRule | None = None,
    text: str | Callable[[Node, Sequence[str]], str] = "",
    scalar: str | Mapping[str, str] = "",
    result: DType | None = None,
    expand: Callable[[Node], Tensor] | None = None,
    finite: bool = False,
    sample: tuple[float, float] = (-2.0, 2.0),
    cost: int = 1,
    constant: str = "",
) -> Op:
    """An op of operands of one shape, element by element.

    `partials` gives a slope an operand in terms of operands and `out`; None means no derivative:
    a constant with the reason `constant` where that is given, else an error on a path.
    `derivative` states another form outright (`Linear` for a select, `Explicit` for a maximum).
    `result` fixes the result's dtype (comparisons: bool). `text` is its NumPy spelling
    (`"np.exp"`, `"+"`, `"-x"`), `scalar` its spelling in compiled loops (a name of `mathlib` or an
    operator, the same for all targets or by target); neither is needed where `expand` is given.
    """

    def rule(*types: TensorType, **attrs: Any) -> TensorType:
        if type is not None:
            found = type(*types, **attrs)
            assert isinstance(found, TensorType)
            return found
        base = same_type(*types)
        return base if result is None else TensorType(result, base.shape, base.weak)

    if derivative is not None:
        pass
    elif partials is not None:
        derivative = Partials(partials)
    elif constant:
        derivative = Constant(constant)
    else:
        derivative = Absent()
    spell = {"numba": scalar} if isinstance(scalar, str) else dict(scalar)
    return register(
        Op(
            name=name,
            type=rule,
            evaluate=numpy,
            derivative=derivative,
            doc=doc,
            form=lambda node: Elementwise(),
            expand=expand,
            text=spelling(text) if isinstance(text, str) else text,
            spell={k: v for k, v in spell.items() if v},
            accepts=accepts,
            finite=finite,
            sample=sample,
            elementwise=True,
            cost=cost,
        )
    )


def linear(
    name: str,
    *,
    type: TypeRule,
    numpy: Callable[..., Any],
    transpose: Callable[..., Tensor | Sequence[Bar]],
    doc: str,
    form: Callable[[Node], Form] | None = None,
    expand: Callable[[Node], Tensor] | None = None,
    text: Callable[[Node, Sequence[str]], str] | None = None,
    accepts: frozenset[str] = ALL,
    requires: Callable[[Node], Sequence[Any]] | None = None,
) -> Op:
    """An op that is linear in its (inexact) operands: the derivative is its transpose."""
    return register(
        Op(
            name=name,
            type=type,
            evaluate=numpy,
            derivative=Linear(transpose),
            doc=doc,
            form=form,
            expand=expand,
            text=text,
            accepts=accepts,
            finite=True,
            requires=requires,
        )
    )


def bilinear(
    name: str,
    *,
    type: TypeRule,
    numpy: Callable[..., Any],
    lhs: Callable[[Tensor, Tensor, Node], Tensor],
    rhs: Callable[[Tensor, Tensor, Node], Tensor],
    doc: str,
    form: Callable[[Node], Form] | None = None,
    expand: Callable[[Node], Tensor] | None = None,
    text: Callable[[Node, Sequence[str]], str] | None = None,
    accepts: frozenset[str] = ANY_NUMBER,
    requires: Callable[[Node], Sequence[Any]] | None = None,
) -> Op:
    """An op that is linear in each of two operands."""
    return register(
        Op(
            name=name,
            type=type,
            evaluate=numpy,
            derivative=Bilinear(lhs, rhs),
            doc=doc,
            form=form,
            expand=expand,
            text=text,
            accepts=accepts,
            finite=True,
            requires=requires,
        )
    )


def primitive(
    name: str,
    *,
    type: TypeRule,
    numpy: Callable[..., Any],
    derivative: Derivative,
    doc: str,
    form: Callable[[Node], Form] | None = None,
    expand: Callable[[Node], Tensor | tuple[Tensor, ...]] | None = None,
    text: Callable[[Node, Sequence[str]], str] | None = None,
    accepts: frozenset[str] = ALL,
    requires: Callable[[Node], Sequence[Any]] | None = None,
    sample: tuple[float, float] = (-2.0, 2.0),
) -> Op:
    """An op whose derivative is stated outright: `Explicit`, `Constant` or `Absent`."""
    return register(
        Op(
            name=name,
            type=type,
            evaluate=numpy,
            derivative=derivative,
            doc=doc,
            form=form,
            expand=expand,
            text=text,
            accepts=accepts,
            requires=requires,
            sample=sample,
        )
    )


def composite(
    name: str,
    *,
    type: TypeRule,
    numpy: Callable[..., Any],
    vjp: Callable[..., Sequence[Bar]],
    expand: Callable[[Node], Tensor | tuple[Tensor, ...]],
    doc: str,
    accepts: frozenset[str] = INEXACT,
    sample: tuple[float, float] = (-2.0, 2.0),
) -> Op:
    """An op with a derivative of its own that is expanded into primitives after planning."""
    return primitive(
        name,
        type=type,
        numpy=numpy,
        derivative=Explicit(vjp),
        expand=expand,
        doc=doc,
        accepts=accepts,
        sample=sample,
    )


# ----------------------------------------------------------------- NumPy spellings


def spelling(text: str) -> Callable[[Node, Sequence[str]], str] | None:
    """The NumPy text of an elementwise op from its short spelling.

    `"np.exp"` gives `np.exp(a)`, `"+"` gives `a + b`, `"-x"` gives `-a`. Operands that are no
    atoms come in parentheses already.
    """
    if not text:
        return None
    if text[0].isalpha():
        return lambda node, args: f"{text}({', '.join(args)})"
    if text.endswith("x"):
        return lambda node, args: f"{text[:-1]}{args[0]}"
    return lambda node, args: f"{args[0]} {text} {args[1]}"

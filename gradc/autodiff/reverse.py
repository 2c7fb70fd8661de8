"""Reverse mode: the adjoint graph of a backward plan, and `gradients` on top of it.

The semantics are SPEC.md section 2, the numbers in comments are its rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradc.autodiff.plan import BackwardPlan, plan
from gradc.errors import GradientError, OptionError, ShapeError, TypeMismatch
from gradc.graph import (
    Node,
    Place,
    Request,
    Tensor,
    at,
    collector_paused,
    here,
    label,
    move,
)
from gradc.ops.basic import add_n, constant, gate, pull, zeros
from gradc.ops.complex import conjugate
from gradc.ops.functions import as_tensor, broadcast_to, convert, number
from gradc.ops.registry import (
    ONE,
    ZERO,
    Absent,
    Bar,
    Bilinear,
    Explicit,
    Linear,
    Partials,
    Slope,
)
from gradc.types import Poly, TensorType

__all__ = ["Gradients", "adjoint", "gradients", "make_request"]

AGGREGATION_METHODS = ("add_n", "tree", "accumulate_n")
UNCONNECTED = ("none", "zero")
ZERO_ADJOINTS = ("strong", "ieee")


@dataclass(frozen=True, slots=True)
class Gradients:
    """The result of `gradients`: a tensor or None an x, and the plan it came from.

    `unconnected` are the numbers of the xs that no path leads from: None, or zeros on request.
    """

    tensors: tuple[Tensor | None, ...]
    plan: BackwardPlan
    unconnected: frozenset[int]

    def why(self, i: int) -> str:
        """Why x number `i` has no gradient (None, or zeros on request); "" where it has one."""
        if i not in self.unconnected:
            return ""
        return self.plan.why(self.plan.request.xs[i])


def _choice(option: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        names = ", ".join(f'"{a}"' for a in allowed)
        raise OptionError(f"{option}: expected {names}, found {value!r}")


def _tensors(what: str, value: Any) -> tuple[Tensor, ...]:
    listed = (value,) if isinstance(value, Tensor) else value
    if not isinstance(listed, list | tuple):
        raise TypeMismatch(
            f"{what}: expected a tensor or a list of tensors, found {type(value).__name__}"
        )
    for k, t in enumerate(listed):
        if not isinstance(t, Tensor):
            raise TypeMismatch(
                f"{what}[{k}]: expected a tensor, found {type(t).__name__}"
            )
    return tuple(listed)


def make_request(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: str | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
    zero_adjoints: str = "strong",
    sparse: Any = None,
) -> Request:
    """Check the arguments of `gradients` (rules 1 to 9). Raises OptionError, TypeMismatch and
    ShapeError."""
    if sparse is not None:
        raise OptionError(
            "sparse: sparse gradients are not in this version",
            code="not-yet",
            hint="leave it out: the dense gradient is given",
        )
    if name is not None and not isinstance(name, str):
        raise OptionError(f"name: expected a str, found {type(name).__name__}")
    _choice("unconnected_gradients", unconnected_gradients, UNCONNECTED)
    _choice("zero_adjoints", zero_adjoints, ZERO_ADJOINTS)
    if aggregation_method is not None:
        _choice("aggregation_method", aggregation_method, AGGREGATION_METHODS)
    targets = _tensors("ys", ys)
    seeds: Sequence[Any]
    if grad_ys is None:
        seeds = [None] * len(targets)
    else:
        seeds = list(grad_ys) if isinstance(grad_ys, list | tuple) else [grad_ys]
        if len(seeds) != len(targets):
            raise ShapeError(
                f"grad_ys: expected {len(targets)} entries, one a y, found {len(seeds)}",
                code="length-mismatch",
                hint="an array of numbers goes in as one tensor: [array([3.0, 4.0])]",
            )
    return Request(
        ys=targets,
        xs=_tensors("xs", xs),
        grad_ys=tuple(
            _seed(y, g, k) for k, (y, g) in enumerate(zip(targets, seeds, strict=True))
        ),
        stop_gradients=()
        if stop_gradients is None
        else _tensors("stop_gradients", stop_gradients),
        name=name or "gradients",
        colocate_gradients_with_ops=bool(colocate_gradients_with_ops),
        gate_gradients=bool(gate_gradients),
        aggregation_method=aggregation_method,
        unconnected_gradients=unconnected_gradients,
        zero_adjoints=zero_adjoints,
    )


def _seed(y: Tensor, g: Any, k: int) -> Tensor | None:
    """One entry of grad_ys, checked against its y (rule 2)."""
    if g is None:
        if y.dtype.is_complex:
            raise TypeMismatch(
                f"ys[{k}] ({y.name or y.op.name}) is {y.type}: a complex y needs a grad_y",
                hint="differentiate real(y), or pass grad_ys",
            )
        return None
    what = f"grad_ys[{k}]: {y.name or y.op.name} is {y.type}"
    if isinstance(g, np.ndarray | np.generic):
        g = as_tensor(np.asarray(g))
    elif not isinstance(g, Tensor):
        if not isinstance(g, int | float | complex | Poly):
            raise TypeMismatch(f"{what}, the entry is a {type(g).__name__}")
        g = number(g, y.dtype)
    elif g.type.weak:
        g = convert(g, y.dtype)
    assert isinstance(g, Tensor)
    if g.dtype != y.dtype:
        raise TypeMismatch(
            f"{what}, the entry is {g.type}", hint=f"write .astype({y.dtype})"
        )
    if g.shape != y.shape:
        raise ShapeError(f"{what}, the entry is {g.type}")
    return g


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: str | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: str = "none",
    zero_adjoints: str = "strong",
    sparse: Any = None,
) -> Gradients:
    """The sum over `ys` of grad_y * dy/dx for each x, as new nodes of the graph.

    Arguments and conventions are those of `tf.gradients`; None where no path leads from an x to
    a y. The nodes can be differentiated again.
    """
    return adjoint(
        make_request(
            ys,
            xs,
            grad_ys,
            name,
            colocate_gradients_with_ops,
            gate_gradients,
            aggregation_method,
            stop_gradients,
            unconnected_gradients,
            zero_adjoints,
            sparse,
        )
    )


# ---------------------------------------------------------------------- the adjoint


def ones(type: TensorType) -> Tensor:
    """Ones of a type."""
    return broadcast_to(number(1, type.dtype), type.shape)


class _Terms:
    """The adjoint terms of tensors, summed by the request's policy (rule 6)."""

    def __init__(self, request: Request) -> None:
        self.method = request.aggregation_method
        self.terms: dict[Tensor, list[Bar]] = {}

    def add(self, tensor: Tensor, term: Bar) -> None:
        """Put in a term that has arrived; consumers arrive from the last to the first."""
        listed = self.terms.setdefault(tensor, [])
        if self.method == "tree" and isinstance(term, Tensor):
            for k, earlier in enumerate(listed):
                if isinstance(earlier, Tensor):
                    listed[k] = add_n(earlier, term, method="tree")
                    return
        listed.append(term)

    def total(self, tensor: Tensor) -> Bar:
        """The sum of a tensor's terms, None where none arrived."""
        listed = self.terms.get(tensor)
        if not listed:
            return None
        if len(listed) > 1:
            tensors = [t for t in reversed(listed) if isinstance(t, Tensor)]
            if not tensors:
                listed[:] = [ZERO]
            elif len(tensors) == 1:
                listed[:] = tensors
            else:
                listed[:] = [add_n(*tensors, method=self.method or "")]
        return listed[0]


def adjoint(request: Request) -> Gradients:
    """Build the adjoint graph of a request. GradientError where a path needs a derivative that
    does not exist (rules 10 and 11)."""
    with at(here()), collector_paused():
        backward = plan(request)
        return _Adjoint(request, backward, here()).build()


class _Adjoint:
    """An adjoint graph while it is built."""

    def __init__(self, request: Request, backward: BackwardPlan, outer: Place) -> None:
        self.request = request
        self.plan = backward
        self.terms = _Terms(request)
        self.dropped: set[tuple[Node, int]] = set()
        self.seeded = any(
            g is not None and g.op is not constant for g in request.grad_ys
        )
        self.outer = outer
        self.places: dict[int, Place] = {}

    def build(self) -> Gradients:
        request, backward, terms = self.request, self.plan, self.terms
        for y, seed in zip(request.ys, request.grad_ys, strict=True):
            if y.dtype.is_inexact or y in request.xs:
                self.move(y.node)
                terms.add(y, ones(y.type) if seed is None else seed)
        for node in reversed(backward.nodes):
            wanted = backward.wanted.get(node)
            if wanted:
                self.move(node)
                self.pass_node(node, wanted)
        unconnected = frozenset(
            [k for k, x in enumerate(request.xs) if terms.total(x) is None]
        )
        results = tuple([self.result(x) for x in request.xs])
        if self.dropped:
            backward = replace(backward, dropped=frozenset(self.dropped))
        return Gradients(results, backward, unconnected)

    def pass_node(self, node: Node, wanted: tuple[int, ...]) -> None:
        """Give the operands of a node the terms that its outputs' cotangents make."""
        stops = self.plan.stops
        bars = [None if t in stops else self.total(t) for t in node.outputs]
        if all(bar is None for bar in bars):
            return
        derivative = node.op.derivative
        if isinstance(derivative, Absent):
            raise _no_derivative(node, derivative, self.request)
        found = _pull_back(node, bars, wanted)
        if self.request.gate_gradients:
            found = _gated(found)
        for k, term in zip(wanted, found, strict=True):
            if term is None:
                self.dropped.add((node, k))
            else:
                self.terms.add(node.inputs[k], term)

    def result(self, x: Tensor) -> Tensor | None:
        """The gradient by an x."""
        self.move(x.node)
        total = self.total(x)
        if total is ZERO or (
            total is None and self.request.unconnected_gradients == "zero"
        ):
            total = zeros(x.type.with_dtype(x.dtype))
        assert total is None or isinstance(total, Tensor)
        return total

    def total(self, tensor: Tensor) -> Bar:
        """The sum of a tensor's terms, with a name where the tensor has one."""
        total = self.terms.total(tensor)
        scope = self.request.name
        if (
            tensor.name
            and isinstance(total, Tensor)
            and total.node.place.scope == scope
        ):
            prefix = "" if scope == "gradients" else f"{scope}/"
            label(total, f"{prefix}{tensor.name}_bar")
        return total

    def move(self, node: Node) -> None:
        """Go to where the adjoint of a node is made: its statement, in the section of the request
        or, colocated, in its own (rules 8 and 9)."""
        primal = node.place
        place = self.places.get(id(primal))
        if place is None:
            request, outer = self.request, self.outer
            colocated = request.colocate_gradients_with_ops
            place = self.places[id(primal)] = Place(
                span=primal.span or outer.span,
                statement=primal.statement or outer.statement,
                section=primal.section if colocated else outer.section,
                scope=request.name,
                ieee=request.zero_adjoints == "ieee",
                seeded=self.seeded,
            )
        move(place)


def _no_derivative(node: Node, derivative: Absent, request: Request) -> GradientError:
    ys = ", ".join(y.name or y.op.name for y in request.ys)
    message = f"{node.op.name}: {derivative.why}"
    if node.op.name == "prevent_gradient":
        message += f": {node.attrs.message}"
    return GradientError(
        f"{message}, and the gradient of {ys} needs it",
        code=derivative.code,
        location=node.place.span,
        hint="stop_gradient(...) around it makes it a constant",
    )


def _gated(found: list[Bar]) -> list[Bar]:
    """All input adjoints of an op, each usable only when all are computed (rule 7)."""
    tensors = [t for t in found if isinstance(t, Tensor)]
    if len(tensors) < 2:
        return found
    gated = iter(gate.many(*tensors))
    return [next(gated) if isinstance(t, Tensor) else t for t in found]


def _pull_back(node: Node, bars: list[Bar], wanted: tuple[int, ...]) -> list[Bar]:
    """The terms that a node's output cotangents give its operands `wanted`."""
    tensors = [b if isinstance(b, Tensor) else None for b in bars]
    if all(b is None for b in tensors):
        return [ZERO] * len(wanted)
    derivative = node.op.derivative
    terms: Sequence[Bar]
    if isinstance(derivative, Partials):
        bar = tensors[0]
        assert bar is not None
        slopes = derivative.fn(*node.inputs, out=node.out, **node.attrs.as_dict())
        return [_times(bar, slopes[k]) for k in wanted]
    if isinstance(derivative, Linear):
        answer = derivative.transpose(tensors[0], *node.inputs, **node.attrs.as_dict())
        terms = [answer] if isinstance(answer, Tensor) else answer
    elif isinstance(derivative, Bilinear):
        bar = tensors[0]
        assert bar is not None
        lhs, rhs = node.inputs
        return [
            derivative.lhs(bar, rhs, node) if k == 0 else derivative.rhs(bar, lhs, node)
            for k in wanted
        ]
    else:
        assert isinstance(derivative, Explicit)
        terms = derivative.vjp(node, *tensors)
    return [terms[k] for k in wanted]


def _times(bar: Tensor, slope: Slope) -> Bar:
    """A cotangent times a local slope, conjugated where it is complex; a tensor of slopes meets it
    as a strong zero (rule 12)."""
    if callable(slope) and not isinstance(slope, Tensor):
        slope = slope()
    if slope is ZERO:
        return ZERO
    if slope is ONE:
        return bar
    if isinstance(slope, Tensor):
        return pull(bar, conjugate(slope))
    assert isinstance(slope, int | float | complex)
    if slope == 0:
        return ZERO
    if slope == 1:
        return bar
    return -bar if slope == -1 else bar * slope.conjugate()

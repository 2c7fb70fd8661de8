"""Gradients against central differences: what a graph says of itself, checked on numbers.

All is done in float64, whatever the graph's dtypes. The gradients are those of the compiled
module, the differences those of the NumPy evaluator. What the request holds constant (stops,
casts to integers) is held fixed in the differences too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from gradc import driver
from gradc.draw import ATTEMPTS, draw
from gradc.emit.symbols import retyped
from gradc.errors import GradcError, OptionError, Span
from gradc.graph import Data, Graph, Node, Request, Tensor
from gradc.ops.evaluator import evaluate
from gradc.types import DType, complex128, float64

__all__ = ["Check", "Verdict", "in_float64", "verify"]

Array: TypeAlias = "np.ndarray[Any, Any]"

TOLERANCE = 1e-6
"""The relative error that passes."""
ROUNDING = 1e-14
"""The relative error expected in a y."""
DIRECTIONS = 3
STEPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Lengths of the differences, relative to x."""

TAKE_SYMMETRIC = frozenset(["cholesky", "eigh"])
"""Ops whose derivative is that of a function of symmetric matrices only."""


@dataclass(frozen=True, slots=True)
class Check:
    """The finding for one x.

    `status` is `agrees`, `wrong`, `inconclusive` or `none` (no gradient, and no dependence);
    `error` the worst relative error over the directions, there `gradient` against `difference`;
    `reason` says why where there is something to say.
    """

    x: Tensor
    status: str
    error: float = 0.0
    gradient: float = 0.0
    difference: float = 0.0
    reason: str = ""

    @property
    def name(self) -> str:
        return self.x.name or self.x.op.name

    @property
    def span(self) -> Span | None:
        return self.x.node.place.statement or self.x.span


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings, in the order of the xs, with the sizes and the inputs that were drawn.

    `nodes` are those on the way from the xs to the ys.
    """

    checks: tuple[Check, ...]
    request: Request
    nodes: tuple[Node, ...]
    sizes: Mapping[str, int]
    drawn: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(c.status in ("agrees", "none") for c in self.checks)


def in_float64(graph: Graph) -> Graph:
    """The graph with float64 and complex128 in the place of all narrower types."""

    def wide(dtype: DType) -> DType:
        if dtype.is_complex:
            return complex128
        return float64 if dtype.is_float else dtype

    def changed(value: Any) -> Any:
        if isinstance(value, DType):
            return wide(value)
        if isinstance(value, Data) and value.array.dtype.kind in "fc":
            kind = "complex128" if value.array.dtype.kind == "c" else "float64"
            return Data(value.array.astype(kind), value.origin)
        return value

    return graph.mapped(retyped(graph, changed))


def verify(
    graph: Graph, given: Mapping[Tensor, Array], seed: int = 0, **options: Any
) -> Verdict:
    """Check every gradient that the graph or the options ask for.

    `given` has data for inputs of the graph; the rest is drawn. OptionError where no gradients
    are asked for.
    """
    wide = in_float64(graph)
    module = driver.compile(wide, **options)
    request, gradients = module.plan.request, module.plan.gradients
    if request is None or gradients is None:
        raise OptionError(
            "the graph asks for no gradients",
            code="no-request",
            hint="name them with --ys and --xs, or write differentiate(...) in the graph",
        )
    inputs = dict(zip(graph.inputs, module.plan.graph.inputs, strict=True))
    data = {
        inputs[t]: np.asarray(v).astype(inputs[t].dtype.name) for t, v in given.items()
    }
    point = _Point(module, request, {}, {})
    drawn = [t for t in inputs.values() if t not in data and t.attrs.default is None]
    sizes: dict[str, int] = {}
    reason = ""
    for attempt in range(ATTEMPTS if drawn else 1):
        try:
            feeds, sizes = draw(module.plan.graph, data, seed, attempt)
            point = _Point(module, request, feeds, sizes)
            reason = point.settle()
        except _REFUSALS as error:
            reason = " ".join(str(getattr(error, "message", error)).split())
        if not reason:
            break
    rng = np.random.default_rng([seed, 1])
    checks = tuple(
        Check(x, "inconclusive", reason=reason) if reason else point.check(k, rng)
        for k, x in enumerate(request.xs)
    )
    nodes = gradients.plan.active()
    names = tuple(str(t.attrs.name) for t in drawn)
    return Verdict(checks, request, nodes, sizes, names)


_REFUSALS = (GradcError, TypeError, ValueError, IndexError, np.linalg.LinAlgError)
"""What a module or the evaluator raises where data don't suit a graph."""


class _Point:
    """A request at one point: what it gives, and the differences around it."""

    def __init__(
        self,
        module: Any,
        request: Request,
        feeds: Mapping[Tensor, Array],
        sizes: Mapping[str, int],
    ) -> None:
        self.module = module
        self.request = request
        self.feeds = feeds
        self.sizes = sizes
        self.fixed: dict[Tensor, Array] = {}
        self.seeds: list[Array] = []
        self.values: list[Array] = []
        self.at: list[Array] = []
        self.gradients: Sequence[Any] = ()
        self.takes_symmetric = False

    def settle(self) -> str:
        """Evaluate all at the point; gives why nothing can be told there, or ""."""
        request = self.request
        held = _held(self.module.plan.gradients.plan)
        seeds = [g for g in request.grad_ys if g is not None]
        matrices = [
            node.inputs[0]
            for node in self.module.plan.gradients.plan.wanted
            if node.op.name in TAKE_SYMMETRIC
        ]
        self.takes_symmetric = bool(matrices)
        wanted = [*held, *request.ys, *request.xs, *seeds, *matrices]
        found = iter(evaluate(wanted, self.feeds, self.sizes))
        self.fixed = {t: next(found) for t in held}
        self.values = [next(found) for _ in request.ys]
        self.at = [next(found) for _ in request.xs]
        self.seeds = [
            np.ones_like(v) if g is None else next(found)
            for g, v in zip(request.grad_ys, self.values, strict=True)
        ]
        if not all(map(_is_symmetric, found)):
            return "a matrix to be factorised is not symmetric"
        for y, value, seed in zip(request.ys, self.values, self.seeds, strict=True):
            if not (np.isfinite(value).all() and np.isfinite(seed).all()):
                return f"{y.name or y.op.name} is not finite"
        plan = self.module.plan.graph
        names = dict(zip(plan.inputs, self.module.INPUTS, strict=True))
        arguments = {names[t]: v for t, v in self.feeds.items()}
        self.gradients = self.module.value_and_gradients(**arguments)[1]
        return ""

    def check(self, k: int, rng: np.random.Generator) -> Check:
        """The gradient by x number k along random directions; the worst is told."""
        x, at, gradient = self.request.xs[k], self.at[k], self.gradients[k]
        why = self.module.plan.gradients.why(k)
        if not x.dtype.is_inexact:
            return Check(x, "none", reason=why)
        if at.size == 0:
            return Check(x, "inconclusive", reason="it has no elements")
        worst: Check | None = None
        for _ in range(DIRECTIONS):
            v: Array = np.asarray(rng.normal(size=at.shape))
            if x.dtype.is_complex:
                v = v + 1j * rng.normal(size=at.shape)
            if self.takes_symmetric and _is_symmetric(at):
                v = (v + np.conj(np.swapaxes(v, -1, -2))) / 2
            slope = 0.0
            if gradient is not None:
                with np.errstate(all="ignore"):
                    slope = float(np.sum(np.conj(gradient) * v).real)
            check = self._along(x, at, v, slope)
            if check.status == "agrees" and gradient is None:
                check = replace(check, status="none", reason=why)
            if worst is None or _badness(check) > _badness(worst):
                worst = check
        assert worst is not None
        return worst

    def _along(self, x: Tensor, at: Array, v: Array, slope: float) -> Check:
        """The derivative along v as the gradient has it, against differences."""
        unit = float(np.sqrt(np.mean(np.abs(at) ** 2))) or 1.0
        weight = sum(
            float(np.sum(np.abs(s) * np.abs(y)))
            for s, y in zip(self.seeds, self.values, strict=True)
        )
        rows = []
        for step in STEPS:
            h = step * unit
            wide, jump = self._difference(x, at, v, h)
            narrow, _ = self._difference(x, at, v, h / 2)
            rows.append(((4 * narrow - wide) / 3, jump, ROUNDING * weight / h))
        pairs = [
            (abs(a[0] - b[0]), b)
            for a, b in pairwise(rows)
            if np.isfinite(a[0]) and np.isfinite(b[0])
        ]
        if not pairs:
            return Check(
                x, "inconclusive", reason="differences around it are not finite"
            )
        spread, (difference, _, noise) = min(pairs, key=lambda p: p[0] + p[1][2])
        gap, scale = abs(slope - difference), max(abs(slope), abs(difference))
        error = gap / scale if scale else 0.0
        if gap <= TOLERANCE * scale + noise:
            return Check(x, "agrees", error, slope, difference)
        jumps = [abs(jump) for _, jump, _ in rows[1:4]]
        if np.isfinite(slope) and all(np.isfinite(jumps)):
            if jumps[2] > 0.5 * jumps[0] and jumps[2] >= 0.5 * gap:
                return Check(x, "inconclusive", reason="the point lies on a kink")
            if spread > 0.1 * gap:
                return Check(x, "inconclusive", reason="differences do not settle")
        return Check(x, "wrong", error, slope, difference)

    def _difference(
        self, x: Tensor, at: Array, v: Array, h: float
    ) -> tuple[float, float]:
        """The central difference of the seeded sum of ys, and how its two sides differ."""
        up, down = (
            evaluate(
                self.request.ys, {**self.feeds, **self.fixed, x: at + s * v}, self.sizes
            )
            for s in (h, -h)
        )
        slope = jump = 0.0
        with np.errstate(all="ignore"):
            for seed, a, b, here in zip(self.seeds, up, down, self.values, strict=True):
                slope += float(np.sum(np.conj(seed) * (a - b)).real) / (2 * h)
                jump += float(np.sum(np.conj(seed) * (a - here + b - here)).real) / h
        return slope, jump


def _is_symmetric(a: Array) -> bool:
    """Whether these are square matrices that equal their conjugate transposes."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        return False
    return bool(np.allclose(a, np.conj(np.swapaxes(a, -1, -2)), 1e-12, 0.0))


def _badness(check: Check) -> tuple[int, float]:
    order = ("none", "agrees", "inconclusive", "wrong")
    error = check.error if np.isfinite(check.error) else np.inf
    return order.index(check.status), error


def _held(plan: Any) -> list[Tensor]:
    """The tensors that are constant for the request though they depend on an x.

    A custom gradient's own function is none of them: it is what the differences are of.
    """
    held: dict[Tensor, None] = {}
    for cut in plan.cuts:
        if cut.reason in ("stop_gradient", "constant"):
            held.update(dict.fromkeys(cut.node.outputs))
        elif cut.tensor is not cut.operand:
            held[cut.tensor] = None
    return list(held)

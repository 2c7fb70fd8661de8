"""`--selftest`: what a module draws to check its own gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradc.emit import layout
from gradc.emit.names import quoted

__all__ = ["SelfTest", "SelfTestView", "selftest_view"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """The shapes to draw the inputs in, and below which number integers stay; one an input.

    `symmetric` draws square matrices that are positive definite. Where the graph holds something
    constant that depends on an x, `is_held`, differences can't tell its gradients.
    """

    shapes: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]
    symmetric: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class SelfTestView:
    """The parts of `selftest.py.j2`: rows of its table, and the option `grad_ys`."""

    rows: tuple[str, ...]
    xs: tuple[str, ...]
    symmetric: bool
    grad_ys: str


def selftest_view(
    test: SelfTest,
    names: Sequence[str],
    is_drawn: Sequence[bool],
    xs: Sequence[int],
    grad_ys: str,
) -> SelfTestView:
    """The view for inputs of these names; `xs` has the number of the input for each gradient.

    Inputs with defaults keep them, but those that are xs.
    """
    rows: list[str] = []
    for k, name in enumerate(names):
        if is_drawn[k] or k in xs:
            rows += layout.item(
                quoted(name), f"({test.shapes[k]}, {test.limits[k]})", 4
            )
    told = ["None" if k < 0 or test.is_held else quoted(names[k]) for k in xs]
    listed = layout.statement(f"_BY: list[str | None] = [{', '.join(told)}]")
    return SelfTestView(tuple(rows), tuple(listed), test.symmetric, grad_ys)

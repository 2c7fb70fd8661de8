"""Control of the gradient: stops, prevented gradients and derivatives given by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradc.errors import GradientError, ShapeError, TypeMismatch
from gradc.graph import Node, Tensor
from gradc.ops.basic import prevent_gradient as prevent_op
from gradc.ops.basic import stop_gradient as stop_op
from gradc.ops.basic import zeros
from gradc.ops.functions import TensorLike, as_tensor, convert, function
from gradc.ops.registry import Bar, Explicit, Op, primitive
from gradc.types import TensorType, shape_text

__all__ = ["custom", "custom_gradient"]


@function("stop_gradient")
def stop_gradient(x: TensorLike) -> Tensor:
    """The same values, constant for every gradient."""
    return stop_op(as_tensor(x))


@function("prevent_gradient")
def prevent_gradient(x: TensorLike, message: str = "") -> Tensor:
    """The same values; a gradient that needs a path through here is an error with the message."""
    return prevent_op(as_tensor(x), message=str(message))


# --------------------------------------------------------------- derivatives given


def _custom_type(
    *operands: TensorType, vjp: Callable[..., Any], count: int
) -> tuple[TensorType, ...]:
    return operands[len(operands) - count :]


def _custom_vjp(node: Node, *bars: Tensor | None) -> list[Bar]:
    """Ask the user's function for the cotangents of its arguments."""
    count = node.attrs.count
    arguments = node.inputs[: len(node.inputs) - count]
    whole = [
        zeros(output.type) if bar is None else bar
        for output, bar in zip(node.outputs, bars, strict=True)
    ]
    found = node.attrs.vjp(*arguments, *whole)
    listed = list(found) if isinstance(found, tuple | list) else [found]
    if len(listed) != len(arguments):
        raise GradientError(
            f"custom_gradient: the vjp gave {len(listed)} cotangents for "
            f"{len(arguments)} arguments",
            code="length-mismatch",
            hint="return one an argument, None where there is none",
        )
    return [
        _checked(x, bar, k)
        for k, (x, bar) in enumerate(zip(arguments, listed, strict=True))
    ] + [None] * count


def _checked(x: Tensor, bar: Any, k: int) -> Bar:
    """A cotangent from the user, in the argument's dtype; ShapeError where the shape differs."""
    if bar is None or not x.dtype.is_inexact:
        return None
    if not isinstance(bar, Tensor) and bar == 0:
        return zeros(x.type.with_dtype(x.dtype))
    cotangent = as_tensor(bar)
    if cotangent.shape != x.shape:
        raise ShapeError(
            f"custom_gradient: cotangent {k + 1} of the vjp has shape "
            f"{shape_text(cotangent.shape)}, its argument {shape_text(x.shape)}",
            hint="sum it over the axes that were broadcast",
        )
    return convert(cotangent, x.dtype)


def _custom_expand(node: Node) -> tuple[Tensor, ...]:
    return node.inputs[len(node.inputs) - node.attrs.count :]


custom: Op = primitive(
    "custom",
    type=_custom_type,
    numpy=lambda *values, vjp, count: tuple(values[len(values) - count :]),
    # what f computes with is cut off, so that the vjp is the only way back
    derivative=Explicit(
        _custom_vjp, active=lambda node: range(len(node.inputs) - node.attrs.count)
    ),
    expand=_custom_expand,
    doc="The last `count` operands as they are, with a derivative by the operands before those "
    "that `vjp(*arguments, *cotangents)` gives.",
)


@function("custom_gradient")
def custom_gradient(
    f: Callable[..., Any], vjp: Callable[..., Any]
) -> Callable[..., Any]:
    """`f` with a derivative of its own: `vjp(*arguments, *cotangents)` gives a cotangent an
    argument. Only the arguments carry derivatives, not what `f` reads besides."""
    for name, value in (("f", f), ("vjp", vjp)):
        if not callable(value):
            raise TypeMismatch(
                f"custom_gradient: {name} must be a function, found {type(value).__name__}"
            )

    def call(*arguments: TensorLike) -> Any:
        tensors = [as_tensor(a) for a in arguments]
        result = f(*tensors)
        is_many = isinstance(result, tuple | list)
        values: Sequence[Any] = result if is_many else [result]
        inner = [as_tensor(v) for v in values]
        outputs = custom.many(*tensors, *inner, vjp=vjp, count=len(inner))
        return outputs if is_many else outputs[0]

    return call

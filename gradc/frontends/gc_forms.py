"""The special forms of the text language: `array`, `len`, `load`, `gradients`, `custom_gradient`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradc.autodiff import reverse
from gradc.errors import (
    ParseError,
    ShapeError,
    TypeMismatch,
)
from gradc.frontends.gc_calls import Calls
from gradc.frontends.gc_load import load_array
from gradc.frontends.gc_session import quoted
from gradc.frontends.gc_values import (
    GradientList,
    Native,
    NoGradient,
    Number,
    Value,
    kind_of,
    refuse_none,
    unwrapped,
)
from gradc.graph import Data, Tensor, at, ordered
from gradc.ops.basic import constant
from gradc.ops.functions import Function
from gradc.types import Poly

__all__ = ["FORMS", "Forms"]


class Forms(Calls):
    """The functions that the language itself has."""

    def _array(self, node: ast.Call) -> Value:
        """`array([...])`: floats alone are of the default float."""
        args, kwargs = self.arguments(node)
        if len(args) == 1 and not kwargs and isinstance(args[0], list | tuple):
            values = args[0]
            if isinstance(values, GradientList):
                values = list(values)
            for value in values:
                refuse_none(value)
            return self.building(node, "array", lambda: self.array(values, None))
        name = node.func.id if isinstance(node.func, ast.Name) else "array"
        return self.build(node, name, args, kwargs, node.args)

    def _len(self, node: ast.Call) -> Value:
        args, kwargs = self.arguments(node)
        if len(args) != 1 or kwargs:
            raise ParseError("len(x) takes one value", code="bad-argument")
        value = args[0]
        refuse_none(value)
        if isinstance(value, list | tuple | str):
            return len(value)
        x = self.tensor(value)
        if not x.ndim:
            raise ShapeError("len of a tensor of rank 0", code="bad-axis")
        return x.shape[0]

    def _load(self, node: ast.Call) -> Value:
        data = self.load(node)
        with at(self.place(node)):
            return constant(value=data, weak=False)

    def load(self, node: ast.Call) -> Data:
        """The array that a `load(...)` reads."""
        args, kwargs = self.arguments(node)
        texts = [*args, *kwargs.values()]
        if not 1 <= len(texts) <= 2 or set(kwargs) - {"key"}:
            raise ParseError(
                'load takes a file and a name: load("weights.npz", "W")',
                code="bad-argument",
            )
        for text in texts:
            if not isinstance(text, str):
                raise TypeMismatch(
                    f"load takes strings, found {kind_of(text)}",
                    hint='load("weights.npz", "W")',
                )
        key = texts[1] if len(texts) > 1 else None
        if (texts[0], key) not in self.loaded:
            array = load_array(self.folder, texts[0], key)
            written = ", ".join(quoted(t) for t in texts)
            self.loaded[texts[0], key] = Data(array, f"load({written})")
        data: Data = self.loaded[texts[0], key]
        return data

    def _gradients(self, node: ast.Call) -> Value:
        """`gradients(ys, xs, ...)`: a list, one tensor or None an x."""
        request = self.request(node)
        xs, names = request.pop("x_tensors"), request.pop("x_names")
        self.spend(node, len(ordered(request["ys"])))
        result = self.building(node, "gradients", lambda: reverse.gradients(**request))
        self.plans.append(result.plan)
        ys = ", ".join(y.name or y.op.name for y in request["ys"][:3])
        values = GradientList()
        for k, (x, t) in enumerate(zip(xs, result.tensors, strict=True)):
            name = names[k] or x.name or str(k)
            if t is None:
                message = f"the gradient of {ys} by {name} is None"
                values.append(NoGradient(message, result.why(k), f"grad_{name}"))
            else:
                self.gradient_names.setdefault(t, f"grad_{name}")
                values.append(t)
        return values

    def request(self, node: ast.Call) -> dict[str, Any]:
        """The arguments of `gradients` by name, tensors resolved; and the xs with their names."""
        args, kwargs = self.arguments(node)
        name = node.func.id if isinstance(node.func, ast.Name) else "gradients"
        try:
            bound = _GRADIENTS.bind(*args, **kwargs)
        except TypeError as error:
            raise ParseError(
                f"{name}: {error}",
                code="bad-argument",
                hint=f"write {name}(ys, xs, grad_ys=None, ...)",
            ) from None
        found: dict[str, Any] = {k: unwrapped(v) for k, v in bound.arguments.items()}
        for option in ("ys", "xs", "stop_gradients"):
            given = bound.arguments.get(option)
            if given is not None or option != "stop_gradients":
                found[option] = self._tensor_list(name, option, given)
        if bound.arguments.get("grad_ys") is not None:
            found["grad_ys"] = self._seeds(bound.arguments["grad_ys"])
        found["x_tensors"] = found["xs"]
        found["x_names"] = self._names_of(node, len(found["xs"]))
        return found

    def _tensor_list(self, name: str, option: str, value: Value) -> list[Tensor]:
        listed = value if isinstance(value, list | tuple) else [value]
        for item in listed:
            refuse_none(item)
            if not isinstance(item, Tensor | Number | int | float | complex | Poly):
                raise TypeMismatch(
                    f"{name}: {option}: expected a tensor or a list of tensors, "
                    f"found {kind_of(item)}",
                    hint=f"*{option} opens a list in a list"
                    if isinstance(item, list | tuple)
                    else "",
                )
        return [self.tensor(item) for item in listed]

    def _seeds(self, value: Value) -> Any:
        """grad_ys: numbers stay numbers, lists in the list become tensors."""
        listed = value if isinstance(value, list | tuple) else [value]
        seeds: list[Any] = []
        for item in listed:
            refuse_none(item)
            if item is None or isinstance(item, int | float | complex):
                seeds.append(item)
            else:
                seeds.append(self.tensor(item))
        return seeds

    def _names_of(self, node: ast.Call, count: int) -> list[str]:
        """The names that the xs are written with, "" where that is an expression."""
        written = node.args[1] if len(node.args) > 1 else None
        for keyword in node.keywords:
            if keyword.arg == "xs":
                written = keyword.value
        parts: Sequence[ast.expr] = ()
        if isinstance(written, ast.List | ast.Tuple):
            parts = written.elts
        elif written is not None:
            parts = (written,)
        if len(parts) != count:
            return [""] * count
        return [part.id if isinstance(part, ast.Name) else "" for part in parts]

    def _misplaced(self, node: ast.Call) -> Value:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        where, example = {
            "differentiate": ("a statement of its own", "differentiate(loss, [w])"),
            "input": ("the default of a declaration", "l2: float = input(0.1)"),
            "range": ("a `for` loop", "for t in range(10):"),
            "section": ("a `with` statement", 'with section("encoder"):'),
        }[name]
        raise ParseError(
            f"{name} stands in {where} alone", code="misplaced", hint=f"write {example}"
        )

    def _custom_gradient(self, node: ast.Call) -> Value:
        args, kwargs = self.arguments(node)
        made = self.build(node, "custom_gradient", args, kwargs, node.args)
        if callable(made) and not isinstance(made, Tensor | Function | Native):
            return Native("custom_gradient", made)
        return made


_GRADIENTS = inspect.signature(reverse.gradients)

FORMS: Mapping[str, Callable[[Forms, ast.Call], Value]] = {
    "array": Forms._array,
    "asarray": Forms._array,
    "custom_gradient": Forms._custom_gradient,
    "differentiate": Forms._misplaced,
    "gradients": Forms._gradients,
    "input": Forms._misplaced,
    "len": Forms._len,
    "load": Forms._load,
    "range": Forms._misplaced,
    "section": Forms._misplaced,
}

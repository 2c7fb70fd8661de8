"""A graph as `.gc` text that reads back to the same graph.

Ops are spelled `gc.name(operands, attr=value)`; the four arithmetic operators stand where they
mean the op itself. A tensor without a name is `_1`, `_2`, ... in the text.
"""

from __future__ import annotations

import base64
import keyword
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradc.errors import InternalError
from gradc.graph import Data, Graph, Node, Request, Tensor, at, ordered
from gradc.types import DType, Poly, TensorType, dim_text, symbols_of

__all__ = ["write"]

MAX_LISTED = 64
"""Elements of a constant that are written as numbers; more are base64."""

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_RESERVED = frozenset(("gc", "differentiate", "gradients", "load", "input", "section"))


def write(graph: Graph) -> str:
    """The graph's text. `gradc.parse` gives a graph of the same nodes, names and request."""
    return _Writer(graph).text()


class _Writer:
    """Names and lines of one text."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes()
        known = {t for node in self.nodes for t in node.outputs}
        self.names = {n: t for n, t in graph.names.items() if t in known}
        self.variables: dict[Tensor, str] = {}
        self.taken = set(_RESERVED) | self._symbols()
        self.count = 0

    def text(self) -> str:
        self._name_tensors()
        lines: list[str] = []
        if self.graph.doc:
            lines.append(_docstring(self.graph.doc))
        for zero in self.graph.facts.zeros:
            lines.append(f"assert {dim_text(zero)} == 0")
        section = ""
        for node in self.nodes:
            if node.place.section != section:
                section = node.place.section
                if section:
                    lines.append(f"with section({section!r}):")
            indent = "    " if section else ""
            lines += [indent + line for line in self._statement(node)]
        if self.graph.request is not None:
            lines.append(self._request(self.graph.request))
        lines += self._aliases()
        lines.append(self._return())
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------------- names

    def _symbols(self) -> set[str]:
        """The names of dimensions, wherever they stand."""
        found: dict[str, None] = {}
        dims = [d for node in self.nodes for t in node.types for d in t.shape]
        for node in self.nodes:
            for value in node.attrs.as_dict().values():
                dims += _dims_in(value)
        for d in dict.fromkeys(dims):
            found.update(dict.fromkeys(symbols_of(d)))
        for zero in self.graph.facts.zeros:
            found.update(dict.fromkeys(symbols_of(zero)))
        return set(found)

    def _name_tensors(self) -> None:
        """Variables: the graph's own names first, then labels, then numbers."""
        for tensor in self.graph.inputs:
            self._take(tensor, tensor.name)
        for name, tensor in self.names.items():
            if tensor.name == name:
                self._take(tensor, name)
        for name, tensor in self.names.items():
            self._take(tensor, name)
        for node in self.nodes:
            for tensor in node.outputs:
                if tensor not in self.variables:
                    self._label(tensor)

    def _take(self, tensor: Tensor, name: str) -> None:
        if tensor not in self.variables and name not in self.taken and _is_name(name):
            self.variables[tensor] = name
            self.taken.add(name)

    def _label(self, tensor: Tensor) -> None:
        """A variable from the tensor's label, or a number."""
        base = tensor.name.rsplit("/", 1)[-1]
        if tensor.name and _is_name(base):
            name, number = base, 1
            while name in self.taken:
                name, number = f"{base}_{number}", number + 1
                if number > 20:
                    break
            else:
                self._take(tensor, name)
                return
        while tensor not in self.variables:
            self._take(tensor, f"_{self._number()}")

    # -------------------------------------------------------------------- statements

    def _statement(self, node: Node) -> list[str]:
        """The line of a node; a derivative of the user's is a `def` before it."""
        functions = {
            name: f"{name}_{self._number()}"
            for name, value in node.attrs.items()
            if callable(value) and not isinstance(value, DType)
        }
        lines: list[str] = []
        for name, function in functions.items():
            lines += self._definition(function, node.attrs.as_dict()[name], node)
        return [*lines, self._line(node, functions)]

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _definition(self, name: str, call: Callable[..., Any], node: Node) -> list[str]:
        """The function of a `custom` node as a `def`: what it builds from arguments and cotangents.

        Outputs stand for their cotangents, whose types they have.
        """
        known = frozenset(self.variables)
        arguments = node.inputs[: len(node.inputs) - len(node.outputs)]
        with at(node.place):
            result = call(*arguments, *node.outputs)
        listed = list(result) if isinstance(result, tuple | list) else [result]
        built = ordered([t for t in listed if isinstance(t, Tensor)], known)
        outer = dict(self.variables)
        parameters = []
        for tensor in (*arguments, *node.outputs):
            parameters.append(f"_{self._number()}")
            self.variables[tensor] = parameters[-1]
        lines = [f"def {name}({', '.join(parameters)}):"]
        for part in built:
            for tensor in part.outputs:
                self.variables[tensor] = f"_{self._number()}"
            lines += ["    " + line for line in self._statement(part)]
        values = [
            self.variables[t] if isinstance(t, Tensor) else self._value(t)
            for t in listed
        ]
        lines.append(f"    return {', '.join(values)}")
        self.variables = outer
        return lines

    def _line(self, node: Node, functions: Mapping[str, str]) -> str:
        targets = ", ".join(self.variables[t] for t in node.outputs)
        if node.op.name == "input":
            return self._input(node, targets)
        if node.op.name == "constant":
            return self._constant(node, targets)
        args = [self.variables[t] for t in node.inputs]
        types = {t.type for t in (*node.inputs, *node.outputs)}
        if node.op.name in _INFIX and len(types) == 1 and not node.out.type.weak:
            return f"{targets} = {args[0]} {_INFIX[node.op.name]} {args[1]}"
        args += [
            f"{name}={functions.get(name) or self._value(value)}"
            for name, value in node.attrs.items()
        ]
        return f"{targets} = gc.{node.op.name}({', '.join(args)})"

    def _input(self, node: Node, variable: str) -> str:
        name, declared = node.attrs.name, node.attrs.type
        default = node.attrs.default
        plain = variable == name and not declared.weak
        if plain and default is None:
            return f"{name}: {_type_text(declared)}"
        if plain and _is_plain(default):
            return f"{name}: {_type_text(declared)} = input({default!r})"
        value = self._value(default)
        return f"{variable} = gc.input(name={name!r}, type={self._value(declared)}, default={value})"

    def _constant(self, node: Node, variable: str) -> str:
        data, weak = node.attrs.value, node.attrs.weak
        array = data.array
        if data.origin:
            return f"{variable} = {data.origin}"
        listed = array.tolist()
        if 0 < array.size <= MAX_LISTED and _is_plain(listed):
            kind = array.dtype.name
            if not weak and kind != "float16":
                return f"{variable}: {_type_text(node.out.type)} = {listed!r}"
            if weak and array.ndim == 0 and kind in ("int64", "float64"):
                return f"{variable} = {listed!r}"
        return f"{variable} = gc.constant(value={self._value(data)}, weak={weak})"

    def _request(self, request: Request) -> str:
        parts = [self._tensors(request.ys), self._tensors(request.xs)]
        if any(g is not None for g in request.grad_ys):
            seeds = [
                "None" if g is None else self.variables[g] for g in request.grad_ys
            ]
            parts.append(f"grad_ys=[{', '.join(seeds)}]")
        if request.stop_gradients:
            parts.append(f"stop_gradients={self._tensors(request.stop_gradients)}")
        plain = Request((), (), ())
        for option in (
            "name",
            "colocate_gradients_with_ops",
            "gate_gradients",
            "aggregation_method",
            "unconnected_gradients",
            "zero_adjoints",
        ):
            value = getattr(request, option)
            if value != getattr(plain, option):
                parts.append(f"{option}={value!r}")
        return f"differentiate({', '.join(parts)})"

    def _tensors(self, tensors: Iterable[Tensor]) -> str:
        return f"[{', '.join(self.variables[t] for t in tensors)}]"

    def _aliases(self) -> list[str]:
        """The further names of tensors; after all uses, for a name may be a variable's too."""
        lines: list[str] = []
        for name, tensor in self.names.items():
            variable = self.variables[tensor]
            if variable != name:
                lines.append(f"gc.names(({name!r}, {variable}))")
        return lines

    def _return(self) -> str:
        outputs = self.graph.outputs
        plain = outputs and all(
            o.tensor is not None
            and self.variables[o.tensor] == o.name
            and not o.name.startswith("_")
            for o in outputs
        )
        if plain and len({o.name for o in outputs}) == len(outputs):
            return f"return {', '.join(o.name for o in outputs)}"
        pairs = [
            f"({o.name!r}, {f'gc.none({o.why!r})' if o.tensor is None else self.variables[o.tensor]})"
            for o in outputs
        ]
        return f"return gc.outputs({', '.join(pairs)})"

    # ------------------------------------------------------------------------ values

    def _value(self, value: Any) -> str:
        """An attribute as text. InternalError for a value that has no spelling."""
        if isinstance(value, bool | int | str | None):
            return repr(value)
        if isinstance(value, float):
            if math.isfinite(value):
                return repr(value)
            return (
                "gc.nan" if math.isnan(value) else "-gc.inf" if value < 0 else "gc.inf"
            )
        if isinstance(value, complex):
            return f"gc.complex({self._value(value.real)}, {self._value(value.imag)})"
        if isinstance(value, Poly):
            return dim_text(value)
        if isinstance(value, DType):
            return f"gc.{value.name}"
        if isinstance(value, np.generic):
            return self._value(value.item())
        if isinstance(value, tuple):
            inside = ", ".join(self._value(v) for v in value)
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, TensorType):
            weak = ", True" if value.weak else ""
            return f"gc.type(gc.{value.dtype.name}, {self._value(value.shape)}{weak})"
        if isinstance(value, Data):
            return value.origin or _data_text(value.array)
        raise InternalError(f"no text for an attribute of type {type(value).__name__}")


def _is_name(name: str) -> bool:
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and unicodedata.normalize("NFKC", name) == name
    )


def _is_plain(value: Any) -> bool:
    """Whether Python's repr of (lists of) numbers reads back as the same bits."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif not isinstance(item, bool | int | float) or not math.isfinite(item):
            return False
    return True


def _type_text(t: TensorType) -> str:
    return str(t) if t.shape else t.dtype.name


def _data_text(array: Any) -> str:
    """`gc.data(gc.float64, (2,), [1.0, 2.0])`, or with base64 of its little-endian bytes."""
    flat = array.ravel()
    kind = array.dtype.name
    shape: Sequence[int] = array.shape
    inside = ", ".join(map(str, shape))
    text = f"({inside},)" if len(shape) == 1 else f"({inside})"
    listed = flat.tolist()
    if len(listed) <= MAX_LISTED and _is_plain(listed):
        return f"gc.data(gc.{kind}, {text}, {listed!r})"
    raw = flat.astype(flat.dtype.newbyteorder("<")).tobytes()
    return f"gc.data(gc.{kind}, {text}, {base64.b64encode(raw).decode()!r})"


def _dims_in(value: Any) -> list[Any]:
    """The dimensions in an attribute's value."""
    found: list[Any] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, Poly):
            found.append(item)
        elif isinstance(item, tuple):
            stack += item
        elif isinstance(item, TensorType):
            stack += item.shape
    return found


def _docstring(text: str) -> str:
    """A docstring that reads back as the same text."""
    plain = text.isprintable() and not any(c in text for c in '\\"')
    return f'"""{text}"""' if plain else repr(text)

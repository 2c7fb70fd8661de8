"""The TensorFlow cases as graphs of the language, and how an answer is judged.

`cases.json` holds graphs with what `tf.gradients` returned for them: inputs with values (null
stands for a size that is not known), nodes in order, a request, the values expected, further feeds
of the same graph under `also`. An op is spelled here by functions of the language; a case with an
op whose functions do not exist yet is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gradc.ops  # noqa: F401  (fills the registry)
from gradc.autodiff.reverse import gradients, make_request
from gradc.errors import GradcError
from gradc.graph import Graph, Output, Tensor, label
from gradc.ops.basic import input_, opaque
from gradc.ops.functions import apply, as_tensor, lookup_function
from gradc.ops.index import index
from gradc.types import DTYPES, TensorType, symbol

Array = np.ndarray[Any, Any]
Operands = Sequence[Tensor]
Attributes = Mapping[str, Any]

CASES: Mapping[str, Any] = {
    case["id"]: case
    for case in json.loads((Path(__file__).parent / "cases.json").read_text("utf-8"))
}


def decode(value: Mapping[str, Any]) -> Array:
    """An array of the case file: complex numbers are pairs, NaN and infinities words."""
    dtype, shape = np.dtype(value["dtype"]), value["shape"]
    if dtype.kind == "c":
        pairs = np.asarray(value["value"], float).reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype).reshape(shape)
    flat = np.asarray(value["value"], object).reshape(-1)
    numbers = [float(v) if dtype.kind == "f" else v for v in flat]
    return np.array(numbers).astype(dtype).reshape(shape)


# ------------------------------------------------------------- ops by their functions


@dataclass(frozen=True)
class Spelling:
    """How an op is written: the functions it needs and the call."""

    needs: tuple[str, ...]
    build: Callable[[Operands, Attributes], Any]


def _plain(name: str) -> Spelling:
    """An op that is a function, all of whose attributes are keyword arguments."""

    def build(x: Operands, attrs: Attributes) -> Any:
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in attrs.items()}
        return apply(name, *x, **options)

    return Spelling((name,), build)


def _key(spec: Sequence[Any]) -> tuple[Any, ...]:
    words = {"...": Ellipsis, "newaxis": None}
    return tuple(
        words[s] if isinstance(s, str) else slice(*s) if isinstance(s, list) else s
        for s in spec
    )


def _matmul(x: Operands, attrs: Attributes) -> Any:
    flags = ("transpose_a", "transpose_b")
    sides = [
        apply("matrix_transpose", t) if attrs.get(flag) else t
        for t, flag in zip(x, flags, strict=True)
    ]
    return apply("matmul", *sides)


def _split(x: Operands, attrs: Attributes) -> Any:
    sections = attrs["sections"]
    if isinstance(sections, list):
        sections = tuple(int(k) for k in np.cumsum(sections)[:-1])
    return apply("split", x[0], sections, axis=attrs["axis"])


def _sort(x: Operands, attrs: Attributes) -> Any:
    found = apply("sort", x[0], axis=attrs["axis"])
    up = attrs["direction"] == "ascending"
    return found if up else apply("flip", found, attrs["axis"])


def _space_to_depth(x: Operands, attrs: Attributes) -> Any:
    n, (b, h, w, c) = attrs["block"], x[0].shape
    cells = apply("reshape", x[0], (b, h // n, n, w // n, n, c))
    cells = apply("transpose", cells, (0, 1, 3, 2, 4, 5))
    return apply("reshape", cells, (b, h // n, w // n, n * n * c))


def _segment_sum(x: Operands, attrs: Attributes) -> Any:
    values, segments = x
    empty = apply("zeros", (attrs["num_segments"], *values.shape[1:]), values.dtype)
    return apply("index_add", empty, segments, values)


def _pool(name: str) -> Spelling:
    def build(x: Operands, attrs: Attributes) -> Any:
        padding = attrs["padding"].lower()
        return apply(name, *x, attrs["ksize"], attrs["strides"], padding, "NHWC")

    return Spelling((name,), build)


def _triangular_solve(x: Operands, attrs: Attributes) -> Any:
    return apply("solve_triangular", *x, lower=attrs["lower"])


SAME_NAME = """
    abs acos add argmin asinh atan broadcast_to complex conj cos cumprod cumsum det diag
    erfinv exp fft flip floor greater irfft less log mean min minimum norm outer
    prevent_gradient prod real reciprocal relu reshape round sin sinh slogdet softmax softplus
    softsign sqrt square stop_gradient sum tanh top_k var where xlogy zeros_like
"""

SPELLINGS: Mapping[str, Spelling] = {
    **{name: _plain(name) for name in SAME_NAME.split()},
    "div": _plain("divide"),
    "floordiv": _plain("floor_divide"),
    "gather": _plain("take"),
    "lgamma": _plain("gammaln"),
    "mul": _plain("multiply"),
    "neg": _plain("negative"),
    "pow": _plain("power"),
    "while": _plain("while_loop"),
    "avg_pool": _pool("avg_pool"),
    "max_pool": _pool("max_pool"),
    "cast": Spelling(
        ("astype",), lambda x, a: apply("astype", x[0], DTYPES[a["dtype"]])
    ),
    "const": Spelling((), lambda x, a: as_tensor(decode(a))),
    "einsum": Spelling(("einsum",), lambda x, a: apply("einsum", a["eq"], *x)),
    "matmul": Spelling(("matmul", "matrix_transpose"), _matmul),
    "opaque": Spelling((), lambda x, a: opaque(x[0])),
    "scatter_update": Spelling(
        ("index_update",), lambda x, a: apply("index_update", *x)
    ),
    "segment_sum": Spelling(("index_add", "zeros"), _segment_sum),
    "sigmoid_xent": Spelling(
        ("sigmoid_cross_entropy",),
        lambda x, a: apply("sigmoid_cross_entropy", x[1], x[0]),
    ),
    "slice": Spelling((), lambda x, a: index(x[0], _key(a["spec"]))),
    "space_to_depth": Spelling(("reshape", "transpose"), _space_to_depth),
    "sort": Spelling(("sort", "flip"), _sort),
    "split": Spelling(("split",), _split),
    "squared_difference": Spelling(
        ("square",), lambda x, a: apply("square", x[0] - x[1])
    ),
    "transpose": Spelling(
        ("transpose",), lambda x, a: apply("transpose", x[0], tuple(a["perm"]))
    ),
    "triangular_solve": Spelling(("solve_triangular",), _triangular_solve),
}


def missing(case: Mapping[str, Any]) -> list[str]:
    """The functions that a case needs and that the language does not have (yet)."""
    needed: dict[str, None] = {}
    for node in case["nodes"]:
        if node["op"] != "gradients":
            needed.update(dict.fromkeys(SPELLINGS[node["op"]].needs))
    if any(np.dtype(i["dtype"]).kind == "c" for i in case["inputs"]):
        needed["conj"] = None  # complex arithmetic comes with it
    return [name for name in needed if lookup_function(name) is None]


# --------------------------------------------------------------------------- graphs


class Built:
    """A case as a graph: inputs and nodes by their names; `prefix` goes before symbols' names."""

    def __init__(self, case: Mapping[str, Any], prefix: str = "") -> None:
        self.case = case
        self.prefix = prefix
        self.values: dict[str, Any] = {}
        self.inputs = [self._input(i) for i in case["inputs"]]
        for node in case["nodes"]:
            self._node(node)

    def _input(self, given: Mapping[str, Any]) -> Tensor:
        name = self.prefix + given["name"]
        dims = given.get("dims") or given["shape"]
        shape = tuple(
            symbol(f"{name}_{k}") if d is None else d for k, d in enumerate(dims)
        )
        kind = TensorType(DTYPES[given["dtype"]], shape)
        made = label(input_(name=name, type=kind, default=None), name)
        self.values[given["name"]] = made
        return made

    def _node(self, node: Mapping[str, Any]) -> None:
        attrs = node.get("attrs", {})
        if node["op"] == "gradients":
            found = gradients(self.refs(attrs["ys"]), self.refs(attrs["xs"]))
            made: Any = list(found.tensors)
        else:
            operands = self.refs(node["inputs"])
            made = SPELLINGS[node["op"]].build(operands, attrs)
        self.values[node["name"]] = made
        listed = made if isinstance(made, list | tuple) else [made]
        for k, tensor in enumerate(listed):
            name = node["name"] if len(listed) == 1 else f"{node['name']}:{k}"
            label(tensor, self.prefix + name)

    def ref(self, name: str) -> Any:
        """The tensor called `name` or `name:k`."""
        base, _, k = name.partition(":")
        value = self.values[base]
        return value[int(k or 0)] if isinstance(value, list | tuple) else value

    def refs(self, names: Sequence[str]) -> list[Any]:
        return [self.ref(n) for n in names]

    def request(self) -> dict[str, Any]:
        """The case's request as arguments of `gradients`."""
        case = self.case
        seeds = case["grad_ys"]
        return {
            "ys": self.refs(case["ys"]),
            "xs": self.refs(case["xs"]),
            "grad_ys": None
            if seeds is None
            else [None if g is None else self.ref(g) for g in seeds],
            "stop_gradients": self.refs(case["stop_gradients"]),
            "unconnected_gradients": case["unconnected"],
            **(case.get("options") or {}),
        }

    def graph(self) -> Graph:
        """The graph with its request; the ys are its outputs."""
        return Graph(
            self.case["id"],
            tuple(self.inputs),
            tuple(
                Output(name, self.ref(name))
                for name in dict.fromkeys(self.case["ys"])
                if self.ref(name) not in self.inputs
            ),
            request=make_request(**self.request()),
        )


def feeds(case: Mapping[str, Any]) -> Iterator[tuple[dict[str, Array], Any]]:
    """Each feed of a case, input by input, with what is expected for it."""
    yield {i["name"]: decode(i) for i in case["inputs"]}, case["expect"]
    for more in case.get("also", []):
        yield {n: decode(v) for n, v in more["inputs"].items()}, more["expect"]


# ------------------------------------------------------------------------- verdicts

ERRORS = {
    "length": "length-mismatch",
    "shape": "shape-mismatch",
    "dtype": "type-mismatch",
    "no_gradient": "no-gradient",
    "gradient_disabled": "gradient-prevented",
    "option": "bad-option",
}


def difference(case: Mapping[str, Any], expect: Any, grads: Sequence[Any]) -> str:
    """How an answer differs from the one expected, in dtype, shape, value or None; "" where not."""
    tolerance = case.get("rtol", 1e-9)
    wanted = expect["grads"]
    if len(grads) != len(wanted):
        return f"{len(grads)} results for {len(wanted)} xs"
    for k, (found, want) in enumerate(zip(grads, wanted, strict=True)):
        if (found is None) != (want is None):
            return f"result {k}: {found} for {want}"
        if want is None:
            continue
        array = decode(want)
        value = np.asarray(found)
        if value.dtype != array.dtype or value.shape != array.shape:
            return (
                f"result {k}: {value.dtype}{value.shape} for {array.dtype}{array.shape}"
            )
        if not np.allclose(
            value, array, rtol=tolerance, atol=tolerance, equal_nan=True
        ):
            return f"result {k}: {value} for {array}"
    return ""


def same_error(expect: Any, error: GradcError) -> bool:
    """Whether an error is of the kind expected."""
    return "error" in expect and error.code == ERRORS[expect["error"]]

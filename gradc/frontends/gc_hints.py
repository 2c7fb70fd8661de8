"""What the text language says to the slips a NumPy user makes: names, constructs, ways out."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping

from gradc.errors import GradcError, ParseError, UnsupportedError
from gradc.ops.functions import Function, functions, lookup_function

__all__ = [
    "CONSTRUCTS",
    "PLANNED",
    "SLIPS",
    "did_you_mean",
    "is_function",
    "is_method",
    "outside",
    "signature_of",
    "unknown_function",
]

CONSTRUCTS: Mapping[type[ast.AST], tuple[str, str]] = {
    ast.AsyncFor: ("async for", ""),
    ast.AsyncFunctionDef: ("async def", ""),
    ast.AsyncWith: ("async with", ""),
    ast.Await: ("await", ""),
    ast.Break: ("break", "choose the steps by the range, or the values by where"),
    ast.ClassDef: (
        "class",
        "a `def` is a subgraph; values are tensors and tuples of them",
    ),
    ast.Continue: ("continue", "choose the steps by the range, or the values by where"),
    ast.Delete: ("del", ""),
    ast.Dict: ("a dict", "use a tuple"),
    ast.DictComp: (
        "a comprehension",
        "write the elements out, or use a `for` loop over a range",
    ),
    ast.FormattedValue: ("an f-string", ""),
    ast.GeneratorExp: (
        "a comprehension",
        "sum over an axis, or use a `for` loop over a range",
    ),
    ast.Global: ("global", "a `def` returns what it computes"),
    ast.If: ("if", "where(p, a, b) chooses element by element"),
    ast.JoinedStr: ("an f-string", "strings stand only where a function takes one"),
    ast.Lambda: ("lambda", "write a `def`"),
    ast.ListComp: (
        "a comprehension",
        "write the elements out, or use a `for` loop over a range",
    ),
    ast.Match: ("match", "where(p, a, b) chooses element by element"),
    ast.NamedExpr: (":=", "give the value its name in a statement of its own"),
    ast.Nonlocal: ("nonlocal", "a `def` returns what it computes"),
    ast.Raise: ("raise", ""),
    ast.Set: ("a set", "use a tuple"),
    ast.SetComp: (
        "a comprehension",
        "write the elements out, or use a `for` loop over a range",
    ),
    ast.Try: ("try", "where(p, a, b) guards a value; its gradient is guarded too"),
    ast.TryStar: ("try", ""),
    ast.While: ("while", "a `for` loop over a range of known length is unrolled"),
    ast.Yield: ("yield", ""),
    ast.YieldFrom: ("yield from", ""),
}
"""Constructs of Python that are no part of the language, in words, and what to write instead."""


def outside(node: ast.AST) -> GradcError:
    """The error for a construct that is no part of the language."""
    words, hint = CONSTRUCTS.get(type(node), (type(node).__name__.lower(), ""))
    if isinstance(node, ast.While):
        return UnsupportedError(
            "`while` (while_loop) is not in this version yet", hint=hint
        )
    quoted = words if words.startswith(("a ", "an ")) else f"`{words}`"
    return ParseError(
        f"{quoted} is not part of the graph language", code="not-in-language", hint=hint
    )


CONTROL = {
    "cond": "where(p, a, b) computes both and chooses",
    "fori_loop": "a `for` loop over a range of known length is unrolled",
    "map_rows": "NumPy's broadcasting maps over leading axes",
    "scan": "a `for` loop over a range of known length is unrolled",
    "switch": "where(p, a, b) computes both and chooses",
    "while_loop": "a `for` loop over a range of known length is unrolled",
}

SLIPS = {
    "append": "concatenate([x, y]) joins tensors",
    "autograd": "gradients(ys, xs)",
    "backward": "gradients(ys, xs) gives a list, one gradient an x",
    "bool": "x.astype(bool)",
    "dict": "use a tuple",
    "einsum_path": "einsum chooses its own path",
    "empty": "zeros(shape)",
    "enumerate": "a `for` loop over range(n) with an index",
    "grad": "gradients(ys, xs) gives a list, one gradient an x: (dw,) = gradients(loss, [w])",
    "item": "a tensor is used as it is: there are no Python numbers of values",
    "isinstance": "types are known when the graph is compiled",
    "detach": "stop_gradient(x)",
    "float_": "x.astype(float)",
    "fill": "full(shape, value), or x[:] = value",
    "loadtxt": 'load("file.npz", "name") reads a constant',
    "iter": "a `for` loop over range(n) with an index",
    "map": "NumPy's functions work on whole arrays",
    "nonzero": "its result has no size known beforehand: where(mask, x, 0)",
    "normal": "a graph has no random numbers: declare an input `eps: float[N]` and draw outside",
    "open": 'load("file.npz", "name") reads a constant',
    "print": "return the value to see it",
    "rand": "a graph has no random numbers: declare an input `eps: float[N]` and draw outside",
    "randn": "a graph has no random numbers: declare an input `eps: float[N]` and draw outside",
    "numpy": "a tensor is an array already",
    "random": "a graph has no random numbers: declare an input `eps: float[N]` and draw outside",
    "uniform": "a graph has no random numbers: declare an input `eps: float[N]` and draw outside",
    "tolist": "a tensor is used as it is: there are no Python numbers of values",
    "unique": "its result has no size known beforehand",
    "value_and_grad": "gradients(ys, xs); the compiled module has value_and_gradients",
    "vectorize": "NumPy's functions work on whole arrays",
    "vmap": "NumPy's broadcasting maps over leading axes",
    "zip": "a `for` loop over range(n) with an index",
}

PLANNED = frozenset(
    [
        "amax",
        "amin",
        "angle",
        "any",
        "all",
        "argmax",
        "argmin",
        "argsort",
        "argpartition",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "attention",
        "average",
        "avg_pool",
        "batch_norm",
        "beta",
        "betainc",
        "betaln",
        "block",
        "celu",
        "choose",
        "cho_solve",
        "cholesky",
        "column_stack",
        "complex",
        "compress",
        "concatenate",
        "conj",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose2d",
        "convolve",
        "correlate",
        "count_nonzero",
        "cross",
        "cummax",
        "cummin",
        "cumprod",
        "cumsum",
        "custom_gradient",
        "depth_to_space",
        "det",
        "diag",
        "diag_indices",
        "diagflat",
        "diagonal",
        "diff",
        "digamma",
        "digitize",
        "dstack",
        "ediff1d",
        "eigh",
        "eigvalsh",
        "einsum",
        "elu",
        "embedding",
        "entr",
        "erf",
        "erfc",
        "erfcx",
        "erfinv",
        "expand_dims",
        "expm",
        "eye",
        "fft",
        "fft2",
        "flatten",
        "flip",
        "fliplr",
        "flipud",
        "frexp",
        "full",
        "gamma",
        "gammainc",
        "gammaincc",
        "gammaln",
        "gather_nd",
        "gelu",
        "geomspace",
        "group_norm",
        "hard_sigmoid",
        "hard_tanh",
        "hessian",
        "hsplit",
        "hstack",
        "huber",
        "hvp",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "identity",
        "ifft",
        "ifft2",
        "imag",
        "index_add",
        "index_max",
        "index_min",
        "index_update",
        "indices",
        "inner",
        "inv",
        "irfft",
        "jacobian",
        "jvp",
        "kl_div",
        "kron",
        "l2_normalize",
        "layer_norm",
        "leaky_relu",
        "linspace",
        "log_expit",
        "log_ndtr",
        "log_sigmoid",
        "log_softmax",
        "logcumsumexp",
        "logit",
        "logspace",
        "logsumexp",
        "lstsq",
        "matrix_norm",
        "matrix_power",
        "max",
        "max_pool",
        "mean",
        "median",
        "meshgrid",
        "min",
        "mish",
        "moveaxis",
        "multi_dot",
        "nanmax",
        "nanmean",
        "nanmin",
        "nansum",
        "ndtr",
        "ndtri",
        "norm",
        "one_hot",
        "ones",
        "outer",
        "pad",
        "partition",
        "pinv",
        "polygamma",
        "prevent_gradient",
        "prod",
        "ptp",
        "put_along_axis",
        "qr",
        "quantile",
        "ravel",
        "real",
        "rel_entr",
        "relu",
        "relu6",
        "repeat",
        "reshape",
        "resize",
        "rfft",
        "rms_norm",
        "roll",
        "rollaxis",
        "rot90",
        "searchsorted",
        "segment_max",
        "segment_mean",
        "segment_min",
        "segment_prod",
        "segment_sum",
        "selu",
        "sigmoid_cross_entropy",
        "silu",
        "slogdet",
        "softmax",
        "softmax_cross_entropy",
        "softplus",
        "softsign",
        "solve",
        "solve_triangular",
        "sort",
        "space_to_depth",
        "sparse_softmax_cross_entropy",
        "sliding_window_view",
        "split",
        "squeeze",
        "stack",
        "std",
        "stop_gradient",
        "sum",
        "svd",
        "svdvals",
        "swapaxes",
        "take",
        "take_along_axis",
        "tensordot",
        "tile",
        "top_k",
        "trace",
        "transpose",
        "trapezoid",
        "tri",
        "tril",
        "tril_indices",
        "triu",
        "triu_indices",
        "vander",
        "var",
        "vdot",
        "vjp",
        "vsplit",
        "vstack",
        "xlog1py",
        "xlogy",
        "zeros",
        "zeta",
    ]
)
"""Functions that the language has by its definition, in this version or a later one."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """`did you mean maximum?`, or "" where nothing is near."""
    if len(name) > 60:
        return ""
    known = sorted(set(choices))
    for choice in known:
        if choice.casefold() == name.casefold():
            return f"did you mean {choice}?"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.65)
    return f"did you mean {near[0]}?" if near else ""


def unknown_function(name: str, prefix: str, others: Iterable[str]) -> GradcError:
    """The error for a call of a function that is not there; `others` are the `def`s in sight."""
    shown = f"{prefix}.{name}" if prefix else name
    if name in CONTROL:
        return UnsupportedError(
            f"{shown} is not in this version yet", hint=CONTROL[name]
        )
    if name in PLANNED:
        return UnsupportedError(f"{shown} is not in this version yet")
    hint = SLIPS.get(name, "") or did_you_mean(
        name, (*functions(), *others, "gradients")
    )
    return ParseError(
        f"no function is called {shown}", code="unknown-function", hint=hint
    )


def signature_of(function: Function) -> str:
    """`sum(x, axis=None, keepdims=False)`: what to write, for a hint."""
    shown = []
    for p in function.signature.parameters.values():
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        default = "" if p.default is p.empty else f"={p.default!r}"
        shown.append(f"{star}{p.name}{default}")
    return f"{function.name}({', '.join(shown)})"


def is_function(name: str) -> bool:
    """Whether the language has a function of this name."""
    return lookup_function(name) is not None


def is_method(name: str) -> bool:
    """Whether the language has a function of this name that may be called as `x.name()`."""
    function = lookup_function(name)
    return function is not None and function.method

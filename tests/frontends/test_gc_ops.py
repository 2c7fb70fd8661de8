"""The compiler's own spelling: every op is written out and read back as it was."""

from __future__ import annotations

import pytest

from gradc.errors import GradcErrors
from gradc.frontends.gc import parse
from gradc.frontends.gc_ops import _KINDS, _arity, _signature
from gradc.ops.registry import lookup, names

DECLARED = (
    "x: float[N, 3]\ny: float[N, 3]\ns: float[3, 3]\nv: float[3]\ni: int[N, 3]\nj: int[2]\n"
    "p: bool[N, 3]\nz: complex128[N]\nw: float[K, K]\n"
    "a: float[B, 2, T]\nb: float[4, 2, 3]\n"
)
UNARY = [
    "abs",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cbrt",
    "ceil",
    "copy",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "gammaln",
    "gelu",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_sigmoid",
    "logical_not",
    "mish",
    "ndtr",
    "negative",
    "reciprocal",
    "relu",
    "relu6",
    "rint",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "stop_gradient",
    "tan",
    "tanh",
    "trunc",
    "softmax",
    "log_softmax",
    "logsumexp",
    "cumsum",
    "prod",
    "std",
    "var",
    "norm",
    "argmax",
    "argmin",
    "max",
    "min",
    "sum",
    "flip",
    "cumprod",
]
BINARY = [
    "arctan2",
    "copysign",
    "fmax",
    "fmin",
    "fmod",
    "heaviside",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mul_no_nan",
    "power",
    "remainder",
    "xlog1py",
    "xlogy",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "floor_divide",
    "add",
    "subtract",
    "multiply",
    "divide",
    "huber",
]
OTHERS = [
    *(
        "x @ s",
        "x.T",
        "x[::-1]",
        "x[0]",
        "x[:, 1:]",
        "x[j]",
        "index_update(x, j, 1.0)",
        "i << 2",
    ),
    *(
        "index_add(x, j, 1.0)",
        "index_add(x, slice(0, 1), 2.0)",
        "concatenate([x, y])",
        "i >> 1",
    ),
    *(
        "i & 1",
        "i | 1",
        "i ^ 1",
        "~i",
        "where(p, x, y)",
        "clip(x, 0, 1)",
        "cholesky(s)",
        "det(s)",
    ),
    *(
        "inv(s)",
        "solve(s, v)",
        "solve_triangular(s, v, lower=True)",
        "slogdet(s)",
        "eye(3)",
    ),
    *(
        "arange(N)",
        "x.astype(float32)",
        "x.astype(int)",
        "ldexp(x, i)",
        "polygamma(1, x)",
    ),
    *(
        "sparse_softmax_cross_entropy(s, array([0, 1, 2]))",
        "gelu(x, approximate=True)",
        "diag(v)",
    ),
    *(
        "prevent_gradient(x, 'no')",
        "N * 1.0",
        "x.reshape(3, N)",
        "tril(s)",
        "s.ravel()[None]",
    ),
    *(
        "gradients(sum(relu6(x) * y), x)[0]",
        "gradients(det(s), s)[0]",
        "gradients(prod(x), x)[0]",
    ),
    *(
        "nanmax(x)",
        "nanmin(x, axis=0)",
        "cummax(x)",
        "cummin(x, 1)",
        "logcumsumexp(x, -1)",
        "sort(x)",
        "searchsorted(v, x, side='right')",
    ),
    *(
        "gradients(sum(segment_max(v, i[:3, 0], 4)), v)[0]",
        "gradients(sum(segment_prod(v, i[:3, 0], K)), v)[0]",
        "segment_prod(v, i[:3, 0], 4)",
        "index_min(x, (j, 1), 0.5)",
        "gather_nd(s, [[0, 1], [2, 2]])",
    ),
    *(
        "sliding_window_view(x, 2, 1)",
        "convolve(x[:, 0], v, 'same')",
        "gradients(sum(sliding_window_view(s, (2, 2)) ** 2), s)[0]",
        "gradients(sum(conv1d(a, b, 2, 1) ** 2), [a, b])[0]",
        "gradients(sum(conv1d(a, b, 2, 1) ** 2), [a, b])[1]",
        "gradients(sum(max_pool(a, 2, padding='same')), a)[0]",
        "gradients(gradients(sum(max_pool(a, 2) ** 2), a)[0], a)[0]",
        "avg_pool(a, 2)",
        "gradients(sum(avg_pool(a, 2, 1, 1)), a)[0]",
    ),
    *(
        "gradients(sum(x * sqrt(x)), x)[0]",
        "gradients(sinc(x), x)[0]",
        "gradients(prod(s), s)[0]",
    ),
    *(
        "gradients(sum(x[j]), x)[0]",
        "gradients(sum(x * y), [x], gate_gradients=True)[0]",
    ),
    *("gradients(sum(trace(s)), s)[0]", "custom_gradient(exp, multiply)(x)", "z"),
    *(
        "gradients(sum(x * x * x), x, aggregation_method='tree')[0]",
        "pad(x, 1)",
        "roll(x, 1)",
    ),
]
OTHERS += [
    *("det(w)", "gradients(det(w), w)[0]", "diagonal(w)", "index_update(x, 0, 1.0)"),
    *("gradients(sum(x * y), [x, y], gate_gradients=True)[0]", "gc.opaque(x)"),
    *("real(z)", "imag(z)", "conj(z)", "complex(x, y)"),
]
EXPRESSIONS = [f"{f}(x)" for f in UNARY] + [f"{f}(x, y)" for f in BINARY] + OTHERS


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_ops_read_back(expression: str) -> None:
    text = f"{DECLARED}r = {expression}\nreturn "
    graph = parse(text + ("*r" if expression.startswith("slogdet") else "r"))
    again = parse(str(graph))
    assert str(again) == str(graph)
    for old, new in zip(graph.nodes(), again.nodes(), strict=True):
        assert (old.op, old.types) == (new.op, new.types)
        if old.op.name != "custom":
            assert old.attrs == new.attrs


def test_every_op_is_among_them() -> None:
    seen = set()
    for expression in EXPRESSIONS:
        text = f"{DECLARED}r = {expression}\nreturn "
        graph = parse(text + ("*r" if expression.startswith("slogdet") else "r"))
        seen |= {node.op.name for node in graph.nodes()}
    assert set(names()) - seen == set()


@pytest.mark.parametrize("name", names())
def test_attributes_are_known(name: str) -> None:
    """A new attribute needs a line in `_KINDS` that says what it may hold."""
    op = lookup(name)
    assert op is not None
    needed, allowed = _signature(op)
    assert needed <= allowed
    if name != "input":
        assert allowed <= set(_KINDS)
    assert _arity(op) in (None, 0, 1, 2, 3)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gc.nothing(x)", "no op is called nothing [unknown-op]"),
        ("gc.exp()", "1 operands expected, found 0"),
        ("gc.exp(x, y)", "1 operands expected, found 2"),
        ("gc.exp(x, a=1)", "no attribute a"),
        ("gc.transpose(x)", "no value for perm"),
        ("gc.transpose(x, perm=(0, 0))", "perm can't be (0, 0)"),
        ("gc.transpose(x, perm=(1,))", "perm can't be (1,)"),
        ("gc.reduce_sum(x, axes=(1, 0))", "axes can't be (1, 0)"),
        ("gc.reduce_sum(x, axes=(-1,))", "axes can't be (-1,)"),
        ("gc.reduce_sum(x, axes=(2,))", "axes can't be (2,)"),
        ("gc.reshape(x, shape=(3 * N, -1, -1))", "shape can't be"),
        ("gc.reshape(x, shape=(N,))", "has 3 * N elements, (N,) has N"),
        ("gc.slice(v, start=(0,), stop=(4,), step=(1,))", "outside an axis of 3"),
        ("gc.slice(v, start=(0,), stop=(2,), step=(0,))", "step can't be (0,)"),
        (
            "gc.embed(v, shape=(3,), start=(1,), step=(1,))",
            "a position outside of its axis",
        ),
        ("gc.gather(v, x, axes=(0,), at=0)", "gather: indices"),
        ("gc.add(x, v)", "operands differ"),
        ("gc.add_n(x, v, method='')", "operands differ"),
        ("gc.cast(x, dtype=3)", "dtype can't be 3"),
        ("gc.cast(x, dtype=float32)", "dtype can't be float32"),
        ("gc.solve(s, x)", "no system"),
        ("gc.constant(value=[1, 2], weak=False)", "value can't be (1, 2)"),
        (
            "gc.constant(value=gc.data(gc.float64, (3,), [1.0]), weak=False)",
            "1 values for 3",
        ),
        (
            "gc.constant(value=gc.data(gc.bool, (1,), 'Ag=='), weak=False)",
            "neither 0 nor 1",
        ),
        (
            "gc.constant(value=gc.data(gc.float64, (1,), 'A'), weak=False)",
            "gc.data can't have",
        ),
        ("gc.constant(value=x.T, weak=False)", "this can't be an attribute"),
        ("gc.iota(shape=(10**20,), axis=0, dtype=gc.int64)", "above 2**62"),
        ("gc.reduce_sum(x, axes=(lambda: 0,))", "this can't be an attribute"),
        ("gc.prevent_gradient(x, message=" + "-" * 60 + "1)", "nested too deeply"),
        ("gc.exp(*x)", "takes a list or a tuple apart"),
        ("gc.exp('x')", "expected a tensor, found the text 'x'"),
        ("gc.exp(**x)", "** is not part"),
    ],
)
def test_what_is_refused(line: str, expected: str) -> None:
    with pytest.raises(GradcErrors) as caught:
        parse(f"{DECLARED}r = {line}\nreturn r")
    assert expected in str(caught.value)
    assert "internal" not in str(caught.value)

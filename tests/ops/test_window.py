"""What is refused of windows, convolutions and pooling, and what the schedule makes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import call
from rows import Row, arrays, with_cotangents

from gradc.autodiff.reverse import gradients
from gradc.driver import compile, simplified
from gradc.emit.numba_kernel import numba_kernel
from gradc.errors import GradcError
from gradc.frontends.gc import parse
from gradc.graph import Graph, Output
from gradc.ops.basic import input_
from gradc.ops.conv import conv1d, conv2d, conv_transpose2d, convolve
from gradc.ops.evaluator import evaluate
from gradc.ops.image import depth_to_space, resize, space_to_depth
from gradc.ops.pool import avg_pool, max_pool
from gradc.ops.window import sliding_window_view
from gradc.schedule.check import check
from gradc.schedule.interpret import interpret
from gradc.schedule.lower import schedule
from gradc.types import TensorType, dim_text, float64, symbol

N = symbol("N")


def image(*dims, dtype=float64):
    return input_(name="x", type=TensorType(dtype, dims), default=None)


ERRORS = [
    (lambda: max_pool(image(1, 1, 3, 3), 4), "shape-mismatch", "does not fit"),
    (lambda: max_pool(image(3, 3), 2), "shape-mismatch", "x[None, None]"),
    (lambda: max_pool(image(1, 3, 3), (2, 2)), "shape-mismatch", "x[None]"),
    (lambda: avg_pool(image(1, 1, 3), 2, padding=2), "shape-mismatch", "less than"),
    (lambda: avg_pool(image(1, 1, 3), 0), "shape-mismatch", "no elements"),
    (lambda: avg_pool(image(1, 1, 3), 2, 0), "bad-option", "from 1 on"),
    (lambda: avg_pool(image(1, 1, 3), 2, layout="NHW"), "bad-option", "NHWC"),
    (lambda: max_pool(image(1, 1, 3, 3), 2, padding="full"), "bad-option", "'same'"),
    (
        lambda: max_pool(image(1, 1, 3, 3), 2, padding=(1, 1)),
        "bad-option",
        "padding=((1, 1), (1, 1))",
    ),
    (lambda: max_pool(image(1, 1, N), 2, 3, "same"), "shape-mismatch", "multiple of 3"),
]


@pytest.mark.parametrize(
    "make, code, words", ERRORS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_errors(make, code, words):
    with pytest.raises(GradcError) as caught:
        make()
    assert caught.value.code == code
    assert words in str(caught.value)


IMAGE_ERRORS = [
    (
        lambda: space_to_depth(image(1, 1, N, 4), 2),
        "shape-mismatch",
        "float[N, 3, 2 * H, 2 * W]",
    ),
    (lambda: space_to_depth(image(4, 4), 2), "shape-mismatch", "x[None, None]"),
    (lambda: depth_to_space(image(1, 3, 2, 2), 2), "shape-mismatch", "multiple of 4"),
    (lambda: depth_to_space(image(1, 4, 2, 2), 0), "bad-option", "from 1 on"),
    (lambda: resize(image(1, 1, 3), 2, "cubic"), "bad-option", "'cubic'"),
    (lambda: resize(image(1, 1, 3), 2, coordinates="x"), "bad-option", "asymmetric"),
    (lambda: resize(image(1, 1, 0), 2), "shape-mismatch", "without pixels"),
    (lambda: resize(image(1, 1, 3), -2), "shape-mismatch", "negative"),
]
CONV_ERRORS = [
    (
        lambda: conv2d(image(1, 3, 4, 4), image(8, 4, 3, 3)),
        "shape-mismatch",
        "3 channels, the filters take 4",
    ),
    (
        lambda: conv2d(image(1, N, 4, 4), image(8, 4, 3, 3)),
        "shape-mismatch",
        "assert N == 4",
    ),
    (
        lambda: conv2d(image(1, 4, 4, 4), image(3, 2, 3, 3), groups=2),
        "shape-mismatch",
        "do not divide into 2 groups",
    ),
    (lambda: conv2d(image(4, 4), image(3, 3)), "shape-mismatch", "x[None, None]"),
    (
        lambda: conv2d(image(1, 1, 4, 4), image(3, 3)),
        "shape-mismatch",
        "filters of rank 4",
    ),
    (lambda: conv1d(image(1, 1, 2), image(1, 1, 3)), "shape-mismatch", "does not fit"),
    (
        lambda: conv1d(image(1, 1, 4), image(1, 1, 3), dilation=2),
        "shape-mismatch",
        "dilated by 2",
    ),
    (lambda: conv1d(image(1, 1, 4), image(1, 1, 3), (1, 2)), "bad-option", "found 2"),
    (
        lambda: conv1d(image(1, 1, 4), image(1, 1, 3), layout="NHCW"),
        "bad-option",
        "'NHCW'",
    ),
    (
        lambda: conv_transpose2d(image(1, 1, 1, 1), image(1, 1, 2, 2), 1, 2),
        "shape-mismatch",
        "pad less",
    ),
    (lambda: convolve(image(2, 2), image(2)), "shape-mismatch", "vectors"),
    (lambda: convolve(image(0), image(2)), "shape-mismatch", "empty"),
    (lambda: convolve(image(3), image(2), "circular"), "bad-option", "'full'"),
    (
        lambda: sliding_window_view(image(3, 3), (2, 2), 0),
        "shape-mismatch",
        "2 lengths of windows for 1 axes",
    ),
    (lambda: sliding_window_view(image(3), 4), "shape-mismatch", "does not fit"),
]


@pytest.mark.parametrize(
    "make, code, words",
    [*CONV_ERRORS, *IMAGE_ERRORS],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_convolution_errors(make, code, words):
    with pytest.raises(GradcError) as caught:
        make()
    assert caught.value.code == code
    assert words in str(caught.value)


def test_a_symbolic_axis_must_have_room_for_a_window():
    y = conv1d(image(2, 3, N), image(4, 3, 5), padding=1)
    (required,) = y.op.requires(y.node)
    assert dim_text(required) == "N - 3"


# ------------------------------------------------------------- products of windows

PRODUCTS = [
    ("one", ("2 20 6 5", "18 20 3 3"), {}, 3),
    ("strided", ("2 20 6 6", "18 20 3 3"), {"stride": 2, "padding": 1}, 3),
    ("of one image", ("1 20 6 6", "18 20 3 3"), {"padding": "same"}, 3),
    ("of one tap", ("2 20 6 6", "18 20 1 1"), {"stride": (1, 2)}, 3),
    ("in groups", ("2 40 6 6", "36 20 3 3"), {"groups": 2}, 3),
    ("channels last", ("2 6 6 20", "3 3 20 18"), {"layout": "NHWC"}, 3),
    (
        "channels last, in groups",
        ("2 6 6 40", "3 3 20 36"),
        {"layout": "NHWC", "groups": 2, "padding": ((1, 0), (0, 0))},
        3,
    ),
    ("small", ("2 3 6 6", "4 3 2 2"), {}, 0),
    ("depthwise", ("2 20 6 6", "20 1 3 3"), {"groups": 20}, 0),
]


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name, shapes, options, calls", PRODUCTS)
def test_products(name, shapes, options, calls, level):
    """Large convolutions and both their derivatives are matrix products, an image at a time."""
    row = Row(name, shapes, lambda x, w: call("square")(conv2d(x, w, **options)), None)
    graph = with_cotangents(row, float64)
    data = arrays(row, float64, {})
    outputs = [o.tensor for o in graph.outputs]
    wanted = evaluate(outputs, dict(zip(graph.inputs, data, strict=True)))
    simple = simplified(graph)
    made = schedule(simple, "f", level)
    check(made.program)
    assert str(made.program).count("call gemm") == calls
    given = dict(zip(simple.inputs, data, strict=True))
    found = {n: given[t] for n, t in made.inputs.items()}
    found |= {n: np.empty(t.shape) for n, t in made.outputs.items()}
    assert interpret(made.program, found, {}) == 0
    for output, want in zip(made.outputs, wanted, strict=True):
        np.testing.assert_allclose(found[output], want, rtol=1e-10, atol=1e-10)
    numba_kernel(made.program)


def test_windows_last_for_one_image():
    """Fused, the windows of an image are gone before the next one; a sum over all images between
    forward and backward pass does not make them last."""
    x, w = image(50, 20, 9, 9), image(18, 20, 3, 3)
    y = conv2d(x, w)
    loss = call("sum")(y * y) ** 2
    bars = gradients(loss, [x, w]).tensors
    outputs = (Output("loss", loss), *(Output(f"g{k}", b) for k, b in enumerate(bars)))
    program = schedule(simplified(Graph("g", (x, w), outputs)), "f").program
    whole = 50 * 20 * 9 * 7 * 7
    sizes = [math.prod(b.dims) for b in program.buffers if b.place != "output"]
    assert max(sizes) < whole / 2


TEXT = """
x: float32[N, 3, H, W]
w: float32[20, 3, 3, 3]
k: float64[K]
a = max_pool(conv2d(x, w, padding="same"), 2)
f = convolve(k, [0.5, 1.0, -2.0], "same")
loss = sum(a * a) + sum(f * f).astype(float32)
differentiate(loss, [x, w, k])
return loss
"""


@pytest.mark.parametrize("target", ["numpy", "numba"])
def test_compiled(target):
    rng = np.random.default_rng(3)
    x, w = (rng.normal(size=s).astype("f4") for s in ((2, 3, 7, 6), (20, 3, 3, 3)))
    data = [x, w, rng.normal(size=9)]
    graph = parse(TEXT)
    bars = gradients(graph.names["loss"], list(graph.inputs)).tensors
    feeds = dict(zip(graph.inputs, data, strict=True))
    wanted = evaluate([graph.names["loss"], *bars], feeds)
    module = compile(TEXT, target=target)
    values, found = module.value_and_gradients(*data)
    for got, want in zip((*values, *found), wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
    values, found = module.value_and_gradients(x[:0], w, data[2])
    assert found.x.shape == (0, 3, 7, 6)
    assert not np.any(found.w)
    with pytest.raises(ValueError, match="f = convolve"):
        module.value_and_gradients(x, w, data[2][:2])
    with pytest.raises(ValueError, match="max_pool"):
        module.value_and_gradients(x[..., :1], w, data[2])

"""The thirteen rules of gradients, each with tests of its own.

The numbers of the sections are those of the rules: what `tf.gradients` does, tensor by tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradc.autodiff.reverse import gradients
from gradc.errors import GradcError, GradcErrors
from gradc.frontends.gc import parse
from gradc.graph import Tensor, label, ordered
from gradc.ops.basic import input_
from gradc.ops.control import stop_gradient
from gradc.ops.evaluator import evaluate
from gradc.ops.functions import apply
from gradc.types import TensorType, float32, float64, int64, symbol
from tests.autodiff.helpers import check

inf, nan = np.inf, np.nan
N = symbol("N")


def tensor(*shape: Any, name: str = "x", dtype: Any = float64) -> Tensor:
    made = input_(name=name, type=TensorType(dtype, shape), default=None)
    return label(made, name)


def value(result: Tensor | None, **feeds: Any) -> Any:
    """The value of a gradient, where it is not None; inputs are fed by name."""
    assert result is not None
    inputs = [n.out for n in ordered([result]) if n.op is input_]
    given = {t: np.asarray(feeds[t.name]) for t in inputs}
    return evaluate([result], given)[0]


def code_of(*args: Any, **options: Any) -> str:
    """The code of the error that `gradients` raises."""
    with pytest.raises(GradcError) as caught:
        gradients(*args, **options)
    return caught.value.code


# ------------------------------------------------------- 1: a list as long as xs, summed over ys


def test_a_gradient_for_each_x_summed_over_ys() -> None:
    check(
        """
x: float[2]
w: float[2]
a, b = gradients([x * x, 3.0 * x, sum(x * w)], [x, w])
return a, b
""",
        {"a": [5 + 0.5, 7 - 1.0], "b": [1.0, 2.0]},
        x=[1.0, 2.0],
        w=[0.5, -1.0],
    )


def test_single_tensors_are_lists_of_one() -> None:
    x = tensor(2)
    assert len(gradients(x * x, x).tensors) == 1
    assert len(gradients((x * x,), (x, x * 1.0)).tensors) == 2


def test_ys_of_several_shapes_and_dtypes() -> None:
    x, w = tensor(2, dtype=float32), tensor(2, name="w")
    y = apply("astype", x, float64) * 3.0 + w
    a, b = gradients([x * x, apply("sum", y)], [x, w]).tensors
    found = value(a, x=np.float32([1, 2]), w=np.zeros(2))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [5, 7])
    assert value(b, x=np.float32([1, 2]), w=np.zeros(2)).dtype == np.float64


def test_the_same_y_twice_counts_twice() -> None:
    x = tensor(2)
    y = x * x
    (bar,) = gradients([y, y], x).tensors
    np.testing.assert_array_equal(value(bar, x=[1.0, 2.0]), [4, 8])
    (bar,) = gradients([y, y], x, grad_ys=[1.0 + y * 0.0, None]).tensors
    np.testing.assert_array_equal(value(bar, x=[1.0, 2.0]), [4, 8])


def test_one_y_feeds_another() -> None:
    check(
        """
x: float
y = x * x
a, b = gradients([y, 3.0 * y], [x, y])
return a, b
""",
        {"a": 16.0, "b": 4.0},
        x=2.0,
    )


def test_total_derivatives_by_leaf_inner_node_and_y() -> None:
    check(
        """
x: float
h = x * x
y = h * h
a, b, c = gradients(y, [x, h, y])
return a, b, c
""",
        {"a": 32.0, "b": 8.0, "c": 1.0},
        x=2.0,
    )


def test_no_ys_reach_nothing() -> None:
    x = tensor(2)
    assert gradients([], [x]).tensors == (None,)
    (zero,) = gradients([], [x], unconnected_gradients="zero").tensors
    np.testing.assert_array_equal(value(zero, x=[1.0, 2.0]), [0, 0])


@pytest.mark.parametrize("argument", ["ys", "xs", "stop_gradients"])
@pytest.mark.parametrize("bad", [None, "x", {}, {1}, [None], [[1.0]], 3.0, np.ones(2)])
def test_what_is_no_tensor_is_an_error(argument: str, bad: Any) -> None:
    if argument == "stop_gradients" and bad is None:
        return  # the default
    x = tensor(2)
    arguments: dict[str, Any] = {"ys": x * x, "xs": x, argument: bad}
    with pytest.raises(GradcError) as caught:
        gradients(**arguments)
    assert caught.value.code == "type-mismatch"
    assert argument in str(caught.value)


# ----------------------------------------------------------------------------- 2: grad_ys


def test_seeds_weight_the_ys() -> None:
    check(
        """
x: float[2]
g: float[2]
a, = gradients([x * x, sin(x)], [x], grad_ys=[g, None])
b, = gradients(x * x, x, grad_ys=g)
return a, b
""",
        {
            "a": np.array([2 * 3.0, 4 * -1.0]) + np.cos([1.0, 2.0]),
            "b": [6.0, -4.0],
        },
        x=[1.0, 2.0],
        g=[3.0, -1.0],
    )


def test_a_python_number_takes_the_dtype_of_y() -> None:
    for dtype in (float32, float64):
        x = tensor(dtype=dtype)
        for number in (2, 2.0, True):
            (bar,) = gradients(x * x, x, grad_ys=[number]).tensors
            assert bar is not None
            assert bar.dtype == dtype
            assert value(bar, x=np.asarray(3.0, dtype.name)) == 6.0 * number


def test_arrays_are_seeds_of_their_own_dtype() -> None:
    x = tensor(2)
    (bar,) = gradients(x * x, x, grad_ys=[np.array([3.0, 5.0])]).tensors
    np.testing.assert_array_equal(value(bar, x=[1.0, 2.0]), [6, 20])
    assert code_of(x * x, x, grad_ys=[np.float32([3, 5])]) == "type-mismatch"
    assert code_of(x * x, x, grad_ys=[np.float64(3)]) == "shape-mismatch"
    for bad in ("ones", [1.0, 2.0], object()):
        assert code_of(x * x, x, grad_ys=[bad]) == "type-mismatch"


def test_a_size_is_a_seed() -> None:
    x = tensor(N)
    (bar,) = gradients(apply("sum", x * x), x, grad_ys=[N + 1]).tensors
    np.testing.assert_array_equal(value(bar, x=[1.0, 2.0]), [6, 12])


def test_a_weak_seed_of_the_language_takes_the_dtype_of_y() -> None:
    check(
        """
x: float32
a, = gradients(x * x, x, grad_ys=2)
return a
""",
        {"a": np.float32(12.0)},
        x=np.float32(3.0),
    )


LENGTHS = [[], [None], [None, None, None]]


@pytest.mark.parametrize("seeds", LENGTHS, ids=["0", "1", "3"])
def test_a_wrong_count_of_seeds(seeds: list[None]) -> None:
    x = tensor(2)
    with pytest.raises(GradcError) as caught:
        gradients([x * x, x * 2.0], x, grad_ys=seeds)
    assert caught.value.code == "length-mismatch"
    assert "expected 2 entries" in str(caught.value)
    assert f"found {len(seeds)}" in str(caught.value)


SHAPES: list[tuple[Any, ...]] = [(), (1,), (3,), (2, 2), (1, 2), (0,), (N,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_seed_of_another_shape(shape: tuple[Any, ...]) -> None:
    x, g = tensor(2), tensor(*shape, name="g")
    y = label(x * x, "y")
    with pytest.raises(GradcError) as caught:
        gradients(y, x, grad_ys=g)
    assert caught.value.code == "shape-mismatch"
    message = str(caught.value)
    assert "y is float64[2]" in message  # both types are named
    assert str(g.type) in message


def test_a_number_is_no_seed_of_a_vector() -> None:
    x = tensor(2)
    assert code_of(x * x, x, grad_ys=[1.0]) == "shape-mismatch"


@pytest.mark.parametrize("dtype", [float32, int64], ids=str)
def test_a_seed_of_another_dtype(dtype: Any) -> None:
    x, g = tensor(2), tensor(2, name="g", dtype=dtype)
    with pytest.raises(GradcError) as caught:
        gradients(x * x, x, grad_ys=g)
    assert caught.value.code == "type-mismatch"
    assert f"the entry is {dtype}[2]" in str(caught.value)
    assert ".astype(float64)" in caught.value.hint


def test_a_seed_is_checked_where_no_x_reaches_its_y() -> None:
    x, w, g = tensor(2), tensor(2, name="w"), tensor(3, name="g")
    assert code_of([x * x, w * 1.0], x, grad_ys=[None, g]) == "shape-mismatch"


def test_the_error_of_a_text_has_its_place() -> None:
    text = "x: float[2]\ng: float[3]\ndifferentiate(x * x, x, grad_ys=g)\n"
    with pytest.raises(GradcErrors) as caught:
        parse(text, "m.gc")
    (error,) = caught.value.errors
    assert error.location is not None
    assert (error.location.line, error.code) == (3, "shape-mismatch")


def test_a_seed_may_depend_on_x_and_is_a_plain_weight() -> None:
    check(
        """
x: float
a, = gradients(x**2, x, grad_ys=x)
b, = gradients(a, x)
return a, b
""",
        {"a": 18.0, "b": 12.0},
        x=3.0,
    )


def test_a_product_with_the_jacobian_by_two_reverse_passes() -> None:
    check(
        """
x: float[3]
v: float[2]
t: float[3]
y = stack([x[0] * x[1], sin(x[2])])
g, = gradients(y, x, grad_ys=v)
jt, = gradients(g, v, grad_ys=t)
return jt
""",
        {"jt": [2.0 * 0.1 + 1.0 * 0.2, np.cos(0.5) * 0.3]},
        x=[1.0, 2.0, 0.5],
        v=[5.0, 7.0],
        t=[0.1, 0.2, 0.3],
    )


def test_y_in_xs_gets_its_seed_itself() -> None:
    x, g = tensor(2), tensor(2, name="g")
    assert gradients(x, x, grad_ys=g).tensors == (g,)
    y = apply("copy", x)
    assert gradients(y, x, grad_ys=g).tensors == (g,)


# ------------------------------------------------------------------------ 3: stop_gradients


def test_documentation_partial_derivatives() -> None:
    check(
        """
a = array(0.0)
b = 2 * a
p, q = gradients(a + b, [a, b], stop_gradients=[a, b])
r, s = gradients(a + b, [a, b])
return p, q, r, s
""",
        {"p": 1.0, "q": 1.0, "r": 3.0, "s": 1.0},
    )


def test_documentation_the_same_by_stop_gradient() -> None:
    check(
        """
a = stop_gradient(array(0.0))
b = stop_gradient(2 * a)
p, q = gradients(a + b, [a, b])
return p, q
""",
        {"p": 1.0, "q": 1.0},
    )


def test_documentation_unconnected() -> None:
    check(
        """
a: float[1, 2]
b: float[3, 1]
g, = gradients([b], [a], unconnected_gradients="none")
z, = gradients([b], [a], unconnected_gradients="zero")
return g, z
""",
        {"g": None, "z": np.zeros((1, 2))},
        a=np.ones((1, 2)),
        b=np.ones((3, 1)),
    )


STOPPED = """
x: float
h = x**2
y = h * x
z = y + h
a, b, c = gradients(z, [x, h, y], stop_gradients={stops})
return a, b, c
"""


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        ("[]", (27.0 + 6.0, 4.0, 1.0)),
        ("h", (9.0, 4.0, 1.0)),
        ("y", (6.0, 1.0, 1.0)),
        ("[h, y]", (None, 1.0, 1.0)),
        ("x", (33.0, 4.0, 1.0)),  # on a leaf: nothing above it to stop
        ("[z]", (None, None, None)),
        ("(h, h)", (9.0, 4.0, 1.0)),
        ("[x, h, y, z]", (None, None, None)),
    ],
)
def test_stops_cut_where_they_come_first(stops: str, expected: tuple[Any, ...]) -> None:
    check(
        STOPPED.format(stops=stops),
        dict(zip("abc", expected, strict=True)),
        x=3.0,
    )


def test_a_stop_on_y_itself() -> None:
    check(
        """
x: float
y = x * x
a, b = gradients(y, [x, y], stop_gradients=y)
return a, b
""",
        {"a": None, "b": 1.0},
        x=3.0,
    )


def test_a_stop_on_an_x_with_producers() -> None:
    check(
        """
a: float
x = a * a
y = x**2 * a
p, q = gradients(y, [a, x], stop_gradients=x)
return p, q
""",
        {"p": 16.0, "q": 16.0},
        a=2.0,
    )


def test_a_stop_on_a_leaf_and_off_every_path() -> None:
    check(
        """
x: float
w: float
y = x * w
side = exp(x)
later = y * y
a, b = gradients(y, [x, w], stop_gradients=[x, side, later])
return a, b
""",
        {"a": 5.0, "b": 3.0},
        x=3.0,
        w=5.0,
    )


def test_stop_list_and_op_meet() -> None:
    check(
        """
x: float
p = x * x
q = stop_gradient(p)
r = q * x
s = exp(r)
y = s + p
a, b = gradients(y, [x, q], stop_gradients=[r])
return a, b
""",
        {"a": 6.0, "b": None},
        x=3.0,
    )


def test_a_stop_on_one_output_leaves_its_siblings() -> None:
    check(
        """
x: float[4]
p, q = split(x, 2)
y = sum(p**2) + sum(q**3)
a, = gradients(y, x, stop_gradients=p)
b, c, d = gradients(y, [p, q, x], stop_gradients=[p, q])
return a, b, c, d
""",
        {"a": [0.0, 0.0, 27.0, 48.0], "b": [2.0, 4.0], "c": [27.0, 48.0], "d": None},
        x=[1.0, 2.0, 3.0, 4.0],
    )


def test_a_stop_on_one_output_of_an_op_with_several() -> None:
    A = np.array([[2.0, 1.0], [0.5, 3.0]])
    text = """
A: float[2, 2]
s, l = slogdet(A)
y = s * 3.0 + l**2
a, = gradients(y, A, stop_gradients={stops})
b, c = gradients(y, [s, l], stop_gradients=[s, l])
return a, b, c
"""
    logdet = np.log(np.linalg.det(A))
    both = {"b": 3.0, "c": 2 * logdet}
    slope = 2 * logdet * np.linalg.inv(A).T
    check(text.format(stops="s"), {"a": slope, **both}, A=A)
    check(text.format(stops="l"), {"a": None, **both}, A=A)


def test_stops_in_nested_gradients() -> None:
    check(
        """
x: float
h = x**2
y = h * x
p, = gradients(y, x, stop_gradients=h)
q, = gradients(p * x, x)
r, = gradients(p * x, x, stop_gradients=h)
s, = gradients(p * x, x, stop_gradients=p)
return p, q, r, s
""",
        # p = h as a value: its own derivative is that of x**2
        {"p": 9.0, "q": 27.0, "r": 9.0, "s": 9.0},
        x=3.0,
    )


def test_every_subset_of_stops_is_as_if_wrapped() -> None:
    """A stop in the list gives what stop_gradient around the tensor gives, for all subsets."""
    names = ["a", "b", "c", "d"]
    rng = np.random.default_rng(5)
    data = {"x": rng.normal(size=(2, 2)), "w": rng.normal(size=(2, 2))}

    def build(wrapped: set[str]) -> dict[str, Tensor]:
        def made(name: str, t: Tensor) -> Tensor:
            plain[name] = t
            return stop_gradient(t) if name in wrapped else t

        plain: dict[str, Tensor] = {}
        x, w = tensor(2, 2), tensor(2, 2, name="w")
        a = made("a", apply("tanh", x @ w))
        b = made("b", a @ x + w)
        c = made("c", apply("square", b) @ a)
        d = made("d", a @ c + b * c)
        read = {"a": a, "b": b, "c": c, "d": d}
        y = apply("sum", d * x)
        return {**read, "x": x, "w": w, "y": y}

    for bits in range(16):
        stops = {n for k, n in enumerate(names) if bits >> k & 1}
        one, two = build(set()), build(stops)
        listed = gradients(
            one["y"],
            [one[n] for n in ("x", "w", *names)],
            stop_gradients=[one[n] for n in names if n in stops],
        ).tensors
        wrapped = gradients(two["y"], [two[n] for n in ("x", "w", *names)]).tensors
        for p, q in zip(listed, wrapped, strict=True):
            assert (p is None) == (q is None)
            if p is not None:
                np.testing.assert_allclose(value(p, **data), value(q, **data))


# ------------------------------------------------------- 4: integer and bool tensors


def test_integer_tensors_are_constants_for_every_x() -> None:
    check(
        """
n: int[3]
x: float[3]
k = astype(x, int64)
a, = gradients(n * n, n)
b, = gradients(n * n, n, unconnected_gradients="zero")
c, = gradients(k, x)
d, e = gradients(astype(n, float64) ** 2 * x, [n, x])
f, = gradients(astype(k, float64) * x, x)
g, = gradients(astype(k, float64), x)
return a, b, c, d, e, f, g
""",
        {
            "a": None,
            "b": np.zeros(3, np.int64),
            "c": None,
            "d": None,
            "e": [1.0, 4.0, 9.0],
            "f": [1.0, -2.0, 0.0],
            "g": None,
        },
        n=[1, 2, 3],
        x=[1.5, -2.5, 0.5],
    )


def test_bool_tensors_and_comparisons() -> None:
    check(
        """
p: bool[2]
x: float[2]
a, b = gradients(where(p, x, -x), [p, x], unconnected_gradients="zero")
c, = gradients(x > 0.0, x)
d, = gradients(isnan(x), x)
e, = gradients(astype(x > 0.0, float64) * x, x)
return a, b, c, d, e
""",
        {
            "a": np.zeros(2, bool),
            "b": [1.0, -1.0],
            "c": None,
            "d": None,
            "e": [0.0, 1.0],
        },
        p=[True, False],
        x=[-1.0, 2.0],
    )


def test_an_integer_y_that_is_x_has_integer_ones() -> None:
    check(
        "n: int[2]\na, = gradients(n, n)\nreturn a\n",
        {"a": np.ones(2, np.int64)},
        n=[3, 4],
    )


def test_an_integer_y_beside_a_float_one_contributes_nothing() -> None:
    x = tensor(2)
    k = apply("astype", x, int64)
    (bar,) = gradients([x * x, k], x).tensors
    np.testing.assert_array_equal(value(bar, x=[1.5, 2.5]), [3, 5])


def test_casts_between_float_types_keep_the_dtype_of_each_x() -> None:
    x = tensor(2, dtype=float32)
    h = apply("astype", x, float64)
    y = apply("astype", h * h, float32)
    a, b = gradients(y, [x, h]).tensors
    assert a is not None
    assert b is not None
    assert (a.dtype, b.dtype) == (float32, float64)
    np.testing.assert_array_equal(value(a, x=np.float32([1, 2])), [2, 4])


def test_an_integer_index_carries_nothing_and_its_table_does() -> None:
    check(
        """
x: float[3]
i: int[4]
a, b = gradients(take(x, i) ** 2, [x, i])
c, = gradients(x[argmax(x)] ** 2, x)
return a, b, c
""",
        {"a": [4.0, 0.0, 3 * 6.0], "b": None, "c": [0.0, 0.0, 6.0]},
        x=[2.0, 1.0, 3.0],
        i=[0, 2, 2, -1],
    )


def test_a_cut_path_beside_an_open_one() -> None:
    check(
        """
x: float
k = astype(astype(x, int32), float64)
a, = gradients(k * k + x * k, x)
return a
""",
        {"a": 2.0},
        x=2.5,
    )


# --------------------------------------------------------------- 5: unconnected_gradients


def test_none_and_zeros() -> None:
    text = """
x: float32[2]
w: float[3]
n: int[2]
p: bool
a, b, c, d = gradients(sum(w * w), [x, w, n, p]{option})
return a, b, c, d
"""
    feeds = {
        "x": np.float32([nan, 1]),
        "w": [1.0, 2.0, 3.0],
        "n": [1, 2],
        "p": True,
    }
    grads = {"a": None, "b": [2.0, 4.0, 6.0], "c": None, "d": None}
    check(text.format(option=""), grads, **feeds)
    check(text.format(option=', unconnected_gradients="none"'), grads, **feeds)
    check(
        text.format(option=', unconnected_gradients="zero"'),
        {
            "a": np.zeros(2, np.float32),
            "b": [2.0, 4.0, 6.0],
            "c": np.zeros(2, np.int64),
            "d": np.zeros((), bool),
        },
        **feeds,
    )


def test_zeros_of_an_unknown_length() -> None:
    check(
        """
x: float[N]
w: float
a, = gradients(w * w, x, unconnected_gradients="zero")
return a
""",
        {"a": np.zeros(5)},
        x=np.ones(5),
        w=1.0,
    )


@pytest.mark.parametrize("bad", [None, "ZERO", "foo", 0, True])
def test_other_values_are_errors(bad: Any) -> None:
    x = tensor(2)
    with pytest.raises(GradcError) as caught:
        gradients(x * x, x, unconnected_gradients=bad)
    assert caught.value.code == "bad-option"
    assert 'expected "none", "zero"' in str(caught.value)
    assert repr(bad) in str(caught.value)


CONNECTED = [
    "0.0 * x",
    "sign(x)",
    "x - x",
    "x ** 0",
    "relu(-abs(x))",
    "where(x > 9, x, 0.0)",
]


@pytest.mark.parametrize("y", CONNECTED)
def test_connected_with_derivative_zero_is_not_none(y: str) -> None:
    for option in ("none", "zero"):
        check(
            f"""
x: float[2]
a, = gradients({y}, x, unconnected_gradients="{option}")
return a
""",
            {"a": np.zeros(2)},
            x=[1.0, 2.0],
        )


CONSTANT = [
    "floor",
    "ceil",
    "rint",
    "trunc",
    "zeros_like",
    "ones_like",
    "argmax",
    "isnan",
]


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_functions_are_no_path(name: str) -> None:
    check(
        f"""
x: float[2]
a, = gradients({name}(x), x)
b, = gradients({name}(x), x, unconnected_gradients="zero")
c, = gradients({name}(x) * x[0], x)
return a, b, c
""",
        {"a": None, "b": np.zeros(2), "c": results_of(name)},
        x=[1.5, 2.0],
    )


def results_of(name: str) -> list[float]:
    """The derivative of sum(f(x) * x[0]) at [1.5, 2] for a piecewise constant f."""
    f: Any = getattr(np, name)
    return [float(np.sum(f(np.array([1.5, 2.0])))), 0.0]


def test_an_unused_output_and_two_outputs_of_one_op() -> None:
    check(
        """
x: float[4]
p, q = split(x, 2)
a, b, c = gradients(sum(q * q), [p, q, x])
d, = gradients(q, p)
e, = gradients(q, p, unconnected_gradients="zero")
return a, b, c, d, e
""",
        {
            "a": None,
            "b": [6.0, 8.0],
            "c": [0.0, 0.0, 6.0, 8.0],
            "d": None,
            "e": [0.0, 0.0],
        },
        x=[1.0, 2.0, 3.0, 4.0],
    )


def test_partly_differentiable_functions() -> None:
    check(
        """
x: float[2]
n: int
w: float[2]
a, b = gradients(ldexp(x, n), [x, n])
c, d = gradients(heaviside(x, w), [x, w])
return a, b, c, d
""",
        {"a": [8.0, 8.0], "b": None, "c": np.zeros(2), "d": [0.0, 1.0]},
        x=[1.0, 0.0],
        n=3,
        w=[0.5, 0.5],
    )

"""forward() and backward() of emitted modules, and what a module says of itself."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_files import FILES, static_sizes

import gradc

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
TARGETS = ["numpy", "numba"]
TWO = """\
X: float[N, D]
w: float[D]
c: float = input(0.5)
k: int[N]

z = tanh(X @ w)
s = c * sum(z**2) / N
n = k + 1
differentiate([z, s, n], [w, X, c, k])
return s, z, n
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory, monkeypatch):
    """One cache folder for all tests here, so that a kernel is compiled once."""
    base = tmp_path_factory.getbasetemp() / "gradc-cache"
    monkeypatch.setenv("GRADC_CACHE_DIR", str(base))


def data(n=5, d=3):
    rng = np.random.default_rng(1)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return {"X": X, "w": w, "k": np.arange(n)}


def same(found, want):
    """Two tuples of arrays, scalars and None are equal to rounding, and of one kind."""
    assert type(found).__name__ == type(want).__name__
    assert found._fields == want._fields
    for a, b in zip(found, want, strict=True):
        assert type(a) is type(b)
        if a is not None:
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "seeds",
    [
        None,
        [None, None, None],
        [np.linspace(-1.0, 2.0, 5), None, None],
        [np.zeros(5), 3.0, None],
    ],
)
def test_the_pair_is_the_whole(target, seeds):
    module = gradc.compile(TWO, target=target)
    values, residuals = module.forward(**data())
    both = module.value_and_gradients(**data(), grad_ys=seeds)
    same(values, both[0])
    for _ in range(2):  # residuals may be used again
        same(module.backward(residuals, seeds), both[1])
    assert both[1].k is None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "d"), [(0, 3), (4, 0), (0, 0), (1, 1)])
def test_sizes_down_to_zero(target, n, d):
    module = gradc.compile(TWO, target=target)
    values, residuals = module.forward(**data(n, d))
    both = module.value_and_gradients(**data(n, d))
    same(values, both[0])
    same(module.backward(residuals), both[1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["logistic", "embedding", "names", "factor"])
def test_the_pair_of_the_golden_graphs(target, name):
    module = gradc.compile(gradc.load(GOLDEN / f"{name}.gc"), target=target)
    rng = np.random.default_rng(2)
    feeds = {n: module._draw(rng, n, 0.1, 0.9) for n in module._DRAWN}
    values, residuals = module.forward(**feeds)
    both = module.value_and_gradients(**feeds)
    for found, want in ((values, both[0]), (module.backward(residuals), both[1])):
        assert type(found).__name__ == type(want).__name__
        for a, b in zip(found, want, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_are_held_by_reference_and_nothing_else_is(target):
    module = gradc.compile(TWO, target=target)
    feeds = data()
    values, residuals = module.forward(**feeds)
    want = module.backward(residuals)
    assert residuals.X is feeds["X"]
    assert residuals.z is not values.z
    assert not np.may_share_memory(residuals.z, values.z)
    assert "`X`" in module.forward.__doc__
    assert "by reference" in module.forward.__doc__
    values.z[...] = 7.0
    same(module.backward(residuals), want)
    feeds["X"] *= 2.0
    np.testing.assert_allclose(module.backward(residuals).w, 2.0 * want.w, rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_only_what_backward_needs_is_kept(target):
    module = gradc.compile(
        "x: float[N]\nq: float[N]\ny = sum(exp(x) + q)\n"
        "differentiate(y, [x, q])\nreturn y\n",
        target=target,
    )
    _, residuals = module.forward(np.ones(3), np.ones(3))
    assert len(residuals) == 2  # exp(x) or x, and N
    assert residuals.N == 3
    linear = gradc.compile(
        "x: float[N]\ny = 2.0 * sum(x)\ndifferentiate(y, [x])\nreturn y\n",
        target=target,
    )
    assert linear.forward(np.ones(3))[1] == (3,)
    fixed = gradc.compile(
        "x: float[3]\ny = 2.0 * sum(x)\ndifferentiate(y, [x])\nreturn y\n",
        target=target,
    )
    values, residuals = fixed.forward(np.ones(3))
    assert (values.y, residuals) == (6.0, ())
    np.testing.assert_array_equal(fixed.backward(residuals, [2.0]).x, np.full(3, 4.0))


@pytest.mark.parametrize("target", TARGETS)
def test_cotangents_of_the_graph_itself(target):
    text = (
        "x: float[N]\ng: float[N]\ny = x**3\nh = 2.0 * g\n"
        "differentiate([y, x * x], [x], grad_ys=[h, None])\nreturn y\n"
    )
    module = gradc.compile(text, target=target)
    x, g = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    _, residuals = module.forward(x, g)
    same(module.backward(residuals), module.value_and_gradients(x, g)[1])
    np.testing.assert_allclose(module.backward(residuals).x, 6 * g * x**2 + 2 * x)
    given = [np.ones(2), np.zeros(2)]
    np.testing.assert_allclose(module.backward(residuals, given).x, 3 * x**2)


@pytest.mark.parametrize("target", TARGETS)
def test_names_that_the_module_has_too(target):
    text = (
        "residuals: float[items]\nout: float\nforward: float[items]\nResiduals: float\n"
        "_k: float[items]\nk = out * sum(residuals * forward * _k) ** 2 * Residuals\n"
        "differentiate(k, [residuals, out, _k])\nreturn k\n"
    )
    module = gradc.compile(text, target=target)
    feeds = [np.arange(3.0), 2.0, np.ones(3), 3.0, np.full(3, 0.5)]
    values, residuals = module.forward(*feeds)
    both = module.value_and_gradients(*feeds)
    same(values, both[0])
    same(module.backward(residuals), both[1])


@pytest.mark.parametrize("target", TARGETS)
def test_out_of_both(target):
    module = gradc.compile(TWO, target=target)
    feeds = data()
    values, residuals = module.forward(**feeds)
    want = module.backward(residuals)
    other = {**feeds, "X": feeds["X"] + 1.0}
    kept = other["X"].copy()
    z = np.empty(5)
    into = tuple(
        np.empty(np.shape(r), r.dtype)
        if isinstance(r, np.ndarray) and not any(r is f for f in feeds.values())
        else r
        for r in residuals
    )
    found, again = module.forward(**feeds, out=((z, None, None), into))
    assert found.z is z
    same(found, values)
    assert again.z is into[residuals._fields.index("z")]
    assert again.X is feeds["X"]
    w = np.empty(3)
    gradients = module.backward(again, out=(w, None, None, None))
    assert gradients.w is w
    same(gradients, want)
    module.forward(**other, out=(None, again))  # what it held before is not written to
    np.testing.assert_array_equal(other["X"], kept)
    np.testing.assert_array_equal(feeds["X"], data()["X"])


def message(error, call, *args, **kwargs):
    with pytest.raises(error) as caught:
        call(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_refused(target):
    module = gradc.compile(TWO, target=target)
    _, residuals = module.forward(**data())
    backward = module.backward
    assert message(TypeError, backward, (1, 2)) == (
        "residuals: expected the Residuals of forward(), got tuple"
    )
    assert message(ValueError, backward, residuals._replace(X=np.ones((5, 4)))) == (
        "residuals: X: expected float64 of shape (5, 3), got float64 of shape (5, 4)"
    )
    assert message(
        ValueError, backward, residuals._replace(z=np.ones(5, np.float32))
    ) == ("residuals: z: expected float64 of shape (5,), got float32 of shape (5,)")
    assert message(ValueError, backward, residuals, [1.0]) == (
        "grad_ys: expected 3 entries, one a y, got 1"
    )
    assert message(ValueError, backward, residuals, [np.ones(4), None, None]) == (
        "grad_ys: z: expected shape (5,), got (4,)"
    )
    assert message(TypeError, backward, residuals, [None, None, np.ones(5)]) == (
        "grad_ys: expected None for a y without a derivative"
    )
    assert message(ValueError, backward, residuals, threads=0) == (
        "threads: expected at least 1, got 0"
    )
    assert message(TypeError, module.forward, **data(), out=3) == (
        "out: expected a pair like the result, got int"
    )
    no = gradc.compile("x: float\nreturn 2.0 * x\n", target=target)
    assert message(AttributeError, lambda: no.forward) == (
        "the module has no forward: the graph asks for no gradients"
    )


@pytest.mark.parametrize("target", TARGETS)
def test_residuals_of_another_make_are_taken(target):
    """Arrays that went through another framework: strided, read-only."""
    module = gradc.compile(TWO, target=target)
    _, residuals = module.forward(**data())
    want = module.backward(residuals)
    strided = np.repeat(residuals.X, 2, axis=1)[:, ::2]
    frozen = residuals.z.copy()
    frozen.flags.writeable = False
    same(module.backward(residuals._replace(X=strided, z=frozen)), want)


# ------------------------------------------------------------------------- self-test


def selftest(path, *arguments):
    return subprocess.run(
        [sys.executable, str(path), *(arguments or ["--selftest"])],
        capture_output=True,
        text=True,
        check=False,
        cwd=path.parent,
    )


def written(tmp_path, text, **options):
    path = tmp_path / "model_grad.py"
    path.write_text(gradc.emit(text, **options), encoding="utf-8")
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_examples_pass_their_own_test(path, tmp_path):
    module = written(tmp_path, path, target="numpy", static=static_sizes(path))
    done = selftest(module)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    if "def value_and_gradients(" in module.read_text("utf-8"):
        assert lines and all(": agrees: " in line for line in lines), done.stdout
    else:
        assert lines == ["inconclusive: the module has no gradients"]


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*_numpy.py")), ids=lambda p: p.stem
)
def test_the_golden_modules_pass_their_own_test(path):
    done = selftest(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "agrees" in done.stdout


def test_a_compiled_module_passes_its_own_test(tmp_path):
    done = selftest(written(tmp_path, (GOLDEN / "logistic.gc").read_text("utf-8")))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("w: agrees: ")


@pytest.mark.parametrize("half", ["_value_and_gradients", "_backward"])
def test_a_wrong_gradient_is_found(half, tmp_path):
    text = (
        "x: float[N]\nc: float\ny = sum(x**3) + c\ndifferentiate(y, [x, c])\nreturn y\n"
    )
    path = written(tmp_path, text, target="numpy")
    head, name, rest = path.read_text("utf-8").partition(f"\ndef {half}(")
    assert "3.0 *" in rest
    path.write_text(head + name + rest.replace("3.0 *", "3.1 *", 1), encoding="utf-8")
    done = selftest(path)
    assert done.returncode == 1, done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("x: wrong: ")
    assert lines[1].startswith("c: agrees: ")


def test_what_can_t_be_told(tmp_path):
    stopped = "x: float\ny = x * stop_gradient(x)\ndifferentiate(y, [x])\nreturn y\n"
    done = selftest(written(tmp_path, stopped, target="numpy"))
    assert done.returncode == 0
    assert done.stdout == "x: inconclusive: `gradc verify` can tell\n"
    nowhere = "x: float\ny = log(-1.0 - x**2)\ndifferentiate(y, [x])\nreturn y\n"
    done = selftest(written(tmp_path, nowhere, target="numpy"))
    assert (done.returncode, done.stdout) == (
        0,
        "inconclusive: a value is not finite\n",
    )


def test_what_has_nothing_to_be_tested_says_so(tmp_path):
    plain = written(tmp_path, "x: float\nreturn x\n", target="numpy")
    assert selftest(plain).stdout == "inconclusive: the module has no gradients\n"
    text = "x: float[N]\nassert N * N == 5\ndifferentiate(sum(x), [x])\nreturn x\n"
    large = written(tmp_path, text, target="numpy")
    assert selftest(large).stdout == "inconclusive: no small sizes suit the graph\n"


def test_draws_respect_the_graph(tmp_path):
    """Indices within a short axis, sizes that must be related, matrices to be factorised."""
    text = (
        "T: float[2, N]\ni: int[M]\nK: float[N, N]\nb: float32[2 * N]\n"
        "y = sum(T[i] ** 2) + sum(log(diag(cholesky(K)))) + sum(sqrt(b))\n"
        "differentiate(y, [T, K, b])\nreturn y\n"
    )
    done = selftest(written(tmp_path, text, target="numpy"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("agrees") == 3


def test_other_arguments_say_how(tmp_path):
    path = written(tmp_path, TWO, target="numpy")
    done = selftest(path, "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"usage: python {path} --selftest\n"

"""The pipeline and its Python API: reading, options, plans, compiled modules."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradc
from gradc.driver import emit_module, options_of
from gradc.errors import OptionError, SourceError, UnsupportedError
from gradc.runtime.load import load_text

TEXT = """
x: float[N]
k: int[N]
w: float
h = tanh(x) * w
g = stop_gradient(h) * k
y = sum(h)
z = sum(g)
differentiate(y, [x])
return y, z
"""


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path / "cache"))


def test_public_names():
    for name in gradc.__all__:
        assert getattr(gradc, name) is not None
    assert set(gradc.__all__) <= set(dir(gradc))
    with pytest.raises(AttributeError, match="nothing"):
        gradc.nothing  # noqa: B018


def test_importing_gradc_is_light():
    code = (
        "import sys, gradc\n"
        "print(sorted({'numpy', 'numba', 'jinja2', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(gradc.__file__).parent.parent)},
    )
    assert done.stdout == "[]\n"


# --------------------------------------------------------------------------- sources


def test_sources_of_all_kinds_give_the_same(tmp_path):
    path = tmp_path / "model.gc"
    path.write_text(TEXT)
    texts = {
        gradc.emit(path, target="numpy"),
        gradc.emit(str(path), target="numpy"),
        gradc.emit(gradc.load(path), target="numpy"),
        gradc.emit(gradc.parse(TEXT, "model.gc"), target="numpy"),
    }
    assert len(texts) == 1
    assert str(tmp_path) not in texts.pop()


def test_sources_that_are_none(tmp_path):
    with pytest.raises(OptionError, match="found int"):
        gradc.compile(3)
    with pytest.raises(UnsupportedError, match="function"):
        gradc.compile(lambda x: x)
    with pytest.raises(SourceError, match=r"none\.gc"):
        gradc.compile(tmp_path / "none.gc")
    (tmp_path / "bytes.gc").write_bytes(b"x: float\xff\nreturn x")
    with pytest.raises(SourceError, match="UTF-8 at byte 8"):
        gradc.load(tmp_path / "bytes.gc")
    with pytest.raises(UnsupportedError, match=r"\.onnx|\.gc"):
        gradc.load(tmp_path / "model.onnx")


# --------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"nought": 1}, "no option nought"),
        (
            {"static": {"N": -1}},
            "static: expected an integer from 0 on for N, found -1",
        ),
        ({"static": {"N": True}}, "static: expected an integer from 0 on for N"),
        ({"static": {"N": 2.0}}, "static: expected an integer from 0 on for N"),
        ({"static": {"N": "3"}}, "static: expected an integer from 0 on for N"),
        ({"static": {"N": np.ones(2, int)}}, "static: expected an integer from 0 on"),
        ({"static": {0: 3}}, "static: expected the name of a dimension, found 0"),
        ({"static": "N=3"}, "static: expected sizes by name, such as"),
        ({"static": None}, "static: expected sizes by name, such as"),
        ({"embed": 1}, "embed: expected True or False, found 1"),
        ({"gate_gradients": "no"}, "gate_gradients: expected True or False"),
        ({"opt": True}, "opt: expected 0, 1, found True"),
        ({"opt": 1.0}, "opt: expected 0, 1, found 1.0"),
        ({"xs": 3}, "xs: expected a name, a tensor or a list of them, found 3"),
        ({"xs": ["x", 3]}, "xs: expected a name, a tensor or a list of them"),
        ({"ys": {"y": 1}}, "ys: expected a name, a tensor or a list of them"),
        ({"name": 3}, "name: expected a string, found 3"),
        ({"wrap": ["scipy"]}, "wrap: expected a string"),
        ({"target": None}, "target: expected a string"),
        ({"target": "fortran"}, "target: expected numba, numpy"),
        ({"wrap": "jax"}, "wrap: expected scipy"),
        ({"opt": 7}, "opt: expected 0, 1"),
        ({"float": "float8"}, "float: expected"),
        ({"xs": "v"}, "xs: no tensor is called 'v'"),
        ({"unconnected_gradients": "nil"}, "unconnected_gradients: expected"),
    ],
)
def test_wrong_options(options, text):
    with pytest.raises(OptionError) as caught:
        gradc.compile(TEXT, **options)
    assert text in caught.value.message


def test_a_slip_in_an_option_is_told():
    with pytest.raises(OptionError) as caught:
        gradc.compile(TEXT, targt="numpy")
    assert caught.value.hint == "did you mean target?"


def test_sizes_may_be_any_integers():
    options = options_of({"static": {"N": np.int64(2), "K": 0}, "opt": np.int8(1)})
    assert [type(n) for n in options.static.values()] == [int, int]
    assert type(options.opt) is int


@pytest.mark.parametrize("name", ["model", "a/model.py", "my model.txt"])
def test_a_path_that_is_none_is_told_as_one(name):
    with pytest.raises(SourceError, match=r"no such file, or not a \.gc"):
        gradc.compile(name)


def test_options_override_the_request():
    module = gradc.compile(TEXT, target="numpy")
    assert module.Gradients._fields == ("x",)
    feeds = {"x": [0.0, 1.0], "k": [1, 2], "w": 2.0}
    module = gradc.compile(TEXT, target="numpy", ys="z", xs="x,w", stop_gradients="h")
    assert module.value_and_gradients(**feeds)[1] == (None, None)
    module = gradc.compile(
        TEXT, target="numpy", ys=["y", "z"], xs=["w:0"], unconnected_gradients="zero"
    )
    np.testing.assert_allclose(module.value_and_gradients(**feeds)[1].w, np.tanh(1.0))
    assert module.GRADC["options"]["ys"] == "y,z"
    assert "--unconnected-gradients zero" in module.source


def test_static_sizes_and_the_default_float():
    module = gradc.compile(TEXT, target="numpy", static={"N": 2}, float="float32")
    assert module.INPUTS["x"]["shape"] == (2,)
    assert module.INPUTS["x"]["dtype"] == "float32"
    with pytest.raises(ValueError, match=r"x: expected float32\[2\], got shape \(3,\)"):
        module.run(np.zeros(3, np.float32), [1, 1, 1], 1.0)


def test_options_as_they_are_written():
    options = options_of(
        {
            "target": "numpy",
            "xs": ["a b", "c"],
            "gate_gradients": True,
            "static": {"N": 3},
        }
    )
    assert options.arguments() == (
        "--xs 'a b,c' --gate-gradients --target numpy --static N=3"
    )


def test_opt_0_gives_the_same_values():
    feeds = {"x": [0.0, 1.0], "k": [1, 2], "w": 2.0}
    plain = gradc.compile(TEXT, opt=0).value_and_gradients(**feeds)
    fused = gradc.compile(TEXT).value_and_gradients(**feeds)
    np.testing.assert_allclose(plain[0].y, fused[0].y)
    np.testing.assert_allclose(plain[1].x, fused[1].x)


# ------------------------------------------------------------------- compiled modules


def test_why():
    module = gradc.compile(TEXT, target="numpy", ys="z", xs="x,k")
    assert "stop_gradient" in module.why("x")
    assert "int64" in module.why("k") or "integer" in module.why("k")
    with pytest.raises(OptionError, match="not among the xs"):
        module.why("w")
    assert gradc.compile(TEXT, target="numpy").why("x") == ""
    with pytest.raises(OptionError, match="no gradients"):
        gradc.compile("x: float\nreturn x", target="numpy").why("x")


def test_a_graph_without_a_request_has_run_alone():
    module = gradc.compile("x: float\nreturn x * x", target="numpy")
    assert module.run(3.0)[0] == 9.0
    assert not hasattr(module, "value_and_gradients")
    with pytest.raises(AttributeError, match="no gradients"):
        module.value_and_gradients  # noqa: B018


def test_no_ys_and_no_xs():
    module = gradc.compile(TEXT, target="numpy", ys=[], xs=["x"])
    feeds = {"x": [0.0, 1.0], "k": [1, 2], "w": 2.0}
    assert module.value_and_gradients(**feeds) == ((), (None,))
    module = gradc.compile(TEXT, target="numpy", xs=[])
    assert module.value_and_gradients(**feeds, grad_ys=2.0)[1] == ()


def test_a_request_of_tensors_between():
    module = gradc.compile(
        "x: float\nh = x * x\ny = sin(h)\ndifferentiate(y, [h, x, y])\nreturn y",
        target="numpy",
    )
    _, gradients = module.value_and_gradients(2.0)
    np.testing.assert_allclose(gradients, (np.cos(4.0), 4.0 * np.cos(4.0), 1.0))


def test_results_have_the_names_outside_of_a_def():
    text = """
x: float[3]
def norm2(v):
    total = sum(v**2)
    return total
def half(v):
    part = v / 2
    return part
first = half(x)
total = norm2(first)
loss = total + norm2(x)
differentiate([total, norm2(x), loss], [first, x])
"""
    module = gradc.compile(text, target="numpy")
    values, gradients = module.value_and_gradients([1.0, 2.0, 3.0])
    assert values._fields == ("total", "total_2", "loss")
    assert gradients._fields == ("first", "x")


def test_gradients_of_a_graph_being_built():
    graph = gradc.parse("x: float\nk: int\ny = x**3\nreturn y")
    x, k = graph.inputs
    first, none = gradc.gradients(graph.outputs[0].tensor, [x, k])
    assert none is None
    (second,) = gradc.gradients([first], [x])
    from gradc.ops.evaluator import evaluate

    assert evaluate([second], {x: 2.0})[0] == 12.0


def test_modules_are_kept_and_found_again():
    first = gradc.compile(TEXT, target="numpy")
    again = gradc.compile(TEXT, target="numpy")
    assert again.path == first.path
    assert again.module is first.module
    assert first.path.read_text(encoding="utf-8") == first.source
    if os.name == "posix":
        assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700


def test_an_altered_module_is_written_anew():
    first = gradc.compile(TEXT, target="numpy")
    for damage in ("raise SystemExit", ""):
        first.path.write_text(damage)
        sys.modules.pop(first.module.__name__)
        again = gradc.compile(TEXT, target="numpy")
        assert again.path.read_text(encoding="utf-8") == again.source
        assert again.run([0.0], [1], 2.0).y == 0.0


@pytest.mark.parametrize("target", ["numpy", "numba"])
def test_a_folder_that_can_not_be_made(target, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="GRADC_CACHE_DIR names another folder"):
        module = gradc.compile(TEXT + "\n# in memory", target=target)
    assert module.path is None
    assert module.run([0.0], [1], 2.0).y == 0.0


def test_text_that_fails_leaves_no_module():
    with pytest.raises(ZeroDivisionError):
        load_text("1 / 0", "gradc_failing")
    assert "gradc_failing" not in sys.modules


# ------------------------------------------------------------------------------ size


@pytest.mark.parametrize(
    ("line", "count"), [("y = tanh(y)", 3000), ("y = y * y + y", 1500)]
)
def test_deep_graphs(line, count):
    text = "x: float[N]\ny = x\n" + f"{line}\n" * count
    text += "differentiate(sum(y), [x])\nreturn y"
    emitted, _ = emit_module(text, options_of({"target": "numpy"}))
    module = load_text(emitted.source, f"gradc_deep_{count}")
    result = module.value_and_gradients(np.zeros(2))
    assert np.isfinite(result[1].x).all()

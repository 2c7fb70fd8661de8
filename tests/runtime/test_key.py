"""What a cache entry is found by."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradc
from gradc.driver import Options
from gradc.runtime import key
from gradc.runtime.key import CacheKey, fingerprint

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = """\
\"\"\"A sum.\"\"\"
x: float[N]
z: float[M]
w: float[3] = array([1.0, 2.0, 3.0])
assert N == 2 * M
h = tanh(x[:3] * w)
y = sum(h, keepdims=True)
differentiate(y, [x])
return y
"""


def mark(text: str, **options: object) -> str | None:
    return fingerprint(gradc.parse(text, "sum.gc"), options)


def test_the_same_graph_has_the_same_mark() -> None:
    assert mark(TEXT) == mark(TEXT)
    assert mark(TEXT, ys=["y"], opt=1) == mark(TEXT, ys=["y"], opt=1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("A sum.", "A total."),
        ("x: float[N]", "x: float32[N]"),
        ("M", "K"),
        ("2.0, 3.0", "2.0, 3.5"),
        ("2 * M", "3 * M"),
        ("tanh", "sinh"),
        ("x[:3]", "x[:3:1]"),
        ("keepdims=True", "keepdims=False"),
        ("differentiate(y, [x])", "differentiate(y, [x], stop_gradients=[h])"),
        ("differentiate(y, [x])", "differentiate(y, [x], zero_adjoints='ieee')"),
        ("differentiate(y, [x])", "differentiate(y, [h])"),
        ("return y", "return h"),
        ("h = tanh", "h  = tanh"),
        ("\nreturn", "\n# a comment changes the hash in the header\nreturn"),
    ],
)
def test_another_graph_has_another_mark(old: str, new: str) -> None:
    assert old in TEXT
    assert mark(TEXT.replace(old, new)) != mark(TEXT)


def test_options_change_the_mark() -> None:
    graph = gradc.parse(TEXT)
    x = graph.inputs[0]
    marks = [
        fingerprint(graph, {"xs": value})
        for value in (None, "x", ["x"], [x], [graph.inputs[1]], [1.0], [1], [True])
    ]
    marks += [fingerprint(graph, {"opt": 1}), fingerprint(graph, {"opt": True})]
    marks += [fingerprint(graph, {"static": {"N": n}}) for n in (3, 4)]
    assert None not in marks
    assert len(set(marks)) == len(marks)


def test_names_of_files_and_of_tensors_count() -> None:
    assert fingerprint(gradc.parse(TEXT, "a.gc"), {}) != fingerprint(
        gradc.parse(TEXT, "b.gc"), {}
    )
    graph = gradc.parse(TEXT)
    renamed = dataclasses.replace(graph, name="other")
    assert fingerprint(graph, {}) != fingerprint(renamed, {})


def test_constants_from_files_count(tmp_path: Path) -> None:
    path = tmp_path / "model.gc"
    path.write_text('w: float64[2] = load("w.npy")\nx: float[2]\nreturn w * x')
    marks = set()
    for last in (1.0, 1.0, -1.0, np.nextafter(1.0, 2.0)):
        np.save(tmp_path / "w.npy", np.array([0.0, last]))
        marks.add(fingerprint(gradc.load(path), {}))
    assert len(marks) == 3


def test_a_function_has_no_mark() -> None:
    text = (
        "x: float[N]\n"
        "def f(x): return x * x\n"
        "def vjp(x, y, g): return g\n"
        "y = custom_gradient(f, vjp)(x)\n"
        "return y"
    )
    assert mark(text) is None
    assert fingerprint(gradc.parse(TEXT), {"ys": lambda: 0}) is None


def test_the_mark_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys, gradc; from gradc.runtime.key import fingerprint;"
        "print(fingerprint(gradc.parse(sys.argv[1], 'sum.gc'), {'opt': 1}))"
    )
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code, TEXT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == mark(TEXT, opt=1)


def test_large_graphs_take_linear_time() -> None:
    text = "x: float\ny = x\n" + "y = y * y + x\n" * 5000 + "return y"
    assert mark(text) is not None


def test_every_part_of_the_key_counts() -> None:
    here = CacheKey.here("graph")
    digests = {here.digest}
    for field in dataclasses.fields(CacheKey):
        digests.add(dataclasses.replace(here, **{field.name: "other"}).digest)
    assert len(digests) == 1 + len(dataclasses.fields(CacheKey))
    assert all(len(digest) == 40 for digest in digests)
    assert here == CacheKey.here("graph")


def test_the_key_knows_this_process() -> None:
    import numba

    here = CacheKey.here("graph")
    assert here.python == sys.version
    assert here.numpy == np.__version__
    version = Path(numba.__file__).with_name("_version.py").read_bytes()
    assert here.numba == key.hashlib.sha256(version).hexdigest()
    assert here.cpu.split()[0] in ("Linux", "Darwin", "Windows")


def test_all_of_gradc_s_files_are_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gradc"
    for name in ("gradc/runtime/key.py", "gradc/a.py", "templates/python/t.j2"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(key, "__file__", str(package / "runtime" / "key.py"))
    own_files = key.own_files.__wrapped__
    seen = {own_files()}
    for name in ("gradc/a.py", "gradc/runtime/key.py", "templates/python/t.j2"):
        (tmp_path / name).write_text("changed")
        seen.add(own_files())
    (package / "b.py").write_text("")
    seen.add(own_files())
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "b.cpython-311.pyc").write_text("")
    assert own_files() in seen
    assert len(seen) == 5


def test_options_are_all_in_the_key() -> None:
    """`compile` passes every field of Options; a new one is in the key by itself."""
    graph = gradc.parse(TEXT)
    default = {f.name: getattr(Options(), f.name) for f in dataclasses.fields(Options)}
    marks = {fingerprint(graph, default)}
    for name in default:
        marks.add(fingerprint(graph, {**default, name: "changed"}))
    assert len(marks) == 1 + len(default)

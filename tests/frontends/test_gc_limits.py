"""Hostile and huge texts: each is refused or right, in bounded time and memory; none is run."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from gradc.errors import GradcErrors
from gradc.frontends import gc, gc_calls
from gradc.frontends.gc import parse


def message(text: str) -> str:
    with pytest.raises(GradcErrors) as caught:
        parse(text, "t.gc")
    return str(caught.value)


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for line in (
        f"y = __import__('os').system('touch {mark}')",
        f"y = open('{mark}', 'w')",
        f"y = eval(\"open('{mark}', 'w')\")",
        f'y = exec(\'open("{mark}", "w")\')',
        f"y = x.__class__.__base__.__subclasses__()[0]('{mark}')",
        f"y = np.save('{mark}', x)",
        f"y = np.lib.npyio.os.system('touch {mark}')",
        f"def f(a=open('{mark}', 'w')):\n    return a",
        f"x.tofile('{mark}')",
        f"y: open('{mark}', 'w') = x",
        f"y = gc.constant(value=open('{mark}', 'w'), weak=False)",
        f"y = einsum('ii', open('{mark}', 'w'))",
    ):
        message(f"x: float[3]\n{line}\nreturn x")
    assert not mark.exists()
    assert not Path(f"{mark}.npy").exists()


def test_attributes_of_python_are_not_reached() -> None:
    for name in (
        "__class__",
        "__init__",
        "node",
        "op",
        "_fields",
        "call",
        "__dict__",
        "type",
    ):
        assert "has no" in message(f"x: float\ny = x.{name}\nreturn x")
    assert "has no" in message(
        "x: float\nr = slogdet(x * eye(2))\ny = r._fields\nreturn x"
    )
    assert "is not part" in message("x: float\ny = f'{x.__class__}'\nreturn x")


def test_long_names() -> None:
    name = "x" * 10_000
    graph = parse(f"{name}: float[{name}d]\n{name}2 = {name} * 2\nreturn {name}2")
    assert graph.outputs[0].name == f"{name}2"
    assert str(parse(str(graph))) == str(graph)
    found = message(f"x: float\ny = {name} + x\nz = {name}(x)\nw = x.{name}\nreturn x")
    assert len(found) < 2000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 10**400", "1024 bits"),
        ("x = 2**2**2**2**2**2", "1024 bits"),
        ("x = 3\nfor i in range(100):\n    x = x * x", "1024 bits"),
        ("x = 1 << 1000000000000", "a shift"),
        ("x: float[10**30]", "above 2**62"),
        ("x: float[N**17]", "power"),
        ("x: float[" + "N*" * 3000 + "1]", "nested too deeply"),
        ("x: float[" + ", ".join(["2"] * 33) + "]", "at most 32 axes"),
        ("for i in range(10**18):\n    pass", "200000 steps"),
        ("for i in range(10**400):\n    pass", "1024 bits"),
        (
            "for i in range(2000):\n    for j in range(2000):\n        pass\nreturn 1",
            "200000 steps",
        ),
        (
            "x: float[" + "+".join(f"a{k}" for k in range(250)) + "]\nreturn x",
            "200 terms",
        ),
        ("x = " + "-" * 300 + "1", "nested more than 200 deep"),
        ("x = " + "[" * 150 + "-" * 100 + "1" + "]" * 150, "nested more than 200 deep"),
    ],
    ids=range(14),
)
def test_limits(text: str, expected: str) -> None:
    assert expected in message(text)


def test_exponential_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty defs that call the one before twice would be 2**40 nodes."""
    monkeypatch.setattr(gc_calls, "MAX_NODES", 5000)
    text = "x: float\ndef f0(a):\n    return a + 1\n" + "".join(
        f"def f{k}(a):\n    return f{k - 1}(f{k - 1}(a))\n" for k in range(1, 40)
    )
    assert "more than 5000 nodes" in message(text + "y = f39(x)\nreturn y")


def test_exponential_definitions_without_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with numbers alone, which build nothing."""
    monkeypatch.setattr(gc_calls, "MAX_NODES", 5000)
    text = "def f0(a):\n    return a\n" + "".join(
        f"def f{k}(a):\n    return f{k - 1}(f{k - 1}(a))\n" for k in range(1, 40)
    )
    assert "more than 5000" in message(text + "y = f39(1)\nreturn y")


def test_gradients_of_gradients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_calls, "MAX_NODES", 50_000)
    text = (
        "x: float\ny = sin(exp(x)) * x\n" + "(y,) = gradients(y, x)\n" * 60 + "return y"
    )
    assert "more than 50000 nodes" in message(text)


def test_recursion_is_told_once() -> None:
    found = message(
        "x: float\ndef f(a):\n    return f(a) + f(a - 1)\ny = f(x)\nz = f(x)\n"
        "def g(h, a):\n    return h(h, a) + g(h, a)\nw = g(g, x)\nreturn x"
    )
    assert found.count("calls itself") == 2
    assert found.count("error:") == 2


def test_deep_calls_of_definitions() -> None:
    text = "x: float\ndef f0(a):\n    return a + 1\n" + "".join(
        f"def f{k}(a):\n    b = f{k - 1}(a)\n    return b\n" for k in range(1, 400)
    )
    assert "nested" in message(text + "y = f399(x)\nreturn y")
    graph = parse(text + "y = f20(x)\nreturn y")
    assert len(graph.nodes()) == 3


def test_expressions_as_deep_as_the_limit() -> None:
    graph = parse("x: float\ny = " + "-" * 199 + "x\nreturn y")
    assert len(graph.nodes()) == 200
    graph = parse("x: float\ny = " + "x + (" * 190 + "x" + ")" * 190 + "\nreturn y")
    assert len(graph.nodes()) == 191


def test_many_terms_in_a_row() -> None:
    graph = parse("x: float\ny = " + " + ".join(["x"] * 2500) + "\nreturn y")
    assert len(graph.nodes()) == 2500


def test_errors_end_after_a_hundred() -> None:
    text = "x: float\n" + "".join(f"y{k} = nothing{k} + 1\n" for k in range(1000))
    with pytest.raises(GradcErrors) as caught:
        parse(text)
    assert len(caught.value.errors) == 100


def test_large_arrays_are_never_made() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = parse(
        "x: float[10**9]\nz = zeros(10**9)\nr = arange(10**9)\no = ones((10**6, 10**6))\n"
        "e = eye(10**5)\nf = full((10**9,), 2.0)\nl = linspace(0, 1, 10**9)\n"
        "y = x * z + r + f + l + gradients(sum(x * x), x)[0]\nreturn y, sum(o), sum(e)"
    )
    text = str(graph)
    assert str(parse(text)) == text
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kilobytes; one of the arrays has 8 000 000


def calls(count: int) -> int:
    """The calls of Python functions that a chain of statements takes to read."""
    text = "x: float[N]\ny = x\n" + "y = sin(y) + 1.0\n" * count + "return y\n"
    made = 0

    def tick(frame: object, event: str, argument: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(tick)
    try:
        graph = parse(text)
    finally:
        sys.setprofile(None)
    assert len(graph.nodes()) == 4 * count + 1
    return made


def test_work_is_linear() -> None:
    assert calls(2000) < 5 * calls(500)


def test_a_loop_and_its_steps_share_places() -> None:
    graph = parse("x: float\nfor i in range(1000):\n    x = sin(x)\nreturn x")
    assert len({id(n.place) for n in graph.nodes()}) == 2


def test_limits_are_what_is_promised() -> None:
    assert gc.MAX_STEPS == 200_000
    assert gc_calls.MAX_NODES == 500_000


@pytest.mark.parametrize("body", ["x = x + 1.0", "c = c + 1", "pass"])
def test_loops_in_loops_end_with_one_error(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty to the fifth steps would take hours."""
    monkeypatch.setattr(gc, "MAX_STEPS", 5000)
    depth = 5
    loops = [f"{'    ' * k}for i{k} in range(40):" for k in range(depth)]
    rest = ["for i in range(3):", "    pass", "z = nothing", "return x"]
    text = "\n".join(["x: float", "c = 1", *loops, "    " * depth + body, *rest])
    found = message(text)
    assert found.count("error:") == 2 and "t.gc:11:5: error: no tensor" in found
    assert "t.gc:7:27: error: the loops have more than 5000 steps" in found
    assert "hint: work on whole arrays" in found


def test_loops_over_loops_of_definitions_end_with_one_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc, "MAX_STEPS", 500)
    found = message(
        "x: float\ndef f(a):\n    for i in range(300):\n        a = a + 1.0\n    return a\n"
        "for i in range(100):\n    x = f(x)\ny = f(f(f(x)))\nreturn y"
    )
    assert found.count("error:") == 1
    assert "in f, called at t.gc:7:9" in found


def test_statements_of_loops_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_calls, "MAX_NODES", 5000)
    body = "    c = 1\n" * 100
    found = message(f"x: float\nfor i in range(1000):\n{body}return x")
    assert found.count("error:") == 1 and "more than 5000 nodes" in found

"""The whole texts of what the Python API and the targets refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradc
from gradc.driver import options_of, plan
from gradc.errors import GradcError

ONE = "x: float[N]\ny = sum(x)\nz: float[N] = 2.0 * x\ndifferentiate(y, [x])\nreturn y, z\n"
PLAIN = "x: float[N]\ni: int[N]\nc: complex\nreturn sum(x), i, c\n"
ASSERTED = "x: float[N]\ny: float[M]\nassert N * M == 12\nreturn x\n"


def emit(text: str, **options: Any) -> Callable[[], str]:
    return lambda: gradc.emit(gradc.parse(text, "a.gc"), **options)


def numpy(text: str) -> Any:
    return gradc.compile(text, target="numpy")


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: gradc.compile(3),
        "error: expected a Graph, a .gc text or a path, found int [bad-option]",
    ),
    (
        lambda: gradc.compile(np.sin),
        (
            "error: compiling a NumPy function is not in this version [not-yet]\n"
            "  hint: write it as a .gc text"
        ),
    ),
    (
        lambda: gradc.compile("models/none"),
        (
            "error: 'models/none': no such file, or not a .gc [bad-file]\n"
            "  hint: give the path of a .gc file, or a text of statements"
        ),
    ),
    (
        lambda: gradc.load("none.gc"),
        "error: none.gc: No such file or directory [bad-file]",
    ),
    (
        lambda: gradc.load("model.onnx"),
        (
            "error: model.onnx: this version reads .gc files [bad-suffix]\n"
            "  hint: give the graph as a .gc file"
        ),
    ),
    (
        lambda: gradc.parse("x: float\nreturn x", default_float="half"),
        (
            "error: default_float: expected float64, float32 or float16, found 'half' "
            "[bad-option]"
        ),
    ),
    (
        lambda: numpy(PLAIN).why("x"),
        "error: why: no gradients were asked for [bad-option]",
    ),
    (
        lambda: numpy(ONE).why("z"),
        "error: why: z is not among the xs [bad-option]\n  hint: xs are x",
    ),
    (
        emit(PLAIN, ys="sum"),
        "error: xs: expected names of tensors to differentiate by [bad-option]",
    ),
    (
        emit(ONE, xs="v"),
        (
            "error: xs: no tensor is called 'v' [unknown-name]\n"
            "  hint: tensors are x, y, z"
        ),
    ),
    (
        emit(ONE, trget="numpy"),
        "error: no option trget [bad-option]\n  hint: did you mean target?",
    ),
    (
        emit(ONE, target="native"),
        "error: target: native is not in this version [not-yet]",
    ),
    (
        emit(ONE, target="c"),
        "error: target: expected numba, numpy, found 'c' [bad-option]",
    ),
    (
        emit(ONE, wrap="jax"),
        "error: wrap: expected scipy, found 'jax' [bad-option]",
    ),
    (
        emit(PLAIN, wrap="scipy"),
        (
            "error: wrap: scipy needs gradients [bad-option]\n"
            "  hint: name ys and xs, or write differentiate(...) in the graph"
        ),
    ),
    (
        emit(ONE, ys="y,z", wrap="scipy"),
        (
            "error: wrap: scipy needs one real y of rank 0 [bad-option]\n"
            "  hint: sum the ys to one number"
        ),
    ),
    (
        emit(ONE, xs="x,z", wrap="scipy"),
        (
            "error: wrap: scipy needs real inputs as xs, and z is none [bad-option]\n"
            "  hint: differentiate by inputs of the graph, each once"
        ),
    ),
    (
        lambda: plan(gradc.parse(ASSERTED), options_of({"static": {"N": 5, "M": 4}})),
        "error: these sizes break an assertion of the graph [contradiction]",
    ),
    (
        emit("h: float16[N]\nreturn h * 2.0", target="numba"),
        (
            "error: float16 has no loops in this version [not-yet]\n"
            "  hint: compute in float32: x.astype(float32)"
        ),
    ),
]


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[t[:40] for _, t in REFUSED])
def test_what_is_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(GradcError) as caught:
        call()
    assert str(caught.value) == text


def test_what_a_module_does_not_have() -> None:
    module = numpy(PLAIN)
    for name, why in (
        ("value_and_gradients", ": the graph asks for no gradients"),
        ("nothing", ""),
    ):
        with pytest.raises(AttributeError) as caught:
            getattr(module, name)
        assert str(caught.value) == f"the module has no {name}{why}"

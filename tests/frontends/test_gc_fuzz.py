"""Damaged texts: whatever is written, the answer is a graph or errors with places."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from test_gc import CASES

from gradc.errors import GradcError, GradcErrors, InternalError
from gradc.frontends.gc import parse
from gradc.graph import Node
from gradc.ops.evaluator import evaluate
from gradc.types import evaluate_dim

ERRORS = sorted((Path(__file__).parents[1] / "errors").glob("*.gc"))
TEXTS = [case.text for case in CASES] + [f.read_text(encoding="utf-8") for f in ERRORS]
TOKEN = re.compile(r"\w+|[^\w\s]|\n\s*|\s+")
WORDS = sorted({t for text in TEXTS for t in TOKEN.findall(text)})
WORDS += [
    *(
        "**",
        "//",
        "-1",
        "0",
        "None",
        "...",
        "True",
        "'a'",
        "1e300",
        "10**9",
        "gc.",
        "np.",
    ),
    *(
        "for i in range(3):\n    ",
        "def f(a):\n    return ",
        "lambda x: ",
        "yield ",
        "await ",
    ),
    *(
        "gradients(",
        "float[",
        "\\",
        "\t",
        "'''",
        '"',
        "#",
        "*",
        "@",
        "if ",
        " else ",
        "x[",
        "]",
    ),
]


def damaged(numbers: random.Random, text: str) -> str:
    parts = TOKEN.findall(text)
    for _ in range(numbers.choice([1, 1, 2, 3, 6])):
        k = numbers.randrange(len(parts))
        choice = numbers.random()
        if choice < 0.4:
            parts[k] = numbers.choice(WORDS)
        elif choice < 0.6:
            parts.insert(k, numbers.choice(WORDS))
        elif choice < 0.8 and len(parts) > 1:
            del parts[k]
        else:
            m = numbers.randrange(len(parts))
            parts[k], parts[m] = parts[m], parts[k]
    return "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_texts(seed: int) -> None:
    numbers = random.Random(seed)
    for _ in range(200):
        text = damaged(numbers, numbers.choice(TEXTS))
        try:
            graph = parse(text, "f.gc")
        except GradcErrors as error:
            assert str(error)
            for one in error.errors:
                assert one.code != "internal"
                assert "can't take these arguments" not in one.message, text
        else:
            written = str(graph)
            assert str(parse(written, "f.gc")) == written


# ------------------------------------------------ the compiler's own spelling, damaged

VALUES = [
    *(
        "0",
        "1",
        "-1",
        "2",
        "5",
        "(0,)",
        "(1,)",
        "(0, 0)",
        "(1, 0)",
        "()",
        "None",
        "True",
        "N",
    ),
    *(
        "N - 5",
        "(N,)",
        "(3, 3)",
        "(-1, 3)",
        "0.5",
        "'a'",
        "gc.float32",
        "gc.bool",
        "10**9",
    ),
    *(
        "(2, 2)",
        "(0, 1, 2)",
        "-N",
        "gc.nan",
        "gc.inf",
        "gc.complex64",
        "x",
        "((0,), 1)",
    ),
]
EXTRA = (
    "x: float[N, 3]\ny: float[3, 3]\nreturn cumsum(x, axis=0), einsum('ij,jk->ik', x, y), "
    "solve(y + 5 * eye(3), x.T), cholesky(y @ y.T + 5 * eye(3)), det(y), inv(y + 5 * eye(3)), "
    "tril(y), pad(x, 1), roll(x, 1), flip(x), argmax(x, axis=1), softmax(x), logsumexp(x), "
    "trace(y), diag(y), x[:, [0, 1]], stack([x, x]), split(y, 3)[0], prod(x), max(x, axis=0), "
    "index_add(y, [0, 0], 1.0), index_update(x, 0, 3.0), var(x), norm(x), concatenate([x, y]), "
    "x.astype(float32), where(x > 1, x, 0), one_hot(argmax(x, axis=1), 3), gradients(sum(x @ y), y)[0]"
)
FEEDS = {"x": np.arange(6.0).reshape(2, 3), "y": np.arange(9.0).reshape(3, 3) / 7}
ATTRIBUTE = re.compile(r"(\w+)=((?:[^,()]|\([^()]*\))+)(?=[,)])")


def damaged_line(numbers: random.Random, line: str) -> str:
    """A statement with an attribute or an operand changed."""
    target, call = line.split("=", 1)
    attributes = list(ATTRIBUTE.finditer(call))
    operands = list(re.finditer(r"\b(_\d+|x|y)\b", call))
    if attributes and numbers.random() < 0.7:
        found = numbers.choice(attributes)
        new = numbers.choice(VALUES)
        digits = list(re.finditer(r"-?\d+", found[2]))
        if digits and numbers.random() < 0.5:
            digit = numbers.choice(digits)
            number = int(digit[0]) + numbers.choice([-3, -1, 1, 2, 1000])
            new = found[2][: digit.start()] + str(number) + found[2][digit.end() :]
        call = call[: found.start(2)] + new + call[found.end(2) :]
    elif operands:
        found = numbers.choice(operands)
        new = numbers.choice(["x", "y", "_1", "_2", "_3"])
        call = call[: found.start()] + new + call[found.end() :]
    return f"{target}={call}"


def required(node: Node) -> list[int]:
    """What a call checks not to be negative."""
    dims = node.op.requires(node) if node.op.requires else ()
    return [evaluate_dim(d, {"N": 2}) for d in dims]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_attributes(seed: int) -> None:
    """What is read can be evaluated, or the evaluation says why not; nothing else comes out."""
    numbers = random.Random(seed)
    lines = str(parse(EXTRA)).splitlines()
    places = [k for k, line in enumerate(lines) if "= gc." in line]
    read = 0
    for _ in range(100):
        k = numbers.choice(places)
        text = "\n".join([*lines[:k], damaged_line(numbers, lines[k]), *lines[k + 1 :]])
        try:
            graph = parse(text, "f.gc")
        except GradcErrors as error:
            assert all(one.code != "internal" for one in error.errors), text
            continue
        read += 1
        if any(d < 0 for node in graph.nodes() for d in required(node)):
            continue  # a call refuses these sizes
        feeds = {t: FEEDS[t.name] for t in graph.inputs}
        try:
            evaluate([o.tensor for o in graph.outputs if o.tensor is not None], feeds)
        except InternalError:
            pytest.fail(lines[k] + "\n" + text)
        except (GradcError, IndexError, np.linalg.LinAlgError):
            pass
    assert read > 10

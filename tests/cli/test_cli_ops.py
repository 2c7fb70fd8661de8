"""gradc ops: the functions of the language and what is told of each."""

from __future__ import annotations

import json

import pytest
from shell import Shell

from gradc.ops.functions import functions
from gradc.ops.registry import lookup, names


def test_the_list_has_every_function(gradc: Shell) -> None:
    done = gradc("ops")
    assert (done.status, done.err) == (0, "")
    rows = done.out.splitlines()
    assert [row.partition("(")[0] for row in rows] == list(functions())
    cells = {row.partition("(")[0]: row.split("   ") for row in rows}
    tanh = [c.strip() for c in cells["tanh"] if c]
    assert tanh == ["tanh(x)", "partials", "The hyperbolic tangent."]
    assert "'" not in "".join(row.partition("   ")[0] for row in rows if "eye" in row)


@pytest.mark.parametrize(
    ("name", "op", "derivative"),
    [
        ("abs", "absolute", "explicit"),
        ("sum", "reduce_sum", "linear"),
        ("where", "select", "linear"),
        ("matmul", "contract", "bilinear"),
        ("cholesky", "cholesky", "explicit"),
        ("floor", "floor", "constant"),
        ("concatenate", "concatenate", "linear"),
        ("swapaxes", "transpose", "linear"),
        ("left_shift", "left_shift", "constant"),
        ("var", "var", "explicit"),
        ("mean", None, None),
        ("select", None, None),
        ("slice", None, None),
        ("zeros", None, None),
    ],
)
def test_the_op_that_a_function_is(
    gradc: Shell, name: str, op: str | None, derivative: str | None
) -> None:
    found = json.loads(gradc("ops", name, "--json").out)
    assert found["name"] == name
    if op is None:
        assert found["op"] is None
    else:
        assert (found["op"]["name"], found["op"]["derivative"]) == (op, derivative)
        known = lookup(op)
        assert known is not None
        assert found["op"]["dtypes"] == sorted(known.accepts)


def test_one_function_with_its_op(gradc: Shell) -> None:
    done = gradc("ops", "np.sum")
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        "sum(x, axis=None, dtype=None, *, keepdims=False, initial=None, where=None)\n"
        "  The sum over `axis` (None: over all). Small integers are summed as int64.\n"
        "\n"
        "  tensors   x, initial, where\n"
        "  method    x.sum(...)\n"
        "\n"
        "op reduce_sum\n"
        "  Sum over `axes`. The sum of no elements is 0.\n"
        "\n"
        "  operands     floats, complex, integers, bool\n"
        "  derivative   linear (the transpose of the op)\n"
    )


def test_a_function_that_is_no_op_alone(gradc: Shell) -> None:
    done = gradc("ops", "dsplit")
    assert done.out == (
        "dsplit(x, indices_or_sections)\n"
        "  Parts along axis 2.\n"
        "\n"
        "  tensors   x\n"
        "  no op alone: its derivative is that of what it is built of\n"
    )


@pytest.mark.parametrize("name", names())
def test_every_op_is_described(gradc: Shell, name: str) -> None:
    done = gradc("ops", name)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith((f"{name}(", f"op {name}\n"))


def test_the_reason_of_a_constant(gradc: Shell) -> None:
    out = gradc("ops", "floor").out
    assert "constant (none, and no path leads through it): " in out


def test_the_list_as_json(gradc: Shell) -> None:
    table = json.loads(gradc("ops", "--json").out)
    assert [f["name"] for f in table] == list(functions())
    found = {f["name"]: f for f in table}
    assert found["abs"]["aliases"] == ["absolute", "absolute_value"]
    assert found["eye"]["signature"] == "eye(n, m=None, k=0, dtype=float64)"


def test_a_name_that_is_none(gradc: Shell) -> None:
    done = gradc("ops", "logsumexpp")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "error: no function or op 'logsumexpp' [unknown-name]\n"
        "  hint: did you mean logsumexp?\n"
    )

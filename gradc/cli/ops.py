"""`gradc ops`: the functions that a graph may call, and what is known of each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from gradc.cli.options import json_option
from gradc.cli.report import UsageProblem, print_json, table_lines, write_lines

if TYPE_CHECKING:
    from gradc.graph import Tensor
    from gradc.ops.functions import Function
    from gradc.ops.registry import Op

__all__ = ["command"]

DERIVATIVES = {
    "Partials": "a slope for each element of each operand",
    "Linear": "the transpose of the op",
    "Bilinear": "linear in each of two operands",
    "Explicit": "a rule of its own",
    "Constant": "none, and no path leads through it",
    "Absent": "none: an error where a gradient needs it",
}
"""The forms of derivatives in words, by the names of their classes."""

AXES = {"axis": 0, "axis1": 0, "axis2": 1}
"""What stands for a parameter without a default where a function is tried."""


@click.command("ops")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the functions of the language, or describe one.

    The list has signatures and, where a function is one op, the form of its derivative. NAME may
    be an op of the compiler as well, such as reduce_sum.
    """
    import gradc.ops  # noqa: F401  (enters all families)
    from gradc.ops.functions import functions, lookup_function

    if name is None:
        table = [f for n in functions() if (f := lookup_function(n)) is not None]
        if as_json:
            print_json([_plain(f, _op_of(f)) for f in table])
        else:
            write_lines(table_lines([_row(f) for f in table]))
        return
    function, op = _found(name)
    if as_json:
        print_json(_plain(function, op))
    else:
        write_lines(_described(function, op))


def _found(name: str) -> tuple[Function | None, Op | None]:
    """The function of a name, else the op; `np.linalg.norm` is `norm`."""
    from gradc.ops.functions import functions, lookup_function
    from gradc.ops.registry import lookup, names

    short = name.rpartition(".")[2]
    function = lookup_function(short)
    if function is not None:
        return function, _op_of(function)
    op = lookup(short)
    if op is not None:
        return None, op
    near = get_close_matches(short, [*functions(), *names()], 1)
    raise UsageProblem(
        f"no function or op {name!r}",
        code="unknown-name",
        hint=f"did you mean {near[0]}?" if near else "gradc ops lists them",
    )


# --------------------------------------------------------------------- what a function is


def _op_of(function: Function) -> Op | None:
    """The op that a function is: what it builds from plain operands, where that is one node."""
    from gradc.errors import GradcError
    from gradc.graph import Tensor, ordered
    from gradc.ops.registry import lookup
    from gradc.types import bool_, float64, int64

    tries = ((float64,), (bool_,), (int64,), (bool_, float64), (float64, int64))
    for dtypes, whole in [(d, w) for w in (False, True) for d in tries]:
        arguments = _sample(function, dtypes, whole)
        if arguments is None:
            return None
        try:
            built = function.call(*arguments)
        except GradcError:
            continue
        results = built if isinstance(built, tuple) else (built,)
        if not all(isinstance(t, Tensor) for t in results):
            return None
        made = [n for n in ordered(list(results)) if n.op.name != "input"]
        if len(made) == 1:
            return lookup(made[0].op.name)
    return None


def _sample(function: Function, dtypes: Sequence[Any], whole: bool) -> list[Any] | None:
    """Operands to try a function on: matrices, the last dtype for all that follow.

    `whole` fills tensors that may be left out too. None where nothing is known for a parameter.
    """
    found: list[Any] = []
    tensors = 0
    for p in function.signature.parameters.values():
        text = str(p.annotation)
        if p.kind is p.KEYWORD_ONLY:
            break
        if p.default is not p.empty and not (whole and "TensorLike" in text):
            if whole:
                break
            continue
        if p.name in AXES:
            found.append(AXES[p.name])
        elif "TensorLike" in text and p.kind is not p.VAR_POSITIONAL:
            dtype = dtypes[min(tensors, len(dtypes) - 1)]
            is_list = text.startswith("Sequence")
            operands = [_input(tensors + k, dtype) for k in range(1 + is_list)]
            found.append(operands if is_list else operands[0])
            tensors += len(operands)
        else:
            return None
    return found if tensors else None


def _input(position: int, dtype: Any) -> Tensor:
    from gradc.ops.basic import input_
    from gradc.types import TensorType

    return input_(name=f"x{position}", type=TensorType(dtype, (3, 3)), default=None)


def _signature(function: Function) -> str:
    """The call as it is written: names and defaults alone."""
    from gradc.types import DType

    def shown(p: inspect.Parameter) -> inspect.Parameter:
        default = p.default
        if isinstance(default, DType):
            default = _Bare(default.name)
        return p.replace(annotation=p.empty, default=default)

    parameters = [shown(p) for p in function.signature.parameters.values()]
    return f"{function.name}{inspect.Signature(parameters)}"


class _Bare:
    """A name that shows without quotes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def _aliases(function: Function) -> list[str]:
    """The other names of a function, those that build the same op in the same way."""
    from gradc.ops.functions import functions, lookup_function

    others = ((n, lookup_function(n)) for n in functions())
    return [
        n
        for n, f in others
        if f is not None and f.call is function.call and n != function.name
    ]


def _kind(op: Op | None) -> str:
    return type(op.derivative).__name__.lower() if op is not None else "-"


def _takes(op: Op) -> str:
    """The dtypes of an op's operands, in classes where it takes a whole one."""
    from gradc.ops.registry import BOOL, COMPLEX, FLOATS, INTEGER

    classes = {
        "floats": FLOATS,
        "complex": COMPLEX,
        "integers": INTEGER,
        "bool": BOOL,
    }
    words = [w for w, names in classes.items() if names <= op.accepts]
    rest = op.accepts.difference(*(classes[w] for w in words))
    return ", ".join([*words, *sorted(rest)])


def _why(op: Op) -> str:
    return str(getattr(op.derivative, "why", ""))


# ------------------------------------------------------------------------------ as text


def _row(function: Function) -> tuple[str, ...]:
    paragraph = " ".join(_doc(function).partition("\n\n")[0].split())
    sentence, dot, _ = paragraph.partition(". ")
    return _signature(function), _kind(_op_of(function)), sentence + dot.strip()


def _doc(function: Function) -> str:
    return inspect.getdoc(function.call) or ""


def _described(function: Function | None, op: Op | None) -> Iterator[str]:
    if function is not None:
        yield _signature(function)
        yield from (f"  {line}".rstrip() for line in _doc(function).split("\n"))
        rows = [("tensors", ", ".join(_tensors(function)) or "none")]
        if function.method:
            rows.append(("method", f"x.{function.name}(...)"))
        aliases = _aliases(function)
        if aliases:
            rows.append(("also called", ", ".join(aliases)))
        yield ""
        yield from table_lines(rows, "  ")
    if function is not None and op is None:
        yield "  no op alone: its derivative is that of what it is built of"
    if op is not None:
        if function is not None:
            yield ""
        yield f"op {op.name}"
        yield from (f"  {line}".rstrip() for line in op.doc.split("\n"))
        why = _why(op)
        words = DERIVATIVES[type(op.derivative).__name__]
        rows = [
            ("operands", _takes(op)),
            ("derivative", f"{_kind(op)} ({words})" + (f": {why}" if why else "")),
        ]
        if op.expand is not None:
            rows.append(("compiled", "as other ops"))
        yield ""
        yield from table_lines(rows, "  ")


def _tensors(function: Function) -> list[str]:
    """The parameters that take tensors."""
    return [p for p in function.signature.parameters if function.takes_tensor(p)]


def _plain(function: Function | None, op: Op | None) -> dict[str, Any]:
    """A function and its op for JSON."""
    fields: dict[str, Any] = {}
    if function is not None:
        fields = {
            "name": function.name,
            "signature": _signature(function),
            "doc": _doc(function),
            "tensors": _tensors(function),
            "method": function.method,
            "aliases": _aliases(function),
        }
    fields["op"] = op and {
        "name": op.name,
        "doc": op.doc,
        "dtypes": sorted(op.accepts),
        "derivative": _kind(op),
        "why": _why(op),
        "expands": op.expand is not None,
    }
    return fields

"""`--wrap scipy`: the graph as a function of one flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradc.emit import layout
from gradc.emit.names import Namer, docstring, quoted
from gradc.emit.parameters import Parameter
from gradc.emit.text import Hidden, shape_in
from gradc.errors import OptionError
from gradc.graph import Tensor
from gradc.types import symbol, symbols_of

__all__ = ["ObjectiveView", "objective_view"]


@dataclass(frozen=True, slots=True)
class ObjectiveView:
    """The parts of `objective.py.j2`: `lines` is the function, `dtypes` a table's rows."""

    value: str
    names: str
    lines: tuple[str, ...]
    dtypes: tuple[str, ...]


def objective_view(
    values: Sequence[tuple[str, Tensor | None]],
    gradients: Sequence[str],
    positions: Sequence[int],
    parameters: Sequence[Parameter],
    hidden: Hidden,
) -> ObjectiveView:
    """The objective of a module whose `value_and_gradients` gives these values and gradients.

    `positions` has, for each gradient, the number of the parameter it is by. OptionError where
    there is not one real y of rank 0, or an x is no real input.
    """
    y = values[0][1] if len(values) == 1 else None
    if y is None or y.shape or not y.dtype.is_float:
        raise OptionError(
            "wrap: scipy needs one real y of rank 0", hint="sum the ys to one number"
        )
    xs: list[Parameter] = []
    for name, k in zip(gradients, positions, strict=True):
        x = parameters[k] if k >= 0 else None
        if x is None or x in xs or not x.type.dtype.is_float:
            raise OptionError(
                f"wrap: scipy needs real inputs as xs, and {name} is none",
                hint="differentiate by inputs of the graph, each once",
            )
        xs.append(x)
    data = [p for p in parameters if p not in xs]
    names = " and ".join(x.name for x in xs)
    return ObjectiveView(
        value=docstring(values[0][0]),
        names=names,
        lines=tuple(_function(values[0][0], names, xs, data, hidden)),
        dtypes=tuple(f"{quoted(x.name)}: np.{x.dtype}," for x in xs),
    )


def _function(
    value: str,
    names: str,
    xs: Sequence[Parameter],
    data: Sequence[Parameter],
    hidden: Hidden,
) -> list[str]:
    """`objective`, which fixes the data and finds the shapes of the xs that the data tell."""
    glob = hidden.seen_from([p.name for p in data])
    items = [p.declaration for p in data if p.default is None]
    keyword = [p.declaration for p in data if p.default is not None]
    items += ["*", *keyword] if keyword else []
    lines = layout.parameters("def objective", items, " -> Objective:")
    lines.append(
        f'    """{docstring(value)} as a function of {names} alone, with the data fixed."""'
    )
    namer = Namer(())
    for p in data:
        namer.take(p.name)
    body: list[str] = []
    variables = {p.name: p.name for p in data}
    sizes: dict[str, str] = {}
    for p in data:
        if not p.is_array or p.default is not None:
            continue
        variable = variables[p.name] = namer.fresh(f"{p.name}_")
        rank = len(p.type.shape)
        call = f"{glob('_array')}({quoted(p.name)}, {p.name}, _{p.dtype}, {rank})"
        body.append(f"{variable} = {call}")
        for axis, d in enumerate(p.type.shape):
            for s in symbols_of(d):
                if d == symbol(s):
                    sizes.setdefault(s, f"{variable}.shape[{axis}]")
    shapes = []
    for x in xs:
        is_told = all(s in sizes for d in x.type.shape for s in symbols_of(d))
        shape = shape_in(x.type.shape, sizes) if is_told else "None"
        shapes.append(f"{quoted(x.name)}: {shape}")
    fixed = ", ".join(f"{quoted(n)}: {text}" for n, text in variables.items())
    told = ", ".join(shapes)
    body.append(f"return {glob('Objective')}({{{fixed}}}, {{{told}}})")
    return lines + layout.indented(body)

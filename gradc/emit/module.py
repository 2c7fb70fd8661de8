"""The emitted module: all decisions in a `ModuleView`, the outline in `templates/python/`.

`Module` says what a module is (inputs, entry points with their graphs); a target turns an entry's
graph into functions and into the lines that call them; `render` puts all into the outline.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import jinja2
import numpy as np

from gradc.emit import layout
from gradc.emit.names import Namer, docstring, quoted
from gradc.emit.numpy import Constants, array_text, number_text
from gradc.emit.symbols import bindings, legal_symbols, rename_symbols
from gradc.errors import InternalError, OptionError
from gradc.graph import Data, Graph, Tensor
from gradc.types import (
    Dim,
    TensorType,
    dim_text,
    dtype_of,
    is_nonnegative,
    symbol,
    symbols_of,
)

__all__ = [
    "Emitted",
    "Entry",
    "Field",
    "Module",
    "Record",
    "Target",
    "fields_of",
    "render",
]

EMBEDDED = 4096
"""Constants of more bytes than this go to a file beside the module, unless all are embedded."""
LISTED = 64
"""Constants of at most so many elements are written as lists."""
OPTIONS = ("out", "threads")


# ---------------------------------------------------------------------- what to emit


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a result: its name there, its tensor, or None with the reason."""

    name: str
    tensor: Tensor | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A named tuple of a result: `Outputs`, `Values`, `Gradients`."""

    name: str
    doc: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry point: a graph of primitives (its tensors are those of the records)."""

    name: str
    graph: Graph
    records: tuple[Record, ...]
    doc: str

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(f for r in self.records for f in r.fields)


@dataclass(frozen=True, slots=True)
class Module:
    """What a module offers. `digest` is the sha256 of the source's text, "" where there is none.

    `differentiable` has, for each input, "" or why it has no gradient; `xs`, for each gradient,
    the number of the input it is by (-1: another tensor). `notes` are lines for the
    docstring. `embed` keeps all constants in the text; `data_name` is the file for the others.
    """

    title: str
    source: str
    digest: str
    version: str
    command: str
    options: Mapping[str, Any]
    entries: tuple[Entry, ...]
    differentiable: tuple[str, ...]
    xs: tuple[int, ...] = ()
    statements: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    objective: bool = False
    embed: bool = True
    data_name: str = ""

    @property
    def graph(self) -> Graph:
        return self.entries[0].graph


@dataclass(frozen=True, slots=True)
class Emitted:
    """The text of a module, and the bytes of the `.npz` file beside it (None without one)."""

    source: str
    data: bytes | None = None


class Target(Protocol):
    """How entries become code: `numpy` and `numba` have one each."""

    name: str
    is_compiled: bool
    constants: Constants

    @property
    def requires(self) -> tuple[str, ...]:
        """Distributions the module needs, for `GRADC`."""

    def add(self, entry: Entry, outputs: Sequence[Tensor]) -> None:
        """Make the functions of an entry; they give `outputs`, all different tensors."""

    def call(self, entry: Entry, scope: Scope) -> list[str]:
        """Statements that compute an entry's outputs into variables of the scope."""

    def view(self) -> dict[str, Any]:
        """The target's part of the `ModuleView`."""


@dataclass(slots=True)
class Scope:
    """The names inside an entry point: its inputs, sizes, results, and globals as seen there.

    `outputs` are the different tensors of the results, in the order of `results`. `structure` is
    the text of how many values each record has, `wanted` that of (name, dtype, shape) of each.
    """

    inputs: dict[int, str]
    sizes: dict[str, str]
    results: list[str]
    out: str
    namer: Namer
    parameters: frozenset[str]
    hidden: dict[str, str]
    outputs: Sequence[Tensor] = ()
    structure: str = ""
    wanted: str = ""

    def glob(self, name: str) -> str:
        """A global of the module, by another name where a parameter hides it."""
        if name not in self.parameters:
            return name
        return self.hidden.setdefault(name, f"_global_{name.strip('_')}")

    def fresh(self, name: str) -> str:
        return self.namer.fresh(name)


@dataclass(frozen=True, slots=True)
class RecordView:
    name: str
    doc: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ObjectiveView:
    value_doc: str
    names_text: str
    lines: tuple[str, ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConstantsView:
    """Definitions of constants; `file` and `sha256` of the one beside the module, or ""."""

    lines: tuple[str, ...]
    file: str
    sha256: str
    has_encoded: bool


@dataclass(frozen=True, slots=True)
class ModuleView:
    """Every decision of a module, ready to be put into the outline."""

    docstring: str
    imports: tuple[str, ...]
    exports: tuple[str, ...]
    tables: tuple[str, ...]
    aliases: tuple[str, ...]
    records: tuple[RecordView, ...]
    entries: tuple[tuple[str, ...], ...]
    objective: ObjectiveView | None
    kernels_title: str
    kernels: tuple[tuple[str, ...], ...]
    helpers: tuple[str, ...]
    has_statement: bool
    is_compiled: bool
    compiled: Any
    dtypes: tuple[str, ...]
    inputs: tuple[str, ...]
    has_facts: bool
    constants: ConstantsView | None
    shadowed: tuple[str, ...]


# ------------------------------------------------------------------------- rendering


@cache
def environment() -> jinja2.Environment:
    """The templates: those of the installed package, else those beside it."""
    package = Path(__file__).resolve().parent.parent
    found = [
        p for p in (package / "templates", package.parent / "templates") if p.is_dir()
    ]
    if not found:
        raise InternalError("the templates of emitted modules are not installed")
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(found),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(module: Module, target: Target) -> Emitted:
    """The text of the module. The same module gives the same bytes everywhere."""
    return _Assembly(module, target).emitted()


def fields_of(names: Sequence[str], stem: str = "out") -> list[str]:
    """The names as fields of a named tuple: no leading underscores, no two alike.

    >>> fields_of(["loss", "_k0", "a", "a", "__"])
    ['loss', 'k0', 'a', 'a_2', 'out_4']
    """
    namer = Namer(())
    return [
        namer.fresh(name.lstrip("_") or f"{stem}_{k}") for k, name in enumerate(names)
    ]


@dataclass(frozen=True, slots=True)
class _Input:
    """An input as a parameter: `default` is its text, None for one that must be given."""

    name: str
    source: str
    type: TensorType
    default: str | None
    constant: str  # the global that stands for the default, where that is an array
    number: (
        str  # the number that fills it, where the default is a number and it an array
    )

    @property
    def is_array(self) -> bool:
        return bool(self.type.shape)

    @property
    def annotation(self) -> str:
        if not self.is_array:
            return {"b": "bool", "i": "int", "u": "int", "c": "complex"}.get(
                self.type.dtype.kind, "float"
            )
        if self.default == "None":
            return "npt.ArrayLike | None"
        return "npt.ArrayLike"

    @property
    def parameter(self) -> str:
        text = f"{self.name}: {self.annotation}"
        return text if self.default is None else f"{text} = {self.default}"


class _Assembly:
    """Builds the view of one module."""

    def __init__(self, module: Module, target: Target) -> None:
        self.target = target
        renamed = legal_symbols(module.graph)
        self.module = replace(
            module, entries=tuple(_renamed(e, renamed) for e in module.entries)
        )
        self.old_symbols = {new: old for old, new in renamed.items()}
        self.graph = self.module.graph
        self.constants = target.constants
        self.hidden: dict[str, str] = {}
        self.inputs = self._inputs()
        self.names = [i.name for i in self.inputs]
        self.shapes = [i.type.shape for i in self.inputs]
        optional = [i.default is not None for i in self.inputs]
        self.bindings = bindings(self.names, self.shapes, optional, self.graph.facts)
        self.symbols = tuple(b.symbol for b in self.bindings)
        self.options = {o: self._option(o) for o in OPTIONS}

    def _option(self, option: str) -> str:
        while option in self.names:
            option += "_"
        return option

    def _inputs(self) -> list[_Input]:
        namer = Namer(())
        found = []
        for t in self.graph.inputs:
            source = str(t.attrs.name)
            default = t.attrs.default
            text, constant, number = None, "", ""
            if default is not None:
                text = "None"
                array = np.asarray(
                    default.array if isinstance(default, Data) else default,
                    t.dtype.name,
                )
                if array.ndim == 0 and not t.shape:
                    text = number_text(array[()], t.dtype)
                elif array.ndim == 0:
                    number = number_text(array[()], t.dtype)
                else:
                    constant = self.constants.name(Data(array))
            name = namer.fresh(source)
            found.append(_Input(name, source, t.type, text, constant, number))
        return found

    # ------------------------------------------------------------------ the whole

    def emitted(self) -> Emitted:
        target = self.target
        for entry in self.module.entries:
            target.add(entry, _outputs(entry))
        entries = tuple(tuple(self.entry(e)) for e in self.module.entries)
        records = tuple(self.record(r) for e in self.module.entries for r in e.records)
        objective = self.objective() if self.module.objective else None
        parts = target.view()
        constants, data = self.constant_definitions()
        inputs = self.inputs_function()
        imports = set(parts.pop("imports"))
        imports |= {"from typing import Any, NamedTuple"}
        imports |= {"import math"} if objective else set()
        if constants is not None:
            imports |= {"import base64"} if constants.has_encoded else set()
            if constants.file:
                imports |= {"import hashlib", "import io", "import os"}
        view = ModuleView(
            docstring=self.docstring(parts.pop("notes")),
            imports=tuple(_sorted_imports(imports)),
            exports=tuple(self.exports()),
            tables=tuple(self.tables()),
            records=records,
            entries=entries,
            objective=objective,
            is_compiled=target.is_compiled,
            dtypes=tuple(
                f"_{name} = np.dtype(np.{_scalar_name(name)})"
                for name in sorted({i.type.dtype.name for i in self.inputs})
            ),
            inputs=tuple(inputs),
            has_facts=any("_untrue(" in line for line in inputs),
            constants=constants,
            shadowed=tuple(
                f"{new} = {old}" for old, new in sorted(self.hidden.items())
            ),
            **parts,
        )
        text = environment().get_template("python/module.py.j2").render(view=view)
        return Emitted(text.rstrip("\n") + "\n", data)

    def exports(self) -> list[str]:
        names = ["GRADC", "INPUTS", "OUTPUTS", *(e.name for e in self.module.entries)]
        names += [r.name for e in self.module.entries for r in e.records]
        names += ["Objective", "objective"] if self.module.objective else []
        listed = ", ".join(quoted(n) for n in sorted(names, key=_export_key))
        return layout.statement(f"__all__ = [{listed}]")

    # ------------------------------------------------------------------- docstring

    def docstring(self, notes: Sequence[str]) -> str:
        module = self.module
        title, _, rest = docstring(module.title or f"{module.source}.").partition("\n")
        lines = [title, *([rest.strip("\n")] if rest.strip() else [])]
        if rest.strip():
            lines.insert(1, "")
        digest = f" (sha256 {module.digest[:16]})" if module.digest else ""
        made = f"Generated by gradc {module.version} from {docstring(module.source)}{digest}; do not edit."
        lines += [
            "",
            made,
            "To make it again:",
            "",
            f"    {docstring(module.command)}",
            "",
        ]
        lines += self.input_lines()
        if module.statements:
            lines += ["", *(f"    {docstring(s)}" for s in module.statements)]
        for note in [*module.notes, *notes]:
            lines += ["", docstring(note)]
        if self.options != {o: o for o in OPTIONS}:
            renamed = [
                f"`{o}` is called `{n}`" for o, n in self.options.items() if o != n
            ]
            lines += [
                "",
                f"Since an input has its name, the option {', '.join(renamed)}.",
            ]
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def input_lines(self) -> list[str]:
        rows = []
        for k, i in enumerate(self.inputs):
            text = self.type_text(i.type)
            if i.default is not None:
                text += (
                    f" = {i.default if i.default != 'None' else i.number or 'an array'}"
                )
            note = "" if self.module.differentiable[k] else "differentiable"
            rows.append((i.name, text, note))
        first = max((len(r[0]) for r in rows), default=0) + 3
        second = max((len(r[1]) for r in rows), default=0) + 3
        return [f"    {a:<{first}}{b:<{second}}{c}".rstrip() for a, b, c in rows]

    def type_text(self, type: TensorType) -> str:
        if not type.shape:
            return type.dtype.name
        return f"{type.dtype.name}[{', '.join(self.dim_name(d) for d in type.shape)}]"

    def dim_name(self, dim: Dim) -> str:
        """A dimension in the words of the source."""
        text = docstring(dim_text(dim))
        for new, old in self.old_symbols.items():
            text = docstring(old).join(re.split(rf"\b{re.escape(new)}\b", text))
        return text

    # ---------------------------------------------------------------------- tables

    def tables(self) -> list[str]:
        module = self.module
        information = {
            "interface": 1,
            "version": module.version,
            "source": module.source,
            "hash": module.digest,
            "options": dict(module.options),
            "requires": list(self.target.requires),
        }
        lines = _table("GRADC", information)
        inputs: dict[str, Any] = {}
        for i, why in zip(self.inputs, module.differentiable, strict=True):
            row = self.row(i.type)
            row["differentiable"] = not why
            if why:
                row["why"] = why
            inputs[i.name] = {"name": i.source, **row}
        lines += _table("INPUTS", inputs)
        outputs: dict[str, Any] = {}
        for f in module.entries[0].fields:
            if f.tensor is None:
                outputs[f.name] = {"dtype": None, "shape": None, "why": f.why}
            else:
                outputs[f.name] = self.row(f.tensor.type)
        return lines + _table("OUTPUTS", outputs)

    def row(self, type: TensorType) -> dict[str, Any]:
        dims = tuple(d if isinstance(d, int) else self.dim_name(d) for d in type.shape)
        return {"dtype": type.dtype.name, "shape": dims}

    def record(self, record: Record) -> RecordView:
        lines = []
        for f in record.fields:
            kind = "None" if f.tensor is None else _result_type(f.tensor.type)
            note = (
                "  # type: ignore[assignment]" if f.name in ("count", "index") else ""
            )
            lines.append(f"{f.name}: {kind}{note}")
        return RecordView(record.name, record.doc, tuple(lines))

    # --------------------------------------------------------------------- entries

    def parameters(self) -> list[str]:
        items = [i.parameter for i in self.inputs if i.default is None]
        items.append("*")
        return items + [i.parameter for i in self.inputs if i.default is not None]

    def entry(self, entry: Entry) -> list[str]:
        """The text of a public function."""
        out, threads = self.options["out"], self.options["threads"]
        names = [r.name for r in entry.records]
        one = len(names) == 1
        returned = names[0] if one else f"tuple[{', '.join(names)}]"
        items = [*self.parameters(), f"{out}: {returned} | None = None"]
        items.append(f"{threads}: int = 1")
        lines = layout.parameters(f"def {entry.name}", items, f" -> {returned}:")
        lines += self.entry_doc(entry)
        namer = Namer(())
        taken = frozenset([*self.names, out, threads])
        for name in [*taken, "INPUTS", "np"]:
            namer.take(name)
        outputs = _outputs(entry)
        scope = Scope(
            inputs={k: namer.fresh(f"{n}_") for k, n in enumerate(self.names)},
            sizes={s: namer.fresh(s) for s in self.symbols},
            results=[],
            out=out,
            namer=namer,
            parameters=taken,
            hidden=self.hidden,
        )
        position = {t: k for k, t in enumerate(outputs)}
        labels: dict[Tensor, str] = {}
        for r in entry.records:
            tail = "_bar" if r.name == "Gradients" else ""
            for f in r.fields:
                if f.tensor is not None:
                    labels.setdefault(f.tensor, f"{f.name}{tail}")
        scope.results = [namer.fresh(labels[t]) for t in outputs]
        scope.outputs = outputs
        counts = ", ".join(str(len(r.fields)) for r in entry.records)
        scope.structure = f"({counts},)" if one else f"({counts})"
        scope.wanted = self.wanted(entry, scope)
        glob = scope.glob
        body = [f"if {threads} != 1:", f"    {glob('_threads')}({threads})"]
        inner = [*scope.inputs.values(), *scope.sizes.values()]
        call = f"{glob('_inputs')}({', '.join(self.names)})"
        rest = self.target.call(entry, scope)
        rest += self.returned(entry, scope, position)
        used = set(re.findall(r"\w+", "\n".join(rest)))
        inner = [name if name in used else "_" for name in inner]
        if any(name != "_" for name in inner):
            tail = "," if len(inner) == 1 else ""
            body.append(f"{', '.join(inner)}{tail} = {call}")
        else:
            body.append(call)
        body += rest
        return lines + [f"    {line}" if line else "" for line in self.fitted(body)]

    def fitted(self, body: Sequence[str]) -> list[str]:
        """Statements laid out anew for their place four columns in."""
        lines: list[str] = []
        for text in body:
            indent = len(text) - len(text.lstrip())
            if text.strip() and len(text) + 4 > layout.WIDTH:
                laid = layout.statement(text.strip(), indent + 4)
                lines += [line[4:] for line in laid]
            else:
                lines.append(text)
        return lines

    def returned(
        self, entry: Entry, scope: Scope, position: Mapping[Tensor, int]
    ) -> list[str]:
        """The lines that put the results into the records."""
        glob = scope.glob
        seen: set[Tensor] = set()
        values = []
        for f in entry.fields:
            if f.tensor is None:
                values.append("None")
                continue
            text = scope.results[position[f.tensor]]
            if f.tensor in seen and f.tensor.shape:
                text = f"{glob('np')}.array({text})"
            elif not f.tensor.shape and self.target.is_compiled:
                text = f"{text}[()]"
            seen.add(f.tensor)
            values.append(text)
        plain = self.grouped(entry, values, glob)
        given = scope.fresh("given")
        results = scope.fresh("results")
        lines = [f"if {scope.out} is not None:"]
        inner = [f"{given} = {glob('_flat')}({scope.out}, {scope.structure})"]
        inner.append(
            f"{results} = {glob('_delivered')}({given}, [{', '.join(values)}])"
        )
        start, slices = 0, []
        for r in entry.records:
            stop = start + len(r.fields)
            slices.append(f"{glob(r.name)}(*{results}[{start}:{stop}])")
            start = stop
        if len(entry.records) == 1:
            slices = [f"{glob(entry.records[0].name)}(*{results})"]
        inner.append(f"return {', '.join(slices)}")
        for text in inner:
            lines += layout.statement(text, 4)
        return [*lines, f"return {plain}"]

    def wanted(self, entry: Entry, scope: Scope) -> str:
        """(name, dtype, shape) of each value of the results, None for a None."""
        parts = []
        for f in entry.fields:
            if f.tensor is None:
                parts.append("None")
                continue
            dtype = f"{scope.glob('np')}.{_scalar_name(f.tensor.dtype.name)}"
            shape = _shape_text(f.tensor.shape, scope.sizes)
            parts.append(f"({quoted(f.name)}, {dtype}, {shape})")
        return f"({', '.join(parts)},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def grouped(self, entry: Entry, values: Sequence[str], glob: Any) -> str:
        parts, start = [], 0
        for r in entry.records:
            inside = values[start : start + len(r.fields)]
            parts.append(f"{glob(r.name)}({', '.join(inside)})")
            start += len(r.fields)
        return ", ".join(parts)

    def entry_doc(self, entry: Entry) -> list[str]:
        out, threads = self.options["out"], self.options["threads"]
        lines = [f'    """{docstring(entry.doc)}', ""]
        for f in entry.fields:
            if f.tensor is None:
                lines.append(f"    `{f.name}` is None: {docstring(f.why)}")
        lines += [
            f"    `{out}` has arrays to write to, in the structure of the result, None where one is to",
            f"    be made; they may be inputs. `{threads}` is at least 1; all is computed on one thread.",
            '    """',
        ]
        return lines

    # ---------------------------------------------------------------------- inputs

    def inputs_function(self) -> list[str]:
        """`_inputs`: checks the arguments, converts them and finds the sizes."""
        names = self.names
        variables = Namer(())
        for name in [*names, *self.symbols, "np"]:
            variables.take(name)
        hides = frozenset(names)

        def glob(name: str) -> str:
            if name not in hides:
                return name
            return self.hidden.setdefault(name, f"_global_{name.strip('_')}")

        symbol_names = {}
        clash = Namer(())
        for name in names:
            clash.take(name)
        for s in self.symbols:
            symbol_names[s] = clash.fresh(s)
        lines = layout.parameters(
            "def _inputs", [f"{n}: Any" for n in names], " -> tuple[Any, ...]:"
        )
        lines.append(
            '    """The inputs in their dtypes, then the sizes; raises where they don\'t fit."""'
        )
        body: list[str] = []
        late: list[tuple[int, str]] = []
        for k, i in enumerate(self.inputs):
            dtype = f"_{i.type.dtype.name}"
            if i.is_array:
                text = f"{i.name} = {glob('_array')}({quoted(i.name)}, {i.name}, {dtype}, {len(i.type.shape)})"
            else:
                text = (
                    f"{i.name} = {glob('_number')}({quoted(i.name)}, {i.name}, {dtype})"
                )
            if i.constant:
                text = f"if {i.name} is None:\n    {i.name} = {i.constant}\n" + text
            if i.number:
                late.append((k, text))
            else:
                body += text.split("\n")
        unchecked: set[int] = {k for k, _ in late}
        body += self.bind(symbol_names, body, {k for k, _ in late})
        for k, text in late:
            i = self.inputs[k]
            shape = _shape_text(i.type.shape, symbol_names)
            dtype = "" if i.type.dtype.name == "float64" else f", _{i.type.dtype.name}"
            body.append(f"if {i.name} is None:")
            body.append(f"    {i.name} = {glob('np')}.full({shape}, {i.number}{dtype})")
            body.append(text)
        body += self.checks(symbol_names, glob, unchecked)
        listed = [*names, *symbol_names.values()]
        inside = ", ".join(listed) + ("," if len(listed) == 1 else "")
        body.append(f"return {inside}" if listed else "return ()")
        for text in body:
            indent = len(text) - len(text.lstrip())
            lines += layout.statement(text.strip(), indent + 4)
        return lines

    def bind(
        self, names: Mapping[str, str], body: list[str], late: set[int]
    ) -> list[str]:
        """The lines that find the sizes of symbols."""
        lines: list[str] = []
        done: set[str] = set()
        for b in self.bindings:
            if b.symbol in done:
                continue
            shape = self.shapes[b.source] if b.source >= 0 else ()
            found = {
                x.axis: x.symbol
                for x in self.bindings
                if x.source == b.source and x.whole
            }
            if b.source in late:
                raise OptionError(
                    f"{self.names[b.source]}: its default does not tell {b.symbol}",
                    hint=f"give another input the dimension {b.symbol}",
                )
            if b.whole and len(found) == len(shape):
                targets = ", ".join(names[found[k]] for k in range(len(shape)))
                tail = "," if len(shape) == 1 else ""
                lines.append(f"{targets}{tail} = {self.names[b.source]}.shape")
                done |= set(found.values())
            else:
                lines.append(f"{names[b.symbol]} = {_renamed_text(b.text, names)}")
                done.add(b.symbol)
        return lines

    def checks(self, names: Mapping[str, str], glob: Any, given: set[int]) -> list[str]:
        """The lines that compare shapes and facts with the sizes."""
        lines: list[str] = []
        for k, i in enumerate(self.inputs):
            shape = i.type.shape
            whole = {b.axis for b in self.bindings if b.source == k and b.whole} == set(
                range(len(shape))
            )
            if not shape or whole:
                continue
            lines.append(f"if {i.name}.shape != {_shape_text(shape, names)}:")
            known = self.known([d for d in shape], names)
            lines.append(
                f"    raise {glob('_misfit')}({quoted(i.name)}, {i.name}, {known})"
            )
        facts = self.graph.facts
        told: list[tuple[str, str, list[Dim]]] = []
        for s, value in facts.values.items():
            if s in names and all(x in names for x in symbols_of(value)):
                bound = next(b for b in self.bindings if b.symbol == s)
                if bound.source >= 0:
                    left = f"{names[s]} != {_dim(value, names)}"
                    told.append((left, f"{s} == {dim_text(value)}", [symbol(s), value]))
        for zero in facts.zeros:
            if all(x in names for x in symbols_of(zero)):
                told.append(
                    (f"{_dim(zero, names)} != 0", f"{dim_text(zero)} == 0", [zero])
                )
        for d in _required(self.module.entries):
            if all(x in names for x in symbols_of(d)):
                rest, bound_at = _split_constant(d)
                told.append(
                    (
                        f"{_dim(rest, names)} < {bound_at}",
                        f"{dim_text(rest)} >= {bound_at}",
                        [d],
                    )
                )
        for condition, fact, dims in told:
            lines.append(f"if {condition}:")
            known = self.known(dims, names)
            lines.append(f"    raise {glob('_untrue')}({quoted(fact)}, {known})")
        return lines

    def known(self, dims: Sequence[Dim], names: Mapping[str, str]) -> str:
        """`{"D": (D, "X.shape[1]")}` for the symbols of the dimensions."""
        found: dict[str, None] = {}
        for d in dims:
            found.update(dict.fromkeys(symbols_of(d)))
        origin = {b.symbol: b.text for b in self.bindings}
        parts = [
            f"{quoted(self.old_symbols.get(s, s))}: ({names[s]}, {quoted(origin[s])})"
            for s in found
        ]
        return "{" + ", ".join(parts) + "}"

    # ------------------------------------------------------------------- objective

    def objective(self) -> ObjectiveView:
        """The function of the xs alone that optimisers want."""
        entry = next((e for e in self.module.entries if len(e.records) == 2), None)
        if entry is None:
            raise OptionError(
                "wrap: scipy needs gradients",
                hint="name ys and xs, or write differentiate(...) in the graph",
            )
        values, gradients = entry.records
        y = values.fields[0].tensor if len(values.fields) == 1 else None
        if y is None or y.shape or not y.dtype.is_float:
            raise OptionError(
                "wrap: scipy needs one real y of rank 0",
                hint="sum the ys to one number",
            )
        xs: list[_Input] = []
        for f, k in zip(gradients.fields, self.module.xs, strict=True):
            found = self.inputs[k] if k >= 0 else None
            if found is None or found in xs or not found.type.dtype.is_float:
                raise OptionError(
                    f"wrap: scipy needs real inputs as xs, and {f.name} is none",
                    hint="differentiate by inputs of the graph, each once",
                )
            xs.append(found)
        data = [i for i in self.inputs if i not in xs]
        hidden = frozenset(i.name for i in data)

        def glob(name: str) -> str:
            if name not in hidden:
                return name
            return self.hidden.setdefault(name, f"_global_{name.strip('_')}")

        items = [i.parameter for i in data if i.default is None]
        keyword = [i.parameter for i in data if i.default is not None]
        items += ["*", *keyword] if keyword else []
        lines = layout.parameters("def objective", items, " -> Objective:")
        listed = " and ".join(x.name for x in xs)
        lines.append(
            f'    """{y.name or values.fields[0].name} as a function of {listed} alone, with the data fixed."""'
        )
        namer = Namer(())
        for i in data:
            namer.take(i.name)
        given = {i.name: i.name for i in data}
        for i in data:
            if i.is_array and i.default is None:
                variable = given[i.name] = namer.fresh(f"{i.name}_")
                text = f"{variable} = {glob('_array')}({quoted(i.name)}, {i.name}, _{i.type.dtype.name}, {len(i.type.shape)})"
                lines += layout.statement(text, 4)
        sizes: dict[str, str] = {}
        for i in data:
            if i.is_array and i.default is None:
                for axis, d in enumerate(i.type.shape):
                    for s in symbols_of(d):
                        if d == symbol(s):
                            sizes.setdefault(s, f"{given[i.name]}.shape[{axis}]")
        shapes = []
        for x in xs:
            if all(s in sizes for d in x.type.shape for s in symbols_of(d)):
                shapes.append(f"{quoted(x.name)}: {_shape_text(x.type.shape, sizes)}")
            else:
                shapes.append(f"{quoted(x.name)}: None")
        fixed = ", ".join(f"{quoted(n)}: {text}" for n, text in given.items())
        lines += layout.statement(
            f"return {glob('Objective')}({{{fixed}}}, {{{', '.join(shapes)}}})", 4
        )
        return ObjectiveView(
            value_doc=docstring(values.fields[0].name),
            names_text=", ".join(x.name for x in xs),
            lines=tuple(lines),
            dtypes=tuple(f"{quoted(x.name)}: np.{x.type.dtype.name}," for x in xs),
        )

    # ------------------------------------------------------------------- constants

    def constant_definitions(
        self,
    ) -> tuple[ConstantsView | None, bytes | None]:
        """The lines that define the module's arrays, and the file with the large ones."""
        lines: list[str] = []
        stored: dict[str, np.ndarray[Any, Any]] = {}
        has_encoded = False
        for data, name in self.constants.names.items():
            array = data.array
            if not self.module.embed and array.nbytes > EMBEDDED:
                stored[name] = array
            elif array.size <= LISTED:
                lines += layout.statement(f"{name} = {_list_text(array)}")
            else:
                lines += _encoded(name, array)
                has_encoded = True
        if not lines and not stored:
            return None, None
        content = _npz(stored) if stored else None
        file = self.module.data_name if stored else ""
        lines += [f'{name} = _DATA["{name}"]' for name in stored]
        digest = hashlib.sha256(content).hexdigest() if content else ""
        return ConstantsView(tuple(lines), file, digest, has_encoded), content


# --------------------------------------------------------------------------- helpers


def _outputs(entry: Entry) -> list[Tensor]:
    """The different tensors among an entry's results, in order."""
    return list(dict.fromkeys(f.tensor for f in entry.fields if f.tensor is not None))


def _renamed(entry: Entry, names: Mapping[str, str]) -> Entry:
    """The entry over a graph with other symbols."""
    if not names:
        return entry
    graph = rename_symbols(entry.graph, names)
    tensors = [o.tensor for o in entry.graph.outputs]
    new = dict(zip(tensors, (o.tensor for o in graph.outputs), strict=True))
    records = tuple(
        replace(
            r,
            fields=tuple(
                replace(f, tensor=None if f.tensor is None else new[f.tensor])
                for f in r.fields
            ),
        )
        for r in entry.records
    )
    return replace(entry, graph=graph, records=records)


def _required(entries: Sequence[Entry]) -> list[Dim]:
    """The dimensions that must not be negative for the entries' ops to be defined."""
    found: dict[Dim, None] = {}
    for entry in entries:
        for node in entry.graph.nodes():
            if node.op.requires is not None:
                for d in node.op.requires(node):
                    if not is_nonnegative(d):
                        found.setdefault(d)
    return list(found)


def _split_constant(dim: Dim) -> tuple[Dim, int]:
    """`N - 1` as (N, 1): the part with symbols, and what it must reach."""
    if isinstance(dim, int):
        return 0, -dim
    offset = next((c for m, c in dim.terms if m == ()), 0)
    return dim - offset, -offset


def _dim(dim: Dim, names: Mapping[str, str]) -> str:
    return _renamed_text(dim_text(dim), names)


def _renamed_text(text: str, names: Mapping[str, str]) -> str:
    """Python text of dimensions with symbols by their variables' names."""
    return re.sub(r"(?<![\w.\"])[^\W\d]\w*", lambda m: names.get(m[0], m[0]), text)


def _shape_text(shape: Sequence[Dim], names: Mapping[str, str]) -> str:
    inside = ", ".join(_dim(d, names) for d in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def _scalar_name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _result_type(type: TensorType) -> str:
    scalar = f"np.{_scalar_name(type.dtype.name)}"
    return f"npt.NDArray[{scalar}]" if type.shape else scalar


def _export_key(name: str) -> tuple[int, str]:
    """Constants, classes, functions; each by name, as import sorters do."""
    if name.isupper():
        return 0, name
    return (1, name) if name[0].isupper() else (2, name)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, tuple):
        inside = ", ".join(map(_literal, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{quoted(k)}: {_literal(v)}" for k, v in value.items())
        return "{" + inside + "}"
    return repr(value)


def _table(name: str, rows: Mapping[str, Any]) -> list[str]:
    """A dictionary as a statement, a row a line."""
    head = f"{name}: dict[str, Any] = "
    if not rows:
        return [head + "{}"]
    lines = [head + "{"]
    for key, value in rows.items():
        lines += layout.item(quoted(key), _literal(value), 4)
    return [*lines, "}"]


def _sorted_imports(imports: set[str]) -> list[str]:
    """Import lines in two blocks, the standard library first, `import x` before `from x`."""
    outside = {
        i for i in imports if re.match(r"(import|from) (numpy|scipy|numba)\b", i)
    }

    def key(line: str) -> tuple[bool, str]:
        return line.startswith("from "), line.split()[1].lower()

    blocks = [sorted(imports - outside, key=key)]
    blocks.append(
        sorted(outside | {"import numpy as np", "import numpy.typing as npt"}, key=key)
    )
    return [*blocks[0], "", *blocks[1]]


def _list_text(array: np.ndarray[Any, Any]) -> str:
    return array_text(array, dtype_of(array))


def _encoded(name: str, array: np.ndarray[Any, Any]) -> list[str]:
    """An array as the base64 text of its bytes."""
    little = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode("ascii")
    lines = [f"{name} = _decoded("]
    lines.append(f'    "{little.dtype.str}",')
    shape = f"({array.shape[0]},)" if array.ndim == 1 else str(array.shape)
    lines.append(f"    {shape},")
    pieces = [text[k : k + 80] for k in range(0, len(text), 80)]
    lines += [f'    "{piece}"' for piece in pieces]
    lines[-1] += ","
    return [*lines, ")"]


def _npz(arrays: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """An `.npz` file with the same bytes on every machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            content = io.BytesIO()
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
            np.lib.format.write_array(
                content, little, version=(1, 0), allow_pickle=False
            )
            information = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            information.create_system = 3
            information.external_attr = 0o644 << 16
            file.writestr(information, content.getvalue())
    return buffer.getvalue()

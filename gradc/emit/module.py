"""The emitted module: all decisions in a `ModuleView`, the outline in `templates/python/`.

`Module` says what a module is (inputs, entry points with their graphs); a target turns an entry's
graph into functions and into the lines that call them; `render` puts all into the outline.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gradc.emit import layout
from gradc.emit.constants import Constants, ConstantsView, definitions
from gradc.emit.names import (
    RESERVED,
    Namer,
    docstring,
    quoted,
    whole_word,
    words,
)
from gradc.emit.objective import ObjectiveView, objective_view
from gradc.emit.parameters import Inputs
from gradc.emit.selftest import SelfTest, SelfTestView, selftest_view
from gradc.emit.symbols import legal_symbols, put_dims, rename_symbols
from gradc.emit.text import (
    Hidden,
    result_type,
    scalar_name,
    shape_in,
    sorted_imports,
    table,
)
from gradc.errors import InternalError, OptionError
from gradc.graph import Graph, Tensor
from gradc.types import Dim, TensorType, dim_text

if TYPE_CHECKING:
    import jinja2

__all__ = [
    "Emitted",
    "Entry",
    "Field",
    "Module",
    "ModuleView",
    "Pair",
    "Record",
    "Scope",
    "Target",
    "fields_of",
    "render",
]

OPTIONS = ("grad_ys", "out", "threads")
SEEDED = "_with_grad_ys"
"""The function that an entry point calls for given cotangents."""
RESIDUALS = "Residuals"
"""The record that forward() hands to backward()."""


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
    """An entry point: a graph of primitives (its tensors are those of the records).

    One that takes `grad_ys` has the names of its `ys`, with the types of their cotangents (None
    where a y takes none). Given cotangents are inputs of the graph of `seeded`, behind the others;
    without it the gradients of the only y are multiplied by its cotangent.
    """

    name: str
    graph: Graph
    records: tuple[Record, ...]
    doc: str
    ys: tuple[tuple[str, TensorType | None], ...] = ()
    seeded: Entry | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(f for r in self.records for f in r.fields)


@dataclass(frozen=True, slots=True)
class Pair:
    """`forward` and `backward`, two halves of one graph.

    The second record of forward has what it makes for backward: `kept`, with the names of these
    values, then the default cotangents; `defaults` has a name there, or None, for each y, and is
    empty where there are none. Forward's inputs at the positions `held` are residuals too. The
    inputs of backward's graph are those held, those kept, then cotangents.
    """

    forward: Entry
    backward: Entry
    held: tuple[int, ...]
    kept: tuple[str, ...]
    defaults: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """What a module offers. `digest` is the sha256 of the source's text, "" where there is none.

    `differentiable` has, for each input, "" or why it has no gradient; `xs`, for each gradient,
    the number of the input it is by (-1: another tensor). `pair` and `selftest` are there where
    there are gradients. `notes` are lines for the docstring. `embed` keeps all constants in the text; `data_name` is the file for the others.
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
    pair: Pair | None = None
    selftest: SelfTest | None = None

    @property
    def graph(self) -> Graph:
        return self.entries[0].graph

    @property
    def programs(self) -> tuple[Entry, ...]:
        """All entries, those for given cotangents and the pair too."""
        pair = () if self.pair is None else (self.pair.forward, self.pair.backward)
        each = (e for f in self.entries for e in (f, f.seeded) if e is not None)
        return (*each, *pair)

    @property
    def records(self) -> tuple[str, ...]:
        """The names of all records."""
        names = [r.name for e in self.entries for r in e.records]
        return (*names, *([] if self.pair is None else [RESIDUALS]))


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

    def threads(self, entry: Entry) -> str:
        """What an entry does with its option `threads`: `computed on one thread`."""

    def call(self, entry: Entry, scope: Scope) -> list[str]:
        """Statements that compute an entry's outputs into variables of the scope."""

    def view(self) -> dict[str, Any]:
        """The target's part of the `ModuleView`."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The names inside an entry point.

    `inputs` and `sizes` are the variables of the converted inputs and of the symbols; `outputs`
    the different tensors of the results, in `results`. `out` and `threads` are the options of
    these names, `structure` the text of how many values each record has (and how many more the
    last one holds), `wanted` that of (name, dtype, shape) of each. `glob` spells a global of the module as it is seen here.
    """

    inputs: tuple[str, ...]
    sizes: Mapping[str, str]
    outputs: tuple[Tensor, ...]
    results: tuple[str, ...]
    out: str
    threads: str
    structure: str
    wanted: str
    glob: Callable[[str], str]
    fresh: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class RecordView:
    name: str
    doc: str
    lines: tuple[str, ...]


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
    has_seeds: bool
    has_scaled: bool
    dtypes: tuple[str, ...]
    inputs: tuple[str, ...]
    has_facts: bool
    has_residuals: bool
    has_arrays: bool
    selftest: SelfTestView | None
    untested: str
    constants: ConstantsView | None
    shadowed: tuple[str, ...]


# ------------------------------------------------------------------------- rendering


@cache
def environment() -> jinja2.Environment:
    """The templates: those of the installed package, else those beside it."""
    import jinja2

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


class _Assembly:
    """Builds the view of one module."""

    def __init__(self, module: Module, target: Target) -> None:
        names = legal_symbols(module.graph)
        entries = tuple(_renamed(e, names) for e in module.entries)
        pair = module.pair
        if pair is not None:
            forward, backward = (
                _renamed(e, names) for e in (pair.forward, pair.backward)
            )
            pair = replace(pair, forward=forward, backward=backward)
        self.module = replace(module, entries=entries, pair=pair)
        self.target = target
        self.source_symbols = {new: old for old, new in names.items()}
        self.hidden = Hidden()
        self.inputs = Inputs(
            self.module.graph,
            target.constants,
            self.hidden,
            self.source_symbols,
            target.is_compiled,
        )
        self.options = {o: self._option(o) for o in OPTIONS}

    def _option(self, option: str) -> str:
        """The option's name where an input does not have it; else with underscores behind."""
        name = option
        while name in self.inputs.names:
            name += "_"
        return name

    # ------------------------------------------------------------------ the whole

    def emitted(self) -> Emitted:
        module, target = self.module, self.target
        for entry in module.programs:
            target.add(entry, _outputs(entry))
        entries = [tuple(self.entry(e, e.name)) for e in module.entries]
        records = [_record_view(r) for e in module.entries for r in e.records]
        if module.pair is not None:
            record, forward, backward = self.pair(module.pair)
            records.append(record)
            entries += [tuple(forward), tuple(backward)]
        entries += [
            tuple(self.entry(e.seeded, SEEDED)) for e in module.entries if e.seeded
        ]
        objective = self.objective() if module.objective else None
        parts = target.view()
        constants, data = definitions(
            target.constants, module.embed, quoted(module.data_name)
        )
        inputs = self.inputs.function([e.graph for e in module.programs])
        dtypes = sorted({p.dtype for p in self.inputs.parameters})
        imports = {*parts.pop("imports"), "from typing import Any, NamedTuple"}
        imports |= {"import math"} if objective else set()
        imports |= {"import sys"} if module.selftest else set()
        imports |= constants.imports if constants else set()
        view = ModuleView(
            docstring=self.docstring(parts.pop("notes")),
            imports=tuple(sorted_imports(imports)),
            exports=tuple(self.exports()),
            tables=tuple(self.tables()),
            records=tuple(records),
            entries=tuple(entries),
            objective=objective,
            is_compiled=target.is_compiled,
            has_seeds=any(e.ys for e in module.programs),
            has_scaled=any(e.ys and not e.seeded for e in module.entries),
            dtypes=tuple(f"_{d} = np.dtype(np.{scalar_name(d)})" for d in dtypes),
            inputs=tuple(inputs),
            has_facts=any("_untrue(" in line for line in inputs),
            has_residuals=module.pair is not None,
            has_arrays=any("_arrays(" in line for e in entries for line in e),
            selftest=self.selftest(),
            untested="no small sizes suit the graph"
            if module.pair
            else "the module has no gradients",
            constants=constants,
            shadowed=tuple(f"{n} = {g}" for g, n in sorted(self.hidden.names.items())),
            **parts,
        )
        text = environment().get_template("python/module.py.j2").render(view=view)
        return Emitted(_without_unused(text, view.imports), data)

    def exports(self) -> list[str]:
        names = ["GRADC", "INPUTS", "OUTPUTS", *(e.name for e in self.module.entries)]
        names += self.module.records
        names += ["backward", "forward"] if self.module.pair else []
        names += ["Objective", "objective"] if self.module.objective else []
        listed = ", ".join(quoted(n) for n in sorted(names, key=_export_key))
        return layout.statement(f"__all__ = [{listed}]")

    def objective(self) -> ObjectiveView:
        """The function of the xs alone. OptionError where there are no gradients."""
        for entry in self.module.entries:
            if len(entry.records) == 2:
                values, gradients = entry.records
                return objective_view(
                    [(f.name, f.tensor) for f in values.fields],
                    [f.name for f in gradients.fields],
                    self.module.xs,
                    self.inputs.parameters,
                    self.hidden,
                )
        raise OptionError(
            "wrap: scipy needs gradients",
            hint="name ys and xs, or write differentiate(...) in the graph",
        )

    # ------------------------------------------------------------------- docstring

    def docstring(self, notes: Sequence[str]) -> str:
        module = self.module
        title, _, rest = docstring(module.title or f"{module.source}.").partition("\n")
        digest = f" (sha256 {module.digest[:16]})" if module.digest else ""
        made = f"Generated by gradc {module.version} from {module.source}{digest}"
        parts = [
            title,
            rest.strip("\n"),
            f"{docstring(made)}; do not edit.\nTo make it again:",
            f"    {docstring(module.command)}",
            "\n".join(self.input_lines()),
            "\n".join(f"    {docstring(s)}" for s in module.statements),
            *(textwrap.fill(docstring(n), 88) for n in [*module.notes, *notes]),
        ]
        renamed = [f"`{o}` is called `{n}`" for o, n in self.options.items() if o != n]
        if renamed:
            parts.append(
                f"Since an input has its name, the option {', '.join(renamed)}."
            )
        return "\n\n".join(part for part in parts if part)

    def input_lines(self) -> list[str]:
        rows = []
        for why, p in zip(
            self.module.differentiable, self.inputs.parameters, strict=True
        ):
            text = self.type_text(p.type)
            if p.default is not None:
                default = p.default if p.default != "None" else p.number or "an array"
                text += f" = {default}"
            rows.append((p.name, text, "" if why else "differentiable"))
        first = max((len(r[0]) for r in rows), default=0) + 3
        second = max((len(r[1]) for r in rows), default=0) + 3
        return [f"    {a:<{first}}{b:<{second}}{c}".rstrip() for a, b, c in rows]

    def type_text(self, type: TensorType) -> str:
        if not type.shape:
            return type.dtype.name
        return f"{type.dtype.name}[{', '.join(self.dim_name(d) for d in type.shape)}]"

    def dim_name(self, dim: Dim) -> str:
        """A dimension in the words of the source."""
        text = dim_text(dim)
        for new, old in self.source_symbols.items():
            text = docstring(old).join(re.split(whole_word(new), text))
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
        inputs: dict[str, Any] = {}
        for p, why in zip(self.inputs.parameters, module.differentiable, strict=True):
            row = {"name": p.source, **self.row(p.type), "differentiable": not why}
            inputs[p.name] = row | ({"why": why} if why else {})
        outputs: dict[str, Any] = {}
        for f in module.entries[0].fields:
            if f.tensor is None:
                outputs[f.name] = {"dtype": None, "shape": None, "why": f.why}
            else:
                outputs[f.name] = self.row(f.tensor.type)
        return [
            *table("GRADC", information),
            *table("INPUTS", inputs),
            *table("OUTPUTS", outputs),
        ]

    def row(self, type: TensorType) -> dict[str, Any]:
        dims = tuple(d if isinstance(d, int) else self.dim_name(d) for d in type.shape)
        return {"dtype": type.dtype.name, "shape": dims}

    # --------------------------------------------------------------------- entries

    def entry(self, entry: Entry, name: str) -> list[str]:
        """The text of a public function, or of the one that it calls for given cotangents."""
        out, threads = self.options["out"], self.options["threads"]
        grad_ys = self.options["grad_ys"]
        names = [r.name for r in entry.records]
        returned = names[0] if len(names) == 1 else f"tuple[{', '.join(names)}]"
        items = self.inputs.signature()
        items += [f"{grad_ys}: Any = None"] if entry.ys else []
        items += [f"{out}: {returned} | None = None", f"{threads}: int = 1"]
        lines = layout.parameters(f"def {name}", items, f" -> {returned}:")
        lines += self.entry_doc(entry, name == SEEDED)
        scope = self.scope(entry)
        glob = scope.glob
        rest = self.target.call(entry, scope)
        body: list[str] = []
        if entry.seeded:
            body = [
                f"if {grad_ys} is not None:",
                f"    return {self.seeded_call(glob)}",
            ]
        elif entry.ys and name != SEEDED:
            rest += self.scaled(entry, scope)
        rest += self.returned(entry, scope)
        used = words(rest)
        body += [f"if {threads} != 1:", f"    {glob('_threads')}({threads})"]
        count = len(self.inputs.names)
        body.append(
            _unpacked(
                [*scope.inputs[:count], *scope.sizes.values()],
                used,
                f"{glob('_inputs')}({', '.join(self.inputs.names)})",
            )
        )
        if name == SEEDED:
            body.append(
                _unpacked(scope.inputs[count:], used, self.seeds_call(entry, scope))
            )
        return lines + layout.indented([*body, *rest])

    def seeded_call(self, glob: Callable[[str], str]) -> str:
        """The call that hands all arguments on to the entry for given cotangents."""
        arguments = [
            p.name if p.default is None else f"{p.name}={p.name}"
            for p in sorted(self.inputs.parameters, key=lambda p: p.default is not None)
        ]
        arguments += [f"{o}={o}" for o in self.options.values()]
        return f"{glob(SEEDED)}({', '.join(arguments)})"

    def seeds_call(self, entry: Entry, scope: Scope) -> str:
        """The call that checks and converts `grad_ys`."""
        wanted = []
        for name, type in entry.ys:
            if type is None:
                wanted.append("None")
                continue
            dtype = f"{scope.glob('np')}.{scalar_name(type.dtype.name)}"
            shape = shape_in(type.shape, scope.sizes)
            wanted.append(f"({quoted(name)}, {dtype}, {shape})")
        tail = "," if len(wanted) == 1 else ""
        grad_ys = self.options["grad_ys"]
        return f"{scope.glob('_seeds')}({grad_ys}, ({', '.join(wanted)}{tail}))"

    def scaled(self, entry: Entry, scope: Scope) -> list[str]:
        """The lines that multiply the gradients by the cotangent of the only y."""
        seed = scope.fresh("seed")
        gradients = {f.tensor for r in entry.records[1:] for f in r.fields}
        lines = [
            f"{name} = {scope.glob('_scaled')}({name}, {seed})"
            for tensor, name in zip(scope.outputs, scope.results, strict=True)
            if tensor in gradients
        ]
        call = _unpacked(
            [seed], {seed} if lines else set(), self.seeds_call(entry, scope)
        )
        given = f"if {self.options['grad_ys']} is not None:"
        return [given, *(f"    {line}" for line in [call, *lines])]

    def scope(
        self, entry: Entry, first: Sequence[str] | None = None, held: int = 0
    ) -> Scope:
        """The names inside an entry point.

        `first` are its parameters before the options, else the inputs; its last record holds
        `held` values more than its fields.
        """
        first = self.inputs.names if first is None else first
        parameters = [*first, *self.options.values()]
        namer = Namer([*RESERVED, *self.module.records])
        for name in parameters:
            namer.take(name)
        outputs = _outputs(entry)
        labels: dict[Tensor, str] = {}
        for r in entry.records:
            tail = "_bar" if r.name == "Gradients" else ""
            for f in r.fields:
                if f.tensor is not None:
                    labels.setdefault(f.tensor, f"{f.name}{tail}")
        sizes = {s: namer.fresh(s) for s in self.inputs.symbols}
        glob = self.hidden.seen_from(parameters)
        counts = ", ".join(str(len(r.fields)) for r in entry.records)
        counts = f"({counts},)" if len(entry.records) == 1 else f"({counts})"
        return Scope(
            inputs=tuple(namer.fresh(f"{t.attrs.name}_") for t in entry.graph.inputs),
            sizes=sizes,
            outputs=tuple(outputs),
            results=tuple(namer.fresh(labels[t]) for t in outputs),
            out=self.options["out"],
            threads=self.options["threads"],
            structure=f"{counts}, {held}" if held else counts,
            wanted=_wanted(entry, sizes, glob),
            glob=glob,
            fresh=namer.fresh,
        )

    def returned(
        self, entry: Entry, scope: Scope, held: Sequence[str] = ()
    ) -> list[str]:
        """The lines that put the results into the records, and what the last one holds too."""
        glob = scope.glob
        position = {t: k for k, t in enumerate(scope.outputs)}
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
        given, results = scope.fresh("given"), scope.fresh("results")
        plain, stored = [], []
        start = 0
        for r in entry.records:
            stop = start + len(r.fields)
            more = list(held) if r is entry.records[-1] else []
            inside = ", ".join([*values[start:stop], *more])
            if self.target.is_compiled:  # a call of few small arrays is short
                tail = "," if len(values[start:stop]) + len(more) == 1 else ""
                plain.append(f"{glob('_new')}({glob(r.name)}, ({inside}{tail}))")
            else:
                plain.append(f"{glob(r.name)}({inside})")
            end = "" if more else stop
            part = results if len(entry.records) == 1 else f"{results}[{start}:{end}]"
            stored.append(f"{glob(r.name)}(*{part})")
            start = stop
        flat = f"{glob('_flat')}({scope.out}, {scope.structure})"
        listed = f"[{', '.join(values)}]"
        return [
            f"if {scope.out} is not None:",
            f"    {given} = {flat}",
            f"    {results} = {glob('_delivered')}({given}, {listed})",
            *([f"    {results} += [{', '.join(held)}]"] if held else []),
            f"    return {', '.join(stored)}",
            f"return {', '.join(plain)}",
        ]

    # ------------------------------------------------------------------------ pair

    def pair(self, pair: Pair) -> tuple[RecordView, list[str], list[str]]:
        """The record of the residuals, and the texts of `forward` and of `backward`.

        Backward's text tells which sizes it needs: they are residuals as well.
        """
        made = [f for f in pair.forward.records[1].fields if f.tensor is not None]
        inputs = pair.forward.graph.inputs
        held = [inputs[k] for k in pair.held]
        names = [*(f.name for f in made), *(t.attrs.name for t in held)]
        symbols = self.inputs.symbols
        fields = fields_of([*names, *symbols], "residual")
        types = [f.tensor.type for f in made if f.tensor is not None]
        types += [t.type for t in held]
        backward, used = self.backward(pair, list(zip(fields, types, strict=False)))
        needed = [s for s in symbols if s in used]
        fields = fields_of([*names, *needed], "residual")
        scope = self.scope(pair.forward, held=len(held) + len(needed))
        variables = [scope.inputs[k] for k in pair.held]
        variables += [scope.sizes[s] for s in needed]
        record = Record(RESIDUALS, "What backward() needs of a call of forward().", ())
        kinds = [*map(result_type, types), *("int" for _ in needed)]
        return (
            _record_view(record, list(zip(fields, kinds, strict=True))),
            self.forward(
                pair.forward,
                scope,
                variables,
                [
                    self.inputs.names[k]
                    for k, t in zip(pair.held, held, strict=True)
                    if t.shape
                ],
            ),
            backward,
        )

    def forward(
        self, entry: Entry, scope: Scope, variables: Sequence[str], held: Sequence[str]
    ) -> list[str]:
        out, threads = self.options["out"], self.options["threads"]
        returned = "tuple[Values, Residuals]"
        items = self.inputs.signature()
        items += [f"{out}: {returned} | None = None", f"{threads}: int = 1"]
        lines = layout.parameters("def forward", items, f" -> {returned}:")
        note = ["The residuals are fresh memory; they may be used again."]
        if held:
            text = (
                f"The residuals have {_and(held)} by reference, where given in the declared "
                "type: what is written there before backward() changes its result. The rest is "
                f"fresh memory; residuals may be used again. `{out}` is not read where they have "
                "inputs or sizes."
            )
            note = textwrap.wrap(docstring(text), 84)
        lines += self.entry_doc(entry, False, note)
        rest = self.target.call(entry, scope) + self.returned(entry, scope, variables)
        used = words(rest)
        call = f"{scope.glob('_inputs')}({', '.join(self.inputs.names)})"
        body = [
            f"if {threads} != 1:",
            f"    {scope.glob('_threads')}({threads})",
            _unpacked([*scope.inputs, *scope.sizes.values()], used, call),
        ]
        return lines + layout.indented([*body, *rest])

    def backward(
        self, pair: Pair, residuals: Sequence[tuple[str, TensorType]]
    ) -> tuple[list[str], list[str]]:
        """The text of `backward`, and the symbols that it needs."""
        entry = pair.backward
        grad_ys, out, threads = self.options.values()
        items = ["residuals: Residuals"]
        items += [f"{grad_ys}: Any = None"] if entry.ys else []
        items += ["*", f"{out}: Gradients | None = None", f"{threads}: int = 1"]
        lines = layout.parameters("def backward", items, " -> Gradients:")
        lines += self.entry_doc(entry, False)
        scope = self.scope(entry, ["residuals"])
        glob = scope.glob
        rest = self.target.call(entry, scope) + self.returned(entry, scope)
        if entry.ys:
            seeds = scope.inputs[len(pair.held) + len(pair.kept) :]
            used = words(rest)
            rest.insert(0, _unpacked(seeds, used, self.seeds_call(entry, scope)))
        if pair.defaults:
            texts = [f"residuals.{n}" if n else "None" for n in pair.defaults]
            tail = "," if len(texts) == 1 else ""
            rest[:0] = [
                f"if {grad_ys} is None:",
                f"    {grad_ys} = ({', '.join(texts)}{tail})",
            ]
        used = words(rest)
        wanted = [
            f"({quoted(name)}, {glob('np')}.{scalar_name(type.dtype.name)}, "
            f"{shape_in(type.shape, scope.sizes)})"
            for name, type in residuals
        ]
        made = len(residuals) - len(pair.held)
        variables = [
            *scope.inputs[len(pair.held) : len(pair.held) + len(pair.kept)],
            *("_" for _ in range(made - len(pair.kept))),
            *scope.inputs[: len(pair.held)],
        ]
        tail = "," if len(wanted) == 1 else ""
        items_ = scope.fresh("items")
        checks = []
        if wanted:
            call = f"{glob('_arrays')}({items_}, ({', '.join(wanted)}{tail}))"
            checks = [_unpacked(variables, used, call)]
        used |= words(checks)
        needed = [s for s in self.inputs.symbols if scope.sizes[s] in used]
        whole = f"{glob('_residuals')}(residuals)"
        if needed:
            star = f"*{items_ if checks else '_'}"
            opened = f"{', '.join([star, *(scope.sizes[s] for s in needed)])} = {whole}"
        else:
            opened = f"{items_} = {whole}" if checks else whole
        body = [
            f"if {threads} != 1:",
            f"    {glob('_threads')}({threads})",
            opened,
            *checks,
            *rest,
        ]
        return lines + layout.indented(body), needed

    def selftest(self) -> SelfTestView | None:
        """The parts of the self-test; None where the module has none."""
        if self.module.selftest is None:
            return None
        return selftest_view(
            self.module.selftest,
            self.inputs.names,
            [p.default is None for p in self.inputs.parameters],
            self.module.xs,
            self.options["grad_ys"],
        )

    def entry_doc(
        self, entry: Entry, is_private: bool, note: Sequence[str] = ()
    ) -> list[str]:
        grad_ys, out, threads = self.options.values()
        if is_private:
            return [f'    """{docstring(entry.doc)}"""']
        lines = [docstring(entry.doc), ""]
        lines += [
            f"`{f.name}` is None: {docstring(f.why)}"
            for f in entry.fields
            if f.tensor is None
        ]
        lines += note
        if entry.ys:
            lines.append(f"`{grad_ys}` has a cotangent for each y, None for ones.")
        lines += [
            f"`{out}` has arrays to write to, in the structure of the result, None where one is to",
            f"be made; they may be inputs. `{threads}` is at least 1; {self.target.threads(entry)}.",
        ]
        lines[0] = f'"""{lines[0]}'
        return [f"    {line}".rstrip() for line in [*lines, '"""']]


# --------------------------------------------------------------------------- helpers


def _record_view(record: Record, more: Sequence[tuple[str, str]] = ()) -> RecordView:
    """The record; `more` has names and types of fields that are no results."""
    lines = []
    fields = [
        (f.name, "None" if f.tensor is None else result_type(f.tensor.type))
        for f in record.fields
    ]
    for name, kind in [*fields, *more]:
        hides = name in ("count", "index")  # methods of a tuple
        note = "  # type: ignore[assignment]" if hides else ""
        lines += layout.statement(f"{name}: {kind}", 4)
        lines[-1] += note
    return RecordView(record.name, record.doc, tuple(lines))


def _wanted(entry: Entry, sizes: Mapping[str, str], glob: Callable[[str], str]) -> str:
    """The text of (name, dtype, shape) of each value of the results, None for a None."""
    parts = []
    for f in entry.fields:
        if f.tensor is None:
            parts.append("None")
            continue
        dtype = f"{glob('np')}.{scalar_name(f.tensor.dtype.name)}"
        shape = shape_in(f.tensor.shape, sizes)
        parts.append(f"({quoted(f.name)}, {dtype}, {shape})")
    return f"({', '.join(parts)},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _and(names: Sequence[str]) -> str:
    listed = [f"`{n}`" for n in names]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


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
    ys = tuple(
        (name, None if t is None else t.with_shape(put_dims(t.shape, names)))
        for name, t in entry.ys
    )
    seeded = None if entry.seeded is None else _renamed(entry.seeded, names)
    return replace(entry, graph=graph, records=records, ys=ys, seeded=seeded)


def _without_unused(text: str, imports: Sequence[str]) -> str:
    """The text without the imports whose name it does not use."""
    for line in filter(None, imports):
        name = line.split()[-1]
        word = re.compile(whole_word(name))
        start = text.index(f"\n{line}\n")
        end = start + len(line) + 1
        after, before = text.find(name, end), text.find(name, 0, start)
        is_used = after >= 0 and word.search(text, after)
        if not is_used and not (before >= 0 and word.search(text, before, start)):
            text = text[:start] + text[end:]
    return text.rstrip("\n") + "\n"


def _unpacked(names: Sequence[str], used: set[str], call: str) -> str:
    """`a, _, c = call`, without the names that nothing uses; the call alone where that is all."""
    kept = [name if name in used else "_" for name in names]
    if all(name == "_" for name in kept):
        return call
    return f"{', '.join(kept)}{',' if len(kept) == 1 else ''} = {call}"


def _export_key(name: str) -> tuple[int, str]:
    """Constants, classes, functions; each by name, as import sorters do."""
    if name.isupper():
        return 0, name
    return (1, name) if name[0].isupper() else (2, name)

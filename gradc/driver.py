"""The pipeline on one screen: text to graph, to its gradients, through the passes, to a module."""

from __future__ import annotations

import hashlib
import operator
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gradc import __version__
from gradc.autodiff.reverse import Gradients, adjoint, make_request
from gradc.emit.module import (
    Emitted,
    Entry,
    Field,
    Module,
    Pair,
    Record,
    Target,
    fields_of,
    render,
)
from gradc.emit.names import plain
from gradc.emit.selftest import SelfTest
from gradc.emit.symbols import put_sizes, symbols_in_order
from gradc.errors import OptionError, ShapeError, SourceError, UnsupportedError
from gradc.frontends.gc import parse
from gradc.frontends.gc_hints import did_you_mean
from gradc.graph import Graph, Output, Request, Tensor, collector_paused
from gradc.ops.basic import input_
from gradc.passes.constants import fold_numbers
from gradc.passes.expand import expand, strip_identities
from gradc.passes.simplify import simplify
from gradc.passes.split import split
from gradc.runtime.cache import Store, Stored
from gradc.runtime.key import CacheKey, fingerprint
from gradc.runtime.load import load_code, load_text
from gradc.types import TensorType, check_static, evaluate_dim

if TYPE_CHECKING:
    from gradc.schedule.lower import Scheduled

__all__ = [
    "CompiledModule",
    "Options",
    "Plan",
    "compile",
    "emit",
    "emit_module",
    "gradients",
    "load",
    "named",
    "options_of",
    "plan",
    "read",
    "schedules",
    "simplified",
]

PASSES: tuple[Callable[[Graph], Graph], ...] = (
    expand,  # composites stand for primitives: all that follows sees only those
    strip_identities,  # copies and stops meant something to the planner alone
    fold_numbers,  # what no input has a part in
    simplify,  # equal nodes, constants, index maps, sums into contractions, strong zeros
)


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile. The names are those of the command line, with `_` for `-`.

    `ys`, `xs` and `stop_gradients` are names of tensors, or tensors; None takes those that the
    graph itself asks for. `float` is what `float` means in a text, `static` fixes symbols.
    """

    ys: Any = None
    xs: Any = None
    grad_ys: Any = None
    stop_gradients: Any = None
    name: str | None = None
    colocate_gradients_with_ops: bool | None = None
    gate_gradients: bool | None = None
    aggregation_method: str | None = None
    unconnected_gradients: str | None = None
    zero_adjoints: str | None = None
    target: str = "numba"
    float: str = "float64"
    static: Mapping[str, int] = field(default_factory=dict)
    wrap: str | None = None
    embed: bool = False
    opt: int = 1

    def given(self) -> dict[str, Any]:
        """The options that are not at their defaults, as plain values in a fixed order."""
        found: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            default = {} if f.name == "static" else f.default
            if value == default or value is None:
                continue
            if f.name in ("ys", "xs", "stop_gradients", "grad_ys"):
                value = ",".join(_names_of(value))
            elif f.name == "static":
                value = ",".join(f"{s}={n}" for s, n in sorted(value.items()))
            found[f.name] = value
        return found

    def arguments(self) -> str:
        """The options as they are written on the command line."""
        words = []
        for name, value in self.given().items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                words.append(option if value else option.replace("--", "--no-", 1))
            else:
                words.append(f"{option} {shlex.quote(str(value))}")
        return " ".join(words)


def options_of(given: Mapping[str, Any]) -> Options:
    """Options from keyword arguments. OptionError for one that does not exist, or a bad value."""
    known = {f.name for f in fields(Options)}
    for name in given:
        if name not in known:
            listed = "options are " + ", ".join(sorted(known))
            hint = did_you_mean(name, known) or listed
            raise OptionError(f"no option {name}", hint=hint)
    options = Options(**given)
    for f in fields(Options):
        value = getattr(options, f.name)
        if value is not None or f.default is not None:
            _check_kind(f.name, value)
    options = replace(
        options,
        static={s: _size(s, n) for s, n in options.static.items()},
        opt=operator.index(options.opt),
    )
    _choice("target", options.target, ("numba", "numpy"), later=("native",))
    _choice("wrap", options.wrap, (None, "scipy"))
    _choice("opt", options.opt, (0, 1))
    _choice("float", options.float, ("float64", "float32", "float16"))
    return options


def _check_kind(option: str, value: Any) -> None:
    """OptionError where the value of an option is of another type than the option takes."""
    if option in ("ys", "xs", "stop_gradients"):
        listed = value if isinstance(value, list | tuple) else [value]
        expected = "a name, a tensor or a list of them"
        fits = all(isinstance(v, str | Tensor) for v in listed)
    elif option == "static":
        expected = 'sizes by name, such as {"N": 3}'
        fits = isinstance(value, Mapping)
    elif option == "opt":
        expected = "0, 1"
        fits = _is_integer(value)
    elif option in ("embed", "gate_gradients", "colocate_gradients_with_ops"):
        expected = "True or False"
        fits = isinstance(value, bool)
    elif option == "grad_ys":
        return  # checked with the ys that they are for
    else:
        expected = "a string"
        fits = isinstance(value, str)
    if not fits:
        raise OptionError(f"{option}: expected {expected}, found {value!r}")


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and hasattr(value, "__index__")


def _size(name: Any, value: Any) -> int:
    """A size of `static` as an int."""
    if not isinstance(name, str):
        raise OptionError(f"static: expected the name of a dimension, found {name!r}")
    try:
        size = operator.index(value) if _is_integer(value) else -1
    except TypeError:  # an array that is not one integer
        size = -1
    if size < 0:
        raise OptionError(
            f"static: expected an integer from 0 on for {name}, found {value!r}"
        )
    return size


def _choice(
    option: str, value: Any, allowed: Sequence[Any], later: Sequence[Any] = ()
) -> None:
    if value in later:
        raise OptionError(f"{option}: {value} is not in this version", code="not-yet")
    if value not in allowed:
        names = ", ".join(str(a) for a in allowed if a is not None)
        raise OptionError(f"{option}: expected {names}, found {value!r}")


# ------------------------------------------------------------------------- reading


def load(
    path: str | Path,
    *,
    float: str = "float64",
    static: Mapping[str, int] | None = None,
) -> Graph:
    """The graph in a file; the front end goes by its suffix. SourceError where it can't be read."""
    file = Path(path)
    if file.suffix != ".gc":
        raise UnsupportedError(
            f"{file}: this version reads .gc files",
            code="bad-suffix",
            hint="give the graph as a .gc file",
        )
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{file}: not UTF-8 at byte {error.start}", code="bad-encoding"
        ) from None
    return parse(
        text, file.name, folder=file.parent, default_float=float, static=static
    )


def read(source: Any, options: Options) -> Graph:
    """The graph of a text, a path or a Graph."""
    if isinstance(source, Graph):
        return _sized(source, options.static)
    if isinstance(source, Path):
        return load(source, float=options.float, static=options.static)
    if isinstance(source, str):
        is_path = "\n" not in source and source.endswith(".gc")
        if not is_path and _looks_like_path(source):
            raise SourceError(
                f"{source!r}: no such file, or not a .gc",
                hint="give the path of a .gc file, or a text of statements",
            )
        if is_path:
            return load(source, float=options.float, static=options.static)
        return parse(source, default_float=options.float, static=options.static)
    if callable(source):
        raise UnsupportedError(
            "compiling a NumPy function is not in this version",
            hint="write it as a .gc text",
        )
    raise OptionError(
        f"expected a Graph, a .gc text or a path, found {type(source).__name__}"
    )


def _sized(graph: Graph, static: Mapping[str, int]) -> Graph:
    """The graph with sizes in place of symbols."""
    if not static:
        return graph
    check_static(static, symbols_in_order([t.shape for t in graph.inputs]))
    return put_sizes(graph, dict(static))


def _looks_like_path(text: str) -> bool:
    """Whether a text of one line can't be meant as statements."""
    line = text.strip()
    is_statement = re.search(r"[=():]|return\b", line)
    return bool(line) and "\n" not in text and not is_statement


# ------------------------------------------------------------------------- planning


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph, what is asked of it and the gradients that answer it (None without a request)."""

    graph: Graph
    options: Options
    request: Request | None
    gradients: Gradients | None

    def why(self, x: str | Tensor) -> str:
        """Why x has no gradient; "" where it has one. OptionError where x is no x."""
        if self.request is None or self.gradients is None:
            raise OptionError("why: no gradients were asked for")
        tensor = named(self.graph, "why", x)
        for k, t in enumerate(self.request.xs):
            if t is tensor:
                return self.gradients.why(k)
        xs = ", ".join(_label(t) for t in self.request.xs)
        raise OptionError(
            f"why: {_label(tensor)} is not among the xs", hint=f"xs are {xs}"
        )


def plan(source: Any, options: Options) -> Plan:
    """Read a graph and differentiate it as it asks, or as the options do."""
    return _planned(read(source, options), options)


def _planned(graph: Graph, options: Options) -> Plan:
    request = _request(graph, options)
    return Plan(graph, options, request, None if request is None else adjoint(request))


def _request(graph: Graph, options: Options) -> Request | None:
    """The graph's request with the options' changes; None where there is none."""
    old = graph.request
    if old is None and options.ys is None and options.xs is None:
        return None
    ys = old.ys if options.ys is None and old is not None else options.ys
    xs = old.xs if options.xs is None and old is not None else options.xs
    if ys is None:
        ys = [o.tensor for o in graph.outputs[:1] if o.tensor is not None]
    if xs is None:
        raise OptionError("xs: expected names of tensors to differentiate by")
    chosen = {
        name: getattr(options, name)
        if getattr(options, name) is not None
        else getattr(old, name, None)
        for name in (
            "name",
            "colocate_gradients_with_ops",
            "gate_gradients",
            "aggregation_method",
            "unconnected_gradients",
            "zero_adjoints",
        )
    }
    stops = options.stop_gradients
    if stops is None:
        stops = old.stop_gradients if old is not None else ()
    seeds = options.grad_ys
    if seeds is None and old is not None and options.ys is None:
        seeds = old.grad_ys
    return make_request(
        ys=_tensors(graph, "ys", ys),
        xs=_tensors(graph, "xs", xs),
        grad_ys=None if seeds is None else _seeds(graph, seeds),
        stop_gradients=_tensors(graph, "stop_gradients", stops),
        **{k: v for k, v in chosen.items() if v is not None},
    )


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, Iterable) else [value]


def _names_of(value: Any) -> list[str]:
    return [
        str(v) if v is None or isinstance(v, str) else _label(v) for v in _listed(value)
    ]


def _label(tensor: Tensor) -> str:
    return tensor.name or tensor.op.name


def _tensors(graph: Graph, what: str, value: Any) -> list[Tensor]:
    return [named(graph, what, v) for v in _listed(value)]


def _seeds(graph: Graph, value: Any) -> list[Any]:
    return [
        None if v == "None" else named(graph, "grad_ys", v) if isinstance(v, str) else v
        for v in _listed(value)
    ]


def named(graph: Graph, what: str, value: Any) -> Tensor:
    """A tensor by its name (`loss`, `loss:0`), or itself."""
    if isinstance(value, Tensor):
        return value
    name = str(value).removesuffix(":0")
    found = graph.names.get(name)
    if found is None:
        found = next((o.tensor for o in graph.outputs if o.name == name), None)
    if found is None:
        found = next((t for t in graph.inputs if t.attrs.name == name), None)
    if found is None:
        raise OptionError(
            f"{what}: no tensor is called {value!r}",
            code="unknown-name",
            hint="tensors are " + ", ".join(list(graph.names)[:20]),
        )
    return found


# ------------------------------------------------------------------------ emission


def simplified(graph: Graph) -> Graph:
    """The graph after all passes."""
    for run in PASSES:
        graph = run(graph)
    return graph


def emit_module(
    source: Any, options: Options, output: str = ""
) -> tuple[Emitted, Plan]:
    """The module of a graph; `output` is the name of the file it is meant for."""
    with collector_paused():
        made = plan(source, options)
        return _emitted(made, output), made


def _emitted(made: Plan, output: str = "") -> Emitted:
    return render(_module(made, output), _target(made.options))


def schedules(made: Plan) -> dict[str, Scheduled]:
    """The kernels of a plan by the names of their entry points, as target `numba` prints them."""
    from gradc.emit.numba import NumbaTarget

    target = NumbaTarget(made.options.opt)
    for entry in _module(made, "").entries:
        outputs = [f.tensor for f in entry.fields if f.tensor is not None]
        target.add(entry, list(dict.fromkeys(outputs)))
    return {name: s for name, (s, _) in target.kernels.items()}


def emit(source: Any, **options: Any) -> str:
    """The source text of the module of a graph (a Graph, a `.gc` text or the path of one).

    Options are those of the command line by their names. Constants are all in the text.
    """
    return emit_module(source, options_of(options))[0].source


def gradients(ys: Any, xs: Any, *args: Any, **options: Any) -> list[Tensor | None]:
    """Gradients of tensors of a graph being built: one an x, None where no path leads to it.

    The arguments are those of `tf.gradients`.
    """
    return list(adjoint(make_request(ys, xs, *args, **options)).tensors)


# --------------------------------------------------------------------- compilation


class CompiledModule:
    """An emitted module that is loaded: its functions and tables, and where they come from.

    `source` is its text, `path` its file (None where no folder could be written), `module` the
    module itself, `graph` what it was compiled from.
    """

    def __init__(
        self,
        module: ModuleType,
        source: str,
        path: Path | None,
        graph: Graph,
        options: Options,
    ) -> None:
        self.module = module
        self.source = source
        self.path = path
        self.graph = graph
        self.options = options

    @cached_property
    def plan(self) -> Plan:
        """The graph with its gradients: made when asked for, since the module needs none."""
        return _planned(self.graph, self.options)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.__dict__["module"], name)
        except (KeyError, AttributeError):
            hint = ""
            if name in ("value_and_gradients", "forward", "backward", "objective"):
                hint = ": the graph asks for no gradients"
            raise AttributeError(f"the module has no {name}{hint}") from None

    def why(self, x: str | Tensor) -> str:
        """Why the gradient by x is None; "" where it is not."""
        return self.plan.why(x)

    def __repr__(self) -> str:
        return f"<module of {self.graph.name}, {self.path or 'in memory'}>"


def compile(source: Any, **options: Any) -> CompiledModule:
    """Compile a graph (a Graph, a `.gc` text or the path of one) and load the module.

    Options are those of the command line by their names: `ys`, `xs`, `target`, ... The module is
    kept in the cache folder (`GRADC_CACHE_DIR`), and taken from there where it is kept already.
    """
    chosen = options_of(options)
    graph = read(source, chosen)
    told = {f.name: getattr(chosen, f.name) for f in fields(Options)}
    mark = fingerprint(graph, told)
    text = ""
    if (
        mark is None
    ):  # there is a function in the graph: only the text tells what it does
        text = _emitted(_planned(graph, chosen)).source
        mark = hashlib.sha256(text.encode()).hexdigest()
    key = CacheKey.here(mark).digest
    name = f"gradc_{key[:20]}"
    store = Store.of(os.environ)
    found = store.get(key, name)
    if found is None:
        with store.turn(key):
            found = store.get(key, name)
            if found is None:
                text = text or _emitted(_planned(graph, chosen)).source
                found = _put(store, key, name, text, graph, chosen)
    if found is None:
        return CompiledModule(load_text(text, name), text, None, graph, chosen)
    module = load_code(name, found.code, found.source, found.path)
    return CompiledModule(module, found.source, found.path, graph, chosen)


def _put(
    store: Store, key: str, name: str, text: str, graph: Graph, options: Options
) -> Stored | None:
    """Keep a module in the cache; None, with a warning, where it can't be."""
    about = {
        "graph": graph.name,
        "source": graph.source.name if graph.source is not None else "",
        "target": options.target,
        "version": __version__,
    }
    try:
        return store.put(key, name, text, about)
    except OSError as error:
        warnings.warn(
            f"a module of {graph.name} can't be kept for later runs: {error}; "
            "GRADC_CACHE_DIR names another folder",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def _target(options: Options) -> Target:
    if options.target == "numpy":
        from gradc.emit.numpy import NumpyTarget

        return NumpyTarget()
    from gradc.emit.numba import NumbaTarget

    return NumbaTarget(options.opt)


def _module(made: Plan, output: str) -> Module:
    """What the module of a plan holds."""
    graph, options = made.graph, made.options
    entries = [_run_entry(graph)]
    pair = None
    if made.request is not None:
        entry, pair = _gradient_entries(made)
        entries.append(entry)
    source = graph.source
    name = source.name if source is not None and source.name != "<string>" else ""
    stem = Path(name or f"{graph.name}.gc").stem
    embed = options.embed or not output  # a text alone has no file beside it
    output = output or f"{stem}_grad.py"
    words = [
        "gradc compile",
        shlex.quote(name or f"{stem}.gc"),
        "-o",
        shlex.quote(output),
    ]
    given = options.arguments()
    return Module(
        title=graph.doc.strip(),
        source=name or "a graph in memory",
        digest=_digest(source.text) if source is not None else "",
        version=__version__,
        command=" ".join([*words, *([given] if given else [])]),
        options=options.given(),
        entries=tuple(entries),
        differentiable=tuple(_differentiable(made, t) for t in graph.inputs),
        xs=tuple(
            graph.inputs.index(x) if x in graph.inputs else -1
            for x in (made.request.xs if made.request is not None else ())
        ),
        statements=_statements(graph),
        objective=options.wrap == "scipy",
        embed=embed,
        data_name=f"{Path(output).stem}.npz",
        pair=pair,
        selftest=_selftest(made) if pair is not None and pair.backward.ys else None,
    )


def _digest(text: str) -> str:
    """sha256 of a text with LF line ends."""
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    return hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()


def _entry(
    name: str,
    doc: str,
    graph: Graph,
    records: Sequence[tuple[str, str, Sequence[Output]]],
) -> Entry:
    """An entry point over the simplified graph of some outputs, (record, doc, outputs) each."""
    wanted = [o for _, _, outputs in records for o in outputs]
    names = [f"{o.name}" for o in wanted]
    keyed = tuple(
        replace(o, name=n) for o, n in zip(wanted, _unique(names), strict=True)
    )
    own = replace(graph, outputs=keyed, request=None, names={})
    final = simplified(own)
    tensors = iter(o.tensor for o in final.outputs)
    made = []
    for record, text, outputs in records:
        labels = fields_of([o.name for o in outputs])
        made.append(
            Record(
                record,
                text,
                tuple(
                    Field(label, next(tensors), o.why)
                    for label, o in zip(labels, outputs, strict=True)
                ),
            )
        )
    return Entry(name, final, tuple(made), doc)


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result


def _run_entry(graph: Graph) -> Entry:
    listed = _and(o.name for o in graph.outputs)
    return _entry(
        "run",
        f"{listed} of the graph.",
        graph,
        [("Outputs", "What run() returns.", graph.outputs)],
    )


def _gradient_entries(made: Plan) -> tuple[Entry, Pair]:
    """`value_and_gradients`, and the same in two halves."""
    request, gradients = made.request, made.gradients
    assert request is not None and gradients is not None
    ys = [Output(_value_name(made.graph, y, k), y) for k, y in enumerate(request.ys)]
    xs = [
        Output(
            _source_name(made.graph, x) or f"x_{k}",
            g,
            gradients.why(k) if g is None else "",
        )
        for k, (x, g) in enumerate(zip(request.xs, gradients.tensors, strict=True))
    ]
    its = "its gradient" if len(ys) == 1 else "the gradient of their sum"
    doc = f"{_and(y.name for y in ys)}, and {its} by {_and(x.name for x in xs)}."
    texts = (
        "The ys of value_and_gradients().",
        "The gradients of value_and_gradients(), by x.",
    )
    entry = _entry(
        "value_and_gradients",
        doc,
        made.graph,
        [("Values", texts[0], ys), ("Gradients", texts[1], xs)],
    )
    named = tuple(
        (o.name, y.type.with_dtype(y.dtype) if y.dtype.is_inexact else None)
        for o, y in zip(ys, request.ys, strict=True)
    )
    seeds = [
        None if t is None else input_(name=f"grad_{name}", type=t, default=None)
        for name, t in named
    ]
    bars = adjoint(replace(request, grad_ys=tuple(seeds))).tensors
    given = [replace(o, tensor=g) for o, g in zip(xs, bars, strict=True)]
    inputs = (*made.graph.inputs, *(s for s in seeds if s is not None))
    defaults = [
        Output(f"grad_{name}", g)
        for (name, _), g in zip(named, request.grad_ys, strict=True)
        if g is not None
    ]
    records = [("Values", texts[0], ys), ("Gradients", texts[1], given)]
    whole = _entry(
        "seeded",
        "value_and_gradients() for given cotangents of the ys.",
        replace(made.graph, inputs=inputs),
        [records[0], ("", "", defaults), records[1]],
    )
    pair = _pair(whole, len(made.graph.inputs), request, doc, named)
    seeded = None
    if named and not _is_scaled(entry, request):
        seeded = replace(whole, records=(whole.records[0], whole.records[2]), ys=named)
    return replace(entry, ys=named, seeded=seeded), pair


def _pair(
    whole: Entry,
    count: int,
    request: Request,
    doc: str,
    ys: tuple[tuple[str, TensorType | None], ...],
) -> Pair:
    """The halves of an entry whose inputs but the first `count` are cotangents.

    Its records are the values, the request's own cotangents and the gradients.
    """
    values, defaults, gradients = whole.records
    graph = whole.graph
    halves = split(
        graph, len(values.fields) + len(defaults.fields), graph.inputs[count:]
    )
    outputs = halves.forward.outputs
    kept = outputs[len(outputs) - len(halves.kept) :]
    labels = iter(f.name for f in defaults.fields)
    residuals = (*(Field(str(o.name), o.tensor) for o in kept), *defaults.fields)
    bars = halves.backward.outputs
    bar_fields = tuple(
        replace(f, tensor=o.tensor) for f, o in zip(gradients.fields, bars, strict=True)
    )
    names = [t.attrs.name for t in halves.forward.inputs]
    return Pair(
        Entry(
            "forward",
            halves.forward,
            (values, Record("Residuals", "", residuals)),
            f"{_and(f.name for f in values.fields)}, and what backward() needs.",
        ),
        Entry(
            "backward",
            halves.backward,
            (replace(gradients, fields=bar_fields),),
            "The gradients of value_and_gradients(), from what forward() kept.",
            ys,
        ),
        tuple(names.index(n) for n in halves.held),
        halves.kept,
        tuple(None if g is None else next(labels) for g in request.grad_ys)
        if defaults.fields
        else (),
    )


def _selftest(made: Plan) -> SelfTest | None:
    """What a module's self-test draws; None where no small sizes suit the graph."""
    from gradc.draw import index_bounds, sizes_for

    assert made.gradients is not None
    graph, flow = made.graph, made.gradients.plan
    try:
        sizes = sizes_for(graph, {})
    except ShapeError:
        return None
    bounds = index_bounds(graph)
    limits = [
        min([4, *(evaluate_dim(d, sizes) for d in bounds.get(t, ()))])
        for t in graph.inputs
    ]
    return SelfTest(
        tuple(tuple(evaluate_dim(d, sizes) for d in t.shape) for t in graph.inputs),
        tuple(max(limit, 1) for limit in limits),
        any(n.op.name in ("cholesky", "eigh") for n in flow.wanted),
        any(c.reason in ("stop_gradient", "stop") for c in flow.cuts),
    )


def _is_scaled(entry: Entry, request: Request) -> bool:
    """Whether a cotangent for the ys is a factor of the gradients: one real y of rank 0.

    An array that is a value and a gradient at once can't be scaled in place.
    """
    values, gradients = ({f.tensor for f in r.fields} for r in entry.records)
    y = request.ys[0] if len(request.ys) == 1 else None
    return (
        y is not None
        and not y.shape
        and y.dtype.is_float
        and request.grad_ys[0] is None
        and not (values & gradients) - {None}
    )


def _value_name(graph: Graph, y: Tensor, k: int) -> str:
    found = _source_name(graph, y)
    return found or next((o.name for o in graph.outputs if o.tensor is y), f"y_{k}")


def _source_name(graph: Graph, tensor: Tensor) -> str:
    """What the source calls a tensor: its name outside where a `def` gave it another."""
    own = tensor.name or ""
    if graph.names.get(own) is tensor:
        return own
    return next((name for name, t in graph.names.items() if t is tensor), own)


def _and(names: Iterable[str]) -> str:
    listed = [plain(n) for n in names]
    if len(listed) < 2:
        return "".join(listed) or "nothing"
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def _differentiable(made: Plan, tensor: Tensor) -> str:
    """ "" where there is a gradient by an input, else why there is none."""
    if not tensor.dtype.is_inexact:
        return f"{tensor.dtype.name} is a constant for every x"
    if made.request is None or tensor not in made.request.xs:
        return "not among the xs"
    assert made.gradients is not None
    return made.gradients.why(made.request.xs.index(tensor))


def _statements(graph: Graph) -> tuple[str, ...]:
    """The statements of the source that compute something, for the docstring; at most 40."""
    found: dict[tuple[int, int], str] = {}
    from gradc.emit.numpy import Statements

    texts = Statements()
    for node in graph.nodes():
        span = node.place.statement
        if span is None or node.op.name == "input" or node.place.scope:
            continue
        if len(found) > 40:
            return ()
        found.setdefault((span.line, span.column), texts(span))
    return tuple(text for _, text in sorted(found.items()))

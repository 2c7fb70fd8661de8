"""Target `numpy`: a graph as a function of whole-array statements, to be read like a derivation.

```
@np.errstate(all="ignore")
def _value_and_gradients(X: Any, y: Any, w: Any, l2: Any, N: int) -> tuple[Any, ...]:
    z = X @ w
    e = np.exp(-np.abs(z))
    loss = np.sum(np.maximum(z, 0.0) + np.log1p(e) - y * z) / N + l2 * np.sum(w**2)
    # adjoint
    z_bar = (np.where(z >= 0.0, 1.0, e) / (1.0 + e) - y) / N
    w_bar = X.T @ z_bar + 2.0 * l2 * w
    return loss, w_bar
```

Named tensors and values used twice get a statement; the rest is written where it is used, up to
the width of a line. Broadcasts that NumPy does by itself are left out, and numbers next to an
array of their dtype are bare (NumPy takes them as weak), so float32 stays float32.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from gradc.emit import layout, mathsource
from gradc.emit.constants import INLINE, Constants, array_text, number_text
from gradc.emit.names import RESERVED, Namer, comment, plain, quoted, words
from gradc.emit.text import cost_note
from gradc.errors import Span, UnsupportedError
from gradc.graph import Data, Graph, Node, Tensor, ordered
from gradc.ops.segment import INDEXED
from gradc.schedule.cost import graph_cost
from gradc.types import WORD, DType, Poly, dim_text, shape_text, symbols_of

if TYPE_CHECKING:
    from gradc.emit.module import Entry, Scope

__all__ = [
    "NumpySource",
    "NumpyTarget",
    "numpy_function",
]

ROOM = 76
"""Anonymous expressions longer than this get a statement of their own."""
TERMS = 40
"""A sum of more terms than this is written as several statements."""
SAME = frozenset({"copy", "stop_gradient", "prevent_gradient", "opaque"})
FACTORED = frozenset({"cholesky", "solve", "inv", "solve_triangular"})
FAILING = "_statement"
"""The context manager of a module that puts the statement into an error."""

ATOM = layout.ATOM


@dataclass(frozen=True, slots=True)
class NumpySource:
    """The text of a function, the order of its arguments, and what it calls.

    `inputs` and `symbols` are what it takes; `calls` are the functions of the module that it calls.
    `is_made` says of each result that it is new: no input, no constant, and no result before it.
    """

    lines: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    symbols: tuple[str, ...]
    calls: frozenset[str]
    is_made: tuple[bool, ...]


# ------------------------------------------------------------------------- the text


@dataclass(slots=True)
class _Value:
    """The text of a tensor: a name once it has a statement, else an expression."""

    text: str
    level: int
    tensor: Tensor
    named: bool = False
    weak: bool = False

    @property
    def atom(self) -> str:
        return self.text if self.level == ATOM else f"({self.text})"


@dataclass(slots=True)
class _Group:
    """Statements that belong to one statement of the source."""

    key: tuple[bool, str, str, Span | None]
    statements: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


_SLOT = re.compile(r"_(\d+)_operand_")
_SLOTS_ALONE = re.compile(
    rf"(?!_\d)[A-Za-z_][\w.]*\(({WORD}|[.=])+(, ({WORD}|[.=])+)*\)"
)
_SLOTS_INFIX = re.compile(r"_(\d+)_operand_ ([-+*/@]) _(\d+)_operand_")


@cache
def _slots(count: int) -> list[str]:
    """What stands for the operands of an op while it is spelled."""
    return [f"_{k}_operand_" for k in range(count)]


class _Form:
    """An op's text with slots for its operands.

    `slots` are the operands in the order of the text, `repeated` those that it has more than once,
    `receivers` those that it calls a method of.
    """

    def __init__(self, raw: str) -> None:
        self.raw = raw
        parts = _SLOT.split(raw)
        self.slots = [int(k) for k in parts[1::2]]
        self.repeated = [k for k, count in Counter(self.slots).items() if count > 1]
        after = zip(self.slots, parts[2::2], strict=True)
        self.receivers = [k for k, text in after if text.startswith(".")]
        self.infix = bool(_SLOTS_INFIX.fullmatch(raw))
        self.alone = bool(_SLOTS_ALONE.fullmatch(raw))

    @cached_property
    def spelled(self) -> tuple[list[str], int]:
        """The formatter's spelling where all operands are names, between the slots, and its level;
        the slots are in their old order."""
        text, level = layout.expression(self.raw)
        return _SLOT.split(text)[::2], level

    def filled(self, operands: Sequence[_Value]) -> tuple[str, int]:
        """The text with the operands put in, in the formatter's spelling, and how tightly it binds.

        Calls and the usual operators are put together from spelled operands; all else is parsed,
        once for all operands that are names.
        """
        if self.infix:
            left, right = operands[self.slots[0]], operands[self.slots[1]]
            between, level = self.spelled
            first = left.text if left.level >= level else f"({left.text})"
            second = right.text if right.level > level else f"({right.text})"
            return f"{first}{between[1]}{second}", level
        texts = [operands[k].text for k in self.slots]
        if not self.alone and not all(map(str.isidentifier, texts)):
            atoms = [operands[k].atom for k in self.slots]
            return layout.expression(_joined(_SLOT.split(self.raw)[::2], atoms))
        between, level = self.spelled
        return _joined(between, texts), level


def _joined(between: Sequence[str], texts: Sequence[str]) -> str:
    """Texts with what stands before, between and after them."""
    rest = [part for pair in zip(texts, between[1:], strict=True) for part in pair]
    return "".join([between[0], *rest])


def numpy_function(
    name: str,
    graph: Graph,
    results: Sequence[Tensor],
    constants: Constants,
    reserved: Iterable[str] = (),
    doc: str = "",
) -> NumpySource:
    """The function `name` that computes `results` from the graph's inputs and its symbols.

    It takes the inputs it reads, then the symbols, and returns a tuple. Its results may be views
    of each other and of inputs. Dimensions in the graph are called by names that are free.
    """
    return _Function(graph, results, constants, reserved).source(name, doc)


class _Function:
    def __init__(
        self,
        graph: Graph,
        results: Sequence[Tensor],
        constants: Constants,
        reserved: Iterable[str],
    ) -> None:
        self.graph = graph
        self.results = tuple(results)
        self.constants = constants
        self.nodes = _primal_first(ordered(self.results))
        self.uses: Counter[Tensor] = Counter(self.results)
        self.fenced: set[Tensor] = set()  # what another section needs
        for node in self.nodes:
            self.uses.update(node.inputs)
            self.fenced.update(
                t for t in node.inputs if t.node.place.section != node.place.section
            )
        self.wanted = frozenset(self.results)
        self.groups: list[_Group] = []
        self.texts = Statements()
        self.values: dict[Tensor, _Value] = {}
        self.forms: dict[str, _Form] = {}
        self.temporaries = 0
        self.symbols = symbols_in(graph, self.nodes)
        for node in self.nodes:  # the names of large constants are taken first
            if node.op.name == "constant" and _is_large(node.attrs.value):
                constants.name(node.attrs.value)
        self.reserved = {*reserved, FAILING}
        self.namer = Namer([*RESERVED, *self.reserved, *constants.names.values()])
        for symbol in self.symbols:
            self.namer.take(symbol)

    def source(self, name: str, doc: str) -> NumpySource:
        inputs = tuple(t for t in self.graph.inputs if self.uses[t])
        for t in inputs:
            text = self.namer(t, t.attrs.name)
            self.values[t] = _Value(text, ATOM, t, named=True)
        for node in self.nodes:
            if node.op.name != "input":
                self.node(node)
        returned = [self.strong(self.explicit(t), t.dtype) for t in self.results]
        body = self.body()
        last = ", ".join(v.text for v in returned) + ("," if len(returned) == 1 else "")
        body += layout.statement(f"return {last}" if returned else "return ()", 4)
        used = words(body)
        symbols = tuple(s for s in self.symbols if s in used)
        items = [f"{self.values[t].text}: Any" for t in inputs]
        items += [f"{s}: int" for s in symbols]
        head = layout.parameters(f"def {name}", items, " -> tuple[Any, ...]:")
        lines = ['@np.errstate(all="ignore")', *head]
        lines += [f'    """{doc}"""'] if doc else []
        given = {self.values[t].text for t in inputs} | set(
            self.constants.names.values()
        )
        made = []
        for v in returned:
            made.append(v.text not in given)
            given.add(v.text)
        calls = frozenset(used & self.reserved)
        return NumpySource((*lines, *body), inputs, symbols, calls, tuple(made))

    # ----------------------------------------------------------------------- groups

    def group(self, node: Node) -> _Group:
        """The group of statements that a node's statement goes to."""
        place = node.place
        key = (bool(place.scope), place.scope, place.section, place.statement)
        if place.scope:
            key = (True, place.scope, place.section, None)
        if not self.groups or self.groups[-1].key != key:
            self.groups.append(_Group(key))
        return self.groups[-1]

    def body(self) -> list[str]:
        """All statements, each group under a comment where that says more than they do."""
        lines: list[str] = []
        scope = section = ""
        for group in self.groups:
            _, now, part, statement = group.key
            if part != section:
                lines.append(
                    comment(f"section {part}" if part else "end of section", 4)
                )
            if now and now != scope:
                title = "adjoint" if now == "gradients" else f"adjoint: {now}"
                lines.append(comment(title, 4))
            scope, section = now, part
            if not now and statement is not None:
                source = self.texts(statement)
                first = group.lines[0]
                quoted_below = FAILING in first and (
                    first == f"    with {FAILING}({quoted(source)}):"
                )
                alone = len(group.statements) == 1
                if not (
                    quoted_below or alone and _says_same(group.statements[0], source)
                ):
                    lines.append(comment(source, 4))
            lines += group.lines
        return lines

    # -------------------------------------------------------------------- statements

    def assign(self, node: Node, target: str, text: str) -> None:
        """Write `target = text` into the group of the node."""
        group = self.group(node)
        statement = f"{target} = {text}"
        group.statements.append(statement)
        if node.op.name in INDEXED or node.op.name in FACTORED:
            span = node.place.statement
            where = statement if span is None else self.texts(span)
            group.lines += layout.statement(f"with {FAILING}({quoted(where)}):", 4)
            group.lines += layout.statement(statement, 8)
        elif layout.fits(statement, 4):  # it is spelled as it should be
            group.lines.append(f"    {statement}")
        else:
            group.lines += layout.statement(statement, 4)

    def name_it(self, value: _Value, by: Node) -> None:
        """Give an expression a statement, in the group of the node that needs it."""
        if value.named:
            return
        target = self.variable(value.tensor)
        self.assign(by, target, value.text)
        value.text, value.level, value.named, value.weak = target, ATOM, True, False

    def variable(self, tensor: Tensor) -> str:
        """The name of the variable of a tensor."""
        if tensor.name:
            return self.namer(tensor, tensor.name)
        self.temporaries += 1
        return self.namer(tensor, f"t{self.temporaries}")

    # ------------------------------------------------------------------------- nodes

    def node(self, node: Node) -> None:
        name = node.op.name
        if name == "constant":
            self.values[node.out] = self.constant(node)
        elif name == "dim":
            self.values[node.out] = self.dim(node)
        elif name in SAME:
            operand = self.explicit(node.inputs[0])
            if not operand.weak and not operand.named:
                operand.tensor = node.out
            self.finish(node, operand)
        elif name == "gate":
            for t, out in zip(node.inputs, node.outputs, strict=True):
                value = self.explicit(t)
                if not value.named and not value.tensor.name:
                    value.tensor = out
                self.name_it(value, node)
                self.values[out] = value
        elif len(node.outputs) > 1:
            self.several(node)
        elif name == "broadcast":
            self.broadcast(node)
        elif name == "add_n" and len(node.inputs) > TERMS:
            self.long_sum(node)
        else:
            operands = self.operands(node)
            self.finish(node, self.compose(node, operands))

    def finish(self, node: Node, value: _Value) -> None:
        """Enter the value of a node: as a statement where it is named, used twice or by another
        section."""
        out = node.out
        self.values[out] = value
        checked = node.op.name in INDEXED or node.op.name in FACTORED
        if out.name or self.uses[out] > 1 or checked or out in self.fenced:
            self.name_it(value, node)

    def constant(self, node: Node) -> _Value:
        data: Data = node.attrs.value
        dtype = node.out.dtype
        if data.array.ndim == 0:
            text = number_text(data.array[()], dtype)
            level = layout.SIGN if text.startswith("-") else ATOM
            return _Value(text, level, node.out, weak=True)
        if _is_large(data):
            return _Value(self.constants.name(data), ATOM, node.out, named=True)
        return _Value(array_text(data.array, dtype), ATOM, node.out)

    def dim(self, node: Node) -> _Value:
        text, level = layout.expression(dim_text(node.attrs.value))
        return _Value(text, level, node.out, weak=True)

    def strong(self, value: _Value, dtype: DType) -> _Value:
        """A bare number as a NumPy scalar."""
        if not value.weak:
            return value
        return _Value(f"np.{_scalar(dtype)}({value.text})", ATOM, value.tensor)

    def several(self, node: Node) -> None:
        """A node with several outputs: one statement that unpacks them."""
        operands = [self.strong(self.explicit(t), t.dtype) for t in node.inputs]
        text = self.text(node, operands)[0]
        targets = []
        for out in node.outputs:
            if self.uses[out]:
                targets.append(self.variable(out))
                self.values[out] = _Value(targets[-1], ATOM, out, named=True)
            else:
                targets.append("_")
        self.assign(node, ", ".join(targets), text)

    def broadcast(self, node: Node) -> None:
        """A broadcast is left to NumPy by elementwise consumers; the others spell it."""
        out, x = node.out, node.inputs[0]
        if x not in self.values:  # a broadcast of one that has no statement
            self.values[x] = self.explicit(x)
        operand = self.values[x]
        if out in self.wanted or (out.name and not operand.weak):
            self.finish(node, self.explicit(out))
        elif self.uses[out] > 1 and not operand.weak:
            self.name_it(operand, node)

    def explicit(self, tensor: Tensor) -> _Value:
        """The value of a tensor in full; a broadcast that has no statement is spelled out."""
        found = self.values.get(tensor)
        if found is not None:
            return found
        node = tensor.node
        value, dtype = self.values[node.inputs[0]], tensor.dtype
        shape = shape_text(tensor.shape)
        if value.weak:
            tail = "" if dtype.name == "float64" else f", np.{_scalar(dtype)}"
            if value.text in ("0.0", "0"):
                text = f"np.zeros({shape}{tail})"
            else:
                text = f"np.full({shape}, {value.text}{tail or ', np.float64'})"
        else:
            assert node.op.text is not None
            text = node.op.text(node, [value.atom])
        spelled, level = layout.expression(text)
        return _Value(spelled, level, tensor)

    def operands(self, node: Node) -> list[_Value]:
        """The values of a node's operands, with numbers bare where NumPy knows their dtype."""
        if not node.op.elementwise and node.op.name not in ("add_n", "cast"):
            found = [self.explicit(t) for t in node.inputs]
            if node.op.name in INDEXED:  # a number is an index of rank 0
                return found
            return [
                self.strong(v, t.dtype) for v, t in zip(found, node.inputs, strict=True)
            ]
        known = [self.values.get(t) for t in node.inputs]
        plain = [v for v in known if v is not None and not v.weak]
        if len(plain) == len(known):
            return plain
        rank = len(node.out.shape)
        missing = [self.missing(t) for t in node.inputs]
        listed: list[_Value] = []
        for k, t in enumerate(node.inputs):
            others = [missing[j] for j in range(len(missing)) if j != k]
            hidden = all(any(a not in o for o in others) for a in missing[k])
            if missing[k] and not hidden:
                listed.append(self.explicit(t))
                missing[k] = frozenset()
            elif missing[k]:
                listed.append(self.bare(t, rank, missing[k]))
            else:
                listed.append(self.explicit(t))
        strong: set[DType] = set()
        for v, t in zip(listed, node.inputs, strict=True):
            if not v.weak:
                strong.add(t.dtype)
        if node.op.name == "select" and node.out.dtype.name in ("float64", "int64"):
            strong.add(node.out.dtype)
        if node.op.name == "cast":
            return listed
        for k, t in enumerate(node.inputs):
            if listed[k].weak and t.dtype not in strong:
                listed[k] = self.strong(listed[k], t.dtype)
                strong.add(t.dtype)
        return listed

    def missing(self, tensor: Tensor) -> frozenset[int]:
        """The axes along which a tensor is a broadcast that has no statement."""
        if tensor in self.values:
            return frozenset()
        along: Sequence[int] = tensor.attrs.along
        return frozenset(along)

    def bare(self, tensor: Tensor, rank: int, along: frozenset[int]) -> _Value:
        """The operand of a broadcast, as NumPy broadcasts it."""
        value = self.values[tensor.inputs[0]]
        if not tensor.inputs[0].ndim or along == frozenset(range(len(along))):
            return value
        key = ", ".join("None" if k in along else ":" for k in range(rank))
        return _Value(f"{value.atom}[{key}]", ATOM, tensor)

    def compose(self, node: Node, operands: list[_Value]) -> _Value:
        """The text of a node; its longest operands get statements while it is too long."""
        text, level = self.text(node, operands)
        while len(text) > ROOM:
            longest = max(
                (v for v in operands if self.can_name(v)),
                key=lambda v: len(v.text),
                default=None,
            )
            if longest is None or len(longest.text) <= 8:
                break
            self.name_it(longest, node)
            text, level = self.text(node, operands)
        return _Value(text, level, node.out)

    def can_name(self, value: _Value) -> bool:
        """Whether the text is a tensor's whole expression, which a statement may hold."""
        return not value.named and self.values.get(value.tensor) is value

    def text(self, node: Node, operands: Sequence[_Value]) -> tuple[str, int]:
        spell = node.op.text
        if spell is None:
            raise UnsupportedError(
                f"{node.op.name} has no form for the numpy target",
                hint="compile for the numba target",
                location=node.place.span,
            )
        if node.op.name in ("equal", "not_equal") and node.inputs[0] is node.inputs[1]:
            raw = f"{'~' if node.op.name == 'equal' else ''}np.isnan(_0_operand_)"
        else:
            raw = spell(node, _slots(len(operands)))
        form = self.forms.get(raw)
        if form is None:
            form = self.forms[raw] = _Form(raw)
        for k in form.repeated:
            if self.can_name(operands[k]) and not operands[k].weak:
                self.name_it(operands[k], node)
        for k in form.receivers:  # its method would be laid out as a chain
            chained = re.search(r"[\])]\.", operands[k].text)
            if chained and self.can_name(operands[k]):
                self.name_it(operands[k], node)
        return form.filled(operands)

    def long_sum(self, node: Node) -> None:
        """A sum of many terms, some at a time."""
        values = [self.explicit(t) for t in node.inputs]
        if not node.out.ndim:
            values[0] = self.strong(values[0], node.out.dtype)
        target = self.variable(node.out)
        for start in range(0, len(values), TERMS):
            terms = [v.atom for v in values[start : start + TERMS]]
            if start:
                terms.insert(0, target)
            self.assign(node, target, layout.expression(" + ".join(terms))[0])
        self.values[node.out] = _Value(target, ATOM, node.out, named=True)


# -------------------------------------------------------------------------- helpers


def _is_large(data: Data) -> bool:
    return bool(data.array.ndim) and data.array.size > INLINE


def _scalar(dtype: DType) -> str:
    return "bool_" if dtype.is_bool else dtype.name


def _primal_first(nodes: Sequence[Node]) -> list[Node]:
    """The nodes that wait for no adjoint, in the source's order, then the others.

    Where a node reads what a later line makes (a loop, a function) the order given stays.
    """
    later: set[Node] = set()
    first: list[Node] = []
    second: list[Node] = []
    for node in nodes:
        if node.place.scope or any(t.node in later for t in node.inputs):
            later.add(node)
            second.append(node)
        else:
            first.append(node)
    lines = {node: _line(node) for node in first}
    if all(lines[t.node] <= lines[node] for node in first for t in node.inputs):
        first.sort(key=lines.__getitem__)
    return first + second


def _line(node: Node) -> int:
    span = node.place.statement
    return 0 if span is None else span.line


def symbols_in(graph: Graph, nodes: Iterable[Node]) -> tuple[str, ...]:
    """The symbols of the graph's inputs and of all attributes, in reading order."""
    found: dict[str, None] = {}
    for t in graph.inputs:
        for d in t.shape:
            found.update(dict.fromkeys(symbols_of(d)))
    for node in nodes:
        for key in node.attrs:
            for d in _dims(getattr(node.attrs, key)):
                found.update(dict.fromkeys(symbols_of(d)))
    return tuple(found)


def _dims(value: Any) -> list[Poly]:
    if isinstance(value, Poly):
        return [value]
    if isinstance(value, tuple):
        return [d for v in value for d in _dims(v)]
    return []


class Statements:
    """The source's statements by their spans, each on one line."""

    def __init__(self) -> None:
        self.lines: dict[int, list[str]] = {}

    def __call__(self, span: Span) -> str:
        lines = self.lines.get(id(span.source))
        if lines is None:
            lines = self.lines[id(span.source)] = span.source.text.split("\n")
        part = lines[span.line - 1 : span.end_line]
        if part:
            part[-1] = part[-1][: span.end_column - 1]
            part[0] = part[0][span.column - 1 :]
        return plain(" ".join(part))


def _says_same(statement: str, source: str) -> bool:
    """Whether the emitted statement is the source's, but for `np.` and spaces."""

    target, head = statement.partition(" = ")[0], source.partition("=")[0]
    if target.replace(" ", "") != head.replace(" ", ""):
        return False

    def bare(text: str) -> str:
        return re.sub(r"\s|\bnp\.", "", text)

    return bare(statement) == bare(source)


# --------------------------------------------------------------------------- target


class NumpyTarget:
    """Entry points over functions of whole-array statements; Numba is not needed."""

    name = "numpy"
    is_compiled = False
    requires = ("numpy>=2.0",)

    def __init__(self) -> None:
        self.constants = Constants()
        self.sources: dict[str, NumpySource] = {}
        self.functions: list[tuple[str, ...]] = []
        self.calls: set[str] = set()
        self.notes: list[str] = []

    def add(self, entry: Entry, outputs: Sequence[Tensor]) -> None:
        """Print the function of an entry point."""
        name = f"_{entry.name}"
        reserved = [*mathsource.available("arraylib"), name, *self.sources]
        source = numpy_function(name, entry.graph, outputs, self.constants, reserved)
        self.sources[entry.name] = source
        self.functions.append(source.lines)
        self.calls |= source.calls
        flops, memory = graph_cost(entry.graph)
        kept = "no arrays"
        if memory != 0:
            kept = f"at most {dim_text(memory)} bytes in arrays"
        self.notes.append(cost_note(entry.name, flops, None, kept))

    def threads(self, entry: Entry) -> str:
        """What an entry does with its option `threads`."""
        return "NumPy's own are left alone"

    def call(self, entry: Entry, scope: Scope) -> list[str]:
        """Call the function, and make sure that what it gave is nobody else's."""
        source = self.sources[entry.name]
        position = {t: k for k, t in enumerate(entry.graph.inputs)}
        arguments = [scope.inputs[position[t]] for t in source.inputs]
        arguments += [scope.sizes[s] for s in source.symbols]
        lines = [f"if {scope.out} is not None:"]
        check = f"{scope.glob('_flat')}({scope.out}, {scope.structure})"
        lines.append(f"    {scope.glob('_checked')}({check}, {scope.wanted})")
        call = f"{scope.glob('_' + entry.name)}({', '.join(arguments)})"
        if scope.results:
            tail = "," if len(scope.results) == 1 else ""
            lines.append(f"{', '.join(scope.results)}{tail} = {call}")
        for name, tensor, made in zip(
            scope.results, scope.outputs, source.is_made, strict=True
        ):
            if not tensor.shape:
                kind = _scalar(tensor.dtype)
                lines.append(f"{name} = {scope.glob('np')}.{kind}({name})")
            elif made:
                lines.append(f"{name} = {scope.glob('_own')}({name})")
            else:
                lines.append(f"{name} = {scope.glob('np')}.array({name})")
        return lines

    def view(self) -> dict[str, Any]:
        """The target's part of the view."""
        functions = mathsource.closure(
            [f for f in mathsource.available("arraylib") if f in self.calls], "arraylib"
        )
        imports: set[str] = set()
        for function in functions:
            imports |= {"import math"} if "math" in function.imports else set()
        if FAILING in self.calls:
            imports |= {
                "from collections.abc import Iterator",
                "from contextlib import contextmanager",
            }
        return {
            "imports": imports,
            "notes": tuple(self.notes),
            "kernels_title": "statements",
            "kernels": tuple(self.functions),
            "helpers": tuple(f.text for f in functions),
            "has_statement": FAILING in self.calls,
            "compiled": None,
            "aliases": (),
        }

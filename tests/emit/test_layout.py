"""The layout of statements against the formatter whose rules it restates."""

import ast
import random
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from gradc.emit import layout
from gradc.emit.layout import WIDTH, expression, parameters, statement

RUFF = shutil.which("ruff", path=sysconfig.get_path("scripts")) or shutil.which("ruff")
NAMES = [
    "x",
    "y",
    "w_bar",
    "l2",
    "N",
    "np",
    "total_loss_of_everything",
    "softplus_of_margin",
]
NUMBERS = ["2.0", "1", "1e-08", '"text"', 'f"{x} of {y!r}"']
STATEMENTS = [
    "{name} = {value}",
    "{name} += {value}",
    "{name}[{name}, 0] = {value}",
    "{name}, x = f({value})",
    "x, N, y, l2, w_bar, total_loss_of_everything, {name}, softplus_of_margin = f({value})",
    "total_loss_of_everything, softplus_of_margin, total_loss_of_everything = {name}.x",
    "return {value}",
    "return {value}, {name}",
    "raise Error({value})",
    "if {value}:",
    "while {value}:",
    "for i in {value}:",
]


class Writer:
    """Random expressions, with more parentheses than they need."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def name(self):
        return self.random.choice(NAMES)

    def value(self, depth):
        draw = self.random.random()
        if depth <= 0:
            return self.random.choice(NUMBERS) if draw < 0.3 else self.name()
        a = f"({self.value(depth - 1)})"
        b = f"({self.value(depth - 1 - self.random.random())})"
        kinds = [
            (
                0.45,
                f"{a} {self.random.choice(['+', '-', '*', '/', '@', '**', '//', '%', '&', '|'])} {b}",
            ),
            (0.60, f"np.exp({a[1:-1]})"),
            (0.68, f"np.sum({a[1:-1]}, axis=(0, 1))"),
            (0.74, f"np.where({a[1:-1]}, {b[1:-1]}, {self.name()})"),
            (0.78, f"-{a}"),
            (0.83, f"{a}[{self.random.choice([':, None', '0', f'{b}:', f':{b}:2'])}]"),
            (0.87, f"{self.name()}.T"),
            (0.90, f"{a} {self.random.choice(['<', '>=', '=='])} {b}"),
            (0.93, f"{a} if {b} else {self.name()}"),
            (0.95, f"{a} and not {b}"),
            (0.97, f"[{a[1:-1]}, {b[1:-1]}]"),
            (1.00, f"({a} * {self.name()}).astype(np.float32)"),
        ]
        return next(text for limit, text in kinds if draw <= limit)

    def statement(self):
        depth = self.random.choice([0, 1, 2, 3, 4, 4, 5])
        head = self.random.choice(STATEMENTS)
        return head.format(name=self.name(), value=self.value(depth))


@pytest.mark.skipif(RUFF is None, reason="ruff is not installed")
@pytest.mark.parametrize("seed", range(3))
def test_layout_is_what_the_formatter_does(seed, tmp_path: Path):
    writer = Writer(seed)
    lines = []
    for k in range(500):
        text = writer.statement()
        lines += [f"def f{k}():", *statement(text, 4)]
        lines += ["        pass"] if text.endswith(":") else []
        lines += ["", ""]
    path = tmp_path / "statements.py"
    path.write_text("\n".join(lines[:-2]) + "\n", encoding="utf-8")
    command = [RUFF, "format", "--isolated", "--diff", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_short_statements_stay_on_one_line():
    assert statement("z = X @ w", 4) == ["    z = X @ w"]
    assert statement("z = (X) ** (2)") == ["z = X**2"]


def test_the_width_is_not_passed_where_there_is_a_place_to_break():
    terms = " + ".join(f"term_{k}" for k in range(30))
    assert all(len(line) <= WIDTH for line in statement(f"total = {terms}", 4))
    arguments = ", ".join(f"argument_{k}" for k in range(30))
    assert all(len(line) <= WIDTH for line in statement(f"total = f({arguments})", 4))


def test_long_name_gets_parentheses_where_they_help():
    name = "n" * 70
    assert statement(f"{'t' * 20} = {name}") == [
        f"{'t' * 20} = (",
        f"    {name}",
        ")",
    ]
    assert statement(f"t = {'n' * 90}") == [f"t = {'n' * 90}"]


@pytest.mark.parametrize(
    ("text", "spelled", "level"),
    [
        ("((a) + b)", "a + b", 10),
        ("a - (b - c)", "a - (b - c)", 10),
        ("(a * b) ** 2", "(a * b) ** 2", 13),
        ("x ** 2", "x**2", 13),
        ("-(x ** 2)", "-(x**2)", 12),
        ("(x)[1:n - 1]", "x[1 : n - 1]", 15),
        ("f((a), (b + c))", "f(a, b + c)", 15),
    ],
)
def test_expression(text, spelled, level):
    assert expression(text) == (spelled, level)


def test_parameters():
    assert parameters("def f", ["a", "b"], " -> int:") == ["def f(a, b) -> int:"]
    wide = [f"parameter_{k}: int" for k in range(4)]
    assert parameters("def run_it", wide, " -> int:") == [
        "def run_it(",
        f"    {', '.join(wide)}",
        ") -> int:",
    ]
    wider = [f"parameter_{k}: int" for k in range(9)]
    assert len(parameters("def run_it", wider, " -> int:")) == 11


# what stands in the place of ... in these is a long list
LONG_LISTS = [
    "f({}, 1)",
    "{} = f(x)",
    "t = [{}, (a + b) * c]",
    "return {}, a if b else c",
    "check(g(out, (1, 2)), ({},), key={})",
    "t = (a if b else {}, c)",
    "t = (a + {}, -{}, c)",
    "t = x[{}, 0]",
    "raise E('{}, a', \"{}, a\", {}, 'z')",
    "for {}, i in f():",
    "_run_of_items_0({}, 1)",
    "t = (lambda {}, y: x)",
]
ITEMS = {
    "names": "residual_{}",
    "calls": "np.cos(y_{}, a.b)",
    "shapes": '("residual_{}", np.float64, (N, 3))',
    "no shapes": '("a, b_{}", np.float64, ())',
    "wide": '("' + "x" * 70 + '_{}", np.float64, (N,))',
    "sums": "y_{} + 1",
}


def long_texts():
    """Each outline with each kind of items, where that is Python."""
    for outline in LONG_LISTS:
        for kind, item in ITEMS.items():
            items = ", ".join(item.format(k) for k in range(200))
            text = outline.replace("{}", items)
            try:
                ast.parse(text + (" pass" if text.endswith(":") else ""))
            except SyntaxError:
                continue
            yield pytest.param(text, id=f"{outline} with {kind}")


@pytest.mark.parametrize("text", long_texts())
def test_long_lists_are_laid_out_as_short_ones_are(text, monkeypatch):
    found = statement(text, 8)
    monkeypatch.setattr(layout, "_LONG", 10**9)
    assert found == statement(text, 8)


def test_the_items_of_long_lists_are_not_parsed(monkeypatch):
    parsed = []
    parse = ast.parse

    def counted(text, *args, **options):
        parsed.append(len(text))
        return parse(text, *args, **options)

    monkeypatch.setattr(ast, "parse", counted)
    items = [ITEMS["shapes"].format(k) for k in range(5000)]
    lines = statement(f"f(({', '.join(items)}, a))")
    assert lines[:3] == ["f(", "    (", f"        {items[0]},"]
    assert lines[-4:] == [f"        {items[-1]},", "        a,", "    ),", ")"]
    assert sum(parsed) < 100

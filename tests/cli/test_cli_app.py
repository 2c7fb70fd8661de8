"""Finding commands, and what is said where something is wrong."""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shell import Shell

import gradc.driver as gradc_driver
from gradc import __version__
from gradc.cli import report
from gradc.cli.app import COMMANDS, LATER
from gradc.errors import InternalError, OptionError, ShapeError, UnsupportedError

ROOT = Path(__file__).resolve().parent.parent.parent
MANY = """\
x: float[N]
y = fooo(x)
z = sum(x, axis=3)
w = x @ nope
return y
"""
MANY_ERRORS = """\
many.gc:2:5: error: no function is called fooo [unknown-function]
    2 | y = fooo(x)
      |     ^^^^^^^
  hint: did you mean floor?
many.gc:3:5: error: axis 3 is out of bounds for a tensor of rank 1 [bad-axis]
    3 | z = sum(x, axis=3)
      |     ^^^^^^^^^^^^^^
  x: float64[N] (many.gc:1)
many.gc:4:9: error: no tensor is called nope [unknown-name]
    4 | w = x @ nope
      |         ^^^^
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
COMMAND = [sys.executable, "-m", "gradc"]


# ------------------------------------------------------------------------- commands


def test_help_lists_the_commands_that_are_there(gradc: Shell) -> None:
    done = gradc("--help")
    assert done.status == 0 and done.err == ""
    assert done.out.startswith("Usage: gradc [OPTIONS] COMMAND ...\n")
    _, _, commands = done.out.partition("\nCommands:\n")
    assert commands == (
        "  compile  Write the gradients of a graph as a Python module.\n"
        "  run      Evaluate a graph and its gradients on data.\n"
        "  verify   Check every gradient against central differences.\n"
        "  explain  Say what is differentiated, what is not and why, and what it costs.\n"
        "  bench    Time a graph and its gradients beside plain NumPy.\n"
        "  ops      List the functions of the language, or describe one.\n"
        "  cache    Show or empty the folder of compiled modules.\n"
        "\n"
        "  gradc COMMAND --help tells a command's options.\n"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_has_each_command_s_first_line(name: str) -> None:
    command = importlib.import_module(f"gradc.cli.{name}").command
    assert command.name == name
    assert command.help.partition("\n")[0] == COMMANDS[name]


def test_help_loads_nothing_heavy(folder: Path) -> None:
    code = (
        "import sys; from gradc.cli.app import main; main(['--help']); "
        "sys.exit(' '.join({'numpy', 'numba', 'gradc.driver', 'gradc.ops'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    ("line", "place", "found"),
    [
        ("gradc be", 1, "plain,bench\n"),
        ("gradc bench --tar", 2, "plain,--target\n"),
        ("gradc bench --target nump", 3, "plain,numpy\n"),
        ("gradc run mod", 2, "file,mod\n"),
        ("gradc compile m.gc -o ou", 4, "file,ou\n"),
        ("gradc nothing --he", 2, ""),
    ],
)
def test_completion(folder: Path, line: str, place: int, found: str) -> None:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(place)}
    done = subprocess.run(
        COMMAND,
        env={**ENVIRONMENT, **asked, "_GRADC_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (found, "")


def test_version(gradc: Shell) -> None:
    assert gradc("--version").out == f"gradc {__version__}\n"


def test_no_command_is_help_and_a_wrong_command_line(gradc: Shell) -> None:
    done = gradc()
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("Usage: gradc")


@pytest.mark.parametrize("name", LATER)
def test_commands_of_later_versions_say_so(gradc: Shell, name: str) -> None:
    done = gradc(name, "model.gc")
    assert done.status == 2
    assert done.err == (
        f"error: the command {name} is not in this version of gradc [usage]\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["compiel", "x.gc"],
            "error: no command 'compiel' [usage]\n  hint: did you mean compile?\n",
        ),
        (
            ["frobnicate"],
            (
                "error: no command 'frobnicate' [usage]\n"
                "  hint: commands are compile, run, verify, explain, bench, ops, cache\n"
            ),
        ),
        (
            ["compile", "squares.gc"],
            (
                "error: missing option '-o' [usage]\n"
                "  hint: gradc compile --help tells the options\n"
            ),
        ),
        (
            ["compile", "squares.gc", "-o", "x.py", "--opt", "7"],
            (
                "error: invalid value for '--opt': '7' is not one of '0', '1' [usage]\n"
                "  hint: gradc compile --help tells the options\n"
            ),
        ),
        (
            ["explain", "none.gc"],
            "error: none.gc: No such file or directory [bad-file]\n",
        ),
        (
            ["explain", "."],
            (
                "error: .: this version reads .gc files [bad-suffix]\n"
                "  hint: give the graph as a .gc file\n"
            ),
        ),
        (
            ["explain", "squares.gc", "--ys", "cost"],
            (
                "error: ys: no tensor is called 'cost' [unknown-name]\n"
                "  hint: tensors are x, s, loss\n"
            ),
        ),
        (
            ["explain", "squares.gc", "--static", "N=-1"],
            (
                "error: --static: expected NAME=SIZE, found 'N=-1' [usage]\n"
                "  hint: --static D=10,K=25\n"
            ),
        ),
        (
            ["explain", "squares.gc", "--static", "N=1,N=2"],
            "error: --static: two sizes for N [usage]\n",
        ),
        (
            ["explain", "squares.gc", "--static", "K=5"],
            (
                "error: static: no dimension is called 'K' [bad-option]\n"
                "  hint: symbols are N\n"
            ),
        ),
    ],
)
def test_a_wrong_command_line(gradc: Shell, arguments: list[str], message: str) -> None:
    done = gradc(*arguments)
    assert (done.status, done.out, done.err) == (2, "", message)


# ---------------------------------------------------------------------- diagnostics


def test_all_errors_of_a_file_at_once(gradc: Shell, folder: Path) -> None:
    (folder / "many.gc").write_text(MANY)
    done = gradc("explain", "many.gc")
    assert (done.status, done.out, done.err) == (1, "", MANY_ERRORS)


def test_places_have_the_path_that_was_given(gradc: Shell, folder: Path) -> None:
    (folder / "models").mkdir()
    (folder / "models" / "many.gc").write_text(MANY)
    done = gradc("explain", "models/many.gc")
    assert done.err.startswith("models/many.gc:2:5: error: no function is called fooo")


def test_errors_as_json(gradc: Shell, folder: Path) -> None:
    (folder / "many.gc").write_text(MANY)
    done = gradc("explain", "many.gc", "--json")
    assert done.status == 1 and done.out == ""
    assert [e["code"] for e in done.errors] == [
        "unknown-function",
        "bad-axis",
        "unknown-name",
    ]
    assert done.errors[0] == {
        "severity": "error",
        "code": "unknown-function",
        "message": "no function is called fooo",
        "location": {
            "file": "many.gc",
            "line": 2,
            "column": 5,
            "end_line": 2,
            "end_column": 12,
        },
        "notes": [],
        "hint": "did you mean floor?",
    }


def test_a_wrong_command_line_as_json(gradc: Shell) -> None:
    done = gradc("compile", "--json")
    assert done.status == 2
    assert [e["message"] for e in done.errors] == ["missing argument 'FILE'"]


class Terminal(io.StringIO):
    """A stream that a person looks at."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_colour_on_a_terminal_alone(
    gradc: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "many.gc").write_text(MANY)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    monkeypatch.setattr(sys, "stderr", coloured)
    gradc("explain", "many.gc")
    text = coloured.getvalue()
    assert text.startswith("many.gc:2:5: \x1b[1;31merror:\x1b[0m no function")
    plain = Terminal()
    monkeypatch.setattr(sys, "stderr", plain)
    monkeypatch.setenv("NO_COLOR", "1")
    gradc("explain", "many.gc")
    assert plain.getvalue() == MANY_ERRORS
    assert text.replace("\x1b[1;31m", "").replace("\x1b[0m", "") == MANY_ERRORS


def test_long_work_shows_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with report.progress("compiling"):
        time.sleep(1.3)
    with report.progress("quick"):
        pass
    assert stream.getvalue() == "compiling ...\r             \r"


def test_a_file_does_not_steer_the_terminal(gradc: Shell, folder: Path) -> None:
    (folder / "esc.gc").write_text("x: float[N]\ny = sum(x) + \x1b[31mred\nreturn y\n")
    done = gradc("explain", "esc.gc")
    assert done.status == 1
    assert "\x1b" not in done.err and "\\x1b[31mred" in done.err


def test_an_encoding_that_lacks_a_letter(gradc: Shell, folder: Path) -> None:
    (folder / "short.gc").write_text("x: float[N]\ny = été(x)\nreturn y\n", "utf-8")
    ran = subprocess.run(
        [*COMMAND, "explain", "short.gc"],
        check=False,
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        cwd=folder,
    )
    assert ran.returncode == 1
    assert b"no function is called \\xe9t\\xe9" in ran.stderr


# ------------------------------------------------------------------- faults, signals


def test_a_fault_of_gradc_has_no_traceback(
    gradc: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(gradc_driver, "plan", plan)
    done = gradc("explain", "squares.gc")
    assert done.status == 70
    assert done.err == (
        "error: this is a fault of gradc, not of your file: "
        "ZeroDivisionError: division by zero [internal]\n"
        "  hint: please report it with the file and this command line; "
        "GRADC_DEBUG=1 shows where it happened\n"
    )
    monkeypatch.setenv("GRADC_DEBUG", "1")
    done = gradc("explain", "squares.gc")
    assert done.status == 70
    assert done.err.startswith("Traceback (most recent call last):")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnsupportedError("convolve of complex128 is not in this version"), 1),
        (ShapeError("nothing tells N"), 1),
        (OptionError("ys: no tensor is called 'cost'"), 2),
    ],
)
def test_a_graph_that_is_wrong_is_no_wrong_command_line(
    gradc: Shell, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def plan(*_: object) -> None:
        raise error

    monkeypatch.setattr(gradc_driver, "plan", plan)
    assert gradc("explain", "squares.gc").status == status


def test_an_internal_error_is_a_fault(
    gradc: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(*_: object) -> None:
        raise InternalError("gather: indices for axes")

    monkeypatch.setattr(gradc_driver, "plan", plan)
    done = gradc("explain", "squares.gc", "--json")
    assert done.status == 70
    assert done.errors[0]["code"] == "internal"


def test_no_memory(gradc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(gradc_driver, "plan", plan)
    done = gradc("explain", "squares.gc")
    assert (done.status, done.err) == (1, "error: out of memory [out-of-memory]\n")


def test_interrupted(gradc: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gradc_driver, "plan", plan)
    done = gradc("explain", "squares.gc")
    assert (done.status, done.err) == (130, "error: interrupted [interrupted]\n")


def test_interrupted_while_it_starts(folder: Path) -> None:
    code = (
        "import runpy, sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "runpy.run_module('gradc', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "error: interrupted [interrupted]\n")


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs pipes that break")
def test_a_reader_that_leaves(folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for arguments in (["explain", "squares.gc"], ["compile", "squares.gc", "-o", "-"]):
        done = subprocess.run(
            [*COMMAND, *arguments],
            check=False,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            cwd=folder,
        )
        assert (done.returncode, done.stderr) == (1, "")
    os.close(writer)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_takes_no_more(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "explain", "squares.gc"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            cwd=folder,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device [system]\n")


@pytest.mark.parametrize(
    "text",
    [
        b"\x00\x01",
        b"\xff\xfe",
        b"",
        b"x: float\ny = " + b"(" * 5000 + b"x" + b")" * 5000 + b"\nreturn y\n",
        b"x: float\ny = " + b"-" * 50000 + b"x\nreturn y\n",
        b"x: float\ny = x" + b"[0" * 3000 + b"]" * 3000 + b"\nreturn y\n",
        b"x: float[10**30]\ny = zeros((10**9, 10**9))\nreturn y\n",
        b"x: float\ny = x ** 10 ** 10 ** 10\nreturn y\n",
        b"import os\nos.system('true')\nx: float\nreturn x\n",
        b"x: float = input(load('../../etc/passwd.npz', 'x'))\nreturn x\n",
        "x: float\nреturn x\n".encode(),
        b"return " + b"9" * 100_000 + b"\n",
        b"\xef\xbb\xbfx: float\r\nreturn y\r\n",
    ],
    ids=range(13),
)
def test_hostile_files_are_refused_in_words(
    gradc: Shell, folder: Path, text: bytes
) -> None:
    (folder / "hostile.gc").write_bytes(text)
    done = gradc("compile", "hostile.gc", "-o", "out.py")
    assert done.status == 1
    assert "error: " in done.err and "Traceback" not in done.err
    assert sorted(os.listdir(folder)) == ["hostile.gc", "squares.gc"]

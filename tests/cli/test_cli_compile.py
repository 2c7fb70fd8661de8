"""gradc compile: what it writes, and that it never destroys anything."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import SQUARES, Shell

import gradc as package
from gradc.cli.files import write_file, write_files
from gradc.errors import SourceError

LARGE = """\
x: float[1000]
k: float[1000] = load("w.npz", "k")
y = sum(x * k)
differentiate(y, [x])
return y
"""


def test_the_module_is_the_text_that_emit_gives(gradc: Shell, folder: Path) -> None:
    done = gradc("compile", "squares.gc", "-o", "squares_grad.py")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert (folder / "squares_grad.py").read_text() == package.emit("squares.gc")


def test_standard_output(gradc: Shell, folder: Path) -> None:
    done = gradc("compile", "squares.gc", "-o", "-", "--target", "numpy")
    assert done.status == 0
    assert done.out == package.emit("squares.gc", target="numpy")
    assert sorted(os.listdir(folder)) == ["squares.gc"]


def test_the_header_tells_the_command_again(gradc: Shell, folder: Path) -> None:
    options = [
        *["--ys", "loss", "--xs", "x,s", "--stop-gradients", "s", "--name", "back"],
        *["--unconnected-gradients", "zero", "--aggregation-method", "tree"],
        *["--no-gate-gradients", "--colocate-gradients-with-ops"],
        *["--zero-adjoints", "ieee", "--target", "numpy", "--float", "float32"],
        *["--static", "N=4", "--wrap", "scipy", "--embed"],
    ]
    assert gradc("compile", "squares.gc", "-o", "a.py", *options).status == 0
    text = (folder / "a.py").read_text()
    (line,) = (t for t in text.splitlines() if t.startswith("    gradc compile"))
    words = line.split()[1:]
    words[words.index("a.py")] = "b.py"
    assert set(options) <= set(words)
    assert gradc(*words).status == 0
    again = (folder / "b.py").read_text().replace("-o b.py", "-o a.py")
    assert again == text


def test_options_change_the_request(
    gradc: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--xs", "s", "--target", "numpy"]
    assert gradc("compile", "squares.gc", "-o", "squares_by_s.py", *options).status == 0
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module("squares_by_s")
    values, gradients = module.value_and_gradients(np.array([1.0, 2.0]))
    assert values == (10.0,) and gradients._asdict() == {"s": 5.0}


# ---------------------------------------------------------------------------- check


def test_check_passes_for_a_fresh_module(gradc: Shell, folder: Path) -> None:
    gradc("compile", "squares.gc", "-o", "a.py")
    done = gradc("compile", "squares.gc", "-o", "a.py", "--check")
    assert (done.status, done.out, done.err) == (0, "", "")
    crlf = (folder / "a.py").read_bytes().replace(b"\n", b"\r\n")
    (folder / "a.py").write_bytes(crlf)
    assert gradc("compile", "squares.gc", "-o", "a.py", "--check").status == 0
    assert (folder / "a.py").read_bytes() == crlf


def test_check_fails_for_a_stale_one_and_writes_nothing(
    gradc: Shell, folder: Path
) -> None:
    (folder / "a.py").write_text("old\n")
    done = gradc("compile", "squares.gc", "-o", "a.py", "--check", "--opt", "0")
    assert done.status == 1
    assert done.err == (
        "error: a.py is stale: gradc did not write it [stale]\n"
        "  hint: make it again: gradc compile squares.gc -o a.py --opt 0\n"
    )
    assert (folder / "a.py").read_text() == "old\n"
    done = gradc("compile", "squares.gc", "-o", "b.py", "--check")
    assert done.status == 1 and done.err.startswith("error: b.py is missing [stale]\n")
    assert not (folder / "b.py").exists()


EDITED = "its text was edited, or another build of gradc 0.1.0 made it"


@pytest.mark.parametrize(
    ("source", "module", "options", "why"),
    [
        (("**2", "**3"), ("", ""), [], "squares.gc has changed"),
        (
            ("", ""),
            ('"version": "0.1.0"', '"version": "0.0.9"'),
            [],
            "gradc 0.0.9 made it, and this is 0.1.0",
        ),
        (
            ("**2", "**3"),
            ('"version": "0.1.0"', '"version": "0.0.9"'),
            ["--xs", "x"],
            (
                "squares.gc has changed; gradc 0.0.9 made it, and this is 0.1.0; it was made "
                "with other options"
            ),
        ),
        (("", ""), ("", ""), ["--opt", "0"], "it was made with other options"),
        (("", ""), ("x**2", "x**3"), [], EDITED),
        (("", ""), ("import numpy", "import  numpy"), [], EDITED),
        (("", ""), ("GRADC: ", "GRADS: "), [], "gradc did not write it"),
        (("", ""), ('"version": "0.1.0"', '"version": open()'), [], "gradc did not"),
    ],
)
def test_check_tells_what_has_changed(
    gradc: Shell,
    folder: Path,
    source: tuple[str, str],
    module: tuple[str, str],
    options: list[str],
    why: str,
) -> None:
    gradc("compile", "squares.gc", "-o", "a.py", "--target", "numpy")
    for name, (old, new) in (("squares.gc", source), ("a.py", module)):
        text = (folder / name).read_text().replace(old, new)
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())
    check = ["compile", "squares.gc", "-o", "a.py", "--target", "numpy", "--check"]
    done = gradc(*check, *options)
    assert done.status == 1
    assert done.err.startswith(f"error: a.py is stale: {why}")


def test_check_names_the_data_that_may_have_changed(gradc: Shell, folder: Path) -> None:
    np.save(folder / "k.npy", np.ones(3))
    (folder / "m.gc").write_text('x: float[3]\nreturn x * load("k.npy")\n')
    compile_ = ["compile", "m.gc", "-o", "m.py", "--target", "numpy"]
    assert gradc(*compile_).status == 0
    assert gradc(*compile_, "--check").status == 0
    np.save(folder / "k.npy", np.zeros(3))
    assert gradc(*compile_, "--check").err.startswith(
        f"error: m.py is stale: k.npy has changed, or {EDITED} [stale]\n"
    )


def test_other_surroundings_give_the_same_bytes(folder: Path) -> None:
    """Another folder, hash seed, locale, time zone, encoding, width of the terminal."""
    other = folder / "été"
    other.mkdir()
    shutil.copy(folder / "squares.gc", other)
    texts = set()
    for where, path, variables in (
        (folder, "squares.gc", {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C"}),
        (
            other,
            "../squares.gc",
            {
                "PYTHONHASHSEED": "2",
                "TZ": "Asia/Kolkata",
                "LC_ALL": "tr_TR.UTF-8",
                "LANG": "de_DE.UTF-8",
                "PYTHONUTF8": "0",
                "PYTHONOPTIMIZE": "2",
                "COLUMNS": "20",
                "HOME": str(other),
            },
        ),
        (other, str(other / "squares.gc"), {"PYTHONHASHSEED": "3"}),
    ):
        subprocess.run(
            [sys.executable, "-m", "gradc", "compile", path, "-o", "a.py"],
            check=True,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(package.__file__).parent.parent),
                **variables,
            },
            cwd=where,
        )
        texts.add((where / "a.py").read_bytes())
    assert len(texts) == 1


# --------------------------------------------------------------------------- output


def test_large_constants_go_beside_the_module(gradc: Shell, folder: Path) -> None:
    np.savez(folder / "w.npz", k=np.arange(1000.0))
    (folder / "large.gc").write_text(LARGE)
    done = gradc("compile", "large.gc", "-o", "large_grad.py", "--json")
    assert done.status == 0
    assert json.loads(done.out) == {
        "source": "large.gc",
        "files": ["large_grad.npz", "large_grad.py"],
    }
    assert gradc("compile", "large.gc", "-o", "large_grad.py").status == 0
    (folder / "large_grad.npz").write_bytes(b"")
    done = gradc("compile", "large.gc", "-o", "large_grad.py", "--check")
    assert done.status == 1
    assert done.err.startswith("error: large_grad.npz is stale [stale]\n")


def test_the_data_of_the_source_are_not_overwritten(gradc: Shell, folder: Path) -> None:
    np.savez(folder / "w.npz", k=np.arange(1000.0))
    before = (folder / "w.npz").read_bytes()
    (folder / "large.gc").write_text(LARGE)
    done = gradc("compile", "large.gc", "-o", "w.py")
    assert done.status == 2
    assert done.err == (
        "error: w.npz is there and w.py did not make it [usage]\n"
        "  hint: give another name with -o, or keep all constants in the text: --embed\n"
    )
    assert (folder / "w.npz").read_bytes() == before
    assert gradc("compile", "large.gc", "-o", "w.py", "--embed").status == 0
    assert (folder / "w.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (".", "error: . is a folder; expected the name of a file [usage]\n"),
        ("no/a.py", "error: no/a.py: there is no folder no [usage]\n"),
        (
            "squares.gc",
            (
                "error: squares.gc is the file read; writing it would destroy it [usage]\n"
                "  hint: give another name with -o\n"
            ),
        ),
    ],
)
def test_where_it_can_t_write(
    gradc: Shell, folder: Path, output: str, message: str
) -> None:
    done = gradc("compile", "squares.gc", "-o", output)
    assert (done.status, done.err) == (2, message)
    assert (folder / "squares.gc").read_text() == SQUARES


def test_an_error_leaves_the_old_module_whole(gradc: Shell, folder: Path) -> None:
    (folder / "a.py").write_text("old\n")
    (folder / "bad.gc").write_text("x: float[N]\nreturn y\n")
    assert gradc("compile", "bad.gc", "-o", "a.py").status == 1
    assert (folder / "a.py").read_text() == "old\n"


def test_an_interrupted_write_leaves_the_old_file_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.py"
    path.write_text("old\n")

    def fsync(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(KeyboardInterrupt):
        write_file(path, b"new\n")
    assert path.read_text() == "old\n"
    assert sorted(os.listdir(folder)) == ["a.py", "squares.gc"]


def test_all_files_of_a_module_are_written_before_one_takes_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.npz", "a.py"):
        (folder / name).write_text("old\n")
    written = []

    def fsync(handle: int) -> None:
        written.append(handle)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SourceError, match="a.py: can't be written: No space left"):
        write_files({folder / "a.npz": b"new\n", folder / "a.py": b"new\n"})
    assert {(folder / name).read_text() for name in ("a.npz", "a.py")} == {"old\n"}
    assert sorted(os.listdir(folder)) == ["a.npz", "a.py", "squares.gc"]


def test_a_full_disk_leaves_the_old_file_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.py"
    path.write_text("old\n")

    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(SourceError, match="can't be written: No space left on device"):
        write_file(path, b"new\n")
    assert path.read_text() == "old\n"
    assert sorted(os.listdir(folder)) == ["a.py", "squares.gc"]


@pytest.mark.skipif(os.name != "posix", reason="needs links and modes of files")
def test_a_link_stays_one_and_modes_are_kept(folder: Path) -> None:
    path, link = folder / "a.py", folder / "link.py"
    path.write_text("old\n")
    path.chmod(0o640)
    link.symlink_to("a.py")
    write_file(link, b"new\n")
    assert link.is_symlink() and path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    mask = os.umask(0o027)
    try:
        write_file(folder / "fresh.py", b"")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((folder / "fresh.py").stat().st_mode) == 0o640


# -------------------------------------------------------------------------- depfile


def test_a_depfile_names_what_was_read(gradc: Shell, folder: Path) -> None:
    place = folder / "a b"
    place.mkdir()
    np.save(place / "w #$.npy", np.ones(3))
    np.savez(place / "v.npz", p=np.ones(3), q=np.ones(3))
    (place / "m.gc").write_text(
        'x: float[3]\nv = load("v.npz", "p") + load("v.npz", "q")\n'
        'y = sum(x * load("w #$.npy") * v)\ndifferentiate(y, [x])\nreturn y\n'
    )
    words = ("compile", "a b/m.gc", "-o", "out file.py", "--depfile", "out.d")
    done = gradc(*words, "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["files"] == ["out file.py", "out.d"]
    rule = r"out\ file.py: a\ b/m.gc a\ b/v.npz a\ b/w\ \#$$.npy" + "\n"
    assert (folder / "out.d").read_text() == rule


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_reads_a_depfile(gradc: Shell, folder: Path) -> None:
    np.save(folder / "w #$ %.npy", np.ones(3))
    (folder / "m.gc").write_text(
        'x: float[3]\ny = sum(x * load("w #$ %.npy"))\ndifferentiate(y, [x])\nreturn y\n'
    )
    gradc("compile", "m.gc", "-o", "out.py", "--depfile", "out.d")
    (folder / "Makefile").write_text("include out.d\nout.py:\n\t@echo made\n")

    def made() -> str:
        done = subprocess.run(
            ["make", "out.py"], capture_output=True, text=True, check=True
        )
        return done.stdout

    assert "up to date" in made()
    later = (folder / "out.py").stat().st_mtime + 10
    os.utime(folder / "w #$ %.npy", (later, later))
    assert made() == "made\n"


def test_an_error_writes_no_depfile(gradc: Shell, folder: Path) -> None:
    (folder / "bad.gc").write_text("x: float[N]\nreturn y\n")
    done = gradc("compile", "bad.gc", "-o", "out.py", "--depfile", "out.d")
    assert done.status == 1
    assert sorted(os.listdir(folder)) == ["bad.gc", "squares.gc"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["-o", "-", "--check"],
            "error: --check needs a file to look at [usage]\n  hint: -o OUT.py\n",
        ),
        (
            ["-o", "-", "--depfile", "a.d"],
            "error: --depfile needs the name of a file [usage]\n  hint: -o OUT.py\n",
        ),
        (
            ["-o", "a.py", "--depfile", "a.d", "--check"],
            "error: --depfile is written, and --check writes nothing [usage]\n",
        ),
        (
            ["-o", "a.py", "--depfile", "./a.py"],
            "error: --depfile: ./a.py is written already, for -o [usage]\n",
        ),
        (
            ["-o", "a.py", "--depfile", "squares.gc"],
            (
                "error: squares.gc is the file read; writing it would destroy it [usage]\n"
                "  hint: give another name with -o\n"
            ),
        ),
        (
            ["-o", "a\n.py", "--depfile", "a.d"],
            "error: --depfile: make can't name 'a\\n.py' [usage]\n",
        ),
    ],
)
def test_a_depfile_that_can_t_be(
    gradc: Shell, folder: Path, words: list[str], message: str
) -> None:
    done = gradc("compile", "squares.gc", *words)
    assert (done.status, done.out, done.err) == (2, "", message)
    assert sorted(os.listdir(folder)) == ["squares.gc"]

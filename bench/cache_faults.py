"""Do to the cache what disks, users and the system do; every result must stay right.

    python bench/cache_faults.py               all scenarios in full, about half an hour
    python bench/cache_faults.py killed --rounds 5

Scenarios: `killed` (ten processes start on an empty cache, writers die), `altered` (files are cut
off, edited, replaced), `full` (a disk without room), `homes` (folders that can't be written to or
are not there), `versions` (two versions of gradc on one cache). Each is done for modules that
gradc.compile keeps and for an emitted module on its own. A round is right when every process that
was not killed computed the right numbers, wrote no traceback and left no damage behind. Prints
counts as JSON; the exit status is 1 where a round was not right.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numba
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gradc
from gradc.emit import numba as target
from gradc.runtime.cache import Store

assert numba.__version__ and target.NumbaTarget  # loaded before processes are forked

TEXT = """\
x: float[N]
w: float = input({default})
y = sum(exp(-x * x) * w)
differentiate(y, [x])
return y
"""
X = np.array([0.0, 1.0, -2.0])
NOBODY = 65534
WAIT = 120.0
"""Seconds after which a process hangs."""


# ---------------------------------------------------------------------- processes


def is_right(module: object, weight: float = 1.0) -> bool:
    """Whether a module of TEXT computes what it should, value and gradient."""
    values, gradients = module.value_and_gradients(X)  # type: ignore[attr-defined]
    slopes = np.exp(-X * X) * weight
    return bool(
        np.allclose(values.y, slopes.sum(), rtol=1e-12)
        and np.allclose(gradients.x, -2.0 * X * slopes, rtol=1e-12)
    )


def compiled(weight: float = 1.0) -> bool:
    """Compile by gradc, through the cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that it can't be kept
        return is_right(gradc.compile(TEXT.format(default=weight)), weight)


def imported(path: Path, weight: float = 1.0) -> bool:
    """Use an emitted module, without gradc."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return is_right(module, weight)


def emitted(folder: Path, weight: float = 1.0) -> Path:
    """A module on its own in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model_grad.py"
    path.write_text(gradc.emit(TEXT.format(default=weight)))
    return path


def start(work: Callable[[], bool], **environment: str | None) -> int:
    """Do something in a forked process: status 0 where it is right."""
    child = os.fork()
    if child:
        return child
    status = 4
    try:
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        status = 0 if work() else 3
    except BaseException as error:  # noqa: BLE001
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(children: list[int]) -> list[int]:
    """The statuses of processes as `subprocess` has them; -99 for one that hangs."""
    statuses = []
    until = time.monotonic() + WAIT
    for child in children:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                statuses.append(os.waitstatus_to_exitcode(status))
                break
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                statuses.append(-99)
                break
            time.sleep(0.005)
    return statuses


def once(work: Callable[[], bool], **environment: str | None) -> bool:
    """Whether a process alone is right."""
    return ended([start(work, **environment)]) == [0]


class Tally:
    """Counts of what was done and of what went wrong."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.wrong: list[str] = []

    def add(self, what: str, is_good: bool, detail: str = "") -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        if not is_good:
            self.wrong.append(f"{what} {detail}".strip())


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """An empty folder."""
    with tempfile.TemporaryDirectory(prefix="gradc-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def damage(folder: Path) -> list[str]:
    """What is wrong with the files of a cache, and with machine code beside a module."""
    found = Store(folder / "cache", 2**30).problems()
    machine = [p for p in folder.rglob("*.machine") if "cache" not in p.parts]
    is_bad = [p for p in machine if not whole(p)]
    return [f"{p.name}: {text}" for p, text in found] + [p.name for p in is_bad]


def whole(path: Path) -> bool:
    import hashlib

    content = path.read_bytes()
    return hashlib.sha256(content[32:]).digest() == content[:32]


# ------------------------------------------------------------------------- killed


def killed(tally: Tally, rounds: int, dice: random.Random) -> None:
    """Ten processes at once on an empty cache; one to three of them die, writers above all."""
    for k in range(rounds):
        with place() as folder:
            path = emitted(folder / "made")
            cache = {"GRADC_CACHE_DIR": str(folder / "cache")}
            by_gradc = k % 2 == 0
            work = compiled if by_gradc else lambda path=path: imported(path)
            began = time.monotonic()
            children = [start(work, **cache) for _ in range(10)]
            victims: set[int] = set()
            for _ in range(dice.randint(1, 3)):
                if dice.random() < 0.5:  # whoever has its turn to write
                    victim = writer(children, dice.uniform(0.0, 2.0))
                    time.sleep(dice.uniform(0.0, 1.0))
                else:
                    time.sleep(dice.uniform(0.0, 1.0))
                    victim = dice.choice(children)
                if victim:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGKILL)
                        victims.add(victim)
            statuses = ended(children)
            seconds = time.monotonic() - began
            bad = [
                s
                for child, s in zip(children, statuses, strict=True)
                if s != 0 and not (s == -signal.SIGKILL and child in victims)
            ]
            tally.counts["processes killed"] = tally.counts.get(
                "processes killed", 0
            ) + sum(s == -signal.SIGKILL for s in statuses)
            tally.counts["processes"] = tally.counts.get("processes", 0) + 10
            tally.add("rounds of ten processes", not bad, f"{k}: {bad}")
            tally.add("rounds within 60 s", seconds < 60.0, f"{k}: {seconds:.0f} s")
            tally.add("processes after a round", once(work, **cache), f"{k}")
            left = damage(folder)
            tally.add("caches whole after a round", not left, f"{k}: {left}")


def writer(children: list[int], seconds: float) -> int:
    """The process that has a lock, waiting for one for some time; 0 where there is none."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "FLOCK" in words and int(words[4]) in children:
                return int(words[4])
        time.sleep(0.005)
    return 0


# ------------------------------------------------------------------------ altered


def altered(tally: Tally, edits: int, dice: random.Random) -> None:
    """Every file cut off, emptied, replaced; then random edits of one byte."""
    for by_gradc in (True, False):
        with place() as folder:
            path = emitted(folder / "made")
            cache = {"GRADC_CACHE_DIR": str(folder / "cache")}
            work = compiled if by_gradc else lambda path=path: imported(path)
            assert once(work, **cache)
            kind = "by gradc" if by_gradc else "on its own"
            for file in files(folder, path):
                content = file.read_bytes()
                for name, new in (
                    ("empty", b""),
                    ("first byte", content[:1]),
                    ("half", content[: len(content) // 2]),
                    ("but a byte", content[:-1]),
                    ("and a byte", content + b"\0"),
                    ("garbage", dice.randbytes(len(content))),
                    ("a pickle", b"\x80\x05garbage."),
                    ("zeros", bytes(len(content))),
                ):
                    file.write_bytes(new)
                    good = once(work, **cache) and not damage(folder)
                    tally.add(f"files replaced, {kind}", good, f"{file.name}: {name}")
                file.unlink()
                good = once(work, **cache) and not damage(folder)
                tally.add(f"files deleted, {kind}", good, file.name)
                if file.exists():
                    file.unlink()
                file.mkdir()
                tally.add(f"folders for files, {kind}", once(work, **cache), file.name)
                shutil.rmtree(file)
                for other in (folder / "cache").glob("machine/*"):
                    other.unlink()  # the second place, where the first could not be written
                assert once(work, **cache)
            for k in range(edits // 2):
                file = dice.choice(files(folder, path))
                content = bytearray(file.read_bytes())
                position = dice.randrange(len(content))
                content[position] ^= dice.randrange(1, 256)
                file.write_bytes(content)
                good = once(work, **cache) and not damage(folder)
                tally.add(f"bytes edited, {kind}", good, f"{file.name}[{position}]")


def files(folder: Path, path: Path) -> list[Path]:
    """All files of the cache and of machine code."""
    found = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size]
    return [p for p in found if p != path and p.suffix != ".pyc"]


# --------------------------------------------------------------------------- full


def full(tally: Tally, sizes: list[int]) -> None:
    """Disks of few bytes: a small file system where root may mount one, and a limit on files."""
    for size in sizes:
        with place() as folder:
            disk = folder / "disk"
            disk.mkdir()
            done = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(disk)],
                capture_output=True,
                check=False,
            )
            kind = "small file systems" if done.returncode == 0 else "small folders"
            try:
                cache = {
                    "GRADC_CACHE_DIR": str(disk / "cache"),
                    "HOME": str(disk),
                }
                with contextlib.suppress(OSError):
                    path = emitted(disk / "made")
                    for _ in range(2):
                        good = once(lambda path=path: imported(path), **cache)
                        tally.add(f"{kind}, a module on its own", good, f"{size} KB")
                for _ in range(2):
                    tally.add(
                        f"{kind}, by gradc", once(compiled, **cache), f"{size} KB"
                    )
                left = damage(disk)
                tally.add(f"{kind} whole", not left, f"{size} KB: {left}")
            finally:
                if done.returncode == 0:
                    subprocess.run(["umount", "-l", str(disk)], check=True)
        with place() as folder:
            path = emitted(folder / "made")
            cache = {"GRADC_CACHE_DIR": str(folder / "cache")}
            for work in (compiled, lambda path=path: imported(path)):
                for _ in range(2):
                    good = once(lambda work=work, n=size: limited(work, n), **cache)
                    tally.add("limits on the size of files", good, f"{size} KB")
            tally.add("limits, then none", once(compiled, **cache), f"{size} KB")
            left = damage(folder)
            tally.add("limits, whole", not left, f"{size} KB: {left}")


def limited(work: Callable[[], bool], kilobytes: int) -> bool:
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, most))
    return work()


# -------------------------------------------------------------------------- homes


def homes(tally: Tally) -> None:
    """Without a home, with one that is not there, that is a file, that can't be written to."""
    with place() as folder:
        locked, file, missing = folder / "locked", folder / "file", folder / "missing"
        loop = folder / "loop"
        locked.mkdir()
        file.write_text("")
        loop.symlink_to(loop)
        path = emitted(folder / "made")
        for closed in (locked, path.parent, folder):
            closed.chmod(0o555)
        try:
            for name, home in {
                "no HOME": None,
                "an empty HOME": "",
                "a HOME that is not there": str(missing),
                "a HOME that can't be written to": str(locked),
                "a HOME that is a file": str(file),
                "a HOME that is a loop of links": str(loop),
                "a relative HOME": "home",
            }.items():
                for told in (None, str(locked / "cache")):
                    cache = {
                        "HOME": home,
                        "XDG_CACHE_HOME": None,
                        "GRADC_CACHE_DIR": told,
                    }
                    for work in (compiled, lambda: imported(path)):
                        good = once(lambda work=work: unprivileged(work), **cache)
                        tally.add("homes", good, name)
            cache = {"HOME": str(locked), "XDG_CACHE_HOME": "relative"}
            good = once(lambda: unprivileged(compiled), GRADC_CACHE_DIR=None, **cache)
            tally.add("homes", good, "a relative XDG_CACHE_HOME")
        finally:
            folder.chmod(0o755)


def unprivileged(work: Callable[[], bool]) -> bool:
    """Do something as nobody, where root does as it likes.

    What Python and Numba import is loaded before: nobody may be unable to read it.
    """
    gradc.emit(TEXT.format(default=1.0))
    numba.njit(lambda x: x + 1.0)(1.0)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.chdir("/")
    return work()


# ----------------------------------------------------------------------- versions


def versions(tally: Tally, rounds: int) -> None:
    """Two versions of gradc that emit different text, side by side on one cache."""
    with place() as folder:
        for version in ("1.1.1", "2.2.2"):
            copy = folder / version
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / "gradc", copy / "gradc", ignore=ignored)
            shutil.copytree(ROOT / "templates", copy / "templates", ignore=ignored)
            init = copy / "gradc" / "__init__.py"
            text = init.read_text()
            old = f'__version__ = "{gradc.__version__}"'
            assert old in text
            init.write_text(text.replace(old, f'__version__ = "{version}"'))
        code = (
            "import sys, numpy as np, gradc\n"
            "m = gradc.compile(sys.argv[1])\n"
            "v, g = m.value_and_gradients(np.array([0.0, 1.0, -2.0]))\n"
            "print(m.GRADC['version'], round(float(v.y), 9), round(float(g.x[1]), 9))\n"
        )
        for _ in range(rounds):
            running = [
                (
                    version,
                    subprocess.Popen(
                        [sys.executable, "-c", code, TEXT.format(default=1.0)],
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        text=True,
                        cwd=folder,
                        env={
                            **os.environ,
                            "PYTHONPATH": str(folder / version),
                            "GRADC_CACHE_DIR": str(folder / "cache"),
                        },
                    ),
                )
                for version in ("1.1.1", "2.2.2") * 2
            ]
            for version, process in running:
                out, err = process.communicate(timeout=WAIT)
                wanted = f"{version} 1.38619508 -0.735758882\n"
                tally.add("processes of two versions", out == wanted, f"{out}{err}")
        kept = Store(folder / "cache", 2**30).kept()
        tally.add("an entry a version", len(kept) == 2, f"{len(kept)}")
        path = emitted(folder / "made")
        for k in range(2 * rounds):  # a module that is written anew in its place
            weight = float(k % 3 + 1)
            emitted(folder / "made", weight)
            good = once(lambda path=path, weight=weight: imported(path, weight))
            tally.add("modules written anew", good, f"{k}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="few sizes of disks")
    given = parser.parse_args()
    dice = random.Random(given.seed)
    sizes = [8, 200] if given.quick else [4, 8, 16, 32, 64, 96, 128, 192, 256, 512]
    tally = Tally()
    scenarios: dict[str, Callable[[], None]] = {
        "killed": lambda: killed(tally, given.rounds, dice),
        "altered": lambda: altered(tally, given.edits, dice),
        "full": lambda: full(tally, sizes),
        "homes": lambda: homes(tally),
        "versions": lambda: versions(tally, max(1, given.rounds // 10)),
    }
    for name in given.scenarios or scenarios:
        scenarios[name]()
    print(json.dumps({"counts": tally.counts, "wrong": tally.wrong}, indent=2))
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

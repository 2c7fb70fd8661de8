"""Time to start and time per call, each against its yardstick in the same run.

    python bench/startup.py [--runs 15]

- `gradc --help`: wall time of the process, and of `python -c pass`;
- importing an emitted module behind NumPy;
- from the start of Python to the first gradient with warm caches: an emitted module, and the same
  kernel under plain Numba with `cache=True`;
- `gradc.compile` in a fresh process, cold and warm;
- a call of `value_and_gradients` on five small arrays, above the kernel alone.

Processes are interleaved; medians are printed, with the quartiles. Start it on a quiet machine.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gradc

TEXT = """\
x: float[N]
a: float[N]
b: float[N]
c: float[N]
d: float[N]
y = sum((a * x + b) * exp(-c * c) + d * x)
differentiate(y, [x, a, b, c, d])
return y
"""
FEEDS = "import numpy as np\nx = [np.linspace(0.1, 0.9, 8) + k for k in range(5)]\n"
CODES = {
    "python": "pass",
    "numpy": "import numpy",
    "numba": "import numpy, numba",
    "emitted: import": "import numpy\nbegin()\nimport emitted\nend()",
    "emitted: first gradient": FEEDS
    + "begin()\nimport emitted\nprint(emitted.value_and_gradients(*x)[0])\nend()",
    "plain Numba: first gradient": FEEDS
    + "begin()\nimport plain\nprint(plain.value_and_gradients(*x)[0])\nend()",
    "gradc.compile: warm": "import numpy\nbegin()\nimport gradc\n"
    "m = gradc.compile(open('five.gc').read())\nend()",
    "gradc.compile: cold": "import os, tempfile, numpy\n"
    "os.environ['GRADC_CACHE_DIR'] = tempfile.mkdtemp(dir='.')\n"
    "begin()\nimport gradc\nm = gradc.compile(open('five.gc').read())\nend()",
}
CLOCK = """\
import sys, time
def begin():
    global start
    start = time.perf_counter()
def end():
    print(time.perf_counter() - start, file=sys.stderr)
"""


def plain(source: str) -> str:
    """The same kernel with its helpers, as one would write it for Numba."""
    tree = ast.parse(source)
    keep = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    found = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    table = next(
        n.value
        for n in tree.body
        if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == "_HELPERS"
    )
    aliases = [
        n
        for n in tree.body
        if isinstance(n, ast.Assign) and "npt.NDArray" in ast.unparse(n)
    ]
    lines = [ast.unparse(n) for n in (*keep, *aliases)] + ["import numba"]
    for name, flags in ast.literal_eval(table).items():
        lines += [f"@numba.njit(fastmath={flags}, error_model='numpy')"]
        lines += [ast.unparse(found[name])]
    lines += ["@numba.njit(cache=True, fastmath={'contract'}, error_model='numpy')"]
    kernel = found["_value_and_gradients"]
    lines += [ast.unparse(kernel)]
    outputs = [a.arg for a in kernel.args.args if a.arg not in ("N", *"xabcd")]
    made = ["np.empty(())" if name == "y" else "np.empty(x.size)" for name in outputs]
    lines += [
        "def value_and_gradients(x, a, b, c, d):",
        f"    {', '.join(outputs)} = {', '.join(made)}",
        f"    _value_and_gradients({', '.join(p.arg for p in kernel.args.args)})".replace(
            "(N,", "(x.size,"
        ),
        f"    return {outputs[0]}, ({', '.join(outputs[1:])})",
    ]
    return "\n".join(lines) + "\n"


def run(code: str, folder: Path) -> tuple[float, float]:
    """Wall time of a process, and the time between its begin() and end(); in seconds."""
    cache = os.environ.get("GRADC_CACHE_DIR", str(folder / "cache"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GRADC_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CLOCK + code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began
    return wall, float(done.stderr.split()[-1]) if done.stderr else 0.0


def shown(values: list[float], scale: float) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle * scale:8.2f}   ({low * scale:.2f} to {high * scale:.2f})"


def per_call(runs: int) -> dict[str, list[float]]:
    """Microseconds of a call and of its kernel alone, interleaved."""
    import numpy as np

    module = gradc.compile(TEXT)
    arrays = [np.linspace(0.1, 0.9, 8) + k for k in range(5)]
    module.value_and_gradients(*arrays)
    caught: list[tuple[object, ...]] = []
    kernels = module.module._compiled
    name = "_value_and_gradients"
    kernel = kernels[name]
    kernels[name] = lambda *arguments: caught.append(arguments) or kernel(*arguments)
    module.value_and_gradients(*arrays)
    kernels[name] = kernel
    arguments = caught[0]
    call = module.value_and_gradients
    x, a, b, c, d = arrays
    times: dict[str, list[float]] = {"call": [], "kernel": [], "above": []}
    count = 5000
    for _ in range(4 * runs):
        whole = timeit.timeit(lambda: call(x, a, b, c, d), number=count) / count
        alone = timeit.timeit(lambda: kernel(*arguments), number=count) / count
        times["call"].append(whole * 1e6)
        times["kernel"].append(alone * 1e6)
        times["above"].append((whole - alone) * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = gradc.emit(TEXT)
        (folder / "five.gc").write_text(TEXT)
        (folder / "emitted.py").write_text(source)
        (folder / "plain.py").write_text(plain(source))
        codes = {
            **CODES,
            "gradc --help": "import runpy, sys\nsys.argv = ['gradc', '--help']\n"
            "from gradc.cli.app import main\nmain(['--help'])",
        }
        for code in codes.values():  # warm
            run(code, folder)
        walls: dict[str, list[float]] = {what: [] for what in codes}
        insides: dict[str, list[float]] = {what: [] for what in codes}
        for _ in range(runs):
            for what, code in codes.items():
                wall, inside = run(code, folder)
                walls[what].append(wall)
                insides[what].append(inside)
        print(f"{'':30} process, ms                      inside, ms")
        for what in codes:
            inner = shown(insides[what], 1e3) if any(insides[what]) else ""
            print(f"{what:30} {shown(walls[what], 1e3):32} {inner}")
        pairs = zip(
            walls["emitted: first gradient"],
            walls["plain Numba: first gradient"],
            strict=True,
        )
        ratio = statistics.median(e / p for e, p in pairs)
        print(f"first gradient, emitted to plain Numba: {ratio:.2f}")
    os.environ.setdefault("GRADC_CACHE_DIR", tempfile.mkdtemp())
    for what, values in per_call(runs).items():
        print(f"{'a call of five arrays: ' + what:30} {shown(values, 1.0)} us")
    print(json.dumps({"numba": __import__("numba").__version__, "python": sys.version}))


if __name__ == "__main__":
    main()

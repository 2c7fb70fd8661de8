"""Many threads in one module, with different sizes, and forks in between.

    python bench/threads.py [--threads 8] [--calls 10000] [--forks 100]

Each thread calls the entry points of each module with data of its own sizes, which change from
call to call, and compares every result with that of a lone thread. Meanwhile the process forks:
each child calls the modules too, from threads of its own. Printed are the counts of calls and of
wrong results, and the memory of the process (resident) before, in between and after.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np

import gradc

ROWS = """\
X: float[N, D]
y: float[N]
w: float[D]
z = X @ w
p = sigmoid(z)
loss = sum(softplus(z) - y * z) / N + 0.1 * sum(w**2)
differentiate(loss, [w, X])
return loss, p
"""
FACTOR = """\
X: float[N, D]
y: float[N]
w: float[D]
K = X @ X.T + (1.0 + sum(w**2)) * eye(N)
L = cholesky(K)
a = solve(K, y)
loss = 0.5 * sum(y * a) + sum(log(diag(L)))
differentiate(loss, [X, w])
return loss, a
"""
MODULES = {
    "rows, numba": (ROWS, "numba"),
    "factor, numba": (FACTOR, "numba"),
    "rows, numpy": (ROWS, "numpy"),
}
SIZES = [(1, 1), (3, 2), (8, 5), (33, 4), (70, 9), (130, 3)]
LARGE = (20000, 3)
"""Rows whose arrays would show a leak at once; for the modules without a matrix of N * N."""


def made(folder: Path, names: list[str]) -> dict[str, Any]:
    """The emitted modules by name, imported from files."""
    modules = {}
    for k, name in enumerate(names):
        text, target = MODULES[name]
        path = folder / f"threads_{k}.py"
        path.write_text(gradc.emit(text, target=target), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        modules[name] = module
    return modules


def data(n: int, d: int) -> dict[str, Any]:
    """Inputs of these sizes."""
    rng = np.random.default_rng(100 * n + d)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return {"X": X, "y": rng.uniform(size=n), "w": w}


def flat(module: Any, feeds: dict[str, Any], kind: int) -> list[Any]:
    """All values of one of three calls: of the pair, of the whole, of `run`."""
    if kind == 0:
        values, residuals = module.forward(**feeds)
        return [*values, *module.backward(residuals)]
    if kind == 1:
        values, gradients = module.value_and_gradients(**feeds)
        return [*values, *gradients]
    return [*module.run(**feeds)]


class Work:
    """The calls, with what they should give."""

    def __init__(self, modules: dict[str, Any], large: bool) -> None:
        self.modules = list(modules.values())
        self.cases = []
        for name, module in modules.items():
            sizes = [*SIZES, *([LARGE] if large and "factor" not in name else [])]
            for n, d in sizes:
                feeds = data(n, d)
                wanted = [flat(module, feeds, kind) for kind in range(3)]
                self.cases.append((module, feeds, wanted))

    def call(self, k: int) -> bool:
        """The call number k; whether it gave what it should."""
        module, feeds, wanted = self.cases[k % len(self.cases)]
        kind = k // len(self.cases) % 3
        found = flat(module, feeds, kind)
        return all(
            np.allclose(f, w, rtol=1e-10, atol=1e-12)
            for f, w in zip(found, wanted[kind], strict=True)
        )

    def many(self, threads: int, calls: int) -> list[int]:
        """How many results were wrong in each thread, all of them at work at once."""
        wrong = [0] * threads
        start = threading.Barrier(threads)

        def work(t: int) -> None:
            start.wait()
            for k in range(calls):
                wrong[t] += not self.call(7 * t + k)

        running = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return wrong

    def forked(self, seconds: float) -> str:
        """What became of a child that calls the modules in two threads of its own."""
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = 1 if any(self.many(2, 2 * len(self.cases))) else 0
            finally:
                os._exit(status)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return "right" if code == 0 else "wrong" if code == 1 else "died"
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        return "hung"


def memory() -> float:
    """Resident memory of the process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def soak(
    names: list[str], threads: int, calls: int, forks: int, large: bool = True
) -> dict[str, Any]:
    """Counts, and memory along the way."""
    with tempfile.TemporaryDirectory() as folder:
        work = Work(made(Path(folder), names), large)
        work.many(threads, 3 * len(work.cases))
        before = memory()
        counts = {"right": 0, "wrong": 0, "died": 0, "hung": 0}
        wrong: list[int] = []
        thread = threading.Thread(
            target=lambda: wrong.extend(work.many(threads, calls))
        )
        thread.start()
        during = []
        left = forks
        while thread.is_alive() or left:
            if left:
                counts[work.forked(120.0)] += 1
                left -= 1
            during.append(memory())
            thread.join(0.2)
        return {
            "threads": threads,
            "calls": threads * calls,
            "wrong": sum(wrong),
            "children": counts,
            "memory": {
                "before": round(before, 1),
                "highest": round(max(during), 1),
                "after": round(memory(), 1),
            },
            "arenas": [len(m._arenas) for m in work.modules if hasattr(m, "_arenas")],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=10000, help="in each thread")
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--modules", nargs="*", default=list(MODULES), choices=MODULES)
    given = parser.parse_args()
    began = time.perf_counter()
    found = soak(given.modules, given.threads, given.calls, given.forks)
    print(json.dumps(found, indent=2))
    print(f"{time.perf_counter() - began:.0f} s")
    bad = {k for k, n in found["children"].items() if n} - {"right"}
    sys.exit(1 if bad or found["wrong"] else 0)


if __name__ == "__main__":
    main()

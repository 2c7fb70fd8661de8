"""Many threads in one module, with different sizes, and forks in between.

    python bench/threads.py [--threads 8] [--calls 10000] [--forks 100]

Each thread calls the entry points of a module with data whose sizes change from call to call, and
compares every result with that of a lone thread. Meanwhile the process forks: each child calls the
module too, from threads of its own. Printed are, for each module, the counts of calls and of wrong
results, what became of the children, and the resident memory of the process. The exit status is 1
where a result was wrong or a child did not end well.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
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


def made(folder: Path, name: str) -> Any:
    """The emitted module, imported from a file."""
    text, target = MODULES[name]
    path = folder / f"threads_{list(MODULES).index(name)}.py"
    path.write_text(gradc.emit(text, target=target), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def data(n: int, d: int) -> dict[str, Any]:
    """Inputs of these sizes."""
    rng = np.random.default_rng(100 * n + d)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    return {"X": X, "y": rng.uniform(size=n), "w": w}


def pair(module: Any) -> Callable[..., Any]:
    """forward() and backward() as one call."""

    def call(**feeds: Any) -> Any:
        values, residuals = module.forward(**feeds)
        return values, module.backward(residuals)

    return call


def flat(result: Any) -> list[Any]:
    """All values of a result, of `run` or of the others."""
    is_pair = not hasattr(result, "_fields")
    return [v for part in (result if is_pair else (result,)) for v in part]


class Work:
    """Calls, with what a lone thread gets from them."""

    def __init__(self, calls: Sequence[tuple[Callable[..., Any], dict[str, Any]]]):
        self.cases = [(call, feeds, flat(call(**feeds))) for call, feeds in calls]

    def is_right(self, k: int) -> bool:
        """Whether the call number k gives what it should."""
        call, feeds, wanted = self.cases[k % len(self.cases)]
        return all(
            np.allclose(f, w, rtol=1e-10, atol=1e-12)
            for f, w in zip(flat(call(**feeds)), wanted, strict=True)
        )

    def many(self, threads: int, calls: int) -> list[int]:
        """How many results were wrong in each thread, all of them at work at once."""
        wrong = [0] * threads
        start = threading.Barrier(threads)

        def work(t: int) -> None:
            start.wait()
            for k in range(calls):
                wrong[t] += not self.is_right(7 * t + k)

        running = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return wrong

    def forked(self, seconds: float = 120.0) -> str:
        """What became of a child that makes all calls in each of two threads of its own."""
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = 1 if any(self.many(2, len(self.cases))) else 0
            finally:
                os._exit(status)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return "right" if code == 0 else "wrong" if code == 1 else "died"
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "hung"

    def soak(self, threads: int, calls: int, forks: int) -> dict[str, Any]:
        """Counts, and memory along the way."""
        self.many(threads, 3 * len(self.cases))
        before = memory()
        children = dict.fromkeys(("right", "wrong", "died", "hung"), 0)
        wrong: list[int] = []
        thread = threading.Thread(
            target=lambda: wrong.extend(self.many(threads, calls))
        )
        thread.start()
        during = [before]
        left = forks
        while thread.is_alive() or left:
            if left:
                children[self.forked()] += 1
                left -= 1
            during.append(memory())
            thread.join(0.2)
        return {
            "threads": threads,
            "calls": threads * calls,
            "wrong": sum(wrong),
            "children": children,
            "MB before, highest, after": [
                round(mb, 1) for mb in (before, max(during), memory())
            ],
        }


def memory() -> float:
    """Resident memory of the process, in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=10000, help="in each thread")
    parser.add_argument("--forks", type=int, default=100)
    parser.add_argument("--modules", nargs="*", default=list(MODULES), choices=MODULES)
    given = parser.parse_args()
    status = 0
    for name in given.modules:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            module = made(Path(folder), name)
            sizes = [*SIZES, *([LARGE] if "rows" in name else [])]
            work = Work(
                [
                    (call, data(n, d))
                    for call in (module.run, module.value_and_gradients, pair(module))
                    for n, d in sizes
                ]
            )
            found = work.soak(given.threads, given.calls, given.forks)
        print(f"{name}, {time.perf_counter() - began:.0f} s: {json.dumps(found)}")
        if found["wrong"] or found["children"]["right"] != given.forks:
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()

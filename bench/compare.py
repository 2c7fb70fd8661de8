"""gradc beside hand-written Numba, and beside other tools, on the same problems in one run.

    python bench/compare.py --peers FOLDER [--problems ba,gmm] [--tools numba_hand] [--rounds 15]

FOLDER holds the package `peers`: a module for each problem, with its inputs (`make`) and builders
for the tools (`TOOLS`). Each is run in this process, so all tools named must be installed. Values
are compared first, then the calls take turns; medians are printed, and ratios to the first tool.
`--json` prints a line for each problem and size instead. Set OMP_NUM_THREADS=1 for one thread.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import gradc

LEAST = 2e-4
"""Seconds: shorter calls are timed together."""


def _params(data: Mapping[str, Any], *names: str) -> list[Any]:
    found = {**data, **data.get("params", {})}
    return [found[name] for name in names]


def _jacobian_blocks(r: tuple[Any, ...]) -> dict[str, Any]:
    """The 2 x 15 blocks of all observations, from their parts by camera, point and weight."""
    parts = [np.asarray(v) for v in r]
    rows = [
        np.concatenate([c, x, w[:, None]], 1) for c, x, w in (parts[:3], parts[3:6])
    ]
    return {"J": np.stack(rows, 1), "W": parts[6]}


def _named(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda r: {n: np.asarray(v) for n, v in zip(names, r[1], strict=True)}


LARGE = 2**18
"""Bytes of results from which making arrays for them costs more than handing arrays in."""

PROBLEMS: dict[str, dict[str, Any]] = {
    "logreg": {"inputs": ("X", "y", "w", "b"), "result": _named("w", "b")},
    "gmm": {
        "inputs": ("x", "alpha", "mu", "q", "l"),
        "result": _named("alpha", "mu", "q", "l"),
        "static": lambda d: {"D": d["d"], "K": d["k"]},
    },
    "ba": {
        "inputs": ("cams", "X", "w", "feat", "ci", "pi"),
        "result": _jacobian_blocks,
        "call": "run",
    },
    "mlp": {
        "inputs": ("x", "y", "W1", "b1", "W2", "b2"),
        "result": _named("W1", "b1", "W2", "b2"),
    },
    "lse": {"inputs": ("x",), "result": _named("x")},
    "blackscholes": {
        "inputs": ("S", "sigma", "r", "K", "T"),
        "result": _named("S", "sigma", "r"),
    },
    "llsq": {
        "inputs": ("x", "t"),
        "result": _named("x"),
        "static": lambda d: {"M": d["m"]},
        "more": lambda d: {"t": -1.0 + np.arange(d["n"]) * (2.0 / (d["n"] - 1))},
    },
    "gp": {"inputs": ("X", "y", "ls", "lv", "ln"), "result": _named("ls", "lv", "ln")},
}
"""How the inputs of a problem are handed to `examples/bench/PROBLEM.gc`, and what comes out."""


def _bytes(result: Any) -> int:
    parts = result if isinstance(result, tuple) else (result,)
    return sum(_bytes(p) if isinstance(p, tuple) else p.nbytes for p in parts)


def _places(result: Any) -> Any:
    """A result as `out`: the same arrays, None for a number."""
    if isinstance(result, tuple):
        return tuple(_places(r) for r in result)
    return result if isinstance(result, np.ndarray) else None


def built(name: str, data: dict[str, Any]) -> dict[str, Any]:
    """gradc's calls for a problem: through the public entry point, with large results
    in arrays that are there already."""
    how = PROBLEMS[name]
    start = time.perf_counter()
    module = gradc.compile(
        ROOT / "examples" / "bench" / f"{name}.gc",
        static=how.get("static", lambda d: {})(data),
    )
    more = how.get("more", lambda d: {})(data)
    inputs = _params({**data, **more}, *how["inputs"])
    call = getattr(module, how.get("call", "value_and_gradients"))
    first = call(*inputs)
    out = _places(first) if _bytes(first) > LARGE else None
    print(f"{name}: compiled in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return {
        "grad": lambda: call(*inputs, out=out),
        "primal": (lambda: module.run(*inputs)) if "call" not in how else None,
        "np": how["result"],
    }


def difference(got: Mapping[str, Any], want: Mapping[str, Any]) -> float:
    """The largest difference over the arrays, relative to the largest element of each."""
    worst = 0.0
    for name, value in want.items():
        a = np.asarray(got[name], np.float64).ravel()
        b = np.asarray(value, np.float64).ravel()
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-300)
        worst = max(worst, float(np.abs(a - b).max(initial=0.0)) / scale)
    return worst


def interleaved(
    calls: Mapping[str, Callable[[], Any]], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """The median and the least time of each call in seconds; the calls take turns."""
    batch: dict[str, int] = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        batch[name] = max(1, int(LEAST / max(time.perf_counter() - start, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for _ in range(rounds):
        for name, call in calls.items():
            count = batch[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            samples[name].append((time.perf_counter() - start) / count)
    gc.enable()
    medians = {name: statistics.median(s) for name, s in samples.items()}
    return medians, {name: min(s) for name, s in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=Path, required=True)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--tools", default="numba_hand")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sys.path.insert(0, str(args.peers.resolve()))
    for name in args.problems.split(","):
        problem = importlib.import_module(f"peers.{name}")
        for size in problem.DEFAULT:
            if args.sizes and size not in args.sizes.split(","):
                continue
            data = problem.make(**problem.SIZES[size])
            tools = {t: problem.TOOLS[t](data) for t in args.tools.split(",")}
            tools = {"gradc": built(name, data), **tools}
            results = {t: made["np"](made["grad"]()) for t, made in tools.items()}
            first = args.tools.split(",")[0]
            apart = difference(results["gradc"], results[first])
            calls = {t: m["grad"] for t, m in tools.items()}
            times, least = interleaved(calls, args.rounds)
            row = {
                "problem": name,
                "size": size,
                "ms": {t: s * 1e3 for t, s in times.items()},
                "ratio": times["gradc"] / times[first],
                "ratio of the least": least["gradc"] / least[first],
                "difference": apart,
            }
            primal = tools["gradc"]["primal"]
            if primal is not None:
                own = interleaved({"primal": primal}, args.rounds)[0]
                row["gradient / primal"] = times["gradc"] / own["primal"]
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            shown = "  ".join(f"{t} {ms:.4g} ms" for t, ms in row["ms"].items())
            print(
                f"{name} {size}: {shown}  ratio {row['ratio']:.2f}"
                f" (least {row['ratio of the least']:.2f})"
                f"  difference {apart:.1e}"
                + (
                    f"  gradient/primal {row['gradient / primal']:.1f}"
                    if primal is not None
                    else ""
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()

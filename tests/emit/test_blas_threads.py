"""`threads=` of entry points that call BLAS: how many threads it has while a kernel runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradc
from gradc.emit import blaslib

TEXT = """
K: float[N, N]
x: float[N]
L = cholesky(K)
z = solve_triangular(L, x, lower=True)
loss = sum(z**2)
differentiate(loss, [K])
return loss, L
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return gradc.compile(TEXT)


@pytest.fixture
def log(module: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the number of threads, 4 at first, is set to."""
    K = np.eye(3)
    module.run(K, K[0])  # compiled: what controls the threads is known
    found = [4]
    control = [lambda: found[-1], found.append]
    monkeypatch.setattr(module.run.__globals__["_blas_calls"], "control", control)
    return found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [4, 1, 4]),
        ({"threads": 1}, [4, 1, 4]),
        ({"threads": np.int64(3)}, [4, 3, 4]),
        ({"threads": 4}, [4]),
        ({"threads": 9}, [4]),
    ],
)
def test_blas_has_no_more_threads_than_it_is_given(
    module: Any, log: list[int], options: dict[str, Any], expected: list[int]
) -> None:
    K = np.eye(3)
    assert module.run(K, K[0], **options).loss == 1.0
    assert log == expected
    module.value_and_gradients(K, K[0], **options)
    assert log == expected + expected[1:]
    assert all(type(number) is int for number in log)


@pytest.mark.parametrize("first", ["outer", "inner"])
def test_overlapping_calls_bring_the_number_back(
    module: Any, log: list[int], first: str
) -> None:
    """Whichever ends first; the inner one begins when the outer one has lowered the number."""
    run = module.run.__globals__["_blas_calls"].run
    is_inside, may_end = threading.Event(), threading.Event()

    def outer() -> int:
        worker.start()
        assert is_inside.wait(10)
        if first == "inner":
            may_end.set()
            worker.join()
        return 0

    def inner() -> int:
        is_inside.set()
        assert may_end.wait(10)
        return 0

    worker = threading.Thread(target=run, args=(inner, (), 1))
    assert run(outer, (), 2) == 0
    may_end.set()
    worker.join()
    assert log == ([4, 2, 1, 4] if first == "outer" else [4, 2, 1, 2, 4])


def test_the_threads_come_back_after_an_error(module: Any, log: list[int]) -> None:
    with pytest.raises(np.linalg.LinAlgError):
        module.run(-np.eye(3), np.ones(3))
    assert log == [4, 1, 4]


def test_a_kernel_without_blas_leaves_the_threads_alone(log: list[int]) -> None:
    module = gradc.compile("x: float[N]\nreturn sum(exp(x))")
    assert "_blas_calls" not in module.run.__globals__
    mixed = gradc.compile(
        "A: float[N, N]\nb = sum(A)\ny = sum((A @ A) ** 2)\ndifferentiate(y, [A])\nreturn b"
    )
    A = np.eye(3)
    mixed.value_and_gradients(A)
    found = [4]
    control = [lambda: found[-1], found.append]
    mixed.run.__globals__["_blas_calls"].control = control
    mixed.run(A)
    assert found == [4]
    mixed.value_and_gradients(A)
    assert found == [4, 1, 4]


def test_the_docstrings_say_what_has_threads(module: Any) -> None:
    assert "at least 1; BLAS uses no more, all else one." in module.run.__doc__
    plain = gradc.compile("x: float[N]\nreturn sum(exp(x))")
    assert "at least 1; all is computed on one thread." in plain.run.__doc__


@pytest.mark.parametrize("library", ["numpy", "scipy"])
def test_the_number_of_threads_is_read_and_set(library: str, tmp_path: Path) -> None:
    """In a process of its own, whose OpenBLAS has two threads on any machine."""
    script = tmp_path / "script.py"
    script.write_text(
        "from gradc.emit import blaslib\n"
        f"if {library == 'scipy'}:\n"
        "    blaslib._numpy_address = lambda name: 0\n"
        "control = blaslib._thread_control('dgemm')\n"
        "if control:\n"
        "    read, write = control\n"
        "    found = [read()]\n"
        "    for number in (1, found[0]):\n"
        "        write(number)\n"
        "        found.append(read())\n"
        "    print(found)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(gradc.__file__).parent.parent,
        env={
            "OPENBLAS_NUM_THREADS": "2",
            "PYTHONPATH": str(Path(gradc.__file__).parent.parent),
        },
    )
    if not done.stdout:
        pytest.skip("the library is not OpenBLAS")
    assert done.stdout == "[2, 1, 2]\n"


def test_calls_from_several_threads_leave_the_number_as_it_was(module: Any) -> None:
    """Kernels that overlap: none leaves its own number behind."""
    control = blaslib._thread_control("dgemm")
    if not control:
        pytest.skip("the library is not OpenBLAS")
    read, write = control
    K = np.eye(40) + 0.5
    x = np.arange(40.0)
    want = module.run(K, x, threads=1).loss
    before = read()
    wrong = []

    def work(threads: int) -> None:
        for _ in range(100):
            loss = module.run(K, x, threads=threads).loss
            if abs(loss - want) > 1e-12 * want:
                wrong.append(loss)

    try:
        write(3)
        workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 1, 2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert wrong == []
        assert read() == 3
    finally:
        write(before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, /proc")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_between_calls_from_several_threads(module: Any, threads: Any) -> None:
    """OpenBLAS hangs in a fork that comes while its threads work: forks wait for the kernels."""
    control = blaslib._thread_control("dgemm")
    feeds = [{"K": np.eye(n) + 0.5, "x": np.arange(float(n))} for n in (1, 9, 150)]
    calls = (module.run, module.value_and_gradients)
    work = threads.Work([(call, {**f, "threads": 2}) for call in calls for f in feeds])
    before = control[0]() if control else 0
    try:
        if control:
            control[1](2)
        found = work.soak(threads=4, calls=12, forks=4)
    finally:
        if control:
            control[1](before)
    assert found["wrong"] == 0
    assert found["children"] == {"right": 4, "wrong": 0, "died": 0, "hung": 0}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_within_a_call_of_the_same_thread_does_not_wait_for_it(
    module: Any,
) -> None:
    """As in a signal handler, which runs in the midst of the main thread's call."""
    module.run(np.eye(2), np.ones(2))

    def kernel() -> int:
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(0 if module.run(np.eye(2), np.ones(2)).loss == 2.0 else 1)
        return os.waitpid(child, 0)[1]

    assert module.run.__globals__["_blas_calls"].run(kernel, (), 1) == 0

"""Machine code that emitted modules keep: where it is, what it is checked by, how it is mended."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradc

ROOT = Path(__file__).resolve().parent.parent.parent
X = np.array([1.0, 2.0])
SUM = "x: float[N]\ny = sum(x * x) * {}\ndifferentiate(y, [x])\nreturn y"
WITH_HELPERS = "x: float[N]\ny = sum(exp(x))\ndifferentiate(y, [x])\nreturn y"
WITH_BLAS = (
    "x: float[N]\ny = sum(cholesky(outer(x, x) + eye(N)))\n"
    "differentiate(y, [x])\nreturn y"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("GRADC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADC_CACHE_MAX_BYTES", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def emit(tmp_path: Path) -> Callable[[str], Path]:
    """Writes the module of a graph to model.py in a folder of its own."""

    def write(text: str) -> Path:
        path = tmp_path / "made" / "model.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(gradc.emit(text))
        return path

    return write


def fresh(path: Path, name: str = "gradc_test_model") -> tuple[ModuleType, list[str]]:
    """A module loaded as a new process would, and the names of the kernels it compiles."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    made: list[str] = []
    make = module._MachineCode.make

    def counted(self: Any) -> Any:
        made.append(self.name)
        return make(self)

    module._MachineCode.make = counted
    return module, made


def used(path: Path, factor: float = 1.0, name: str = "gradc_test_model") -> list[str]:
    """What a new module of SUM compiles while it gives the right gradient."""
    module, made = fresh(path, name)
    values, gradients = module.value_and_gradients(X)
    assert values.y == 5.0 * factor
    np.testing.assert_array_equal(gradients.x, 2.0 * X * factor)
    return made


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("**/*.machine*"))


COMPILED, FOUND = ["_value_and_gradients"], []


# --------------------------------------------------------------------------- finding


@pytest.mark.parametrize("text", [SUM.format(1.0), WITH_HELPERS, WITH_BLAS])
def test_what_one_process_compiles_others_find(
    text: str, emit: Callable[[str], Path]
) -> None:
    path = emit(text)
    code = (
        "import sys, numpy as np, model\n"
        "model._MachineCode.make = lambda self: sys.exit('compiled again')\n"
        "print(model.value_and_gradients(np.array([1.0, 2.0])), model.run([1.0])[0])\n"
    )
    module, made = fresh(path, "model")
    wanted = f"{module.value_and_gradients(X)} {module.run([1.0])[0]}\n"
    assert made == ["_value_and_gradients", "_run"]
    for seed in ("0", "77"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=path.parent,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == (wanted, "")


def test_it_is_beside_the_module(emit: Callable[[str], Path], cache: Path) -> None:
    path = emit(SUM.format(1.0))
    assert used(path) == COMPILED
    assert used(path) == FOUND
    (file,) = kept(path.parent)
    assert file.parent == path.parent / "__pycache__"
    assert file.name.startswith("model._value_and_gradients-")
    content = file.read_bytes()
    assert hashlib.sha256(content[32:]).digest() == content[:32]
    assert not cache.exists()


def test_it_is_in_the_cache_where_there_is_no_place_beside(
    emit: Callable[[str], Path], cache: Path
) -> None:
    path = emit(SUM.format(1.0))
    (path.parent / "__pycache__").write_text("no folder")
    assert used(path) == COMPILED
    assert used(path) == FOUND
    (file,) = kept(cache)
    assert file.parent == cache / "machine"
    if os.name == "posix":
        assert [f.stat().st_mode & 0o777 for f in (cache, file.parent)] == [0o700] * 2


def test_without_any_place_it_is_compiled(
    emit: Callable[[str], Path], cache: Path
) -> None:
    path = emit(SUM.format(1.0))
    (path.parent / "__pycache__").write_text("no folder")
    cache.write_text("no folder")
    assert used(path) == COMPILED
    assert used(path) == COMPILED


def test_from_a_zip_file(
    emit: Callable[[str], Path],
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        archive.write(emit(SUM.format(1.0)), "zipped_model.py")
    monkeypatch.syspath_prepend(tmp_path / "made.zip")
    module = importlib.import_module("zipped_model")
    assert module.value_and_gradients(X)[0].y == 5.0
    assert len(kept(cache)) == 1
    module = importlib.reload(module)
    module._MachineCode.make = None
    assert module.value_and_gradients(X)[0].y == 5.0


def test_a_module_nobody_can_import_keeps_nothing(
    emit: Callable[[str], Path], cache: Path
) -> None:
    """Numba looks for the module of what it loads by its name, and might find another."""
    path = emit(SUM.format(1.0))
    for _ in range(2):
        module, made = fresh(path)
        del sys.modules[module.__name__]
        assert module.value_and_gradients(X)[0].y == 5.0
        assert made == COMPILED
    assert kept(path.parent) == kept(cache) == []


def test_numba_without_its_compiler(
    emit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import numba

    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    for text in (SUM.format(1.0), WITH_HELPERS, WITH_BLAS):
        module, made = fresh(emit(text))
        values, _ = module.value_and_gradients(X)
        assert np.isfinite(values.y)
        assert made == [] and kept(Path(module.__file__).parent) == []


# -------------------------------------------------------------------------- checking


def test_damage_is_mended(emit: Callable[[str], Path]) -> None:
    path = emit(SUM.format(1.0))
    assert used(path) == COMPILED
    (file,) = kept(path.parent)
    content = file.read_bytes()
    for damaged in (
        b"",
        content[: len(content) // 2],
        content[:-1],
        content + b"\0",
        b"\x80\x05garbage." * 100,
        bytes(64) + content[64:],
        content[:5000] + bytes([content[5000] ^ 8]) + content[5001:],
    ):
        file.write_bytes(damaged)
        assert used(path) == COMPILED
        assert used(path) == FOUND


def test_whole_files_that_numba_can_not_load(emit: Callable[[str], Path]) -> None:
    path = emit(SUM.format(1.0))
    used(path)
    (file,) = kept(path.parent)
    key = file.read_bytes()[32:64]
    for code in (b"", b"not a pickle", b"\x80\x05N.", b"\x80\x05]."):
        rest = key + code
        file.write_bytes(hashlib.sha256(rest).digest() + rest)
        assert used(path) == COMPILED
        assert used(path) == FOUND


def test_symbols_that_are_not_there(
    emit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading code with an unknown symbol would end the process."""
    import llvmlite.binding

    path = emit(WITH_BLAS)
    module, _ = fresh(path)
    wanted = module.value_and_gradients(X)[0].y
    find = llvmlite.binding.address_of_symbol
    asked = []

    def hidden(symbol: str) -> int | None:
        asked.append(symbol)
        return None if "gradc_" in symbol else find(symbol)

    monkeypatch.setattr(llvmlite.binding, "address_of_symbol", hidden)
    module, made = fresh(path)
    assert module.value_and_gradients(X)[0].y == wanted
    assert any("gradc_" in symbol for symbol in asked)
    assert made == COMPILED


def test_code_of_another_text_is_not_taken(emit: Callable[[str], Path]) -> None:
    """A module written anew in its place, with the old machine code beside it."""
    for factor in (1.0, 2.0, 3.0, 1.0):
        path = emit(SUM.format(factor))
        assert used(path, factor) == COMPILED
        assert used(path, factor) == FOUND
    assert len(kept(path.parent)) == 1


def test_a_text_that_is_changed_by_hand(emit: Callable[[str], Path]) -> None:
    path = emit(SUM.format(3.0))
    assert used(path, 3.0) == COMPILED
    text = path.read_text()
    assert "3.0" in text
    path.write_text(text.replace("3.0", "5.0"))
    assert used(path, 5.0) == COMPILED


def test_a_changed_file_does_not_change_what_is_loaded(
    emit: Callable[[str], Path],
) -> None:
    """The key is that of the code in memory, not of what is in the file meanwhile."""
    module, made = fresh(emit(SUM.format(1.0)))
    path = emit(SUM.format(2.0))
    assert module.value_and_gradients(X)[0].y == 5.0
    assert made == COMPILED
    assert used(path, 2.0) == COMPILED


def test_changed_helpers_flags_and_numbers_are_seen(
    emit: Callable[[str], Path],
) -> None:
    path = emit(WITH_HELPERS)
    text = path.read_text()
    module, made = fresh(path)
    wanted = module.value_and_gradients(X)[0].y
    for old, new in (
        ('"_exp": {"contract"}', '"_exp": set()'),
        ("1.4426950408889634", "1.4426950408889636"),
        ("nogil=True", "nogil=False"),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        module, made = fresh(path)
        np.testing.assert_allclose(module.value_and_gradients(X)[0].y, wanted)
        assert made == COMPILED


def test_numba_s_variables_are_in_the_key(
    emit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = emit(SUM.format(1.0))
    assert used(path) == COMPILED
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert used(path) == COMPILED
    monkeypatch.delenv("NUMBA_OPT")
    assert used(path) == FOUND
    assert used(path, name="gradc_other_name") == COMPILED
    assert len(kept(path.parent)) == 3


def test_versions_of_one_module_in_one_process(emit: Callable[[str], Path]) -> None:
    """Both are loaded from their machine code; the symbols of one must not serve the other."""
    texts, codes = {}, {}
    for factor in (1.0, 2.0):
        path = emit(SUM.format(factor))
        used(path, factor)
        (file,) = kept(path.parent)
        texts[factor], codes[factor] = path.read_text(), file.read_bytes()
    for factor in (1.0, 2.0, 1.0, 2.0):
        path.write_text(texts[factor])
        file.write_bytes(codes[factor])
        assert used(path, factor) == FOUND


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners are POSIX's")
def test_files_of_others_are_not_taken(
    emit: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = emit(SUM.format(1.0))
    used(path)
    (file,) = kept(path.parent)
    find, place = os.fstat, file.stat()
    other = os.stat_result((0o100644, 1, 1, 1, 4711, 0, 1, 0, 0, 0))

    def foreign(handle: int) -> os.stat_result:
        found = find(handle)
        is_it = (found.st_dev, found.st_ino) == (place.st_dev, place.st_ino)
        return other if is_it else found

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", foreign)
        assert used(path) == COMPILED
    assert used(path) == FOUND


# --------------------------------------------------------------------------- keeping


def test_what_killed_writers_leave_is_deleted(emit: Callable[[str], Path]) -> None:
    path = emit(SUM.format(1.0))
    used(path)
    (file,) = kept(path.parent)
    file.unlink()
    for process in (1, os.getpid()):
        file.with_name(f"{file.name}.{process}").write_bytes(b"half")
    assert used(path) == COMPILED
    assert kept(path.parent) == [file]


def test_a_disk_that_is_full(
    emit: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = emit(SUM.format(1.0))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert used(path) == COMPILED
        assert kept(path.parent) == kept(cache) == []
    assert used(path) == COMPILED
    assert used(path) == FOUND


def test_the_folder_of_machine_code_is_bounded(
    emit: Callable[[str], Path], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = emit(SUM.format(1.0))
    (path.parent / "__pycache__").write_text("no folder")
    folder = cache / "machine"
    folder.mkdir(parents=True)
    for k in range(3):
        (folder / f"old{k}.machine").write_bytes(bytes(10_000))
        os.utime(folder / f"old{k}.machine", (k, k))
    monkeypatch.setenv("GRADC_CACHE_MAX_BYTES", "1000000000")
    used(path)
    assert len(kept(folder)) == 4
    (file,) = folder.glob("model.*")
    os.utime(folder / "old0.machine")
    monkeypatch.setenv("GRADC_CACHE_MAX_BYTES", str(file.stat().st_size + 10_000))
    file.unlink()
    assert used(path) == COMPILED
    assert [p.name for p in kept(folder)] == [file.name, "old0.machine"]
    os.utime(file, (1, 1))
    assert used(path) == FOUND
    assert file.stat().st_mtime > 1e9  # used now


def test_one_thread_compiles_for_all(emit: Callable[[str], Path]) -> None:
    import threading

    module, made = fresh(emit(SUM.format(1.0)))
    results: list[float] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(module.value_and_gradients(X)[0].y)
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [5.0] * 6
    assert made == COMPILED

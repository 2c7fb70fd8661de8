"""The package as it is installed: the wheel has the templates, and both ways of installing work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import gradc

ROOT = Path(gradc.__file__).resolve().parent.parent
PACKAGES = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
OUTSIDE = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
TEXT = "x: float[N]\ny = sum(x**2)\ndifferentiate(y, [x])\nreturn y\n"


def pip(python: Path, *arguments: str) -> None:
    """Run this interpreter's pip for the interpreter of an environment, without a network."""
    subprocess.run(
        [
            *[sys.executable, "-m", "pip", "--python", str(python)],
            *["--disable-pip-version-check", "--no-input", *arguments],
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the package is built from."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("gradc", "templates"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            *[
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--no-deps",
                "--no-build-isolation",
            ],
            *["--disable-pip-version-check", "-q", "-w", str(folder), str(source)],
        ],
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def environment(folder: Path) -> Path:
    """The folder of the scripts of a fresh environment."""
    venv.create(folder, with_pip=False)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def python_of(scripts: Path) -> Path:
    return scripts / ("python.exe" if os.name == "nt" else "python")


def find_also(folder: Path, *paths: Path | str) -> None:
    """Let an environment find, after all its own, what is at `paths`."""
    site = Path(sysconfig.get_paths("venv", vars={"base": str(folder)})["purelib"])
    (site / "more.pth").write_text("".join(f"{path}\n" for path in paths))


def emitted(command: list[str], folder: Path) -> str:
    """What the command makes of a graph, away from the repository."""
    (folder / "a.gc").write_text(TEXT)
    return subprocess.run(
        [*command, "compile", "a.gc", "-o", "-"],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env=OUTSIDE,
    ).stdout


def home(python: Path, folder: Path) -> Path:
    """Where an environment finds gradc."""
    code = "import gradc; print(gradc.__file__)"
    return Path(
        subprocess.run(
            [str(python), "-c", code],
            check=True,
            capture_output=True,
            text=True,
            cwd=folder,
            env=OUTSIDE,
        ).stdout.strip()
    )


def test_the_wheel_has_all_modules_and_templates(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    modules = {
        p.relative_to(ROOT).as_posix()
        for p in (ROOT / "gradc").rglob("*")
        if p.suffix == ".py" or p.name == "py.typed"
    }
    templates = {
        f"gradc/{p.relative_to(ROOT).as_posix()}"
        for p in (ROOT / "templates").rglob("*.j2")
    }
    assert modules | templates <= names
    assert {n for n in names if ".dist-info/" not in n} == modules | templates
    assert f"\nVersion: {gradc.__version__}\n" in text
    assert "\nLicense-Expression: MIT\n" in text


def test_installed_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    scripts = environment(tmp_path / "env")
    pip(python_of(scripts), "install", "--no-deps", "--no-index", str(wheel))
    find_also(tmp_path / "env", *PACKAGES)
    assert (tmp_path / "env") in home(python_of(scripts), tmp_path).parents
    assert emitted([str(scripts / "gradc")], tmp_path) == gradc.emit(tmp_path / "a.gc")


def test_editable(source: Path, tmp_path: Path) -> None:
    """An editable install puts the source's folder on the path: templates are beside gradc/."""
    python = python_of(environment(tmp_path / "env"))
    find_also(tmp_path / "env", source, *PACKAGES)
    assert source in home(python, tmp_path).parents
    assert emitted([str(python), "-m", "gradc"], tmp_path) == gradc.emit(
        tmp_path / "a.gc"
    )

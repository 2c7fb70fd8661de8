"""Constants from files: what is read, and what is refused."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gradc.errors import GradcErrors, SourceError
from gradc.frontends import gc_load
from gradc.frontends.gc import parse
from gradc.frontends.gc_load import load_array

ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(4, dtype=">i4"),
    np.array([True, False]),
    np.float32(3.5),
    np.zeros((0, 3)),
    np.array([1 + 2j]),
    np.array([np.nan, np.inf]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_arrays(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", a=array)
    np.savez_compressed(tmp_path / "b.npz", b=array, c=array)
    for found in (
        load_array(tmp_path, "a.npy", None),
        load_array(tmp_path, "a.npz", None),
        load_array(tmp_path, "a.npz", "a"),
        load_array(tmp_path, "b.npz", "c"),
    ):
        np.testing.assert_array_equal(found, array)
        assert found.dtype == np.asarray(array).dtype.newbyteorder("=")
        assert found.shape == np.shape(array)


def test_in_the_language(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", W=np.ones((4, 2)), b=np.float32([1, 2]))
    graph = parse(
        'x: float[N, 4]\nW: float[4, 2] = load("w.npz", "W")\nb = load("w.npz", key="b")\n'
        'k: float[4, M] = input(load("w.npz", "W"))\nreturn x @ W + b, k',
        "m.gc",
        folder=tmp_path,
    )
    assert graph.names["W"].attrs.value.origin == 'load("w.npz", "W")'
    text = str(graph)
    assert 'W = load("w.npz", "W")' in text
    assert str(parse(text, "m.gc", folder=tmp_path)) == text


def test_float_takes_what_the_compiler_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.ones(3))
    text = 'w: float[3] = load("w.npy")\nreturn w'
    graph = parse(text, folder=tmp_path, default_float="float32")
    assert str(graph.names["w"].type) == "float32[3]"
    assert graph.names["w"].attrs.value.array.dtype == np.float32
    with pytest.raises(
        GradcErrors, match=r"w is declared float32\[3\], its value is float64\[3\]"
    ):
        parse(text.replace("float[", "float32["), folder=tmp_path)
    with pytest.raises(
        GradcErrors, match="w is declared float32.*its default is float64"
    ):
        parse('w: float32[3] = input(load("w.npy"))\nreturn w', folder=tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../a.npy",
        "/a.npy",
        "x/../../a.npy",
        "C:\\a.npy",
        "..\\a.npy",
        "\\\\host\\a.npy",
        "a\0.npy",
    ],
)
def test_no_path_leaves_the_folder(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(SourceError) as caught:
        load_array(inner, name, None)
    assert caught.value.code == "outside-folder"


def test_no_link_leaves_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(inner / "b.npy", np.ones(2))
    (inner / "link.npy").symlink_to(tmp_path / "a.npy")
    (inner / "up").symlink_to(tmp_path)
    (inner / "own.npy").symlink_to(inner / "b.npy")
    for name in ("link.npy", "up/a.npy"):
        with pytest.raises(SourceError) as caught:
            load_array(inner, name, None)
        assert caught.value.code == "outside-folder"
    assert load_array(inner, "own.npy", None).shape == (2,)


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    for name in ("folder.npy", "pipe.npy", "none.npy"):
        with pytest.raises(SourceError, match="no file"):
            load_array(tmp_path, name, None)
    with pytest.raises(SourceError, match="load needs a folder"):
        load_array(None, "a.npy", None)
    with pytest.raises(SourceError, match=r"only \.npy and \.npz"):
        load_array(tmp_path, "a.pkl", None)


class Evil:
    """Would make a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.path,))


def test_pickles_are_never_read(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    array = np.array([Evil(mark)], dtype=object)
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    np.savez(tmp_path / "a.npz", a=array)
    (tmp_path / "raw.npy").write_bytes(pickle.dumps(Evil(mark)))
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Evil(mark)))
    for name in ("a.npy", "a.npz", "raw.npy", "raw.npz"):
        with pytest.raises(SourceError):
            load_array(tmp_path, name, None)
    assert not mark.exists()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "no array in NumPy's format"),
        (b"\x93NUMPY\x09\x00", "no array in NumPy's format"),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}"),
            "its header says 24",
        ),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (10**9, 10**9)}"),
            "no array",
        ),
        (
            header(
                "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 9999999999)}"
            ),
            "is damaged: its header says",
        ),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
            "no array",
        ),
        (
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}"),
            "no array",
        ),
        (
            header("{'descr': '|O', 'fortran_order': False, 'shape': ()}"),
            "needs pickle",
        ),
        (
            header("{'descr': '<U3', 'fortran_order': False, 'shape': ()}") + b"0" * 12,
            "has dtype",
        ),
        (
            header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': ()}"),
            "has dtype",
        ),
        (header("__import__('os')"), "no array"),
        (header("[" * 5000), "no array"),
        (header("{}"), "no array"),
        (
            header("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}")
            + b"\x01\x02",
            "a bool",
        ),
    ],
    ids=range(14),
)
def test_damaged_arrays(tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(SourceError, match=expected):
        load_array(tmp_path, "a.npy", None)


def test_damaged_archives(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(1000.0))
    whole = buffer.getvalue()
    for cut in range(0, len(whole), 97):
        (tmp_path / "a.npz").write_bytes(whole[:cut])
        with pytest.raises(SourceError):
            load_array(tmp_path, "a.npz", "a")
    for at in range(0, len(whole), 53):
        (tmp_path / "a.npz").write_bytes(
            whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        )
        try:
            found = load_array(tmp_path, "a.npz", "a")
        except SourceError:
            continue
        np.testing.assert_array_equal(found, np.arange(1000.0))


def test_a_header_that_lies_allocates_nothing(tmp_path: Path) -> None:
    """A member that says it is 1 TB gives an error, not a buffer of that size."""
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header(text))
    with pytest.raises(SourceError, match="is damaged"):
        load_array(tmp_path, "a.npz", "a")


def test_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_load, "MAX_BYTES", 100)
    np.save(tmp_path / "a.npy", np.ones(13))
    with pytest.raises(SourceError, match="has 104 bytes, at most 100 are read"):
        load_array(tmp_path, "a.npy", None)


def test_names_in_archives(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.ones(1), b=np.ones(2))
    with pytest.raises(SourceError, match="holds a, b: say which"):
        load_array(tmp_path, "a.npz", None)
    with pytest.raises(SourceError, match="holds no 'c', it holds a, b"):
        load_array(tmp_path, "a.npz", "c")
    with pytest.raises(SourceError, match="holds one array, which has no name"):
        np.save(tmp_path / "a.npy", np.ones(1))
        load_array(tmp_path, "a.npy", "a")


def test_float_defaults_take_what_the_compiler_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.ones(3))
    text = 'w: float[3] = input(load("w.npy"))\nreturn w'
    (w,) = parse(text, folder=tmp_path, default_float="float32").inputs
    assert w.attrs.default.array.dtype == np.float32

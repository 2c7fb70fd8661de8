"""The store of compiled modules."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from gradc.errors import OptionError
from gradc.runtime import cache
from gradc.runtime.cache import Store, Stored

LIMIT = 10**6
SOURCE = '"""Ünïcode."""\nvalue = 1\n'
KEY, NAME = "k" * 40, "gradc_test"
ABOUT = {"graph": "test", "target": "numpy"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", LIMIT)


def put(store: Store, key: str = KEY, source: str = SOURCE) -> Stored:
    found = store.put(key, NAME, source, ABOUT)
    assert found is not None
    return found


def value(stored: Stored | None) -> object:
    assert stored is not None
    scope: dict[str, object] = {}
    exec(stored.code, scope)  # noqa: S102
    return scope["value"]


def test_what_is_put_is_found(store: Store) -> None:
    assert store.get(KEY, NAME) is None
    made = put(store)
    assert made.path.read_text(encoding="utf-8") == made.source == SOURCE
    assert made.path == store.folder / "modules" / KEY / f"{NAME}.py"
    found = Store(store.folder, LIMIT).get(KEY, NAME)
    assert found is not None
    assert (found.path, found.source) == (made.path, SOURCE)
    assert found.code.co_filename == str(made.path)
    assert value(found) == value(made) == 1
    assert store.get("l" * 40, NAME) is None
    assert store.get(KEY, "another_name") is None


def test_an_entry_under_another_key_is_not_taken(store: Store) -> None:
    made = put(store)
    made.path.parent.rename(made.path.parent.with_name("l" * 40))
    assert store.get("l" * 40, NAME) is None


def test_every_damage_of_an_entry_is_seen(store: Store) -> None:
    entry = put(store).path.with_name("entry")
    content = entry.read_bytes()
    for k in range(len(content)):
        entry.write_bytes(content[:k])
        assert store.get(KEY, NAME) is None, f"cut at {k}"
        entry.write_bytes(content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :])
        assert store.get(KEY, NAME) is None, f"byte {k}"
    entry.write_bytes(content + b"\0")
    assert store.get(KEY, NAME) is None
    assert value(put(store)) == 1
    assert value(store.get(KEY, NAME)) == 1


def test_the_text_is_written_anew(store: Store) -> None:
    path = put(store).path
    for damage in (lambda: path.write_text("value = 2"), path.unlink):
        damage()
        assert value(store.get(KEY, NAME)) == 1
        assert path.read_text(encoding="utf-8") == SOURCE


def test_a_folder_that_was_moved(store: Store, tmp_path: Path) -> None:
    put(store)
    assert store.folder is not None
    moved = Store(store.folder.rename(tmp_path / "moved"), LIMIT)
    found = moved.get(KEY, NAME)
    assert found is not None and value(found) == 1
    assert found.code.co_filename == str(found.path)
    assert found.path.parent.parent.parent == tmp_path / "moved"


@pytest.mark.skipif(os.name != "posix", reason="modes and owners are POSIX's")
def test_folders_are_private(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.umask(0)
    try:
        path = put(store).path
    finally:
        os.umask(old)
    folders = [path.parent, path.parent.parent, path.parent.parent.parent]
    assert [stat.S_IMODE(f.stat().st_mode) for f in folders] == [0o700] * 3
    path.parent.chmod(0o777)
    put(store)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(PermissionError, match="no folder of this user's"):
        put(store)
    if user != 0:  # root's files are taken by everybody
        assert store.get(KEY, NAME) is None


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_is_no_folder(store: Store, tmp_path: Path) -> None:
    assert store.folder is not None
    store.folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (store.folder / "modules").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        put(store)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_folder() -> None:
    store = Store(None, LIMIT)
    assert store.get(KEY, NAME) is None
    with pytest.raises(OSError, match="there is no home folder"):
        put(store)
    with store.turn(KEY):
        pass
    assert store.kept() == store.problems() == []
    store.trim()


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "cache", LIMIT)
    assert store.get(KEY, NAME) is None
    with pytest.raises(OSError):
        put(store)
    with store.turn(KEY):
        pass


def test_a_disk_that_is_full(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            put(store)
    folder = store.folder / "modules" / KEY
    assert [p.name for p in folder.iterdir()] == []
    assert value(put(store)) == 1


def test_what_killed_writers_leave_is_deleted(store: Store) -> None:
    folder = put(store).path.parent
    (folder / ".new-abc").write_text("half")
    put(store)
    assert sorted(p.name for p in folder.iterdir()) == ["entry", f"{NAME}.py"]


# ------------------------------------------------------------------------------ size


def test_the_least_recently_used_go_first(store: Store) -> None:
    size = 0
    for k in range(5):
        entry = put(store, str(k) * 40).path.with_name("entry")
        size = sum(p.stat().st_size for p in entry.parent.iterdir())
        os.utime(entry, (k, k))
    machine = store.folder / "machine"
    machine.mkdir()
    for k in (0, 3):
        (machine / f"{k}.machine").write_bytes(bytes(size))
        os.utime(machine / f"{k}.machine", (k + 0.5, k + 0.5))
    assert store.get("0" * 40, NAME) is not None  # used now
    store.limit = 4 * size
    put(store, "5" * 40)
    kept = [k.path.name[0] for k in store.kept()]
    assert sorted(kept) == ["0", "3", "4", "5"]
    assert (machine / "3.machine").exists()
    assert sum(k.size for k in store.kept()) <= 4 * size


def test_what_is_larger_than_the_store_is_not_kept(store: Store) -> None:
    store.limit = 10
    assert store.put(KEY, NAME, SOURCE, ABOUT) is None
    assert store.kept() == []


def test_the_latest_is_kept_with_machine_code_above_the_limit(store: Store) -> None:
    path = put(store).path
    (path.parent / "__pycache__").mkdir()
    (path.parent / "__pycache__" / "a.machine").write_bytes(bytes(LIMIT))
    assert value(put(store)) == 1
    assert store.get(KEY, NAME) is not None
    put(store, "l" * 40)
    assert store.get(KEY, NAME) is None


def test_kept_and_delete(store: Store) -> None:
    path = put(store).path
    (kept,) = store.kept()
    assert kept.path == path.parent
    assert kept.about == {**ABOUT, "key": KEY, "name": NAME, "path": str(path)}
    assert kept.size == sum(p.stat().st_size for p in path.parent.iterdir())
    assert abs(kept.used - time.time()) < 60
    assert store.delete(kept.path) and store.kept() == []
    assert store.delete(kept.path)  # again


def test_problems(store: Store) -> None:
    path = put(store).path
    entry, machine = path.with_name("entry"), path.parent / "__pycache__"
    machine.mkdir()
    (machine / "a.machine").write_bytes(
        cache.hashlib.sha256(b"code").digest() + b"code"
    )
    assert store.problems() == []
    (machine / "a.machine").write_bytes(bytes(40))
    (machine / "a.machine.123").write_bytes(b"")
    (path.parent / ".new-x").write_bytes(b"")
    path.write_text("value = 2")
    assert store.problems() == [
        (path, "not the text it should be"),
        (machine / "a.machine", "damaged"),
    ]
    for left in (path.parent / ".new-x", machine / "a.machine.123"):
        os.utime(left, (0, 0))
    assert (path.parent / ".new-x", cache.LEFT) in store.problems()
    assert (machine / "a.machine.123", cache.LEFT) in store.problems()
    entry.write_bytes(b"")
    assert (entry, "damaged") in store.problems()
    entry.unlink()
    os.utime(path.parent, (0, 0))
    assert (path.parent, cache.LEFT) in store.problems()


# ------------------------------------------------------------------------- where it is


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {"HOME": "/home/a"}, "/home/a/.cache/gradc"),
        ("linux", {"HOME": "/home/a", "XDG_CACHE_HOME": "/x"}, "/x/gradc"),
        ("linux", {"HOME": "/home/a", "XDG_CACHE_HOME": "x"}, None),
        ("linux", {"HOME": "a"}, None),
        ("darwin", {"HOME": "/home/a"}, "/home/a/Library/Caches/gradc"),
        ("win32", {"HOME": "/home/a", "LOCALAPPDATA": "/local"}, "/local/gradc"),
        ("linux", {"HOME": "/home/a", "GRADC_CACHE_DIR": "/c"}, "/c"),
        ("linux", {"HOME": "a", "GRADC_CACHE_DIR": "c"}, "CURRENT/c"),
    ],
)
def test_of_an_environment(
    platform: str,
    environment: dict[str, str],
    folder: str | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.setattr(cache.sys, "platform", platform)
    found = Store.of(environment).folder
    wanted = None if folder is None else folder.replace("CURRENT", str(tmp_path))
    assert found == (None if wanted is None else Path(wanted))


def test_the_limit_of_an_environment() -> None:
    assert Store.of({}).limit == 2**30
    assert Store.of({"GRADC_CACHE_MAX_BYTES": "0"}).limit == 0
    for wrong in ("1GB", "-1", "1.5"):
        with pytest.raises(OptionError) as caught:
            Store.of({"GRADC_CACHE_MAX_BYTES": wrong})
        assert caught.value.message == (
            f"GRADC_CACHE_MAX_BYTES: expected a number of bytes, found {wrong!r}"
        )

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from millstream.errors import DamagedError, FormatError, StorageError, StorageFullError
from millstream.foundation import storage
from millstream.foundation.file_lock import FileLock
from millstream.foundation.storage import Environment, make_private_directory, open_environment
from millstream.foundation.storage_errors import storage_error

MEGABYTE = 1 << 20


UNNAMED: Any = None
"""The unnamed database of an environment."""


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Environment]:
    opened = open_environment(tmp_path / "env")
    yield opened
    opened.close()


def put(env: Environment, key: bytes, value: bytes) -> None:
    env.update(lambda txn: txn.put(key, value, db=UNNAMED))


def get(env: Environment, key: bytes) -> bytes | None:
    with env.read() as txn:
        return txn.get(key, db=UNNAMED)


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


# ---- directories ----


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    make_private_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_a_world_writable_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(StorageError, match="is world-writable; run: chmod 700"):
        open_environment(tmp_path / "open")


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(StorageError, match="belongs to another user"):
        make_private_directory(tmp_path)


def test_a_file_instead_of_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot use"):
        open_environment(tmp_path / "file")


def test_a_file_system_that_is_read_only_is_reported_without_numbers_and_paths_of_the_system(tmp_path: Path) -> None:
    error = storage_error(OSError(errno.EROFS, "Read-only file system", str(tmp_path)), tmp_path)
    assert str(error).startswith(f"cannot use {str(tmp_path)!r}: Read-only file system; check ")
    error = storage_error(lmdb.ReadonlyError(f"{tmp_path}: Read-only file system"), tmp_path)
    assert str(error).startswith(f"cannot use {str(tmp_path)!r}: Read-only file system; check ")
    error = storage_error(PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "below")), tmp_path)
    assert str(error).startswith(
        f"cannot use {str(tmp_path)!r}: Permission denied: {str(tmp_path / 'below')!r}; check "
    )


# ---- environments ----


def test_equivalent_paths_share_one_environment_per_process(env: Environment) -> None:
    assert open_environment(env.path / ".." / env.path.name) is env


def test_a_newer_format_is_refused_every_time(env: Environment) -> None:
    put(env, b"millstream-format", b"999")
    env.close()
    for _ in range(2):
        with pytest.raises(FormatError, match="has format 999, but this version supports up to 2; upgrade"):
            open_environment(env.path)


def test_committed_data_survives_reopening(env: Environment) -> None:
    put(env, b"k", b"v")
    env.close()
    assert get(open_environment(env.path), b"k") == b"v"


def test_a_block_that_raises_changes_nothing(env: Environment) -> None:
    put(env, b"k", b"old")

    def fail(txn: Any) -> None:
        txn.put(b"k", b"new")
        txn.put(b"other", b"new")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        env.update(fail)
    assert (get(env, b"k"), get(env, b"other")) == (b"old", None)


def test_a_reader_sees_a_consistent_snapshot(env: Environment) -> None:
    put(env, b"k", b"old")
    with env.read() as txn:
        put(env, b"k", b"new")
        assert txn.get(b"k", db=UNNAMED) == b"old"
    assert get(env, b"k") == b"new"


def test_databases_can_be_added_later(env: Environment) -> None:
    same = open_environment(env.path, ("later",))
    same.update(lambda txn: txn.put(b"k", b"v", db=same.databases["later"]))
    assert (get(env, b"k"), "later" in env.databases) == (None, True)


# ---- growing ----


@pytest.fixture
def small_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_FIRST_MAP_BYTES", MEGABYTE)


@pytest.mark.usefixtures("small_map")
def test_a_map_grows_with_what_is_written(env: Environment) -> None:
    for number in range(20):
        put(env, b"%d" % number, bytes(MEGABYTE))
    assert env.bytes_used() > 20 * MEGABYTE
    assert all(get(env, b"%d" % number) == bytes(MEGABYTE) for number in range(20))


@pytest.mark.usefixtures("small_map")
def test_a_change_larger_than_the_map_runs_again(env: Environment) -> None:
    runs = []

    def change(txn: Any) -> None:
        runs.append(txn)
        for number in range(5):
            txn.put(b"%d" % number, bytes(MEGABYTE))

    env.update(change)
    assert (len(runs) > 1, get(env, b"4")) == (True, bytes(MEGABYTE))


@pytest.mark.usefixtures("small_map")
def test_growth_waits_for_readers_of_this_process(env: Environment) -> None:
    put(env, b"k", b"v" * 1000)
    with env.read(buffers=True) as txn:
        view: Any = txn.get(b"k", db=UNNAMED)
        writer = threading.Thread(target=put, args=(env, b"big", bytes(8 * MEGABYTE)))
        writer.start()
        writer.join(0.5)  # enough time to fail
        assert writer.is_alive()
        assert bytes(view) == b"v" * 1000
    writer.join()
    assert get(env, b"big") == bytes(8 * MEGABYTE)


@pytest.mark.usefixtures("small_map")
def test_a_map_grown_by_another_process_is_adopted(env: Environment) -> None:
    program = """if True:
        import pathlib, sys
        from millstream.foundation.storage import open_environment
        env = open_environment(pathlib.Path(sys.argv[1]))
        for number in range(10):
            env.update(lambda txn: txn.put(b"%d" % number, bytes(1 << 20)))
    """
    assert run(program, env.path).stderr == ""
    assert get(env, b"9") == bytes(MEGABYTE)
    put(env, b"mine", b"v")
    assert get(env, b"mine") == b"v"


# ---- processes ----


def test_a_forked_child_gets_its_own_environment(tmp_path: Path) -> None:
    program = """if True:
        import os, pathlib, sys
        from millstream.foundation.storage import open_environment
        path = pathlib.Path(sys.argv[1])
        parent = open_environment(path)
        parent.update(lambda txn: txn.put(b"parent", b"1"))
        if os.fork() == 0:
            child = open_environment(path)
            child.update(lambda txn: txn.put(b"child", b"2"))
            os._exit(0 if child is not parent else 1)
        assert os.wait()[1] == 0
        with parent.read() as txn:
            assert (txn.get(b"parent"), txn.get(b"child")) == (b"1", b"2")
        parent.update(lambda txn: txn.put(b"parent", b"3"))
    """
    assert run(program, tmp_path / "env").stderr == ""


def test_a_child_forked_in_the_middle_of_a_read_is_refused(tmp_path: Path) -> None:
    program = """if True:
        import os, pathlib, sys
        from millstream.foundation.storage import open_environment
        path = pathlib.Path(sys.argv[1])
        with open_environment(path).read():
            if os.fork() == 0:
                try:
                    open_environment(path)
                except OSError as error:
                    print(error, flush=True)
                os._exit(0)
            os.wait()
    """
    assert "was being read; start processes with spawn" in run(program, tmp_path / "env").stdout


@pytest.mark.crash
def test_only_the_commits_of_a_killed_writer_survive(env: Environment) -> None:
    program = """if True:
        import os, pathlib, sys
        from millstream.foundation.storage import open_environment
        env = open_environment(pathlib.Path(sys.argv[1]))
        env.update(lambda txn: txn.put(b"done", b"1"))
        with env.write() as txn:
            txn.put(b"half", b"1")
            os.kill(os.getpid(), 9)
    """
    assert run(program, env.path).returncode == -9
    assert (get(env, b"done"), get(env, b"half")) == (b"1", None)
    put(env, b"next", b"1")


@pytest.mark.crash
def test_the_readers_of_a_killed_process_are_cleared(env: Environment) -> None:
    program = """if True:
        import os, pathlib, sys
        from millstream.foundation.storage import open_environment
        with open_environment(pathlib.Path(sys.argv[1])).read() as txn:
            os.kill(os.getpid(), 9)
    """
    assert run(program, env.path).returncode == -9
    assert env.clear_stale_readers() == 1


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "run.lock"), FileLock(tmp_path / "run.lock")
    assert (first.acquire(), second.acquire(), second.holder()) == (True, False, os.getpid())
    first.release()
    assert second.acquire()
    second.release()


@pytest.mark.crash
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    program = """if True:
        import os, pathlib, sys
        from millstream.foundation.file_lock import FileLock
        assert FileLock(pathlib.Path(sys.argv[1])).acquire()
        print("held", flush=True)
        sys.stdin.read()
    """
    lock = FileLock(tmp_path / "run.lock")
    with subprocess.Popen(
        [sys.executable, "-c", program, str(lock.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert (lock.acquire(), lock.holder()) == (False, process.pid)
        process.kill()
        process.wait()
    assert lock.acquire()
    lock.release()


# ---- a full disk ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_raises_an_error_and_loses_nothing(small_disk: Path) -> None:
    env = open_environment(small_disk / "env")
    put(env, b"k", b"v")
    filler = small_disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(4 * MEGABYTE))
    with pytest.raises(StorageFullError, match="no space left for"):
        put(env, b"big", bytes(MEGABYTE))
    assert (get(env, b"k"), get(env, b"big")) == (b"v", None)
    filler.unlink()
    put(env, b"big", bytes(MEGABYTE))
    assert get(env, b"big") == bytes(MEGABYTE)
    env.close()


def test_an_environment_whose_files_were_replaced_is_opened_again(tmp_path: Path) -> None:
    first = open_environment(tmp_path / "e", ("a",))
    first.update(lambda txn: txn.put(b"k", b"old", db=first.databases["a"]))
    shutil.rmtree(tmp_path / "e")

    second = open_environment(tmp_path / "e", ("a",))

    with second.read() as txn:
        assert txn.get(b"k", db=second.databases["a"]) is None
    second.close()


# ---- content ----


@pytest.mark.parametrize("readonly", [False, True])
def test_an_environment_that_holds_something_else_is_refused(tmp_path: Path, readonly: bool) -> None:
    open_environment(tmp_path / "a", ("rows",), content="a topic").close()
    with pytest.raises(DamagedError, match="it holds a topic, not a journal: another file is in its position"):
        open_environment(tmp_path / "a", ("rows",), content="a journal", readonly=readonly)
    opened = open_environment(tmp_path / "a", ("rows",), content="a topic", readonly=readonly)
    with pytest.raises(DamagedError, match="it holds a topic"):
        open_environment(tmp_path / "a", content="a journal", readonly=True)  # also while it is open
    opened.close()


def test_an_environment_of_an_earlier_version_is_what_it_is_first_opened_for(tmp_path: Path) -> None:
    open_environment(tmp_path / "a", ("rows",)).close()
    open_environment(tmp_path / "a", ("rows",), content="a topic", readonly=True).close()
    opened = open_environment(tmp_path / "a", ("rows",), content="a journal")
    assert opened.stored_content() == "a journal"
    opened.close()

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.running import run_to_end

from millstream import App
from millstream.admin.savepoints import (
    create_savepoint,
    delete_savepoint,
    finish_restore,
    restore_savepoint,
    savepoints_of,
)
from millstream.batch.batch_lock import BatchLock
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.errors import DamagedError, InvalidNameError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.file_lock import FileLock
from millstream.foundation.paths import app_dir, app_names, journal_dir, lock_file
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.tables.opening import open_tables

Feed = Callable[..., None]


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    """Send words to an app that counts them, and run it."""
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("words", TopicConfig(partitions=2))
        log.create_topic("out", TopicConfig(partitions=1))

    def feed(*words: str) -> None:
        with EmbeddedLog(tmp_path) as log:
            raw = [word.encode() for word in words]
            log.append([Output("words", 0, block_of(raw, raw, [0] * len(raw)))])
        app = App("test", data_dir=tmp_path)
        app.stream("words", value=str).group_by(lambda word: word).count(name="seen").to_stream().to("out")
        run_to_end(app)

    yield feed
    close_environments(tmp_path)


def counts(directory: Path) -> dict[str, int]:
    return dict(open_tables(directory, "test")["seen"].items())


def output_values(directory: Path) -> list[bytes]:
    with EmbeddedLog(directory) as log:
        (offsets,) = log.offsets("out")
        return [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]


def test_an_app_continues_from_a_restored_savepoint(feed: Feed, tmp_path: Path) -> None:
    feed("a", "b")
    savepoint = create_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
    assert (savepoint.batch, savepoint.positions["words/0"]) == (1, 2)
    feed("a", "c")
    assert counts(tmp_path) == {"a": 2, "b": 1, "c": 1}
    close_environments(tmp_path)

    restore_savepoint(tmp_path, "test", "monday", tmp_path / "saved")

    assert counts(tmp_path) == {"a": 1, "b": 1}
    close_environments(tmp_path)
    feed("d")
    assert counts(tmp_path) == {"a": 2, "b": 1, "c": 1, "d": 1}
    assert sorted(output_values(tmp_path)) == sorted(
        [b"1", b"1", b"2", b"1", b"2", b"1", b"1"]
    )  # output after the savepoint is repeated


def test_a_savepoint_waits_for_the_current_batch_and_contains_no_later_ones(feed: Feed, tmp_path: Path) -> None:
    feed("a")
    lock = BatchLock(app_dir(tmp_path, "test"))
    created = threading.Event()

    def create() -> None:
        create_savepoint(tmp_path, "test", "during", tmp_path / "saved")
        created.set()

    thread = threading.Thread(target=create)
    with lock.shared():
        thread.start()
        assert not created.wait(0.3)
    assert created.wait(30)
    thread.join()
    feed("a")
    close_environments(tmp_path)
    restore_savepoint(tmp_path, "test", "during", tmp_path / "saved")
    assert counts(tmp_path) == {"a": 1}


def test_no_batch_starts_while_the_batch_lock_is_held_exclusively(tmp_path: Path) -> None:
    exclusive, batch = BatchLock(tmp_path), BatchLock(tmp_path)
    started = threading.Event()

    def run_batch() -> None:
        with batch.shared():
            started.set()

    thread = threading.Thread(target=run_batch)
    with exclusive.exclusive():
        thread.start()
        assert not started.wait(0.1)
    assert started.wait(30)
    thread.join()
    with batch.shared(), pytest.raises(StateError, match="does not end"), exclusive.exclusive(patience=0.05):
        pass


def test_savepoints_are_listed_and_deleted_by_name(feed: Feed, tmp_path: Path) -> None:
    feed("a")
    directory = tmp_path / "saved"
    for name in ("one", "two"):
        create_savepoint(tmp_path, "test", name, directory)
    assert [savepoint.name for savepoint in savepoints_of(directory, "test")] == ["one", "two"]
    with pytest.raises(StateError, match="app 'test' already has a savepoint 'one'"):
        create_savepoint(tmp_path, "test", "one", directory)
    with pytest.raises(InvalidNameError):
        create_savepoint(tmp_path, "test", "../out", directory)
    delete_savepoint(directory, "test", "one")
    assert [savepoint.name for savepoint in savepoints_of(directory, "test")] == ["two"]
    with pytest.raises(StateError, match="app 'test' has no savepoint 'one'; its savepoints: two"):
        delete_savepoint(directory, "test", "one")


def test_a_running_app_cannot_be_restored(feed: Feed, tmp_path: Path) -> None:
    feed("a")
    create_savepoint(tmp_path, "test", "one", tmp_path / "saved")
    lock = FileLock(lock_file(tmp_path, "test"))
    assert lock.acquire()
    with pytest.raises(StateError, match="app 'test' is running"):
        restore_savepoint(tmp_path, "test", "one", tmp_path / "saved")
    lock.release()
    assert counts(tmp_path) == {"a": 1}


def test_a_failed_copy_leaves_no_files(feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed("a")

    def fail(*_: object) -> None:
        raise StateError("no")

    monkeypatch.setattr("millstream.foundation.storage.Environment.copy", fail)
    with pytest.raises(StateError, match="no"):
        create_savepoint(tmp_path, "test", "one", tmp_path / "saved")
    assert list((tmp_path / "saved" / "test").iterdir()) == []
    assert app_names(tmp_path) == ["test"]
    assert Journal(journal_dir(tmp_path, "test")).read()[0].done == 1


class Killed(BaseException):
    """Stands for the end of the process: it skips the error handling that a kill skips."""


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "renames"])
@pytest.mark.parametrize("step", range(12))
def test_a_kill_at_any_step_of_a_restore_leaves_the_old_or_the_new_state(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, can_exchange: bool
) -> None:
    feed("a")
    create_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
    feed("a")
    close_environments(tmp_path)
    steps = iter(range(100))
    rename, copytree, rmtree = Path.rename, shutil.copytree, shutil.rmtree

    def stop_before(call: Callable[..., object]) -> Callable[..., object]:
        def called(*args: object, **options: object) -> object:
            if next(steps) >= step:  # a dead process does not clean up either
                raise Killed
            return call(*args, **options)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stop_before(rename))
        patch.setattr(shutil, "copytree", stop_before(copytree))
        patch.setattr(shutil, "rmtree", stop_before(rmtree))
        if not can_exchange:
            patch.setattr("millstream.admin.savepoints.try_exchange", lambda *_: False)
        try:
            restore_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
            was_killed = False
        except Killed:
            was_killed = True
    close_environments(tmp_path)
    finish_restore(tmp_path, "test")
    assert counts(tmp_path) in ([{"a": 1}, {"a": 2}] if was_killed else [{"a": 1}])
    close_environments(tmp_path)
    restore_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
    assert counts(tmp_path) == {"a": 1}


def test_a_damaged_savepoint_is_not_restored(feed: Feed, tmp_path: Path) -> None:
    feed("a")
    create_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
    close_environments(tmp_path)
    data = next((tmp_path / "saved" / "test" / "monday" / "state").rglob("data.mdb"))
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(DamagedError):
        restore_savepoint(tmp_path, "test", "monday", tmp_path / "saved")
    assert counts(tmp_path) == {"a": 1}

"""The journal in a checkpoint: files that are created once, runs that fence each other, and copies that are old."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.batch.journal_files import JournalFiles
from millstream.batch.shared_journal import Owner
from millstream.errors import DamagedError, FencedError, StateError, StorageError
from millstream.foundation.file_systems import create_once
from millstream.foundation.storage import close_environments


class Hosts:
    """Hosts with their own disks and one checkpoint."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = directory / "checkpoint" / "app" / "journal"

    def open(self, host: str) -> Journal:
        """Open the journal on a host, without taking it over."""
        files = JournalFiles(str(self.directory / "checkpoint"), "app", Owner.new())
        return Journal(self.directory / host, durable=False, changelog=files)

    def start(self, host: str) -> Journal:
        journal = self.open(host)
        journal.take_over()
        return journal

    def numbers(self) -> list[int]:
        return sorted(int(path.stem) for path in self.files.glob("*.journal"))


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    yield Hosts(tmp_path)
    close_environments(tmp_path)


def done(journal: Journal) -> int:
    return journal.read()[0].done


def advance(journal: Journal, batches: int = 1) -> None:
    for _ in range(batches):
        journal.write(Progress(done=done(journal) + 1), None)


@pytest.mark.parametrize("batches", [1, 48, 49, 50, 51, 130])
def test_a_host_with_an_empty_disk_reads_what_another_has_written(hosts: Hosts, batches: int) -> None:
    first = hosts.start("a")
    lineage = first.lineage()
    advance(first, batches)
    second = hosts.start("b")
    assert (done(second), second.lineage()) == (batches, lineage)
    assert len(hosts.numbers()) <= 102, "old files are deleted"


@pytest.mark.parametrize("missed", [1, 60, 170])
def test_a_host_with_an_old_disk_catches_up(hosts: Hosts, missed: int) -> None:
    first = hosts.start("a")
    first.set_note(b"deleted later", b"1")
    advance(first, 3)
    second = hosts.start("b")
    second._update(lambda txn: txn.delete(b"note/deleted later", db=second._database))
    advance(second, missed)
    again = hosts.start("a")
    assert done(again) == 3 + missed
    assert again.note(b"deleted later") is None


def test_a_run_that_was_taken_over_stops_with_one_sentence(hosts: Hosts) -> None:
    first = hosts.start("a")
    advance(first)
    second = hosts.start("b")
    for _ in range(2):
        with pytest.raises(
            FencedError, match=r"^app 'app' was taken over by process \d+ on '[^']+' at [\d:]+; this run"
        ):
            advance(first)
    with pytest.raises(FencedError):
        first.look_for_takeover()
    second.look_for_takeover()
    advance(second)
    assert done(hosts.start("c")) == 2


def test_a_run_that_missed_the_deletion_of_files_cannot_create_them_again(hosts: Hosts) -> None:
    """Its next file is free again, since the files of its time were deleted; that must not count as a commit."""
    first = hosts.start("a")
    advance(first)
    second = hosts.start("b")
    advance(second, 200)
    assert hosts.numbers()[0] > 5
    with pytest.raises(FencedError):
        first.write(Progress(done=1_000), None)
    assert hosts.numbers()[0] < 5, "the file was created"
    assert done(hosts.start("c")) == 201
    second = hosts.start("b")
    advance(second, 120)
    assert hosts.numbers()[0] > 5, "it is deleted with other old files"


def test_the_processes_of_a_run_write_in_turn(hosts: Hosts) -> None:
    driver = hosts.start("a")
    advance(driver)
    assert isinstance(driver.changelog, JournalFiles)
    driver.leave()
    files = JournalFiles(driver.changelog.uri, "app", driver.changelog.owner)
    task = Journal(hosts.directory / "a", durable=False, changelog=files)
    task.join()
    advance(task, 3)
    task.leave()
    advance(driver)
    assert done(driver) == 5


def test_the_journal_of_an_app_that_had_no_checkpoint_is_uploaded(hosts: Hosts) -> None:
    local = Journal(hosts.directory / "a", durable=False)
    advance(local, 7)
    hosts.start("a")
    assert done(hosts.start("b")) == 7


def test_a_restored_savepoint_replaces_the_journal_in_the_checkpoint(hosts: Hosts) -> None:
    first = hosts.start("a")
    first.set_note(b"later", b"1")
    advance(first, 5)
    restored = Journal(hosts.directory / "b", durable=False)
    advance(restored, 2)
    restored.start_lineage()
    second = hosts.start("b")
    assert (done(second), second.note(b"later")) == (2, None)
    third = hosts.start("c")
    assert (done(third), third.note(b"later")) == (2, None)


@pytest.mark.parametrize("response", ["an error", "it exists"])
def test_a_commit_whose_response_was_lost_is_found(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch, response: str
) -> None:
    journal = hosts.start("a")
    lost = [response]

    def create(*arguments: Any) -> bool:
        is_created = create_once(*arguments)
        if not lost:
            return is_created
        if lost.pop() == "an error":
            raise OSError("no response")
        return False

    monkeypatch.setattr("millstream.batch.journal_files.create_once", create)
    if response == "an error":
        with pytest.raises(StorageError, match="cannot be read or written: no response"):
            advance(journal)
    journal.write(Progress(done=1), None)
    assert done(journal) == 1
    assert done(hosts.start("b")) == 1


def test_files_that_were_deleted_or_damaged_are_noticed(hosts: Hosts) -> None:
    journal = hosts.start("a")
    advance(journal, 4)
    last = max(hosts.files.glob("*.journal"))
    content = last.read_bytes()
    last.write_bytes(content[:-1] + b"x")
    with pytest.raises(DamagedError, match="does not match its checksum"):
        hosts.start("b")
    last.unlink()
    with pytest.raises(StateError, match="in the checkpoint ends at file 4, but this host has read file 5"):
        hosts.start("a")
    last.write_bytes(content)
    assert done(hosts.start("a")) == 4

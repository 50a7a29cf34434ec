"""Damage to any file is an error that names it: never a crash, a raw exception or a silent difference."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.cli.running import run_to_end

from millstream import App
from millstream.admin.doctor import examine
from millstream.admin.savepoints import create_savepoint
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.errors import DamagedError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.tables.opening import open_tables
from millstream.task.changelog import ChangelogTopic

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of an app that has counted words, with a savepoint."""
    directory = tmp_path_factory.mktemp("whole")
    words = [b"word-%d" % (number % 700) for number in range(2000)]
    with EmbeddedLog(directory) as log:
        log.create_topic("words", TopicConfig(partitions=1))
        log.append([Output("words", 0, block_of(words, words, [0] * len(words)))])
    app = App("test", data_dir=directory)
    app.stream("words", value=str).group_by_key().count(name="seen")
    run_to_end(app)
    create_savepoint(directory, "test", "monday", directory / "savepoints")
    close_environments(directory)
    return directory


@pytest.fixture
def directory(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


@pytest.mark.parametrize("extent", ["few", pytest.param("all", marks=pytest.mark.slow)])
def test_damage_is_an_error_that_doctor_finds_too_or_makes_no_difference(tmp_path: Path, extent: str) -> None:
    """See damage_matrix.py; it runs in a process of its own, since it forks for every kind of damage."""
    seed = random.randrange(10**6)
    command = [sys.executable, "-m", "tests.admin.damage_matrix", str(tmp_path), extent, str(seed)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    bad = [line for line in result.stdout.splitlines() if line.startswith("BAD")]
    assert (result.returncode, bad) == (0, []), f"seed {seed}: {result.stdout[-500:]} {result.stderr}"
    assert result.stdout.count("outcome='error'") > 5


def test_state_that_is_lost_is_an_error_for_readers_of_tables(directory: Path) -> None:
    shutil.rmtree(next((directory / "apps" / "test" / "state").glob("*/0")))
    with pytest.raises(StateError, match=r"state/words/0' cannot be read: it is lost"):
        open_tables(directory, "test")
    assert [finding.problem for finding in examine(directory) if finding.problem] == ["it is lost"]


def test_with_changelogs_the_error_for_lost_state_does_not_suggest_a_reset(directory: Path) -> None:
    journal = Journal(journal_dir(directory, "test"))
    journal.remember_changelogs({"words": ChangelogTopic("test.words.changelog", "id")})
    journal.close()
    shutil.rmtree(next((directory / "apps" / "test" / "state").glob("*/0")))
    with pytest.raises(StateError, match="start it here, which restores them"):
        open_tables(directory, "test")


@pytest.mark.parametrize("older", ["log/meta", "log/topics/words"])
def test_an_older_copy_of_a_file_of_the_log_is_an_error(directory: Path, tmp_path: Path, older: str) -> None:
    copy = shutil.copy(directory / older / "data.mdb", tmp_path / "copy")
    with EmbeddedLog(directory) as log:
        log.append([Output("words", 0, block_of([b"k"], [b"later"], [0]))])
        log.commit("readers", {TopicPartition("words", 0): 5})
    shutil.copy(copy, directory / older / "data.mdb")
    with EmbeddedLog(directory) as log, pytest.raises(DamagedError, match=r"is older than|but had records up to"):
        log.offsets("words")
    assert any(finding.problem for finding in examine(directory))


def test_a_whole_directory_has_no_findings(directory: Path) -> None:
    findings = examine(directory)
    assert {finding.kind for finding in findings} == {"log", "topic", "journal", "state", "savepoint"}
    assert [finding for finding in findings if finding.problem] == []


def test_damage_to_a_savepoint_is_reported(directory: Path) -> None:
    data = next((directory / "savepoints" / "test" / "monday" / "state").rglob("data.mdb"))
    os.truncate(data, data.stat().st_size // 2)
    (finding,) = [finding for finding in examine(directory) if finding.problem]
    assert (finding.kind, finding.path) == ("savepoint", "savepoints/test/monday")


@pytest.mark.parametrize("entry", [b'{"done": "\xff"}', b'{"done": "no number"}', b"{"])
def test_an_entry_of_the_journal_that_cannot_be_decoded_names_the_file(directory: Path, entry: bytes) -> None:
    path = journal_dir(directory, "test")
    journal = Journal(path)
    journal._environment.update(lambda txn: txn.put(b"progress", entry, db=journal._database))
    with pytest.raises(DamagedError, match=r"journal/data.mdb' is damaged: an entry cannot be decoded"):
        journal.read()
    journal.close()


def test_a_report_in_the_journal_that_cannot_be_decoded_names_the_file(directory: Path) -> None:
    journal = Journal(journal_dir(directory, "test"))
    database = journal._environment.databases["history"]
    journal._environment.update(lambda txn: txn.put(b"z", msgspec.msgpack.encode("no totals"), db=database))
    with pytest.raises(DamagedError, match="an entry cannot be decoded"):
        journal.history.totals()
    journal.close()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_command_reports_damage_and_its_exit_code(directory: Path, is_damaged: bool) -> None:
    if is_damaged:
        os.truncate(directory / "log" / "topics" / "words" / "data.mdb", 3 * PAGE)
    command = [str(Path(sys.executable).with_name("millstream")), "doctor", str(directory)]
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == int(is_damaged), result.stderr
    assert [part["path"] for part in json.loads(result.stdout) if not part["is_whole"]] == (
        ["log/topics/words"] if is_damaged else []
    )
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert f"{int(is_damaged)} damaged" in text.stderr
    assert "journal    apps/test/journal" in text.stdout

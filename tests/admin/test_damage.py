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
from millstream.errors import DamagedError
from millstream.foundation.blocks import block_of
from millstream.foundation.paths import journal_dir
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog

PAGE = 4096
FILES = {
    "meta": "log/meta",
    "topic": "log/topics/words",
    "journal": "apps/test/journal",
    "state": "apps/test/state/*/0",
}
READ = """
import json, sys
from pathlib import Path
from millstream.batch.journal import Journal
from millstream.errors import MillstreamError
from millstream.foundation.paths import journal_dir
from millstream.log import EmbeddedLog
from millstream.tables.opening import open_tables
directory = Path(sys.argv[1])
try:
    with EmbeddedLog(directory) as log:
        (offsets,) = log.offsets("words")
        chunks = log.read("words", 0, 0, offsets.end)
        records = [value.decode() for chunk in chunks for value in chunk.block.column(1).to_pylist()]
    progress, _ = Journal(journal_dir(directory, "test"), readonly=True).read()
    rows = dict(open_tables(directory, "test")["seen"].items())
    print(json.dumps([records, progress.done, progress.positions, rows], sort_keys=True))
except MillstreamError as error:
    print(type(error).__name__, error)
    sys.exit(3)
"""


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


def read_in_a_process(directory: Path) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-c", READ, str(directory)], capture_output=True, text=True, timeout=120, check=False
    )
    return result.returncode, result.stdout + result.stderr


def damage(data: Path, kind: str) -> None:
    content = bytearray(data.read_bytes())
    pages = len(content) // PAGE
    if kind == "delete":
        shutil.rmtree(data.parent)
    elif kind == "truncate":
        os.truncate(data, len(content) // 2)
    else:
        for page in range(2, pages) if kind == "zero" else random.Random(7).sample(range(2, pages), 3):
            size = PAGE if kind == "zero" else 16  # the header of a page
            old = content[page * PAGE : page * PAGE + size]
            content[page * PAGE : page * PAGE + size] = bytes(size) if kind == "zero" else bytes(b ^ 255 for b in old)
        data.write_bytes(content)


@pytest.mark.parametrize("kind", ["truncate", "zero", "flip", "delete"])
@pytest.mark.parametrize("file", FILES)
def test_damage_is_an_error_or_makes_no_difference(whole: Path, directory: Path, file: str, kind: str) -> None:
    data = next(directory.glob(FILES[file])) / "data.mdb"
    damage(data, kind)
    findings = examine(directory)
    code, output = read_in_a_process(directory)
    assert code in (0, 3), output  # neither a signal nor a raw exception
    if (file, kind) == ("state", "delete"):  # a reader takes it for a task without rows; the next batch is refused
        assert [finding.problem for finding in findings if finding.problem] == ["it is lost"]
    elif code == 0:
        assert output == read_in_a_process(whole)[1]
    else:
        assert any(finding.problem for finding in findings) or kind == "delete", output
    if kind in ("truncate", "zero"):
        assert code == 3, output


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

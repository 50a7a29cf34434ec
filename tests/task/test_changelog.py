from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.broker import Output, RecordChunk, TopicConfig
from millstream.errors import BrokerUnavailableError
from millstream.foundation.storage import open_environment
from millstream.log import EmbeddedLog
from millstream.state import changelog_rows
from millstream.state.changelog_rows import changelog_block
from millstream.state.recording import Changes
from millstream.task import changelog
from millstream.task.changelog import ChangelogPartition, ChangelogTopic


class FailingLog(EmbeddedLog):
    """A log that is read record by record, and becomes unavailable before the record at offset ``fails_at``."""

    fails_at: int | None = None

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[RecordChunk]:
        for offset in range(start, stop):
            if offset == self.fails_at:
                raise BrokerUnavailableError("no connection")
            yield from super().read(topic, partition, offset, offset + 1)


@pytest.mark.parametrize("fails_at", range(1, 6))
def test_a_split_value_survives_a_failure_between_any_two_of_its_parts(
    fails_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog_rows, "MAX_VALUE_BYTES", 4)
    monkeypatch.setattr(changelog, "_COMMIT_BYTES", 1)  # a commit after each record
    rows: Changes = {
        ("store.words", b"before"): b"1",
        ("store.words", b"long"): b"0123456789abcdef",
        ("meta", b"after"): b"2",
    }
    with FailingLog(tmp_path / "log", durability="os") as log:
        log.create_topic("changelog", TopicConfig(partitions=1))
        log.append([Output("changelog", 0, changelog_block(rows))])
        partition = ChangelogPartition(log, ChangelogTopic("changelog", log.topic("changelog").id), 0)
        environment = open_environment(tmp_path / "copy", sync=False)
        partition.restart_copy(environment)
        log.fails_at = fails_at
        with pytest.raises(BrokerUnavailableError):
            partition.catch_up(environment)
        log.fails_at = None
        partition.catch_up(environment)
        with environment.read() as txn:
            copied = {row: txn.get(row[1], db=environment.databases[row[0]]) for row in rows}
    assert copied == rows

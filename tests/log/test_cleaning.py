"""Background cleaning: appends start it periodically, and it never runs twice at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.broker import TopicConfig
from millstream.foundation.file_lock import FileLock
from millstream.log import EmbeddedLog
from millstream.log.cleaning import clean
from millstream.log.topic import CLEAN_AFTER_BLOBS

if TYPE_CHECKING:
    import pytest
    from tests.log.conftest import Read, Send


def test_many_appends_start_cleaning(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    for number in range(CLEAN_AFTER_BLOBS):
        send(topic, str(number))
    log._cleaner.close()
    with log._catalog.get(topic).snapshot() as snapshot:
        assert len(list(snapshot.spans(0, 0))) < 10
        assert snapshot.bounds(0).new_blobs < 10
    assert [value for _, value in read(topic)] == [str(number) for number in range(CLEAN_AFTER_BLOBS)]


def test_a_partition_over_twice_its_retention_size_starts_cleaning(log: EmbeddedLog, send: Send) -> None:
    log.create_topic("small", TopicConfig(partitions=1, retention_bytes=10_000))
    for _ in range(30):
        send("small", "x" * 1000)
        log._cleaner.close()
    assert log.topic("small").bytes[0] <= 40_000


def test_a_topic_is_cleaned_by_one_process_at_a_time(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    stored = log._catalog.get(topic)
    lock = FileLock(stored.directory / "clean.lock")
    assert lock.acquire()
    assert not clean(stored)
    lock.release()
    assert clean(stored)


def test_a_failure_is_only_logged(log: EmbeddedLog, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    stored = log._catalog.get(topic)
    log.delete_topic(topic)
    log._cleaner.start(stored)
    log._cleaner.close()
    assert "log.cleaning_failed topic=lines" in caplog.text

"""Cleaning by itself: appends start it now and then, and it never runs twice at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.broker import TopicConfig
from millstream.foundation.storage import FileLock
from millstream.log import EmbeddedLog
from millstream.log.cleaning import clean
from millstream.log.topic import CLEAN_AFTER_BLOBS

if TYPE_CHECKING:
    import pytest
    from tests.log.conftest import Read, Send


def test_many_appends_start_it(log: EmbeddedLog, topic: str, send: Send, read: Read) -> None:
    for number in range(CLEAN_AFTER_BLOBS):
        send(topic, str(number))
    log._sweeper.close()
    with log._catalog.get(topic).reading() as snapshot:
        assert len(list(snapshot.spans(0, 0))) < 10
        assert snapshot.bounds(0).new_blobs < 10
    assert [value for _, value in read(topic)] == [str(number) for number in range(CLEAN_AFTER_BLOBS)]


def test_a_partition_twice_its_size_starts_it(log: EmbeddedLog, send: Send) -> None:
    log.create_topic("small", TopicConfig(partitions=1, retention_bytes=10_000))
    for _ in range(30):
        send("small", "x" * 1000)
        log._sweeper.close()
    assert log.topic("small").bytes[0] <= 40_000


def test_one_at_a_time(log: EmbeddedLog, topic: str, send: Send) -> None:
    send(topic, "a")
    found = log._catalog.get(topic)
    lock = FileLock(found.directory / "clean.lock")
    assert lock.acquire()
    assert not clean(found)
    lock.release()
    assert clean(found)


def test_a_failure_is_logged_and_does_not_hurt(log: EmbeddedLog, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    found = log._catalog.get(topic)
    log.delete_topic(topic)
    log._sweeper.sweep(found)
    log._sweeper.close()
    assert "log.cleaning_failed topic=lines" in caplog.text

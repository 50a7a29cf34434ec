from pathlib import Path

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.views.records import read_rounds


def send(log: EmbeddedLog, partition: int, *values: bytes) -> None:
    log.append([Output("lines", partition, block_of([None] * len(values), values, [0] * len(values)))])


def test_follow_returns_new_records_and_new_partitions(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        send(log, 0, b"a")
        rounds = read_rounds(log, {TopicPartition("lines", 0): 0}, follow=True, grow=True)
        assert [record.value for record in next(rounds)] == [b"a"]
        send(log, 0, b"b", b"c")
        assert [record.value for record in next(rounds)] == [b"b", b"c"]
        log.alter_topic("lines", partitions=2)
        send(log, 1, b"d")
        assert [(record.partition, record.value) for record in next(rounds)] == [(1, b"d")]


def test_deleted_records_are_skipped(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        send(log, 0, b"a", b"b", b"c")
        log.delete_before("lines", 0, 2)
        rounds = read_rounds(log, {TopicPartition("lines", 0): 0}, follow=False, grow=True)
        assert [record.offset for records in rounds for record in records] == [2]

from pathlib import Path

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.views.records import rounds


def send(log: EmbeddedLog, partition: int, *values: bytes) -> None:
    log.append([Output("lines", partition, block_of([None] * len(values), values, [0] * len(values)))])


def test_following_finds_new_records_and_new_partitions(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        send(log, 0, b"a")
        found = rounds(log, {TopicPartition("lines", 0): 0}, follow=True, grow=True)
        assert [record.value for record in next(found)] == [b"a"]
        send(log, 0, b"b", b"c")
        assert [record.value for record in next(found)] == [b"b", b"c"]
        log.alter_topic("lines", partitions=2)
        send(log, 1, b"d")
        assert [(record.partition, record.value) for record in next(found)] == [(1, b"d")]


def test_what_was_deleted_meanwhile_is_left_out(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        send(log, 0, b"a", b"b", b"c")
        log.delete_before("lines", 0, 2)
        found = rounds(log, {TopicPartition("lines", 0): 0}, follow=False, grow=True)
        assert [record.offset for one in found for record in one] == [2]

"""A flipped bit in a stored record is an error, never a value; records of earlier versions have no checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.errors import DamagedError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.log.layout import pack_span, unpack_span
from millstream.log.topic import Topic

VALUE = b"a value that is easy to find"


def write_value(directory: Path) -> None:
    with EmbeddedLog(directory) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        log.append([Output("lines", 0, block_of([b"k"], [VALUE], [0]))])


def read_values(directory: Path) -> list[bytes]:
    with EmbeddedLog(directory) as log:
        return [value for chunk in log.read("lines", 0, 0, 1) for value in chunk.block.column(1).to_pylist()]


def view_values(directory: Path) -> list[bytes]:
    with EmbeddedLog(directory) as log, log.view("lines", 0, 0, 1) as chunks:
        return [value for chunk in chunks for value in chunk.block.column(1).to_pylist()]


@pytest.mark.parametrize("read", [read_values, view_values])
@pytest.mark.parametrize("position", [0, 13, len(VALUE) - 1])
def test_a_flipped_bit_is_an_error(tmp_path: Path, read: object, position: int) -> None:
    write_value(tmp_path)
    data = tmp_path / "log" / "topics" / "lines" / "data.mdb"
    content = bytearray(data.read_bytes())
    start = content.index(VALUE)
    while start >= 0:
        content[start + position] ^= 1
        start = content.find(VALUE, start)
    data.write_bytes(content)
    message = r"lines/data.mdb' is damaged: the records with offsets 0 to 0 of partition 0 do not match their checksum"
    with pytest.raises(DamagedError, match=message):
        read(tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("read", [read_values, view_values])
def test_records_of_an_earlier_version_are_read(tmp_path: Path, read: object) -> None:
    write_value(tmp_path)
    topic = Topic("lines", "", TopicConfig(partitions=1), tmp_path / "log" / "topics" / "lines", sync=False)
    opened = topic.environment
    index = opened.databases["index"]
    with opened.write() as txn:
        ((key, entry),) = list(txn.cursor(db=index))
        span = unpack_span(0, entry)
        assert span.checksum is not None
        txn.put(key, pack_span(span._replace(checksum=None)), db=index)
    opened.close()
    assert read(tmp_path) == [VALUE]  # type: ignore[operator]

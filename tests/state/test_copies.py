"""The copy of a global table: loaded once, and the same for all readers with the same offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import StateError
from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.serdes import TEXT, Serde
from millstream.state.copies import LoadResult, Offsets, TableCopy

RECORDS = [("a", "1", 0), ("b", "2", 1), ("a", "3", 2), ("b", None, 3)]


class Topic:
    """Two partitions with the same records; records the offsets from which they are read."""

    def __init__(self, end: Offsets) -> None:
        self.end = end
        self.reads: list[Offsets] = []

    def load(self, start: Offsets, write: object) -> LoadResult:
        assert callable(write)
        self.reads.append(start)
        for begin, end in zip(start, self.end, strict=True):
            write(RECORDS[begin:end])
        return LoadResult(sum(self.end) - sum(start), {"t: null_key": 1})


def copy(tmp_path: Path, codec: Serde = OBJECT_CODEC) -> TableCopy:
    return TableCopy(tmp_path / "copy", "t", codec, sync=False)


def rows(table: TableCopy, offsets: Offsets) -> dict[str, str]:
    with table.reading(offsets) as store:
        return {key: value for key, value, _ in store.items()}


def test_a_copy_continues_from_its_offsets(tmp_path: Path) -> None:
    table, first, second = copy(tmp_path), Topic((2, 0)), Topic((4, 1))
    table.advance((2, 0), 1, first.load)
    assert rows(table, (2, 0)) == {"a": "1", "b": "2"}
    version = table.advance((4, 1), 2, second.load)
    assert rows(table, (4, 1)) == {"a": "1"}, "the first record of partition 1 was loaded last"
    assert (first.reads, second.reads) == ([(0, 0)], [(2, 0)])
    assert (version.batch, version.records, version.rows) == (2, 3, 1)


def test_a_batch_that_runs_again_loads_nothing_and_returns_the_same_version(tmp_path: Path) -> None:
    topic = Topic((4,))
    first = copy(tmp_path).advance((4,), 7, topic.load)
    again = copy(tmp_path).advance((4,), 7, topic.load)
    later = copy(tmp_path).advance((4,), 8, topic.load)
    assert first == again == later
    assert len(topic.reads) == 1


def test_a_copy_at_other_offsets_is_rejected(tmp_path: Path) -> None:
    table = copy(tmp_path)
    table.advance((4,), 1, Topic((4,)).load)
    with pytest.raises(StateError, match=r"ends at offsets \(4,\), but the batch expects \(3,\)"):
        table.advance((3,), 2, Topic((3,)).load)
    with pytest.raises(StateError, match="ends at offsets"), table.reading((3,)):
        pass


def test_a_failed_load_writes_nothing(tmp_path: Path) -> None:
    table = copy(tmp_path)

    def fail(start: Offsets, write: object) -> LoadResult:
        Topic((2,)).load(start, write)
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="the broker is gone"):
        table.advance((2,), 1, fail)
    assert rows(table, ()) == {}


def test_rows_are_loaded_again_when_their_type_changes(tmp_path: Path) -> None:
    copy(tmp_path).advance((1,), 1, Topic((1,)).load)
    topic = Topic((4,))
    typed = copy(tmp_path, TEXT)
    typed.advance((4,), 2, topic.load)
    assert topic.reads == [(0,)]
    assert rows(typed, (4,)) == {"a": "3"}


def test_a_new_partition_is_loaded_from_its_beginning(tmp_path: Path) -> None:
    table, topic = copy(tmp_path), Topic((1, 2))
    table.advance((1,), 1, Topic((1,)).load)
    table.advance((1, 2), 2, topic.load)
    assert topic.reads == [(1, 0)]

"""The copy of a global table: the same content for all who ask for the same offsets, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.errors import StateError
from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.serdes import TEXT, Serde
from millstream.state.copies import Loaded, Offsets, TableCopy

RECORDS = [("a", "1", 0), ("b", "2", 1), ("a", "3", 2), ("b", None, 3)]


class Topic:
    """Two partitions with the same records; counts how often and from where they are read."""

    def __init__(self, upto: Offsets) -> None:
        self.upto = upto
        self.reads: list[Offsets] = []

    def load(self, start: Offsets, write: object) -> Loaded:
        assert callable(write)
        self.reads.append(start)
        for begin, end in zip(start, self.upto, strict=True):
            write(RECORDS[begin:end])
        return Loaded(sum(self.upto) - sum(start), {"t: null_key": 1})


def copy(tmp_path: Path, codec: Serde = OBJECT_CODEC) -> TableCopy:
    return TableCopy(tmp_path / "copy", "t", codec, sync=False)


def rows(one: TableCopy, offsets: Offsets) -> dict[str, str]:
    with one.reading(offsets) as store:
        return {key: value for key, value, _ in store.items()}


def test_a_copy_goes_on_from_where_it_stands(tmp_path: Path) -> None:
    one, first, second = copy(tmp_path), Topic((2, 0)), Topic((4, 1))
    one.advance((2, 0), 1, first.load)
    assert rows(one, (2, 0)) == {"a": "1", "b": "2"}
    mark = one.advance((4, 1), 2, second.load)
    assert rows(one, (4, 1)) == {"a": "1"}, "partition 1 brought its first record last"
    assert (first.reads, second.reads) == ([(0, 0)], [(2, 0)])
    assert (mark.batch, mark.records, mark.rows) == (2, 3, 1)


def test_a_batch_that_is_run_again_loads_nothing_and_tells_the_same(tmp_path: Path) -> None:
    topic = Topic((4,))
    first = copy(tmp_path).advance((4,), 7, topic.load)
    again = copy(tmp_path).advance((4,), 7, topic.load)
    later = copy(tmp_path).advance((4,), 8, topic.load)
    assert first == again == later
    assert len(topic.reads) == 1


def test_a_snapshot_at_other_offsets_is_refused(tmp_path: Path) -> None:
    one = copy(tmp_path)
    one.advance((4,), 1, Topic((4,)).load)
    with pytest.raises(StateError, match=r"ends at offsets \(4,\), but the batch wants \(3,\)"):
        one.advance((3,), 2, Topic((3,)).load)
    with pytest.raises(StateError, match="ends at offsets"), one.reading((3,)):
        pass


def test_a_load_that_fails_leaves_nothing(tmp_path: Path) -> None:
    one = copy(tmp_path)

    def breaking(start: Offsets, write: object) -> Loaded:
        Topic((2,)).load(start, write)
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="the broker is gone"):
        one.advance((2,), 1, breaking)
    assert rows(one, ()) == {}


def test_rows_of_another_type_are_loaded_anew(tmp_path: Path) -> None:
    copy(tmp_path).advance((1,), 1, Topic((1,)).load)
    topic = Topic((4,))
    typed = copy(tmp_path, TEXT)
    typed.advance((4,), 2, topic.load)
    assert topic.reads == [(0,)]
    assert rows(typed, (4,)) == {"a": "3"}


def test_a_new_partition_is_loaded_from_its_beginning(tmp_path: Path) -> None:
    one, topic = copy(tmp_path), Topic((1, 2))
    one.advance((1,), 1, Topic((1,)).load)
    one.advance((1, 2), 2, topic.load)
    assert topic.reads == [(1, 0)]

"""Buffered records are returned in order of timestamp, key and arrival, in whichever transactions they were added."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.foundation.storage import open_environment
from millstream.state.buffer import RecordBuffer

RECORD = st.tuples(st.sampled_from(["a", "b", "k" * 600]), st.integers(0, 50))
BATCHES = st.lists(st.tuples(st.lists(RECORD, max_size=8), st.integers(-1, 50)), max_size=6)


@given(BATCHES)
def test_due_records_are_returned_in_order_and_once(batches: list[tuple[list[tuple[str, int]], int]]) -> None:
    waiting: list[tuple[int, str, int]] = []
    arrivals, observed = 0, -1
    with TemporaryDirectory() as directory:
        environment = open_environment(Path(directory) / "e", ("buffer",), sync=False)
        for records, until in batches:
            with environment.write() as txn:
                buffer = RecordBuffer(txn, environment.databases["buffer"], OBJECT_CODEC)
                assert buffer.observed == observed
                for key, time in records:
                    arrivals += 1
                    observed = max(observed, time)
                    buffer.put(key, arrivals, time, (("n", b"%d" % arrivals),))
                    waiting.append((time, key, arrivals))
                due = sorted(record for record in waiting if record[0] <= until)
                expected = [(key, number, time, (("n", b"%d" % number),)) for time, key, number in due]
                assert list(buffer.take_until(until)) == expected
                waiting = [record for record in waiting if record[0] > until]
                buffer.flush()
                assert len(buffer) == len(waiting)
        environment.close()


def test_records_of_several_reads_from_disk_are_returned_in_order(tmp_path: Path) -> None:
    environment = open_environment(tmp_path / "e", ("buffer",), sync=False)
    with environment.write() as txn:
        buffer = RecordBuffer(txn, environment.databases["buffer"], OBJECT_CODEC)
        for number in range(1_000):
            buffer.put("k", number, 999 - number, ())
        buffer.flush()
        assert [time for _, _, time, _ in buffer.take_until(2_000)] == list(range(1_000))
        buffer.flush()
        assert len(buffer) == 0

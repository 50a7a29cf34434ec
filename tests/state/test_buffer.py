"""Records that wait come out in order of time, key and arrival, whatever transactions they came in."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.object_codec import OBJECT_CODEC
from millstream.foundation.storage import open_environment
from millstream.state.buffer import WaitingBuffer

RECORD = st.tuples(st.sampled_from(["a", "b", "k" * 600]), st.integers(0, 50))
BATCHES = st.lists(st.tuples(st.lists(RECORD, max_size=8), st.integers(-1, 50)), max_size=6)


@given(BATCHES)
def test_due_records_come_in_order_and_once(batches: list[tuple[list[tuple[str, int]], int]]) -> None:
    waiting: list[tuple[int, str, int]] = []
    arrivals, observed = 0, -1
    with TemporaryDirectory() as directory:
        place = open_environment(Path(directory) / "e", ("buffer",), sync=False)
        for records, until in batches:
            with place.write() as txn:
                buffer = WaitingBuffer(txn, place.databases["buffer"], OBJECT_CODEC)
                assert buffer.observed == observed
                for key, time in records:
                    arrivals += 1
                    observed = max(observed, time)
                    buffer.put(key, arrivals, time, (("n", b"%d" % arrivals),))
                    waiting.append((time, key, arrivals))
                due = sorted(one for one in waiting if one[0] <= until)
                expected = [(key, number, time, (("n", b"%d" % number),)) for time, key, number in due]
                assert list(buffer.take_until(until)) == expected
                waiting = [one for one in waiting if one[0] > until]
                buffer.flush()
                assert len(buffer) == len(waiting)
        place.close()


def test_more_than_one_read_of_the_disk_is_taken_in_order(tmp_path: Path) -> None:
    place = open_environment(tmp_path / "e", ("buffer",), sync=False)
    with place.write() as txn:
        buffer = WaitingBuffer(txn, place.databases["buffer"], OBJECT_CODEC)
        for number in range(1_000):
            buffer.put("k", number, 999 - number, ())
        buffer.flush()
        assert [time for _, _, time, _ in buffer.take_until(2_000)] == list(range(1_000))
        buffer.flush()
        assert len(buffer) == 0

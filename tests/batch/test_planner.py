from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.batch import small_planner
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.planner import BatchSize, Planner, shares
from millstream.batch.small_planner import SmallPlanner
from millstream.broker import Offsets, Output, TopicConfig
from millstream.errors import OffsetOutOfRangeError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.task.task_input import Range

Topic = Callable[..., str]


def cuts(batch: Batch | None) -> list[tuple[int, int, int]]:
    return [] if batch is None else [(range_.partition, range_.start, range_.stop) for range_ in batch.ranges]


def test_a_batch_takes_the_whole_of_a_small_backlog(log: EmbeddedLog, topic: Topic) -> None:
    topic([1, 2], [], [5])
    batch = Planner(log, ["n"], BatchSize(10, 1.0)).plan(Progress())
    assert batch is not None
    assert (batch.number, batch.records, cuts(batch)) == (1, 3, [(0, 0, 2), (2, 0, 1)])
    following = progress_after(Progress(), batch, [], [])
    assert Planner(log, ["n"], BatchSize(10, 1.0)).plan(following) is None


def test_records_that_were_deleted_before_they_were_read_are_reported(
    log: EmbeddedLog, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic([1, 2, 3, 4, 5])
    log.delete_before("n", 0, 3)
    planner = Planner(log, ["n"], BatchSize(10, 1.0))
    assert cuts(planner.plan(Progress())) == [(0, 3, 5)]  # it has read none of the topic
    assert caplog.messages == []
    assert cuts(planner.plan(Progress(positions={"n/0": 1}))) == [(0, 3, 5)]
    assert caplog.messages == ["records deleted before they were read topic=n partition=0 records=2"]


class CountedLookUps(EmbeddedLog):
    """Counts how often all offsets of a topic are looked up."""

    look_ups = 0

    def offsets(self, topic: str) -> list[Offsets]:
        self.look_ups += 1
        return super().offsets(topic)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        return [offsets.end for offsets in super().offsets(topic)[:partitions]]


def test_a_resident_task_at_the_end_of_its_topics_only_looks_up_where_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_planner, "_LOOK_UP_SECONDS", 1000.0)
    with CountedLookUps(tmp_path, durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=2))
        planner, progress = SmallPlanner(log, ["n"], BatchSize(10, 1.0)), Progress()
        for number in range(4):
            log.append([Output("n", 0, block_of([b"k"], [b"1"], [number]))])
            batch = planner.plan(progress)
            assert cuts(batch) == [(0, number, number + 1)]
            assert batch is not None
            progress = progress_after(progress, batch, [], [])
        assert log.look_ups == 1
        log.alter_topic("n", partitions=3)
        log.append([Output("n", 2, block_of([b"k"], [b"1"], [9]))])
        assert cuts(planner.plan(progress)) == [(2, 0, 1)]  # all offsets are looked up before the loop waits
        assert log.look_ups == 2


class ReceivingLog(CountedLookUps):
    """Receives records in the background, up to ``received``."""

    received = 0
    requests = 0

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        self.requests += 1
        return super().end_offsets(topic, partitions)

    def received_ends(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict.fromkeys(positions, self.received) if self.received else {}

    def stop_receiving(self) -> None:
        self.received = 0


def test_a_resident_task_that_keeps_up_plans_what_it_has_received(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_planner, "_LOOK_UP_SECONDS", 1000.0)
    with ReceivingLog(tmp_path, durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=1))
        log.append([Output("n", 0, block_of([b"k"] * 5, [b"1"] * 5, [1] * 5))])
        planner = SmallPlanner(log, ["n"], BatchSize(10, 1.0))
        assert cuts(planner.plan(Progress())) == [(0, 0, 5)]
        progress = Progress(positions={"n/0": 5})
        assert planner.known_backlog(progress) == []
        assert log.requests == 1  # nothing is received yet
        log.append([Output("n", 0, block_of([b"k"] * 5, [b"1"] * 5, [1] * 5))])
        log.received = 8
        assert planner.known_backlog(progress) == [Range("n", 0, 5, 8)]
        progress = Progress(positions={"n/0": 8})
        assert planner.known_backlog(progress) == []
        assert (log.requests, log.look_ups) == (1, 1)
        assert planner.backlog(progress) == [Range("n", 0, 8, 10)]  # before the loop waits, everything is looked up
        planner.stop()
        assert log.received == 0


def test_a_resident_task_with_a_backlog_looks_up_what_retention_has_deleted(tmp_path: Path) -> None:
    with CountedLookUps(tmp_path, durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=1))
        log.append([Output("n", 0, block_of([b"k"] * 5, [b"1"] * 5, [1] * 5))])
        planner = SmallPlanner(log, ["n"], BatchSize(10, 1.0))
        assert cuts(planner.plan(Progress())) == [(0, 0, 5)]
        log.delete_before("n", 0, 3)
        assert cuts(planner.plan(Progress(positions={"n/0": 1}))) == [(0, 3, 5)]


def test_a_large_backlog_is_cut_at_the_same_event_time(log: EmbeddedLog, topic: Topic) -> None:
    """Two records each would be fair; partition 1 would run ahead to 300, so it waits.

    partition 0    10 20 | 30 40
    partition 1    15 25 |           100 300
    """
    topic([10, 20, 30, 40], [15, 25, 100, 300])
    planner = Planner(log, ["n"], BatchSize(4, 1.0))
    first = planner.plan(Progress())
    assert cuts(first) == [(0, 0, 2), (1, 0, 2)]
    assert first is not None
    assert cuts(planner.plan(progress_after(Progress(), first, [], []))) == [(0, 2, 4), (1, 2, 4)]


def test_a_partition_that_is_ahead_of_the_others_waits(log: EmbeddedLog, topic: Topic) -> None:
    topic([100, 200, 300], [1, 2, 3, 4, 5, 6])
    assert cuts(Planner(log, ["n"], BatchSize(4, 1.0)).plan(Progress())) == [(1, 0, 2)]


def test_a_later_timestamp_before_the_position_does_not_hold_a_partition_back(log: EmbeddedLog, topic: Topic) -> None:
    topic([9_999, 10, 20, 30, 40], [5, 15, 25, 35])
    progress = Progress(done=1, positions={"n/0": 1, "n/1": 0})
    assert cuts(Planner(log, ["n"], BatchSize(4, 1.0)).plan(progress)) == [(0, 1, 3), (1, 0, 2)]


def test_a_cut_may_fall_into_a_gap_of_offsets(log: EmbeddedLog, topic: Topic) -> None:
    """Compaction leaves the last record of each key: offset 3 of partition 0, so that the cut at 2 falls in a gap."""
    log.create_topic("n", TopicConfig(partitions=2, compact=True))
    log.append([Output("n", 0, block_of([b"a"] * 4, [b"1"] * 4, [1, 2, 3, 30]))])
    log.append([Output("n", 1, block_of([b"a", b"b", b"c", b"d"], [b"1"] * 4, [10, 20, 40, 50]))])
    log.clean("n", now=10**15)
    assert [list(chunk.offsets) for chunk in log.read("n", 0, 0, 4)] == [[3]]
    assert cuts(Planner(log, ["n"], BatchSize(4, 1.0)).plan(Progress())) == [(0, 0, 2), (1, 0, 2)]


def test_a_topic_that_was_created_again_is_rejected(log: EmbeddedLog, topic: Topic) -> None:
    topic([1])
    with pytest.raises(
        OffsetOutOfRangeError, match=r"n\[0\] ends at 1, but 7 records of it were already .*; .*reset the app"
    ):
        Planner(log, ["n"], BatchSize(10, 1.0)).plan(Progress(positions={"n/0": 7}))


def test_records_that_were_deleted_unread_are_skipped(log: EmbeddedLog, topic: Topic) -> None:
    topic([1, 2, 3])
    log.delete_before("n", 0, 3)
    planner, progress = Planner(log, ["n"], BatchSize(10, 1.0)), Progress(positions={"n/0": 1})
    assert planner.plan(progress) is None
    assert planner.positions(progress) == {TopicPartition("n", 0): 3}
    assert not log.wait(planner.positions(progress), 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=12).map(sorted), min_size=1, max_size=4), st.integers(1, 8))
def test_batches_advance_all_partitions_together_and_read_everything_once(
    partitions: list[list[int]], size: int
) -> None:
    with TemporaryDirectory() as directory, EmbeddedLog(Path(directory), durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=len(partitions)))
        for number, times in enumerate(partitions):
            for start in range(0, len(times), 3):
                part = times[start : start + 3]
                log.append([Output("n", number, block_of([None] * len(part), [b""] * len(part), part))])
        planner, progress = Planner(log, ["n"], BatchSize(size, 1.0)), Progress()
        positions = [0] * len(partitions)
        while (batch := planner.plan(progress)) is not None:
            assert 0 < batch.records <= max(size, len(partitions))
            taken: list[int] = []
            for range_ in batch.ranges:
                assert (positions[range_.partition], True) == (range_.start, range_.stop > range_.start)
                positions[range_.partition] = range_.stop
                taken += partitions[range_.partition][range_.start : range_.stop]
            left = [time for number, times in enumerate(partitions) for time in times[positions[number] :]]
            assert max(taken) <= min(left, default=99), "a partition ran ahead"
            progress = progress_after(progress, batch, [], [])
        assert positions == [len(times) for times in partitions]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=3), st.integers(1, 8))
def test_records_out_of_order_are_all_read(partitions: list[list[int]], size: int) -> None:
    with TemporaryDirectory() as directory, EmbeddedLog(Path(directory), durability="os") as log:
        log.create_topic("n", TopicConfig(partitions=len(partitions)))
        for number, times in enumerate(partitions):
            if times:
                log.append([Output("n", number, block_of([None] * len(times), [b""] * len(times), times))])
        planner, progress = Planner(log, ["n"], BatchSize(size, 1.0)), Progress()
        while (batch := planner.plan(progress)) is not None:
            assert batch.ranges
            assert batch.records <= max(size, len(partitions))
            progress = progress_after(progress, batch, [], [])
        expected = {f"n/{number}": len(times) for number, times in enumerate(partitions) if times}
        assert progress.positions == expected


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 100))
def test_shares_are_fair_and_fill_the_batch(lengths: list[int], records: int) -> None:
    parts = shares([Range("n", number, 7, 7 + length) for number, length in enumerate(lengths)], records)
    assert all(1 <= share <= length for share, length in zip(parts, lengths, strict=True))
    if records >= len(lengths):
        assert sum(parts) == min(records, sum(lengths))
    short = [share for share, length in zip(parts, lengths, strict=True) if share < length]
    assert max(parts) - min(short, default=max(parts)) <= 1 or max(parts) <= max(short) + 1
    assert max(short, default=0) - min(short, default=0) <= 1


def test_the_batch_size_adapts_to_the_throughput_within_bounds() -> None:
    size = BatchSize(100_000, 1.0)
    assert size.records == 50_000
    size.adapt(50_000, 0.1)
    assert size.records == 100_000
    size.adapt(100_000, 10.0)
    assert size.records == 50_000
    size.adapt(10, 60.0)
    assert size.records == 50_000, "a small batch is ignored"
    for _ in range(20):
        size.adapt(size.records, 1_000.0)
    assert size.records == 1_000
    assert BatchSize(7, 1.0).records == 7


@pytest.mark.parametrize(("fixed", "per_record"), [(0.0, 1e-5), (0.3, 1e-5), (2.5, 1e-5), (2.5, 1e-3), (0.0, 1e-3)])
def test_a_high_fixed_cost_does_not_shrink_batches(fixed: float, per_record: float) -> None:
    size = BatchSize(500_000, 1.0)
    for _ in range(40):
        size.adapt(size.records, fixed + per_record * size.records)
    for_records = per_record * size.records
    assert 0.3 <= for_records <= max(1.5, 1.5 * fixed) or size.records == 500_000
    assert for_records >= 0.6 * fixed or size.records == 500_000, "most of the time is spent on the fixed cost"


def test_the_size_does_not_adapt_to_a_slow_first_batch() -> None:
    size = BatchSize(500_000, 1.0)
    size.adapt(50_000, 12.0)
    assert size.records == 50_000
    size.adapt(50_000, 4.0)
    assert size.records == 25_000

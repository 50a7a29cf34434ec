"""Throughput on a backlog, measured from outside: by the counts that a reader of committed records sees.

It is measured between the times at which a tenth and all of the rides were counted, which excludes process startup and
a first large batch. While a program runs, only the end offsets of its output topic are read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.peers.counting import Update, Window, deviation, totals
from benchmarks.peers.running import Run, Side, Task, running
from benchmarks.zone_counts import PARTITIONS, expected_counts, load, read_counts

from millstream.broker import TopicConfig
from millstream.foundation.blocks import rows_of
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition

_SAMPLE_INTERVAL_SECONDS = 0.1
_TIMEOUT_SECONDS = 240.0
_WARM_UP_SHARE = 0.1


class Backlog(NamedTuple):
    """A topic with rides, and their correct counts."""

    topic: str
    records: int
    expected: Counter[Window]


class Sample(NamedTuple):
    """The end offsets of the output when they had changed."""

    moment: float
    ends: Sequence[int]
    cpu_seconds: float


def load_backlog(broker: KafkaBroker, lines: list[bytes]) -> Backlog:
    """Write rides to a new topic."""
    topic = f"rides-{len(lines)}"
    load(broker, lines, topic)
    return Backlog(topic, len(lines), expected_counts(lines))


def reading(broker: KafkaBroker, backlog: Backlog) -> dict[str, Any]:
    """Read all rides into Python and return the rates per second of elapsed and of CPU time."""
    start, cpu_start = time.perf_counter(), time.process_time()
    chunks = (
        chunk
        for partition, offsets in enumerate(broker.offsets(backlog.topic))
        for chunk in broker.read(backlog.topic, partition, offsets.begin, offsets.end)
    )
    count = sum(len(rows_of(chunk.block).values) for chunk in chunks)
    assert count == backlog.records, f"{count} records were read"
    return {
        "records": count,
        "records_per_second": count / (time.perf_counter() - start),
        "cpu_seconds": (time.process_time() - cpu_start) / count * 1e6,
        "per_core": count / (time.process_time() - cpu_start),
    }


def throughput(broker: KafkaBroker, side: Side, task: Task, backlog: Backlog) -> dict[str, Any]:
    """Let a side process a backlog and return its throughput."""
    broker.create_topic(task.target, TopicConfig(partitions=PARTITIONS))
    with running(side, task) as run:
        samples = _watch(broker, side, task, run)
    counted, tally = totals(read_counts(broker, task.target, Update), [sample.ends for sample in samples])
    if not tally.total:
        raise run.failure("no count was written")
    first = next(number for number, rides in enumerate(counted) if rides >= _WARM_UP_SHARE * counted[-1])
    last = next(number for number, rides in enumerate(counted) if rides == counted[-1])
    result = {
        "records": backlog.records,
        "from_start": backlog.records / (samples[last].moment - run.started_at),
        "cpu_seconds": samples[-1].cpu_seconds / backlog.records * 1e6,
        "updates": sum(samples[-1].ends),
        **deviation(tally.counts, backlog.expected)._asdict(),
    }
    if last > first:  # otherwise all counts were written at once, and there is no interval to measure
        share = (counted[-1] - counted[first]) / counted[-1]
        result["records_per_second"] = share * backlog.records / (samples[last].moment - samples[first].moment)
    return result


def _watch(broker: KafkaBroker, side: Side, task: Task, run: Run) -> list[Sample]:
    """Sample the end offsets of the target until the side is done."""
    samples: list[Sample] = []
    while not is_done(side, samples, time.perf_counter(), lambda: _has_read_all(broker, task)):
        ends = [offsets.end for offsets in broker.offsets(task.target)]
        if any(ends) and (not samples or ends != samples[-1].ends):
            samples.append(Sample(time.perf_counter(), ends, run.cpu_seconds()))
        if not run.is_alive() or time.perf_counter() - run.started_at > _TIMEOUT_SECONDS:
            progress = f"{sum(ends)} counts in {len(samples)} samples" if samples else "no count"
            raise run.failure(f"it exited, or took more than {_TIMEOUT_SECONDS:.0f} s ({progress})")
        time.sleep(_SAMPLE_INTERVAL_SECONDS)
    return samples


def is_done(side: Side, samples: Sequence[Sample], now: float, has_read_all: Callable[[], bool]) -> bool:
    """Return whether a side is done: it has written counts, has been quiet for long enough and has read all rides."""
    is_quiet = bool(samples) and now - samples[-1].moment >= side.quiet_seconds
    return is_quiet and (not side.commits or has_read_all())


def _has_read_all(broker: KafkaBroker, task: Task) -> bool:
    """Return whether the group has committed the end offsets of its source."""
    committed = broker.committed(task.group)
    ends = {
        TopicPartition(task.source, partition): offsets.end
        for partition, offsets in enumerate(broker.offsets(task.source))
    }
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())

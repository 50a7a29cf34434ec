"""How quickly a program works off a backlog, seen from outside: by the counts that a reader of committed records sees.

It is taken between the moments at which a tenth of the rides and all of them were counted, so that neither the start
of processes nor a first large batch falls into it. While a program works, only the ends of its topic are looked at.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.peers.counting import Update, Window, faults, totals
from benchmarks.peers.running import Run, Side, Task, running
from benchmarks.zone_counts import PARTITIONS, counted, counts_out, load

from millstream.broker import TopicConfig
from millstream.foundation.blocks import rows_of
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition

_LOOK_SECONDS = 0.1
_LONGEST_SECONDS = 240.0
_WARM = 0.1


class Backlog(NamedTuple):
    """A topic full of rides, and what they come to."""

    topic: str
    records: int
    expected: Counter[Window]


class Look(NamedTuple):
    """A moment at which more was seen than before."""

    moment: float
    ends: Sequence[int]
    processor: float


def loaded(broker: KafkaBroker, lines: list[bytes]) -> Backlog:
    """Write rides to a topic of their own."""
    topic = f"rides-{len(lines)}"
    load(broker, lines, topic)
    return Backlog(topic, len(lines), counted(lines))


def reading(broker: KafkaBroker, backlog: Backlog) -> dict[str, Any]:
    """Read all rides into Python and return how many that makes per second of processor time."""
    began, used = time.perf_counter(), time.process_time()
    chunks = (
        chunk
        for partition, there in enumerate(broker.offsets(backlog.topic))
        for chunk in broker.read(backlog.topic, partition, there.begin, there.end)
    )
    found = sum(len(rows_of(chunk.block).values) for chunk in chunks)
    assert found == backlog.records, f"{found} records were read"
    return {
        "records": found,
        "records_per_second": found / (time.perf_counter() - began),
        "processor_seconds": (time.process_time() - used) / found * 1e6,
        "per_core": found / (time.process_time() - used),
    }


def throughput(broker: KafkaBroker, side: Side, task: Task, backlog: Backlog) -> dict[str, Any]:
    """Let a side work off a backlog and return how quickly its counts came."""
    broker.create_topic(task.target, TopicConfig(partitions=PARTITIONS))
    with running(side, task) as run:
        looks = _watch(broker, side, task, run)
    seen, tally = totals(counts_out(broker, task.target, Update), [look.ends for look in looks])
    if not tally.total:
        raise run.failed("no count has come")
    first = next(number for number, done in enumerate(seen) if done >= _WARM * seen[-1])
    last = next(number for number, done in enumerate(seen) if done == seen[-1])
    figures = {
        "records": backlog.records,
        "from_start": backlog.records / (looks[last].moment - run.began),
        "processor_seconds": looks[-1].processor / backlog.records * 1e6,
        "updates": sum(looks[-1].ends),
        **faults(tally.counts, backlog.expected)._asdict(),
    }
    if last > first:  # else all came at once, and there is no time between
        share = (seen[-1] - seen[first]) / seen[-1]
        figures["records_per_second"] = share * backlog.records / (looks[last].moment - looks[first].moment)
    return figures


def _watch(broker: KafkaBroker, side: Side, task: Task, run: Run) -> list[Look]:
    """Look at the ends of the target until nothing more comes."""
    looks: list[Look] = []
    while not is_done(side, looks, time.perf_counter(), lambda: _has_read_all(broker, task)):
        ends = [there.end for there in broker.offsets(task.target)]
        if any(ends) and (not looks or ends != looks[-1].ends):
            looks.append(Look(time.perf_counter(), ends, run.processor_seconds()))
        if not run.is_alive() or time.perf_counter() - run.began > _LONGEST_SECONDS:
            done = f"{len(looks)} looks, {ends} counts" if looks else "no count"
            raise run.failed(f"it ended, or took more than {_LONGEST_SECONDS:.0f} s ({done})")
        time.sleep(_LOOK_SECONDS)
    return looks


def is_done(side: Side, looks: Sequence[Look], now: float, has_read_all: Callable[[], bool]) -> bool:
    """Whether a side has nothing more to say. Before its first count, and before all is read, silence is a pause."""
    is_quiet = bool(looks) and now - looks[-1].moment >= side.quiet_seconds
    return is_quiet and (not side.commits or has_read_all())


def _has_read_all(broker: KafkaBroker, task: Task) -> bool:
    """Whether the group has committed the end of its source."""
    committed = broker.committed(task.group)
    ends = {TopicPartition(task.source, number): there.end for number, there in enumerate(broker.offsets(task.source))}
    return all(committed.get(place, 0) >= end for place, end in ends.items())

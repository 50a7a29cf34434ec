"""Run an app's only task for some batches and return all its effects, to compare ways to run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of, headers_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.report import TaskReport
from millstream.task.runner import run_task
from millstream.task.task_input import Range, TaskInput

Row = tuple[bytes | None, bytes | None, int]


class Workspace(NamedTuple):
    """A log with input topics, and a directory for state."""

    log: EmbeddedLog
    directory: Path


class Outcome(NamedTuple):
    """What the batches of a task have written, stored and reported."""

    outputs: dict[str, list[tuple[Any, ...]]]
    """The records of each output topic, without its prefix: key, value, timestamp and the header ``h``."""
    shuffle_blocks: list[bytes]
    state: dict[str, dict[bytes, bytes]]
    """The content of each store, as it is on disk."""
    dropped: dict[str, int]
    """By reason, without the name of the step."""
    value_errors: int
    records_in: int
    records_out: int
    dead_letters: int
    rows: dict[str, int]
    stream_time: int


@contextmanager
def workspace(topics: dict[str, list[Row]], *, headers: bool = False) -> Iterator[Workspace]:
    """Write records to partition 0 of new topics; with ``headers`` each record has its key in the header ``h``."""
    with TemporaryDirectory() as directory, EmbeddedLog(Path(directory), durability="os") as log:
        for topic, records in topics.items():
            log.create_topic(topic, TopicConfig(partitions=1))
            if records:
                keys, values, times = (list(column) for column in zip(*records, strict=True))
                marks = [(("h", key),) for key in keys] if headers else None
                log.append([Output(topic, 0, block_of(keys, values, times, marks))])
        yield Workspace(log, Path(directory) / "state")
        close_environments(Path(directory))


def outcome(app: App, workspace: Workspace, batches: Sequence[dict[str, tuple[int, int]]], *, caching: bool) -> Outcome:
    """Run the batches, each given as the offsets to read of each topic; the app's id is the prefix of its outputs.

    State of earlier calls for the same app is used again.
    """
    log = workspace.log
    env = TaskEnvironment(
        app=app.id,
        layout=Layout.of(app.plan, dict.fromkeys(app.plan.source_topics, 1)),
        broker=log,
        state_dir=workspace.directory / app.id,
        policies=Policies.of(app.id, app.config),
        caching=caching,
        durable=False,
        new_topic=TopicConfig(partitions=1),
    )
    state = env.state(0)
    version = state.read_version()
    dropped, blocks, reports = Counter[str](), list[bytes](), list[TaskReport]()
    for batch, offsets in enumerate(batches, version.batch + 1):
        ranges = tuple(Range(topic, 0, start, stop) for topic, (start, stop) in offsets.items())
        report, sent = run_task(env, TaskInput(0, batch, 0, version, ranges))
        version = StateVersion(batch, report.commit)
        for reason, count in report.dropped.items():
            dropped[reason.partition(": ")[2]] += count
        blocks += [block.data for block in sent]
        reports.append(report)
    stores = env.stage(0)[0].store_names
    prefixes = f"{app.id}-", f"{app.id}."
    return Outcome(
        outputs={name[len(app.id) + 1 :]: rows(log, name) for name in log.topic_names() if name.startswith(prefixes)},
        shuffle_blocks=blocks,
        state={name: {bytes(key): bytes(value) for key, value in state.scan(name)} for name in stores},
        dropped=dict(dropped),
        value_errors=sum(sum(report.value_errors.values()) for report in reports),
        records_in=sum(report.records_in for report in reports),
        records_out=sum(report.records_out for report in reports),
        dead_letters=sum(report.dead_letters for report in reports),
        rows=reports[-1].rows,
        stream_time=reports[-1].stream_time,
    )


def rows(log: EmbeddedLog, topic: str) -> list[tuple[Any, ...]]:
    """Return key, value, timestamp and the header ``h``, None if there is none, of each record of a topic."""
    records: list[tuple[Any, ...]] = []
    if topic in log.topic_names():
        for chunk in log.read(topic, 0, 0, log.offsets(topic)[0].end):
            keys, values, times = (column.to_pylist() for column in chunk.block.columns[:3])
            marks = [dict(headers).get("h") for headers in headers_of(chunk.block) or [()] * len(keys)]
            records += zip(keys, values, times, marks, strict=True)
    return records

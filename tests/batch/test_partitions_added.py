"""Partitions that a source topic gets while the app runs are read after a new layout, or stop the app."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.assembling import assemble, local_loop

from millstream import App
from millstream.batch.assembly import Assembly
from millstream.batch.batch import Batch, check_ran
from millstream.batch.journal import Journal
from millstream.batch.planner import BatchSize
from millstream.batch.report import BatchReport
from millstream.broker import Output
from millstream.errors import PartitionsAddedError, StateError
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.task.report import TaskReport
from millstream.task.task_input import Range

Topic = Callable[..., str]


def grow(log: EmbeddedLog) -> None:
    """Double the partitions of the topic and write a record to a new one and to an old one."""
    log.alter_topic("n", partitions=4)
    log.append([Output("n", partition, block_of([b"k"], [b"7"], [99])) for partition in (0, 3)])


def test_the_loop_stops_before_an_offset_of_a_new_partition_moves(
    assembly: Assembly, log: EmbeddedLog, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal", durable=False)

    def on_batch(report: BatchReport) -> None:
        if report.plan.number == 1:
            grow(log)

    with pytest.raises(PartitionsAddedError, match="'n' has 4 partitions, but the app started when it had 2"):
        local_loop(assembly, journal, batch_records=2, on_batch=on_batch).run("caught-up")
    progress, planned = journal.read()
    assert planned is None
    assert sorted(progress.positions) == ["n/0", "n/1"]
    assert {position.partition for position in log.committed("test")} == {0, 1}
    close_environments(tmp_path)


def test_a_resident_planner_leaves_new_partitions_to_the_driver(assembly: Assembly, log: EmbeddedLog) -> None:
    journal = Journal(Path(assembly.settings.state_dir).parent / "journal", durable=False)
    planner = assembly.small_planner(1000)
    grow(log)
    backlog = planner.backlog(journal.read()[0])
    assert {range_.partition for range_ in backlog} == {0, 1}
    assert planner.unread_partitions == {"n": (2, 4)}


def test_a_new_layout_reads_the_new_partitions_and_keeps_the_tasks_of_other_stages(
    assembly: Assembly, log: EmbeddedLog, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal", durable=False)
    local_loop(assembly, journal).run("caught-up")
    grow(log)
    plan = assembly.layout.plan
    layout = Layout.of(plan, {"n": 4}, before=assembly.layout.partitions_by_stage)
    assert [(stage.name, count) for stage, count in zip(plan.stages, layout.partitions, strict=True)] == [
        ("n", 4),
        ("n.count-repartition", 2),
    ]
    local_loop(Assembly(assembly.settings, layout, log), journal).run("caught-up")
    assert sorted(journal.read()[0].positions) == ["n/0", "n/1", "n/3"]
    assert journal.read()[0].positions["n/3"] == 1
    close_environments(tmp_path)


def test_a_range_that_no_task_has_read_is_never_marked_as_done() -> None:
    batch = Batch(number=3, wall_time=0, ranges=(Range("n", 0, 0, 1), Range("n", 5, 0, 1)))
    with pytest.raises(StateError, match="batch 3 has 2 ranges, but its tasks have read 1"):
        check_ran(batch, ["n/0"], [TaskReport(task=0, ranges=1)])
    check_ran(batch, ["n/0", "n/5"], [TaskReport(task=0, ranges=1), TaskReport(task=1, ranges=1)])
    check_ran(batch, [], [])


def test_a_topic_of_a_global_table_may_grow(log: EmbeddedLog, topic: Topic, tmp_path: Path) -> None:
    topic([0], name="n")
    topic([0], name="rates")
    topic([], name="out")
    app = App("test")
    app.stream("n").join(app.global_table("rates"), lambda n, rate: rate, key=lambda key, _value: key).to("out")
    assembly = assemble(app, log, state_dir=str(tmp_path / "state"), durable=False)
    log.alter_topic("rates", partitions=2)
    planner = assembly.planner(BatchSize(10, 1.0))
    journal = Journal(tmp_path / "journal", durable=False)
    planner.backlog(journal.read()[0])
    assert planner.unread_partitions == {}
    close_environments(tmp_path)

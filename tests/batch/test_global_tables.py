"""Global tables in batches: a batch stores their offsets, so it sees the same rows each time it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.assembling import assemble

from millstream import App
from millstream.batch.batch import Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.small_planner import SmallPlanner
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.task.environment import TaskEnvironment
from millstream.task.task_input import Range


class BrokenJoinerError(Exception):
    pass


failing: list[bool] = []


def joined(sale: str, rate: str) -> str:
    if failing:
        raise BrokenJoinerError
    return f"{sale}-{rate}"


@pytest.fixture
def shop(log: EmbeddedLog, tmp_path: Path) -> Iterator[TaskEnvironment]:
    app = App("test")
    rates = app.global_table("rates", value=str)
    app.stream("sales", value=str).join(rates, joined, key=lambda _sale: "EUR").to("out")
    for topic in ("rates", "sales", "out"):
        log.create_topic(topic, TopicConfig(partitions=1 if topic == "out" else 2))
    yield assemble(app, log, state_dir=str(tmp_path / "state"), durable=False).environment()
    failing.clear()
    close_environments(tmp_path)


@pytest.fixture
def send(log: EmbeddedLog) -> Callable[[str, str], None]:
    """Append a record with the key EUR to both partitions of a topic."""

    def send(topic: str, value: str) -> None:
        for partition in range(2):
            log.append([Output(topic, partition, block_of([b"EUR"], [value.encode()], [0]))])

    return send


def planner(log: EmbeddedLog, size: int = 100) -> Planner:
    return Planner(log, ["rates", "sales"], BatchSize(size, 1.0), global_topics={"rates"})


def outputs(log: EmbeddedLog) -> list[bytes]:
    (offsets,) = log.offsets("out")
    return [value for chunk in log.read("out", 0, 0, offsets.end) for value in chunk.block.column(1).to_pylist()]


def test_a_batch_reads_global_tables_to_their_end_whatever_its_size(
    log: EmbeddedLog, topic: Callable[..., str]
) -> None:
    topic(list(range(100, 150)), [], name="rates")
    topic(list(range(10)), list(range(10)), name="sales")
    batch = planner(log, size=4).plan(Progress())
    assert batch is not None
    assert batch.ranges == (Range("rates", 0, 0, 50), Range("sales", 0, 0, 2), Range("sales", 1, 0, 2))
    assert batch.global_tables == {"rates": (50, 0)}
    following = planner(log, size=4).plan(progress_after(Progress(), batch, [], []))
    assert following is not None
    assert following.global_tables == {"rates": (50, 0)}, "a batch has the offsets even if it does not change the table"


def test_a_small_planner_leaves_a_large_global_table_to_the_driver(log: EmbeddedLog, topic: Callable[..., str]) -> None:
    topic(list(range(50)), [], name="rates")
    small = SmallPlanner(log, ["rates"], BatchSize(10, 1.0), global_topics={"rates"})
    assert small.plan(Progress()) is None
    assert small.is_backlog_too_large


def test_a_batch_that_runs_again_sees_the_same_rows(
    shop: TaskEnvironment, log: EmbeddedLog, send: Callable[[str, str], None]
) -> None:
    send("rates", "old")
    send("sales", "s1")
    batch = planner(log).plan(Progress())
    assert batch is not None
    failing.append(True)
    with pytest.raises(Exception, match="BrokenJoinerError"):
        run_batch(shop, batch, {})
    failing.clear()
    send("rates", "new")
    first = run_batch(shop, batch, {})
    assert outputs(log) == [b'"s1-old"'] * 2

    again = run_batch(shop, batch, {})
    assert all(report.replayed for report in again if report.task >= 0 and report.records_in)
    assert [report.rows for report in again if report.task < 0] == [report.rows for report in first if report.task < 0]
    assert outputs(log) == [b'"s1-old"'] * 2

    progress = progress_after(Progress(), batch, task_names(shop.layout), first)
    send("sales", "s2")
    following = planner(log).plan(progress)
    assert following is not None
    run_batch(shop, following, progress.versions)
    assert outputs(log) == [b'"s1-old"'] * 2 + [b'"s2-new"'] * 2


def test_a_lost_copy_is_loaded_again_up_to_the_offsets_of_the_batch(
    shop: TaskEnvironment, log: EmbeddedLog, send: Callable[[str, str], None], tmp_path: Path
) -> None:
    send("rates", "old")
    batch = planner(log).plan(Progress())
    assert batch is not None
    progress = progress_after(Progress(), batch, task_names(shop.layout), run_batch(shop, batch, {}))
    send("sales", "s1")
    following = planner(log).plan(progress)
    assert following is not None
    send("rates", "new")
    close_environments(tmp_path / "state" / "rates")
    for file in (tmp_path / "state" / "rates" / "0").iterdir():
        file.unlink()
    run_batch(shop, following, progress.versions)
    assert outputs(log) == [b'"s1-old"'] * 2

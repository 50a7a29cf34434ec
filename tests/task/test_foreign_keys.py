"""Foreign-key joins over several tasks and batches: whatever the order of answers, the newest left row wins."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream import App
from millstream.batch.batch import Batch, Progress, progress_after
from millstream.batch.execute import run_batch, task_names
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.tables.opening import readers_of
from millstream.task.environment import TaskEnvironment
from millstream.task.policy import Policies
from millstream.task.task_input import Range

SEEDS = (1, 2, 3)
COUNTS = {"left": 3, "right": 5}


def app(keeps_left: bool) -> App:
    app = App("test")
    left, right = app.table("left", key=str, value=str), app.table("right", key=str, value=str)
    join = left.left_join if keeps_left else left.join
    join(right, lambda left, right: f"{left}+{right}", on=lambda row: row.partition("|")[2] or None, name="joined")
    return app


@pytest.fixture
def make_env(log: EmbeddedLog, tmp_path: Path) -> Callable[[App], TaskEnvironment]:
    def make_env(app: App) -> TaskEnvironment:
        for topic, count in COUNTS.items():
            log.create_topic(topic, TopicConfig(partitions=count))
        return TaskEnvironment(
            app=app.id,
            layout=Layout.of(app.plan, COUNTS),
            broker=log,
            state_dir=tmp_path / "state",
            policies=Policies.of(app.id, app.config),
            caching=False,
            durable=False,
        )

    return make_env


def test_answers_return_to_the_tasks_of_the_left_side() -> None:
    layout = Layout.of(app(keeps_left=True).plan, COUNTS)
    partitions = {stage.name: count for stage, count in zip(layout.plan.stages, layout.partitions, strict=True)}
    assert partitions == {"left": 3, "right": 5, "joined-response": 3}


@pytest.mark.parametrize("keeps_left", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_result_is_the_join_of_the_last_rows(
    seed: int, keeps_left: bool, log: EmbeddedLog, make_env: Callable[[App], TaskEnvironment]
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    env, rows = make_env(app(keeps_left)), {"left": dict[str, str](), "right": dict[str, str]()}
    progress, starts = Progress(), dict.fromkeys(((t, p) for t in COUNTS for p in range(COUNTS[t])), 0)
    clock = 0
    for batch in range(1, 15):
        for _ in range(dice.randint(1, 30)):
            topic, key, clock = dice.choice(("left", "left", "right")), dice.choice("abcdefgh"), clock + 1
            value = None if dice.random() < 0.2 else f"v{clock}|{dice.choice(('', 'a', 'b', 'c', 'd'))}"
            if value is None:
                rows[topic].pop(key, None)
            else:
                rows[topic][key] = value
            raw = None if value is None else value.encode()
            partition = partition_of(key.encode(), COUNTS[topic])
            log.append([Output(topic, partition, block_of([key.encode()], [raw], [clock]))])
        ranges = []
        for (topic, partition), start in starts.items():
            stop = log.offsets(topic)[partition].end
            if stop > start:
                ranges.append(Range(topic, partition, start, stop))
                starts[topic, partition] = stop
        plan = Batch(number=batch, wall_time=0, ranges=tuple(ranges))
        progress = progress_after(progress, plan, task_names(env.layout), run_batch(env, plan, progress.versions))
        expected = {}
        for key, row in rows["left"].items():
            partner = rows["right"].get(row.partition("|")[2])
            if partner is not None or keeps_left:
                expected[key] = f"{row}+{partner}"
        assert dict(readers_of(env.layout, env.state_dir)["joined"].items()) == expected, f"batch {batch}"

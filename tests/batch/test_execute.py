from collections import defaultdict

from tests.batch.conftest import ALL, counts

from millstream import App
from millstream.batch.batch import Batch
from millstream.batch.execute import ShuffleInputs, run_tasks, shuffle_inputs_of, task_input_of, task_names
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment
from millstream.task.outbox import OutboxBlock
from millstream.task.task_input import Range, ShuffleInput


def layout() -> Layout:
    app = App("test")
    app.stream("a").group_by(str).count(name="seen")
    app.stream("b").to("out")
    return Layout.of(app.plan, {"a": 2, "b": 3})


def test_tasks_are_named_by_stage_and_partition() -> None:
    assert task_names(layout()) == [
        "a/0", "a/1", "b/0", "b/1", "b/2", "seen-repartition/0", "seen-repartition/1",
    ]  # fmt: skip


def test_a_task_gets_the_ranges_of_its_topics_and_its_partition() -> None:
    batch = Batch(number=9, wall_time=5, ranges=(Range("a", 0, 0, 3), Range("a", 1, 0, 4), Range("b", 1, 2, 3)))
    inputs = [task_input_of(layout(), batch, task, StateVersion(task, "c")) for task in range(7)]
    assert [task_input.ranges for task_input in inputs] == [
        (Range("a", 0, 0, 3),), (Range("a", 1, 0, 4),), (), (Range("b", 1, 2, 3),), (), (), (),
    ]  # fmt: skip
    assert {(task_input.batch, task_input.wall_time) for task_input in inputs} == {(9, 5)}
    assert [task_input.expected.batch for task_input in inputs] == list(range(7))


def test_blocks_for_other_stages_reach_the_task_of_their_partition() -> None:
    blocks = [
        OutboxBlock(partition=1, data=b"x", edge="seen-repartition"),
        OutboxBlock(partition=0, data=b"y", edge="seen-repartition"),
    ]
    assert list(shuffle_inputs_of(layout(), 1, blocks)) == [
        (6, ShuffleInput("seen-repartition", 1, b"x")),
        (5, ShuffleInput("seen-repartition", 1, b"y")),
    ]


def test_a_block_for_a_stage_that_was_removed_is_ignored() -> None:
    assert list(shuffle_inputs_of(layout(), 1, [OutboxBlock(partition=0, data=b"x", edge="gone")])) == []


def test_parts_of_levels_that_exchange_their_shuffle_data_do_what_the_whole_batch_does(
    env: TaskEnvironment, log: EmbeddedLog
) -> None:
    batch = Batch(number=1, wall_time=0, ranges=(Range("n", 0, 0, 5), Range("n", 1, 0, 5)))
    inputs: ShuffleInputs = defaultdict(list)
    for part in ([0], [1], [2, 3]):
        for _, sent in run_tasks(env, batch, {}, part, inputs, is_first=part == [0]):
            for receiver, data in sent:
                inputs[receiver].append(data)
    assert inputs == {}
    assert counts(log) == ALL

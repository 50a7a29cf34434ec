from millstream import App
from millstream.batch.batch import Batch
from millstream.batch.execute import delivered, task_names, work_of
from millstream.plan.layout import Layout
from millstream.state.task import StateVersion
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
    plan = Batch(number=9, wall_time=5, ranges=(Range("a", 0, 0, 3), Range("a", 1, 0, 4), Range("b", 1, 2, 3)))
    works = [work_of(layout(), plan, task, StateVersion(task, "c")) for task in range(7)]
    assert [work.ranges for work in works] == [
        (Range("a", 0, 0, 3),), (Range("a", 1, 0, 4),), (), (Range("b", 1, 2, 3),), (), (), (),
    ]  # fmt: skip
    assert {(work.batch, work.wall_time) for work in works} == {(9, 5)}
    assert [work.expected.batch for work in works] == list(range(7))


def test_letters_arrive_at_the_task_of_their_partition() -> None:
    letters = [
        OutboxBlock(partition=1, data=b"x", edge="seen-repartition"),
        OutboxBlock(partition=0, data=b"y", edge="seen-repartition"),
    ]
    assert list(delivered(layout(), 1, letters)) == [
        (6, ShuffleInput("seen-repartition", 1, b"x")),
        (5, ShuffleInput("seen-repartition", 1, b"y")),
    ]

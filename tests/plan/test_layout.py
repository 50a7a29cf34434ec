import pytest

from millstream import App
from millstream.errors import DefinitionError
from millstream.plan.layout import Layout


def partitions(app: App, **topics: int) -> dict[str, int]:
    layout = Layout.of(app.plan, topics)
    return dict(zip((stage.name for stage in layout.plan.stages), layout.partitions, strict=True))


def test_a_stage_and_its_successors_have_a_task_per_partition_of_the_topic() -> None:
    app = App("test")
    app.stream("rides").group_by(str, name="zone").count()
    assert partitions(app, rides=6) == {"rides": 6, "zone.count-repartition": 6}


def test_repartition_sets_the_number_of_tasks_of_the_next_stage() -> None:
    app = App("test")
    app.stream("rides").select_key(str).repartition(3, name="less").group_by_key().count()
    assert partitions(app, rides=6) == {"rides": 6, "less": 3}


def test_merged_topics_have_a_task_per_partition_of_the_largest_topic() -> None:
    app = App("test")
    app.stream("a").merge(app.stream("b")).to("out")
    assert partitions(app, a=2, b=5) == {"a": 5}


def test_a_rekeyed_stream_gets_the_partition_count_of_the_table_it_is_joined_with() -> None:
    app = App("test")
    app.stream("rides").select_key(str).join(app.table("zones"), lambda left, right: left)
    assert partitions(app, rides=8, zones=2) == {"rides": 8, "zones": 2}


@pytest.mark.parametrize(("rides", "zones"), [(4, 2), (2, 4)])
def test_joining_sides_with_different_partition_counts_is_rejected(rides: int, zones: int) -> None:
    app = App("test")
    app.stream("rides").filter(bool).join(app.table("zones"), lambda left, right: left)
    message = r"cannot join '(rides|zones)' \(2 partitions\) with '(rides|zones)' \(4 partitions\).*\.repartition\(4\)"
    with pytest.raises(DefinitionError, match=message):
        partitions(app, rides=rides, zones=zones)


def test_the_partition_counts_of_all_topics_of_a_join_are_checked() -> None:
    app = App("test")
    app.stream("a").merge(app.stream("b", "c")).join(app.table("zones"), lambda left, right: left)
    assert partitions(app, a=2, b=2, c=2, zones=2) == {"a": 2}
    with pytest.raises(DefinitionError, match=r"'a' \(2 partitions\) with 'c' \(3 partitions\)"):
        partitions(app, a=2, b=2, c=3, zones=2)


def test_the_partition_count_of_a_repartition_before_a_join_is_checked() -> None:
    app = App("test")
    app.stream("rides").repartition(3, name="spread").join(app.table("zones"), lambda left, right: left)
    assert partitions(app, rides=8, zones=3) == {"rides": 8, "spread": 3}
    with pytest.raises(DefinitionError, match=r"'zones' \(2 partitions\) with 'spread' \(3 partitions\)"):
        partitions(app, rides=8, zones=2)


def test_tasks_are_numbered_by_stage_and_listed_by_level() -> None:
    app = App("test")
    app.stream("rides").select_key(str).repartition(3).group_by_key().count()
    layout = Layout.of(app.plan, {"rides": 2})
    assert layout.tasks == ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
    assert layout.first_task == (0, 2, 5)
    assert (layout.tasks_on(0), layout.tasks_on(1)) == ([0, 1], [2, 3, 4])

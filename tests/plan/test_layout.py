import pytest

from millstream import App
from millstream.errors import DefinitionError
from millstream.plan.layout import Layout


def partitions(app: App, **topics: int) -> dict[str, int]:
    layout = Layout.of(app.plan, topics)
    return dict(zip((stage.name for stage in layout.plan.stages), layout.partitions, strict=True))


def test_a_stage_has_as_many_tasks_as_its_topic_partitions_and_its_successors_as_many() -> None:
    app = App("test")
    app.stream("rides").group_by(str, name="zone").count()
    assert partitions(app, rides=6) == {"rides": 6, "zone.count-repartition": 6}


def test_repartition_says_how_many_tasks_follow() -> None:
    app = App("test")
    app.stream("rides").select_key(str).repartition(3, name="less").group_by_key().count()
    assert partitions(app, rides=6) == {"rides": 6, "less": 3}


def test_merged_topics_have_a_task_for_each_partition_of_the_largest() -> None:
    app = App("test")
    app.stream("a").merge(app.stream("b")).to("out")
    assert partitions(app, a=2, b=5) == {"a": 5}


def test_a_re_keyed_stream_is_spread_as_the_table_that_it_meets() -> None:
    app = App("test")
    app.stream("rides").select_key(str).join(app.table("zones"), lambda one, two: one)
    assert partitions(app, rides=8, zones=2) == {"rides": 8, "zones": 2}


@pytest.mark.parametrize(("rides", "zones"), [(4, 2), (2, 4)])
def test_unequal_sides_of_a_join_are_refused_with_names_and_numbers(rides: int, zones: int) -> None:
    app = App("test")
    app.stream("rides").filter(bool).join(app.table("zones"), lambda one, two: one)
    message = r"cannot join '(rides|zones)' \(2 partitions\) with '(rides|zones)' \(4 partitions\).*\.repartition\(4\)"
    with pytest.raises(DefinitionError, match=message):
        partitions(app, rides=rides, zones=zones)


def test_every_topic_that_flows_into_a_join_is_looked_at() -> None:
    app = App("test")
    app.stream("a").merge(app.stream("b", "c")).join(app.table("zones"), lambda one, two: one)
    assert partitions(app, a=2, b=2, c=2, zones=2) == {"a": 2}
    with pytest.raises(DefinitionError, match=r"'a' \(2 partitions\) with 'c' \(3 partitions\)"):
        partitions(app, a=2, b=2, c=3, zones=2)


def test_a_repartition_in_front_of_a_join_must_fit_too() -> None:
    app = App("test")
    app.stream("rides").repartition(3, name="spread").join(app.table("zones"), lambda one, two: one)
    assert partitions(app, rides=8, zones=3) == {"rides": 8, "spread": 3}
    with pytest.raises(DefinitionError, match=r"'zones' \(2 partitions\) with 'spread' \(3 partitions\)"):
        partitions(app, rides=8, zones=2)


def test_tasks_are_numbered_stage_by_stage_and_found_by_level() -> None:
    app = App("test")
    app.stream("rides").select_key(str).repartition(3).group_by_key().count()
    layout = Layout.of(app.plan, {"rides": 2})
    assert layout.tasks == ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2))
    assert layout.first_task == (0, 2, 5)
    assert (layout.tasks_on(0), layout.tasks_on(1)) == ([0, 1], [2, 3, 4])

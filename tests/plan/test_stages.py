from millstream import App
from millstream.batch.execute import task_names
from millstream.plan.layout import Layout
from millstream.plan.stateless import Repartition


def stages(app: App) -> list[tuple[str, int, list[str | None]]]:
    return [(stage.name, stage.level, [node.name for node in stage.nodes]) for stage in app.plan.stages]


def test_a_topology_without_repartition_has_one_stage() -> None:
    app = App("test")
    app.stream("rides").group_by_key().count().to_stream().to("out")
    assert stages(app) == [("rides", 0, ["rides.count", "rides.count.to_stream", "rides.count.sink"])]


def test_a_repartition_edge_separates_two_stages() -> None:
    app = App("test")
    app.stream("rides").group_by(str, name="zone").count().to_stream().to("out")
    assert stages(app) == [
        ("rides", 0, ["zone", "zone.count-repartition"]),
        ("zone.count-repartition", 1, ["zone.count", "zone.count.to_stream", "zone.count.sink"]),
    ]


def test_stages_are_ordered_by_level() -> None:
    app = App("test")
    counts = app.stream("rides").group_by(str, name="a").count()
    counts.to_stream().group_by(str, name="b").count()
    app.stream("other").to("out")
    assert [(name, level) for name, level, _ in stages(app)] == [
        ("rides", 0), ("other", 0), ("a.count-repartition", 1), ("b.count-repartition", 2),
    ]  # fmt: skip
    assert app.plan.levels == 3


def test_merged_sources_are_in_one_stage_and_other_sources_are_not() -> None:
    app = App("test")
    first, second, third = (app.stream(topic) for topic in ("one", "two", "three"))
    third.to("out")
    first.merge(second).to("out")
    stage_topics = [(stage.name, stage.topics) for stage in app.plan.stages]
    assert stage_topics == [("one", ("one", "two")), ("three", ("three",))]


def test_the_level_of_a_stage_is_above_all_its_inputs() -> None:
    app = App("test")
    table = app.stream("clicks").group_by(str, name="a").count().to_stream().group_by(str, name="b").count()
    app.stream("visits").select_key(str).join(table, lambda left, right: left, name="joined")
    level = {stage.name: stage.level for stage in app.plan.stages}
    assert level["b.count-repartition"] == 2
    stage = next(stage for stage in app.plan.stages if stage.name == "b.count-repartition")
    assert [node.name for node in stage.inputs] == ["b.count-repartition", "joined-repartition"]


def test_a_table_belongs_to_the_stage_that_stores_it() -> None:
    app = App("test")
    app.table("zones")
    app.stream("rides").group_by(str, name="zone").count()
    assert {stage.name: [node.name for node in stage.stores] for stage in app.plan.stages} == {
        "zones": ["zones"], "rides": [], "zone.count-repartition": ["zone.count"],
    }  # fmt: skip


def test_a_stream_joined_with_its_own_aggregate_runs_in_rounds() -> None:
    app = App("test")
    rides = app.stream("rides")
    counts = rides.group_by(str).count()
    rides.join(counts, lambda ride, count: count).to("out")
    first, second = app.plan.stages
    assert (first.name, first.level, first.round, first.topics) == ("rides", 0, 0, ("rides",))
    assert (second.name, second.level, second.round, second.topics) == ("rides", 1, 1, ())
    assert [node.name for node in second.inputs] == ["rides.count-repartition"]
    assert first.store_names == second.store_names == ("rides.count",)
    layout = Layout.of(app.plan, {"rides": 3})
    assert layout.partitions == (3, 3)
    assert task_names(layout) == [f"rides/{partition}" for _ in range(2) for partition in range(3)]


def test_two_stages_that_feed_each_other_alternate_in_rounds() -> None:
    app = App("test")
    first, second = app.stream("one"), app.stream("two")
    first.join(second.group_by(str, name="twos").count(), lambda left, right: left).to("out")
    second.join(first.group_by(str, name="ones").count(), lambda left, right: left).to("out")
    inputs = [(stage.name, stage.level, [node.name for node in stage.inputs]) for stage in app.plan.stages]
    assert inputs == [
        ("one", 0, ["one"]), ("two", 0, ["two"]),
        ("one", 1, ["twos.count-repartition"]), ("two", 1, ["ones.count-repartition"]),
    ]  # fmt: skip


def edges_read(app: App) -> list[list[str]]:
    """The edges that each stage reads, in the order in which it takes records of equal timestamps."""
    return [[str(node.name) for node in stage.inputs if isinstance(node, Repartition)] for stage in app.plan.stages]


def test_edges_are_read_in_the_order_in_which_a_record_is_written_to_them() -> None:
    """Of records with equal timestamps those go first that have waited longest, as in Kafka Streams."""
    app = App("app")
    lines = app.stream("lines", value=str).select_key(lambda value: value)
    again = lines.select_key(lambda value: value)  # defined first, so it gets each record first
    first, second = lines.group_by(lambda value: value), again.group_by(lambda value: value)
    first.cogroup(lambda total, value: total + value).cogroup(second, lambda total, value: total + value).aggregate(
        str, name="both"
    )
    assert edges_read(app)[1:] == [["both-repartition-2", "both-repartition"]]


def test_the_order_of_edges_is_that_of_each_source_that_writes_several() -> None:
    app = App("app")
    first, second = app.stream("first", value=str), app.stream("second", value=str)
    moved = second.repartition(name="moved")
    both = first.merge(second).group_by(lambda value: value)  # reached by both sources, from the second one later
    both.cogroup(lambda total, value: total + value).cogroup(moved.group_by_key(), lambda total, _: total).aggregate(
        str, name="both"
    )
    assert edges_read(app)[1:] == [["moved", "both-repartition"]]

from collections.abc import Callable

import pytest

from millstream import App, tumbling
from millstream.dsl.stream import Stream
from millstream.plan.stateless import MapValues, Repartition
from millstream.serdes import INT64


def edges(app: App) -> list[Repartition]:
    return [node for node in app.plan.nodes if isinstance(node, Repartition)]


@pytest.mark.parametrize(
    "rekey",
    [
        lambda stream: stream.select_key(str),
        lambda stream: stream.map(lambda value: (value, value)),
        lambda stream: stream.flat_map(lambda value: []),
        lambda stream: stream.select_key(str).filter(bool).map_values(str).peek(print),
        lambda stream: stream.merge(stream.select_key(str)),
        lambda stream: stream.select_key(str).split().branch(bool).branches["1"],
    ],
)
def test_a_repartition_edge_is_inserted_where_the_key_may_have_changed(rekey: Callable[[Stream], Stream]) -> None:
    app = App("test")
    rekey(app.stream("rides")).group_by_key().count(name="seen")
    (edge,) = edges(app)
    assert edge.name == "seen-repartition"


@pytest.mark.parametrize(
    "keep",
    [
        lambda stream: stream,
        lambda stream: stream.filter(bool).map_values(str).flat_map_values(str.split).peek(print),
        lambda stream: stream.select_key(str).repartition(),
        lambda stream: stream.select_key(str).to_table(name="rows").to_stream(),
    ],
)
def test_no_repartition_edge_is_inserted_where_records_are_already_partitioned_by_key(
    keep: Callable[[Stream], Stream],
) -> None:
    app = App("test")
    keep(app.stream("rides")).group_by_key().count(name="seen")
    assert "seen-repartition" not in [edge.name for edge in edges(app)]


def test_stateless_steps_need_no_repartition_edge() -> None:
    app = App("test")
    app.stream("rides").select_key(str).to("out")
    assert edges(app) == []


def test_steps_that_read_the_same_rekeyed_stream_share_a_repartition_edge() -> None:
    app = App("test")
    rekeyed = app.stream("rides").select_key(str)
    rekeyed.group_by_key().count(name="seen")
    rekeyed.to_table(name="last")
    readers = [
        [reader.name for reader, _ in plan.readers[node]]
        for plan in [app.plan]
        for node in plan.nodes
        if isinstance(node, Repartition)
    ]
    assert readers == [["seen", "last"]]


def test_steps_that_partition_keys_differently_do_not_share_a_repartition_edge() -> None:
    app = App("test")
    rekeyed = app.stream("rides").select_key(len)
    rekeyed.group_by_key().count(name="seen")
    rekeyed.join(app.table("zones", key=INT64), lambda left, right: left, name="joined")
    assert [(edge.name, edge.key) for edge in edges(app)] == [("seen-repartition", None), ("joined-repartition", INT64)]


def test_a_repartition_edge_forwards_null_keys_only_for_a_left_join() -> None:
    app = App("test")
    zones, rides = app.table("zones"), app.stream("rides")
    rides.select_key(repr, name="first").join(zones, lambda left, right: left, name="inner")
    rides.select_key(lambda ride: str(ride)).left_join(zones, lambda left, right: left, name="left")
    shared = rides.select_key(str)
    shared.to_table(name="last")
    shared.left_join(zones, lambda left, right: left, name="shared")
    assert [(edge.name, edge.null_keys) for edge in edges(app)] == [
        ("inner-repartition", False), ("left-repartition", True), ("last-repartition", True),
    ]  # fmt: skip


def test_a_repartition_edge_carries_no_values_if_its_readers_only_count() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.group_by(lambda r: r[0], name="a").count()
    both = rides.select_key(lambda r: r[1])
    both.group_by_key().count(name="b")
    both.to_table(name="c")
    rides.select_key(lambda r: r[2]).repartition(name="unread")
    windows = tumbling("1 s")
    rides.group_by(lambda r: r[3]).windowed_by(windows).count(name="d")
    rides.group_by(lambda r: r[4]).windowed_by(windows, late_to="late").count(name="e")
    rides.group_by(lambda r: r[5]).windowed_by(windows).reduce(max, name="f")
    assert {edge.name: edge.carries_values for edge in edges(app)} == {
        "a.count-repartition": False, "b-repartition": True, "unread": True,
        "d-repartition": False, "e-repartition": True, "f-repartition": True,
    }  # fmt: skip


def selections(app: App) -> dict[str, str | None]:
    """Return what each selected value is read from, by the edge or aggregation that reads it."""
    plan = app.plan
    nodes = [node for node in plan.nodes if isinstance(node, MapValues) and node.measure]
    return {str(plan.readers[node][0][0].name): node.source.name for node in nodes}


def test_an_aggregation_selects_its_values_before_an_edge_of_its_own() -> None:
    app = App("test")
    rides = app.stream("rides", value=dict)
    rides.group_by(str).sum("fare", name="fares")
    rides.group_by(repr).windowed_by(tumbling("1 s")).sum("fare", name="windows")
    assert selections(app) == {"fares-repartition": "rides.select_key", "windows-repartition": "rides.select_key-2"}


def test_aggregations_select_their_values_after_an_edge_that_they_share() -> None:
    app = App("test")
    by_zone = app.stream("rides", value=dict).group_by(str)
    by_zone.sum("fare", name="fares")
    by_zone.windowed_by(tumbling("1 s")).mean("km", name="lengths")
    by_zone.count(name="seen")
    assert [edge.name for edge in edges(app)] == ["fares-repartition"]
    assert selections(app) == {"fares": "fares-repartition", "lengths": "fares-repartition"}

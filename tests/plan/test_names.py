import pytest

from millstream import App
from millstream.errors import DefinitionError, InvalidNameError


def names(app: App) -> list[str | None]:
    return [node.name for node in app.plan.nodes]


def test_names_are_derived_from_the_nearest_name_above() -> None:
    app = App("test")
    app.stream("rides").filter(bool).group_by(str, name="by_zone").count().to_stream().to("out")
    assert names(app) == [
        "rides", "rides.filter", "by_zone", "by_zone.count-repartition", "by_zone.count", "by_zone.count.to_stream",
        "by_zone.count.sink",
    ]  # fmt: skip


def test_the_name_of_a_source_is_its_topics() -> None:
    app = App("test")
    app.stream("a", "b").to("out")
    assert names(app) == ["a-b", "a-b.sink"]


def test_stateless_steps_do_not_change_the_names_of_stateful_ones() -> None:
    short, long = App("test"), App("test")
    short.stream("rides").group_by_key().count()
    long.stream("rides").filter(bool).map_values(str).peek(print).filter(bool).group_by_key().count()
    assert names(short)[-1] == names(long)[-1] == "rides.count"


def test_stateless_steps_of_one_kind_are_numbered_for_display() -> None:
    app = App("test")
    app.stream("rides").filter(bool).filter(bool).filter(bool)
    assert names(app) == ["rides", "rides.filter", "rides.filter-2", "rides.filter-3"]


def test_two_stateful_steps_with_one_derived_name_are_refused_with_the_way_out() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.group_by_key().count()
    rides.filter(bool).group_by_key().count()
    with pytest.raises(DefinitionError, match=r"two nodes are called 'rides\.count'.*name='rides\.count_2'"):
        _ = app.plan


def test_a_name_given_twice_is_refused() -> None:
    app = App("test")
    app.stream("rides", name="x").group_by_key().count(name="x")
    with pytest.raises(DefinitionError, match="two nodes are called 'x': a stream_source and a count") as caught:
        _ = app.plan
    assert caught.value.facts == {"name": "x"}


@pytest.mark.parametrize("name", ["a/b", "", ".hidden", "a b", "x" * 201])
def test_a_wrong_name_is_refused(name: str) -> None:
    app = App("test")
    app.stream("rides").group_by_key().count(name=name)
    with pytest.raises(InvalidNameError, match="count name"):
        _ = app.plan


def test_a_name_that_an_edge_needs_is_refused() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.repartition(name="zones-repartition")
    rides.group_by(str).count(name="zones")
    with pytest.raises(DefinitionError, match="'zones-repartition' is the name of the edge that 'zones' needs"):
        _ = app.plan


def test_asking_for_the_plan_does_not_change_the_topology() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.group_by(str).count()
    before = names(app)
    assert names(app) == before
    rides.to("out")
    assert names(app) == [*before, "rides.sink"]

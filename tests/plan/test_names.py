import pytest

from millstream import App
from millstream.errors import DefinitionError, InvalidNameError


def names(app: App) -> list[str | None]:
    return [node.name for node in app.plan.nodes]


def test_names_are_derived_from_the_nearest_named_step_upstream() -> None:
    app = App("test")
    app.stream("rides").filter(bool).group_by(str, name="by_zone").count().to_stream().to("out")
    assert names(app) == [
        "rides", "rides.filter", "by_zone", "by_zone.count-repartition", "by_zone.count", "by_zone.count.to_stream",
        "by_zone.count.sink",
    ]  # fmt: skip


def test_a_source_is_named_after_its_topics() -> None:
    app = App("test")
    app.stream("a", "b").to("out")
    assert names(app) == ["a-b", "a-b.sink"]


def test_stateless_steps_do_not_affect_the_names_of_stateful_steps() -> None:
    short, long = App("test"), App("test")
    short.stream("rides").group_by_key().count()
    long.stream("rides").filter(bool).map_values(str).peek(print).filter(bool).group_by_key().count()
    assert names(short)[-1] == names(long)[-1] == "rides.count"


def test_stateless_steps_with_the_same_name_are_numbered() -> None:
    app = App("test")
    app.stream("rides").filter(bool).filter(bool).filter(bool)
    assert names(app) == ["rides", "rides.filter", "rides.filter-2", "rides.filter-3"]


def test_tables_that_kafka_streams_allows_without_a_name_are_numbered() -> None:
    app = App("test")
    pets, owners = app.table("pets", value=str), app.table("owners", value=str)
    for _ in range(2):
        app.stream("rides").to_table()
        pets.join(owners, lambda pet, owner: [pet, owner], on=lambda pet: pet)
    numbered = [name for name in names(app) if str(name).endswith(("to_table", "key_join", "-2"))]
    assert numbered == ["rides.to_table", "pets.foreign_key_join", "rides.to_table-2", "pets.foreign_key_join-2"]


def test_duplicate_derived_names_are_rejected_with_a_suggested_name() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.group_by_key().count()
    rides.filter(bool).group_by_key().count()
    with pytest.raises(DefinitionError, match=r"two nodes are called 'rides\.count'.*name='rides\.count_2'"):
        _ = app.plan


def test_duplicate_explicit_names_are_rejected() -> None:
    app = App("test")
    app.stream("rides", name="x").group_by_key().count(name="x")
    with pytest.raises(DefinitionError, match="two nodes are called 'x': a stream_source and a count") as caught:
        _ = app.plan
    assert caught.value.facts == {"name": "x"}


@pytest.mark.parametrize("name", ["a/b", "", ".hidden", "a b", "x" * 201])
def test_an_invalid_name_is_rejected(name: str) -> None:
    app = App("test")
    app.stream("rides").group_by_key().count(name=name)
    with pytest.raises(InvalidNameError, match="count name"):
        _ = app.plan


def test_a_name_reserved_for_a_repartition_edge_is_rejected() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.repartition(name="zones-repartition")
    rides.group_by(str).count(name="zones")
    with pytest.raises(DefinitionError, match="'zones-repartition' is the name of the edge that 'zones' needs"):
        _ = app.plan


def test_building_the_plan_does_not_change_the_topology() -> None:
    app = App("test")
    rides = app.stream("rides")
    rides.group_by(str).count()
    before = names(app)
    assert names(app) == before
    rides.to("out")
    assert names(app) == [*before, "rides.sink"]

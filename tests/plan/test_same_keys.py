"""Steps that compute the same key of the same stream move its records once."""

from collections.abc import Callable
from typing import Any

import pytest

from millstream import App
from millstream.dsl.stream import Stream
from millstream.errors import DefinitionError
from millstream.functions import Function
from millstream.plan.stateless import Repartition
from millstream.testing import TestDriver


class Zones:
    def of(self, ride: Any) -> Any:
        return ride["zone"]


ZONES = Zones()
TOTAL = 7


def zone_of(ride: Any) -> Any:
    return ride["zone"]


def also_zone_of(record: Any) -> Any:
    return record["zone"]


def edges(app: App) -> list[str | None]:
    return [node.name for node in app.plan.nodes if isinstance(node, Repartition)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (zone_of, zone_of),
        (ZONES.of, ZONES.of),
        (lambda ride: ride["zone"], lambda ride: ride["zone"]),
        (lambda ride: ride["km"] % TOTAL, lambda ride: ride["km"] % TOTAL),
        (str, str),
    ],
)
def test_groupings_by_the_same_function_share_an_edge(first: Callable[..., Any], second: Callable[..., Any]) -> None:
    app = App("test")
    rides = app.stream("rides", value=dict)
    rides.group_by(first).count(name="seen")
    rides.group_by(second).sum("fare", name="fares")
    rides.select_key(second).to_table(name="last")
    assert edges(app) == ["seen-repartition"]


def other_default(ride: Any, field: str = "zone") -> Any:
    return ride[field]


def closure(field: str) -> Callable[[Any], Any]:
    return lambda ride: ride[field]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda ride: ride["zone"], lambda ride: ride["city"]),
        (lambda ride: ride["km"] % 1, lambda ride: ride["km"] % 1.0),
        (zone_of, lambda key, ride: ride["zone"]),
        (ZONES.of, Zones().of),
        (closure("zone"), closure("zone")),
        (other_default, closure("zone")),
        (zone_of, also_zone_of),
    ],
)
def test_functions_that_are_not_certain_to_be_the_same_do_not_share_an_edge(
    first: Callable[..., Any], second: Callable[..., Any]
) -> None:
    app = App("test")
    rides = app.stream("rides", value=dict)
    rides.group_by(first).count(name="seen")
    rides.group_by(second).count(name="seen_too")
    assert edges(app) == ["seen-repartition", "seen_too-repartition"]


def test_the_same_function_with_other_key_types_or_streams_does_not_share_an_edge() -> None:
    app = App("test")
    rides = app.stream("rides", value=dict)
    rides.group_by(zone_of, key=int).count(name="numbers")
    rides.group_by(zone_of, key=str).count(name="texts")
    rides.filter(bool).group_by(zone_of, key=str).count(name="others")
    assert edges(app) == ["numbers-repartition", "texts-repartition", "others-repartition"]


def test_groupings_of_one_name_are_one_grouping_if_their_function_is_the_same() -> None:
    app = App("test")
    rides = app.stream("rides", value=dict)
    rides.group_by(lambda ride: ride["zone"], name="zone").count()
    rides.group_by(lambda ride: ride["zone"], name="zone").reduce(max)
    assert edges(app) == ["zone.count-repartition"]
    rides.group_by(lambda ride: ride["city"], name="zone").count(name="cities")
    with pytest.raises(DefinitionError, match="two nodes are called 'zone': a select_key and a select_key"):
        _ = app.plan


def test_groupings_of_a_table_by_the_same_function_share_an_edge() -> None:
    app = App("test")
    rides = app.table("rides", value=dict)
    rides.group_by(lambda ride: (ride["zone"], ride)).count(name="seen")
    rides.group_by(lambda ride: (ride["zone"], ride)).sum("fare", name="fares")
    assert edges(app) == ["seen-repartition"]


@pytest.mark.parametrize("other", [zone_of, lambda ride: ride.get("zone")])
def test_tables_that_share_an_edge_have_the_same_results(other: Callable[..., Any]) -> None:
    """The second function gives the same keys, but its table has its own edge."""
    app = App("test")
    rides: Stream[Any, Any] = app.stream("rides", value=dict)
    rides.group_by(zone_of).count(name="seen").to_stream().to("out")
    rides.group_by(other).sum("fare", name="fares").to_stream().to("out")
    rides.group_by(other).mean("fare", name="means").to_stream().to("out")
    with TestDriver(app) as driver:
        for zone, fare in [("a", 1), ("b", 5), ("a", None), (None, 3), ("a", 4)]:
            driver.topic("rides").pipe({"zone": zone, "fare": fare})
        assert dict(driver.table("seen").items()) == {"a": 3, "b": 1}
        assert dict(driver.table("fares").items()) == {"a": 5, "b": 5}
        assert dict(driver.table("means").items()) == {"a": 2.5, "b": 5.0}


def test_functions_with_equal_code_but_other_names_compute_the_same() -> None:
    def first(ride: Any) -> Any:
        return ride["zone"]

    def second(ride: Any) -> Any:
        return ride["zone"]

    assert Function(first, 1).computes_same_as(Function(second, 1))
    assert not Function(first, 1).computes_same_as(Function(second, 2))

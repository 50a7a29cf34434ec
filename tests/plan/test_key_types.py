"""Keys of different types are never equal: such a join is rejected, or the record with the key fails."""

import pytest

from millstream import App, join_window
from millstream.errors import DefinitionError, ProcessingError
from millstream.plan.layout import Layout
from millstream.serdes import INT64
from millstream.testing import TestDriver


def test_a_stream_table_join_with_different_key_types_is_rejected() -> None:
    app = App("test")
    numbers, texts = app.stream("numbers", key=int), app.table("texts")
    numbers.filter(bool).join(texts.filter(bool), lambda a, b: a)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match=r"'numbers', whose keys are int, with 'texts', whose keys are str"):
        _ = app.plan


@pytest.mark.parametrize("kind", ["streams", "tables"])
def test_other_joins_with_different_key_types_are_rejected(kind: str) -> None:
    app = App("test")
    if kind == "streams":
        app.stream("a").join(app.stream("b", key=bytes), max, within=join_window("1 s"))  # type: ignore[arg-type]
    else:
        app.table("a").join(app.table("b", key=bytes), max)  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="keys of different types are never equal"):
        _ = app.plan


def test_joins_whose_keys_may_be_equal_are_accepted() -> None:
    app = App("test")
    table = app.table("t", key=int)
    app.stream("a", key=INT64).join(table, max)
    app.stream("b").select_key(len).join(table, max)
    app.stream("c", key=int).merge(app.stream("d")).join(table, max)
    app.stream("e").group_by(len).count().join(table, max)
    assert app.plan.stages


@pytest.mark.parametrize("side", ["plain", "history", "global"])
def test_a_lookup_with_a_computed_key_of_another_type_fails(side: str) -> None:
    app = App("test")
    table = (
        app.global_table("users", value=str)
        if side == "global"
        else app.table("users", value=str, history="1 s" if side == "history" else None)
    )
    ids = app.stream("ids", value=int).select_key(lambda n: n)
    ids.left_join(table, lambda n, user: user).to("out")  # type: ignore[arg-type]
    with TestDriver(app) as driver:
        driver.topic("users").pipe("Ann", key="5")
        with pytest.raises(ProcessingError, match="the key is int, but the keys of 'users' are str") as caught:
            driver.topic("ids").pipe(5)
        assert "read 'users' with key=int" in str(caught.value)


def test_a_foreign_key_of_another_type_fails() -> None:
    app = App("test")
    orders, users = app.table("orders", value=int), app.table("users", value=str)
    orders.join(users, lambda user, name: name, on=lambda user: user, name="named")  # type: ignore[arg-type, return-value]
    with TestDriver(app) as driver, pytest.raises(ProcessingError, match="the keys of 'users' are str"):
        driver.topic("orders").pipe(5, key="o1")


def test_a_lookup_with_a_computed_key_of_the_same_type_finds_the_row() -> None:
    app = App("test")
    users = app.table("users", key=int, value=str)
    app.stream("ids", value=int).select_key(lambda n: n).left_join(users, lambda n, user: user).to("out")
    with TestDriver(app) as driver:
        driver.topic("users").pipe("Ann", key=5)
        driver.topic("ids").pipe(5, 6)
        assert driver.topic("out").read_values() == ["Ann", None]


def test_merged_streams_with_different_partition_counts_cannot_be_grouped_by_key() -> None:
    app = App("test")
    app.stream("a").merge(app.stream("b")).group_by_key().count(name="n")
    with pytest.raises(DefinitionError, match=r"'a' \(4 partitions\) and 'b' \(6 partitions\) share the store 'n'"):
        Layout.of(app.plan, {"a": 4, "b": 6})

"""Stores shared between steps, and invalid declarations of stores."""

from typing import Any

import pytest

from millstream import App, Processor, Record, key_value_store, table_store, window_store
from millstream.errors import DefinitionError
from millstream.plan.changes import StoredPlan, compare
from millstream.plan.describe import view
from millstream.plan.layout import Layout


def using(**stores: Any) -> Any:
    class Using(Processor):
        def process(self, record: Record) -> None: ...

    Using.stores = stores
    return Using


def test_steps_that_share_a_store_are_in_one_stage() -> None:
    app = App("test")
    app.stream("a").process(using(x=key_value_store(name="shared")), name="one")
    app.stream("b").process(using(y=key_value_store(name="shared")), name="two")
    app.stream("c").process(using(y=key_value_store()), name="three")
    assert [(stage.name, stage.topics) for stage in app.plan.stages] == [("a", ("a", "b")), ("c", ("c",))]
    assert app.plan.stages[0].store_names == ("shared",)
    assert app.plan.stages[1].store_names == ("three.y",)


def test_steps_connected_by_several_shared_stores_are_in_one_stage() -> None:
    app = App("test")
    app.stream("a").process(using(x=key_value_store(name="one")), name="p")
    app.stream("b").process(using(x=key_value_store(name="two")), name="q")
    app.stream("c").process(using(x=key_value_store(name="one"), y=key_value_store(name="two")), name="r")
    assert len(app.plan.stages) == 1


def test_inputs_of_a_shared_store_need_the_same_partition_count() -> None:
    app = App("test")
    app.stream("a").process(using(x=key_value_store(name="shared")), name="one")
    app.stream("b").process(using(x=key_value_store(name="shared")), name="two")
    with pytest.raises(
        DefinitionError, match=r"'a' \(2 partitions\) and 'b' \(3 partitions\) share the store 'shared'"
    ):
        Layout.of(app.plan, {"a": 2, "b": 3})


def test_a_table_store_of_an_unknown_table_is_rejected() -> None:
    app = App("test")
    app.table("users", name="people")
    app.stream("a").process(using(x=table_store("users")), name="step")
    with pytest.raises(
        DefinitionError, match=r"uses the table 'users', which the app does not store \(it has: people\)"
    ):
        _ = app.plan


def test_a_store_with_the_name_of_a_table_is_rejected() -> None:
    app = App("test")
    app.table("users")
    app.stream("a").process(using(x=key_value_store(name="users")), name="step")
    with pytest.raises(DefinitionError, match="declares a store 'users', but that is the name of a table"):
        _ = app.plan


def test_a_shared_store_must_be_declared_identically() -> None:
    app = App("test")
    app.stream("a").process(using(x=key_value_store(name="shared")), name="one")
    app.stream("b").process(using(x=window_store(name="shared", retention="1 s")), name="two")
    with pytest.raises(DefinitionError, match="'one' and 'two' share the store 'shared', but declare it differently"):
        _ = app.plan


def test_two_processors_of_one_stream_need_different_names() -> None:
    app = App("test")
    stream = app.stream("a")
    stream.process(using())
    stream.process(using())
    with pytest.raises(DefinitionError, match=r"two nodes are called 'a.process'"):
        _ = app.plan


def test_a_plan_describes_the_stores_of_processors() -> None:
    app = App("test")
    app.stream("a").process(using(x=key_value_store(), y=window_store(retention="1 s")), name="step")
    assert "process          step ← a [stores x, y]" in app.describe()
    (stage,) = view(app.plan)["stages"]
    assert stage["stores"] == {
        "step.x": {"op": "key_value_store", "key": None, "value": None},
        "step.y": {"op": "window_store", "key": None, "value": None, "windows": {"kept_for": 1_000}},
    }


def test_changing_the_retention_of_a_store_is_incompatible_with_its_state() -> None:
    plans = []
    for retention in ("1 h", "2 h"):
        app = App("test")
        app.stream("a").process(using(x=window_store(retention=retention)), name="step")
        plans.append(StoredPlan(plan=view(app.plan), partitions={"a": 1}))
    (change,) = compare(*plans)
    assert (change.fate, change.reasons) == (
        "incompatible",
        ["'step.x' was windowed by kept_for=3600000 and would be windowed by kept_for=7200000"],
    )

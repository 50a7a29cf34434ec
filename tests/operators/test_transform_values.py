from typing import Any

import pytest

from millstream import App, ValueTransformer, key_value_store
from millstream.errors import DefinitionError, ProcessingError
from millstream.processors import table_store
from millstream.testing import TestDriver


class CountCalls(ValueTransformer):
    stores = {"calls": key_value_store(name="calls")}

    def transform(self, key: Any, value: Any) -> Any:
        calls = self.context.store("calls")
        calls.put(key, calls.get(key, 0) + 1)
        return None if value is None else f"{value}#{calls[key]}"


class Shown(ValueTransformer):
    def transform(self, key: Any, value: Any) -> Any:
        return f"{key}={value}"


def test_null_values_reach_the_transformer_too() -> None:
    app = App("test")
    app.table("t", value=str).transform_values(Shown).to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("x", None, key="k")
        assert driver.topic("out").read_values() == ["k=x", "k=None"]


def test_two_transformers_of_one_table_need_no_names() -> None:
    app = App("test")
    table = app.table("t", value=str)
    table.transform_values(Shown).to_stream().to("first")
    table.transform_values(lambda: Shown()).to_stream().to("second")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("x", key="k")
        assert driver.topic("first").read_values() == driver.topic("second").read_values() == ["k=x"]


def test_a_stored_result_is_computed_once_per_change() -> None:
    app = App("test")
    best = app.table("t", value=str).transform_values(CountCalls, name="result")
    best.group_by(lambda v: v[0]).aggregate(str, lambda g, v: f"{g}+{v}", lambda g, v: f"{g}-{v}", name="g")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("x", "xy", key="k")
        assert driver.table("result")["k"] == "xy#2"
        assert driver.table("g")["x"] == "+x#1-x#1+xy#2"


def test_a_result_that_is_not_stored_is_computed_for_new_and_then_for_old_values() -> None:
    app = App("test")
    table = app.table("t", value=str).transform_values(CountCalls)
    table.group_by(lambda v: v[0]).aggregate(str, lambda g, v: f"{g}+{v}", lambda g, v: f"{g}-{v}", name="g")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("x", "xy", key="k")
        assert driver.table("calls")["k"] == 4
        assert driver.table("g")["x"] == "+x#1-x#4+xy#3"


def test_lookups_compute_rows_that_are_not_stored_even_missing_ones() -> None:
    app = App("test")
    table = app.table("t", value=str).transform_values(Shown)
    app.stream("s", value=str).join(table, lambda left, right: f"{left}/{right}").to("out")
    with TestDriver(app) as driver:
        driver.topic("s").pipe("a", key="k")
        driver.topic("t").pipe("x", key="k")
        driver.topic("s").pipe("b", key="k")
        assert driver.topic("out").read_values() == ["a/k=None", "b/k=x"]


def test_lookups_of_a_transformer_with_stores_are_rejected() -> None:
    app = App("test")
    table = app.table("t", value=str).transform_values(CountCalls, name=None)
    app.stream("s", value=str).join(table.filter(lambda v: True), lambda left, right: left).to("out")
    with pytest.raises(DefinitionError, match=r"looks up rows of 't.transform_values', whose transformer has stores"):
        _ = app.plan


def test_other_tables_can_be_read_and_are_in_the_same_task() -> None:
    class WithOther(ValueTransformer):
        stores = {"other": table_store("other")}

        def transform(self, key: Any, value: Any) -> Any:
            return [value, self.context.store("other").get(key)]

    app = App("test")
    app.table("t", value=str).transform_values(WithOther).to_stream().to("out")
    app.table("o", value=str, name="other")
    assert len(app.plan.stages) == 1
    with TestDriver(app) as driver:
        driver.topic("o").pipe("beside", key="k")
        driver.topic("t").pipe("x", key="k")
        assert driver.topic("out").read_values() == [["x", "beside"]]


def test_errors_name_the_step() -> None:
    class Broken(ValueTransformer):
        def transform(self, key: Any, value: Any) -> Any:
            raise KeyError(key)

    class Forwarding(ValueTransformer):
        def transform(self, key: Any, value: Any) -> Any:
            self.context.forward(key=key, value=value)

    for kind, message in ((Broken, "KeyError: 'k'"), (Forwarding, "cannot forward")):
        app = App("test")
        app.table("t", value=str).transform_values(kind, name="result")
        with TestDriver(app) as driver, pytest.raises(ProcessingError, match=f"node 'result' failed on .*{message}"):
            driver.topic("t").pipe("x", key="k")


def test_objects_that_are_not_transformers_are_rejected() -> None:
    with pytest.raises(DefinitionError, match="expects a ValueTransformer"):
        App("test").table("t").transform_values(dict)  # type: ignore[arg-type]

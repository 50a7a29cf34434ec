import pytest

from millstream import App, Config, Processor, Record, join_window, table_store
from millstream.errors import DefinitionError, ProcessingError
from millstream.testing import TestDriver


def shop(*, left: bool = False) -> App:
    app = App("test")
    rates = app.global_table("rates", value=float, name="rates")
    sales = app.stream("sales", value=str)
    join = sales.left_join if left else sales.join
    join(rates, lambda sale, rate: f"{sale} {rate}", key=lambda sale: sale.split()[1] or None).to("out")
    return app


@pytest.mark.parametrize("partitions", [1, 3])
def test_any_row_can_be_looked_up_from_any_partition(partitions: int) -> None:
    with TestDriver(shop(), partitions=partitions) as driver:
        driver.topic("rates").pipe_pairs([("EUR", 1.1), ("CHF", 1.2), ("EUR", 1.3), ("CHF", None)])
        for number in range(6):
            driver.topic("sales").pipe(f"{number} EUR", f"{number} CHF", key=f"k{number}")
        assert sorted(driver.topic("out").read_values()) == [f"{number} EUR 1.3" for number in range(6)]
        assert dict(driver.table("rates").items()) == {"EUR": 1.3}


def test_updates_are_visible_at_once_regardless_of_their_timestamp() -> None:
    with TestDriver(shop()) as driver:
        driver.topic("sales").pipe("1 EUR", timestamp=1_000)
        driver.topic("rates").pipe(2.0, key="EUR", timestamp=9_000)
        driver.topic("sales").pipe("2 EUR", timestamp=1_000)
        driver.topic("rates").pipe(3.0, key="EUR", timestamp=5)
        driver.topic("sales").pipe("3 EUR", timestamp=1_000)
        assert driver.topic("out").read_values() == ["2 EUR 2.0", "3 EUR 3.0"]
        row = driver.table("rates").row("EUR")
        assert row is not None
        assert row.timestamp == 5


def test_nulls_and_missing_rows_in_inner_and_left_joins() -> None:
    app = App("test")
    table, stream = app.global_table("t", value=str), app.stream("s", value=str)
    stream.join(table, lambda a, b: f"{a}-{b}", key=lambda k, v: k, name="inner").to("inner")
    stream.left_join(table, lambda k, a, b: f"{k}:{a}-{b}", name="left").to("left")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("no key")
        driver.topic("t").pipe("row", key="k")
        driver.topic("s").pipe_pairs([(None, "a"), ("k", None), ("x", "b"), ("k", "c")])
        assert driver.topic("inner").read_values() == ["c-row"]
        assert driver.topic("left").read_values() == ["None:a-None", "x:b-None", "k:c-row"]
        assert driver.dropped == {
            "t: null_key": 1,
            "inner: null_key": 1,
            "inner: null_value": 1,
            "inner: no_row": 1,
            "left: null_value": 1,
        }


def test_records_that_cannot_be_decoded_are_counted_or_fail() -> None:
    with TestDriver(shop()) as driver:
        driver.topic("rates").pipe_raw(b"many", key=b"EUR")
        assert driver.dropped == {"rates: error": 1}
        assert "test.dead-letters" not in driver.topics
    strict = App("test", config=Config(on_decode_error="fail"))
    strict.stream("s").join(strict.global_table("t", value=int), max)
    with TestDriver(strict) as driver, pytest.raises(ValueError, match="cannot be decoded"):
        driver.topic("t").pipe_raw(b"many", key=b"k")


def test_a_global_table_without_readers_is_updated() -> None:
    app = App("test")
    app.global_table("t", value=str, name="rows")
    with TestDriver(app) as driver:
        driver.topic("t").pipe("a", key="k")
        assert driver.table("rows")["k"] == "a"


class Lookup(Processor):
    def process(self, record: Record) -> None:
        rates = self.context.store("rates")
        self.context.forward(record, value=[rates.get(record.value), list(rates.items())])


class Writer(Processor):
    def process(self, record: Record) -> None:
        self.context.store("rates")[record.key] = 1.0


def test_processors_read_global_tables_and_cannot_write_them() -> None:
    app = App("test")
    app.global_table("rates", value=float)
    app.stream("s", value=str).process(Lookup).to("out")
    app.stream("w", value=str).process(Writer)
    with TestDriver(app) as driver:
        driver.topic("rates").pipe(1.5, key="EUR")
        driver.topic("s").pipe("EUR", key="k")
        assert driver.topic("out").read_values() == [[1.5, [["EUR", 1.5]]]]
        with pytest.raises(ProcessingError, match="read-only"):
            driver.topic("w").pipe("x", key="k")


def test_definition_errors() -> None:
    app, other = App("test"), App("other")
    stream, table = app.stream("s"), app.global_table("t")
    with pytest.raises(DefinitionError, match="cannot have a window"):
        stream.join(table, max, within=join_window("1 s"))  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="cannot wait"):
        stream.join(table, max, grace="1 s")
    with pytest.raises(DefinitionError, match="another app"):
        stream.join(other.global_table("t"), max)
    with pytest.raises(DefinitionError, match="is for global tables"):
        stream.join(app.table("u"), max, key=lambda value: value)  # type: ignore[call-overload]
    declared = type("Declared", (Lookup,), {"stores": {"rates": table_store("t")}})
    stream.process(declared)
    with pytest.raises(DefinitionError, match="which needs no declaration"):
        _ = app.plan


def test_describe_shows_the_global_table_of_a_join() -> None:
    described = shop().describe()
    assert described.startswith("global table rates on each host reads topic rates\n")
    assert "sales, global table rates" in described
    assert "-.->" in shop().describe("mermaid")

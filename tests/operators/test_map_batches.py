from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millstream import App, Config
from millstream.errors import DefinitionError
from millstream.testing import TestDriver


class Ride(msgspec.Struct):
    zone: str
    amount: float


class Priced(msgspec.Struct):
    zone: str
    price: float


def test_a_function_gets_a_column_per_field_and_returns_a_row_per_record() -> None:
    def price(table: pa.Table) -> pa.Table:
        return pa.table({"zone": table["zone"], "price": pc.multiply(table["amount"], 2)})

    app = App("test")
    priced = app.stream("rides", value=Ride).map_batches(price, value=Priced)
    priced.map_values(lambda ride: f"{ride.zone} {ride.price}").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("rides").pipe(Ride("a", 1.5), Ride("b", 2.0), key="k")
        assert driver.topic("out").read_key_values() == [("k", "a 3.0"), ("k", "b 4.0")]


@pytest.mark.parametrize("frame", ["arrow", "pandas", "polars"])
def test_each_kind_of_frame_goes_in_and_out(frame: Any) -> None:
    pytest.importorskip(frame if frame != "arrow" else "pyarrow")
    seen: list[str] = []

    def same(rides: Any) -> Any:
        seen.append(type(rides).__module__.partition(".")[0])
        return rides

    app = App("test")
    app.stream("rides", value=Ride).map_batches(same, frame=frame).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("rides").pipe(Ride("a", 1.5), Ride("b", 2.0))
        assert driver.topic("out").read_values() == [{"zone": "a", "amount": 1.5}, {"zone": "b", "amount": 2.0}]
    assert seen == ["pyarrow" if frame == "arrow" else frame]


@pytest.mark.parametrize("frame", ["arrow", "pandas", "polars"])
def test_a_column_of_results_is_a_row_per_record_too(frame: Any) -> None:
    pytest.importorskip(frame if frame != "arrow" else "pyarrow")
    app = App("test")
    app.stream("n", value=int).map_batches(lambda numbers: numbers["value"], frame=frame).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, 2)
        assert driver.topic("out").read_values() == [1, 2]


def test_records_for_which_the_function_raises_do_not_fail_their_neighbors() -> None:
    def divide(numbers: pa.Table) -> list[float]:
        return [10 / n for n in numbers["value"].to_pylist()]

    app = App("test", config=Config(on_error="dead_letter"))
    app.stream("n", value=int).map_batches(divide, name="it").to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe(1, 0, 2, 5, 0, 10)
        assert driver.topic("out").read_values() == [10.0, 5.0, 2.0, 1.0]
        assert [letter.value for letter in driver.topic("test.dead-letters").read_raw()] == [b"0", b"0"]


def test_frames_have_at_most_max_records_rows() -> None:
    sizes: list[int] = []

    def note(numbers: pa.Table) -> list[int]:
        sizes.append(len(numbers))
        return [0] * len(numbers)

    app = App("test")
    app.stream("n", value=int).map_batches(note, max_records=4).to("out")
    with TestDriver(app) as driver, driver.holding():
        driver.topic("n").pipe(*range(10))
    assert sizes == [4, 4, 2]


def test_the_function_may_take_the_keys() -> None:
    app = App("test")
    app.stream("n", value=int).map_batches(lambda keys, _numbers: keys).to("out")
    with TestDriver(app) as driver:
        with driver.holding():
            driver.topic("n").pipe_pairs([("a", 1), ("b", 2)])
        assert driver.topic("out").read_values() == ["a", "b"]


def test_another_number_of_rows_and_results_without_rows_are_refused() -> None:
    for result, message in (([1], "got 2 rows and returned 1"), (5, "returned int, which has no rows")):
        app = App("test")
        app.stream("n", value=int).map_batches(lambda _, result=result: result, name="it").to("out")
        with TestDriver(app) as driver, pytest.raises(DefinitionError, match=message), driver.holding():
            driver.topic("n").pipe(1, 2)


def test_options_out_of_range_are_refused() -> None:
    stream = App("test").stream("n", value=int)
    with pytest.raises(DefinitionError, match="max_records=0"):
        stream.map_batches(lambda table: table, max_records=0)
    with pytest.raises(DefinitionError, match="frame='csv'"):
        stream.map_batches(lambda table: table, frame="csv")  # type: ignore[arg-type]

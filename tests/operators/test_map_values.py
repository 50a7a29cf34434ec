import msgspec

from millstream import App
from millstream.testing import TestDriver


class Ride(msgspec.Struct):
    zone: str
    amount: float = 0.0


def test_map_values_keeps_key_timestamp_and_headers() -> None:
    app = App("test")
    app.stream("n", value=int).map_values(lambda n: n * 10).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(3, key="k", timestamp=9, headers={"h": b"1"})
        (record,) = driver.topic("out").read()
    assert (record.key, record.value, record.timestamp, record.headers) == ("k", 30, 9, (("h", b"1"),))


def test_map_values_gets_null_and_may_return_it() -> None:
    app = App("test")

    def swap(n: int | None) -> int | None:
        return 0 if n is None else None

    app.stream("n", value=int).map_values(swap).to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(None, 5, key="k")
        assert driver.topic("out").read_key_values() == [("k", 0), ("k", None)]


def test_values_are_decoded_as_the_declared_type_and_encoded_as_json() -> None:
    app = App("test")
    app.stream("rides", value=Ride).map_values(lambda ride: Ride(ride.zone.upper(), ride.amount + 1)).to("out")
    with TestDriver(app) as driver:
        driver.topic("rides").pipe_raw(b'{"zone":"a"}')
        assert driver.topic("out").read_values() == [{"zone": "A", "amount": 1.0}]


def test_map_values_needs_no_repartition() -> None:
    app = App("test")
    app.stream("n", value=int).map_values(str).group_by_key().count()
    assert [stage.level for stage in app.plan.stages] == [0]

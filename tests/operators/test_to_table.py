from millstream import App
from millstream.testing import TestDriver


def test_the_last_record_by_offset_is_the_row_regardless_of_timestamps() -> None:
    app = App("test")
    app.stream("n", value=int).to_table(name="last").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, key="k", timestamp=9)
        driver.topic("n").pipe(2, key="k", timestamp=5)
        assert [(record.value, record.timestamp) for record in driver.topic("out").read()] == [(1, 9), (2, 5)]
        row = driver.table("last").row("k")
        assert row is not None
        assert (row.value, row.timestamp) == (2, 5)


def test_a_null_value_deletes_the_row_and_is_forwarded_as_a_tombstone() -> None:
    app = App("test")
    app.stream("n", value=int).to_table(name="last").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, None, key="k")
        driver.topic("n").pipe(None, key="never there")
        assert driver.topic("out").read_key_values() == [("k", 1), ("k", None), ("never there", None)]
        assert list(driver.table("last").items()) == []


def test_null_key_is_dropped_and_counted() -> None:
    app = App("test")
    app.stream("n", value=int).to_table(name="last").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1)
        assert [report.dropped for report in driver.reports] == [{"last: null_key": 1}]
        assert driver.topic("out").read() == []


def test_equal_rows_are_forwarded_again() -> None:
    app = App("test")
    app.stream("n", value=int).to_table().to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 1, key="k")
        assert driver.topic("out").read_values() == [1, 1]


def test_a_re_keyed_stream_is_repartitioned_first_with_its_headers() -> None:
    app = App("test")
    app.stream("words", value=str).select_key(lambda word: word[0]).to_table(name="last").to_stream().to("out")
    with TestDriver(app, partitions=3) as driver:
        driver.topic("words").pipe("mill", key="a", headers={"h": b"1"})
        driver.topic("words").pipe("mud", key="b", headers={"h": b"2"})
        assert [(record.value, record.headers) for record in driver.topic("out").read()] == [
            ("mill", (("h", b"1"),)),
            ("mud", (("h", b"2"),)),
        ]
        assert dict(driver.table("last").items()) == {"m": "mud"}


def test_two_tables_of_one_stream_need_no_names() -> None:
    app = App("test")
    numbers = app.stream("n", value=int)
    numbers.filter(lambda n: n > 1).to_table().to_stream().to("first")
    numbers.to_table().to_stream().to("second")
    assert [node.name for node in app.plan.nodes if node.verb == "to_table"] == ["n.to_table", "n.to_table-2"]
    with TestDriver(app) as driver:
        driver.topic("n").pipe(1, 2, key="k")
        assert driver.topic("first").read_values() == [2]
        assert driver.topic("second").read_values() == [1, 2]

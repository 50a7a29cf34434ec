from millstream import App
from millstream.serdes import INT64
from millstream.testing import TestDriver


def test_select_key_replaces_the_key_only() -> None:
    app = App("test")
    app.stream("words", value=str).select_key(lambda key, word: f"{key}{word[0]}").to("out")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("mill", key="k", timestamp=2, headers={"h": b"1"})
        (record,) = driver.topic("out").read()
    assert (record.key, record.value, record.timestamp, record.headers) == ("km", "mill", 2, (("h", b"1"),))


def test_a_null_key_is_written_to_a_topic_and_dropped_by_a_grouping() -> None:
    app = App("test")
    keyless = app.stream("words", value=str).select_key(lambda _: None)
    keyless.to("out")
    keyless.group_by_key().count(name="seen")
    with TestDriver(app) as driver:
        driver.topic("words").pipe("mill", key="k")
        assert driver.topic("out").read_key_values() == [(None, "mill")]
        assert {why: n for report in driver.reports for why, n in report.dropped.items()} == {
            "seen-repartition: null_key": 1
        }
        assert list(driver.table("seen").items()) == []


def test_the_declared_serde_encodes_the_new_key() -> None:
    app = App("test")
    app.stream("n", value=int).select_key(lambda n: n, key=INT64).to("out")
    app.stream("out", key=bytes, value=int).to("check")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(258)
        assert driver.topic("check").read_key_values() == [(b"\0\0\0\0\0\0\1\2", 258)]

from pathlib import Path

import pytest
from tests.assembling import assemble, local_loop

from millstream import App
from millstream.batch.journal import Journal
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of, rows_of
from millstream.log import EmbeddedLog
from millstream.records import Headers
from millstream.testing import TestDriver


def counting() -> App:
    app = App("test")
    app.stream("n", value=int).group_by_key().count(name="seen").to_stream().to("out")
    return app


def test_every_update_is_forwarded() -> None:
    with TestDriver(counting()) as driver:
        driver.topic("n").pipe_pairs([("a", 7), ("b", 7), ("a", 7)])
        assert driver.topic("out").read_key_values() == [("a", 1), ("b", 1), ("a", 2)]
        assert dict(driver.table("seen").items()) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("key", "value", "reason"), [(None, 1, "null_key"), ("a", None, "null_value"), (None, None, "null_key")]
)
def test_null_keys_and_values_do_not_count(key: str | None, value: int | None, reason: str) -> None:
    with TestDriver(counting()) as driver:
        driver.topic("n").pipe(value, key=key)
        assert [report.dropped for report in driver.reports] == [{f"seen: {reason}": 1}]
        assert driver.topic("out").read() == []


def test_null_values_do_not_count_after_an_edge_without_values() -> None:
    app = App("test")
    app.stream("n", value=int).group_by(lambda key, _: key).count(name="seen").to_stream().to("out")
    with TestDriver(app) as driver:
        driver.topic("n").pipe(None, key="a")
        assert [report.dropped for report in driver.reports if report.dropped] == [{"seen: null_value": 1}]
        driver.topic("n").pipe(0, key="a")
        assert driver.topic("out").read_key_values() == [("a", 1)]


def test_the_timestamp_of_a_result_never_decreases() -> None:
    """
    record    a@5   a@9   a@3   b@3
    result    1@5   2@9   3@9   1@3
    """
    with TestDriver(counting()) as driver:
        for key, timestamp in [("a", 5), ("a", 9), ("a", 3), ("b", 3)]:
            driver.topic("n").pipe(1, key=key, timestamp=timestamp)
        records = driver.topic("out").read()
        assert [(record.key, record.value, record.timestamp) for record in records] == [
            ("a", 1, 5), ("a", 2, 9), ("a", 3, 9), ("b", 1, 3),
        ]  # fmt: skip
        row = driver.table("seen").row("a")
        assert row is not None
        assert (row.value, row.timestamp) == (3, 9)


def test_a_result_has_the_headers_of_the_record_that_caused_it() -> None:
    with TestDriver(counting()) as driver:
        driver.topic("n").pipe(1, key="a", headers={"h": b"first"})
        driver.topic("n").pipe(1, key="a")
        assert [record.headers for record in driver.topic("out").read()] == [(("h", b"first"),), ()]


def test_with_caching_only_the_last_update_of_a_batch_is_forwarded() -> None:
    """Two records of one word reach the count in one batch, since one record produces them."""
    app = App("test")
    app.stream("lines", value=str).flat_map_values(str.split).group_by(lambda word: word).count().to_stream().to("out")
    with TestDriver(app, caching=True) as driver:
        driver.topic("lines").pipe("a b a a", "a")
        assert driver.topic("out").read_key_values() == [("a", 3), ("b", 1), ("a", 4)]


@pytest.mark.parametrize("headers", [(), (("h", b"1"),)], ids=["columns", "with headers"])
@pytest.mark.parametrize(("value", "count", "time"), [(b"1", b"3", 90), (None, b"2", 50)])
def test_with_caching_a_batch_counts_as_its_records_would_one_by_one(
    headers: Headers, value: bytes | None, count: bytes, time: int, tmp_path: Path
) -> None:
    app = counting()
    app.data_dir = tmp_path
    keys, values, times = [b"a", b"b", b"a", b"a", b"b"], [b"1", b"1", value, b"1", b"1"], [50, 10, 90, 20, 30]
    with EmbeddedLog(tmp_path, durability="os") as log:
        for topic in ("n", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        log.append([Output("n", 0, block_of(keys, values, times, [headers] * 5 if headers else None))])
        local_loop(assemble(app, log), Journal(tmp_path / "journal", durable=False)).run("caught-up")
        (chunk,) = log.read("out", 0, 0, 9)
    rows = rows_of(chunk.block)
    assert list(zip(rows.keys, rows.values, rows.timestamps, strict=True)) == [(b"a", count, time), (b"b", b"2", 30)]
    assert rows.headers == ([headers, headers] if headers else None)

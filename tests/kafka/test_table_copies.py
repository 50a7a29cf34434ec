"""Tables that are read on hosts where their app does not run: by key, range, window and scan, and how old they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.kafka.hosts import Host
from tests.serve.conftest import serving

from millstream import App, Config, tumbling
from millstream.broker import Output
from millstream.errors import UnknownTableError
from millstream.foundation.blocks import block_of
from millstream.foundation.partitioning import partition_of
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.tables.copies import TableCopies, copies_of
from millstream.tables.opening import open_tables
from millstream.tables.rows import TableReader


@pytest.fixture
def app(topic: str, tmp_path: Path) -> App:
    app = App(topic, data_dir=tmp_path / "reader", config=Config(partitions=2))
    grouped = app.stream(topic).group_by_key()
    grouped.count(name="counts")
    grouped.windowed_by(tumbling("1 s")).count(name="windows")
    return app


@pytest.fixture
def host(app: App, kafka: KafkaBroker, tmp_path: Path) -> Iterator[Host]:
    with closing(Host(app, kafka.url, tmp_path / "running")) as host:
        yield host


@pytest.fixture
def reading(app: App, kafka: KafkaBroker) -> Iterator[TableCopies]:
    """The copies on another disk than that of the running app."""
    with closing(KafkaBroker(kafka.url)) as broker:
        with closing(Host(app, kafka.url, app.data_dir.parent / "first")) as first:
            first.run()  # creates the topics of the app
        copies = copies_of(app.data_dir, app.id, broker)
        assert copies is not None
        yield copies
        copies.close()
        close_environments(app.data_dir)


def count(kafka: KafkaBroker, topic: str, words: list[str]) -> None:
    for number, word in enumerate(words):
        block = block_of([word.encode()], [b"1"], [number * 100])
        kafka.append([Output(topic, partition_of(word.encode(), 2), block)])


def tables_of(app: App, copies: TableCopies) -> dict[str, TableReader]:
    return dict(open_tables(app.data_dir, app.id, app.plan, copies.broker))


def test_rows_are_read_by_key_range_window_and_scan_where_the_app_has_never_run(
    app: App, host: Host, reading: TableCopies, kafka: KafkaBroker
) -> None:
    count(kafka, app.id, ["a", "b", "a", "c"])
    host.run()
    reading.refresh()
    tables = tables_of(app, reading)
    counts, windows = tables["counts"], tables["windows"]
    assert (counts["a"], counts.get("c"), counts.get("x")) == (2, 1, None)
    assert [(row.key, row.value) for row in counts.range("b")] == [("b", 1), ("c", 1)]
    assert sorted(counts.items()) == [("a", 2), ("b", 1), ("c", 1)]
    assert len(counts) == 3
    assert [(row.key.start, row.value) for row in windows.windows("a")] == [(0, 2)]


def test_a_reader_sees_what_was_committed_before_the_time_that_it_states(
    app: App, host: Host, reading: TableCopies, kafka: KafkaBroker
) -> None:
    counts = tables_of(app, reading)["counts"]
    for number in range(1, 4):
        count(kafka, app.id, ["a"])
        host.run()
        committed_at = time.time_ns() // 1_000_000
        reading.refresh()
        assert counts.copied_at is not None
        assert counts.copied_at >= committed_at
        assert counts["a"] == number


def test_the_host_of_the_app_reads_the_state_itself(app: App, host: Host, kafka: KafkaBroker) -> None:
    count(kafka, app.id, ["a"])
    host.run()
    counts = open_tables(host.disk, app.id, app.plan, host.broker)["counts"]
    assert (counts["a"], counts.copied_at) == (1, None)
    assert not (host.disk / "apps" / app.id / "copies" / "state").exists()


def test_a_host_where_the_app_ran_before_reads_a_copy_instead_of_old_state(
    app: App, host: Host, reading: TableCopies, kafka: KafkaBroker, tmp_path: Path
) -> None:
    count(kafka, app.id, ["a"])
    host.run()
    with closing(Host(app, kafka.url, tmp_path / "second")) as second:
        count(kafka, app.id, ["a"])
        second.run()
    counts = open_tables(host.disk, app.id, app.plan, host.broker)["counts"]
    assert counts["a"] == 2
    assert counts.copied_at is not None


def test_a_second_process_reads_the_copy_that_the_first_keeps_up_to_date(
    app: App, host: Host, reading: TableCopies, kafka: KafkaBroker
) -> None:
    count(kafka, app.id, ["a"])
    host.run()
    reading.prepare()
    other = TableCopies(app.data_dir, app.id, reading.broker, reading.journal_topic)
    other.prepare()
    assert not other.keeps_up_to_date
    assert other.copied_at is not None
    reading.close()
    other.prepare()
    assert other.keeps_up_to_date
    other.close()


def test_an_app_without_changelogs_or_that_does_not_exist_is_unknown(kafka: KafkaBroker, tmp_path: Path) -> None:
    with pytest.raises(UnknownTableError, match="'nothing' has not run"):
        open_tables(tmp_path, "nothing", broker=kafka)


def test_the_api_and_the_dashboard_of_another_host_show_tables_and_how_old_they_are(
    app: App, host: Host, kafka: KafkaBroker, tmp_path: Path
) -> None:
    count(kafka, app.id, ["a", "b", "a"])
    host.run()
    served = serving(tmp_path / "elsewhere", broker_url=kafka.url)
    try:
        page = served.get("/api/tables/counts/a", app=app.id)
        assert page["rows"][0]["value"] == 2
        assert time.time() * 1000 - page["copied_at"] < 30_000
        scanned = served.get("/api/tables/counts", app=app.id)
        assert {row["key"]: row["value"] for row in scanned["rows"]} == {"a": 2, "b": 1}
        assert "counts" in served.page(f"/tables/{app.id}/counts")
    finally:
        served.site.watch.stop()
        served.site.directory.close()
        close_environments(tmp_path / "elsewhere")

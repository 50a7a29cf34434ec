"""The command that continues a Kafka Streams application; tests/kafka/test_adoption.py does it with a real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream.broker import TopicConfig
from millstream.foundation.loading import load_app
from millstream.foundation.paths import journal_dir
from millstream.log import EmbeddedLog
from millstream.records import TopicPartition
from millstream.serdes import INT64

HEAD = """
from millstream import App, Processor, join_window, key_value_store, min_of, tumbling

class Seen(Processor):
    stores = {"seen": key_value_store(name="seen", value=int)}

    def process(self, record):
        seen = self.context.store("seen")
        seen.put(record.key, seen.get(record.key, 0) + 1)

app = App("ours")
lines = app.stream("in", value=str)
"""
Adopt = Callable[..., Any]


@pytest.fixture
def adopt(call: Call, fill: Fill, data_dir: Path, tmp_path: Path) -> Adopt:
    """Define an app, and adopt an application with one record processed and one to go."""
    fill("in", (b"k", b"one", 10), (b"k", b"two", 20))
    with EmbeddedLog(data_dir) as log:
        log.commit("java", {TopicPartition("in", 0): 1})

    def adopt(lines: str, *options: str) -> Any:
        file = tmp_path / "ours.py"
        file.write_text(f"{HEAD}{lines}\n")
        return call("adopt", str(file), "--application-id", "java", *options)

    return adopt


def tables(tmp_path: Path, data_dir: Path) -> Any:
    app = load_app(str(tmp_path / "ours.py"))
    app.data_dir = data_dir
    run_to_end(app)
    return app.tables


def test_rows_of_every_kind_are_taken_over(adopt: Adopt, fill: Fill, tmp_path: Path, data_dir: Path) -> None:
    fill("java-counts-changelog", (b"k", INT64.encode(6), 9), (b"k", INT64.encode(7), 10), (b"gone", None, 10))
    fill("java-seen-changelog", (b"k", INT64.encode(40), 10))
    fill("java-rates-changelog", (b"k", b"old", 5), (b"k", b"new", 10))
    fill("rates")
    app = """
lines.group_by_key().count(name="counts").to_stream().to("totals")
lines.process(Seen, name="seeing")
app.table("rates", value=str, name="rates", history="1 min")
"""
    planned = adopt(app)
    assert planned.exit_code == 0
    assert planned.stdout.splitlines() == [
        "app      ours, from Kafka Streams application java",
        "reads    in/0 from 1",
        "reads    in/1 from the beginning; nothing is committed there",
        "reads    rates/0 from the beginning; nothing is committed there",
        "reads    rates/1 from the beginning; nothing is committed there",
        "state    counts ← java-counts-changelog: rows, up to 3 records",
        "state    seen ← java-seen-changelog: rows, up to 1 record",
        "state    rates ← java-rates-changelog: versions of rows, up to 2 records",
    ]
    assert planned.stderr == "nothing was changed; add --execute to continue\n"
    assert not journal_dir(data_dir, "ours").exists()
    with EmbeddedLog(data_dir) as log:
        assert "totals" not in log.topic_names()
    done = adopt(app, "--execute", "--json")
    assert json.loads(done.stdout)["rows"] == {"counts": 1, "seen": 1, "rates": 1}
    adopted = tables(tmp_path, data_dir)
    assert dict(adopted["counts"].items()) == {"k": 8}
    assert dict(adopted["seen"].items()) == {"k": 41}
    assert [(version.value, version.timestamp) for version in adopted["rates"].versions("k")] == [
        ("new", 10),
        ("old", 5),
    ]
    again = adopt(app)
    assert "app 'ours' has state of its own already" in again.stderr


def test_a_table_without_a_changelog_is_read_from_its_topic_up_to_the_offset(
    adopt: Adopt, fill: Fill, tmp_path: Path, data_dir: Path
) -> None:
    fill("users", (b"k", b"Ann", 1), (b"k", b"Bob", 2))
    with EmbeddedLog(data_dir) as log:
        log.commit("java", {TopicPartition("users", 0): 1})
    app = 'app.table("users", value=str, name="rows").to_stream().to("out")'
    assert "state    rows ← users: rows, 1 row\n" in adopt(app, "--execute").stdout
    assert dict(tables(tmp_path, data_dir)["rows"].items()) == {"k": "Bob"}
    with EmbeddedLog(data_dir) as log:
        assert [offsets.end for offsets in log.offsets("out")] == [1, 0]


def test_the_times_of_windows_continue(adopt: Adopt, fill: Fill, tmp_path: Path, data_dir: Path) -> None:
    late = 5_000_000  # 20 is then before the grace period
    key = b"k" + late.to_bytes(8) + (0).to_bytes(4)
    fill("java-windows-changelog", (key, INT64.encode(3), late + 1))
    app = 'lines.group_by_key().windowed_by(tumbling("1 s")).count(name="windows")'
    assert "state    windows ← java-windows-changelog: windows, 1 row" in adopt(app, "--execute").stdout
    [window] = tables(tmp_path, data_dir)["windows"].windows("k")
    assert (window.key.start, window.value, window.timestamp) == (late, 3, late + 1)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ('lines.group_by_key().count(name="x")', "'x': there is no changelog 'java-x-changelog'"),
        ('lines.group_by_key().agg(low=min_of(len), name="x")', "'x': a built-in aggregation"),
        (
            'lines.group_by_key().windowed_by(tumbling("1 s")).emit("final").count(name="x")',
            "'x': a changelog does not say which final results were emitted",
        ),
        (
            'lines.join(app.stream("other", value=str), lambda a, b: a, within=join_window("1 s"), name="x")',
            "'x.left': Kafka Streams stores it in another form",
        ),
    ],
)
def test_state_that_cannot_be_read_is_refused_unless_it_may_be_empty(
    adopt: Adopt, fill: Fill, step: str, reason: str
) -> None:
    fill("other")
    refused = adopt(step)
    assert refused.exit_code == 1
    assert reason in refused.stderr
    options = refused.stderr.split("let it start empty with ")[1].split(", or")[0].split()
    accepted = adopt(step, *options)
    assert accepted.exit_code == 0, accepted.stderr
    assert "empty    x" in accepted.stdout


def test_a_changelog_with_other_partitions_is_refused(adopt: Adopt, data_dir: Path) -> None:
    with EmbeddedLog(data_dir) as log:
        log.create_topic("java-counts-changelog", TopicConfig(partitions=5))
    refused = adopt('lines.group_by_key().count(name="counts")')
    assert "'java-counts-changelog' has 5 partitions, but the app has 2 tasks" in refused.stderr


def test_topics_of_an_application_with_a_longer_id_are_not_mistaken_for_its_own(
    adopt: Adopt, fill: Fill, data_dir: Path
) -> None:
    fill("java-counts-changelog")
    fill("java-2-words-repartition", (b"k", b"waiting there", 1))
    app = 'lines.group_by_key().count(name="counts")'
    assert "1 record of repartition topic 'java-2-words-repartition'" in adopt(app).stderr
    with EmbeddedLog(data_dir) as log:
        log.commit("java-2", {TopicPartition("in", 0): 0})
    assert adopt(app).exit_code == 0


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (("--value", "counts=long"), "'long' is not a format"),
        (("--store", "counts"), "'counts' is not a pair"),
        (("--empty", "words"), "the app has no store 'words'; its stores: counts"),
    ],
)
def test_wrong_options_are_explained(adopt: Adopt, fill: Fill, option: tuple[str, ...], problem: str) -> None:
    fill("java-counts-changelog")
    assert problem in adopt('lines.group_by_key().count(name="counts")', *option).stderr

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Call, Fill
from tests.cli.running import run_to_end

from millstream import App, Config
from millstream.batch.app_spec import AppSpec
from millstream.broker import Output, TopicConfig
from millstream.cli.replay import leave_connectors_out
from millstream.foundation.blocks import block_of
from millstream.foundation.loading import load_app
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.records import Record
from millstream.spark.deliveries import deliveries_of
from millstream.tables.opening import open_tables
from millstream.testing.connectors import MemorySink, MemorySource

APP = """
from millstream import App, Config

app = App("words", config=Config(master="local[1]", partitions=2))
app.stream("lines", value=str).group_by({key}).count(name="seen").to_stream().to("out")
"""


@pytest.mark.spark
def test_a_new_version_runs_beside_the_old_one_until_it_has_caught_up(
    call: Call, fill: Fill, stored: Callable[[str], list[Record]], tmp_path: Path, data_dir: Path
) -> None:
    old, new = tmp_path / "replayed_words.py", tmp_path / "replayed_words_2.py"
    old.write_text(APP.format(key="lambda line: line"))
    new.write_text(APP.format(key="len"))
    fill("lines", (None, b"a", 0), (None, b"bb", 1), (None, b"c", 2))
    fill("out")
    run_to_end(load_app(str(old)))
    before = stored("out")

    result = call("replay", str(new), "--as", "words-2")

    assert "replaying words as words-2 from earliest\n" in result.stderr
    assert "words-2 has caught up after 3 records and " in result.stderr
    assert dict(open_tables(data_dir, "words-2")["seen"].items()) == {1: 2, 2: 1}
    assert dict(open_tables(data_dir, "words")["seen"].items()) == {"a": 1, "bb": 1, "c": 1}
    assert stored("out") == before
    assert {(record.key, record.value) for record in stored("words-2.out")} == {(b"1", b"2"), (b"2", b"1")}


def test_a_replay_needs_another_name(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "replayed_words_3.py"
    file.write_text(APP.format(key="len"))
    assert "error: 'words' is the name of the old version" in call("replay", str(file), "--as", "words").stderr


def test_a_replay_leaves_sources_and_sinks_to_the_old_version() -> None:
    app = App("shop")
    app.source(MemorySource("orders"), name="orders")
    stream = app.stream("orders")
    stream.sink(MemorySink(), name="copy")
    stream.to_spark(lambda _rows, _id: None, name="lake")
    assert leave_connectors_out(app) == ["copy", "lake", "orders"]
    assert (app.deliveries, leave_connectors_out(app)) == ({}, [])


def test_to_spark_reads_the_topic_that_the_app_writes_with_its_prefix(tmp_path: Path) -> None:
    app = App("shop", data_dir=tmp_path, config=Config(output_prefix="new."))
    app.stream("orders").to_spark(lambda _rows, _id: None, name="lake")
    spec = AppSpec(
        id=app.id,
        config=app.config,
        data_dir=app.data_dir,
        broker_url=app.broker_url,
        plan=app.plan,
        deliveries=app.deliveries,
    )
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("new.shop.to-spark.lake", TopicConfig(partitions=1))
        log.append([Output("new.shop.to-spark.lake", 0, block_of([b"k"], [b"1"], [0]))])
        [connector] = deliveries_of(spec, log)
        assert connector.work.count_waiting() == 1
    close_environments(tmp_path)

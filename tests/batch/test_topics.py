"""Topics that match a pattern: those that exist at the start, and those that are created later."""

from pathlib import Path

import pytest

from millstream import App, Config
from millstream.batch.topics import SourceTopics
from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog
from millstream.plan.layout import Layout
from millstream.testing import TestDriver


def test_records_of_all_matching_topics_are_one_stream() -> None:
    app = App("test")
    app.stream(pattern="in-[0-9]+", value=str).to("out")
    with TestDriver(app) as driver:
        for topic in ("in-1", "in-22", "in-1"):
            driver.topic(topic).pipe(topic)
        assert driver.topic("out").read_values() == ["in-1", "in-22", "in-1"]
        assert driver.topics == ["in-1", "in-22", "out"]


def test_a_pattern_matches_whole_names_but_never_the_dead_letter_topic() -> None:
    app = App("test")
    app.stream(pattern=".*-letters|in", value=int).to("out")
    with TestDriver(app) as driver:
        driver.topic("in").pipe_raw(b"x")
        assert driver.topics == ["in", "out", "test.dead-letters"]
        assert driver.topic("out").read_raw() == []


def sources_of(app: App, log: EmbeddedLog, partitions: int) -> SourceTopics:
    layout = Layout.of(app.plan, {name: log.topic(name).partitions for name in log.topic_names()}, otherwise=partitions)
    return SourceTopics(layout, log, dead_letters="dead", refresh_seconds=0)


def test_a_topic_that_is_created_later_is_read_if_its_partitions_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = App("test")
    app.stream(pattern="in-.*", value=str).to("out")
    with EmbeddedLog(tmp_path, durability="os") as log:
        topics = sources_of(app, log, 4)
        assert list(topics) == []
        for name, partitions in (("in-few", 2), ("in-fit", 4), ("in-many", 8), ("other", 4)):
            log.create_topic(name, TopicConfig(partitions=partitions))
        assert list(topics) == ["in-few", "in-fit"]
        assert "topic 'in-many' matches a pattern, but its 8 partitions do not fit" in caplog.text
        log.delete_topic("in-few")
        assert list(topics) == ["in-fit"]


def test_a_topic_that_is_created_later_must_be_co_partitioned_with_a_join(tmp_path: Path) -> None:
    app = App("test")
    app.stream(pattern="in-.*", value=str).join(app.table("rows"), lambda value, row: value).to("out")
    with EmbeddedLog(tmp_path, durability="os") as log:
        log.create_topic("rows", TopicConfig(partitions=4))
        topics = sources_of(app, log, 4)
        log.create_topic("in-few", TopicConfig(partitions=2))
        log.create_topic("in-fit", TopicConfig(partitions=4))
        assert list(topics) == ["rows", "in-fit"]


def test_a_pattern_is_shown_in_the_plan() -> None:
    app = App("test")
    app.stream(pattern="in-[0-9]+", name="numbered").to("out")
    assert "stage numbered (level 0) reads topics like in-[0-9]+" in app.describe()
    assert '"pattern": "in-[0-9]+"' in app.describe("json")


def test_the_topics_of_an_app_can_be_created_before_its_first_run(tmp_path: Path) -> None:
    config = Config(partitions=3, output_prefix="new.")
    app = App("test", data_dir=tmp_path, config=config)
    app.stream("in", "kept", timestamp="append").to("out")
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("kept", TopicConfig(partitions=1, timestamps="append"))
        assert app.create_topics() == ["in", "new.out"]
        assert app.create_topics() == []
        assert {name: log.topic(name).partitions for name in log.topic_names()} == {"in": 3, "kept": 1, "new.out": 3}
        assert log.topic("in").config.timestamps == "append"

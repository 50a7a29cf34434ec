"""Apps on Spark and Kafka, with the same topologies as on the embedded log."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kafka.conftest import settle
from tests.spark.apps import levels, words

from millstream import App, Config
from millstream.admin.reset import execute_reset, planned_reset
from millstream.batch.report import BatchReport
from millstream.broker import TopicConfig
from millstream.cli.ui import last_broker_url
from millstream.errors import InvalidNameError, StateError
from millstream.foundation.names import producer_prefix
from millstream.foundation.storage import close_environments
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def app(cluster: Cluster, kafka: KafkaBroker, tmp_path: Path) -> Iterator[App]:
    """The word count on Kafka, with empty topics."""
    words.broker_url, words.data_dir = cluster.url, tmp_path
    yield words
    words.broker_url, words.config = None, Config(partitions=2)
    close_environments(tmp_path)
    for topic in kafka.topic_names():
        if topic in ("lines", "word-counts") or topic.startswith("words."):
            kafka.delete_topic(topic)
    kafka.forget_producers([producer_prefix("words", stage.name) for stage in words.plan.stages])
    if "words" in kafka.group_names():
        kafka.delete_group("words")


def feed(app: App, *lines: str) -> None:
    with app.producer(value=str) as producer:
        for line in lines:
            producer.send("lines", line)


def read(kafka: KafkaBroker, topic: str) -> list[tuple[str, str]]:
    settle(kafka, kafka.url.removeprefix("kafka://"), topic)
    return [
        (key.decode(), value.decode())
        for partition, offsets in enumerate(kafka.offsets(topic))
        for chunk in kafka.read(topic, partition, offsets.begin, offsets.end)
        for key, value in zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("small_batch_records", [0, 1_000_000], ids=["parallel", "single"])
def test_each_update_is_published_once_over_several_runs(
    app: App, kafka: KafkaBroker, small_batch_records: int
) -> None:
    app.config = Config(partitions=2, caching=False, small_batch_records=small_batch_records, max_batch_records=50)
    app.run("caught-up")  # creates the topics
    for _ in range(2):
        feed(app, *["a b a", "c", "b a"] * 40)
        app.run("caught-up")

    seen: dict[str, list[int]] = {}
    for key, value in read(kafka, "word-counts"):
        seen.setdefault(key, []).append(int(value))
    assert seen == {"a": list(range(1, 241)), "b": list(range(1, 161)), "c": list(range(1, 81))}
    assert dict(app.tables["words"].items()) == {"a": 240, "b": 160, "c": 80}


def test_progress_is_committed_as_a_group(app: App, kafka: KafkaBroker) -> None:
    app.run("caught-up")
    feed(app, "a", "b")
    app.run("caught-up")
    committed = kafka.committed("words")
    assert {partition.topic for partition in committed} == {"lines"}
    assert sum(committed.values()) == sum(offsets.end for offsets in kafka.offsets("lines"))


def test_the_dashboard_finds_the_broker_of_an_app_that_has_run(app: App, cluster: Cluster) -> None:
    assert last_broker_url(app.data_dir) is None
    app.run("caught-up")
    assert last_broker_url(app.data_dir) == cluster.url
    embedded = App("embedded", data_dir=app.data_dir, config=Config(partitions=2))
    embedded.stream("lines").to("copies")
    embedded.run("caught-up")
    assert last_broker_url(app.data_dir) is None, "without a broker, the dashboard shows the embedded log"


def test_another_broker_under_the_same_state_is_refused_and_nothing_is_created_there(
    app: App, cluster: Cluster, kafka: KafkaBroker
) -> None:
    app.broker_url = None
    app.run("caught-up")  # on the embedded log
    app.broker_url = cluster.url
    with pytest.raises(StateError, match=r"has state and positions of 'embedded:.*but its broker is now 'kafka:"):
        app.run("caught-up")
    assert "lines" not in kafka.topic_names()


def test_an_app_id_with_a_dot_is_refused_before_anything_is_created(
    cluster: Cluster, kafka: KafkaBroker, tmp_path: Path, name: str
) -> None:
    app = App("orders.eu", broker=cluster.url, data_dir=tmp_path)
    app.stream(name).to(f"{name}-out")
    with pytest.raises(InvalidNameError, match=r"app id 'orders.eu' has a dot"):
        app.run("caught-up")
    assert f"{name}-out" not in kafka.topic_names()


def test_a_topic_that_was_created_again_is_refused(app: App, kafka: KafkaBroker) -> None:
    app.run("caught-up")
    feed(app, *["a"] * 5)
    app.run("caught-up")
    kafka.delete_topic("lines")
    kafka.create_topic("lines", TopicConfig(partitions=2))
    feed(app, *["b"] * 50)
    with pytest.raises(StateError, match="'lines' was deleted and created again after app 'words' had read it"):
        app.run("caught-up")


def test_partitions_that_are_added_while_the_app_runs_are_read(app: App, kafka: KafkaBroker) -> None:
    app.run("caught-up")
    feed(app, "a", "b")
    has_counted, has_counted_all = threading.Event(), threading.Event()

    def on_batch(_report: BatchReport) -> None:
        has_counted.set()
        if app.tables["words"].get("new") == 40:
            has_counted_all.set()

    run = app.start(on_batch=on_batch)
    try:
        assert has_counted.wait(60)
        kafka.alter_topic("lines", partitions=4)
        with app.producer(value=str) as producer:
            for number in range(40):
                producer.send("lines", "new", key=str(number))
        feed(app, "last")
        assert has_counted_all.wait(60) or app.tables["words"]["new"] == 40
    finally:
        run.stop()
        run.wait(60)
    ends = [offsets.end for offsets in kafka.offsets("lines")]
    assert len(ends) == 4
    assert all(ends)
    assert app.tables["words"]["new"] == 40


def test_without_changelogs_an_app_with_deleted_state_does_not_publish_again_silently(
    app: App, kafka: KafkaBroker
) -> None:
    app.config = Config(partitions=2, changelogs=False)
    app.run("caught-up")
    feed(app, "a")
    app.run("caught-up")
    close_environments(app.data_dir)
    shutil.rmtree(app.data_dir / "apps" / "words")
    with pytest.raises(StateError, match="millstream groups delete"):
        app.run("caught-up")
    assert read(kafka, "word-counts") == [("a", "1")]


def test_an_app_whose_disk_was_deleted_continues(app: App, kafka: KafkaBroker) -> None:
    app.config = Config(partitions=2, caching=False)
    app.run("caught-up")
    for number in (1, 2, 3):
        feed(app, "a")
        app.run("caught-up")
        close_environments(app.data_dir)
        shutil.rmtree(app.data_dir / "apps" / "words")
        assert read(kafka, "word-counts") == [("a", str(count)) for count in range(1, number + 1)]


def test_an_app_publishes_again_after_a_reset(app: App, kafka: KafkaBroker) -> None:
    app.config = Config(partitions=2, caching=False)
    app.run("caught-up")
    feed(app, "a b a")
    app.run("caught-up")
    close_environments(app.data_dir)
    execute_reset(kafka, app.data_dir, planned_reset(kafka, app.data_dir, app.id))
    app.run("caught-up")
    assert Counter(read(kafka, "word-counts")) == {("a", "1"): 2, ("a", "2"): 2, ("b", "1"): 2}


def test_the_output_of_an_app_is_the_input_of_another(
    app: App, cluster: Cluster, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Transactions leave control records in the topic: the second app reads across them."""
    shouting = App("shouting", broker=cluster.url, data_dir=tmp_path, config=Config(partitions=2, max_batch_records=3))
    shouting.stream("word-counts", value=int).map_values(lambda count: count * 10).to("tenfold")
    app.config = Config(partitions=2, caching=False, max_batch_records=5)
    app.run("caught-up")
    feed(app, *["a b a", "c", "b a"] * 4)
    app.run("caught-up")
    settle(kafka, cluster.bootstrap, "word-counts")
    shouting.run("caught-up")
    expected = Counter((key, str(int(value) * 10)) for key, value in read(kafka, "word-counts"))
    assert Counter(read(kafka, "tenfold")) == expected


def test_records_that_cannot_be_decoded_become_dead_letters(
    cluster: Cluster, kafka: KafkaBroker, tmp_path: Path
) -> None:
    picky = App("picky", broker=cluster.url, data_dir=tmp_path, config=Config(partitions=1))
    picky.stream("numbers-in", value=int).to("numbers-out")
    picky.run("caught-up")
    with picky.producer(value=str) as producer:
        for text in ("1", "no number", "2"):
            producer.send("numbers-in", text, key="k")
    picky.run("caught-up")
    assert read(kafka, "numbers-out") == [("k", "1"), ("k", "2")]
    assert read(kafka, "picky.dead-letters") == [("k", "no number")]


def test_two_levels_of_shuffling(cluster: Cluster, kafka: KafkaBroker, tmp_path: Path) -> None:
    app = levels
    app.broker_url, app.data_dir = cluster.url, tmp_path
    app.config = Config(partitions=2, caching=False, small_batch_records=0)
    try:
        app.run("caught-up")
        feed(app, *["a b a"] * 5)
        app.run("caught-up")
        assert dict(app.tables["reached"].items()) == {n: 2 if n <= 5 else 1 for n in range(1, 11)}
    finally:
        app.broker_url, app.config = None, Config(partitions=2)
        kafka.delete_topic("lines")  # the name of the app is used by this test only

"""State and journal on Kafka: a host without a disk continues exactly where another one stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.kafka.conftest import Send, settle
from tests.kafka.hosts import Host

from millstream import App, Config
from millstream.batch.batch import Progress
from millstream.batch.journal import Journal
from millstream.broker import TopicConfig
from millstream.errors import FencedError, StateError
from millstream.foundation.paths import journal_dir
from millstream.kafka import KafkaBroker
from millstream.task.changelog import CatchUp, ChangelogPartition
from millstream.testing.kafka import Cluster

pytestmark = pytest.mark.kafka
NewHost = Callable[..., Host]
Updates = Callable[[], dict[str, list[int]]]


@pytest.fixture
def app(kafka: KafkaBroker, name: str) -> App:
    """Counts words over two levels, and publishes every update."""
    app = App(name, config=Config(partitions=2, caching=False))
    words = app.stream(f"{name}-lines", value=str).flat_map_values(str.split)
    words.group_by(lambda word: word, name="by_word").count(name="words").to_stream().to(f"{name}-counts")
    for topic in ("lines", "counts"):
        kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=2))
    return app


@pytest.fixture(params=["tasks", "behind"])
def new_host(request: pytest.FixtureRequest, cluster: Cluster, app: App, tmp_path: Path) -> Iterator[NewHost]:
    with ExitStack() as hosts:

        def new(name: str = "a", **settings: Any) -> Host:
            settings = {"behind": request.param == "behind", **settings}
            host = Host(app, cluster.url, tmp_path / name, **settings)
            hosts.callback(host.close)
            return host

        yield new


@pytest.fixture
def feed(cluster: Cluster, app: App) -> Callable[..., None]:
    def feed(*lines: str) -> None:
        app.broker_url = cluster.url
        with app.producer(value=str) as producer:
            for line in lines:
                producer.send(f"{app.id}-lines", line)

    return feed


@pytest.fixture
def updates(cluster: Cluster, kafka: KafkaBroker, app: App) -> Updates:
    """Return all published counts by word, in order."""

    def updates() -> dict[str, list[int]]:
        settle(kafka, cluster.bootstrap, f"{app.id}-counts")
        seen: dict[str, list[int]] = {}
        for partition, offsets in enumerate(kafka.offsets(f"{app.id}-counts")):
            for chunk in kafka.read(f"{app.id}-counts", partition, offsets.begin, offsets.end):
                for key, value in zip(*(chunk.block.column(number).to_pylist() for number in (0, 1)), strict=True):
                    seen.setdefault(key.decode(), []).append(int(value))
        return seen

    return updates


def changelogs(kafka: KafkaBroker, app: App) -> list[str]:
    return [topic for topic in kafka.topic_names() if topic.startswith(f"{app.id}.") and topic.endswith(".changelog")]


def upto(count: int) -> list[int]:
    return list(range(1, count + 1))


def test_a_host_with_an_empty_disk_continues_where_another_one_stopped(
    new_host: NewHost, feed: Callable[..., None], updates: Updates
) -> None:
    feed("a b a", "c")
    new_host("a").run()
    feed("a", "b d")
    second = new_host("b")
    with second.running() as run:
        assert run.restored, "the second host has restored the state"
        run.catch_up()
    assert updates() == {"a": upto(3), "b": upto(2), "c": upto(1), "d": upto(1)}


def test_a_disk_that_is_deleted_while_the_app_is_stopped_costs_no_data(
    new_host: NewHost, feed: Callable[..., None], updates: Updates
) -> None:
    host = new_host()
    for number in range(3):
        feed("a b a")
        host.run()
        host.lose_disk()
        assert updates() == {"a": upto(2 * number + 2), "b": upto(number + 1)}


def test_a_lost_journal_does_not_delete_the_state_that_changelogs_have(
    new_host: NewHost, kafka: KafkaBroker, app: App, feed: Callable[..., None], updates: Updates
) -> None:
    feed("a b a")
    host = new_host()
    host.run()
    host.lose_disk()
    host.broker.delete_topic(f"{app.id}.journal")  # the connection that created it need not wait for slow brokers
    with pytest.raises(StateError, match=r"has the state of app .*, but the journal of the app is empty"):
        host.run()
    assert changelogs(kafka, app)
    for topic in changelogs(kafka, app):
        host.broker.delete_topic(topic)
    host.run()
    assert updates() == {"a": [*upto(2), *upto(2)], "b": [1, 1]}, "deleting the changelogs starts the app again"


def test_a_host_that_returns_with_an_old_disk_catches_up(
    new_host: NewHost, feed: Callable[..., None], updates: Updates
) -> None:
    first, second = new_host("a"), new_host("b")
    for host in (first, second, first, second):
        feed("a b a")
        host.run()
    assert updates() == {"a": upto(8), "b": upto(4)}


def test_a_snapshot_in_the_checkpoint_shortens_the_restore(
    new_host: NewHost,
    kafka: KafkaBroker,
    app: App,
    tmp_path: Path,
    feed: Callable[..., None],
    updates: Updates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"checkpoint": str(tmp_path / "checkpoint"), "snapshot_every": 1, "behind": False}
    feed("a b a")
    new_host("a", **settings).run()
    assert list((tmp_path / "checkpoint").rglob("*.snapshot"))
    watched = changelogs(kafka, app)
    starts: list[int] = []
    catch_up = ChangelogPartition.catch_up

    def observed(self: ChangelogPartition, *args: Any) -> CatchUp:
        progress = catch_up(self, *args)
        if self.topic.name in watched:
            starts.append(progress.start)
        return progress

    monkeypatch.setattr(ChangelogPartition, "catch_up", observed)
    feed("a")
    with new_host("b", **settings).running() as run:
        assert len(starts) == len(run.restored) > 0
        assert all(starts), "what the snapshots contain is not read from the changelogs"
        run.catch_up()
    assert updates() == {"a": upto(3), "b": upto(1)}


def test_of_two_runs_the_first_is_fenced_and_says_by_whom(
    new_host: NewHost, feed: Callable[..., None], updates: Updates
) -> None:
    feed("a")
    first, second = new_host("a"), new_host("b")
    with first.running() as old:
        old.catch_up()
        feed("a")
        with second.running() as new:
            with pytest.raises(FencedError, match=r"was taken over by process \d+ on '.*' at \d\d:\d\d:\d\d"):
                old.catch_up()
            new.catch_up()
    assert updates() == {"a": upto(2)}


def test_without_changelogs_nothing_but_output_is_on_kafka_and_they_can_be_turned_on_later(
    new_host: NewHost,
    kafka: KafkaBroker,
    app: App,
    feed: Callable[..., None],
    updates: Updates,
) -> None:
    feed("a b a")
    host = new_host("a", changelogs=False)
    host.run()
    assert not {topic for topic in kafka.topic_names() if topic.startswith(f"{app.id}.")}
    host.close()
    feed("a")
    host = new_host("a")
    host.run()
    host.close()
    feed("a")
    new_host("b").run()
    assert updates() == {"a": upto(4), "b": upto(1)}


def test_turning_changelogs_off_keeps_what_other_hosts_have_done(
    new_host: NewHost, feed: Callable[..., None], updates: Updates
) -> None:
    for host in ("a", "b"):
        feed("a")
        new_host(host).run()
    for changelogs in (False, False, True):
        feed("a")
        host_a = new_host("a", changelogs=changelogs)
        host_a.run()
        host_a.close()
    new_host("b").run()
    assert updates() == {"a": upto(5)}


def test_a_deleted_changelog_is_filled_again_from_the_state_on_disk(
    new_host: NewHost,
    kafka: KafkaBroker,
    app: App,
    feed: Callable[..., None],
    updates: Updates,
) -> None:
    feed("a b a")
    host = new_host("a")
    host.run()
    for topic in changelogs(kafka, app):
        host.broker.delete_topic(topic)
    feed("a")
    host.run()
    host.lose_disk()
    feed("b")
    host.run()
    assert updates() == {"a": upto(3), "b": upto(2)}


def test_a_changelog_is_not_created_again_if_the_app_may_not_create_topics(
    new_host: NewHost, kafka: KafkaBroker, app: App, feed: Callable[..., None]
) -> None:
    feed("a b a")
    new_host("a").run()
    replaced = changelogs(kafka, app)[0]
    kafka.delete_topic(replaced)
    kafka.create_topic(replaced, TopicConfig(partitions=1, compact=True))
    created = kafka.topic(replaced).id
    with pytest.raises(StateError, match="has to be filled again, and may not be created"):
        new_host("a", create_topics=False).run()
    assert kafka.topic(replaced).id == created


def test_changelogs_can_have_the_names_of_kafka_streams(
    new_host: NewHost, kafka: KafkaBroker, app: App, feed: Callable[..., None], updates: Updates
) -> None:
    feed("a b a")
    host = new_host(changelog_names="kafka-streams")
    host.run()
    assert f"{app.id}-words-changelog" in kafka.topic_names()
    assert not changelogs(kafka, app)
    host.lose_disk()
    feed("a")
    host.run()
    assert updates() == {"a": [1, 2, 3], "b": [1]}
    # the journal knows the topics, so that the setting is for new ones
    renamed = new_host("b", changelog_names="dotted")
    feed("b")
    renamed.run()
    assert updates() == {"a": [1, 2, 3], "b": [1, 2]}
    assert not changelogs(kafka, app)


def test_a_topic_of_another_program_is_not_replaced(
    new_host: NewHost, kafka: KafkaBroker, app: App, send: Send
) -> None:
    kafka.create_topic(f"{app.id}-words-changelog", TopicConfig(partitions=2, compact=True))
    send(f"{app.id}-words-changelog", "a:1")
    host = new_host(changelog_names="kafka-streams")
    Journal(journal_dir(host.disk, app.id)).write(Progress(positions={f"{app.id}-lines/0": 0}), None)
    with pytest.raises(StateError, match=f"'{app.id}-words-changelog' is the changelog of another program"):
        host.run()
    assert kafka.offsets(f"{app.id}-words-changelog")[0].end == 1

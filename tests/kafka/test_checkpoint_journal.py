"""On Kafka without changelogs, another host continues from journal and state in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.kafka.conftest import settle
from tests.kafka.hosts import Host

from millstream import App, Config
from millstream.broker import TopicConfig
from millstream.errors import FencedError
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

pytestmark = pytest.mark.kafka


class Words:
    """Counts words on hosts with their own disks; every update is published."""

    def __init__(self, cluster: Cluster, kafka: KafkaBroker, name: str, directory: Path, held: ExitStack) -> None:
        self.app = App(name, broker=cluster.url, config=Config(partitions=2, caching=False))
        words = self.app.stream(f"{name}-lines", value=str).flat_map_values(str.split)
        words.group_by(lambda word: word, name="by_word").count(name="words").to_stream().to(f"{name}-counts")
        for topic in ("lines", "counts"):
            kafka.create_topic(f"{name}-{topic}", TopicConfig(partitions=2))
        self._cluster, self._kafka, self._directory, self._held = cluster, kafka, directory, held

    def host(self, name: str, *, changelogs: bool = False) -> Host:
        checkpoint = str(self._directory / "checkpoint")
        host = Host(self.app, self._cluster.url, self._directory / name, checkpoint=checkpoint, changelogs=changelogs)
        self._held.callback(host.close)
        return host

    def feed(self, line: str) -> None:
        with self.app.producer(value=str) as producer:
            producer.send(f"{self.app.id}-lines", line)

    def updates(self) -> dict[str, list[int]]:
        topic = f"{self.app.id}-counts"
        settle(self._kafka, self._cluster.bootstrap, topic)
        seen: dict[str, list[int]] = {}
        for partition, offsets in enumerate(self._kafka.offsets(topic)):
            for chunk in self._kafka.read(topic, partition, offsets.begin, offsets.end):
                for key, value in zip(*(chunk.block.column(number).to_pylist() for number in (0, 1)), strict=True):
                    seen.setdefault(key.decode(), []).append(int(value))
        return seen


@pytest.fixture
def words(cluster: Cluster, kafka: KafkaBroker, name: str, tmp_path: Path) -> Iterator[Words]:
    with ExitStack() as held:
        yield Words(cluster, kafka, name, tmp_path, held)


def test_hosts_without_and_with_old_disks_continue_and_the_one_before_is_fenced(words: Words) -> None:
    words.feed("a b a")
    first = words.host("first")
    with first.running() as run:
        run.catch_up()
        words.feed("a")
        words.host("second").run()
        words.feed("b")
        with pytest.raises(FencedError, match="was taken over by process"):
            run.catch_up()
    first.run()
    assert words.updates() == {"a": [1, 2, 3], "b": [1, 2]}


def test_an_app_moves_between_changelogs_and_a_checkpoint(words: Words) -> None:
    """Each time on a host with an empty disk, which finds the journal where the last host has left it."""
    for number, changelogs in enumerate([True, False, True, False, False]):
        words.feed("a")
        words.host(str(number), changelogs=changelogs).run()
    assert words.updates() == {"a": [1, 2, 3, 4, 5]}

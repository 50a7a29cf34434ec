"""Killed brokers, delayed requests and lost responses: each sequence is published once, in order."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import pytest
from tests.kafka.conftest import settle
from tests.kafka.proxy import END_TXN, Proxy

from millstream.broker import Output, TopicConfig
from millstream.errors import BrokerUnavailableError
from millstream.foundation.blocks import Block, block_of
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, run_java
from millstream.testing.kafka.node import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.timeout(120)]
ROUNDS = int(os.environ.get("MILLSTREAM_KAFKA_ROUNDS", "0"))
QUICK = "socket.timeout.ms=2000&reconnect.backoff.max.ms=200"


class Site(NamedTuple):
    """A separate broker with a proxy in front of it; ``through`` uses the proxy, ``direct`` does not."""

    cluster: Cluster
    proxy: Proxy
    through: KafkaBroker
    direct: KafkaBroker
    pool: ThreadPoolExecutor

    def publish(self, broker: KafkaBroker, topic: str, sequence: int) -> None:
        block = block_of([None], [str(sequence).encode()], [sequence])
        broker.append_once(f"one@{topic}.0", sequence, [Output(topic, 0, block)])

    def publishing(self, topic: str, sequence: int) -> Future[None]:
        return self.pool.submit(self.publish, self.through, topic, sequence)

    def read(self, topic: str) -> list[int]:
        settle(self.direct, self.cluster.bootstrap, topic)
        return self.seen(topic)

    def seen(self, topic: str) -> list[int]:
        """Return the values that a reader of committed records sees now."""
        end = self.direct.offsets(topic)[0].end
        return [
            int(value) for chunk in self.direct.read(topic, 0, 0, end) for value in chunk.block.column(1).to_pylist()
        ]


@pytest.fixture(scope="module")
def site(artifacts: None) -> Iterator[Site]:
    port = free_port()
    with (
        Cluster(listeners={"PROXIED": "PLAINTEXT"}, advertised={"PROXIED": port}) as cluster,
        Proxy(port, cluster.ports[1]["PROXIED"]) as proxy,
        KafkaBroker(f"kafka://127.0.0.1:{port}?{QUICK}") as through,
        KafkaBroker(cluster.url) as direct,
    ):
        yield Site(cluster, proxy, through, direct, ThreadPoolExecutor())


@pytest.fixture
def out_topic(site: Site, name: str) -> str:
    """A topic in which sequence 1 has been published by a cached producer."""
    site.direct.create_topic(name, TopicConfig(partitions=1))
    site.publish(site.through, name, 1)
    return name


def restart(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.kill()
        node.start()
        node.wait_until_started()


def abort_hanging(cluster: Cluster) -> None:
    """Abort hanging transactions with Kafka's own tool, as described in docs/kafka.md."""

    def tool(*arguments: str) -> str:
        options = ["--bootstrap-server", cluster.bootstrap, *arguments]
        return run_java("org.apache.kafka.tools.TransactionsCommand", *options)

    rows = tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0").splitlines()[1:]
    assert rows
    for topic, partition, _, _, _, start, *_ in map(str.split, rows):
        tool("abort", "--topic", topic, "--partition", partition, "--start-offset", start)


def test_a_delayed_end_of_a_transaction_does_not_end_the_next_one(site: Site, out_topic: str) -> None:
    site.proxy.hold(END_TXN)
    done = site.publishing(out_topic, 2)
    assert site.proxy.held.wait(60)
    threading.Timer(3.0, site.proxy.release).start()  # longer than the client waits for a response
    done.result(60)
    for sequence in (3, 4):
        site.publish(site.through, out_topic, sequence)
    assert site.read(out_topic) == [1, 2, 3, 4]


def test_a_lost_response_to_a_commit(site: Site, out_topic: str) -> None:
    site.proxy.swallow(END_TXN)
    site.publishing(out_topic, 2).result(60)
    assert site.proxy.held.is_set()
    site.publish(site.through, out_topic, 3)
    assert site.read(out_topic) == [1, 2, 3]


def test_a_zombie_is_fenced_and_skips(site: Site, out_topic: str) -> None:
    site.proxy.hold(END_TXN)
    zombie = site.publishing(out_topic, 2)
    assert site.proxy.held.wait(60)
    site.publish(site.direct, out_topic, 2)
    site.publish(site.direct, out_topic, 3)
    site.proxy.release()
    zombie.result(60)
    site.publish(site.through, out_topic, 3)
    site.publish(site.through, out_topic, 4)
    assert site.read(out_topic) == [1, 2, 3, 4]


def test_a_transaction_that_times_out_is_retried(site: Site, out_topic: str) -> None:
    with KafkaBroker(f"{site.through.url}&transaction.timeout.ms=2000") as hasty:
        site.publish(hasty, out_topic, 2)
        site.proxy.hold(END_TXN)
        done = site.pool.submit(site.publish, hasty, out_topic, 3)
        assert site.proxy.held.wait(60)
        threading.Timer(4.0, site.proxy.release).start()  # the coordinator has aborted it by then
        done.result(60)
        site.publish(hasty, out_topic, 4)
    assert site.read(out_topic) == [1, 2, 3, 4]


def test_the_broker_dies_between_records_and_commit(site: Site, out_topic: str) -> None:
    site.proxy.hold(END_TXN)
    done = site.publishing(out_topic, 2)
    assert site.proxy.held.wait(60)
    restart(site.cluster)
    site.proxy.release()
    done.result(60)
    site.publish(site.through, out_topic, 3)
    assert site.read(out_topic) == [1, 2, 3]


@pytest.mark.timeout(240)
def test_the_broker_dies_between_commit_and_response(site: Site, out_topic: str) -> None:
    """Kafka may lose the completion of the marker's offset; the process with the acknowledgement can still continue."""
    site.proxy.swallow(END_TXN)
    done = site.publishing(out_topic, 2)
    assert site.proxy.held.wait(60)
    restart(site.cluster)
    problem = done.exception(100)
    if problem is not None:  # no acknowledgement, and the completion was lost: nothing is assumed
        assert "a transaction may be hanging" in str(problem)
        assert site.seen(out_topic) in ([1], [1, 2])
        return
    site.publish(site.through, out_topic, 3)
    assert site.read(out_topic) == [1, 2, 3]


@pytest.mark.timeout(240)
def test_a_hanging_transaction_can_be_aborted(site: Site, out_topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Kafka has lost the completion, another process stops after the restart until the transaction is aborted."""
    monkeypatch.setattr("millstream.kafka.committed_offsets._RETRY_TIMEOUT_SECONDS", 3.0)
    monkeypatch.setattr("millstream.kafka.exactly_once_appends._RETRY_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("millstream.kafka.exactly_once_appends._MIN_ATTEMPTS", 1)
    site.proxy.swallow(END_TXN)
    done = site.publishing(out_topic, 2)
    assert site.proxy.held.wait(60)
    restart(site.cluster)
    with KafkaBroker(site.cluster.url) as other:
        problem = site.pool.submit(site.publish, other, out_topic, 2).exception(100)
        if problem is not None:
            print("the completion was lost")
            assert "a transaction may be hanging" in str(problem)
            done.exception(100)
            assert site.seen(out_topic) == [1]  # one broker: all completions are lost or none
            abort_hanging(site.cluster)
            site.publish(other, out_topic, 2)
        done.exception(100)
        site.publish(other, out_topic, 3)
    assert site.read(out_topic) == [1, 2, 3]


@pytest.mark.skipif(not ROUNDS, reason="killing three brokers in turn takes minutes: set MILLSTREAM_KAFKA_ROUNDS")
@pytest.mark.timeout(300 + 60 * ROUNDS)
def test_brokers_die_in_turn_while_two_processes_publish(artifacts: None, name: str) -> None:
    """Three brokers, three replicas: leader, coordinator and controller are killed at random."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}, {ROUNDS} rounds")
    chance = random.Random(seed)
    with Cluster(3) as cluster, KafkaBroker(cluster.url) as first, KafkaBroker(cluster.url) as second:
        first.create_topic(name, TopicConfig(partitions=1))
        killing = threading.Event()
        with ThreadPoolExecutor() as pool:
            published = pool.submit(_publish_until, killing, (first, second), name, chance)
            _kill_in_turn(cluster, chance, lambda: published.done())
            killing.set()
            last = published.result(200)
        settle(first, cluster.bootstrap, name)
        rows = [
            int(value)
            for chunk in first.read(name, 0, 0, first.offsets(name)[0].end)
            for value in chunk.block.column(1).to_pylist()
        ]
    assert rows == list(range(1, last + 1))
    assert last >= ROUNDS


def _publish_until(stop: threading.Event, brokers: tuple[KafkaBroker, ...], topic: str, chance: random.Random) -> int:
    sequence = 0
    while not stop.is_set() or sequence == 0:
        sequence += 1
        block = block_of([None], [str(sequence).encode()], [sequence])
        for broker in chance.sample(brokers, chance.randrange(1, 3)):
            _publish_with_retries(broker, topic, sequence, block)
    return sequence


def _publish_with_retries(broker: KafkaBroker, topic: str, sequence: int, block: Block) -> None:
    """Publish with retries, as the batch loop does."""
    while True:
        try:
            return broker.append_once(f"one@{topic}.0", sequence, [Output(topic, 0, block)])
        except BrokerUnavailableError as error:
            print(error)


def _kill_in_turn(cluster: Cluster, chance: random.Random, failed: Callable[[], bool]) -> None:
    for _ in range(ROUNDS):
        assert not failed()
        node = chance.choice(cluster.nodes)
        node.kill()
        node.start()
        node.wait_until_started()

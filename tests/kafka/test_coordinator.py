"""The coordinator of a group moves to another broker; the one before it is alive again, or silent."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker
from millstream.kafka.address import KafkaAddress
from millstream.kafka.clients import Clients
from millstream.records import TopicPartition
from millstream.testing.kafka import Cluster

GROUP = "moved"


def coordinator(bootstrap: str) -> int:
    """Return the id of the broker that a new client finds."""
    deadline = monotonic() + 60
    while True:
        with suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": bootstrap})  # its requests end with it
            return int(admin.describe_consumer_groups([GROUP])[GROUP].result(30).coordinator.id)
        assert monotonic() < deadline, "the group has no coordinator"


@pytest.mark.crash
def test_a_group_is_described_after_its_coordinator_has_moved(artifacts: None) -> None:
    """A standby asks for the group of the running app; it must not wait for the coordinator that it knew before."""
    with Cluster(3) as cluster, KafkaBroker(cluster.url) as broker:
        broker.create_topic("lines", TopicConfig(partitions=1))
        broker.commit(GROUP, {TopicPartition("lines", 0): 0})
        assert broker.members(GROUP) == ()
        before = coordinator(cluster.bootstrap)
        node = next(node for node in cluster.nodes if node.id == before)
        node.kill()
        moved_to = coordinator(cluster.bootstrap)
        node.start()
        node.wait_until_started()
        assert coordinator(cluster.bootstrap) == moved_to != before
        assert broker.members(GROUP) == ()


@pytest.mark.crash
def test_a_coordinator_that_is_silent_is_not_waited_for(artifacts: None) -> None:
    """As if its host was cut off: its connections stay open, and only the cluster notices that it is gone."""
    with Cluster(3, properties={"broker.session.timeout.ms": 6000}) as cluster, KafkaBroker(cluster.url) as broker:
        broker.create_topic("lines", TopicConfig(partitions=1))
        broker.commit(GROUP, {TopicPartition("lines", 0): 0})
        assert broker.members(GROUP) == ()
        before = coordinator(cluster.bootstrap)
        node = next(node for node in cluster.nodes if node.id == before)
        assert node.process is not None
        os.kill(node.process.pid, signal.SIGSTOP)
        assert broker.members(GROUP) == (), "the client would wait for 20 s, and then fail"


def test_a_client_that_another_thread_replaces_still_answers(kafka: KafkaBroker) -> None:
    """It ends with its last reference, and its requests would fail because the client is terminating."""
    clients = Clients(KafkaAddress.parse(kafka.url))

    def send(admin: AdminClient) -> Future[Any]:
        future = admin.list_consumer_groups(request_timeout=20)
        clients.discard_admin()  # as another thread does that gets no answer
        return future

    assert clients.request(send, "list groups").errors == []

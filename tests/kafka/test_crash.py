"""kill -9 of the driver at random moments, on Kafka: a reader of committed records sees nothing lost or doubled."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.crash.laws import Victim, check, feed
from tests.kafka.conftest import settle

from millstream.broker import TopicConfig
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

TRIALS = int(os.environ.get("MILLSTREAM_KAFKA_TRIALS", "3"))

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(180 * (TRIALS + 1))]


def test_a_killed_driver_loses_and_doubles_nothing(artifacts: None, tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {TRIALS} trials")
    chance = random.Random(seed)
    lines: list[str] = []
    with Cluster() as cluster, KafkaBroker(cluster.url) as broker:
        broker.create_topic("lines", TopicConfig(partitions=2))
        for _ in range(TRIALS):
            with Victim(tmp_path, cluster.url) as victim:
                settle(broker, cluster.bootstrap, *broker.topic_names())
                check(tmp_path, broker, lines)
                lines += feed(broker, chance, victim)
        with Victim(tmp_path, cluster.url):
            settle(broker, cluster.bootstrap, *broker.topic_names())
            check(tmp_path, broker, lines)
    assert len(lines) > 0

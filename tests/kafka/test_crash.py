"""kill -9 of the driver at random times, on Kafka: readers of committed records see nothing lost or duplicated."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.crash.trials import Mode, Trials
from tests.kafka.conftest import settle

from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster

APPS = ("two_levels", "three_levels", "windowed", "chance")
TRIALS = int(os.environ.get("MILLSTREAM_KAFKA_TRIALS", "2"))

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.spark, pytest.mark.timeout(180 * (TRIALS + 1))]


def test_a_killed_driver_neither_loses_nor_duplicates_records_also_if_its_disk_is_lost(
    artifacts: None, tmp_path: Path
) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {TRIALS} trials")
    with Cluster() as cluster, KafkaBroker(cluster.url) as broker:
        trials = Trials(tmp_path, broker, seed, "spark", APPS, cluster.url)
        for number in range(TRIALS):
            trials.kill_at_random(3.0)
            if number % 2:
                trials.lose_disk()
        result = trials.result(lambda: settle(broker, cluster.bootstrap, *broker.topic_names()))
    assert result.is_correct, result.notes
    assert result.records > 0


@pytest.mark.parametrize("mode", ["light", "behind"])
def test_a_killed_host_whose_disk_is_lost_neither_loses_nor_duplicates_records(
    artifacts: None, tmp_path: Path, mode: Mode
) -> None:
    """``light`` commits each task by itself, ``behind`` whole batches as a resident task does, both without Spark."""
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {TRIALS} trials")
    with Cluster() as own, KafkaBroker(own.url) as broker:
        trials = Trials(tmp_path, broker, seed, mode, ("three_levels", "chance"), own.url)
        for _ in range(TRIALS):
            trials.kill_at_random(3.0)
            trials.lose_disk()
        result = trials.result(lambda: settle(broker, own.bootstrap, *broker.topic_names()))
    assert result.is_correct, result.notes
    assert result.records > 0

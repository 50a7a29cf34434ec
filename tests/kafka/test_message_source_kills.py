"""Sources onto Kafka that are killed and lose their disk while messages come in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.connectors.message_source_kills import kill_systems

from millstream.testing.kafka import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.timeout(400)]


def test_killed_sources_continue_on_another_disk(cluster: Cluster, tmp_path: Path, name: str) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    systems = ["files", "webhooks", "polling"]
    results = kill_systems(tmp_path, systems, seed=seed, kills=1, name=name, broker=cluster.url)
    assert all(result.is_right and result.sent > result.kills for result in results.values()), results

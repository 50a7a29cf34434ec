"""A short version of ``./dev crash --mode messages``: sources that are killed while messages come in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.connectors.message_source_kills import kill_systems
from tests.servers.debian import NoServerError

pytestmark = [pytest.mark.crash, pytest.mark.server, pytest.mark.timeout(400)]


def test_killed_sources_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    try:
        results = kill_systems(tmp_path, ["files", "webhooks", "polling", "mqtt"], seed=seed, kills=1)
    except NoServerError as reason:
        pytest.skip(f"Mosquitto cannot be installed here: {reason}")
    assert all(result.is_right and result.sent > result.kills for result in results.values()), results

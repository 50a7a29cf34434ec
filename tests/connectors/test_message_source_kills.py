"""A short version of ``./dev crash --mode messages``: sources that are killed while messages come in."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.connectors.message_source_kills import kill_systems

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]


def test_killed_sources_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    """Those that need a server are killed by ``./dev crash`` only: a busy machine may take a minute to connect."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    results = kill_systems(tmp_path, ["files", "webhooks", "polling"], seed=seed, kills=1)
    assert all(result.is_right and result.sent > result.kills for result in results.values()), results

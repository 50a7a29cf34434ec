"""The source killed at random times, in its real loop: nothing is lost, and changes are records once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.postgres_cdc.changed_postgres import ChangedPostgres
from tests.connectors.source_killing import Shop, kill_source
from tests.servers.postgres import Postgres

KILLS = int(os.environ.get("MILLSTREAM_TRIALS", "4"))


@pytest.mark.server
@pytest.mark.crash
@pytest.mark.timeout(120 + 10 * KILLS)
def test_a_killed_source_loses_nothing_and_writes_no_change_twice(
    tmp_path: Path, postgres: Postgres, database: str, sql: Callable[[str], list[Any]]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {KILLS} kills")
    shop = ChangedPostgres(postgres.url(database), sql)
    result = kill_source(Shop(tmp_path, shop, chunk=50), shop, seed=seed, kills=KILLS)
    assert result.is_right, result
    assert result.changes > KILLS

"""The source killed at random times, in its real loop: nothing is lost, and changes are records once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.connectors.mysql_cdc.changed_mysql import ChangedMysql
from tests.connectors.source_killing import Shop, kill_source
from tests.servers.mariadb import MariadbServer

KILLS = int(os.environ.get("MILLSTREAM_TRIALS", "3"))


@pytest.mark.server
@pytest.mark.crash
@pytest.mark.timeout(120 + 10 * KILLS)
@pytest.mark.parametrize("mysql", ["mariadb_log"], indirect=True)
def test_a_killed_source_loses_nothing_and_writes_no_change_twice(tmp_path: Path, mysql: MariadbServer) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {KILLS} kills")
    shop = ChangedMysql(mysql)
    result = kill_source(Shop(tmp_path, shop, chunk=50), shop, seed=seed, kills=KILLS)
    assert result.is_right, result
    assert result.changes > KILLS

"""A short version of ``./dev crash --mode sinks``, for the sinks whose tests have no kills of their own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.connectors.sink_kills import kill_sink


@pytest.mark.crash
@pytest.mark.parametrize(("kind", "batches"), [("sqlite-table", 1_000), ("duckdb-table", 100)])  # more than 0.1 s each
def test_a_killed_writer_loses_and_doubles_nothing(kind: str, batches: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    result = kill_sink(kind, tmp_path, kills=4, batches=batches, seed=seed)
    assert (result.lost, result.doubled) == (0, 0), result
    assert result.kills > 0

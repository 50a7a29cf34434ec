"""kill -9 of the driver at random moments: output and state obey their laws every time."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.crash.laws import Victim, check, feed

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog

TRIALS = int(os.environ.get("MILLSTREAM_TRIALS", "20"))


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.timeout(60 * TRIALS)
def test_a_killed_driver_loses_and_doubles_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("MILLSTREAM_SEED", random.randrange(1_000_000)))
    print(f"seed {seed}, {TRIALS} trials")
    chance = random.Random(seed)
    lines: list[str] = []
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=2))
        for _ in range(TRIALS):
            with Victim(tmp_path) as victim:
                check(tmp_path, log, lines)
                lines += feed(log, chance, victim)
        with Victim(tmp_path):
            check(tmp_path, log, lines)
    assert len(lines) > 0

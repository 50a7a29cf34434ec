import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples import taxi_rides
from millstream.log import EmbeddedLog
from millstream.tables import open_tables

ROOT = Path(__file__).parents[2]


def test_data_is_the_same_for_a_seed() -> None:
    first, second = taxi_rides.made_up(7), taxi_rides.made_up(7)
    assert [next(first) for _ in range(50)] == [next(second) for _ in range(50)]


@pytest.mark.spark
def test_the_demo_drains_on_ctrl_c_and_leaves_nothing_unprocessed(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--data-dir", str(tmp_path), "--seconds", "60", "--rate", "500"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    told = iter(process.stdout.readline, "")
    assert any(line.startswith("taxi-rides: records") and "none yet" not in line for line in told)

    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    assert process.returncode == 0, rest
    assert "draining" in rest
    assert "try next" in rest
    counts = dict(open_tables(tmp_path, "taxi-rides")["trips_per_vendor"].items())
    with EmbeddedLog(tmp_path) as log:
        assert sum(counts.values()) == sum(offsets.end for offsets in log.offsets("rides")) > 0

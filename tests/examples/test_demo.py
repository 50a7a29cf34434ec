import os
import signal
import subprocess
import sys
import urllib.request
from itertools import islice
from pathlib import Path

import pytest
from tests.spark.test_session import children, is_loopback, listeners, sockets

from examples import demo_data
from millstream.log import EmbeddedLog
from millstream.tables.opening import open_tables
from millstream.views.status import status_of

ROOT = Path(__file__).parents[2]


def test_the_data_has_something_for_every_page() -> None:
    found = list(islice(demo_data.records(7), 20_000))
    assert {one.topic for one in found} == set(demo_data.TOPICS)
    newest = max(one.timestamp for one in found)
    assert 50 < sum(one.timestamp < newest - 200_000 for one in found) < 200
    assert 5 < sum(one.key == b"poison" for one in found) < 60


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
    url = next(line.split()[-1] for line in told if line.startswith("dashboard: "))
    assert any(line.startswith("taxi-rides: records") and "none yet" not in line for line in told)
    for path in ("/", "/topology", "/topics", "/tables", "/time", "/groups", "/letters", "/alerts"):
        with urllib.request.urlopen(f"{url}{path}") as page:
            assert page.status == 200
    inodes = {inode for pid in (process.pid, *children(process.pid)) for inode in sockets(pid)}
    addresses = {address for address, inode in listeners() if inode in inodes}
    assert addresses
    assert all(is_loopback(address) for address in addresses), addresses

    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    assert process.returncode == 0, rest
    assert "draining" in rest
    assert "try next" in rest
    counts = dict(open_tables(tmp_path, "taxi-rides")["trips_per_vendor"].items())
    letters = status_of(tmp_path, "taxi-rides").totals.dead_letters
    with EmbeddedLog(tmp_path) as log:
        assert sum(counts.values()) + letters == sum(offsets.end for offsets in log.offsets("rides")) > 0

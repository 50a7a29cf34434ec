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


def test_the_data_covers_every_topic_with_late_and_malformed_records() -> None:
    records = list(islice(demo_data.records(7), 20_000))
    assert {record.topic for record in records} == set(demo_data.TOPICS)
    latest = max(record.timestamp for record in records)
    assert 50 < sum(record.timestamp < latest - 200_000 for record in records) < 200
    assert 5 < sum(record.key == b"malformed" for record in records) < 60


@pytest.mark.spark
def test_the_demo_processes_all_records_before_it_stops_on_ctrl_c(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--data-dir", str(tmp_path), "--seconds", "60", "--rate", "500"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    link = next(line.split()[-1] for line in lines if line.startswith("dashboard: "))
    url, browser = link.partition("/login")[0], urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    assert any(line.startswith("taxi-rides: records") and "none yet" not in line for line in lines)
    browser.open(link).close()
    for path in ("/", "/topology", "/topics", "/tables", "/time", "/groups", "/dead-letters", "/alerts"):
        with browser.open(f"{url}{path}") as page:
            assert page.status == 200
    inodes = {inode for pid in (process.pid, *children(process.pid)) for inode in sockets(pid)}
    addresses = {address for address, inode in listeners() if inode in inodes}
    assert addresses
    assert all(is_loopback(address) for address in addresses), addresses

    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 0, output
    assert "draining" in output
    assert "next, try" in output
    counts = dict(open_tables(tmp_path, "taxi-rides")["trips_per_vendor"].items())
    dead_letters = status_of(tmp_path, "taxi-rides").totals.dead_letters
    with EmbeddedLog(tmp_path) as log:
        assert sum(counts.values()) + dead_letters == sum(offsets.end for offsets in log.offsets("rides")) > 0

"""A slow sink and input in bursts: memory stays bounded, and the lag drains."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.views.status import status_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
BURSTS, RECORDS, BYTES = 4, 60_000, 300
MAX_MEGABYTES = 120
"""By how much memory may grow after the first burst; a burst has 18 MB, all of them 72."""

SCRIPT = """
import resource, sys, threading
from pathlib import Path
from millstream import App, Config
from tests.cli.running import run_to_end

app = App("slow", data_dir=Path(sys.argv[1]), config=Config(partitions=1, max_batch_records=1000))
never, seen = threading.Event(), 0

def slowly(value):
    global seen
    seen += 1
    if seen % 2000 == 0:
        never.wait(0.01)

app.stream("bursts", value=bytes).peek(slowly).to("out")
for _ in sys.stdin:
    run_to_end(app)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, flush=True)
"""


def test_bursts_are_processed_within_bounded_memory(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with (
        EmbeddedLog(tmp_path, durability="os") as log,
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for topic in ("bursts", "out"):
            log.create_topic(topic, TopicConfig(partitions=1))
        megabytes = []
        for burst in range(BURSTS):
            values = [os.urandom(BYTES) for _ in range(RECORDS)]
            log.append([Output("bursts", 0, block_of([None] * RECORDS, values, [burst] * RECORDS))])
            process.stdin.write("go\n")
            process.stdin.flush()
            megabytes.append(int(process.stdout.readline()))
        process.stdin.close()
        assert log.offsets("out")[0].end == BURSTS * RECORDS
    print(megabytes)
    assert status_of(tmp_path, "slow").lag == {}
    assert megabytes[-1] - megabytes[0] < MAX_MEGABYTES

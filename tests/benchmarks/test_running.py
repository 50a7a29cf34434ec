import os
import select
import sys
from pathlib import Path

import pytest
from benchmarks.peers.running import Command, Side, Task, running

CHILD = "import signal, sys; out = open(sys.argv[1], 'wb', buffering=0); out.write(b'.'); signal.pause()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


@pytest.mark.crash
def test_stopping_a_side_kills_its_child_processes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = Command([sys.executable, "-c", PARENT, CHILD, str(pipe)], os.environ)
    side = Side("a side", "caching", "none", lambda _: [command, command])
    with running(side, Task("", "", "", "", tmp_path / "directory")) as run, pipe.open("rb", buffering=0) as reader:
        assert reader.read(1) + reader.read(1) == b".."
        assert run.is_alive()
        run.stop()
        assert not run.is_alive()
        poller = select.poll()  # select() does not support descriptors above 1023
        poller.register(reader)
        assert poller.poll(20_000), "a child process is still running"
        assert reader.read() == b"", "the other end is still open"

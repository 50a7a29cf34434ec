import os
import select
import sys
from pathlib import Path

from benchmarks.peers.running import Command, Side, Task, running

CHILD = "import signal, sys; out = open(sys.argv[1], 'wb', buffering=0); out.write(b'.'); signal.pause()"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


def test_all_that_a_side_has_started_ends_with_it(tmp_path: Path) -> None:
    held = tmp_path / "held by the children"
    os.mkfifo(held)
    command = Command([sys.executable, "-c", PARENT, CHILD, str(held)], os.environ)
    side = Side("a side", "caching", "none", lambda _: [command, command])
    with running(side, Task("", "", "", "", tmp_path / "place")) as run, held.open("rb", buffering=0) as signs:
        assert signs.read(1) + signs.read(1) == b".."
        assert run.is_alive()
        run.end()
        assert not run.is_alive()
        ended = select.poll()  # select() itself knows no descriptors from 1024 on
        ended.register(signs)
        assert ended.poll(20_000), "a child is still there"
        assert signs.read() == b"", "nobody holds the other end any more"

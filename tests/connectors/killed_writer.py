"""Write batches in a process that is killed again and again; each start repeats what was not marked as done.

Python is started once: it forks the writers, which open the sink themselves.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from tests.connectors.batches import context, numbered

from millstream.connect.protocols import Sink


def write_with_kills(sink: Sink, directory: Path, *, batches: int, kills: int, seed: int) -> int:
    """Write numbered batches while the writer is killed at random times; return how often it was."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sink").write_bytes(pickle.dumps(sink))
    numbers = [str(number) for number in (batches, kills, seed)]
    command = [sys.executable, "-m", "tests.connectors.killed_writer", str(directory), *numbers]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert finished.returncode == 0, f"seed {seed}: {finished.stderr}"
    return int(finished.stdout)


def _supervise(directory: Path, batches: int, kills: int, seed: int) -> int:
    sink: Sink = pickle.loads((directory / "sink").read_bytes())
    chance = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    killed = 0
    while True:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os._exit(_write(sink, directory, batches, writing))
        os.close(writing)
        opened = os.read(reading, 1)
        os.close(reading)
        if killed < kills and opened and signal.sigtimedwait({signal.SIGCHLD}, chance.uniform(0, 0.1)) is None:
            os.kill(process, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        signal.sigtimedwait({signal.SIGCHLD}, 0)
        if code >= 0:
            return killed if code == 0 else sys.exit(1)
        killed += 1


def _write(sink: Sink, directory: Path, batches: int, opened: int) -> int:
    try:
        done = directory / "done"
        writer = sink.open(context(directory / "own"))
        os.write(opened, b"1")
        for number in range(int(done.read_text()) + 1 if done.exists() else 1, batches + 1):
            assert not writer.write(numbered(number))
            (directory / "new").write_text(str(number))
            (directory / "new").replace(done)
        writer.close()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    print(_supervise(Path(sys.argv[1]), *map(int, sys.argv[2:])))

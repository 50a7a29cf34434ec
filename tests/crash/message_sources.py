"""Long runs of the sources of files, HTTP and message brokers: a process with all of them is killed again."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.connectors.message_source_kills import kill_systems

from millstream.testing.kafka import Cluster

_SECONDS = 300.0


def kill_message_sources(arguments: argparse.Namespace) -> int:
    """Send messages to the sources of ``--systems``, kill their process, and print what is lost or doubled."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-crash-")))
        broker = stack.enter_context(Cluster()).url if arguments.kafka else None
        print(f"seed {arguments.seed}", flush=True)
        began = time.monotonic()
        results = kill_systems(
            directory,
            arguments.systems,
            seed=arguments.seed,
            kills=arguments.trials,
            broker=broker,
            rate=arguments.rate,
            pause=arguments.pause,
            seconds=_SECONDS,
            report=lambda text: print(f"{time.monotonic() - began:6.1f} s {text}", flush=True),
        )
    for name, result in results.items():
        print(f"{name:16} {result}")
    return 0 if all(result.is_right for result in results.values()) else 1

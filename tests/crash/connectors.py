"""Long runs of connectors: a Postgres source and all sinks that claim exactly once are killed again and again."""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.connectors.postgres_cdc.killing import Shop, kill_source
from tests.connectors.sink_kills import TARGETS, kill_sink
from tests.servers.debian import NoServerError
from tests.servers.postgres import Postgres

from millstream.testing.kafka import Cluster

_CHUNK_ROWS = 5_000
_SECONDS = 300.0
_BATCHES_PER_KILL = {"iceberg": 2, "delta": 3}
"""The others are fast: more of their batches fit between two kills."""


def kill_a_source(arguments: argparse.Namespace) -> int:
    """Kill a Postgres source under load, and print what is lost, doubled or wrong."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-crash-")))
        server = Postgres().create().start()
        stack.callback(server.remove)
        broker = stack.enter_context(Cluster()).url if arguments.kafka else None
        print(f"seed {arguments.seed}", flush=True)
        began = time.monotonic()
        result = kill_source(
            Shop(directory, server.url(), broker=broker, chunk=_CHUNK_ROWS),
            server.url(),
            server.execute,
            seed=arguments.seed,
            kills=arguments.trials,
            rows=arguments.rows,
            rate=arguments.rate,
            pause=arguments.pause,
            loses_disk=arguments.kafka,
            seconds=_SECONDS,
            report=lambda text: print(f"{time.monotonic() - began:6.1f} s {text}", flush=True),
        )
    print(result)
    return 0 if result.is_right else 1


def kill_the_sinks(arguments: argparse.Namespace) -> int:
    """Kill the writer of each sink, and print a line for each."""
    print(f"seed {arguments.seed}")
    is_right = True
    for kind in TARGETS:
        batches = arguments.trials * _BATCHES_PER_KILL.get(kind, 10)
        with tempfile.TemporaryDirectory(prefix="millstream-crash-") as name:
            try:
                result = kill_sink(kind, Path(name), kills=arguments.trials, batches=batches, seed=arguments.seed)
            except NoServerError as reason:
                print(f"{kind:16} skipped: {reason}")
                continue
        print(f"{kind:16} {result}", flush=True)
        is_right = is_right and not (result.lost or result.doubled)
    return 0 if is_right else 1

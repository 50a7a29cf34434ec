"""Long runs of connectors: a source of change data and all sinks that claim exactly once are killed again and again."""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.connectors.mysql_cdc.changed_mysql import ChangedMysql
from tests.connectors.postgres_cdc.changed_postgres import ChangedPostgres
from tests.connectors.sink_kills import kill_sink
from tests.connectors.source_killing import ChangedDatabase, Shop, kill_source
from tests.servers.debian import NoServerError
from tests.servers.mariadb import BINLOG_OPTIONS, MariadbServer
from tests.servers.mysql import MysqlServer
from tests.servers.postgres import Postgres

from millstream.testing.kafka import Cluster

_CHUNK_ROWS = 5_000
_SECONDS = 300.0
_BATCHES_PER_KILL = {"iceberg": 2, "delta": 3}
"""The others are fast: more of their batches fit between two kills."""


def _database(kind: str, directory: Path, stack: ExitStack) -> ChangedDatabase:
    """Start a server, which is removed at the end."""
    if kind == "postgres":
        server = Postgres().create().start()
        stack.callback(server.remove)
        return ChangedPostgres(server.url(), server.execute)
    mysql = (MysqlServer if kind == "mysql" else MariadbServer)(directory / kind, *BINLOG_OPTIONS).create()
    stack.callback(mysql.kill)
    mysql.start()
    return ChangedMysql(mysql)


def kill_a_source(arguments: argparse.Namespace) -> int:
    """Kill a source of change data under load, and print what is lost, doubled or wrong."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="millstream-crash-")))
        database = _database(arguments.source, directory, stack)
        broker = stack.enter_context(Cluster()).url if arguments.kafka else None
        print(f"seed {arguments.seed}", flush=True)
        began = time.monotonic()
        result = kill_source(
            Shop(directory, database, broker=broker, chunk=_CHUNK_ROWS),
            database,
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
    for kind in arguments.sinks:
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

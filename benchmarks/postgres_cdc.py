"""How many rows per CPU second the Postgres source reads: transport only, decoded, and written to a synced log.

    ./dev bench postgres_cdc --rows 200000
    ./dev bench postgres_cdc --rows 200000 --transaction 10

CPU seconds are those of this process; the server has its own. Rows have six columns.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from tests.servers.postgres import Postgres

from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.connect.connect_file import ConnectFile, FileSource
from millstream.connect.protocols import ConnectorContext, Intake
from millstream.connect.worker import run_connect_file
from millstream.connectors.postgres_cdc import PostgresCdc
from millstream.connectors.postgres_cdc.connection import Address, ReplicationStream
from millstream.log import EmbeddedLog

_PARTITIONS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--transaction", type=int, help="rows of a transaction; the default is one transaction")
    options = parser.parse_args()
    rows = options.rows
    server = Postgres().create().start()
    try:
        _prepare(server, rows, options.transaction or rows)
        _measure("transport only", rows, lambda: _transport(server, rows))
        _wait_until_free(server)
        with tempfile.TemporaryDirectory() as directory:
            _measure("decoded to keys and JSON", rows, lambda: _read(server, Path(directory), rows, lambda _: None))
        _wait_until_free(server)
        with tempfile.TemporaryDirectory() as directory:
            log = EmbeddedLog(Path(directory))
            log.create_topic("orders", TopicConfig(partitions=_PARTITIONS))
            _measure("slot to synced log", rows, lambda: _to_log(server, Path(directory)))
            assert sum(offsets.end for offsets in log.offsets("orders")) == rows
            log.close()
    finally:
        server.remove()


def _prepare(server: Postgres, rows: int, transaction: int) -> None:
    server.execute(
        "CREATE TABLE orders (id int8 PRIMARY KEY, customer text, item text, cents int, at timestamptz, note text)"
    )
    server.execute("CREATE PUBLICATION bench FOR TABLE orders")
    server.execute("SELECT pg_create_logical_replication_slot('bench', 'pgoutput')")
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for start in range(0, rows, transaction):
            connection.execute(
                "INSERT INTO orders SELECT i, 'customer-' || i %% 1000, 'item ' || i %% 50, i %% 10000, now(), "
                "'note ' || md5(i::text) FROM generate_series(%s::int8, %s) i",
                (start + 1, min(start + transaction, rows)),
            )


def _wait_until_free(server: Postgres) -> None:
    """Wait until the server has noticed that the last reader of the slot is gone."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        while connection.execute("SELECT active FROM pg_replication_slots WHERE slot_name = 'bench'").fetchone() == (
            True,
        ):
            time.sleep(0.01)


def _measure(name: str, rows: int, run: Callable[[], None]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{name:26} {rows / cpu:10,.0f} rows per CPU second, {rows / wall:10,.0f} rows per second")


def _transport(server: Postgres, rows: int) -> None:
    stream = ReplicationStream(Address(server.url(), None))
    stream.start("bench", 0, "bench")
    received, status_at = 0, 0.0
    while received < rows:
        messages = stream.messages()
        received += len(messages)
        if time.monotonic() >= status_at:  # or the server closes the connection
            stream.confirm(0)
            status_at = time.monotonic() + stream.status_seconds
        if not messages:
            stream.wait(1.0)
    stream.close()


def _source(server: Postgres) -> PostgresCdc:
    return PostgresCdc(server.url(), tables=["orders"], slot="bench", publication="bench", snapshot="never")


def _read(server: Postgres, directory: Path, rows: int, take: Callable[[Intake], None]) -> None:
    source = _source(server)
    context = ConnectorContext(
        name="bench",
        app="bench",
        directory=directory / "rows",
        stopping=threading.Event(),
        report=lambda _name, _value: None,
    )
    reader = source.open(None, context)
    received = 0
    while received < rows:
        intake = reader.read(1.0)
        if intake is not None:
            received += sum(block.num_rows for block in intake.records.values())
            take(intake)
    reader.close()


def _to_log(server: Postgres, directory: Path) -> None:
    """Run the real loop: records and position are synced in the journal, then in the log, then the slot moves."""
    source = _source(server)
    file = ConnectFile(
        name="bench",
        broker=None,
        data_dir=None,
        config=Config(),
        sources={"orders": FileSource(source, None, source.topics())},
        sinks={},
    )
    run_connect_file(file, file.settings(directory, None), "caught-up", threading.Event())


if __name__ == "__main__":
    main()

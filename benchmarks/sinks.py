"""How many rows per second the sinks write, in batches of 1,000 rows with six fields, and how much CPU time that takes.

Files, Delta, Iceberg, SQLite and DuckDB write to a local disk; the servers run on this machine if their packages can be
downloaded, as in the tests. The times include the server's work, the CPU time does not.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.servers.debian import NoServerError
from tests.servers.mariadb import MariadbServer
from tests.servers.opensearch import OpenSearchServer
from tests.servers.postgres import Postgres
from tests.servers.process import ServerProcess
from tests.servers.receiver import receiver
from tests.servers.redis import RedisServer

from millstream.connect.protocols import ConnectorContext, Sink, SinkBatch
from millstream.connectors.delta import Delta
from millstream.connectors.files import Files
from millstream.connectors.iceberg import Iceberg
from millstream.connectors.opensearch import OpenSearch
from millstream.connectors.redis import Redis
from millstream.connectors.sql_tables import DuckdbTable, MysqlTable, PostgresTable, SqliteTable
from millstream.connectors.webhook import Webhook
from millstream.records import Record

ROWS = 1_000
Server = TypeVar("Server", bound=ServerProcess)


def batch(number: int, rows: int) -> SinkBatch:
    records = [
        Record(
            topic="orders",
            partition=0,
            offset=number * rows + row,
            key=f"customer-{row}",
            value={
                "id": row,
                "customer": f"c{row}",
                "total": row / 3,
                "paid": True,
                "city": "Rome",
                "note": f"n {row}",
            },
            timestamp=1_700_000_000_000 + number,
        )
        for row in range(rows)
    ]
    return SinkBatch(lineage="bench", number=number, wall_time=1_700_000_000_000 + number, records=records)


def measure(label: str, sink: Sink, directory: Path, *, batches: int, rows: int = ROWS) -> None:
    """Write batches and print the rates."""
    directory.mkdir(parents=True, exist_ok=True)
    context = ConnectorContext(
        name=label, app="bench", directory=directory, stopping=threading.Event(), report=lambda _name, _value: None
    )
    prepared = [batch(number, rows) for number in range(1, batches + 2)]
    writer = sink.open(context)
    writer.write(prepared[0])  # which creates tables and connections
    began, cpu = time.perf_counter(), time.process_time()
    for each in prepared[1:]:
        assert not writer.write(each)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
    writer.close()
    total = batches * rows
    print(f"{label:24} {total / seconds:10,.0f} rows/s   {cpu_seconds * 1e5 / total:6.2f} CPU s for 100,000 rows")


@contextmanager
def started(server: Callable[[], Server]) -> Iterator[Server | None]:
    """Start a server and stop it after the block; None if it cannot start, and the reason is printed."""
    try:
        running = server()
        running.start()
    except NoServerError as reason:
        print(f"not measured: {reason}")
        yield None
        return
    try:
        yield running
    finally:
        running.stop()


def _sql_tables(root: Path) -> None:
    """Upsert rows, which most batches find, into tables; a batch and its number are one synced transaction."""
    measure("SQLite, upsert", SqliteTable(root / "out.db", "orders"), root / "k", batches=50)
    measure("DuckDB, upsert", DuckdbTable(root / "out.duckdb", "orders"), root / "l", batches=20)
    try:
        server = Postgres(settings={"fsync": "on"}).create().start()
    except NoServerError as reason:
        print(f"not measured: {reason}")
    else:
        for rows in (ROWS, 5 * ROWS):
            label, table = f"Postgres, upsert {rows:,}", f"orders_{rows}"
            measure(label, PostgresTable(server.url(), table), root / label, batches=50_000 // rows, rows=rows)
        measure("Postgres, append", PostgresTable(server.url(), "log", mode="append"), root / "n", batches=50)
        server.remove()
    with started(lambda: MariadbServer(root / "mariadb").create()) as mariadb:
        if mariadb is not None:
            measure("MariaDB, upsert", MysqlTable(mariadb.url(), "orders"), root / "o", batches=20)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        measure("files, Parquet", Files(str(root / "parquet")), root / "a", batches=50)
        measure("files, JSON lines", Files(str(root / "jsonl"), format="jsonl"), root / "b", batches=50)
        measure("Delta, append", Delta(str(root / "delta")), root / "c", batches=20)
        measure("Delta, upsert", Delta(str(root / "merged"), mode="upsert"), root / "d", batches=20)
        catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
        measure("Iceberg, append", Iceberg("b.appended", catalog=catalog), root / "e", batches=10)
        measure("Iceberg, upsert", Iceberg("b.merged", catalog=catalog, mode="upsert"), root / "f", batches=5)
        with receiver() as target:
            measure("webhook", Webhook(target.url), root / "g", batches=5, rows=100)
        _sql_tables(root)
        with started(lambda: RedisServer(root / "redis")) as redis:
            if redis is not None:
                measure("Redis", Redis(redis.url), root / "h", batches=50)
                measure("Redis, hashes", Redis(redis.url, key="h:{key}", form="hash"), root / "i", batches=50)
        with started(lambda: OpenSearchServer(root / "opensearch")) as search:
            if search is not None:
                measure("OpenSearch", OpenSearch(search.url, index="orders"), root / "j", batches=10)


if __name__ == "__main__":
    main()

"""Every sink that claims exactly once, killed while it writes; its rows are compared with the batches."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import duckdb
import pyarrow.dataset as ds
import redis
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.connectors.batches import numbered
from tests.connectors.killed_writer import write_with_kills
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import Postgres
from tests.servers.redis import RedisServer

from millstream.connect.protocols import Sink
from millstream.connectors.delta import Delta
from millstream.connectors.files import Files
from millstream.connectors.iceberg import Iceberg
from millstream.connectors.redis import Redis
from millstream.connectors.sql_tables import DuckdbTable, MysqlTable, PostgresTable, SqliteTable

_SELECT = "SELECT id FROM numbers"


class Target(NamedTuple):
    """A sink, and what its target has: the number of each row, or None if only the last row of a key is kept."""

    sink: Sink
    ids: Callable[[], Iterable[int]]
    keeps_all: bool = True


class KilledSink(NamedTuple):
    """The verdict over one sink."""

    kills: int
    rows: int
    lost: int
    doubled: int


Targets: TypeAlias = Callable[[Path], Iterator[Target]]


def _sqlite(directory: Path) -> Iterator[Target]:
    path = directory / "out.db"

    def ids() -> list[int]:
        with closing(sqlite3.connect(path)) as connection:
            return [number for (number,) in connection.execute(_SELECT)]

    yield Target(SqliteTable(path, "numbers", mode="append"), ids)


def _duckdb(directory: Path) -> Iterator[Target]:
    path = directory / "out.duckdb"

    def ids() -> list[int]:
        with duckdb.connect(str(path)) as connection:
            return [number for (number,) in connection.execute(_SELECT).fetchall()]

    yield Target(DuckdbTable(path, "numbers", mode="append"), ids)


def _postgres(_directory: Path) -> Iterator[Target]:
    server = Postgres().create().start()
    try:
        sink = PostgresTable(server.url(), "numbers", mode="append")
        yield Target(sink, lambda: [number for (number,) in server.execute(_SELECT)])
    finally:
        server.remove()


def _mysql(directory: Path) -> Iterator[Target]:
    server = MariadbServer(directory / "mariadb").create()
    server.start()
    try:
        sink = MysqlTable(server.url(), "numbers", mode="append")
        yield Target(sink, lambda: [number for (number,) in server.execute(_SELECT)])
    finally:
        server.stop()


def _redis(directory: Path) -> Iterator[Target]:
    server = RedisServer(directory / "redis")
    server.start()

    def ids() -> list[int]:
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            return [int(str(client.hget(key, "id"))) for key in client.scan_iter("k*")]

    try:
        yield Target(Redis(server.url, form="hash"), ids, keeps_all=False)
    finally:
        server.stop()


def _files(directory: Path) -> Iterator[Target]:
    path = directory / "out"
    yield Target(Files(str(path)), lambda: ds.dataset(path, format="parquet").to_table()["id"].to_pylist())


def _delta(directory: Path) -> Iterator[Target]:
    path = str(directory / "out")
    yield Target(Delta(path), lambda: DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def _iceberg(directory: Path) -> Iterator[Target]:
    catalog = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"file://{directory}/warehouse"}

    def ids() -> list[int]:
        table = load_catalog("default", **catalog).load_table("shop.out")
        return list(table.scan().to_arrow()["id"].to_pylist())

    yield Target(Iceberg("shop.out", catalog=catalog), ids)


TARGETS: dict[str, Targets] = {
    "sqlite-table": _sqlite,
    "duckdb-table": _duckdb,
    "postgres-table": _postgres,
    "mysql-table": _mysql,
    "redis": _redis,
    "files": _files,
    "delta": _delta,
    "iceberg": _iceberg,
}


def kill_sink(kind: str, directory: Path, *, kills: int, batches: int, seed: int) -> KilledSink:
    """Write batches of numbered rows while the writer is killed, and compare."""
    (directory / "target").mkdir()
    with contextmanager(TARGETS[kind])(directory / "target") as target:
        killed = write_with_kills(target.sink, directory / "writer", batches=batches, kills=kills, seed=seed)
        written = Counter(target.ids())
    first = 1 if target.keeps_all else batches
    expected = {record.value["id"] for number in range(first, batches + 1) for record in numbered(number).records}
    lost, extra = expected - written.keys(), written.keys() - expected
    return KilledSink(killed, len(expected), len(lost), written.total() - len(written) + len(extra))

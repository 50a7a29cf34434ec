"""How many rows per CPU second the source of MySQL and MariaDB reads: decoded, and written to a synced log.

    ./dev bench mysql_cdc --rows 100000 --server mysql

CPU seconds are those of this process; the server has its own. Rows have six columns.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.servers.mariadb import BINLOG_OPTIONS, MariadbServer
from tests.servers.mysql import MysqlServer

from millstream.broker import TopicConfig
from millstream.config import Config
from millstream.connect.connect_file import ConnectFile, FileSource
from millstream.connect.protocols import ConnectorContext
from millstream.connect.worker import run_connect_file
from millstream.connectors.mysql_cdc import MysqlCdc
from millstream.connectors.mysql_cdc.connection import MysqlSession
from millstream.connectors.mysql_cdc.position import BinlogPosition
from millstream.connectors.mysql_cdc.server import Server
from millstream.connectors.mysql_server import MysqlAddress
from millstream.log import EmbeddedLog

_PARTITIONS = 4
_STATEMENT_ROWS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--server", choices=("mariadb", "mysql"), default="mariadb")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        kind = MysqlServer if options.server == "mysql" else MariadbServer
        server = kind(Path(directory) / "server", *BINLOG_OPTIONS).create()
        server.start()
        try:
            _run(server, Path(directory), options.rows)
        finally:
            server.kill()


def _run(server: MariadbServer, directory: Path, rows: int) -> None:
    server.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(50), item VARCHAR(50), cents INT, "
        "at TIMESTAMP(6) NULL, note VARCHAR(100))"
    )
    session = MysqlSession(MysqlAddress(server.url(), None))
    state = Server(session)
    file, offset = state.end_of_log()
    position = BinlogPosition(server=state.identity(), file=file, offset=offset, tables=("test.orders",)).to_bytes()
    session.close()
    for first in range(1, rows + 1, _STATEMENT_ROWS):
        numbers = range(first, min(first + _STATEMENT_ROWS, rows + 1))
        texts = "'customer-{0}', 'item {1}', {2}, NOW(6), SHA2({3}, 224)"
        values = (f"({n}, {texts.format(n % 1000, n % 50, n % 10000, n)})" for n in numbers)
        server.execute(f"INSERT INTO orders VALUES {', '.join(values)}")
    source = MysqlCdc(server.url(), tables=["orders"], chunk_rows=10_000)
    _measure("log, decoded", rows, lambda: _read(source, position, directory, rows))
    _measure("snapshot, decoded", rows, lambda: _read(source, None, directory, rows))
    data = directory / "log"
    log = EmbeddedLog(data)
    log.create_topic("orders", TopicConfig(partitions=_PARTITIONS))
    _measure("snapshot to synced log", rows, lambda: _to_log(source, data))
    assert sum(offsets.end for offsets in log.offsets("orders")) == rows
    log.close()


def _to_log(source: MysqlCdc, data: Path) -> None:
    """Run the real loop: records and position are synced in the journal, then in the log."""
    sources = {"orders": FileSource(source, None, source.topics())}
    file = ConnectFile(name="bench", broker=None, data_dir=None, config=Config(), sources=sources, sinks={})
    run_connect_file(file, file.settings(data, None), "caught-up", threading.Event())


def _measure(name: str, rows: int, run: Callable[[], object]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"{name:26} {rows / cpu:10,.0f} rows per CPU second, {rows / wall:10,.0f} rows per second", flush=True)


def _read(source: MysqlCdc, position: bytes | None, directory: Path, rows: int) -> None:
    context = ConnectorContext(
        name="bench", app="bench", directory=directory, stopping=threading.Event(), report=lambda _name, _value: None
    )
    reader = source.open(position, context)
    count = 0
    while count < rows:
        intake = reader.read(1.0)
        count += sum(len(block) for block in intake.records.values()) if intake is not None else 0
    reader.close()


if __name__ == "__main__":
    main()

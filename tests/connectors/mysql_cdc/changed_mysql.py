"""A database of MySQL or MariaDB for sources that are killed."""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Any

from tests.servers.mariadb import MariadbServer

_TICK_SECONDS = 0.01
_BATCH = 500
_NOTE = "CREATE TRIGGER {name} AFTER {event} ON acc FOR EACH ROW INSERT INTO audit (acc, v) VALUES ({row}.id, {row}.v)"


class Writer(threading.Thread):
    """Changes about ``rate`` rows with its own keys per second until it is stopped; versions grow."""

    def __init__(self, server: MariadbServer, number: int, seed: int, *, rows: int, rate: float) -> None:
        super().__init__()
        self._server = server
        self._random = random.Random(seed + number)
        self._keys = range(number + 1, rows + rows // 10, 2)
        self._rate = rate
        self._versions = itertools.count(2)
        self.stopping = threading.Event()

    def run(self) -> None:
        began, changed = time.monotonic(), 0
        connection = self._server.connect()
        with connection, connection.cursor() as cursor:
            while not self.stopping.wait(_TICK_SECONDS if changed > self._rate * (time.monotonic() - began) else 0):
                keys = sorted({self._random.choice(self._keys) for _ in range(self._random.randint(1, 20))})
                self._change(cursor, keys)
                if self._random.random() < 0.1:
                    connection.rollback()
                connection.commit()
                changed += len(keys)

    def _change(self, cursor: Any, keys: list[int]) -> None:
        if self._random.random() < 0.15:
            cursor.execute("DELETE FROM acc WHERE id = %s", (keys[0],))
        else:
            rows = ", ".join(f"({key}, {next(self._versions)})" for key in keys)
            cursor.execute(f"INSERT INTO acc VALUES {rows} ON DUPLICATE KEY UPDATE v = VALUES(v)")


class ChangedMysql:
    """The tables, with triggers that write the changes."""

    kind = "mysql-cdc"

    def __init__(self, server: MariadbServer) -> None:
        self._server = server
        self.url = server.url()

    def sql(self, statement: str) -> list[Any]:
        """Run a statement and return its rows."""
        return self._server.execute(statement)

    def prepare(self, rows: int) -> None:
        """Create both tables, also if an earlier test on this server has left them, and fill the first."""
        remove = "DROP TABLE IF EXISTS acc, audit"
        create = "CREATE TABLE acc (id INT PRIMARY KEY, v BIGINT NOT NULL)"
        audit = "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, acc INT, v BIGINT)"
        inserts = [
            "INSERT INTO acc VALUES " + ", ".join(f"({key}, 1)" for key in range(first, min(first + _BATCH, rows + 1)))
            for first in range(1, rows + 1, _BATCH)
        ]
        events = (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
        triggers = [_NOTE.format(name=f"note_{event}", event=event, row=row) for event, row in events]
        self._server.execute(remove, create, audit, "SET autocommit = 0", *inserts, "COMMIT", *triggers)

    def writers(self, seed: int, rows: int, rate: float) -> list[Writer]:
        """Return two writers."""
        return [Writer(self._server, number, seed, rows=rows, rate=rate / 2) for number in range(2)]

    def is_read(self) -> bool:
        """Return whether two connections read the log."""
        dumps = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        return self.sql(dumps) == [(2,)]

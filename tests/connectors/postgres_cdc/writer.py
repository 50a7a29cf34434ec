"""Changes of a table while it is read."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

_ROWS = 2000
_TICK_SECONDS = 0.01
_MANY = 500
"""Changes per second for which transactions have more rows."""


class Writer(threading.Thread):
    """Changes about ``rate`` random rows of the table acc per second until it is stopped; versions of a row grow."""

    def __init__(
        self, url: str, seed: int, *, rows: int = _ROWS, rate: float = 400, wait_for_standby: bool = False
    ) -> None:
        super().__init__()
        self._url = url
        self._random = random.Random(seed)
        self._keys = rows + rows // 10
        self._rate = rate
        self._commit = "remote_apply" if wait_for_standby else "local"
        self.stopping = threading.Event()

    def run(self) -> None:
        began, changed = time.monotonic(), 0
        with psycopg.connect(self._url) as connection:
            connection.execute(f"SET synchronous_commit = {self._commit}".encode())
            connection.commit()
            while not self.stopping.wait(_TICK_SECONDS if changed > self._rate * (time.monotonic() - began) else 0):
                count = self._random.randint(1, 3 if self._rate < _MANY else 40)
                self._change(connection, [self._random.randint(1, self._keys) for _ in range(count)])
                if self._random.random() < 0.1:
                    connection.rollback()
                connection.commit()
                changed += count

    def _change(self, connection: psycopg.Connection[Any], keys: list[int]) -> None:
        """Change some rows; in the order of their keys, so that two writers do not wait for each other in a circle."""
        if self._random.random() < 0.15:
            connection.execute("DELETE FROM acc WHERE id = %s", (keys[0],))
        else:
            statement = (
                "INSERT INTO acc SELECT id, nextval('v') FROM (SELECT DISTINCT unnest(%s::int[]) id ORDER BY 1) ids "
                "ON CONFLICT (id) DO UPDATE SET v = nextval('v')"
            )
            connection.execute(statement, (keys,))


def prepare(sql: Callable[[str], list[Any]], rows: int = _ROWS) -> None:
    """Create the table acc with some rows."""
    sql("CREATE SEQUENCE v; CREATE TABLE acc (id int PRIMARY KEY, v bigint NOT NULL)")
    sql(f"INSERT INTO acc SELECT i, nextval('v') FROM generate_series(1, {rows}) i")

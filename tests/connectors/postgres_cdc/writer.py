"""Changes of a table while it is read."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import psycopg

_ROWS = 2000


class Writer(threading.Thread):
    """Changes random rows of the table acc until it is stopped; versions of a row grow."""

    def __init__(self, url: str, seed: int, *, wait_for_standby: bool = False) -> None:
        super().__init__()
        self._url = url
        self._random = random.Random(seed)
        self._commit = "remote_apply" if wait_for_standby else "local"
        self.stopping = threading.Event()

    def run(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(f"SET synchronous_commit = {self._commit}".encode())
            connection.commit()
            while not self.stopping.wait(0.002):
                for _ in range(self._random.randint(1, 3)):
                    self._change(connection, self._random.randint(1, _ROWS + 200))
                if self._random.random() < 0.1:
                    connection.rollback()
                connection.commit()

    def _change(self, connection: psycopg.Connection[Any], key: int) -> None:
        if self._random.random() < 0.15:
            connection.execute("DELETE FROM acc WHERE id = %s", (key,))
        else:
            statement = "INSERT INTO acc VALUES (%s, nextval('v')) ON CONFLICT (id) DO UPDATE SET v = nextval('v')"
            connection.execute(statement, (key,))


def prepare(sql: Callable[[str], list[Any]]) -> None:
    """Create the table acc with some rows."""
    sql("CREATE SEQUENCE v; CREATE TABLE acc (id int PRIMARY KEY, v bigint NOT NULL)")
    sql(f"INSERT INTO acc SELECT i, nextval('v') FROM generate_series(1, {_ROWS}) i")

"""The kit that every source has to pass, for MySQL and MariaDB."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.servers.mariadb import MariadbServer

from millstream.connectors.mysql_cdc import MysqlCdc
from millstream.records import Record
from millstream.testing.connectors import SOURCE_CASES, SourceSystem, check_source


class MysqlSystem(SourceSystem):
    """A table of its own."""

    def __init__(self, url: str, sql: Callable[..., list[Any]], name: str) -> None:
        self.topic = self._name = name
        self._url, self._sql = url, sql
        sql(f"CREATE TABLE {name} (k VARCHAR(20) PRIMARY KEY, n INT)")

    def source(self) -> MysqlCdc:
        return MysqlCdc(self._url, tables=[self._name], snapshot="never")

    def change(self, key: str, number: int | None) -> None:
        if number is None:
            self._sql(f"DELETE FROM {self._name} WHERE k = '{key}'")
        else:
            self._sql(f"INSERT INTO {self._name} VALUES ('{key}', {number}) ON DUPLICATE KEY UPDATE n = {number}")

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["n"])


@pytest.mark.server
@pytest.mark.parametrize("case", SOURCE_CASES)
def test_mysql_passes_the_kit(
    case: str, mysql: MariadbServer, schema: str, sql: Callable[..., list[Any]], tmp_path: Path
) -> None:
    numbers = itertools.count()
    check_source(case, lambda: MysqlSystem(mysql.url(schema), sql, f"t{next(numbers)}"), tmp_path)

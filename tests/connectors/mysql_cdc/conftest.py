"""Fixtures of tests that read a real MariaDB and a real MySQL."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.change_data_reading import Reading
from tests.servers.debian import NoServerError
from tests.servers.mariadb import BINLOG_OPTIONS, MariadbServer
from tests.servers.mysql import MysqlServer

from millstream.connectors.mysql_cdc import MysqlCdc


def _started(kind: type[MariadbServer], factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    try:
        server = kind(factory.mktemp("mysql"), *BINLOG_OPTIONS).create()
        server.start()
    except NoServerError as reason:
        pytest.skip(f"{kind.__name__} cannot run here: {reason}")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def mariadb_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """Start MariaDB with a binary log."""
    yield from _started(MariadbServer, tmp_path_factory)


@pytest.fixture(scope="session")
def mysql_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariadbServer]:
    """Start MySQL with a binary log."""
    yield from _started(MysqlServer, tmp_path_factory)


@pytest.fixture(params=["mariadb_log", "mysql_log"])
def mysql(request: pytest.FixtureRequest) -> MariadbServer:
    """Return both servers, one after the other."""
    server: MariadbServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def schema(mysql: MariadbServer) -> Iterator[str]:
    """Create a database for one test and return its name."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    mysql.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield name
    mysql.execute(f"DROP DATABASE {name}")


@pytest.fixture
def sql(mysql: MariadbServer, schema: str) -> Callable[..., list[Any]]:
    """Run statements in the database of the test, in one session; return the rows of the last."""
    return lambda *statements: mysql.execute(*statements, database=schema)


@pytest.fixture
def reading(mysql: MariadbServer, schema: str, tmp_path: Path) -> Iterator[Callable[..., Reading]]:
    """Return a function that makes a reading of tables."""
    made: list[Reading] = []

    def make(*tables: str, directory: str = "state", **options: Any) -> Reading:
        made.append(Reading(MysqlCdc(mysql.url(schema), tables=tables, **options), tmp_path / directory, schema))
        return made[-1]

    yield make
    for each in made:
        each.close()

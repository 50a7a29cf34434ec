"""A real MariaDB from Debian packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql
from tests.servers.debian import NoServerError, libraries, unpacked
from tests.servers.process import ServerProcess

_PACKAGES = ("mariadb-server-core", "mariadb-common", "libaio1", "liburing2")
_USER = "millstream"
_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


class MariadbServer(ServerProcess):
    """MariaDB with a user who may do everything from this host, without a password."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._files = unpacked("mariadb", _PACKAGES)
        self._data = directory / "data"

    def url(self, database: str = "test", user: str = _USER) -> str:
        """Return the address of a database."""
        return f"mysql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> MariadbServer:
        """Create the system tables, an empty database and the user."""
        (self._data / "mysql").mkdir(parents=True)
        (self._data / "test").mkdir()
        tables = "".join((self._messages / name).read_text() for name in _TABLES)
        result = subprocess.run(
            [*self._program(), "--bootstrap", "--skip-log-error"],
            input=f"use mysql;\n{tables}",
            env={**os.environ, **self.environment()},
            capture_output=True,
            text=True,
            check=False,
            timeout=self.start_seconds,
        )
        if result.returncode:
            raise NoServerError(f"mariadbd --bootstrap failed: {result.stderr.strip()[-1000:]}")
        (self.directory / "start.sql").write_text(
            f"CREATE USER IF NOT EXISTS {_USER}@'%';\nGRANT ALL ON *.* TO {_USER}@'%' WITH GRANT OPTION;\n"
        )
        return self

    def command(self) -> Sequence[str | Path]:
        address = ("--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.directory / 's'}")
        return (*self._program(), *address, f"--init-file={self.directory / 'start.sql'}", "--skip-name-resolve")

    def environment(self) -> Mapping[str, str]:
        return libraries(self._files)

    def is_ready(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.err.Error:
            return False
        return True

    def execute(self, statement: str, *, database: str = "test") -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        connection = pymysql.connect(
            host="127.0.0.1", port=self.port, user=_USER, database=database, autocommit=True, ssl_disabled=True
        )
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    @property
    def _messages(self) -> Path:
        return self._files / "usr/share/mysql"

    def _program(self) -> tuple[str, ...]:
        user = ("--user=root",) if os.geteuid() == 0 else ()
        storage = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-method=nosync")
        return (
            str(self._files / "usr/sbin/mariadbd"),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--lc-messages-dir={self._messages}",
            *storage,
            *user,
        )

"""A real MariaDB from Debian packages."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pymysql
from tests.servers.debian import NoServerError, libraries, unpacked
from tests.servers.process import ServerProcess

_PACKAGES = ("mariadb-server-core", "mariadb-common", "libaio1", "liburing2")
_USER = "millstream"
BINLOG_OPTIONS = (
    "--log-bin=binlog",
    "--server-id=1",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
)
"""What change data capture needs."""
_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


class MariadbServer(ServerProcess):
    """MariaDB with a user who may do everything from this host, without a password."""

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__(directory)
        self._files = self.unpack()
        self._data = directory / "data"
        self.options = options
        """For all starts; they can be changed while the server is stopped."""

    def unpack(self) -> Path:
        """Return where the programs are."""
        return unpacked("mariadb", _PACKAGES)

    def url(self, database: str = "test", user: str = _USER) -> str:
        """Return the address of a database."""
        return f"mysql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> Self:
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
        return self._with_user()

    def _with_user(self) -> Self:
        (self.directory / "start.sql").write_text(
            f"CREATE USER IF NOT EXISTS {_USER}@'%';\nGRANT ALL ON *.* TO {_USER}@'%' WITH GRANT OPTION;\n"
            "CREATE DATABASE IF NOT EXISTS test;\n"
        )
        return self

    def command(self) -> Sequence[str | Path]:
        address = ("--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.directory / 's'}")
        start = f"--init-file={self.directory / 'start.sql'}"
        return (*self._program(), *address, start, "--skip-name-resolve", *self.options)

    def environment(self) -> Mapping[str, str]:
        return libraries(self._files)

    def is_ready(self) -> bool:
        try:
            self.execute("SELECT 1")
        except pymysql.err.Error:
            return False
        return True

    def execute(self, *statements: str, database: str = "test") -> list[tuple[Any, ...]]:
        """Run statements in one session and return the rows of the last."""
        connection = self.connect(database, autocommit=True)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def connect(self, database: str = "test", *, autocommit: bool = False) -> Any:
        """Open a connection."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=_USER, database=database, autocommit=autocommit, ssl_disabled=True
        )

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

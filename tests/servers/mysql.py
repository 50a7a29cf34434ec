"""A real MySQL from packages of Debian unstable, which are unpacked with their own C library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from tests.servers.debian import NoServerError, unpacked_closure
from tests.servers.mariadb import MariadbServer


class MysqlServer(MariadbServer):
    """MySQL with a user who may do everything from this host, without a password."""

    start_seconds = 120.0

    def unpack(self) -> Path:
        """Return where the programs are."""
        return unpacked_closure("mysql", "sid", "mysql-server-core")

    def create(self) -> Self:
        """Create the system tables, an empty database and the user."""
        self.directory.mkdir(parents=True, exist_ok=True)
        result = subprocess.run(
            [*self._program(), "--initialize-insecure"],
            env=os.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.start_seconds,
        )
        if result.returncode:
            raise NoServerError(f"mysqld --initialize-insecure failed: {result.stderr.strip()[-1000:]}")
        return self._with_user()

    def environment(self) -> dict[str, str]:
        return {}

    def _program(self) -> tuple[str, ...]:
        user = ("--user=root",) if os.geteuid() == 0 else ()
        libraries = self._files / "usr/lib/x86_64-linux-gnu"
        return (
            str(libraries / "ld-linux-x86-64.so.2"),
            "--library-path",
            str(libraries),
            str(self._files / "usr/sbin/mysqld"),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--lc-messages-dir={self._messages}",
            f"--character-sets-dir={self._messages / 'charsets'}",
            "--innodb-buffer-pool-size=16M",
            "--innodb-redo-log-capacity=16M",
            "--innodb-flush-log-at-trx-commit=2",
            "--sync-binlog=0",
            "--mysqlx=OFF",
            "--secure-file-priv=",
            *user,
        )

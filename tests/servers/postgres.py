"""A real Postgres, ready for logical replication.

It is the one that the system has, or else comes from Debian packages. Postgres refuses to run as root, so that a test
run by root starts it without privileges.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from tests.servers.debian import NoServerError, libraries, unpacked

from millstream.testing.kafka.node import free_port

_INSTALLED = Path("/usr/lib/postgresql")
_PACKAGES = ("postgresql-15", "postgresql-client-15", "libpq5", "libicu72", "libxml2", "libxslt1.1", "libldap-2.5-0")
_SUPERUSER = "postgres"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_POLL_SECONDS = 0.05
_OVERFLOW_UID = 65534  # owns nothing, on every Linux
_PR_SET_PDEATHSIG = 1
_SETTINGS: Mapping[str, object] = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_wal_senders": 20,
    "max_replication_slots": 20,
    "shared_buffers": "64MB",
    "fsync": "off",  # tests kill processes, not the machine
    "wal_sender_timeout": "10s",
    "log_min_messages": "warning",
}


class Postgres:
    """A server with a directory of its own, which can be stopped, killed and started again."""

    def __init__(self, *, settings: Mapping[str, object] | None = None) -> None:
        self.port = free_port()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._home = Path(tempfile.mkdtemp(prefix="millstream-postgres-"))
        self._programs, self._environment = _programs(self._home)
        self._user = _unprivileged_user()
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self._home, self._user.pw_uid, self._user.pw_gid)

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def url(self, database: str = "postgres", user: str = _SUPERUSER) -> str:
        """Return the address of a database."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self) -> Postgres:
        """Create an empty cluster whose users need no password."""
        self._run(
            "initdb",
            "--pgdata",
            self._data,
            "--username",
            _SUPERUSER,
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--no-sync",
        )
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host replication all 127.0.0.1/32 trust\n")
        return self

    def copy(self, primary: Postgres, *, name: str) -> Postgres:
        """Become a standby of another server, which knows it by a name."""
        address = f"host=127.0.0.1 port={primary.port} user={_SUPERUSER} application_name={name}"
        self._run("pg_basebackup", "--pgdata", self._data, "--write-recovery-conf", "--no-sync", "--dbname", address)
        return self

    def start(self) -> Postgres:
        """Start the server and wait until it accepts connections."""
        options = [f"--{name}={value}" for name, value in {**self._settings, "port": self.port}.items()]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                cwd=self._home,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no other way to ask the kernel for this
                **self._identity(),
            )
        for _ in range(int(_START_SECONDS / _POLL_SECONDS)):
            try:
                self._process.wait(_POLL_SECONDS)
            except subprocess.TimeoutExpired:
                if self.is_ready():
                    return self
            else:
                break
        raise NoServerError(f"Postgres did not start: {(self._home / 'log').read_text()[-2000:]}")

    def is_ready(self) -> bool:
        """Whether the server accepts connections."""
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT stops it cleanly, SIGQUIT is as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def remove(self) -> None:
        """Stop the server and delete its directory."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._home, ignore_errors=True)

    def execute(self, statement: str, *, database: str = "postgres") -> list[Any]:
        """Run one statement and return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *arguments: str | Path) -> None:
        command: Sequence[str | Path] = [self._programs / program, *arguments]
        result = subprocess.run(
            command, cwd=self._home, capture_output=True, text=True, check=False, **self._identity()
        )
        if result.returncode:
            raise NoServerError(f"{program} failed: {result.stderr.strip()[-1000:]}")

    def _identity(self) -> dict[str, Any]:
        """Return the user and the environment of a program of the server."""
        environment = {**os.environ, **self._environment, "LC_ALL": "C"}
        if self._user is None:
            return {"env": environment}
        return {"env": environment, "user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _programs(home: Path) -> tuple[Path, dict[str, str]]:
    """Return the directory of the programs and the environment that they need."""
    installed = sorted(_INSTALLED.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent, {}
    files = unpacked("postgres", _PACKAGES)
    if os.geteuid() == 0:  # the cache of root is closed to others
        shutil.copytree(files, home / "files", symlinks=True)
        files = home / "files"
    programs = sorted(files.glob("usr/lib/postgresql/*/bin"))
    if not programs:
        raise NoServerError("the packages of Postgres have no programs")
    return programs[-1], libraries(files)


def _unprivileged_user() -> pwd.struct_passwd | None:
    return pwd.getpwuid(_OVERFLOW_UID) if os.geteuid() == 0 else None


def _die_with_parent() -> None:
    """Make the kernel end this process when its parent dies; only Linux supports that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)

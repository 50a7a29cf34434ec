"""What the connectors of MySQL and MariaDB share: addresses, connections and the meaning of errors."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import unquote

from millstream.connectors.extras import missing_package
from millstream.connectors.network import checked_url, is_loopback
from millstream.errors import DefinitionError
from millstream.foundation.text import printable
from millstream.secret import Secret

_PORT = 3306
_TIMEOUT_SECONDS = 60
_TEMPORARY = frozenset({1021, 1040, 1041, 1053, 1114, 1158, 1159, 1160, 1161, 1205, 1213, 1290, 1317, 1836, 1927})
"""Codes of a server that is full, overloaded, stopping or read-only, of deadlocks and of connections that ended."""
_CLIENT_CODES = range(2000, 3000)


def import_pymysql() -> Any:
    """Import PyMySQL, which is an extra."""
    try:
        import pymysql
    except ImportError as error:
        raise missing_package("pymysql", "mysql") from error
    return pymysql


class MysqlAddress:
    """Where a database is; the password is read for each connection, and is not part of the URL.

    Connections to other hosts use TLS with a valid certificate, unless ``allow_plain_text``.
    """

    def __init__(
        self, url: str, password: Secret | None, *, ca_file: str | None = None, allow_plain_text: bool = False
    ) -> None:
        self._settings = connection_settings(url)
        self._password = password
        self._ca_file = ca_file
        self._allow_plain_text = allow_plain_text

    @property
    def database(self) -> str:
        return str(self._settings["database"])

    def connect(self, **options: Any) -> Any:
        """Open a connection; errors are those of PyMySQL."""
        settings = dict(self._settings)
        if self._password is not None:
            settings["password"] = self._password.reveal()
        if is_loopback(settings["host"]) or self._allow_plain_text:
            settings["ssl_disabled"] = True
        else:
            settings["ssl"] = ssl.create_default_context(cafile=self._ca_file)
        timeouts = {"connect_timeout": 10, "read_timeout": _TIMEOUT_SECONDS, "write_timeout": _TIMEOUT_SECONDS}
        return import_pymysql().connect(**{"charset": "utf8mb4", "autocommit": True, **timeouts, **settings, **options})


def connection_settings(url: str) -> dict[str, Any]:
    """Return what a URL says, as the driver names it."""
    scheme, _, address = url.partition("://")
    user, at, rest = address.rpartition("@")
    if ":" in user:
        raise DefinitionError("the URL contains a password", hint="use password=Secret.env(...)")
    parts = checked_url(f"{scheme}://{rest}", ("mysql",))
    database = unquote(parts.path.strip("/"))
    if not at or not database:
        raise DefinitionError("the URL of MySQL is not valid", hint="write mysql://USER@HOST:PORT/DATABASE")
    return {"host": parts.hostname, "port": parts.port or _PORT, "user": unquote(user), "database": database}


def error_code(error: Exception) -> int:
    """Return the number of an error, 0 if it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def is_temporary(error: Exception) -> bool:
    """Return whether the server may be usable later."""
    errors = import_pymysql().err
    is_lost = isinstance(error, errors.InterfaceError | errors.InternalError)
    return is_lost or error_code(error) in _TEMPORARY or error_code(error) in _CLIENT_CODES


def error_message(error: Exception) -> str:
    """Return what the server says, in one line."""
    return printable(str(error.args[-1] if error.args else error))[:300]

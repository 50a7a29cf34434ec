"""Statements on the server, beside the stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from millstream.connectors.mysql_server import (
    MysqlAddress,
    error_code,
    error_message,
    import_pymysql,
    is_temporary,
)
from millstream.errors import ConnectorError, TargetUnavailableError

_TABLE_CHANGED = 1412
"""A table was altered after the snapshot of a transaction."""
_SESSION = "SET SESSION time_zone = '+00:00', sql_mode = '', group_concat_max_len = 1048576"


class TableChangedError(Exception):
    """A table was altered while a chunk of it was read; it is read again."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of PyMySQL into errors of a connector."""
    pymysql = import_pymysql()
    try:
        yield
    except pymysql.err.Error as error:
        if error_code(error) == _TABLE_CHANGED:
            raise TableChangedError from error
        if is_temporary(error):
            raise TargetUnavailableError(
                f"MySQL is not available: {error_message(error)}", hint="it is tried again"
            ) from error
        raise ConnectorError(
            f"MySQL refused a statement: {error_message(error)}",
            hint="check the rights of the user and the settings",
        ) from error


class MysqlSession:
    """A connection whose results are the texts that the server sends, as bytes."""

    def __init__(self, address: MysqlAddress) -> None:
        with translated_errors():
            self._connection: Any = address.connect(conv={}, use_unicode=False, init_command=_SESSION)

    def rows(self, statement: str) -> list[tuple[bytes | None, ...]]:
        with translated_errors(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall() or ())

    def named_rows(self, statement: str) -> list[dict[str, str]]:
        """Return rows by the names of their columns, in lower case."""
        with translated_errors(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            names = [column[0].lower() for column in cursor.description or ()]
            return [dict(zip(names, map(_text, row), strict=True)) for row in cursor.fetchall() or ()]

    def variable(self, name: str) -> str | None:
        """Return a global variable; None if the server does not have it."""
        rows = self.rows(f"SHOW GLOBAL VARIABLES LIKE '{name}'")
        return _text(rows[0][1]) if rows else None

    @property
    def is_mariadb(self) -> bool:
        return "MariaDB" in self._connection.get_server_info()

    def close(self) -> None:
        with suppress(import_pymysql().err.Error):  # it is closed already
            self._connection.close()


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def text_literal(text: str) -> str:
    """Return a text for a statement, in a form that needs no escapes.

    >>> text_literal("it's")
    "_utf8mb4 x'69742773'"
    """
    return f"_utf8mb4 x'{text.encode().hex()}'"


def quoted(*names: str) -> str:
    """Return a name, with that of its database before it.

    >>> quoted("shop", "a`b")
    '`shop`.`a``b`'
    """
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)

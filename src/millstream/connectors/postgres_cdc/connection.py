"""Connections to Postgres: one for statements, and one for the replication stream by libpq's own functions.

psycopg has no public interface for replication, but its wrapper of libpq can send START_REPLICATION and read what
comes back as COPY data in both directions.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from millstream.connectors.extras import missing_package
from millstream.connectors.postgres_cdc.messages import status_message
from millstream.connectors.postgres_cdc.position import lsn_text
from millstream.connectors.postgres_url import checked_postgres_url
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.secret import Secret

if TYPE_CHECKING:
    import psycopg

_SETTINGS = {
    "client_encoding": "UTF8",
    "application_name": "millstream",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "options": "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c extra_float_digits=3 -c bytea_output=hex",
}
_TIMEOUT = b"SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout'"
_STATUS_SECONDS, _STATUSES_PER_TIMEOUT = 5.0, 4
_SLOT_IN_USE = "55006"
_OPERATOR_CLASSES = ("08", "53", "57", "58")
"""Classes of errors that pass: connection, resources, intervention of an operator, system."""


def import_psycopg() -> Any:
    """Import psycopg, which is an extra."""
    try:
        import psycopg
    except ImportError as error:
        raise missing_package("psycopg", "postgres") from error
    return psycopg


class Address:
    """Where the database is; the password is read for each connection, and is not part of the URL."""

    def __init__(self, url: str, password: Secret | None, *, allow_plain_text: bool = False) -> None:
        self.url = checked_postgres_url(url, allow_plain_text=allow_plain_text)
        self.database = urlsplit(self.url).path.strip("/")
        self._password = password

    def connection_string(self, **settings: str) -> str:
        parts = urlsplit(self.url)
        host = parts.netloc
        if self._password is not None:
            user, _, rest = host.rpartition("@")  # without a user, libpq takes PGUSER or that of the system
            host = f"{user}:{quote(self._password.reveal(), safe='')}@{rest}"
        query = "&".join(f"{name}={quote(value)}" for name, value in {**_SETTINGS, **settings}.items())
        return urlunsplit(parts._replace(netloc=host, query=f"{parts.query}&{query}" if parts.query else query))

    def connect(self) -> psycopg.Connection[Any]:
        """Open a connection for statements, in autocommit mode."""
        with translated_errors():
            connection: psycopg.Connection[Any] = import_psycopg().connect(self.connection_string(), autocommit=True)
            return connection


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn errors of psycopg into errors of a connector."""
    psycopg = import_psycopg()
    try:
        yield
    except psycopg.Error as error:
        raise _translated(str(error), getattr(error, "sqlstate", None)) from error


def _translated(message: str, state: str | None) -> ConnectorError:
    text = " ".join(message.split())
    if state == _SLOT_IN_USE or (state or "08")[:2] in _OPERATOR_CLASSES:
        return TargetUnavailableError(f"Postgres is not available: {text}", hint="it is tried again")
    return ConnectorError(f"Postgres refused a statement: {text}", hint="check the rights of the user and the settings")


def _quoted(name: str, mark: str) -> str:
    """Return a name in quotes; the protocol of replication has no parameters."""
    return f"{mark}{name.replace(mark, mark + mark)}{mark}"


class ReplicationStream:
    """The stream of changes of a slot."""

    def __init__(self, address: Address) -> None:
        self._pq: Any = import_psycopg().pq
        connection: Any = self._pq.PGconn.connect(address.connection_string(replication="database").encode())
        if connection.status != self._pq.ConnStatus.OK:
            message = connection.error_message.decode(errors="replace")
            connection.finish()
            raise _translated(message, None)
        self._connection = connection
        self.status_seconds = _STATUS_SECONDS
        """How often the server must hear from the reader, also in the middle of a transaction."""

    def identify(self) -> tuple[str, int]:
        """Return the identifier and the timeline of the server."""
        result = self._execute(b"IDENTIFY_SYSTEM")
        return result.get_value(0, 0).decode(), int(result.get_value(0, 1))

    def start(self, slot: str, lsn: int, publication: str) -> None:
        """Begin with the first transaction that ends after ``lsn``."""
        milliseconds = int(self._execute(_TIMEOUT).get_value(0, 0))
        if milliseconds:  # 0: the server waits forever
            self.status_seconds = min(_STATUS_SECONDS, milliseconds / 1000 / _STATUSES_PER_TIMEOUT)
        names = _quoted(_quoted(publication, '"'), "'")  # a list of identifiers, in a literal
        options = f"proto_version '1', publication_names {names}, messages 'true'"
        command = f"START_REPLICATION SLOT {_quoted(slot, chr(34))} LOGICAL {lsn_text(lsn)} ({options})"
        self._execute(command.encode(), expected=self._pq.ExecStatus.COPY_BOTH)

    def _execute(self, command: bytes, expected: int | None = None) -> Any:
        result = self._connection.exec_(command)
        if result.status != (self._pq.ExecStatus.TUPLES_OK if expected is None else expected):
            state = result.error_field(self._pq.DiagnosticField.SQLSTATE)
            message = result.error_message or self._connection.error_message
            raise _translated(message.decode(errors="replace"), state.decode() if state else None)
        return result

    def next_message(self) -> bytes | None:
        """Return a message that has arrived, or None."""
        with translated_errors():
            length, data = self._connection.get_copy_data(1)
            if length > 0:
                return data  # type: ignore[no-any-return]
            if length < 0:
                result = self._connection.get_result()
                message = result.error_message if result is not None else b"the server ended the stream"
                raise TargetUnavailableError(
                    f"the replication stream ended: {message.decode(errors='replace').strip()}",
                    hint="it is opened again",
                )
            return None

    def messages(self) -> Sequence[bytes]:
        """Return the messages that have arrived."""
        arrived: list[bytes] = []
        get, append = self._connection.get_copy_data, arrived.append
        with translated_errors():
            self._connection.consume_input()
            for _ in range(_MOST_MESSAGES):
                length, data = get(1)
                if length <= 0:
                    break
                append(data.tobytes())  # the collector would visit thousands of views, but does not visit bytes
        if length < 0 and not arrived:
            self.next_message()
        return arrived

    def wait(self, timeout: float) -> None:
        """Wait until something arrives."""
        poll = select.poll()  # select() refuses descriptors above 1,023, and an app may have many open files
        poll.register(self._connection.socket, select.POLLIN)
        poll.poll(timeout * 1000)

    def confirm(self, lsn: int, *, wants_answer: bool = False) -> None:
        """Let the server forget what is before a place in the log."""
        with translated_errors():
            self._connection.put_copy_data(status_message(lsn, time.time_ns() // 1000, wants_answer=wants_answer))
            self._connection.flush()

    def close(self) -> None:
        self._connection.finish()


_MOST_MESSAGES = 2_048

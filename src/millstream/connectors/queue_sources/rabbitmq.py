"""The source that consumes a queue of RabbitMQ."""

from __future__ import annotations

import contextlib
import logging
import ssl
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.connectors.extras import missing_package
from millstream.connectors.network import check_plain_text, checked_url
from millstream.connectors.payloads import RecordFields, decoded_position
from millstream.connectors.queue_sources.messages import MOST, QueueMessage, intake_of
from millstream.connectors.seen_ids import SeenIds, StoredIds
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.foundation.text import error_text, printable
from millstream.secret import Secret

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

_TIMEOUT_SECONDS = 10.0


class RabbitMq:
    """Consume a queue of RabbitMQ or another AMQP 0.9.1 broker; a message is acknowledged when its record is durable.

    The queue has to exist. The key is the field ``key`` of a JSON payload. At least once: a message that is delivered
    again is stored again, unless its property ``message_id``, or the field ``id``, is that of one of the last
    ``remember`` messages. Headers of a message are headers of the record; ``amqp-routing-key`` is added.

    >>> RabbitMq("amqp://localhost/shop", queue="orders", topic="orders", key="id").guarantee
    'at least once'
    """

    guarantee: Guarantee = "at least once"

    def __init__(
        self,
        url: str,
        *,
        queue: str,
        topic: str,
        key: str | None = None,
        timestamp: str | None = None,
        id: str | None = None,
        deleted: str | None = None,
        user: str = "guest",
        password: Secret | None = None,
        max_in_flight: int = 2_000,
        remember: int = 5_000,
        partitions: int = 4,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        self.parts = checked_url(url, ("amqps", "amqp"))
        check_plain_text(self.parts, has_secret=password is not None, allow_plain_text=allow_plain_text)
        if not 1 <= max_in_flight <= 65_535:
            raise DefinitionError(f"max_in_flight={max_in_flight} is not valid", hint="use 1 to 65535")
        SeenIds(remember)
        self.queue, self.topic, self.partitions = queue, topic, partitions
        self.fields = RecordFields(key=key, timestamp=timestamp, id=id, deleted=deleted)
        self.user, self.password, self.ca_file = user, password, ca_file
        self.max_in_flight, self.remember = max_in_flight, remember

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self.topic: TopicConfig(partitions=self.partitions)}

    def check(self) -> Sequence[str]:
        """Connect, consume nothing, and return what is missing."""
        try:
            connection, _ = _connect(self)
        except ConnectorError as error:
            return [str(error)]
        connection.close()
        return []

    def open(self, position: bytes | None, context: ConnectorContext, /) -> RabbitMqReader:
        """Begin to consume; the broker delivers first what was not acknowledged."""
        stored = decoded_position(position, StoredIds, "RabbitMQ") if position else None
        return RabbitMqReader(self, SeenIds(self.remember, stored), context)


class RabbitMqReader:
    """Consumes a queue over one channel."""

    def __init__(self, source: RabbitMq, seen: SeenIds, context: ConnectorContext) -> None:
        self._source = source
        self._seen = seen
        self._context = context
        self._arrived: deque[tuple[int, QueueMessage]] = deque()
        self._last = 0
        """The tag of the last message that was taken."""
        self._connection, self._channel = _connect(source)
        with _translated(source):
            self._channel.basic_qos(prefetch_count=source.max_in_flight)
            self._channel.basic_consume(source.queue, self._arrive)

    def read(self, timeout: float) -> Intake | None:
        """Return what the broker has delivered; messages that are stored already are acknowledged."""
        deadline = time.monotonic() + timeout
        with _translated(self._source):
            while not self._context.stopping.is_set():
                seconds = max(0.0, min(0.2, deadline - time.monotonic()))
                self._connection.process_data_events(0 if self._arrived else seconds)
                messages = self._take()
                if messages:
                    intake = intake_of(self._source.topic, messages, self._source.fields, self._seen)
                    if intake is not None:
                        return intake
                    self.committed()
                elif time.monotonic() >= deadline:
                    return None
        return None

    def committed(self, _position: bytes = b"") -> None:
        """Acknowledge the messages of the last intake, and those that were stored before."""
        last, self._last = self._last, 0
        if last:
            with _translated(self._source):
                self._channel.basic_ack(last, multiple=True)

    def close(self) -> None:
        """Close the connection; the broker delivers again what is not acknowledged."""
        with contextlib.suppress(Exception):  # a connection that has ended is closed
            self._connection.close()

    def _arrive(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._arrived.append((method.delivery_tag, _message(method, properties, body)))

    def _take(self) -> list[QueueMessage]:
        messages: list[QueueMessage] = []
        while self._arrived and len(messages) < MOST:
            self._last, message = self._arrived.popleft()
            messages.append(message)
        return messages


def _connect(source: RabbitMq) -> tuple[BlockingConnection, BlockingChannel]:
    """Return a connection, and a channel on which the queue is known to exist."""
    try:
        import pika
    except ImportError:
        raise missing_package("pika", "rabbitmq") from None
    logging.getLogger("pika").setLevel(logging.CRITICAL)  # it logs what it raises, with tracebacks
    parts = source.parts
    host = parts.hostname or ""
    is_secure = parts.scheme == "amqps"
    password = "guest" if source.password is None else source.password.reveal()
    parameters = pika.ConnectionParameters(
        host=host,
        port=parts.port or (5671 if is_secure else 5672),
        virtual_host=unquote(parts.path[1:]) or "/",
        credentials=pika.PlainCredentials(source.user, password),
        ssl_options=pika.SSLOptions(ssl.create_default_context(cafile=source.ca_file), host) if is_secure else None,
        heartbeat=30,
        socket_timeout=_TIMEOUT_SECONDS,
        blocked_connection_timeout=_TIMEOUT_SECONDS,
    )
    with _translated(source):
        connection = pika.BlockingConnection(parameters)
        try:
            channel = connection.channel()
            channel.queue_declare(source.queue, passive=True)
        except BaseException:
            with contextlib.suppress(Exception):
                connection.close()
            raise
    return connection, channel


@contextlib.contextmanager
def _translated(source: RabbitMq) -> Iterator[None]:
    """Turn errors of the client into ours; what a user has to change is not tried again."""
    from pika import exceptions

    host = source.parts.hostname
    try:
        yield
    except (
        exceptions.ProbableAuthenticationError,
        exceptions.AuthenticationError,
        exceptions.ProbableAccessDeniedError,
    ) as error:
        raise ConnectorError(
            f"{host!r} refuses user {source.user!r}", hint="check user=, password= and the virtual host"
        ) from error
    except exceptions.ChannelClosedByBroker as error:
        reason = printable(str(error.reply_text))[:300]
        if error.reply_code in (403, 404):
            raise ConnectorError(
                f"queue {source.queue!r} of {host!r} cannot be read: {reason}",
                hint="create the queue, or correct queue=",
            ) from error
        raise TargetUnavailableError(f"{host!r} has closed the channel: {reason}") from error
    except (exceptions.AMQPError, OSError) as error:
        reason = printable(error_text(error))[:300] or type(error).__name__
        raise TargetUnavailableError(f"{host!r} cannot be reached: {reason}") from error


def _message(method: Any, properties: Any, body: bytes) -> QueueMessage:
    headers = [("amqp-routing-key", method.routing_key.encode())]
    headers += [(name, str(value).encode()) for name, value in (properties.headers or {}).items()]
    timestamp = None if properties.timestamp is None else int(properties.timestamp) * 1000
    return QueueMessage(body, None, properties.message_id, timestamp, tuple(headers))

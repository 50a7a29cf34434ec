"""The source that subscribes to topics of an MQTT broker."""

from __future__ import annotations

import contextlib
import queue
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
    from paho.mqtt.client import Client, MQTTMessage

_CONNECT_SECONDS = 10.0
_FOREVER = 0xFFFFFFFF
_REFUSED = frozenset({"Bad user name or password", "Not authorized", "Client identifier not valid", "Banned"})


class Mqtt:
    """Subscribe to topics of an MQTT 5 broker with QoS 1; a message is acknowledged when its record is durable.

    The session is kept by the broker under the name of the source, so that messages that come while nothing runs are
    delivered later. The key is the MQTT topic, or the field ``key`` of a JSON payload. At least once: a message that
    is delivered again is stored again, unless the field ``id`` is that of one of the last ``remember`` messages.
    What is published with QoS 0 can be lost, as MQTT defines it.

    >>> sorted(Mqtt("mqtt://localhost:1883", subscribe=["home/+/celsius"], topic="celsius").topics())
    ['celsius']
    """

    guarantee: Guarantee = "at least once"

    def __init__(
        self,
        url: str,
        *,
        subscribe: Sequence[str],
        topic: str,
        key: str | None = None,
        timestamp: str | None = None,
        id: str | None = None,
        deleted: str | None = None,
        client_id: str | None = None,
        user: str | None = None,
        password: Secret | None = None,
        max_in_flight: int = 1_000,
        remember: int = 5_000,
        partitions: int = 4,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        self.parts = checked_url(url, ("mqtts", "mqtt"))
        check_plain_text(self.parts, has_secret=password is not None, allow_plain_text=allow_plain_text)
        if not subscribe or isinstance(subscribe, str):
            raise DefinitionError("subscribe= has no topics", hint='use a list such as ["home/+/celsius"]')
        if not 1 <= max_in_flight <= 65_535:
            raise DefinitionError(f"max_in_flight={max_in_flight} is not valid", hint="use 1 to 65535")
        SeenIds(remember)
        self.subscribe = list(subscribe)
        self.topic, self.partitions = topic, partitions
        self.fields = RecordFields(key=key, timestamp=timestamp, id=id, deleted=deleted)
        self.client_id, self.user, self.password = client_id, user, password
        self.max_in_flight, self.remember, self.ca_file = max_in_flight, remember, ca_file

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self.topic: TopicConfig(partitions=self.partitions)}

    def check(self) -> Sequence[str]:
        """Connect under another name, subscribe to nothing, and return what is missing."""
        try:
            _Session(self, "", subscribe=False).close()
        except ConnectorError as error:
            return [str(error)]
        return []

    def open(self, position: bytes | None, context: ConnectorContext, /) -> MqttReader:
        """Continue the session that the broker has kept, or begin one."""
        stored = decoded_position(position, StoredIds, "MQTT") if position else None
        name = self.client_id or f"millstream-{context.app}-{context.name}"
        return MqttReader(self, _Session(self, name), SeenIds(self.remember, stored))


class MqttReader:
    """Reads the messages of a session."""

    def __init__(self, source: Mqtt, session: _Session, seen: SeenIds) -> None:
        self._source = source
        self._session = session
        self._seen = seen
        self._taken: list[MQTTMessage] = []

    def read(self, timeout: float) -> Intake | None:
        """Return what the broker has delivered; messages that are stored already are acknowledged."""
        deadline = time.monotonic() + timeout
        while self._taken or (messages := self._session.messages(max(0.001, deadline - time.monotonic()))):
            self._taken = self._taken or messages
            intake = intake_of(
                self._source.topic, [_message(each) for each in self._taken], self._source.fields, self._seen
            )
            if intake is not None:
                return intake
            self.committed()
        return None

    def committed(self, _position: bytes = b"") -> None:
        """Acknowledge the messages of the last intake."""
        taken, self._taken = self._taken, []
        self._session.acknowledge(taken)

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        self._session.close()


class _Session:
    """A connection to the broker, whose thread collects messages."""

    def __init__(self, source: Mqtt, name: str, *, subscribe: bool = True) -> None:
        self._source = source
        self._failure: str | None = None
        self._arrived: queue.Queue[MQTTMessage | None] = queue.Queue(2 * source.max_in_flight)
        self._ready = threading.Event()
        self._is_closing = False
        self._client = self._connected(name, subscribe)

    def messages(self, seconds: float) -> list[MQTTMessage]:
        """Return messages that have arrived, none after a time without any."""
        messages: list[MQTTMessage] = []
        try:
            message = self._arrived.get(timeout=seconds)
            while message is not None and len(messages) < MOST:
                messages.append(message)
                message = self._arrived.get_nowait()
        except queue.Empty:
            pass
        if not messages and self._failure is not None:
            raise TargetUnavailableError(f"the connection to {self._host!r} has ended: {self._failure}")
        return messages

    def acknowledge(self, messages: Sequence[MQTTMessage]) -> None:
        """Let the broker forget messages; if the connection has ended, it delivers them again."""
        for message in messages:
            if message.qos:
                self._client.ack(message.mid, message.qos)

    def close(self) -> None:
        """Disconnect, and end the thread."""
        self._is_closing = True
        self._client.disconnect()
        self._client.loop_stop()

    @property
    def _host(self) -> str:
        return self._source.parts.hostname or ""

    def _connected(self, name: str, subscribe: bool) -> Client:
        try:
            from paho.mqtt import client as paho
            from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
            from paho.mqtt.packettypes import PacketTypes
            from paho.mqtt.properties import Properties
            from paho.mqtt.subscribeoptions import SubscribeOptions
        except ImportError:
            raise missing_package("paho-mqtt", "mqtt") from None
        source = self._source
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
            reconnect_on_failure=False,
        )
        if source.user is not None:
            client.username_pw_set(source.user, None if source.password is None else source.password.reveal())
        if source.parts.scheme == "mqtts":
            client.tls_set_context(ssl.create_default_context(cafile=source.ca_file))
        options = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)

        def on_connect(client: Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
            if reason.is_failure:
                self._fail(str(reason))
            elif subscribe:
                client.subscribe([(each, options) for each in source.subscribe])
            else:
                self._ready.set()

        def on_subscribe(_: Client, __: Any, ___: Any, reasons: list[Any], ____: Any) -> None:
            refused = [str(reason) for reason in reasons if reason.is_failure]
            if refused:
                self._fail(refused[0])
            self._ready.set()

        client.on_connect = on_connect
        client.on_subscribe = on_subscribe
        client.on_message = lambda _, __, message: self._put(message)
        client.on_disconnect = lambda _, __, ___, reason, ____: self._fail(str(reason))
        properties = Properties(PacketTypes.CONNECT)
        properties.ReceiveMaximum = source.max_in_flight
        properties.SessionExpiryInterval = _FOREVER if name else 0
        return self._start(client, properties)

    def _start(self, client: Client, properties: Any) -> Client:
        parts = self._source.parts
        port = parts.port or (8883 if parts.scheme == "mqtts" else 1883)
        try:
            client.connect(self._host, port, clean_start=False, properties=properties)
        except ssl.SSLCertVerificationError as error:
            text = printable(error_text(error))
            raise ConnectorError(
                f"the certificate of {self._host!r} is not valid: {text}", hint="ca_file= adds an authority"
            ) from error
        except OSError as error:
            raise TargetUnavailableError(f"{self._host!r} cannot be reached: {printable(error_text(error))}") from error
        client.loop_start()
        has_answered = self._ready.wait(_CONNECT_SECONDS)
        if has_answered and self._failure is None:
            return client
        self._is_closing = True
        client.disconnect()
        client.loop_stop()
        text = f"{self._host!r} refuses the session: {self._failure or 'no answer'}"
        if self._failure in _REFUSED:
            raise ConnectorError(text, hint="check user=, password= and the permissions of the broker")
        raise TargetUnavailableError(text)

    def _put(self, message: MQTTMessage) -> None:
        while not self._is_closing:  # QoS 0 is not bounded by the broker, so that the connection has to wait
            try:
                self._arrived.put(message, timeout=0.2)
            except queue.Full:
                continue
            return

    def _fail(self, reason: str) -> None:
        if self._failure is None and not self._is_closing:
            self._failure = reason
        self._ready.set()
        with contextlib.suppress(queue.Full):
            self._arrived.put_nowait(None)  # wakes the reader up


def _message(message: MQTTMessage) -> QueueMessage:
    properties = getattr(getattr(message, "properties", None), "UserProperty", ())
    headers = (("mqtt-topic", message.topic.encode()), *((name, value.encode()) for name, value in properties))
    return QueueMessage(bytes(message.payload), message.topic, None, None, headers)

"""The source that listens for webhooks."""

from __future__ import annotations

import queue
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.connectors.http_sources.listener import Arrival, Listener, ListenerLimits
from millstream.connectors.lineage import check_choice
from millstream.connectors.network import is_loopback
from millstream.connectors.payloads import RecordFields, block_of_payloads, decoded_position, now_milliseconds
from millstream.connectors.seen_ids import SeenIds, StoredIds
from millstream.connectors.standard_webhooks import signing_key
from millstream.durations import Duration, milliseconds
from millstream.errors import ConnectorError, DefinitionError
from millstream.secret import Secret

_MOST = 1_000


class HttpEndpoint:
    """Listen for POST requests, each of which is a record; the response is sent when the record is durable.

    A request with an ``idempotency-key`` or ``webhook-id`` that is one of the last ``remember`` ones is answered with
    success and not stored again. With a ``secret`` (``whsec_…``) requests must be signed as in Standard Webhooks, with
    a ``token`` they must carry it as ``Authorization: Bearer``. Without either, only this host can connect. With a
    ``certificate`` and its ``private_key``, both names of PEM files, the server speaks TLS. ``key``, ``timestamp`` and
    ``deleted`` are paths of fields of the JSON body.

    >>> HttpEndpoint("127.0.0.1:8500", topic="payments", key="order.id").guarantee
    'at least once'
    """

    guarantee: Guarantee = "at least once"

    def __init__(
        self,
        address: str,
        *,
        topic: str,
        path: str = "/",
        key: str | None = None,
        timestamp: str | None = None,
        deleted: str | None = None,
        body: Literal["json", "bytes"] = "json",
        secret: Secret | None = None,
        token: Secret | None = None,
        certificate: str | None = None,
        private_key: str | None = None,
        require_id: bool = False,
        max_bytes: int = 1 << 20,
        max_per_second: float = 1_000.0,
        max_waiting: int = 1_000,
        answer_within: Duration = "30 s",
        remember: int = 10_000,
        partitions: int = 4,
    ) -> None:
        check_choice("body", body, ("json", "bytes"))
        host, colon, port = address.rpartition(":")
        host = host.strip("[]")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise DefinitionError(f"{address!r} is not a valid address", hint="use HOST:PORT, such as 127.0.0.1:8500")
        if not (is_loopback(host) or secret or token):
            raise DefinitionError(
                f"{address!r} is open to the network, and anyone could send records",
                hint="set secret=Secret.env(...) or token=Secret.env(...)",
            )
        if not path.startswith("/"):
            raise DefinitionError(f"path={path!r} is not valid", hint="begin it with a slash")
        if (certificate is None) != (private_key is None):
            raise DefinitionError(
                "TLS needs certificate= and private_key=", hint="set both, or none for a proxy that speaks TLS"
            )
        SeenIds(remember)
        self._certificate, self._private_key = certificate, private_key
        self._address = (host, int(port))
        self._topic, self._partitions, self._remember = topic, partitions, remember
        self._secret, self._token = secret, token
        self._limits = ListenerLimits(
            path=path,
            max_bytes=max_bytes,
            max_per_second=max_per_second,
            max_waiting=max_waiting,
            answer_seconds=milliseconds(answer_within) / 1000,
            requires_json=body == "json",
            requires_id=require_id,
            fields=RecordFields(key=key, timestamp=timestamp, deleted=deleted),
        )

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self._topic: TopicConfig(partitions=self._partitions)}

    def check(self) -> Sequence[str]:
        """Read the secrets and the certificate, and return whether the address is free."""
        try:
            Listener(self._address, self._limits, *self._keys(), self._tls()).close()
        except ConnectorError as error:
            return [str(error)]
        except OSError as error:
            host, port = self._address[:2]
            return [f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address"]
        return []

    def open(self, position: bytes | None, context: ConnectorContext, /) -> HttpEndpointReader:
        """Listen; requests wait for their records to be durable."""
        stored = decoded_position(position, StoredIds, "an HTTP endpoint") if position else None
        listener = Listener(self._address, self._limits, *self._keys(), self._tls())
        context.report("port", listener.port)
        return HttpEndpointReader(self._topic, listener, SeenIds(self._remember, stored))

    def _keys(self) -> tuple[bytes | None, str | None]:
        key = None if self._secret is None else signing_key(self._secret.reveal())
        return key, None if self._token is None else self._token.reveal()

    def _tls(self) -> ssl.SSLContext | None:
        """Return the context of TLS, with the certificate as it is now."""
        if self._certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self._certificate, self._private_key)
        except OSError as error:  # errors of TLS are some too
            raise ConnectorError(
                f"certificate {self._certificate!r} with key {self._private_key!r} cannot be used: {error}",
                hint="both are PEM files, and the key is not encrypted",
            ) from error
        return context


class HttpEndpointReader:
    """Takes the requests of a listener, and answers them when they are durable."""

    def __init__(self, topic: str, listener: Listener, seen: SeenIds) -> None:
        self._topic = topic
        self._listener = listener
        self._seen = seen
        self._taken: list[Arrival] = []

    @property
    def port(self) -> int:
        """The port of the listener, also if the system has chosen it."""
        return self._listener.port

    def read(self, timeout: float) -> Intake | None:
        """Return the requests that wait, or None after a time without any."""
        deadline = time.monotonic() + timeout
        while (arrivals := self._arrivals(deadline)) is not None:
            now = now_milliseconds()
            for arrival in arrivals:
                if self._is_new(arrival):
                    self._taken.append(arrival)
            if self._taken:
                payloads = [arrival.payload(now) for arrival in self._taken]
                headers = [arrival.headers for arrival in self._taken]
                return Intake(
                    records={self._topic: block_of_payloads(payloads, headers)},
                    position=msgspec.json.encode(self._seen.stored()),
                    waiting=self._listener.arrivals.qsize(),
                )
        return None

    def committed(self, _position: bytes = b"") -> None:
        """Answer the requests whose records are durable."""
        for arrival in self._taken:
            arrival.answer("stored")
        self._taken = []

    def close(self) -> None:
        """Stop listening; requests that wait are refused, and may come again."""
        self._listener.close()
        for arrival in self._taken:
            arrival.answer("failed")

    def _arrivals(self, deadline: float) -> list[Arrival] | None:
        """Return what has arrived, None if the time is over."""
        arrivals: list[Arrival] = []
        try:
            arrivals.append(self._listener.arrivals.get(timeout=max(0.001, deadline - time.monotonic())))
            while len(arrivals) < _MOST:
                arrivals.append(self._listener.arrivals.get_nowait())
        except queue.Empty:
            return arrivals or None
        return arrivals

    def _is_new(self, arrival: Arrival) -> bool:
        """Return whether a request is not one of those that are stored; its sender may have given up waiting."""
        if arrival.id is None or self._seen.add(arrival.id):
            return True
        # an id of this intake is durable when the intake is; one from before is durable now
        first = next((taken for taken in self._taken if taken.id == arrival.id), None)
        if first is None:
            arrival.answer("known")
        else:
            first.repeats.append(arrival)
        return False

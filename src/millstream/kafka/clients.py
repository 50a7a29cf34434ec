"""The clients of one cluster in one process: created when first needed, never used across a fork."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from millstream.errors import BrokerUnavailableError
from millstream.foundation.kafka_acls import READER_GROUP
from millstream.kafka.address import KafkaAddress
from millstream.kafka.failures import is_authentication_error, is_ended_session, reason_of, to_millstream_error
from millstream.kafka.tokens import token_callback

T = TypeVar("T")
_log = logging.getLogger(__name__)
REQUEST_SECONDS = 20.0
LOOKUP_SECONDS = 5.0
"""How long a client may take to answer a request that changes nothing, before a new client is asked."""
_SILENT_SECONDS = 3.0
_POLL_SECONDS = 0.2
_RETRY_DELAY_SECONDS = 0.05
_CONNECT_SECONDS = 5.0


class Clients:
    """Creates clients and records their authentication errors."""

    def __init__(self, address: KafkaAddress) -> None:
        self.address = address
        self._process = os.getpid()
        self._admin: AdminClient | None = None
        self._lock = threading.Lock()
        self._errors = _Errors()
        self._has_connected = False
        self._has_reported_wait = False
        self._secrets = _fingerprints(address)
        address.warn_if_insecure()

    @property
    def belongs_to_this_process(self) -> bool:
        """Whether this process created them, rather than inherited them by ``fork``."""
        return self._process == os.getpid()

    @property
    def admin(self) -> AdminClient:
        """The client for everything except reading and writing."""
        with self._lock:
            if self._admin is None:
                # While a request waits for a broker that is gone, a client that connects to brokers only when they
                # are needed uses a whole core (librdkafka 2.16): two of its threads wake each other up.
                self._admin = AdminClient({**self._settings(), "enable.sparse.connections": False})
            return self._admin

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """Create a consumer."""
        return Consumer({**self._settings(), **_CONSUMER, **self._options("fetch.", "queued."), **settings})

    def share_consumer(self, group: str) -> ShareConsumer:
        """Create a consumer of a share group."""
        settings = {"group.id": group, "share.acknowledgement.mode": "explicit"}
        return ShareConsumer({**self._settings(), **self._options("fetch."), **settings})

    def producer(
        self, topic: str | None, settings: Mapping[str, Any], on_error: Callable[[KafkaError], None] | None = None
    ) -> Producer:
        """Create a producer; ``topic`` is one it will write to, ``on_error`` is called with every connection error."""
        options, errors = self._options("compression.", "linger.", "transaction."), self._errors

        def error_callback(error: KafkaError) -> None:
            errors.record(error)
            if on_error is not None:
                on_error(error)

        producer = Producer({**self._settings(), **_PRODUCER, **settings, **options, "error_cb": error_callback})
        # A producer that is only connected to a bootstrap server would pause for half a second on its first request.
        # The first response comes from a bootstrap server, the second from a broker.
        with suppress(KafkaException):
            for _ in range(2):
                producer.list_topics(topic, _CONNECT_SECONDS)
        return producer

    def request(
        self,
        send: Callable[[AdminClient], Future[T]],
        action: str,
        topic: str | None = None,
        *,
        attempt_seconds: float = REQUEST_SECONDS,
    ) -> T:
        """Send a request to the cluster and return the response; retry while the cluster is unavailable.

        A client that gets no response within ``attempt_seconds`` is replaced: it may wait for a broker that is gone.
        """
        deadline = monotonic() + REQUEST_SECONDS
        while True:
            try:
                return self._attempt(send, action, topic, deadline, monotonic() + attempt_seconds)
            except BrokerUnavailableError:
                if monotonic() > deadline - _RETRY_DELAY_SECONDS:
                    raise
                sleep(_RETRY_DELAY_SECONDS)

    def _attempt(
        self, send: Callable[[AdminClient], Future[T]], action: str, topic: str | None, deadline: float, end: float
    ) -> T:
        admin = self.admin  # if another thread replaces it meanwhile, its requests end with its last reference
        try:
            return self._wait_for(admin, send(admin), action, topic, deadline, end)
        except BrokerUnavailableError:
            if monotonic() > min(end, deadline - _RETRY_DELAY_SECONDS):
                self._discard(admin)  # the next request asks with a client that remembers nothing
            raise
        finally:
            del admin  # an error would refer to it by this frame

    def _wait_for(
        self, admin: AdminClient, future: Future[T], action: str, topic: str | None, deadline: float, end: float
    ) -> T:
        try:
            while True:
                try:
                    result = future.result(_POLL_SECONDS)
                    self._has_connected = True
                    return result
                except FutureTimeoutError:
                    admin.poll(0)
                    self.check_authentication(action)
                    self._report_wait(deadline)
                    if monotonic() > min(deadline, end):
                        raise self._no_response(action) from None
                except KafkaException as error:
                    admin.poll(0)
                    self.check_authentication(action)
                    if error.args[0].code() == KafkaError.NOT_COORDINATOR:
                        self._discard(admin)  # it would ask the same broker again for 15 minutes (librdkafka 2.16)
                    raise to_millstream_error(error.args[0], action, topic) from error
        finally:
            # The future holds the error, whose traceback would refer to the future, and to the client, by this frame.
            del admin, future

    def metadata(self, action: str) -> ClusterMetadata:
        """Return the metadata of the cluster and its topics, without creating topics."""
        deadline, unavailable = monotonic() + REQUEST_SECONDS, self._no_response(action)
        while True:
            try:
                metadata = self.admin.list_topics(timeout=1.0)
                self._has_connected = True
                return metadata
            except KafkaException as error:
                self.admin.poll(0)
                try:
                    self.check_authentication(action)
                except BrokerUnavailableError as retried:  # with the current secret
                    unavailable = retried
                self._report_wait(deadline)
                if monotonic() > deadline:
                    raise unavailable from error

    def _report_wait(self, deadline: float) -> None:
        """Log once that no broker has responded so far: a wrong port would otherwise be silent until the deadline."""
        remaining = deadline - monotonic()
        if not self._has_connected and not self._has_reported_wait and remaining < REQUEST_SECONDS - _SILENT_SECONDS:
            self._has_reported_wait = True
            _log.warning("no broker of %r responds yet; trying for %.0f s more", self.address.brokers, remaining)

    def _no_response(self, action: str) -> BrokerUnavailableError:
        provider = "" if self.address.token_url is None else f", and the identity provider at {self.address.token_url}"
        return BrokerUnavailableError(
            f"cannot {action}: no broker of {self.address.brokers!r} responds",
            hint=f"check that Kafka is running there{provider}",
        )

    def check_authentication(self, action: str) -> None:
        """Raise if authentication has failed; if the secret has changed since, the error is retryable."""
        error = self._errors.take()
        if error is None:
            return
        if self._has_connected and is_ended_session(error):
            return  # the client connects again by itself, with the new token
        before, self._secrets = self._secrets, _fingerprints(self.address)
        self.discard_admin()  # it keeps its secrets, and reports only once that it gets no token
        if self._secrets != before:
            raise BrokerUnavailableError(f"cannot {action}: the secret has changed", hint="the request is retried")
        if self._has_connected and self.address.token_url is not None:
            raise BrokerUnavailableError(f"cannot {action} now: {reason_of(error)}", hint="check the identity provider")
        raise to_millstream_error(error, action)

    def discard_admin(self) -> None:
        """Drop the admin client, so that the next request creates a new one."""
        self._discard(self._admin)

    def _discard(self, admin: AdminClient | None) -> None:
        """Drop a client, unless another thread has replaced it already."""
        with self._lock:
            if self._admin is admin:
                self._admin = None

    def _settings(self) -> dict[str, Any]:
        options = self._options(
            "socket.", "client.", "broker.", "connections.", "reconnect.", "retry.", "metadata.", "debug"
        )
        options |= self._options("topic.", "receive.")
        return {
            "bootstrap.servers": self.address.brokers,
            "client.id": f"millstream-{os.getpid()}",
            "error_cb": self._errors.record,
            "logger": _INFO_LOGGER,
            "reconnect.backoff.max.ms": 2_000,
            **options,
            **_security(self.address),
        }

    def _options(self, *prefixes: str) -> dict[str, str]:
        return {name: value for name, value in self.address.options.items() if name.startswith(prefixes)}


class _Errors:
    """The last authentication error that a client reported.

    Clients refer to it instead of ``Clients``, which refers to its admin client: in a cycle, a client that is no longer
    used would keep its threads and connections until garbage is collected.
    """

    def __init__(self) -> None:
        self._authentication: KafkaError | None = None

    def record(self, error: KafkaError) -> None:
        if is_authentication_error(error):
            self._authentication = error

    def take(self) -> KafkaError | None:
        error, self._authentication = self._authentication, None
        return error


_CONSUMER = {
    "group.id": READER_GROUP,  # required by the client; no consumer joins it or commits to it
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
}
_PRODUCER = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 2,
    "message.max.bytes": 67_108_864,  # the limit of the topic applies
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 524_288,
}


class _InfoLogger:
    """Logs messages of the client at most as INFO: problems that matter are raised as errors."""

    def log(self, level: int, message: str, *arguments: Any) -> None:
        _log.log(min(level, logging.INFO), message, *arguments)


_INFO_LOGGER = _InfoLogger()


def _security(address: KafkaAddress) -> dict[str, Any]:
    protocol = ("SASL_" if address.sasl else "") + ("SSL" if address.tls else "PLAINTEXT")
    settings: dict[str, Any] = {"security.protocol": protocol}
    if address.tls:
        settings |= _tls(address)
    if address.sasl == "OAUTHBEARER":
        settings |= _oauth(address)
    elif address.sasl is not None:
        assert address.password is not None
        settings |= {
            "sasl.mechanisms": address.sasl,
            "sasl.username": address.user,
            "sasl.password": address.password.reveal(),
        }
    return settings


def _tls(address: KafkaAddress) -> dict[str, Any]:
    settings: dict[str, Any] = {"enable.ssl.certificate.verification": not address.insecure}
    settings["ssl.endpoint.identification.algorithm"] = "none" if address.insecure else "https"
    if address.ca is not None:
        settings["ssl.ca.location"] = address.ca
    if address.certificate is not None:
        settings["ssl.certificate.location"] = address.certificate
        settings["ssl.key.location"] = address.private_key
    if address.private_key_password is not None:
        settings["ssl.key.password"] = address.private_key_password.reveal()
    return settings


def _oauth(address: KafkaAddress) -> dict[str, Any]:
    settings: dict[str, Any] = {"sasl.mechanisms": "OAUTHBEARER"}
    if address.token is not None:
        settings["oauth_cb"] = token_callback(address.token)
        return settings
    assert address.client_secret is not None
    settings |= {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": address.token_url,
        "sasl.oauthbearer.client.id": address.client_id,
        "sasl.oauthbearer.client.secret": address.client_secret.reveal(),
    }
    if address.scope is not None:
        settings["sasl.oauthbearer.scope"] = address.scope
    if address.token_ca is not None:
        settings["https.ca.location"] = address.token_ca
    return settings


def _fingerprints(address: KafkaAddress) -> list[int]:
    """Return hashes of the current secrets, to detect changes."""
    secrets = (address.password, address.private_key_password, address.client_secret)
    return [hash(secret.reveal()) for secret in secrets if secret is not None]

"""Clients of one cluster in one process: made when first needed, never carried across a fork."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata

from millstream.errors import BrokerUnavailableError
from millstream.foundation.kafka_acls import READER_GROUP
from millstream.kafka.address import Address
from millstream.kafka.failures import explained, is_refused_at_the_door
from millstream.kafka.tokens import token_source

T = TypeVar("T")
_log = logging.getLogger(__name__)
REQUEST_SECONDS = 20.0
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 0.05
_CONNECT_SECONDS = 5.0


class Clients:
    """Makes clients, and hears what they have to say about the connection."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._process = os.getpid()
        self._admin: AdminClient | None = None
        self._lock = threading.Lock()
        self._refusal: KafkaError | None = None
        self._secrets = _revealed(address)
        address.warn_if_insecure()

    @property
    def is_ours(self) -> bool:
        """Whether this process made them, and did not inherit them by ``fork``."""
        return self._process == os.getpid()

    @property
    def admin(self) -> AdminClient:
        """The client for everything but reading and writing."""
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient(self._settings())
            return self._admin

    def consumer(self, settings: Mapping[str, Any]) -> Consumer:
        """Make a consumer."""
        return Consumer({**self._settings(), **_CONSUMER, **self._own("fetch.", "queued."), **settings})

    def producer(
        self, topic: str, settings: Mapping[str, Any], on_trouble: Callable[[KafkaError], None] | None = None
    ) -> Producer:
        """Make a producer for a topic that is there; ``on_trouble`` hears whatever it says about its connections."""
        own = self._own("compression.", "linger.", "transaction.")

        def heard(error: KafkaError) -> None:
            self._heard(error)
            if on_trouble is not None:
                on_trouble(error)

        producer = Producer({**self._settings(), **_PRODUCER, **settings, **own, "error_cb": heard})
        # Asked before it is connected to more than the door, a producer would pause for half a second: the first answer
        # comes through the door, the second from the broker behind it.
        with suppress(KafkaException):
            for _ in range(2):
                producer.list_topics(topic, _CONNECT_SECONDS)
        return producer

    def ask(self, request: Callable[[AdminClient], Future[T]], doing: str, topic: str | None = None) -> T:
        """Ask the cluster something; while it is busy with itself, ask again."""
        deadline = monotonic() + REQUEST_SECONDS
        while True:
            try:
                return self._answer(request(self.admin), doing, topic, deadline)
            except BrokerUnavailableError:
                if monotonic() > deadline - _PAUSE_SECONDS:
                    raise
                sleep(_PAUSE_SECONDS)

    def _answer(self, future: Future[T], doing: str, topic: str | None, deadline: float) -> T:
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except NotYet:
                self.admin.poll(0)
                self.check_door(doing)
                if monotonic() > deadline:
                    raise self._silent(doing) from None
            except KafkaException as error:
                self.admin.poll(0)
                self.check_door(doing)
                raise explained(error.args[0], doing, topic) from error

    def metadata(self, doing: str) -> ClusterMetadata:
        """Return what the cluster says about itself and its topics; none of them is created by asking."""
        deadline = monotonic() + REQUEST_SECONDS
        while True:
            try:
                return self.admin.list_topics(timeout=1.0)
            except KafkaException as error:
                self.admin.poll(0)
                with suppress(BrokerUnavailableError):  # the secret has changed: on with the new one
                    self.check_door(doing)
                if monotonic() > deadline:
                    raise self._silent(doing) from error

    def _silent(self, doing: str) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"cannot {doing}: no broker of {self.address.brokers!r} answers", hint="is Kafka running there?"
        )

    def check_door(self, doing: str) -> None:
        """Raise if the cluster has refused us; a secret that has changed meanwhile gets its chance."""
        if self._refusal is None:
            return
        refusal, self._refusal = self._refusal, None
        secrets = _revealed(self.address)
        if secrets != self._secrets:
            self.forget()
            self._secrets = secrets
            raise BrokerUnavailableError(f"cannot {doing}: the secret has changed", hint="it is tried again")
        raise explained(refusal, doing)

    def forget(self) -> None:
        """Drop the admin client, so that the next request makes another one."""
        with self._lock:
            self._admin = None

    def _settings(self) -> dict[str, Any]:
        own = self._own("socket.", "client.", "broker.", "connections.", "reconnect.", "retry.", "metadata.", "debug")
        own |= self._own("topic.", "receive.")
        return {
            "bootstrap.servers": self.address.brokers,
            "client.id": f"millstream-{os.getpid()}",
            "error_cb": self._heard,
            "logger": _QUIET,
            "reconnect.backoff.max.ms": 2_000,
            **own,
            **_security(self.address),
        }

    def _own(self, *prefixes: str) -> dict[str, str]:
        return {name: value for name, value in self.address.options.items() if name.startswith(prefixes)}

    def _heard(self, error: KafkaError) -> None:
        if is_refused_at_the_door(error):
            self._refusal = error


_CONSUMER = {
    "group.id": READER_GROUP,  # needed by the client; nobody joins it or commits for it
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
    "message.max.bytes": 67_108_864,  # the topic's own limit decides
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 524_288,
}


class _QuietLogger:
    """What the client says to itself, at most as information: what matters reaches users as an error."""

    def log(self, level: int, message: str, *arguments: Any) -> None:
        _log.log(min(level, logging.INFO), message, *arguments)


_QUIET = _QuietLogger()


def _security(address: Address) -> dict[str, Any]:
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


def _tls(address: Address) -> dict[str, Any]:
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


def _oauth(address: Address) -> dict[str, Any]:
    settings: dict[str, Any] = {"sasl.mechanisms": "OAUTHBEARER"}
    if address.token is not None:
        settings["oauth_cb"] = token_source(address.token)
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
    return settings


def _revealed(address: Address) -> list[int]:
    """Return fingerprints of the secrets as they are now, by which a change is noticed."""
    secrets = (address.password, address.private_key_password, address.client_secret)
    return [hash(secret.reveal()) for secret in secrets if secret is not None]

"""The URL of a cluster: where it is and how to get in, without any secret in it.

``kafka://HOST:PORT,HOST:PORT?tls=true&sasl=SCRAM-SHA-512&user=rides&password=env:KAFKA_PASSWORD``
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from millstream.errors import DefinitionError
from millstream.kafka.options import ALLOWED, FORBIDDEN, check_option
from millstream.secret import Secret

SCHEME = "kafka"
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]

_log = logging.getLogger(__name__)
_FLAGS = ("tls", "insecure")
_FILES = ("ca", "certificate", "private_key")
_SECRETS = ("password", "private_key_password", "token", "client_secret")
_TEXTS = ("sasl", "user", "token_url", "client_id", "scope", "files")
_OUR_WORDS = (*_FLAGS, *_FILES, *_SECRETS, *_TEXTS)


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and how to get in; secrets are known by their place only."""

    brokers: str
    tls: bool = False
    insecure: bool = False
    """Allow what is not safe: certificates that are not checked, passwords that others can read on the way."""
    ca: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    private_key_password: Secret | None = None
    sasl: Mechanism | None = None
    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    token_url: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    files: str | None = None
    """The directory in which certificates and keys must lie; by default any."""
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        _check_brokers(self.brokers)
        if self.sasl is not None:
            _check_sasl(self)
        elif self.user or self.password or self.token or self.token_url:
            raise DefinitionError("user, password and token need sasl=", hint="for example sasl=SCRAM-SHA-512")
        if bool(self.certificate) != bool(self.private_key):
            raise DefinitionError("certificate and private_key belong together", hint="give both or none")
        if not self.tls and (self.ca or self.certificate):
            raise DefinitionError("certificates are given, but tls is off", hint="add tls=true")
        for name in _FILES:
            _check_file(name, getattr(self, name), self.files)
        for name in self.options:
            check_option(name)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL; what is wrong with it is said without repeating what may be a secret."""
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise DefinitionError(
                "a broker URL must not contain a user or password before the hosts",
                hint="use ?sasl=…&user=NAME&password=env:VARIABLE",
            )
        given: dict[str, Any] = {"brokers": parts.netloc, "options": {}}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if "." in name or name in ALLOWED or name in FORBIDDEN:
                given["options"][name] = value
            else:
                given[name] = _read(name, value)
        return cls(**given)

    @property
    def url(self) -> str:
        """The address as a URL again."""
        words = []
        for name in _OUR_WORDS:
            value = getattr(self, name)
            if value:
                words.append((name, value.reference if isinstance(value, Secret) else value))
        words += sorted(self.options.items())
        query = "&".join(f"{name}={quote('true' if value is True else str(value), safe='/:')}" for name, value in words)
        return f"{SCHEME}://{self.brokers}" + (f"?{query}" if query else "")

    def warn_if_insecure(self) -> None:
        """Say once per process and cluster that protection was switched off."""
        if self.insecure:
            _log.warning("kafka.insecure brokers=%s: certificates or passwords are not protected", self.brokers)


def _read(name: str, value: str) -> Any:
    if name in _FLAGS:
        if value.lower() not in ("", "true", "false"):
            raise DefinitionError(f"{name}={value!r} is not valid", hint=f"write {name}=true or {name}=false")
        return value.lower() != "false"
    if name in _SECRETS:
        return Secret(value)
    if name not in _OUR_WORDS:
        raise DefinitionError(f"a Kafka URL has no setting {name!r}", hint=f"it has {', '.join(_OUR_WORDS)}")
    return value


def _check_brokers(brokers: str) -> None:
    for one in brokers.split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():
            raise DefinitionError(
                f"{brokers!r} does not name brokers as HOST:PORT", hint="for example kafka://127.0.0.1:9092"
            )


def _check_sasl(address: Address) -> None:
    if address.sasl not in get_args(Mechanism):
        raise DefinitionError(f"sasl={address.sasl!r} is not known", hint=f"use one of {get_args(Mechanism)}")
    if address.sasl == "OAUTHBEARER":
        _check_oauth(address)
    elif address.user is None or address.password is None:
        raise DefinitionError(f"sasl={address.sasl} needs user and password", hint="password=env:VARIABLE")
    readable = address.sasl in ("PLAIN", "OAUTHBEARER")
    if readable and not address.tls and not address.insecure:
        raise DefinitionError(
            f"sasl={address.sasl} without TLS shows the secret to everybody on the way",
            hint="add tls=true, or insecure=true where nobody else can listen",
        )


def _check_oauth(address: Address) -> None:
    if (address.token is None) == (address.token_url is None):
        raise DefinitionError("sasl=OAUTHBEARER needs either token= or token_url=", hint="token=call:module:function")
    if address.token_url is not None:
        if address.client_id is None or address.client_secret is None:
            raise DefinitionError("token_url needs client_id and client_secret", hint="client_secret=env:VARIABLE")
        if urlsplit(address.token_url).scheme != "https" and not address.insecure:
            raise DefinitionError(f"token_url {address.token_url!r} is not https", hint="use https, or insecure=true")


def _check_file(name: str, value: str | None, directory: str | None) -> None:
    if value is None:
        return
    path = Path(value).resolve()
    if directory is not None and not path.is_relative_to(Path(directory).resolve()):
        raise DefinitionError(f"{name}={value!r} is not in {directory!r}", hint="move it there, or change files=")
    if not path.is_file():
        raise DefinitionError(f"{name}={value!r} is not a file", hint="give the path of a PEM file")

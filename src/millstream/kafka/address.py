"""The URL of a cluster: hosts and security settings, with references to secrets instead of their values.

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
_FILES = ("ca", "certificate", "private_key", "token_ca")
_SECRETS = ("password", "private_key_password", "token", "client_secret")
_TEXTS = ("sasl", "user", "token_url", "client_id", "scope", "files")
_SETTINGS = (*_FLAGS, *_FILES, *_SECRETS, *_TEXTS)


class KafkaAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts and security settings of a cluster; secrets are references."""

    brokers: str
    tls: bool = False
    insecure: bool = False
    """Allow unverified certificates and unencrypted passwords."""
    ca: str | None = None
    certificate: str | None = None
    private_key: str | None = None
    private_key_password: Secret | None = None
    sasl: Mechanism | None = None
    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    token_url: str | None = None
    token_ca: str | None = None
    """The authority of the identity provider; by default those of the system, since ``ca`` is that of the brokers."""
    client_id: str | None = None
    client_secret: Secret | None = None
    scope: str | None = None
    files: str | None = None
    """The directory that certificates and keys must be in; by default any."""
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        _check_brokers(self.brokers)
        if self.sasl is not None:
            _check_sasl(self)
        elif self.user or self.password or self.token or self.token_url:
            raise DefinitionError("user, password and token require sasl=", hint="for example sasl=SCRAM-SHA-512")
        if bool(self.certificate) != bool(self.private_key):
            raise DefinitionError("certificate and private_key must be given together", hint="give both or neither")
        if not self.tls and (self.ca or self.certificate):
            raise DefinitionError("certificates are given, but tls is off", hint="add tls=true")
        if self.token_ca and not self.token_url:
            raise DefinitionError("token_ca requires token_url", hint="it is the authority of the identity provider")
        for name in _FILES:
            _check_file(name, getattr(self, name), self.files)
        for name in self.options:
            check_option(name)

    @classmethod
    def parse(cls, url: str) -> KafkaAddress:
        """Parse a URL; error messages never repeat a value that may be a secret."""
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise DefinitionError(
                "a broker URL must not contain a user or password before the hosts",
                hint="use ?sasl=…&user=NAME&password=env:VARIABLE",
            )
        settings: dict[str, Any] = {"brokers": parts.netloc, "options": {}}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if "." in name or name in ALLOWED or name in FORBIDDEN:
                settings["options"][name] = value
            else:
                settings[name] = _parse_setting(name, value)
        return cls(**settings)

    @property
    def url(self) -> str:
        """The address as a URL."""
        settings = []
        for name in _SETTINGS:
            value = getattr(self, name)
            if value:
                settings.append((name, value.reference if isinstance(value, Secret) else value))
        settings += sorted(self.options.items())
        texts = ((name, "true" if value is True else str(value)) for name, value in settings)
        query = "&".join(f"{name}={quote(text, safe='/:')}" for name, text in texts)
        return f"{SCHEME}://{self.brokers}" + (f"?{query}" if query else "")

    def warn_if_insecure(self) -> None:
        """Log a warning if protection is switched off."""
        if self.insecure:
            _log.warning("kafka.insecure brokers=%s: certificates or passwords are not protected", self.brokers)


def _parse_setting(name: str, value: str) -> Any:
    if name in _FLAGS:
        if value.lower() not in ("", "true", "false"):
            raise DefinitionError(f"{name}={value!r} is not valid", hint=f"use {name}=true or {name}=false")
        return value.lower() != "false"
    if name in _SECRETS:
        return Secret(value)
    if name not in _SETTINGS:
        raise DefinitionError(
            f"unknown setting {name!r} in a Kafka URL", hint=f"the settings are {', '.join(_SETTINGS)}"
        )
    return value


def _check_brokers(brokers: str) -> None:
    for broker in brokers.split(","):
        host, _, port = broker.rpartition(":")
        if not host or not port.isdigit():
            raise DefinitionError(
                f"{brokers!r} is not a list of brokers as HOST:PORT", hint="for example kafka://127.0.0.1:9092"
            )


def _check_sasl(address: KafkaAddress) -> None:
    if address.sasl not in get_args(Mechanism):
        raise DefinitionError(
            f"sasl={address.sasl!r} is not supported", hint=f"use one of {', '.join(get_args(Mechanism))}"
        )
    if address.sasl == "OAUTHBEARER":
        _check_oauth(address)
    elif address.user is None or address.password is None:
        raise DefinitionError(
            f"sasl={address.sasl} requires user and password", hint="for example password=env:VARIABLE"
        )
    is_sent_in_clear = address.sasl in ("PLAIN", "OAUTHBEARER")
    if is_sent_in_clear and not address.tls and not address.insecure:
        raise DefinitionError(
            f"sasl={address.sasl} without TLS sends the secret unencrypted",
            hint="add tls=true, or insecure=true on a trusted network",
        )


def _check_oauth(address: KafkaAddress) -> None:
    if (address.token is None) == (address.token_url is None):
        raise DefinitionError(
            "sasl=OAUTHBEARER requires either token= or token_url=", hint="for example token=call:module:function"
        )
    if address.token_url is not None:
        if address.client_id is None or address.client_secret is None:
            raise DefinitionError(
                "token_url requires client_id and client_secret", hint="for example client_secret=env:VARIABLE"
            )
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

"""The schema registry of an app's SQL, from settings or the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from millstream.schemas.registry import SchemaRegistry
from millstream.secret import Secret

URL, USER, PASSWORD, CA = (f"ksql.schema.registry.{name}" for name in ("url", "user", "password", "ca"))
ENVIRONMENT = "MILLSTREAM_SCHEMA_REGISTRY"


class RegistryAddress(msgspec.Struct, frozen=True):
    """Where a registry is, as data; the password is a reference such as ``env:NAME``."""

    url: str
    user: str | None = None
    password: str | None = None
    ca: str | None = None

    @property
    def client(self) -> SchemaRegistry:
        """The client of the registry, one in a process, since it caches schemas."""
        if self not in _clients:
            password = None if self.password is None else Secret(self.password)
            _clients[self] = SchemaRegistry(self.url, user=self.user, password=password, ca=self.ca)
        return _clients[self]


_clients: dict[RegistryAddress, SchemaRegistry] = {}


def use_client(address: RegistryAddress, client: SchemaRegistry) -> None:
    """Let this process reach a registry by a client that exists already."""
    _clients[address] = client


def registry_of(settings: Mapping[str, str]) -> RegistryAddress | None:
    """Return the registry that SET has defined, else that of the environment; None if there is none."""
    if URL in settings:
        return RegistryAddress(settings[URL], settings.get(USER), settings.get(PASSWORD), settings.get(CA))
    url, user = os.environ.get(ENVIRONMENT), os.environ.get(f"{ENVIRONMENT}_USER")
    password = None if user is None else f"env:{ENVIRONMENT}_PASSWORD"
    return None if not url else RegistryAddress(url, user, password, os.environ.get(f"{ENVIRONMENT}_CA"))

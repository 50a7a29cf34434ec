"""Addresses of other systems: passwords are references, and are not sent in plain text to other hosts."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from millstream.errors import DefinitionError

_PLAIN_TEXT = ("redis", "http", "mqtt", "amqp")


def checked_url(url: str, schemes: tuple[str, ...]) -> SplitResult:
    """Return the parts of a URL without credentials; an error does not repeat the URL, which may contain some."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in schemes and parts.port != 0 and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise DefinitionError("the URL is not valid", hint=f"write {schemes[0]}://HOST:PORT")
    if parts.username is not None or parts.password is not None:
        raise DefinitionError("the URL contains a user or a password", hint="use user= and password=Secret.env(...)")
    return parts


def is_loopback(host: str) -> bool:
    """Return whether a host name or address always means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_plain_text(parts: SplitResult, *, has_secret: bool, allow_plain_text: bool) -> None:
    """Refuse to send a password to another host without TLS."""
    host = parts.hostname or ""
    if has_secret and not allow_plain_text and parts.scheme in _PLAIN_TEXT and not is_loopback(host):
        raise DefinitionError(
            f"the password would be sent to {host!r} in plain text",
            hint=f"use {parts.scheme}s://, or allow_plain_text=True in a network that you trust",
        )

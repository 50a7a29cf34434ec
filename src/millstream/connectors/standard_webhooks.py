"""Signatures of Standard Webhooks, for what is sent and for what is received."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

from millstream.errors import DefinitionError

_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
"""How old a signed request may be; a recorded one cannot be sent again later."""


def signing_key(secret: str) -> bytes:
    """Return the key in a secret such as ``whsec_…``."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise DefinitionError(
            "the secret of the webhook is not base64", hint=f"use {_PREFIX} and base64 of 24 to 64 bytes"
        )
    return key


def signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request."""
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def is_signed(key: bytes, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether a request has a signature of the key that is not too old; keys may be rotated by sending two."""
    message, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (message and timestamp.isascii() and timestamp.isdigit()) or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    expected = signature(key, message, timestamp, body).encode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(each.encode(), expected) for each in given)

"""Tokens of OAUTHBEARER: read when the client asks, again before they end."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import msgspec

from millstream.secret import Secret

_UNKNOWN_LIFE_SECONDS = 300.0


class _Claims(msgspec.Struct):
    exp: float = 0.0


def token_source(secret: Secret) -> Callable[[str], tuple[str, float]]:
    """Return what the client calls for a token: the token and when it ends, in seconds since 1970."""

    def fetch(_: str) -> tuple[str, float]:
        token = secret.reveal()
        return token, _end_of(token) or time.time() + _UNKNOWN_LIFE_SECONDS

    return fetch


def _end_of(token: str) -> float:
    """Return when a token says that it ends, or 0 if it does not say; the broker is the one that checks it."""
    parts = token.split(".")
    if len(parts) < 2:
        return 0.0
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return 0.0

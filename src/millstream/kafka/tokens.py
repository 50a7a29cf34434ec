"""Tokens for OAUTHBEARER, read when the client requests them and again before they expire."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

import msgspec

from millstream.foundation.typed_decoding import decode_json
from millstream.secret import Secret

_DEFAULT_LIFETIME_SECONDS = 300.0


class _Claims(msgspec.Struct):
    exp: float = 0.0


def token_callback(secret: Secret) -> Callable[[str], tuple[str, float]]:
    """Return the client's callback for tokens, which returns a token and its expiry in epoch seconds."""

    def fetch(_: str) -> tuple[str, float]:
        token = secret.reveal()
        return token, _expiry(token) or time.time() + _DEFAULT_LIFETIME_SECONDS

    return fetch


def _expiry(token: str) -> float:
    """Return the expiry claim of a token, or 0 if it has none; the token is verified by the broker."""
    parts = token.split(".")
    if len(parts) < 2:
        return 0.0
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return decode_json(payload, _Claims).exp
    except (ValueError, msgspec.MsgspecError):
        return 0.0

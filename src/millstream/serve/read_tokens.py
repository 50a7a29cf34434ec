"""Read tokens: each lets a page of another site read named tables live, and nothing else.

A token is what it allows, signed with a key in the data directory. The server stores no list of tokens; deleting the
key revokes all of them.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from millstream.errors import DefinitionError
from millstream.foundation.typed_decoding import decode_json
from millstream.serve.credentials import token_in

KEY_FILE = "web-read-key"
PREFIX = "msr_"
_MAX_TOKEN = 4_000


class ReadGrant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a token allows."""

    tables: tuple[str, ...]
    """``APP/TABLE``."""
    expires: int
    """In seconds since 1970."""
    origins: tuple[str, ...] = ()
    """Sites whose pages may use it in a browser, such as ``https://shop.example``."""
    prefix: str = ""
    """Only rows whose keys begin with this."""


def check_grant(grant: ReadGrant) -> None:
    """Refuse a grant that could not be used."""
    for table in grant.tables:
        if not all(table.partition("/")[::2]):
            raise DefinitionError(f"{table!r} is not a table", hint="write APP/TABLE")
    for origin in grant.origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != origin:
            raise DefinitionError(f"{origin!r} is not an origin", hint="write https://HOST, without a path")


class ReadTokens:
    """Signs and verifies the tokens of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / KEY_FILE

    def sign(self, grant: ReadGrant) -> str:
        """Return a token; the first one creates the key."""
        check_grant(grant)
        payload = _text(msgspec.json.encode(grant))
        return f"{PREFIX}{payload}.{_text(_mac(token_in(self._path), payload))}"

    def grant(self, token: str) -> ReadGrant | None:
        """Return what a token allows, None if it is not ours or has expired."""
        payload, _, given = token.removeprefix(PREFIX).partition(".")
        if not token.startswith(PREFIX) or len(token) > _MAX_TOKEN or not self._path.exists():
            return None
        try:
            if not hmac.compare_digest(_bytes(given), _mac(token_in(self._path), payload)):
                return None
            grant = decode_json(_bytes(payload), ReadGrant)
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            return None
        return grant if time.time() < grant.expires else None


def new_grant(tables: Sequence[str], seconds: float, origins: Sequence[str], prefix: str) -> ReadGrant:
    """Return a grant that ends after some time."""
    return ReadGrant(tuple(tables), int(time.time() + seconds), tuple(origins), prefix)


def _mac(key: str, payload: str) -> bytes:
    return hmac.digest(key.encode(), f"millstream read token {payload}".encode(), "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

"""The URL of a Postgres database: without a password, and with TLS to other hosts."""

from __future__ import annotations

from urllib.parse import urlsplit

from millstream.connectors.network import is_loopback
from millstream.errors import DefinitionError


def checked_postgres_url(url: str, *, allow_plain_text: bool) -> str:
    """Return a URL that requires TLS unless the host is this one, it says otherwise, or plain text is allowed.

    >>> checked_postgres_url("postgresql://app@db/shop", allow_plain_text=False)
    'postgresql://app@db/shop?sslmode=require'
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("postgresql", "postgres") and bool(parts.path.strip("/"))
    except ValueError:
        is_valid = False
    if not is_valid:
        raise DefinitionError("the URL of Postgres is not valid", hint="write postgresql://USER@HOST:PORT/DATABASE")
    if parts.password is not None:
        raise DefinitionError("the URL contains a password", hint="use password=Secret.env(...)")
    is_local = not parts.hostname or is_loopback(parts.hostname)
    if "sslmode=" in parts.query or is_local or allow_plain_text:
        return url
    return f"{url}{'&' if parts.query else '?'}sslmode=require"

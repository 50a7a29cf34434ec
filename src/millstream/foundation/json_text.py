"""Keys and values as JSON and as text that people read."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.text import error_text, shown
from millstream.records import Windowed


def key_text(key: Any) -> str:
    """Return a key as text: text and numbers as they are, windows as ``KEY@START/END``, anything else as JSON.

    >>> key_text("berlin"), key_text(7), key_text(("a", 1)), key_text(Windowed("a", 0, 60_000))
    ('berlin', '7', '["a",1]', 'a@0/60000')
    """
    if isinstance(key, str):
        return key
    if isinstance(key, Windowed):
        return f"{key_text(key.key)}@{key.start}/{key.end}"
    return json_bytes(key).decode()


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON, or raise a SerdeError that says why it has no such form."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise SerdeError(f"{shown(value):.80} cannot be written as JSON: {error_text(error)}") from error

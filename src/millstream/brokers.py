"""Open the broker that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from millstream.broker import Broker
from millstream.errors import DefinitionError
from millstream.log import EmbeddedLog

EMBEDDED = "embedded:"


def open_broker(url: str | None, data_dir: Path, *, durability: Literal["sync", "os"] = "sync") -> Broker:
    """Return the embedded log of ``data_dir``, or what ``url`` names."""
    if url is None:
        return EmbeddedLog(data_dir, durability=durability)
    if url.startswith(EMBEDDED):
        return EmbeddedLog(Path(url.removeprefix(EMBEDDED)), durability=durability)
    raise DefinitionError(
        f"broker {url!r} is not known", hint="leave it out for the embedded log, or use embedded:DIRECTORY"
    )

"""Open the broker that a URL names."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from millstream.broker import Broker
from millstream.errors import DefinitionError
from millstream.log import EmbeddedLog

EMBEDDED = "embedded:"
KAFKA = "kafka://"


def open_broker(url: str | None, data_dir: Path, *, durability: Literal["sync", "os"] = "sync") -> Broker:
    """Open the broker at ``url``, or the embedded log in ``data_dir`` if it is None."""
    if url is None:
        return EmbeddedLog(data_dir, durability=durability)
    if url.startswith(EMBEDDED):
        return EmbeddedLog(Path(url.removeprefix(EMBEDDED)), durability=durability)
    if url.startswith(KAFKA):
        return _open_kafka(url)
    raise DefinitionError(
        f"unknown broker {url.partition(':')[0]!r}",
        hint="omit it to use the embedded log, or use embedded:DIRECTORY or kafka://HOST:PORT",
    )


def _open_kafka(url: str) -> Broker:
    try:
        from millstream.kafka import KafkaBroker
    except ImportError as error:
        raise DefinitionError(
            "the broker is Kafka, but confluent-kafka is not installed", hint="run: pip install 'millstream[kafka]'"
        ) from error
    return KafkaBroker(url)

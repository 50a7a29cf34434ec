"""Call a webhook for each record, signed as Standard Webhooks defines it."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from millstream.connect.protocols import ConnectorContext, Guarantee, SinkBatch
from millstream.connectors.checking import connection_problems
from millstream.connectors.lineage import check_choice
from millstream.connectors.network import check_plain_text, checked_url
from millstream.connectors.sending import MessageWriter, OutgoingMessage
from millstream.connectors.standard_webhooks import signature, signing_key
from millstream.errors import SerdeError
from millstream.foundation.json_text import json_bytes, key_text
from millstream.records import Record
from millstream.secret import Secret, revealed

Body = Literal["event", "value"]


class Webhook:
    """A sink that sends each record as a POST request with JSON.

    The body is ``{"type": TOPIC, "timestamp": …, "key": …, "data": VALUE}``, or with ``body="value"`` the value alone.
    With a ``secret`` (``whsec_…``) it is signed as in Standard Webhooks. A response of 2xx means done; 408, 425, 429
    and most of 5xx are tried again, after ``Retry-After``; with any other status the record is rejected. Redirects are
    not followed. At least once: a repeated record has the same ``webhook-id``.

    >>> Webhook("https://example.org/orders", secret=Secret.env("WEBHOOK_SECRET"))
    Webhook('example.org')
    """

    guarantee: Guarantee = "at least once"

    def __init__(
        self,
        url: str,
        *,
        secret: Secret | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        body: Body = "event",
        max_bytes: int = 1 << 20,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        parts = checked_url(url, ("https", "http"))
        has_secret = any(isinstance(value, Secret) for value in (headers or {}).values())
        check_plain_text(parts, has_secret=has_secret, allow_plain_text=allow_plain_text)
        check_choice("body", body, ("event", "value"))
        self.url = url
        self.host = parts.hostname or ""
        self.secret = secret
        self.headers = dict(headers or {})
        self.body = body
        self.max_bytes = max_bytes
        self.ca_file = ca_file

    def __repr__(self) -> str:
        return f"Webhook({self.host!r})"

    def open(self, context: ConnectorContext) -> MessageWriter:
        """Prepare the signature; nothing is sent before the first batch."""
        key = None if self.secret is None else signing_key(self.secret.reveal())
        own = revealed(self.headers)

        def render(record: Record[Any, Any], batch: SinkBatch) -> OutgoingMessage:
            body = self._body(record)
            headers = {"Content-Type": "application/json", **own, **_signature(key, message_id(batch, record), body)}
            return OutgoingMessage(self.url, body, headers)

        return MessageWriter(context, self.host, render, max_bytes=self.max_bytes, ca_file=self.ca_file)

    def check(self) -> Sequence[str]:
        """Connect without sending a request, and return what would stop the sink."""
        if self.secret is not None:
            signing_key(self.secret.reveal())
        return connection_problems(checked_url(self.url, ("https", "http")), self.ca_file)

    def _body(self, record: Record[Any, Any]) -> bytes:
        if self.body == "value":
            return json_bytes(record.value)
        try:
            time = dt.datetime.fromtimestamp(record.timestamp / 1000, dt.UTC).isoformat(timespec="milliseconds")
        except (ValueError, OverflowError, OSError) as error:
            raise SerdeError(f"the timestamp {record.timestamp} is not a time of the calendar") from error
        key = None if record.key is None else key_text(record.key)
        return json_bytes({"type": record.topic, "timestamp": time, "key": key, "data": record.value})


def message_id(batch: SinkBatch, record: Record[Any, Any]) -> str:
    """Return an id that is the same whenever a record is sent, and different after a reset."""
    position = f"{batch.lineage}/{record.topic}/{record.partition}/{record.offset}"
    return f"msg_{hashlib.sha256(position.encode()).hexdigest()[:32]}"


def _signature(key: bytes | None, id: str, body: bytes) -> dict[str, str]:
    now = str(int(time.time()))
    headers = {"webhook-id": id, "webhook-timestamp": now}
    if key is not None:
        headers["webhook-signature"] = signature(key, id, now, body)
    return headers

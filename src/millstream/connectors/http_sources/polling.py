"""The source that asks an HTTP service for news."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import msgspec

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.connectors.checking import connection_problems
from millstream.connectors.http_requests import AGAIN, HttpResponse, send
from millstream.connectors.network import check_plain_text, checked_url
from millstream.connectors.payloads import (
    Payload,
    RecordFields,
    block_of_payloads,
    decoded_position,
    document_payload,
    now_milliseconds,
    value_at,
)
from millstream.connectors.seen_ids import SeenIds, StoredIds
from millstream.durations import Duration, milliseconds
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.foundation.json_text import json_bytes
from millstream.secret import Secret, revealed


class PollingPosition(msgspec.Struct, frozen=True, kw_only=True):
    """What the next request needs to know of the last."""

    etag: str = ""
    digest: str = ""
    """Of the last body, for services without entity tags."""
    since: int | float | str | None = None
    page: str = ""
    """The next page of a list that is not read to its end."""
    seen: StoredIds = StoredIds()


class HttpPolling:
    """Ask a URL for JSON again and again, and store what is new.

    ``items`` is the path of a list in the document, each item of which is a record; without it the document is one. An
    item whose ``id`` is one of the last ``remember`` ones is left out. With ``since``, the largest value of that field
    so far is sent as the parameter ``since_parameter``; without an ``id``, items that are not larger are left out.
    ``next`` is the path of the URL of the next page. A document that has not changed, by its ETag or its content, has
    no records.

    >>> HttpPolling("https://example.org/orders", topic="orders", items="data", id="id", since="changed").guarantee
    'exactly once'
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        url: str,
        *,
        topic: str,
        every: Duration = "1 min",
        items: str | None = None,
        id: str | None = None,
        since: str | None = None,
        since_parameter: str = "since",
        next: str | None = None,
        key: str | None = None,
        timestamp: str | None = None,
        deleted: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        remember: int = 5_000,
        partitions: int = 4,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        self.parts = checked_url(url, ("https", "http"))
        has_secret = any(isinstance(value, Secret) for value in (headers or {}).values())
        check_plain_text(self.parts, has_secret=has_secret, allow_plain_text=allow_plain_text)
        if items is None and (since or next):
            raise DefinitionError("since= and next= are for lists", hint="set items= to the path of the list")
        SeenIds(remember)
        self.url, self.host = url, self.parts.hostname or ""
        self.topic, self.partitions, self.remember = topic, partitions, remember
        self.every = milliseconds(every) / 1000
        self.items, self.next = items, next
        self.since, self.since_parameter = since, since_parameter
        self.fields = RecordFields(key=key, timestamp=timestamp, id=id, deleted=deleted)
        self.headers = dict(headers or {})
        self.ca_file = ca_file

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self.topic: TopicConfig(partitions=self.partitions)}

    def check(self) -> Sequence[str]:
        """Connect without sending a request, and return what would stop the source."""
        return connection_problems(self.parts, self.ca_file)

    def open(self, position: bytes | None, context: ConnectorContext, /) -> HttpPollingReader:
        """Begin with a request at once."""
        stored = decoded_position(position, PollingPosition, "HTTP polling") if position else PollingPosition()
        return HttpPollingReader(self, stored, context)


class HttpPollingReader:
    """Polls from a position."""

    def __init__(self, source: HttpPolling, position: PollingPosition, context: ConnectorContext) -> None:
        self._source = source
        self._position = position
        self._context = context
        self._seen = SeenIds(source.remember, position.seen)
        self._due = time.monotonic()

    def read(self, timeout: float) -> Intake | None:
        """Poll when it is time, and return what is new; None after a time without anything."""
        deadline = time.monotonic() + timeout
        while not self._context.stopping.wait(max(0.0, min(self._due, deadline) - time.monotonic())):
            if time.monotonic() >= self._due:
                intake = self._poll()
                if intake is not None:
                    return intake
            if time.monotonic() >= deadline:
                return None
        return None

    def committed(self, position: bytes) -> None:
        """Do nothing: the service does not know who has read."""

    def close(self) -> None:
        """There is nothing to close: no connection is open between requests."""

    def _poll(self) -> Intake | None:
        source, before = self._source, self._position
        is_first_page = not before.page
        headers = {"Accept": "application/json", **revealed(source.headers)}
        if is_first_page and before.etag:
            headers["If-None-Match"] = before.etag
        answer = send(
            source.host, before.page or self._first_page(), None, headers, method="GET", ca_file=source.ca_file
        )
        self._due = time.monotonic() + max(source.every, answer.pause_seconds)
        digest = hashlib.blake2b(answer.body, digest_size=12).hexdigest()
        if answer.status == 304 or (answer.is_success and is_first_page and digest == before.digest):
            return None
        self._check(answer)
        document = self._decoded(answer)
        payloads, largest = self._payloads(document)
        page = self._next_page(document, before.page or source.url)
        etag = answer.headers.get("etag", "")
        self._position = PollingPosition(
            etag=etag if is_first_page else before.etag,
            digest=digest if is_first_page else before.digest,
            since=largest,
            page=page,
            seen=self._seen.stored(),
        )
        if page:
            self._due = time.monotonic()
        return Intake(
            records={source.topic: block_of_payloads(payloads)} if payloads else {},
            position=msgspec.json.encode(self._position),
        )

    def _first_page(self) -> str:
        source, since = self._source, self._position.since
        if source.since is None or since is None:
            return source.url
        query = [*parse_qsl(source.parts.query, keep_blank_values=True), (source.since_parameter, str(since))]
        return urlunsplit(source.parts._replace(query=urlencode(query)))

    def _next_page(self, document: Any, current: str) -> str:
        page = None if self._source.next is None else value_at(document, self._source.next)
        if not page:
            return ""
        url = urljoin(current, str(page))
        if urlsplit(url)[:2] != self._source.parts[:2]:
            raise ConnectorError(f"the next page of {self._source.host!r} is on another host", hint="look at next=")
        return url

    def _check(self, answer: HttpResponse) -> None:
        text = f"{self._source.host!r} answered with {answer.text}"
        if answer.status in AGAIN:
            raise TargetUnavailableError(text)
        if not answer.is_success:
            raise ConnectorError(text, hint="check the URL and headers=")

    def _decoded(self, answer: HttpResponse) -> Any:
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConnectorError(
                f"the document of {self._source.host!r} is not JSON: {error}", hint="check the URL"
            ) from error

    def _payloads(self, document: Any) -> tuple[list[Payload], int | float | str | None]:
        """Return the records of new items, and the largest value of ``since``."""
        source, now, since = self._source, now_milliseconds(), self._position.since
        items = [document] if source.items is None else value_at(document, source.items)
        if not isinstance(items, list):
            raise ConnectorError(
                f"the document of {source.host!r} has no list at {source.items!r}", hint="correct items="
            )
        payloads, largest = [], since
        for item in items:
            payload = document_payload(item, json_bytes(item), source.fields, now)
            value = None if source.since is None else value_at(item, source.since)
            is_old = source.fields.id is None and _is_larger(since, value, or_equal=True)
            if _is_larger(value, largest):
                largest = value
            if not is_old and (payload.id is None or self._seen.add(payload.id)):
                payloads.append(payload)
        return payloads, largest


def _is_larger(value: Any, other: Any, *, or_equal: bool = False) -> bool:
    """Return whether a value is larger than another; any value is larger than none."""
    if value is None or (or_equal and other is None):
        return False
    if other is None:
        return True
    if isinstance(value, str) != isinstance(other, str):
        raise ConnectorError(
            f"{value!r:.50} and {other!r:.50} cannot be compared", hint="choose another field for since="
        )
    return bool(value >= other if or_equal else value > other)

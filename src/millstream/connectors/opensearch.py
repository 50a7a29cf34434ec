"""Index the last value of each key in OpenSearch or Elasticsearch; versions make a repeated write harmless."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.http_requests import AGAIN, HttpResponse, send
from millstream.connectors.network import check_plain_text, checked_url
from millstream.connectors.rendering import check_template, fields_of, fill, rejected
from millstream.errors import ConnectorError, DefinitionError, SerdeError, TargetUnavailableError
from millstream.foundation.json_text import json_bytes, key_text
from millstream.foundation.text import printable
from millstream.records import Record
from millstream.secret import Secret

_ROW_BITS = 20
_MAX_REQUEST_BYTES = 8 << 20
_MAX_ID_BYTES = 512
_TIMEOUT_SECONDS = 60.0
_CONFLICT, _NOT_FOUND = 409, 404


class OpenSearch:
    """A sink that keeps one document for each key: indexed by a value, deleted by a tombstone.

    ``index`` is a name or a template such as ``"orders-{topic}"``. With ``settings`` an index that does not exist is
    created with these settings and mappings. A write carries the time of its batch as an external version, so that
    writing a batch again, or an older one, changes nothing: effectively once for each document. Deletes are remembered
    by the server for ``index.gc_deletes`` only (60 s by default); set it longer than an outage of the app.

    >>> OpenSearch("https://search:9200", index="orders", user="shop", password=Secret.env("SEARCH_PASSWORD"))
    OpenSearch('https://search:9200', index='orders')
    """

    guarantee: Guarantee = "effectively once"

    def __init__(
        self,
        url: str,
        *,
        index: str,
        settings: Mapping[str, Any] | None = None,
        user: str | None = None,
        password: Secret | None = None,
        api_key: Secret | None = None,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        parts = checked_url(url, ("https", "http"))
        has_secret = password is not None or api_key is not None
        check_plain_text(parts, has_secret=has_secret, allow_plain_text=allow_plain_text)
        if settings is not None and "{" in index:
            raise DefinitionError("settings= needs the name of one index", hint="use an index template of the server")
        self.url = url.rstrip("/")
        self.host = parts.hostname or ""
        self.index = check_template("index", index)
        self.settings = None if settings is None else dict(settings)
        self.user = user
        self.password = password
        self.api_key = api_key
        self.ca_file = ca_file

    def __repr__(self) -> str:
        return f"OpenSearch({self.url!r}, index={self.index!r})"

    def open(self, context: ConnectorContext) -> OpenSearchWriter:
        """Prepare; the server is called by the first batch."""
        return OpenSearchWriter(self, context.name)

    def check(self) -> Sequence[str]:
        """Ask the server for the index, and return what would stop the sink."""
        try:
            return OpenSearchWriter(self, "check").problems()
        except ConnectorError as error:
            return [str(error)]


class _Operation(NamedTuple):
    record: Record[Any, Any]
    lines: bytes


class OpenSearchWriter:
    """Writes the batches of one sink in bulk requests."""

    def __init__(self, sink: OpenSearch, name: str) -> None:
        self._sink = sink
        self._name = name
        self._has_index = sink.settings is None
        self._headers = {"Content-Type": "application/x-ndjson", **_authorization(sink)}

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Index and delete the documents of a batch; those that have a newer version are left as they are."""
        if not self._has_index:
            self._create_index()
        operations, problems = self._operations(batch)
        for chunk in _chunks(operations):
            problems += self._bulk(chunk)
        return problems

    def problems(self) -> list[str]:
        """Return what would stop a first batch; an index that does not exist is created by it."""
        for path in ("/", *([] if "{" in self._sink.index else [f"/{self._sink.index}/_mapping"])):
            answer = self._call("GET", path, None, "application/json")
            if not answer.is_success and answer.status != _NOT_FOUND:
                raise self._refused(answer)
        return []

    def close(self) -> None:
        """There is nothing to close: each request has its own connection."""

    def _operations(self, batch: SinkBatch) -> tuple[list[_Operation], list[Rejected]]:
        if len(batch.records) >= 1 << _ROW_BITS:
            reason = f"batch {batch.number} of sink {self._name!r} has {len(batch.records):,} records"
            raise ConnectorError(reason, hint=f"lower the size of its batches below {1 << _ROW_BITS:,}")
        latest: dict[tuple[str, str], _Operation] = {}
        problems = []
        for row, record in enumerate(batch.records):
            try:
                if record.key is None:
                    raise SerdeError("the record has no key", hint="set one with select_key")
                index, key = fill(self._sink.index, record), key_text(record.key)
                if len(key.encode()) > _MAX_ID_BYTES:
                    raise SerdeError(f"the key has more than {_MAX_ID_BYTES} bytes, the maximum of a document's id")
                latest[index, key] = _operation(record, index, key, batch.wall_time << _ROW_BITS | row)
            except SerdeError as error:
                problems.append(rejected(record, error))
        return list(latest.values()), problems

    def _bulk(self, operations: Sequence[_Operation]) -> list[Rejected]:
        answer = self._call("POST", "/_bulk", b"".join(operation.lines for operation in operations))
        if not answer.is_success:
            raise self._refused(answer)
        items = msgspec.json.decode(answer.body)["items"]
        problems = []
        for operation, item in zip(operations, items, strict=True):
            outcome = next(iter(item.values()))
            status = outcome["status"]
            if status in AGAIN:
                raise TargetUnavailableError(f"{self._sink.host!r} responded with status {status} for a document")
            if not (200 <= status < 300 or status == _CONFLICT or (status == _NOT_FOUND and "error" not in outcome)):
                error = outcome.get("error") or {}
                reason = f"{error.get('type')}: {error.get('reason')}" if isinstance(error, dict) else str(error)
                problems.append(Rejected(operation.record, printable(f"status {status}: {reason}")[:1000]))
        return problems

    def _create_index(self) -> None:
        answer = self._call("PUT", f"/{self._sink.index}", json_bytes(self._sink.settings), "application/json")
        if not answer.is_success and b"resource_already_exists_exception" not in answer.body:
            raise self._refused(answer)
        self._has_index = True

    def _call(self, method: str, path: str, body: bytes | None, kind: str = "application/x-ndjson") -> HttpResponse:
        sink = self._sink
        answer = send(
            sink.host,
            f"{sink.url}{path}",
            body,
            {**self._headers, "Content-Type": kind},
            method=method,
            timeout=_TIMEOUT_SECONDS,
            ca_file=sink.ca_file,
        )
        if answer.status in AGAIN:
            raise TargetUnavailableError(f"{sink.host!r} responded with {answer.text}", sink=self._name)
        return answer

    def _refused(self, answer: HttpResponse) -> ConnectorError:
        text = f"{self._sink.host!r} refused a request of sink {self._name!r} with {answer.text}"
        return ConnectorError(text, hint="check index=, settings= and the permissions of the user", sink=self._name)


def _operation(record: Record[Any, Any], index: str, id: str, version: int) -> _Operation:
    target = {"_index": index, "_id": id, "version": version, "version_type": "external"}
    if record.value is None:
        return _Operation(record, json_bytes({"delete": target}) + b"\n")
    document = json_bytes(fields_of(record.value))
    return _Operation(record, json_bytes({"index": target}) + b"\n" + document + b"\n")


def _chunks(operations: Sequence[_Operation]) -> Iterator[list[_Operation]]:
    """Yield consecutive operations that fit into one request."""
    chunk: list[_Operation] = []
    size = 0
    for operation in operations:
        if chunk and size + len(operation.lines) > _MAX_REQUEST_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(operation)
        size += len(operation.lines)
    if chunk:
        yield chunk


def _authorization(sink: OpenSearch) -> dict[str, str]:
    if sink.api_key is not None:
        return {"Authorization": f"ApiKey {sink.api_key.reveal()}"}
    if sink.password is None:
        return {}
    credentials = f"{sink.user or ''}:{sink.password.reveal()}".encode()
    return {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}

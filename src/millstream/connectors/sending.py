"""Send a batch record by record over HTTP: what a webhook and a chat have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.connect.protocols import ConnectorContext, Rejected, SinkBatch
from millstream.connectors.http_requests import AGAIN, send
from millstream.connectors.progress import SinkProgress
from millstream.errors import SerdeError, TargetUnavailableError
from millstream.foundation.text import error_text
from millstream.records import Record


class OutgoingMessage(NamedTuple):
    """The request for one record."""

    url: str
    body: bytes
    headers: Mapping[str, str]


class MessageWriter:
    """Sends one request for each record, in order: 2xx is done, a few statuses mean again, others reject the record."""

    def __init__(
        self,
        context: ConnectorContext,
        host: str,
        render: Callable[[Record[Any, Any], SinkBatch], OutgoingMessage],
        *,
        max_bytes: int,
        ca_file: str | None,
    ) -> None:
        self._context = context
        self._host = host
        self._render = render
        self._max_bytes = max_bytes
        self._ca_file = ca_file
        self._progress = SinkProgress(context.directory)

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Send the records of a batch that are not sent yet."""
        for record in batch.records[self._progress.begin(batch) :]:
            try:
                message = self._render(record, batch)
                if len(message.body) > self._max_bytes:
                    raise SerdeError(f"the message has {len(message.body)} bytes, more than {self._max_bytes}")
            except SerdeError as error:
                self._progress.done(rejected=error_text(error))
            else:
                self._progress.done(rejected=self._send(message))
        return self._progress.rejections(batch)

    def close(self) -> None:
        """There is nothing to close: each request has its own connection."""

    def _send(self, message: OutgoingMessage) -> str | None:
        """Return None if the target has taken the message, or why it never will."""
        answer = send(self._host, message.url, message.body, message.headers, ca_file=self._ca_file)
        if answer.is_success:
            return None
        if answer.status in AGAIN:
            self._context.stopping.wait(answer.pause_seconds)
            raise TargetUnavailableError(f"{self._host!r} responded with {answer.text}", sink=self._context.name)
        return f"{self._host!r} responded with {answer.text}"

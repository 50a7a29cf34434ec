"""The HTTP protocol of the web server, with a limit of connections and a time limit for requests.

Each connection uses a file of the process: without limits, connections that send nothing could keep all others out. The
limit is high enough for a request that is sent at once to be read before a flood of new connections displaces its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 768
REQUEST_SECONDS = 10.0


class LimitedProtocol(H11Protocol):
    """Closes a connection whose request is not received in time, or the oldest such one if there are too many."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not sent a complete request."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def deadline(self) -> float:
        """The time at which the connection is closed if its request is still incomplete."""
        return float("inf") if self._timer is None else self._timer.when()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._watch_request()
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [peer for peer in self.connections if isinstance(peer, LimitedProtocol) and peer.is_waiting]
            min(waiting, key=lambda peer: peer.deadline).close_now()

    def close_now(self) -> None:
        """Close the connection without sending what is buffered."""
        self._cancel_timer()
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_request()

    def _watch_request(self) -> None:
        if not self.is_waiting:
            self._cancel_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        if self.is_waiting:
            self.close_now()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

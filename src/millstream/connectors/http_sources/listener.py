"""A small HTTP server for webhooks: what it accepts is bounded in size, rate, number and time."""

from __future__ import annotations

import contextlib
import hmac
import queue
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

import msgspec

from millstream.connectors.payloads import Payload, RecordFields, read_payload
from millstream.connectors.standard_webhooks import is_signed
from millstream.foundation.json_text import json_bytes
from millstream.foundation.typed_decoding import decode_json
from millstream.records import Headers

Outcome = Literal["stored", "known", "failed"]
_CONNECTIONS = 128
_IDLE_SECONDS = 10.0
_REQUEST_SECONDS = 30.0
"""How long a connection may take to send its next request, however often it sends a byte."""
_ID_BYTES = 255


class ListenerLimits(NamedTuple):
    """What a listener accepts."""

    path: str
    max_bytes: int
    max_per_second: float
    max_waiting: int
    answer_seconds: float
    requires_json: bool
    requires_id: bool
    fields: RecordFields


class Arrival:
    """A request whose sender waits for the answer."""

    def __init__(self, body: bytes, id: str | None, content_type: str, fields: RecordFields) -> None:
        self.body = body
        self.id = id
        self.headers: Headers = tuple(
            (name, value.encode()) for name, value in (("content-type", content_type), ("http-id", id or "")) if value
        )
        self.repeats: list[Arrival] = []
        """Requests with the same id that came in the meantime."""
        self.outcome: Outcome | None = None
        self._fields = fields
        self._answered = threading.Event()

    def payload(self, now: int) -> Payload:
        """Return the record of the request."""
        return read_payload(self.body, self._fields, now)

    def answer(self, outcome: Outcome) -> None:
        """Let the sender know."""
        self.outcome = outcome
        self._answered.set()
        for repeat in self.repeats:
            repeat.answer("known" if outcome == "stored" else outcome)

    def wait(self, seconds: float) -> Outcome:
        """Return the answer; without one in time, the sender has to send it again."""
        self._answered.wait(seconds)
        return self.outcome or "failed"


class RefusedRequest(Exception):  # noqa: N818 - it is the answer to a request
    """A request that is not accepted."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Listener:
    """Listens from the start; ``arrivals`` has the requests that were accepted."""

    def __init__(
        self,
        address: tuple[str, int],
        limits: ListenerLimits,
        key: bytes | None,
        token: str | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits, self.key, self.token, self.tls = limits, key, token, tls
        self.arrivals: queue.Queue[Arrival] = queue.Queue(limits.max_waiting)
        self._allowance = max(limits.max_per_second, 1.0)
        self._refilled = time.monotonic()
        self._lock = threading.Lock()
        self._is_closed = False
        self.slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._server = _Server(address, self)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and answer what waits."""
        self._server.shutdown()
        self._server.server_close()
        with self._lock:  # connections stay open: their next request would wait for an answer that nothing gives
            self._is_closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self.arrivals.get_nowait().answer("failed")

    def accept(self, arrival: Arrival) -> Outcome:
        """Hand a request over, and wait until its record is durable."""
        with self._lock:
            now = time.monotonic()
            rate = self.limits.max_per_second
            self._allowance = min(max(rate, 1.0), self._allowance + (now - self._refilled) * rate)
            self._refilled = now
            if self._allowance < 1:
                raise RefusedRequest(429, f"more than {rate:g} requests per second")
            self._allowance -= 1
            if self._is_closed:
                return "failed"
            try:
                self.arrivals.put_nowait(arrival)
            except queue.Full:
                raise RefusedRequest(503, f"{self.limits.max_waiting} requests are waiting") from None
        return arrival.wait(self.limits.answer_seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _CONNECTIONS

    def __init__(self, address: tuple[str, int], listener: Listener) -> None:
        self.listener = listener
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._reading: dict[socket.socket, float] = {}
        """Connections whose next request is not complete, and since when."""
        self._reading_lock = threading.Lock()
        super().__init__(address, _Handler)

    def begin_reading(self, connection: socket.socket) -> None:
        """Close a connection unless ``end_reading`` is called in time."""
        with self._reading_lock:
            self._reading[connection] = time.monotonic()

    def end_reading(self, connection: socket.socket) -> None:
        """Let the connection wait for its answer."""
        with self._reading_lock:
            self._reading.pop(connection, None)

    def service_actions(self) -> None:
        """End connections that are too slow; called several times per second."""
        with self._reading_lock:
            slow = [each for each, since in self._reading.items() if time.monotonic() - since > _REQUEST_SECONDS]
            for connection in slow:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in a thread, or close it if there are too many."""
        if not self.listener.slots.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self.listener.tls is not None:
                request = self._encrypted(request, self.listener.tls)
            if request is not None:
                super().process_request_thread(request, client_address)
        finally:
            self.listener.slots.release()

    def _encrypted(self, request: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket | None:
        """Return the connection after the handshake; None if the client does not speak TLS."""
        request.settimeout(_IDLE_SECONDS)
        encrypted = tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self.begin_reading(encrypted)
        try:
            encrypted.do_handshake()
        except OSError:
            encrypted.close()
            return None
        finally:
            self.end_reading(encrypted)
        return encrypted

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing: the client has closed its connection or was too slow."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "millstream"
    sys_version = ""
    timeout = _IDLE_SECONDS
    wbufsize = -1  # the whole answer at once: else its body waits until the client acknowledges its head
    server: _Server

    def handle_one_request(self) -> None:
        """Handle a request, which has to be complete in time."""
        self.server.begin_reading(self.connection)
        try:
            super().handle_one_request()
        finally:
            self.server.end_reading(self.connection)

    def do_POST(self) -> None:
        """Store the body as a record, and answer when it is durable."""
        listener = self.server.listener
        try:
            arrival = self._arrival(listener)
            outcome = listener.accept(arrival)
        except RefusedRequest as refusal:
            self._answer(refusal.status, {"error": str(refusal)})
            return
        if outcome == "failed":
            self._answer(503, {"error": "the record was not stored in time; send it again"})
        else:
            self._answer(200, {"status": outcome})

    def _arrival(self, listener: Listener) -> Arrival:
        limits = listener.limits
        if self.path.partition("?")[0] != limits.path:
            raise RefusedRequest(404, "not found")
        body = self._body(limits.max_bytes)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if listener.token is not None:
            expected = f"Bearer {listener.token}".encode()
            if not hmac.compare_digest(headers.get("authorization", "").encode(), expected):
                raise RefusedRequest(401, "the token is missing or wrong")
        if listener.key is not None and not is_signed(listener.key, headers, body, time.time()):
            raise RefusedRequest(401, "the signature is missing, wrong or too old")
        request_id = headers.get("idempotency-key") or headers.get("webhook-id")
        if listener.key is not None:
            request_id = headers["webhook-id"]  # the other one is not signed
        if request_id is None and limits.requires_id:
            raise RefusedRequest(400, "the header idempotency-key is missing")
        if request_id is not None and len(request_id) > _ID_BYTES:
            raise RefusedRequest(400, f"the idempotency key has more than {_ID_BYTES} characters")
        if limits.requires_json:
            _check_json(body)
        return Arrival(body, request_id, headers.get("content-type", ""), limits.fields)

    def _body(self, max_bytes: int) -> bytes:
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise RefusedRequest(411, "the header content-length is missing")
        if int(length) > max_bytes:
            self.close_connection = True
            raise RefusedRequest(413, f"a request can have {max_bytes} bytes")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            raise RefusedRequest(400, "the request is not complete")
        self.server.end_reading(self.connection)
        return body

    def _answer(self, status: int, answer: dict[str, str]) -> None:
        body = json_bytes(answer)
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if status in (429, 503):
            self.send_header("retry-after", "1")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Do not write requests to standard error."""


def _check_json(body: bytes) -> None:
    try:
        decode_json(body, msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedRequest(400, f"the body is not JSON: {error}") from None

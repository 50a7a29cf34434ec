"""An HTTP server in this process that keeps what it receives, with answers that a test chooses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    """The time of its arrival, in seconds."""


class Receiver:
    """What was received, and the answers to the next requests; 204 if there are none."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.received: list[Received] = []
        self.answers: list[tuple[int, dict[str, str]]] = []


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """Serve on a port until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            target.received.append(Received(self.path, headers, body, time.time()))
            status, answered = target.answers.pop(0) if target.answers else (204, {})
            self.send_response(status)
            for name, value in answered.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # with the default of 5, connections of a burst are refused for a second

    server = Server(("127.0.0.1", port), Handler)
    target = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield target
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A TCP proxy in front of a broker that can delay single requests and drop responses."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

END_TXN = 26
_NONE = -1
_HEADER = struct.Struct(">ih")  # length, then the API key of the request


class Proxy:
    """Forwards requests one by one, and delays requests or drops responses of a kind.

    The client must reach the broker only through the proxy, so the broker has to advertise the proxy's address.
    """

    def __init__(self, port: int, target: int) -> None:
        self.held = threading.Event()
        """Set when a request is held or a response was dropped."""
        self._held_kind = self._swallowed_kind = _NONE
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self._released = threading.Event()
        self._closing = threading.Event()
        self._sockets: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def hold(self, request: int) -> None:
        """Hold all requests of a kind from now on."""
        self.held.clear()
        self._released.clear()
        self._held_kind = request

    def release(self) -> None:
        """Forward the held requests to the broker, and hold no more."""
        self._held_kind = _NONE
        self._released.set()

    def swallow(self, request: int) -> None:
        """Forward the next request of a kind, but close the connection when its response arrives."""
        self.held.clear()
        self._swallowed_kind = request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._released.set()
        _cut(self._listener)  # wakes the thread that waits for the next client
        self._accepting.join()
        self._listener.close()
        _cut(*self._sockets)
        for connection in self._sockets:
            connection.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the broker is down
                client.close()
                continue
            self._sockets += [client, broker]
            is_dropping = threading.Event()
            threading.Thread(target=self._forward, args=(client, broker, is_dropping), daemon=True).start()
            threading.Thread(target=self._answer, args=(broker, client, is_dropping), daemon=True).start()

    def _forward(self, client: socket.socket, broker: socket.socket, is_dropping: threading.Event) -> None:
        """Forward requests one by one; each starts with its length and its API key."""
        buffered = b""
        try:
            while part := client.recv(65_536):
                buffered += part
                while len(buffered) >= _HEADER.size and len(buffered) >= (size := _HEADER.unpack_from(buffered)[0] + 4):
                    request, buffered = buffered[:size], buffered[size:]
                    kind = _HEADER.unpack_from(request)[1]
                    if kind == self._held_kind:
                        self.held.set()
                        self._released.wait()
                    if kind == self._swallowed_kind:
                        self._swallowed_kind = _NONE
                        is_dropping.set()
                    broker.sendall(request)
        except OSError:
            pass
        _cut(client, broker)

    def _answer(self, broker: socket.socket, client: socket.socket, is_dropping: threading.Event) -> None:
        try:
            while part := broker.recv(65_536):
                if is_dropping.is_set():
                    self.held.set()
                    break
                client.sendall(part)
        except OSError:
            pass
        _cut(client, broker)


def _cut(*ends: socket.socket) -> None:
    """Shut sockets down, which wakes all threads that wait for them."""
    for end in ends:
        with suppress(OSError):  # the other thread has already shut it down
            end.shutdown(socket.SHUT_RDWR)

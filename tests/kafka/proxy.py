"""A TCP proxy in front of a broker that can hold single requests back: time goes wrong on purpose."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Self

END_TXN = 26
_NONE = -1
_HEADER = struct.Struct(">ih")  # length, then the number of the request


class Proxy:
    """Passes requests on, one by one, and holds or swallows what it is told to.

    The client must reach the broker through it alone, so the broker has to advertise the proxy's address.
    """

    def __init__(self, port: int, target: int) -> None:
        self.held = threading.Event()
        """A request is held, or an answer was swallowed."""
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
        """Let what was held go on to the broker, and hold nothing more."""
        self._held_kind = _NONE
        self._released.set()

    def swallow(self, request: int) -> None:
        """Pass the next request of a kind on, but cut the connection when its answer comes."""
        self.held.clear()
        self._swallowed_kind = request

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._released.set()
        _cut(self._listener)  # only this wakes whoever waits for the next client
        self._accepting.join()
        self._listener.close()
        _cut(*self._sockets)
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # it is down: so are we
                client.close()
                continue
            self._sockets += [client, broker]
            deaf = threading.Event()
            threading.Thread(target=self._forward, args=(client, broker, deaf), daemon=True).start()
            threading.Thread(target=self._answer, args=(broker, client, deaf), daemon=True).start()

    def _forward(self, client: socket.socket, broker: socket.socket, deaf: threading.Event) -> None:
        """Pass on requests one by one; each begins with its length and its number."""
        waiting = b""
        try:
            while part := client.recv(65_536):
                waiting += part
                while len(waiting) >= _HEADER.size and len(waiting) >= (size := _HEADER.unpack_from(waiting)[0] + 4):
                    request, waiting = waiting[:size], waiting[size:]
                    kind = _HEADER.unpack_from(request)[1]
                    if kind == self._held_kind:
                        self.held.set()
                        self._released.wait()
                    if kind == self._swallowed_kind:
                        self._swallowed_kind = _NONE
                        deaf.set()
                    broker.sendall(request)
        except OSError:
            pass
        _cut(client, broker)

    def _answer(self, broker: socket.socket, client: socket.socket, deaf: threading.Event) -> None:
        try:
            while part := broker.recv(65_536):
                if deaf.is_set():
                    self.held.set()
                    break
                client.sendall(part)
        except OSError:
            pass
        _cut(client, broker)


def _cut(*ends: socket.socket) -> None:
    """Shut sockets down, so that whoever waits for one, in any thread, is woken."""
    for end in ends:
        with suppress(OSError):  # the other thread was here first
            end.shutdown(socket.SHUT_RDWR)

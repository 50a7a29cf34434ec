"""Connections between processes of one run on several hosts, which prove to each other that they know its secret.

Messages are not encrypted, as Spark's shuffle data is not unless that is configured. A host that does not respond is
given up after half a minute, as by Spark itself.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

SILENT_SECONDS = 30
_HANDSHAKE_SECONDS = 10.0
_NONCE_BYTES = 32
_PROOF_BYTES = 32
_MAX_HELLO_BYTES = 4096
_CONNECT_SECONDS = 10.0
_length = struct.Struct("!Q")

Address = tuple[str, int]


class Peer:
    """A connection to another process; one thread may send while another receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        _give_up_silent_hosts(connected)

    @property
    def own_host(self) -> str:
        """The address of this host, as the other process reaches it."""
        return str(self._socket.getsockname()[0])

    def send(self, message: bytes) -> None:
        """Send a message; EOFError if the other process is gone."""
        try:
            self._socket.sendall(_length.pack(len(message)) + message)
        except OSError as error:
            raise EOFError from error

    def receive(self) -> bytes:
        """Wait for a message; EOFError if the other process is gone."""
        try:
            (size,) = _length.unpack(_received(self._socket, _length.size))
            return _received(self._socket, size)
        except OSError as error:
            raise EOFError from error

    def close(self) -> None:
        """Close the connection; a thread that receives from it gets an EOFError."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class PeerServer:
    """Accepts connections in a thread, and serves each in its own; ``serve`` gets the connection and its first message.

    A connection without the right secret is closed.
    """

    def __init__(self, host: str, secret: bytes, serve: Callable[[Peer, bytes], None]) -> None:
        self._secret = secret
        self._serve = serve
        self._server = socket.create_server((host, 0))
        self.port: int = self._server.getsockname()[1]
        self._peers: set[Peer] = set()
        self._is_closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="millstream-peers", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connected, _ = self._server.accept()
                threading.Thread(target=self._greet, args=(connected,), name="millstream-peer", daemon=True).start()

    def _greet(self, connected: socket.socket) -> None:
        try:
            hello = _check_client(connected, self._secret)
        except (OSError, EOFError, PermissionError):
            connected.close()
            return
        peer = Peer(connected)
        with self._lock:
            if self._is_closed:
                peer.close()
                return
            self._peers.add(peer)
        try:
            self._serve(peer, hello)
        finally:
            peer.close()
            with self._lock:
                self._peers.discard(peer)

    def close(self) -> None:
        """Accept no more connections, and close all that were accepted."""
        with self._lock:
            self._is_closed = True
            peers = list(self._peers)
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._server.close()
        for peer in peers:
            peer.close()


def connect(address: Address, secret: bytes, hello: bytes) -> Peer:
    """Connect to a server; EOFError if it cannot be reached, PermissionError if it does not know the secret."""
    try:
        connected = socket.create_connection(address, timeout=_CONNECT_SECONDS)
        try:
            _prove_to_server(connected, secret, hello)
        except BaseException:
            connected.close()
            raise
    except PermissionError:
        raise
    except OSError as error:
        raise EOFError from error
    return Peer(connected)


def _prove_to_server(connected: socket.socket, secret: bytes, hello: bytes) -> None:
    connected.settimeout(_HANDSHAKE_SECONDS)
    own = secrets.token_bytes(_NONCE_BYTES)
    connected.sendall(own)
    other = _received(connected, _NONCE_BYTES)
    if not hmac.compare_digest(_received(connected, _PROOF_BYTES), _proof(secret, b"server", own, other)):
        raise PermissionError("the server does not know the secret of the run")
    connected.sendall(_proof(secret, b"client", own, other, hello) + _length.pack(len(hello)) + hello)
    connected.settimeout(None)


def _check_client(connected: socket.socket, secret: bytes) -> bytes:
    """Return the first message of a client that knows the secret."""
    connected.settimeout(_HANDSHAKE_SECONDS)
    other, own = _received(connected, _NONCE_BYTES), secrets.token_bytes(_NONCE_BYTES)
    connected.sendall(own + _proof(secret, b"server", other, own))
    proof = _received(connected, _PROOF_BYTES)
    (size,) = _length.unpack(_received(connected, _length.size))
    if size > _MAX_HELLO_BYTES:
        raise PermissionError("the first message is too long")
    hello = _received(connected, size)
    if not hmac.compare_digest(proof, _proof(secret, b"client", other, own, hello)):
        raise PermissionError("the client does not know the secret of the run")
    connected.settimeout(None)
    return hello


def _proof(secret: bytes, *parts: bytes) -> bytes:
    return hmac.digest(secret, b"".join(parts), "sha256")


def _received(connected: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connected.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return bytes(data)


def _give_up_silent_hosts(connected: socket.socket) -> None:
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = 5
    options: dict[str, Any] = {
        "TCP_KEEPIDLE": SILENT_SECONDS // (probes + 1),
        "TCP_KEEPINTVL": SILENT_SECONDS // (probes + 1),
        "TCP_KEEPCNT": probes,
        "TCP_USER_TIMEOUT": SILENT_SECONDS * 1000,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not on every system
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

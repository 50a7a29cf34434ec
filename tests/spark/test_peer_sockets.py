"""Connections between processes of a run: whole messages, the secret, and the end of the other side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from millstream.spark.peer_sockets import Peer, PeerServer, connect

SECRET = b"s" * 32
HOST = "127.0.0.1"


def echo(peer: Peer, hello: bytes) -> None:
    """Send back everything, the first message too."""
    peer.send(hello)
    try:
        while True:
            peer.send(peer.receive())
    except EOFError:
        ended.set()


ended = threading.Event()


@pytest.fixture
def server() -> Iterator[PeerServer]:
    ended.clear()
    server = PeerServer(HOST, SECRET, echo)
    yield server
    server.close()


def test_messages_of_all_sizes_arrive_whole_and_in_order(server: PeerServer) -> None:
    peer = connect((HOST, server.port), SECRET, b"hello")
    assert peer.receive() == b"hello"
    for message in (b"", b"a", b"b" * 5_000_000, b"c"):
        threading.Thread(target=peer.send, args=(message,)).start()  # both directions at the same time
        assert peer.receive() == message
    assert peer.own_host == HOST
    peer.close()
    assert ended.wait(10), "the other side notices the end"


def test_a_client_without_the_secret_is_not_served(server: PeerServer) -> None:
    with pytest.raises(PermissionError, match="does not know the secret"):
        connect((HOST, server.port), b"x" * 32, b"hello")
    with socket.create_connection((HOST, server.port)) as other:
        other.sendall(b"n" * 32)  # a nonce, then a wrong proof and a message
        assert len(other.recv(64, socket.MSG_WAITALL)) == 64
        other.sendall(bytes(32) + (5).to_bytes(8) + b"hello")
        assert other.recv(1) == b"", "closed without an answer"


def test_a_long_first_message_is_refused_before_it_is_read(server: PeerServer) -> None:
    with socket.create_connection((HOST, server.port)) as other:
        other.sendall(b"n" * 32)
        other.recv(64, socket.MSG_WAITALL)
        other.sendall(bytes(32) + (1 << 40).to_bytes(8))
        assert other.recv(1) == b""


def test_closing_a_server_ends_its_connections_and_later_ones_are_refused(server: PeerServer) -> None:
    peer = connect((HOST, server.port), SECRET, b"")
    assert peer.receive() == b""
    server.close()
    with pytest.raises(EOFError):
        peer.receive()
    peer.close()
    with pytest.raises(EOFError):
        connect((HOST, server.port), SECRET, b"")

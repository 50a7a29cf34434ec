"""Connections that send nothing, or half a request, must not exhaust the server."""

from __future__ import annotations

import contextlib
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.conftest import web_server

from millstream.log import EmbeddedLog
from millstream.serve import connections
from millstream.serve.server import WebServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    EmbeddedLog(tmp_path / "data").close()
    with web_server(tmp_path / "data") as server:
        yield server


def connect(server: WebServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def read_to_end(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection; fails if it does not."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65536):
            received += data
    return received


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection instead of sending something."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HTTP/1.1\r\nHost: local", b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nt"],
)
def test_an_incomplete_request_is_closed_in_time(
    server: WebServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with connect(server) as connection:
        connection.sendall(sent)
        assert b" 200 " not in read_to_end(connection)


def test_the_second_request_of_a_connection_has_a_time_limit_too(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with connect(server) as connection:
        connection.sendall(b"GET /api/csrf HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in connection.recv(65536)
        connection.sendall(b"GET / HT")
        assert b" 200 " not in read_to_end(connection)


def test_idle_connections_do_not_keep_a_client_out(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    idle = [connect(server) for _ in range(30)]
    assert all(is_closed(connection) for connection in idle[:20])
    assert urllib.request.urlopen(f"{server.url}/api/topics", timeout=30).status == 200
    assert len(server._server.server_state.connections) <= 8
    for connection in idle:
        connection.close()


def test_a_stream_has_no_deadline(server: WebServer) -> None:
    stream = urllib.request.urlopen(f"{server.url}/api/live/progress", timeout=30)
    assert stream.readline().startswith(b"event: progress")
    (connection,) = server._server.server_state.connections
    assert isinstance(connection, connections.LimitedProtocol)
    assert connection.deadline == float("inf")
    stream.close()

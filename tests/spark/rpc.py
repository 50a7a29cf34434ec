"""A request to a port of Spark from a program that does not know its secret."""

from __future__ import annotations

import socket
import struct


def requires_authentication(host: str, port: int) -> bool:
    """Whether a port of Spark refuses a serialized Java object before it deserializes it."""
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(_rpc_frame())
        answer = connection.recv(65536)
    assert b"ClassNotFoundException" not in answer, "it has been deserialized"
    return b"Expected SaslMessage" in answer


def _rpc_frame() -> bytes:
    """Return a request to an endpoint of the driver whose body is a serialized Java object of an unknown class."""
    unknown_class = b"evil.Ab"
    serialized = b"\xac\xed\x00\x05sr" + struct.pack(">H", len(unknown_class)) + unknown_class
    serialized += struct.pack(">qBH", 1, 2, 0) + b"xp"
    endpoint = b"endpoint-verifier"
    body = b"\x00\x00" + struct.pack(">H", len(endpoint)) + endpoint + serialized
    message = struct.pack(">Bqi", 3, 1, len(body)) + body
    return struct.pack(">q", len(message) + 8) + message

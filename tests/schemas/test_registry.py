"""The registry's REST API, and misbehaving registries."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.schemas.registry import Registry

from millstream import Secret
from millstream.errors import AccessDeniedError, BrokerError, BrokerUnavailableError, DefinitionError, SerdeError
from millstream.schemas import Avro, SchemaRegistry
from millstream.schemas.registry import Schema


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


def test_user_and_password_are_sent_and_never_printed(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "canary-51")
    client = SchemaRegistry(registry.url, user="me", password=Secret.env("REGISTRY_PASSWORD"))
    client.register("s", Schema('"int"'))
    assert registry.authorizations == ["Basic " + base64.b64encode(b"me:canary-51").decode()]
    registry.answer = lambda path: (401, b"", {})
    with pytest.raises(AccessDeniedError) as caught:
        client.register("other", Schema('"int"'))
    assert "canary" not in str(caught.value) + repr(vars(client))


def test_redirects_are_not_followed(registry: Registry) -> None:
    registry.answer = lambda path: (302, b"", {"Location": "http://169.254.169.254/latest/meta-data"})
    with pytest.raises(BrokerError, match="redirects to another URL"):
        SchemaRegistry(registry.url).schema(1)
    assert len(registry.requests) == 1


def test_an_oversized_response_is_refused(registry: Registry) -> None:
    registry.answer = lambda path: (200, b'{"schema": "' + b"x" * 10_000_000 + b'"}', {})
    with pytest.raises(BrokerError, match="larger than"):
        SchemaRegistry(registry.url).schema(1)


def test_a_deeply_nested_schema_is_refused(registry: Registry) -> None:
    deep = '{"type": "array", "items": ' * 500 + '"int"' + "}" * 500
    registry.schemas.append({"schema": deep, "schemaType": "AVRO"})
    serde = Avro({"type": "record", "name": "R", "fields": []}, SchemaRegistry(registry.url))
    with pytest.raises(SerdeError, match="deep"):
        serde.decode(b"\0\0\0\0\1x")


def test_invalid_responses_and_failures_raise_an_error(registry: Registry) -> None:
    registry.answer = lambda path: (200, b"<html>", {})
    with pytest.raises(BrokerError, match="check its URL"):
        SchemaRegistry(registry.url).schema(1)
    registry.answer = lambda path: (503, b"", {})
    with pytest.raises(BrokerUnavailableError, match="503"):
        SchemaRegistry(registry.url).schema(1)


def test_a_response_that_drips_is_given_up() -> None:
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not stop.wait(0.05):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        with pytest.raises(BrokerUnavailableError, match="not complete in time"):
            SchemaRegistry(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.5).schema(1)
        stop.set()
        thread.join()


def test_an_unreachable_registry_raises_an_error() -> None:
    with pytest.raises(BrokerUnavailableError, match="check that it is running"):
        SchemaRegistry("http://127.0.0.1:1", timeout=2).schema(1)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://registry.example:8081", "not https"),
        ("ftp://registry", "must be https"),
        ("https://me:canary@registry", "without a user"),
        ("registry:8081", "must be https"),
    ],
)
def test_an_unsafe_url_is_refused(url: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        SchemaRegistry(url)
    assert "canary" not in str(caught.value)

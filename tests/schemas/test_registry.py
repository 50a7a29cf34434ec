"""The registry's REST interface, and registries that misbehave."""

from __future__ import annotations

import base64
from collections.abc import Iterator

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


def test_user_and_password_are_sent_and_never_shown(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PASSWORD", "canary-51")
    client = SchemaRegistry(registry.url, user="me", password=Secret.env("REGISTRY_PASSWORD"))
    client.register("s", Schema('"int"'))
    assert registry.authorizations == ["Basic " + base64.b64encode(b"me:canary-51").decode()]
    registry.answer = lambda path: (401, b"", {})
    with pytest.raises(AccessDeniedError) as caught:
        client.register("other", Schema('"int"'))
    assert "canary" not in str(caught.value) + repr(vars(client))


def test_another_place_is_not_followed(registry: Registry) -> None:
    registry.answer = lambda path: (302, b"", {"Location": "http://169.254.169.254/latest/meta-data"})
    with pytest.raises(BrokerError, match="elsewhere"):
        SchemaRegistry(registry.url).schema(1)
    assert len(registry.requests) == 1


def test_an_answer_without_end_is_not_read(registry: Registry) -> None:
    registry.answer = lambda path: (200, b'{"schema": "' + b"x" * 10_000_000 + b'"}', {})
    with pytest.raises(BrokerError, match="larger than"):
        SchemaRegistry(registry.url).schema(1)


def test_a_schema_nested_without_end_is_refused(registry: Registry) -> None:
    deep = '{"type": "array", "items": ' * 500 + '"int"' + "}" * 500
    registry.schemas.append({"schema": deep, "schemaType": "AVRO"})
    serde = Avro({"type": "record", "name": "R", "fields": []}, SchemaRegistry(registry.url))
    with pytest.raises(SerdeError, match="deep"):
        serde.decode(b"\0\0\0\0\1x")


def test_what_is_no_answer_is_said_to_be_none(registry: Registry) -> None:
    registry.answer = lambda path: (200, b"<html>", {})
    with pytest.raises(BrokerError, match="check its URL"):
        SchemaRegistry(registry.url).schema(1)
    registry.answer = lambda path: (503, b"", {})
    with pytest.raises(BrokerUnavailableError, match="503"):
        SchemaRegistry(registry.url).schema(1)


def test_a_registry_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(BrokerUnavailableError, match="is it running"):
        SchemaRegistry("http://127.0.0.1:1", timeout=2).schema(1)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://registry.example:8081", "not https"),
        ("ftp://registry", "named as https"),
        ("https://me:canary@registry", "without a user"),
        ("registry:8081", "named as https"),
    ],
)
def test_an_address_that_is_not_safe_is_refused(url: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason) as caught:
        SchemaRegistry(url)
    assert "canary" not in str(caught.value)

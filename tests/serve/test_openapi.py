"""The API conforms to its document, and survives arbitrary requests."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.serve.conftest import filled, serving, web_server

from millstream.serve.openapi import openapi_document
from millstream.serve.server import WebServer
from millstream.serve.web import OPERATIONS

_CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_KNOWN = {"topic": "rides", "app": "rides-app", "table": "per_zone", "group": "rides-app", "key": "zone-1"}
_CALLED = [operation for operation in OPERATIONS if "text/event-stream" not in operation.media_types]

pytestmark = pytest.mark.xdist_group("openapi")  # so that one server serves all


@pytest.fixture(params=_CALLED, ids=lambda operation: f"{operation.method} {operation.path}")
def schema(request: pytest.FixtureRequest) -> Any:
    """Return the document of one operation; its examples are generated in its test, not when tests are collected."""
    request.node._nodeid = request.node.nodeid  # schemathesis expects this attribute, which pytest 9.2 has renamed
    return schemathesis.openapi.from_dict(openapi_document((request.param,)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Return a real server with data that tests can change."""
    with web_server(filled(tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="module")
def token(server: WebServer) -> str:
    """Return the token that requests of this server need."""
    token: str = urllib.request.urlopen(f"{server.url}/api/csrf").read().decode()
    return token


@pytest.mark.slow
@schemathesis.pytest.from_fixture("schema").parametrize()
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=[*HealthCheck])
def test_every_operation_survives_arbitrary_requests(case: Any, server: WebServer, token: str) -> None:
    for name, given in (case.path_parameters or {}).items():  # half of the requests use existing names
        if name in _KNOWN and len(str(given)) % 2:
            case.path_parameters[name] = _KNOWN[name]
    answer = case.call(base_url=server.url, headers={"X-CSRF-Token": token, "Authorization": ""})
    case.validate_response(answer, checks=_CHECKS)


def test_the_document_names_every_operation_once() -> None:
    document = openapi_document(OPERATIONS)
    listed = [
        (method, path, operation["operationId"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    assert len(listed) == len(OPERATIONS) == len({name for *_, name in listed})
    assert all(operation["summary"] for methods in document["paths"].values() for operation in methods.values())


def test_the_document_is_served(filled_dir: Path) -> None:
    served = serving(filled_dir)
    assert served.get("/api/openapi.json") == openapi_document(OPERATIONS)
    served.site.directory.close()

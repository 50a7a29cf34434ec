"""A schema registry in this process: the REST API over HTTP, with compatibility checks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote


class Registry:
    """Stores schemas by id and subject, and records requests so that tests can check caching."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.authorizations: list[str | None] = []
        self.answer: Callable[[str], tuple[int, bytes, dict[str, str]] | None] = lambda path: None
        """Set by a test to replace the response."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.serve(self, None)

            def do_POST(self) -> None:
                registry.serve(self, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def serve(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        self.requests.append(f"{handler.command} {handler.path}")
        self.authorizations.append(handler.headers["Authorization"])
        status, answer, headers = self.answer(handler.path) or self._answer(handler.path, body)
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _answer(self, path: str, body: Any) -> tuple[int, bytes, dict[str, str]]:
        parts = path.strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            exists = int(parts[2]) - 1 < len(self.schemas)
            schema: Any = self.schemas[int(parts[2]) - 1] if exists else {"error_code": 40403}
            return 200 if exists else 404, json.dumps(schema).encode(), {}
        subject = unquote(parts[1])
        if body is None:
            numbers = self.subjects.get(subject, [])
            if not numbers:
                return 404, b'{"error_code": 40401}', {}
            number = numbers[-1 if parts[3] == "latest" else int(parts[3]) - 1]
            return 200, json.dumps({"id": number, **self.schemas[number - 1]}).encode(), {}
        if body not in self.schemas:
            versions = [self.schemas[number - 1] for number in self.subjects.get(subject, [])]
            if versions and body["schemaType"] == "AVRO" and not _is_backward_compatible(versions[-1], body):
                return 409, b'{"error_code": 409, "message": "a new field has no default"}', {}
            self.schemas.append(body)
        number = self.schemas.index(body) + 1
        self.subjects.setdefault(subject, []).append(number)
        return 200, json.dumps({"id": number}).encode(), {}


def _is_backward_compatible(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether data written with the old schema can be read with the new one."""
    old_names = {field["name"] for field in json.loads(old["schema"])["fields"]}
    return all(field["name"] in old_names or "default" in field for field in json.loads(new["schema"])["fields"])

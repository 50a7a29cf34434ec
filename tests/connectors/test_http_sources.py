"""Webhooks are answered when they are durable, and what is polled is stored once."""

from __future__ import annotations

import base64
import contextlib
import queue
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tests.connectors.source_reading import LONG, Reading
from tests.kafka.certificates import Certificates

from millstream import Secret
from millstream.connect.protocols import ConnectorContext
from millstream.connectors.http_requests import HttpResponse, send
from millstream.connectors.http_sources import HttpEndpoint, HttpPolling
from millstream.connectors.http_sources.endpoint import HttpEndpointReader
from millstream.connectors.http_sources.listener import Arrival
from millstream.connectors.standard_webhooks import signature
from millstream.errors import ConnectorError, DefinitionError, MillstreamError, TargetUnavailableError
from millstream.records import Record
from millstream.testing.connectors import SOURCE_CASES, SourceSystem, check_source
from millstream.testing.kafka.node import free_port

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


def post(port: int, body: bytes, path: str = "/", **headers: str) -> HttpResponse:
    """Send a request as a webhook does."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return send("127.0.0.1", f"http://127.0.0.1:{port}{path}", body, named, timeout=LONG)


class Webhooks(SourceSystem):
    """A service that sends each change until it is answered with success, those of a key in order."""

    topic = "changes"
    patience = 0.05

    def __init__(self) -> None:
        self._port = free_port()
        self._changes: dict[str, queue.Queue[tuple[str, bytes]]] = {}
        self._count = 0

    def _send(self, changes: queue.Queue[tuple[str, bytes]]) -> None:
        while True:
            number, body = changes.get()
            while True:
                try:
                    if post(self._port, body, idempotency_key=number).is_success:
                        break
                except MillstreamError:
                    threading.Event().wait(0.005)  # nothing listens; a service pauses too
            changes.task_done()

    def source(self) -> Endpoint:
        return Endpoint(self, f"127.0.0.1:{self._port}", topic=self.topic, key="key", deleted="gone", remember=5)

    @property
    def is_done(self) -> bool:
        return all(changes.unfinished_tasks == 0 for changes in self._changes.values())

    def change(self, key: str, number: int | None) -> None:
        self._count += 1
        body = msgspec.json.encode({"key": key, "number": number, "gone": number is None})
        if key not in self._changes:
            self._changes[key] = queue.Queue()
            threading.Thread(target=self._send, args=(self._changes[key],), daemon=True).start()
        self._changes[key].put((f"id{self._count}", body))

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["number"])


class Endpoint(HttpEndpoint):
    """An endpoint that has caught up when its one client has nothing more to send."""

    def __init__(self, system: Webhooks, address: str, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._system = system

    def open(self, position: bytes | None, context: ConnectorContext, /) -> HttpEndpointReader:
        reader = super().open(position, context)
        reader.has_caught_up = lambda: self._system.is_done  # type: ignore[attr-defined]
        return reader


@pytest.mark.parametrize("case", SOURCE_CASES)
def test_the_endpoint_passes_the_kit(case: str, tmp_path: Path) -> None:
    check_source(case, Webhooks, tmp_path)


def test_with_a_certificate_the_endpoint_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    pem = str(certificates.broker("hooks"))  # key and certificate in one file
    for reading, port in endpoint(tmp_path, certificate=pem, private_key=pem):
        url, answers = f"https://127.0.0.1:{port}/", list[Any]()
        with pytest.raises(TargetUnavailableError):
            post(port, b"1")
        with pytest.raises(ConnectorError, match="certificate"):
            send("127.0.0.1", url, b"1", {}, ca_file=str(certificates.other_ca))

        def post_securely(url: str = url, answers: list[Any] = answers) -> None:
            answers.append(send("127.0.0.1", url, b"1", {}, timeout=LONG, ca_file=str(certificates.ca)))

        thread = threading.Thread(target=post_securely)
        thread.start()
        assert reading.read(LONG) == [(None, 1)]
        thread.join(LONG)
        assert [answer.status for answer in answers] == [200]


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("nothing")
    pem = str(tmp_path / "no.pem")
    source = HttpEndpoint("127.0.0.1:0", topic="in", certificate=pem, private_key=pem)
    assert "no.pem' with key" in source.check()[0]
    with pytest.raises(DefinitionError, match="TLS needs certificate= and private_key="):
        HttpEndpoint("127.0.0.1:0", topic="in", certificate=pem)


def test_a_request_that_trickles_in_is_cut_off_and_leaves_the_connection_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.connectors.http_sources.listener._REQUEST_SECONDS", 0.3)
    for _, port in endpoint(tmp_path):
        with socket.create_connection(("127.0.0.1", port), timeout=LONG) as client:
            client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 1000\r\n\r\n")
            ended = threading.Event()

            def trickle(client: socket.socket = client, ended: threading.Event = ended) -> None:
                with contextlib.suppress(OSError):
                    while not ended.wait(0.02):
                        client.sendall(b"x")

            thread = threading.Thread(target=trickle)
            thread.start()
            began = time.monotonic()
            with contextlib.suppress(OSError):
                client.recv(1000)  # the answer that the request is not complete, or the end
            ended.set()
            thread.join(LONG)
            assert time.monotonic() - began < 10


class Sending:
    """Requests that wait for their answers in threads."""

    def __init__(self, *requests: tuple[bytes, dict[str, str]], port: int) -> None:
        self.answers: list[HttpResponse | None] = [None] * len(requests)

        def run(number: int, body: bytes, headers: dict[str, str]) -> None:
            self.answers[number] = post(port, body, **headers)

        self.threads = [threading.Thread(target=run, args=(number, *each)) for number, each in enumerate(requests)]
        for thread in self.threads:
            thread.start()

    def statuses(self) -> list[tuple[int, str]]:
        for thread in self.threads:
            thread.join(LONG)
        return [
            (answer.status, next(iter(msgspec.json.decode(answer.body).values()))) for answer in self.answers if answer
        ]


def endpoint(tmp_path: Path, **settings: Any) -> Iterator[tuple[Reading, int]]:
    reading = Reading(HttpEndpoint("127.0.0.1:0", topic="in", **settings), tmp_path)
    reader = reading.open()
    assert isinstance(reader, HttpEndpointReader)
    yield reading, reader.port
    reading.close()


def test_a_request_is_answered_after_its_record_is_durable_and_a_repeat_is_known(tmp_path: Path) -> None:
    for reading, port in endpoint(tmp_path, key="order.id"):
        first = Sending((b'{"order": {"id": 7}}', {"idempotency_key": "a"}), port=port)
        reader = reading.open()
        intake = reader.read(LONG)
        assert intake is not None
        assert first.answers == [None], "nothing is durable yet"
        reader.committed(intake.position)
        reading.position = intake.position
        assert first.statuses() == [(200, "stored")]
        reading.close()
        again = reading.open()  # the sender did not get the answer, and we have restarted
        assert isinstance(again, HttpEndpointReader)
        repeat = Sending((b'{"order": {"id": 7}}', {"idempotency_key": "a"}), port=again.port)
        assert reading.read(1.0) == []
        assert repeat.statuses() == [(200, "known")]


def test_an_answer_is_sent_at_once_on_a_connection_that_is_used_again(tmp_path: Path) -> None:
    for reading, port in endpoint(tmp_path):
        with socket.create_connection(("127.0.0.1", port), timeout=LONG) as client:
            for number in range(10):  # a body after its head would wait for the client, which delays acknowledgements
                client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n%d" % number)
                assert reading.read(LONG) == [(None, number)]
                assert client.recv(1000).endswith(b'{"status":"stored"}')


def test_a_repeat_within_the_same_intake_waits_for_the_first(tmp_path: Path) -> None:
    for reading, port in endpoint(tmp_path):
        sending = Sending((b"1", {"webhook_id": "a"}), (b"1", {"webhook_id": "a"}), (b"2", {}), port=port)
        reader = reading.open()
        assert isinstance(reader, HttpEndpointReader)
        while reader._listener.arrivals.qsize() < 3:  # all have arrived
            threading.Event().wait(0.001)
        assert sorted(str(value) for _, value in reading.read(LONG)) == ["1", "2"]
        assert sorted(sending.statuses()) == [(200, "known"), (200, "stored"), (200, "stored")]


def test_a_request_that_is_not_stored_is_refused_and_may_come_again(tmp_path: Path) -> None:
    for reading, port in endpoint(tmp_path):
        sending = Sending((b"1", {"idempotency_key": "a"}), port=port)
        reader = reading.open()
        assert reader.read(LONG) is not None
        reading.close()  # the commit has failed
        assert [status for status, _ in sending.statuses()] == [503]
        reader = reading.open()
        assert isinstance(reader, HttpEndpointReader)
        sending = Sending((b"1", {"idempotency_key": "a"}), port=reader.port)
        assert reading.read(LONG) == [(None, 1)]
        assert sending.statuses() == [(200, "stored")]


def test_a_request_that_arrives_while_the_endpoint_closes_is_answered_at_once(tmp_path: Path) -> None:
    for reading, _ in endpoint(tmp_path, answer_within="1 min"):
        reader = reading.open()
        assert isinstance(reader, HttpEndpointReader)
        listener = reader._listener
        reading.close()
        began = time.monotonic()
        late = Arrival(b"1", None, "", listener.limits.fields)  # of a connection that was open before
        assert listener.accept(late) == "failed"
        assert time.monotonic() - began < 30


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    for _, port in endpoint(
        tmp_path, path="/in", max_bytes=20, require_id=True, max_per_second=1, answer_within="1 ms"
    ):
        assert post(port, b"{}", "/other").status == 404
        assert post(port, b"{}" * 20, "/in").status == 413
        assert post(port, b"{}", "/in").status == 400, "it has no id"
        assert post(port, b"{", "/in", webhook_id="a").status == 400, "it is not JSON"
        assert send("x", f"http://127.0.0.1:{port}/in", None, {}, method="GET").status == 501
        assert post(port, b"{}", "/in", webhook_id="b").status == 503, "nothing takes it"
        limited = post(port, b"{}", "/in", webhook_id="c")
        assert (limited.status, limited.pause_seconds) == (429, 1.0)


def test_a_signature_is_required_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    now = str(int(time.time()))
    old = str(int(time.time()) - 1000)
    key = b"k" * 32
    body = b'{"n":1}'
    for reading, port in endpoint(tmp_path, secret=Secret.env("HOOK")):
        for number, timestamp, signed in (
            ("a", now, signature(key, "a", now, b"other")),
            ("a", old, signature(key, "a", old, body)),
            ("b", now, signature(key, "a", now, body)),
            ("a", now, ""),
        ):
            headers = {"webhook_id": number, "webhook_timestamp": timestamp, "webhook_signature": signed}
            assert post(port, body, **headers).status == 401
        good = {
            "webhook_id": "a",
            "webhook_timestamp": now,
            "webhook_signature": f"v1,x {signature(key, 'a', now, body)}",
        }
        sending = Sending((body, good), port=port)
        assert reading.read(LONG) == [(None, {"n": 1})]
        assert sending.statuses() == [(200, "stored")]


def test_an_open_endpoint_needs_a_secret() -> None:
    with pytest.raises(DefinitionError, match="open to the network, and anyone could send records"):
        HttpEndpoint("0.0.0.0:80", topic="in")
    with pytest.raises(DefinitionError, match="not a valid address"):
        HttpEndpoint("localhost", topic="in")


class Service:
    """A list of items over HTTP, with entity tags, pages and a parameter for what is new."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.status = 200
        self.requests: list[tuple[int, str]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = service.answer(self.path, self.headers.get("if-none-match"))
                service.requests.append((status, self.path))
                self.send_response(status)
                self.send_header("ETag", f'"{len(service.items)}"')
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/items"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path: str, tag: str | None) -> tuple[int, bytes]:
        if self.status != 200 or tag == f'"{len(self.items)}"':
            return self.status if self.status != 200 else 304, b""
        query = parse_qs(urlsplit(path).query)
        start = int(query.get("page", ["0"])[0])
        items = [item for item in self.items if item["at"] >= int(query.get("since", ["0"])[0])]
        page = f"/items?page={start + 4}&since={query.get('since', ['0'])[0]}" if start + 4 < len(items) else None
        return 200, msgspec.json.encode({"data": {"items": items[start : start + 4]}, "next": page})

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class PolledService(SourceSystem):
    topic = "changes"
    patience = 0.05

    def __init__(self) -> None:
        self.service = Service()

    def source(self) -> HttpPolling:
        return polling(self.service, key="key", deleted="gone", next="next")

    def change(self, key: str, number: int | None) -> None:
        count = len(self.service.items)
        item = {"id": count, "at": count // 2, "key": key, "number": number, "gone": number is None}
        self.service.items.append(item)

    def number_of(self, record: Record[bytes | None, bytes | None]) -> int | None:
        return None if record.value is None else int(msgspec.json.decode(record.value)["number"])


def polling(service: Service, **settings: Any) -> HttpPolling:
    defaults: dict[str, Any] = {"items": "data.items", "id": "id", "since": "at", "every": "1 ms"}
    return HttpPolling(service.url, topic="changes", **{**defaults, **settings})


@pytest.mark.parametrize("case", SOURCE_CASES)
def test_polling_passes_the_kit(case: str, tmp_path: Path) -> None:
    made: list[PolledService] = []

    def make() -> PolledService:
        made.append(PolledService())
        return made[-1]

    try:
        check_source(case, make, tmp_path)
    finally:
        for each in made:
            each.service.close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


def test_unchanged_documents_have_no_records_and_the_tag_is_sent(service: Service, tmp_path: Path) -> None:
    service.items = [{"id": 1, "at": 5}]
    with Reading(polling(service), tmp_path) as reading:
        assert reading.read(LONG) == [(None, {"id": 1, "at": 5})]
        assert reading.read() == []
        assert {status for status, _ in service.requests[1:]} == {304}
        service.items.append({"id": 2, "at": 5})
        assert reading.read(LONG) == [(None, {"id": 2, "at": 5})]
        assert service.requests[-1] == (200, "/items?since=5")


def test_without_an_id_larger_values_are_new(service: Service, tmp_path: Path) -> None:
    service.items = [{"at": 5}, {"at": 7}]
    with Reading(polling(service, id=None), tmp_path) as reading:
        assert reading.read(LONG) == [(None, {"at": 5}), (None, {"at": 7})]
        service.items.append({"at": 9})
        assert reading.read(LONG) == [(None, {"at": 9})]


def test_a_service_that_fails_is_asked_again_and_one_that_refuses_is_reported(service: Service, tmp_path: Path) -> None:
    service.status = 503
    with Reading(polling(service), tmp_path) as reading, pytest.raises(TargetUnavailableError, match="status 503"):
        reading.read()
    service.status = 403
    with Reading(polling(service), tmp_path) as reading, pytest.raises(ConnectorError, match=r"status 403.*headers="):
        reading.read()
    service.status = 200
    source = polling(service, items="rows")
    with Reading(source, tmp_path) as reading, pytest.raises(ConnectorError, match="no list at 'rows'"):
        reading.read()

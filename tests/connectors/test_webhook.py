"""Webhooks and chats: one request per record, signed, sent again while the receiver is down."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.connectors.batches import batch, context
from tests.servers.receiver import Receiver, receiver

from millstream import Secret
from millstream.connectors.slack import Slack
from millstream.connectors.webhook import Webhook
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.testing.kafka.node import free_port

KEY = b"a signing key of 24 bytes"


@pytest.fixture
def target() -> Iterator[Receiver]:
    with receiver() as target:
        yield target


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Secret:
    monkeypatch.setenv("WEBHOOK_SECRET", f"whsec_{base64.b64encode(KEY).decode()}")
    return Secret.env("WEBHOOK_SECRET")


def test_each_record_is_a_signed_request(target: Receiver, secret: Secret, tmp_path: Path) -> None:
    sink = Webhook(target.url, secret=secret, headers={"Authorization": secret, "X-App": "shop"})
    assert not sink.open(context(tmp_path)).write(batch(1, [("a", {"n": 1}), (None, None)]))
    first, second = target.received
    assert json.loads(first.body) == {
        "type": "totals",
        "timestamp": "2023-11-14T22:13:20.000+00:00",
        "key": "a",
        "data": {"n": 1},
    }
    assert json.loads(second.body)["data"] is None
    signed = f"{first.headers['webhook-id']}.{first.headers['webhook-timestamp']}.".encode() + first.body
    expected = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
    assert first.headers["webhook-signature"] == f"v1,{expected}"
    assert (first.headers["x-app"], first.headers["content-type"]) == ("shop", "application/json")
    assert first.headers["authorization"].startswith("whsec_")


def test_an_id_belongs_to_a_record_and_a_lineage(target: Receiver, tmp_path: Path) -> None:
    for directory, lineage in (("one", "first"), ("two", "first"), ("three", "second")):
        sink = Webhook(target.url, body="value")
        sink.open(context(tmp_path / directory)).write(batch(1, [("a", 1), ("b", 2)], lineage=lineage))
    ids = [received.headers["webhook-id"] for received in target.received]
    assert ids[:2] == ids[2:4]
    assert len(set(ids)) == 4
    assert target.received[0].body == b"1"


def test_a_restart_continues_behind_the_last_answer(target: Receiver, tmp_path: Path) -> None:
    rows = [("a", 1), ("b", object()), ("c", 3), ("d", 4), ("e", 5)]
    target.answers = [(204, {}), (400, {}), (503, {"Retry-After": "0"})]
    with pytest.raises(TargetUnavailableError, match="responded with status 503"):
        Webhook(target.url).open(context(tmp_path)).write(batch(1, rows))
    problems = Webhook(target.url).open(context(tmp_path)).write(batch(1, rows))
    assert [json.loads(received.body)["key"] for received in target.received] == ["a", "c", "d", "d", "e"]
    assert [problem.record.key for problem in problems] == ["b", "c"]  # also those from before the restart
    assert "responded with status 400" in problems[1].error


@pytest.mark.parametrize("status", [408, 429, 500, 502, 504])
def test_a_status_that_may_change_is_tried_again(target: Receiver, tmp_path: Path, status: int) -> None:
    target.answers = [(status, {})]
    with pytest.raises(TargetUnavailableError):
        Webhook(target.url).open(context(tmp_path)).write(batch(1, [("a", 1)]))


def test_a_redirect_is_not_followed(target: Receiver, tmp_path: Path) -> None:
    target.answers = [(302, {"Location": target.url})]
    problems = Webhook(target.url).open(context(tmp_path)).write(batch(1, [("a", 1)]))
    assert "responded with status 302" in problems[0].error
    assert len(target.received) == 1


def test_a_message_that_is_too_large_is_rejected(target: Receiver, tmp_path: Path) -> None:
    writer = Webhook(target.url, max_bytes=200).open(context(tmp_path))
    assert [p.record.key for p in writer.write(batch(1, [("a", "x" * 200), ("b", 1)]))] == ["a"]


def test_a_receiver_that_is_down_gets_the_batch_later(tmp_path: Path) -> None:
    port = free_port()
    writer = Webhook(f"http://127.0.0.1:{port}/").open(context(tmp_path))
    with pytest.raises(TargetUnavailableError, match=r"'127\.0\.0\.1' cannot be reached"):
        writer.write(batch(1, [("a", 1)]))
    with receiver(port) as target:
        assert not writer.write(batch(1, [("a", 1)]))
        assert len(target.received) == 1


def test_a_timestamp_beyond_the_calendar_is_rejected(target: Receiver, tmp_path: Path) -> None:
    """Microseconds that were taken for milliseconds must not block the sink."""
    rows = batch(1, [("a", 1), ("b", 2)])
    strange = msgspec.structs.replace(rows.records[0], timestamp=1_700_000_000_000_000)
    problems = (
        Webhook(target.url)
        .open(context(tmp_path))
        .write(msgspec.structs.replace(rows, records=[strange, rows.records[1]]))
    )
    assert [problem.error for problem in problems] == ["the timestamp 1700000000000000 is not a time of the calendar"]
    assert len(target.received) == 1


def test_an_invalid_header_does_not_show_its_secret(
    target: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "my\nsecret")
    sink = Webhook(target.url, headers={"X-Token": Secret.env("TOKEN")})
    with pytest.raises(ConnectorError, match=r"a header of the requests to '127\.0\.0\.1' is not valid") as raised:
        sink.open(context(tmp_path)).write(batch(1, [("a", 1)]))
    assert "secret" not in str(raised.value).partition(";")[0]
    assert raised.value.__cause__ is None


def test_values_cannot_mention_a_channel_of_a_chat(
    target: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_URL", target.url)
    sink = Slack(Secret.env("SLACK_URL"), text="<!here> *{key}*: {value[note]}")
    problems = sink.open(context(tmp_path)).write(batch(1, [("a", {"note": "<!channel> & more"}), ("b", {})]))
    assert json.loads(target.received[0].body) == {"text": "<!here> *a*: &lt;!channel&gt; &amp; more"}
    assert [problem.record.key for problem in problems] == ["b"]
    assert "KeyError: 'note'" in problems[0].error


def test_settings_are_checked(secret: Secret, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DefinitionError, match="in plain text"):
        Webhook("http://example.org", headers={"Authorization": secret})
    with pytest.raises(DefinitionError, match="write https://HOST:PORT"):
        Webhook("ftp://example.org")
    monkeypatch.setenv("WEBHOOK_SECRET", "not base64!")
    with pytest.raises(DefinitionError, match="not base64; use whsec_"):
        Webhook("https://example.org", secret=secret).open(context(tmp_path))
    assert repr(Webhook("https://example.org/token")) == "Webhook('example.org')"


def test_a_certificate_that_is_not_trusted_is_refused(tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    import ssl
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with pytest.raises(ConnectorError, match="its certificate must be valid"):
        Webhook(f"https://127.0.0.1:{server.server_address[1]}/").open(context(tmp_path)).write(batch(1, [("a", 1)]))
    thread.join()
    server.server_close()

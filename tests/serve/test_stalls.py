"""A statement that does not end, or takes all memory, costs the clients of the dashboard a moment and no more."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

import pytest
from tests.serve.test_process import get_topics, has_ended

from millstream.broker import TopicConfig
from millstream.log import EmbeddedLog
from millstream.producer import Producer
from millstream.serve import process
from millstream.serve.address import WebAddress
from millstream.serve.process import WebProcess

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]

STREAM = "CREATE STREAM texts (t STRING) WITH (KAFKA_TOPIC = 'texts', VALUE_FORMAT = 'KAFKA');"
BACKTRACKING = f"SELECT REGEXP_EXTRACT('(a+)+b', '{'a' * 60}') AS r FROM texts"
LOOP = """SELECT REDUCE(GENERATE_SERIES(1, 10000), 0, (s, x) =>
    REDUCE(GENERATE_SERIES(1, 10000), 0, (a, b) => a + b)) AS r FROM texts"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    with EmbeddedLog(tmp_path) as log, Producer(log, value=str) as producer:
        log.create_topic("texts", TopicConfig(partitions=1))
        producer.send("texts", "one")
    return tmp_path


def post(server: WebProcess, path: str, sql: str) -> tuple[int, str]:
    """Return the status and the text of a response."""
    assert server.token_file is not None
    settings = {"auto.offset.reset": "earliest"}
    headers = {
        "Authorization": f"Bearer {server.token_file.read_text().strip()}",
        "Content-Type": "application/json",
    }
    body = json.dumps({"sql": f"{STREAM} {sql};", "settings": settings}).encode()
    request = urllib.request.Request(f"{server.url}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("path", "statement"), [("/api/sql", BACKTRACKING), ("/api/sql/query", f"{LOOP} EMIT CHANGES")]
)
def test_a_statement_that_does_not_end_is_ended_and_others_are_answered(
    data_dir: Path, path: str, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_STALL_SECONDS", 4.0)
    monkeypatch.setattr(process, "_FIRST_PAUSE_SECONDS", 0.1)
    server = WebProcess(data_dir, address=WebAddress(port=0))
    first = server.pid
    with pytest.raises((OSError, HTTPException)):  # of a connection that is closed before the end of the response
        post(server, path, statement)
    assert has_ended(first)
    assert get_topics(server) == 200
    assert server.pid != first
    server.close()


def test_a_statement_does_not_get_more_memory_than_the_server_may_have(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_MAX_MEMORY", 512 << 20)
    server = WebProcess(data_dir, address=WebAddress(port=0))
    first = server.pid
    doubled = "REDUCE(GENERATE_SERIES(1, 40), 'aaaaaaaa', (s, x) => CONCAT(s, s))"
    status, text = post(server, "/api/sql", f"SELECT LEN({doubled}) AS n FROM texts")
    assert (status, json.loads(text)["error"]["message"]) == (413, "the request needs too much memory")
    assert server.pid == first
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{first}/status").read_text())
    assert peak is not None
    assert int(peak[1]) < 600_000
    server.close()

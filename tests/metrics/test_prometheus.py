import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.batch.report import BatchReport
from millstream.errors import DefinitionError
from millstream.foundation.paths import journal_dir
from millstream.metrics import prometheus
from millstream.metrics.prometheus import MetricsServer, metrics_text
from millstream.task.report import TaskReport


@pytest.fixture
def server(data_dir: Path) -> Iterator[MetricsServer]:
    server = MetricsServer(data_dir, 0)
    yield server
    server.close()


def answer(server: MetricsServer, path: str = "/metrics", host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=30)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    response = connection.getresponse()
    result = response.status, response.read().decode()
    connection.close()
    return result


def test_the_text_has_every_metric_with_its_type(data_dir: Path) -> None:
    lines = metrics_text(data_dir).splitlines()
    assert "# TYPE millstream_records_in_total counter" in lines
    for expected in [
        'millstream_running{app="words"} 0',
        'millstream_records_in_total{app="words"} 3',
        'millstream_dead_letters_total{app="words"} 1',
        'millstream_dropped_total{app="words",node="lines",reason="error"} 1',
        'millstream_stream_time_seconds{app="words",stage="lines",partition="0"} 2',
        'millstream_store_rows{app="words",stage="seen-repartition",store="seen"} 2',
    ]:
        assert expected in lines
    assert any(line.startswith('millstream_phase_seconds_total{app="words",phase="run"} ') for line in lines)


def test_latency_is_a_cumulative_histogram(data_dir: Path) -> None:
    journal = Journal(journal_dir(data_dir, "words"), durable=False)
    progress, _ = journal.read()
    for number, latency in enumerate((4, 40, 400), progress.done + 1):
        task = TaskReport(task=0, stage="lines", oldest=1_000_000 - latency)
        batch = Batch(number=number, wall_time=0, ranges=())
        report = BatchReport(plan=batch, tasks=[task], seconds=0.1, ended_at=1_000_000)
        journal.write(msgspec.structs.replace(progress, done=number), None, report)
    lines = metrics_text(data_dir).splitlines()
    buckets = [line.split() for line in lines if line.startswith("millstream_latency_seconds_bucket")]
    counts = {name.split('le="')[1][:-2]: int(count) for name, count in buckets}
    assert (counts["0.001"], counts["0.01"], counts["0.1"], counts["1"], counts["+Inf"]) == (0, 1, 2, 3, 3)
    assert list(counts.values()) == sorted(counts.values())
    assert 'millstream_latency_seconds_sum{app="words"} 0.444' in lines
    assert 'millstream_latency_seconds_count{app="words"} 3' in lines


def test_metrics_are_served_on_loopback_for_known_host_names(server: MetricsServer) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    status, body = answer(server)
    assert (status, 'millstream_batches_total{app="words"} 1\n' in body) == (200, True)
    assert answer(server, host="localhost:1")[0] == 200
    assert answer(server, host="evil.test")[0] == 403
    assert answer(server, "/../../etc/passwd")[0] == 404


def test_a_used_port_is_reported(server: MetricsServer, data_dir: Path) -> None:
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(DefinitionError, match=f"port {port} cannot be used for metrics: Address already in use"):
        MetricsServer(data_dir, port)


def connect(server: MetricsServer) -> socket.socket:
    host, _, port = server.url.split("/")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_idle_connections_are_limited_and_time_out(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus._Handler, "timeout", 1.0)
    idle = [connect(server) for _ in range(prometheus.MAX_CONNECTIONS)]
    with connect(server) as rejected:
        assert rejected.recv(1) == b""  # closed at once
    for connection in idle:
        assert connection.recv(1) == b""  # closed after the timeout
        connection.close()
    assert answer(server)[0] == 200

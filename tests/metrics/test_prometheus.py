import http.client
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import run_to_end

from millstream import App
from millstream.broker import Output, TopicConfig
from millstream.errors import DefinitionError
from millstream.foundation.blocks import block_of
from millstream.log import EmbeddedLog
from millstream.metrics import prometheus
from millstream.metrics.prometheus import MetricsServer, metrics_text


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    app = App("words", data_dir=tmp_path)
    app.stream("lines", value=str).group_by(lambda line: line).count(name="seen").to_stream().to("out")
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("lines", TopicConfig(partitions=1))
        log.create_topic("out", TopicConfig(partitions=1))
        log.append([Output("lines", 0, block_of([None] * 3, [b"a", b"b", b"\xff"], [1000, 2000, 3000]))])
    run_to_end(app)
    return tmp_path


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

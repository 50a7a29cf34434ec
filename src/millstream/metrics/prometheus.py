"""The metrics of all apps of a data directory in the Prometheus text format, served on a port of this host."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from millstream.batch.connector_status import ConnectorStatus, connector_apps, connector_statuses
from millstream.errors import DefinitionError, MillstreamError
from millstream.foundation.paths import app_names
from millstream.views.status import AppStatus, StageStatus, status_of

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_CONNECTIONS = 16
_LOOPBACK = "127.0.0.1"
_OWN_NAMES = {_LOOPBACK, "localhost"}

Sample = tuple[str, dict[str, object], float]

_METRICS = {
    "running": ("gauge", "Whether the app is running."),
    "batches_total": ("counter", "Completed batches."),
    "records_in_total": ("counter", "Records read from topics."),
    "records_out_total": ("counter", "Records written to topics."),
    "dropped_total": ("counter", "Dropped records, by node and reason."),
    "dead_letters_total": ("counter", "Records sent to the dead letter topic."),
    "phase_seconds_total": ("counter", "Time spent in each phase of batches."),
    "latency_seconds": (
        "histogram",
        "From the timestamp of the record that waited longest to the end of its batch, by batch.",
    ),
    "last_batch_timestamp_seconds": ("gauge", "Time at which the last batch completed."),
    "lag_records": ("gauge", "Unread records as of the last batch."),
    "connector_waiting": ("gauge", "Records that wait to be written by a sink, or what a source counts as unread."),
    "connector_failing": ("gauge", "Whether the last attempt of a source or sink failed."),
    "connector_paused": ("gauge", "Whether a source or sink is paused."),
    "connector_records_total": ("counter", "Records of a source or sink since its run started."),
    "connector_rejected_total": ("counter", "Records of a sink that the error policy was applied to."),
    "connector_behind_seconds": ("gauge", "How far a source is behind the clock of its system."),
    "connector_gauge": ("gauge", "What a source or sink reports itself, by name."),
    "stage_records_in_total": ("counter", "Records processed by the tasks of a stage."),
    "stage_seconds_total": ("counter", "Total time of the tasks of a stage."),
    "stream_time_seconds": ("gauge", "Stream time of a task."),
    "store_rows": ("gauge", "Rows in a store."),
    "store_bytes": ("gauge", "Size of a store on disk."),
}


def grafana_dashboard() -> bytes:
    """Return a dashboard of these metrics that Grafana can import, as JSON."""
    return (files("millstream.metrics") / "grafana.json").read_bytes()


def metrics_text(data_dir: Path) -> str:
    """Return the metrics of all apps that have run on a data directory."""
    samples: dict[str, list[str]] = {name: [] for name in _METRICS}
    apps, connect = app_names(data_dir), connector_apps(data_dir)
    for app in sorted({*apps, *connect}):
        of_app = _samples(status_of(data_dir, app)) if app in apps else ()
        for name, labels, value in (*of_app, *_connector_samples(connector_statuses(data_dir, app))):
            pairs = ",".join(f"{label}={_quoted(text)}" for label, text in {"app": app, **labels}.items())
            samples[_metric_of(name)].append(f"millstream_{name}{{{pairs}}} {value:.15g}")
    lines: list[str] = []
    for name, (kind, description) in _METRICS.items():
        lines += [f"# HELP millstream_{name} {description}", f"# TYPE millstream_{name} {kind}", *samples[name]]
    return "\n".join(lines) + "\n"


def _metric_of(sample: str) -> str:
    """Return the metric of a sample: a histogram has samples with suffixes."""
    return sample if sample in _METRICS else sample.rpartition("_")[0]


def _samples(status: AppStatus) -> Iterator[Sample]:
    totals = status.totals
    yield "running", {}, status.process is not None
    for name in ("batches", "records_in", "records_out", "dead_letters"):
        yield f"{name}_total", {}, getattr(totals, name)
    for name, count in totals.dropped.items():
        node, _, reason = name.rpartition(": ")
        yield "dropped_total", {"node": node, "reason": reason}, count
    for phase, seconds in msgspec.structs.asdict(totals.phases).items():
        yield "phase_seconds_total", {"phase": phase}, seconds
    latency = totals.latency
    for end, count in latency.cumulative():
        yield "latency_seconds_bucket", {"le": f"{end / 1000:.4g}"}, count
    yield "latency_seconds_bucket", {"le": "+Inf"}, latency.count
    yield "latency_seconds_sum", {}, latency.sum_ms / 1000
    yield "latency_seconds_count", {}, latency.count
    if status.ended_at is not None:
        yield "last_batch_timestamp_seconds", {}, status.ended_at / 1000
    for name, count in status.lag.items():
        topic, _, partition = name.rpartition("/")
        yield "lag_records", {"topic": topic, "partition": partition}, count
    for stage in status.stages:
        yield from _stage_samples(stage)


def _connector_samples(connectors: Iterable[ConnectorStatus]) -> Iterator[Sample]:
    for connector in connectors:
        labels: dict[str, object] = {"connector": connector.name}
        yield "connector_failing", labels, connector.failure is not None
        yield "connector_paused", labels, connector.state == "paused"
        yield "connector_records_total", labels, connector.records
        yield "connector_rejected_total", labels, connector.rejected
        if connector.waiting is not None:
            yield "connector_waiting", labels, connector.waiting
        if connector.behind_ms is not None:
            yield "connector_behind_seconds", labels, connector.behind_ms / 1000
        for gauge, value in connector.gauges.items():
            yield "connector_gauge", {**labels, "gauge": gauge}, value


def _stage_samples(stage: StageStatus) -> Iterator[Sample]:
    labels: dict[str, object] = {"stage": stage.name}
    yield "stage_records_in_total", labels, stage.totals.records_in
    yield "stage_seconds_total", labels, stage.totals.seconds
    for partition, stream_time in stage.stream_times.items():
        yield "stream_time_seconds", {**labels, "partition": partition}, stream_time / 1000
    for name, store in stage.stores.items():
        yield "store_rows", {**labels, "store": name}, store.rows
        yield "store_bytes", {**labels, "store": name}, store.bytes


def _quoted(text: object) -> str:
    escaped = str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class MetricsServer:
    """Serves ``/metrics``, and ``/grafana.json`` to display them, on loopback until it is closed."""

    def __init__(self, data_dir: Path, port: int) -> None:
        class Handler(_Handler):
            directory = data_dir

        try:
            self._server = _BoundedServer((_LOOPBACK, port), Handler)
        except OSError as error:
            raise DefinitionError(
                f"port {port} cannot be used for metrics: {error.strerror}", hint="choose another with metrics_port"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(0.05,),  # seconds that ``close`` waits at most
            name="millstream-metrics",
            daemon=True,
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _BoundedServer(ThreadingHTTPServer):
    """Closes connections above a limit, so that idle ones cannot use up the threads and files of the app."""

    def __init__(self, *arguments: Any) -> None:
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0  # seconds without a byte from the client
    directory: Path

    def do_GET(self) -> None:  # the name that http.server calls
        if self.headers.get("Host", "").partition(":")[0] not in _OWN_NAMES:
            self.send_error(403, "only requests for localhost are allowed")  # another site rebound its name (DNS)
        elif self.path == "/grafana.json":
            self._send("application/json", grafana_dashboard())
        elif self.path != "/metrics":
            self.send_error(404)
        else:
            self._send_metrics()

    def _send_metrics(self) -> None:
        try:
            body = metrics_text(self.directory).encode()
        except MillstreamError as error:
            self.send_error(503, error.message)
            return
        self._send(CONTENT_TYPE, body)

    def _send(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing, in particular no line per scrape."""

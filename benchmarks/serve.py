"""The dashboard under load and abuse while an app runs: the latency of the app before and during the load.

The app counts records that arrive at a fixed rate. After a quiet phase, clients connect to its dashboard: readers and
writers through the API, idle connections, and connections that send their headers one byte at a time. All of them are
on loopback, in a process of the lowest priority, since they stand for programs on other hosts. The latency of a record
is the time from its append to the end of the batch that contains it. Three demands are judged: the app has no error,
the 99th percentile of its latency at most doubles, and no abusive connection lives longer than the server's limit. The
exit code is 1 if one is not met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.serve_clients import run_clients

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.broker import Output, TopicConfig
from millstream.errors import MillstreamError
from millstream.foundation.blocks import block_of
from millstream.foundation.open_files import raise_open_file_limit
from millstream.serve.address import WebAddress
from millstream.serve.process import WebProcess
from millstream.spark.run import stop_spark

TICK_SECONDS = 0.05
WARM_UP_SECONDS = 10.0
MAX_RATIO = 2.0
MAX_ABUSE_SECONDS = 30.0
"""How long a connection without a complete request may live: the limit of the server is 10 s, and the rest is load."""

app = App("served", config=Config(partitions=1))
app.stream("in", key=str, value=str).group_by_key().count(name="counts")


class Feed:
    """Appends records at a rate and measures how long they take, from the positions that batches report."""

    def __init__(self, rate: int) -> None:
        self._broker = app.broker
        self._rate = rate
        self._appended: list[tuple[int, float]] = []
        self._processed = 0
        self._stop = threading.Event()
        self.latencies: list[tuple[float, float]] = []
        """Time of append and latency, one for each tick."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        sent, per_tick = 0, int(self._rate * TICK_SECONDS)
        due = time.perf_counter()
        while not self._stop.is_set():
            keys = [b"key-%d" % (number % 1000) for number in range(sent, sent + per_tick)]
            self._broker.append([Output("in", 0, block_of(keys, keys, [1] * per_tick))])
            sent += per_tick
            self._appended.append((sent, time.perf_counter()))
            due += TICK_SECONDS
            self._stop.wait(max(0.0, due - time.perf_counter()))

    def on_batch(self, report: BatchReport) -> None:
        """Note the latency of every tick that a batch has completed."""
        self._processed += report.records_in
        now = time.perf_counter()
        while self._appended and self._appended[0][0] <= self._processed:
            _, appended = self._appended.pop(0)
            self.latencies.append((appended, now - appended))

    def close(self) -> None:
        """Stop; what was not processed counts with the time that it has waited."""
        self._stop.set()
        self._thread.join()
        now = time.perf_counter()
        self.latencies += [(appended, now - appended) for _, appended in list(self._appended)]
        self._broker.close()


def _percentiles(latencies: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(latencies, n=100)
    return {"p50": round(1000 * cuts[49]), "p99": round(1000 * cuts[98])}


def main() -> None:
    """Print the latency of the app in both phases, and what became of the clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=45.0, help="of each phase")
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--writers", type=int, default=50)
    parser.add_argument("--idle", type=int, default=375)
    parser.add_argument("--slow", type=int, default=375)
    arguments = parser.parse_args()
    raise_open_file_limit()
    with tempfile.TemporaryDirectory() as directory:
        result = measure(Path(directory), arguments)
    print(json.dumps(result, indent=2))
    if not all(str(verdict).startswith("met") for verdict in result["verdicts"].values()):
        sys.exit(1)


def measure(directory: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the app, first without and then with clients."""
    app.data_dir = directory
    with closing(app.broker) as broker:
        for topic in ("in", "written"):
            broker.create_topic(topic, TopicConfig(partitions=1))
    feed = Feed(arguments.rate)
    run = app.start(on_batch=feed.on_batch)
    server = WebProcess(directory, address=WebAddress(port=0))
    assert server.token_file is not None
    error: MillstreamError | None = None
    try:
        while not feed.latencies:
            time.sleep(0.1)
        time.sleep(WARM_UP_SECONDS)
        began = time.perf_counter()
        time.sleep(arguments.seconds)
        loaded = time.perf_counter()
        clients = run_clients(
            server.url,
            server.token_file.read_text().strip(),
            arguments.seconds,
            readers=arguments.readers,
            writers=arguments.writers,
            idle=arguments.idle,
            slow=arguments.slow,
        )
        ended = time.perf_counter()
    finally:
        feed.close()
        app.stop()
        try:
            run.wait()
        except MillstreamError as raised:
            error = raised
        server.close()
        stop_spark()
    quiet = [latency for at, latency in feed.latencies if began <= at < loaded]
    busy = [latency for at, latency in feed.latencies if loaded <= at < ended]
    phases = {"quiet, ms": _percentiles(quiet), "loaded, ms": _percentiles(busy)}
    longest = clients["longest_abuse"]
    ratio = phases["loaded, ms"]["p99"] / phases["quiet, ms"]["p99"]
    return {
        **phases,
        "clients": dict(sorted(clients["counts"].items())),
        "verdicts": {
            "no error of the app": _verdict(error is None, str(error or "it ran to the end")),
            f"p99 of the latency at most {MAX_RATIO:.0f} times": _verdict(ratio <= MAX_RATIO, f"{ratio:.2f} times"),
            f"abusive connections cut within {MAX_ABUSE_SECONDS:.0f} s": _verdict(
                longest <= MAX_ABUSE_SECONDS, f"the longest lived {longest:.1f} s"
            ),
        },
    }


def _verdict(is_met: bool, fact: str) -> str:
    return f"{'met' if is_met else 'NOT met'}: {fact}"


if __name__ == "__main__":
    main()

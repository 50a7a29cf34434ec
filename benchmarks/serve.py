"""The dashboard under load and abuse while an app runs: the latency of the app before and during the load.

The app counts records that arrive at a fixed rate. After a quiet phase, clients connect to its dashboard: readers and
writers through the API, idle connections, and connections that send their headers one byte at a time. All of them are
on loopback, and everything ends after the given time. The latency of a record is the time from its append to the end
of the batch that contains it. Three demands are judged: the app has no error, the 99th percentile of its latency at
most doubles, and no abusive connection lives longer than the server's limit. The exit code is 1 if one is not met.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millstream import App, Config
from millstream.batch.report import BatchReport
from millstream.broker import Output, TopicConfig
from millstream.errors import MillstreamError
from millstream.foundation.blocks import block_of
from millstream.foundation.open_files import raise_open_file_limit
from millstream.serve.server import WebAddress, WebServer
from millstream.spark.run import stop_spark

TICK_SECONDS = 0.05
WARM_UP_SECONDS = 10.0
MAX_RATIO = 2.0
MAX_ABUSE_SECONDS = 30.0
"""How long a connection without a complete request may live: the limit of the server is 10 s, and the rest is load."""
PATHS = ("/api/apps", "/api/topics", "/api/tables/counts/key-7", "/api/topics/in/records?limit=20", "/", "/topology")

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


class Load:
    """Clients of the dashboard; ``counts`` has what became of their requests and connections."""

    def __init__(self, url: str, token: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._token = token
        self._end = time.perf_counter() + seconds
        self.counts: Counter[str] = Counter()
        self.longest_abuse = 0.0

    async def run(self, readers: int, writers: int, idle: int, slow: int) -> None:
        """Run all clients until the time is over."""
        clients = [
            *(self._requests("reader", path) for path in _repeat(PATHS, readers)),
            *(
                self._requests("writer", "/api/topics/written/records", b'{"key": "k", "value": 1}')
                for _ in range(writers)
            ),
            *(self._abuse("idle", b"") for _ in range(idle)),
            *(self._abuse("slow", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ") for _ in range(slow)),
        ]
        await asyncio.gather(*clients)

    async def _requests(self, kind: str, path: str, body: bytes | None = None) -> None:
        while time.perf_counter() < self._end:
            try:
                status = await asyncio.wait_for(self._request(path, body), 30)
                self.counts[f"{kind} {status}"] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.counts[f"{kind} {type(error).__name__}"] += 1
            await asyncio.sleep(0.2)

    async def _request(self, path: str, body: bytes | None) -> int:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            method = b"GET" if body is None else b"POST"
            length = b"" if body is None else b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
            host = f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n".encode()
            writer.write(
                method + b" " + path.encode() + b" HTTP/1.1\r\nConnection: close\r\n" + host + length + b"\r\n"
            )
            writer.write(body or b"")
            status = int((await reader.readline()).split()[1])
            await reader.read()
            return status
        except IndexError:
            return 0  # closed without an answer
        finally:
            writer.close()

    async def _abuse(self, kind: str, start: bytes) -> None:
        """Hold a connection, sending a byte each second if it began to send; count whether the server cuts it."""
        while time.perf_counter() < self._end:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError:
                self.counts[f"{kind} refused"] += 1
                await asyncio.sleep(1)
                continue
            opened = time.perf_counter()
            try:
                writer.write(start)
                while time.perf_counter() < self._end:
                    try:
                        await asyncio.wait_for(reader.read(1), 1)
                        self.counts[f"{kind} cut"] += 1
                        break
                    except TimeoutError:
                        if start:
                            writer.write(b"x")
                else:
                    self.counts[f"{kind} open at the end"] += 1
            except OSError:
                self.counts[f"{kind} cut"] += 1
            finally:
                self.longest_abuse = max(self.longest_abuse, time.perf_counter() - opened)
                writer.close()
            await asyncio.sleep(0.5)


def _repeat(items: tuple[str, ...], count: int) -> list[str]:
    return [items[number % len(items)] for number in range(count)]


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
    server = WebServer(directory, address=WebAddress(port=0))
    assert server.token_file is not None
    error: MillstreamError | None = None
    try:
        while not feed.latencies:
            time.sleep(0.1)
        time.sleep(WARM_UP_SECONDS)
        began = time.perf_counter()
        time.sleep(arguments.seconds)
        loaded = time.perf_counter()
        load = Load(server.url, server.token_file.read_text().strip(), arguments.seconds)
        asyncio.run(load.run(arguments.readers, arguments.writers, arguments.idle, arguments.slow))
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
    ratio = phases["loaded, ms"]["p99"] / phases["quiet, ms"]["p99"]
    return {
        **phases,
        "clients": dict(sorted(load.counts.items())),
        "verdicts": {
            "no error of the app": _verdict(error is None, str(error or "it ran to the end")),
            f"p99 of the latency at most {MAX_RATIO:.0f} times": _verdict(ratio <= MAX_RATIO, f"{ratio:.2f} times"),
            f"abusive connections cut within {MAX_ABUSE_SECONDS:.0f} s": _verdict(
                load.longest_abuse <= MAX_ABUSE_SECONDS, f"the longest lived {load.longest_abuse:.1f} s"
            ),
        },
    }


def _verdict(is_met: bool, fact: str) -> str:
    return f"{'met' if is_met else 'NOT met'}: {fact}"


if __name__ == "__main__":
    main()

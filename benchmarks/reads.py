"""The latency of reading the row of a key: over REST with one connection, and with ``app.tables`` in the same process.

A count over 100,000 keys in four partitions, random keys, one request after the other. ``busy`` measures the same while
another process runs the app on new records. The target is a median below 5 ms.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from millstream import App, Config
from millstream.broker import Output, TopicConfig
from millstream.foundation.blocks import block_of
from millstream.serve.address import WebAddress
from millstream.serve.server import WebServer
from millstream.spark.run import stop_spark

KEYS = 100_000
PARTITIONS = 4


def counting_app(data_dir: Path) -> App:
    """Return an app that counts numbers by key."""
    app = App("reads", data_dir=data_dir, config=Config(partitions=PARTITIONS))
    app.stream("numbers", value=int).group_by(lambda number: f"key-{number % KEYS}").count(name="counts")
    return app


def feed(app: App, records: int) -> None:
    """Write that many records, evenly distributed over the partitions."""
    with closing(app.broker) as broker:
        if "numbers" not in broker.topic_names():
            broker.create_topic("numbers", TopicConfig(partitions=PARTITIONS))
        for partition in range(PARTITIONS):
            values = [b"%d" % number for number in range(partition, records, PARTITIONS)]
            block = block_of([None] * len(values), values, [0] * len(values))
            broker.append([Output("numbers", partition, block)])


def measure(read: Callable[[str], object], requests: int) -> dict[str, float]:
    """Return the median, the 99th percentile and the CPU time of a read, in milliseconds."""
    rng = random.Random(7)
    keys = [f"key-{rng.randrange(KEYS)}" for _ in range(requests)]
    for key in keys[:100]:
        read(key)
    times, cpu_start = [], time.process_time()
    for key in keys:
        start = time.perf_counter()
        read(key)
        times.append((time.perf_counter() - start) * 1000)
    cpu_ms = (time.process_time() - cpu_start) * 1000 / requests
    p99 = statistics.quantiles(times, n=100)[98]
    return {"p50": round(statistics.median(times), 2), "p99": round(p99, 2), "cpu": round(cpu_ms, 2)}


def over_rest(data_dir: Path, requests: int) -> dict[str, float]:
    """Read over one connection to a server in this process, as a browser or another program would."""
    server = WebServer(data_dir, address=WebAddress(port=0), requires_token=False)
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    connection = http.client.HTTPConnection(host, int(port))

    def read(key: str) -> None:
        connection.request("GET", f"/api/tables/counts/{key}?app=reads")
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(body.decode())

    try:
        return measure(read, requests)
    finally:
        connection.close()
        server.close()


def while_busy(data_dir: Path, requests: int) -> dict[str, float]:
    """Measure reads while another process feeds and runs the app."""
    worker = subprocess.Popen([sys.executable, __file__, "--work", str(data_dir)], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        worker.stdout.readline()  # its first batch is done
        return over_rest(data_dir, requests)
    finally:
        worker.kill()
        worker.wait()


def work(data_dir: Path) -> None:
    """Feed and run the app until killed; print a line after each batch."""
    app = counting_app(data_dir)
    feed(app, 20 * KEYS)
    app.run("caught-up", on_batch=lambda _: print("working", flush=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work is not None:
        work(arguments.work)
        return
    data_dir = Path(tempfile.mkdtemp(prefix="millstream-reads-"))
    try:
        app = counting_app(data_dir)
        feed(app, KEYS)
        app.run("caught-up")
        stop_spark()
        results = {
            "app.tables": measure(lambda key: app.tables["counts"][key], arguments.requests),
            "REST": over_rest(data_dir, arguments.requests),
            "REST, busy": while_busy(data_dir, arguments.requests),
        }
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

"""Zone counts on one Kafka broker: Millstream beside Kafka Streams (exactly_once_v2), in one run.

Both read the same topic and write to one of their own, one after the other. Throughput is records per second from the
first output that a reader of committed records could see to the last; latency is from sending a record to reading the
first committed count that includes it, at a steady rate. ``benchmarks/zone_counts.py --broker kafka`` runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.zone_counts import ride_lines, ride_timestamp

from millstream import App
from millstream.blocks import block_of
from millstream.broker import Output, TopicConfig
from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster, java_program, kafka_jars

PARTITIONS = 2
CACHE_BYTES = 10 << 20
_QUIET_SECONDS = 3.0
_LONGEST_SECONDS = 900.0
_LATENCY_SECONDS = 15
_LATENCY_RATE = 1_000
Start = Callable[[str, str, Path], "subprocess.Popen[bytes]"]


def compare(lines: list[bytes], expected: Counter[int], *, caching: bool) -> dict[str, dict[str, Any]]:
    """Run both sides on a broker of their own and return their figures."""
    with Cluster(long_running=True) as cluster, KafkaBroker(cluster.url) as broker, scratch() as directory:
        classes = compiled(directory)
        sides: dict[str, Start] = {
            "millstream": lambda source, target, place: _millstream(cluster, source, target, place, caching),
            "kafka streams": lambda source, target, place: _kafka_streams(
                cluster, classes, source, target, place, caching
            ),
        }
        broker.create_topic("rides", TopicConfig(partitions=PARTITIONS))
        for start in range(0, len(lines), 10_000):
            part: list[bytes | None] = list(lines[start : start + 10_000])
            times = [ride_timestamp(number) for number in range(start, start + len(part))]
            broker.append([Output("rides", start // 10_000 % PARTITIONS, block_of([None] * len(part), part, times))])
        figures: dict[str, dict[str, Any]] = {}
        for side, begin in sides.items():
            slug = side.replace(" ", "-")
            rate = _throughput(broker, begin, slug, directory, len(lines), expected)
            figures[side] = {**rate, **_latency(cluster, broker, begin, slug, directory, lines)}
        return figures


def _throughput(
    broker: KafkaBroker, begin: Start, slug: str, directory: Path, records: int, expected: Counter[int]
) -> dict[str, Any]:
    target = f"{slug}-counts"
    broker.create_topic(target, TopicConfig(partitions=PARTITIONS))
    with running(begin("rides", target, directory / slug)):
        first = last = 0.0
        seen, began = 0, time.perf_counter()
        while time.perf_counter() - last < _QUIET_SECONDS or _counted(broker, target) != expected:
            now = sum(there.end for there in broker.offsets(target))
            if now != seen:
                last = time.perf_counter()
                first = first or last
                seen = now
            assert time.perf_counter() - began < _LONGEST_SECONDS, f"{slug} does not come to the right counts"
            time.sleep(0.05)
    return {"records_per_second": records / (last - first), "updates": seen}


def _counted(broker: KafkaBroker, topic: str) -> dict[int, int]:
    return {int(key): int(value) for key, value in _records(broker, topic)}


def _latency(
    cluster: Cluster, broker: KafkaBroker, begin: Start, slug: str, directory: Path, lines: list[bytes]
) -> dict[str, Any]:
    source, target = f"{slug}-live", f"{slug}-live-counts"
    for topic in (source, target):
        broker.create_topic(topic, TopicConfig(partitions=PARTITIONS))
    sent: dict[str, list[float]] = defaultdict(list)
    seen: list[float] = []
    with running(begin(source, target, directory / f"{slug}-live")):
        _send(cluster, source, lines[:100], defaultdict(list), 100)  # it is up when the first counts come
        while not any(there.end for there in broker.offsets(target)):
            time.sleep(0.1)
        warm = Counter(_zone(line) for line in lines[:100] if _counts(line))
        sender = threading.Thread(target=_send, args=(cluster, source, lines[100:], sent, _LATENCY_RATE))
        sender.start()
        seen = _watch(cluster, target, sent, warm, sender)
    seen.sort()
    return {"p50_ms": statistics.median(seen) * 1000, "p95_ms": seen[int(len(seen) * 0.95)] * 1000, "seen": len(seen)}


def _send(cluster: Cluster, topic: str, lines: list[bytes], sent: dict[str, list[float]], rate: int) -> None:
    """Send lines at a steady rate, noting when each record that counts was sent, by zone."""
    with KafkaBroker(cluster.url) as broker:
        began = time.perf_counter()
        for number in range(0, min(len(lines), rate * _LATENCY_SECONDS), 10):
            part: list[bytes | None] = list(lines[number : number + 10])
            time.sleep(max(0.0, began + number / rate - time.perf_counter()))
            for line in lines[number : number + 10]:
                if _counts(line):
                    sent[_zone(line)].append(time.perf_counter())
            times = [int(time.time() * 1000)] * len(part)
            broker.append([Output(topic, number // 10 % PARTITIONS, block_of([None] * len(part), part, times))])


def _watch(
    cluster: Cluster, topic: str, sent: dict[str, list[float]], warm: Counter[str], sender: threading.Thread
) -> list[float]:
    """Read counts as they are committed; a record is seen with the first count that is not below its rank."""
    found: list[float] = []
    done: Counter[str] = Counter()
    app = App("watch", broker=cluster.url)
    with app.consumer(topics=[topic], value=int, auto_offset_reset="earliest") as consumer:
        ending = float("inf")
        while time.perf_counter() < ending:
            for record in consumer.poll("0.1 s"):
                now, zone = time.perf_counter(), record.key
                upto = min(record.value - warm[zone], len(sent[zone]))
                found += [now - sent[zone][rank] for rank in range(done[zone], upto)]
                done[zone] = max(done[zone], upto)
            if not sender.is_alive() and ending == float("inf"):
                ending = time.perf_counter() + 2 * _QUIET_SECONDS
    return found


def _zone(line: bytes) -> str:
    return line.split(b'"zone":')[1].split(b",")[0].decode()


def _counts(line: bytes) -> bool:
    return float(line.split(b'"amount":')[1].split(b",")[0]) > 1.0


def _records(broker: KafkaBroker, topic: str) -> Iterator[tuple[bytes, bytes]]:
    for partition, there in enumerate(broker.offsets(topic)):
        for chunk in broker.read(topic, partition, there.begin, there.end):
            yield from zip(chunk.block.column(0).to_pylist(), chunk.block.column(1).to_pylist(), strict=True)


def _millstream(cluster: Cluster, source: str, target: str, place: Path, caching: bool) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "MILLSTREAM_BROKER": cluster.url,
        "MILLSTREAM_DATA_DIR": str(place),
        "ZONE_COUNTS_CACHING": str(int(caching)),
        "ZONE_COUNTS_TOPICS": f"{source},{target}",
    }
    program = str(Path(__file__).parents[1] / "zone_counts.py")
    return subprocess.Popen([sys.executable, program, "--run"], env=environment, stdout=subprocess.DEVNULL)


def _kafka_streams(
    cluster: Cluster, classes: Path, source: str, target: str, place: Path, caching: bool
) -> subprocess.Popen[bytes]:
    place.mkdir()
    command = [java_program(), "-Xmx1g", "-cp", f"{classes}:{kafka_jars()}/*", "ZoneCounts", cluster.bootstrap]
    command += [place.name, source, target, str(CACHE_BYTES if caching else 0), str(place)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def compiled(directory: Path) -> Path:
    """Compile the Kafka Streams program, with a compiler that needs only a Java runtime."""
    target = directory / "classes"
    path = os.pathsep.join(map(str, kafka_jars().glob("*.jar")))
    compiler = [java_program(), "-cp", path, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn"]
    source = Path(__file__).with_name("ZoneCounts.java")
    subprocess.run([*compiler, "-proc:none", "-cp", path, "-d", str(target), str(source)], check=True)
    return target


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """A side that runs for as long as the block."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="zone-counts-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def main() -> None:
    """Run both sides and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--every-update", action="store_true", help="no caching on either side")
    arguments = parser.parse_args()
    lines = list(ride_lines(arguments.records))
    rides = [json.loads(line) for line in lines]
    expected = Counter(ride["zone"] for ride in rides if ride["amount"] > 1.0)
    figures = compare(lines, expected, caching=not arguments.every_update)
    print(f"{'side':<16}{'records/s':>12}{'updates':>12}{'p50 ms':>9}{'p95 ms':>9}")
    for side, one in figures.items():
        rate, updates = one["records_per_second"], one["updates"]
        print(f"{side:<16}{rate:>12,.0f}{updates:>12,}{one['p50_ms']:>9.0f}{one['p95_ms']:>9.0f}")
    ratio = figures["millstream"]["records_per_second"] / figures["kafka streams"]["records_per_second"]
    print(f"ratio {ratio:.2f}, {'every update' if arguments.every_update else 'with caching'}")


if __name__ == "__main__":
    main()

"""Crash trials on three hosts, each with a Kafka broker and a Spark worker; the driver runs on one of them.

The feeder, the oracle and the Spark master run on the control host, which does not fail.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Literal, Self

from confluent_kafka.admin import AdminClient
from tests.crash.drivers import Driver
from tests.crash.events import PatientFeeder
from tests.crash.hosts import Host, Network
from tests.crash.oracle import CHECKS, TrialResult, written
from tests.spark.standalone import Standalone, descendants

from millstream.errors import BrokerUnavailableError
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition
from millstream.testing.kafka import Cluster, NoKafkaError

Fault = Literal[
    "executor",
    "worker",
    "host",
    "driver",
    "moment",
    "driver-host",
    "standby",
    "cut",
    "cut-alone",
    "cut-driver",
    "cut-standby",
    "broker",
    "disk",
]
FAULTS: dict[Fault, str] = {
    "executor": "an executor is killed",
    "worker": "a Spark worker is killed with its executors, and started again",
    "host": "a host that does not run the driver is lost with its disk, and replaced",
    "driver": "the driver is killed, and started on any host",
    "moment": "the driver dies at a named moment of a batch, and is started on any host",
    "driver-host": "the host of the driver is lost with its disk, and the driver is started on another",
    "standby": "the host of the driver is lost with its disk, and a standby takes over",
    "cut": "a host that does not run the driver is cut off for a while",
    "cut-alone": "the host of the driver is cut off for a while, and no other driver is started",
    "cut-driver": "the host of the driver is cut off for a while, and another driver is started",
    "cut-standby": "the host of the driver is cut off for a while, and a standby takes over",
    "broker": "a broker is killed, and started again",
    "disk": "the disk of a host is full for a while",
}
_PATIENCE_SECONDS = 300.0
_SLOW_SECONDS = 60.0
"""A recovery that takes longer is to be explained, by what the driver has logged."""
_SHORTEST_CUT_SECONDS = 5.0
_KAFKA = {"broker.session.timeout.ms": 6000}
_SPARK_MASTER = "-Dspark.worker.timeout=12"
_MOMENTS = ("after plan", "before done", "after done")
"""Those of the failpoints that a driver reaches; tasks are on executors."""
APPS = ("two_levels", "three_levels", "windowed", "chance")


class ClusterTrials:
    """Trials on one cluster; the seed determines the input and the faults."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        apps: Sequence[str] = APPS,
        longest_cut: float = 60.0,
        log: Callable[[str], None] = print,
    ) -> None:
        network = Network.current()
        self.rng = random.Random(seed)
        self._apps = apps
        self._longest_cut = longest_cut
        self._log = log
        self.recoveries: dict[Fault, list[float]] = defaultdict(list)
        """By fault, the seconds until the next committed batch."""
        with ExitStack() as held:
            self.hosts = [Host(network, number, directory) for number in (1, 2, 3)]
            for host in self.hosts:
                held.callback(host.remove)
            self.kafka = held.enter_context(Cluster(machines=self.hosts, properties=_KAFKA))
            self.spark = Standalone(_Control(network, directory), _SPARK_MASTER)
            held.callback(self.spark.close)
            self.broker = held.enter_context(KafkaBroker(self.kafka.url))
            with ThreadPoolExecutor(len(self.hosts)) as pool:
                list(pool.map(self._start_worker, self.hosts))
            self._nodes = dict(zip(self.hosts, self.kafka.nodes, strict=True))
            self.feeder = PatientFeeder(self.broker, self.rng)
            self.feeder.create_topics()
            self.driver = self._start_driver(self.hosts[0])
            self.feeder.feed(20)  # so that the first fault finds an app that has processed something
            self._held = held.pop_all()

    def run(self, fault: Fault) -> TrialResult:
        """Feed the app, let a fault happen meanwhile, wait until everything is processed, and compare all output."""
        self.wait_until_processed()
        self._wait_until_in_sync()
        self._log(f"fault: {fault}")
        feeding = _Feeding(self.feeder, random.Random(self.rng.random()))
        with _Pauses(self.broker, [f"{app}-out" for app in self._apps]) as pauses:
            with feeding:  # here and not in the thread, since brokers die with the thread that has started them
                self._pause(0.5, 3.0)
                other = self._other_host()
                standby = self._standby(other) if "standby" in fault else None
                pauses.start()
                self._cause(fault, other, standby)
            self.feeder.feed(20)
            began = time.monotonic()
            self.wait_until_processed()
            seconds = time.monotonic() - began
        result = TrialResult()
        for app in self._apps:
            CHECKS[app](result, written(self.broker, f"{app}-out"), self.feeder.sent)
        verdict = "right" if result.is_correct else "WRONG"
        self.recoveries[fault].append(pauses.longest)
        recovery = f"{pauses.longest:.1f} s until the next committed batch"
        self._log(f"{fault}: {verdict}; {recovery}, {seconds:.1f} s until caught up")
        if pauses.longest > _SLOW_SECONDS:
            self._log(self.driver.output())
        return result

    def recovery_times(self) -> list[str]:
        """Return a line per fault with the times from the fault to the next committed batch of the slowest app."""
        return [
            f"{fault}: {len(times)} trials, median {median(times):.1f} s, worst {max(times):.1f} s"
            for fault, times in self.recoveries.items()
        ]

    def wait_until_processed(self) -> None:
        """Wait until all apps have committed everything that was sent; a driver that has stopped is an error."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        waiting = set(self._apps)
        while waiting:
            with suppress(BrokerUnavailableError):
                ends = self._ends()
                waiting -= {app for app in waiting if _has_reached(self.broker.committed(app), ends)}
            assert not self.driver.has_ended, f"the driver has stopped:\n{self.driver.output()}"
            assert time.monotonic() < deadline, f"{sorted(waiting)} are behind:\n{self.driver.output()}"
            threading.Event().wait(0.2)

    def _wait_until_in_sync(self) -> None:
        """Wait until each partition has all its replicas: Kafka promises nothing if two brokers lose their disks."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap})
        while not all(
            len(partition.isrs) == len(partition.replicas)
            for topic in admin.list_topics(timeout=30).topics.values()
            for partition in topic.partitions.values()
        ):
            assert time.monotonic() < deadline, "replicas are not in sync"
            threading.Event().wait(0.2)

    def _ends(self) -> dict[TopicPartition, int]:
        """Return the end of each partition that the apps read, when it shows everything that was sent."""
        ends = [offsets.end for offsets in self.broker.offsets("events")]
        if sum(ends) < sum(event.topic == "events" for event in self.feeder.sent):
            raise BrokerUnavailableError("the last transaction is not visible yet")
        return {TopicPartition("events", partition): end for partition, end in enumerate(ends)}

    def _cause(self, fault: Fault, other: Host, standby: Driver | None) -> None:
        victim = self.rng.choice(self.hosts)
        match fault:
            case "executor":
                self._kill_executor(victim)
            case "worker":
                self.spark.kill_worker(victim)
                self._start_worker(victim)
            case "host":
                self._lose(other)
                self._replace(other)
            case "driver" | "moment":
                self._kill_driver(victim, at_moment=fault == "moment")
            case "driver-host" | "standby":
                self._lose_driver_host(other, standby)
            case "cut" | "cut-alone":
                host = other if fault == "cut" else self.driver.host
                host.cut_off()
                self._pause(_SHORTEST_CUT_SECONDS, self._longest_cut)
                host.reconnect()
            case "cut-driver" | "cut-standby":
                self._cut_off_driver(other, standby)
            case "broker":
                self._nodes[victim].kill()
                self._pause(1.0, 5.0)
                self._start_broker(victim)
            case "disk":
                self._fill_disk(victim)

    def _kill_executor(self, host: Host) -> None:
        for process in descendants(os.getpid()):
            command = Path(f"/proc/{process}/cmdline")
            if command.exists() and f"--hostname\0{host.address}\0".encode() in command.read_bytes():
                os.kill(process, signal.SIGKILL)

    def _lose(self, host: Host) -> None:
        """Lose a machine with its disk."""
        self.spark.kill_worker(host)
        host.lose()

    def _replace(self, host: Host) -> None:
        """Put a new machine with the same address in the stead of a lost one."""
        self._pause(0.5, 3.0)
        try:
            self.kafka.replace(self._nodes[host])
        except NoKafkaError as error:
            # If it was the leader of the controllers, the others may not have elected another one yet. They tell it
            # that it is the leader, and it ends, since it knows nothing of that.
            self._log(f"the broker is started again: {str(error)[:300]}")
            self._pause(3.0, 5.0)
            self._start_broker(host)
        self._start_worker(host)

    def _kill_driver(self, host: Host, *, at_moment: bool) -> None:
        """Kill the driver at any time, or put one in its stead that dies in its first batches; then start another."""
        self.driver.kill()
        if at_moment:
            point = f"{self.rng.choice(_MOMENTS)}:{self.rng.randint(1, 6)}"
            self._log(f"the driver dies at {point!r}")
            doomed = Driver(self.rng.choice(self.hosts), self.spark.url, self.kafka.url, self._apps, point=point)
            doomed.process.wait(_PATIENCE_SECONDS)
            doomed.kill()  # what is left of it
        self.driver = self._start_driver(host)

    def _lose_driver_host(self, other: Host, standby: Driver | None) -> None:
        lost = self.driver.host
        self._lose(lost)
        self.driver = standby or self._start_driver(other)
        self._replace(lost)

    def _cut_off_driver(self, other: Host, standby: Driver | None) -> None:
        old = self.driver
        old.host.cut_off()
        self.driver = standby or self._start_driver(other)
        self._pause(_SHORTEST_CUT_SECONDS, self._longest_cut)
        if standby is not None:  # without the cut for long enough, the old driver would rightly go on
            standby.wait_until_taken_over(_PATIENCE_SECONDS)
        old.host.reconnect()
        old.process.wait(_PATIENCE_SECONDS)
        assert old.process.returncode != 0, "a driver that was cut off must stop when another has taken over"

    def _standby(self, host: Host) -> Driver:
        standby = self._start_driver(host, "standby")
        standby.wait_until_standing_by(_PATIENCE_SECONDS)
        return standby

    def _fill_disk(self, host: Host) -> None:
        """Fill the disk that broker, worker and perhaps driver use; who frees it starts again what has stopped."""
        host.fill_disk()
        self._pause(2.0, 8.0)
        host.free_disk()
        self._nodes[host].kill()  # a broker gives up a disk on which a write has failed
        self._start_broker(host)
        if host is self.driver.host and self.driver.has_ended:
            self.driver = self._start_driver(host)

    def _other_host(self) -> Host:
        return self.rng.choice([host for host in self.hosts if host is not self.driver.host])

    def _start_broker(self, host: Host) -> None:
        self._nodes[host].start()
        self._nodes[host].wait_until_started()

    def _start_worker(self, host: Host) -> None:
        self.spark.start_worker(host, cores=2)

    def _start_driver(self, host: Host, mode: Literal["cluster", "standby"] = "cluster") -> Driver:
        return Driver(host, self.spark.url, self.kafka.url, self._apps, mode)

    def _pause(self, shortest: float, longest: float) -> None:
        threading.Event().wait(self.rng.uniform(shortest, longest))

    def close(self) -> None:
        """Stop everything."""
        self._held.close()


def _has_reached(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())


class _Pauses:
    """A thread that measures the longest time without new output of an app, from ``start`` to the end of the block."""

    def __init__(self, broker: KafkaBroker, topics: Sequence[str]) -> None:
        self._broker = broker
        self._topics = topics
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._longest: dict[str, float] = {}

    @property
    def longest(self) -> float:
        return max(self._longest.values(), default=0.0)

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        began = time.monotonic()
        seen = dict.fromkeys(self._topics, (-1, began))
        while not self._stopping.wait(0.1):
            for topic, (before, since) in seen.items():
                with suppress(BrokerUnavailableError):
                    written, now = sum(offsets.end for offsets in self._broker.offsets(topic)), time.monotonic()
                    if written > before:
                        if before >= 0:
                            self._longest[topic] = max(self._longest.get(topic, 0.0), now - since)
                        seen[topic] = written, now if before >= 0 else began


class _Feeding:
    """A thread that feeds the app as long as the block lasts."""

    def __init__(self, feeder: PatientFeeder, rng: random.Random) -> None:
        self._feeder = feeder
        self._rng = rng
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> None:
        self._fed = self._pool.submit(self._feed)

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._pool.shutdown()
        self._fed.result()

    def _feed(self) -> None:
        while not self._stopping.wait(self._rng.uniform(0.0, 0.3)):
            self._feeder.feed(self._rng.randrange(1, 60))


class _Control:
    """The machine that runs the Spark master: the control host, on which this process runs too."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.address = network.control_address
        self.directory = directory / self.address

    def command(self, command: Sequence[str | Path]) -> list[str]:
        return [str(part) for part in command]

"""Crash trials on three hosts, each with a Kafka broker and a Spark worker; the driver runs on one of them.

The feeder, the oracle and the Spark master run on the control host, which does not fail.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.crash.events import PatientFeeder
from tests.crash.hosts import Host, Network
from tests.crash.oracle import CHECKS, TrialResult, written
from tests.crash.trials import ROOT
from tests.spark.standalone import Standalone, descendants

from millstream.errors import BrokerUnavailableError
from millstream.kafka import KafkaBroker
from millstream.records import TopicPartition
from millstream.testing.kafka import Cluster
from millstream.testing.kafka.node import Node

Fault = Literal["executor", "worker", "host", "driver", "driver-host", "cut", "cut-driver", "broker"]
FAULTS: tuple[Fault, ...] = ("executor", "worker", "host", "driver", "driver-host", "cut", "cut-driver", "broker")
_PATIENCE_SECONDS = 300.0
APPS = ("two_levels", "three_levels", "windowed", "chance")


class ClusterTrials:
    """Trials on one cluster; the seed determines the input and the faults."""

    def __init__(self, directory: Path, seed: int, log: Callable[[str], None] = print) -> None:
        network = Network.current()
        self.rng = random.Random(seed)
        self._log = log
        self.hosts = [Host(network, number, directory) for number in (1, 2, 3)]
        self.kafka = Cluster(machines=self.hosts, properties={"broker.session.timeout.ms": 6000}).start()
        self._nodes = dict(zip(self.hosts, self.kafka.nodes, strict=True))
        self.spark = Standalone(_Control(network, directory))
        for host in self.hosts:
            self.spark.start_worker(host)
        self.broker = KafkaBroker(self.kafka.url)
        self.feeder = PatientFeeder(self.broker, self.rng)
        self.feeder.create_topics()
        self.driver = Driver(self, self.hosts[0])
        self.feeder.feed(20)  # so that the first fault finds an app that has processed something

    def run(self, fault: Fault) -> None:
        """Feed the app, let a fault happen meanwhile, and wait until everything that was sent is processed."""
        self._wait_until_processed()
        self._log(f"fault: {fault}")
        feeding = _Feeding(self.feeder, random.Random(self.rng.random()))
        with feeding:  # here and not in the thread, since brokers die with the thread that has started them
            self._pause(0.5, 4.0)
            self._cause(fault)
        self.feeder.feed(20)
        began = time.monotonic()
        self._wait_until_processed()
        self._log(f"processed everything {time.monotonic() - began:.1f} s after it")

    def _wait_until_processed(self) -> None:
        """Wait until all apps have committed everything that was sent; a driver that has stopped is an error."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        waiting = set(APPS)
        while waiting:
            with suppress(BrokerUnavailableError):
                ends = self._ends()
                waiting -= {app for app in waiting if _has_reached(self.broker.committed(app), ends)}
            assert self.driver.process.poll() is None, f"the driver has stopped:\n{self.driver.output()}"
            assert time.monotonic() < deadline, f"{sorted(waiting)} are behind:\n{self.driver.output()}"
            threading.Event().wait(0.2)

    def _ends(self) -> dict[TopicPartition, int]:
        """Return the end of each partition that the apps read, when it shows everything that was sent."""
        ends = [offsets.end for offsets in self.broker.offsets("events")]
        if sum(ends) < sum(event.topic == "events" for event in self.feeder.sent):
            raise BrokerUnavailableError("the last transaction is not visible yet")
        return {TopicPartition("events", partition): end for partition, end in enumerate(ends)}

    def _cause(self, fault: Fault) -> None:
        victim = self.rng.choice(self.hosts)
        if fault == "executor":
            self._kill_executor(victim)
        elif fault == "worker":
            self.spark.kill_worker(victim)
            self.spark.start_worker(victim)
        elif fault == "host":
            self._lose(self.rng.choice([host for host in self.hosts if host is not self.driver.host]))
        elif fault == "driver":
            self.driver.kill()
            self.driver = Driver(self, victim)
        elif fault == "driver-host":
            lost = self.driver.host
            self._lose(lost)
            self.driver = Driver(self, self.rng.choice([host for host in self.hosts if host is not lost]))
        elif fault in ("cut", "cut-driver"):
            self._cut_off(fault)
        else:
            node = self._nodes[victim]
            node.kill()
            self._pause(1.0, 5.0)
            self._start_broker(node)

    def _kill_executor(self, host: Host) -> None:
        for process in descendants(os.getpid()):
            command = Path(f"/proc/{process}/cmdline")
            if command.exists() and f"--hostname\0{host.address}\0".encode() in command.read_bytes():
                os.kill(process, signal.SIGKILL)

    def _lose(self, host: Host) -> None:
        """Lose a machine with its disk, and put a new one with the same address in its stead."""
        self.spark.kill_worker(host)
        host.lose()
        self._pause(0.5, 3.0)
        self.kafka.replace(self._nodes[host])
        self.spark.start_worker(host)

    def _cut_off(self, fault: Fault) -> None:
        others = [host for host in self.hosts if host is not self.driver.host]
        host = self.driver.host if fault == "cut-driver" else self.rng.choice(others)
        host.cut_off()
        if fault == "cut-driver":
            old, self.driver = self.driver, Driver(self, self.rng.choice(others))
            self._pause(5.0, 20.0)
            host.reconnect()
            assert old.process.wait(120) != 0, "a driver that was cut off must stop when another has taken over"
        else:
            self._pause(5.0, 20.0)
            host.reconnect()

    def _start_broker(self, node: Node) -> None:
        node.start()
        node.wait_until_started()

    def _pause(self, shortest: float, longest: float) -> None:
        threading.Event().wait(self.rng.uniform(shortest, longest))

    def result(self) -> TrialResult:
        """Let a new driver process everything, then compare the output with the oracle."""
        self.driver.kill()
        self.driver = Driver(self, self.rng.choice(self.hosts), mode="spark")
        assert self.driver.has_recovered(), f"the last driver did not recover:\n{self.driver.output()}"
        result = TrialResult()
        for app in APPS:
            CHECKS[app](result, written(self.broker, f"{app}-out"), self.feeder.sent)
        return result

    def close(self) -> None:
        """Stop everything."""
        self.driver.kill()
        self.broker.close()
        self.spark.close()
        self.kafka.stop()
        for host in self.hosts:
            host.remove()


def _has_reached(committed: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> bool:
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())


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


class Driver:
    """The process that runs the apps, on one host."""

    def __init__(self, trials: ClusterTrials, host: Host, mode: Literal["cluster", "spark"] = "cluster") -> None:
        """Start it; with ``mode="spark"`` it reports when it has processed everything."""
        self.host = host
        environment = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "MILLSTREAM_CRASH_DIR": str(host.directory / "data"),
            "MILLSTREAM_CRASH_APPS": ",".join(APPS),
            "MILLSTREAM_CRASH_MASTER": trials.spark.url,
            "MILLSTREAM_BROKER": trials.kafka.url,
        }
        self.process = host.start([sys.executable, "-m", "tests.crash.victim", mode], environment)
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def has_recovered(self) -> bool:
        """Wait until it has processed everything; False if it died before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "recovered\n"

    def output(self) -> str:
        """Return the end of what drivers of this host have logged."""
        return (self.host.directory / "output.log").read_text()[-6000:]

    def kill(self) -> None:
        """Kill the process and its JVM, as if they had run out of memory."""
        for process in [*descendants(self.process.pid), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

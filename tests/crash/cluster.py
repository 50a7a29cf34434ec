"""Crash trials on three hosts, each with a Kafka broker and a Spark worker; the driver runs on one of them.

The feeder, the oracle and the Spark master run on the control host, which does not fail.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.crash.events import PatientFeeder
from tests.crash.hosts import Host, Network
from tests.crash.oracle import CHECKS, TrialResult, written
from tests.crash.trials import ROOT
from tests.spark.standalone import Standalone, descendants

from millstream.kafka import KafkaBroker
from millstream.testing.kafka import Cluster
from millstream.testing.kafka.node import Node

Fault = Literal["executor", "worker", "host", "driver", "driver-host", "cut", "cut-driver", "broker"]
FAULTS: tuple[Fault, ...] = ("executor", "worker", "host", "driver", "driver-host", "cut", "cut-driver", "broker")
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

    def run(self, fault: Fault) -> None:
        """Feed the app, let a fault happen meanwhile, and wait until everything that was sent is processed."""
        self._log(f"fault: {fault}")
        timer = threading.Timer(self.rng.uniform(0.5, 4.0), self._cause, (fault,))
        timer.start()
        while timer.is_alive():
            self.feeder.feed(self.rng.randrange(1, 60))
            timer.join(self.rng.uniform(0.0, 0.3))
        self.feeder.feed(20)

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
        self.driver = Driver(self, self.rng.choice(self.hosts))
        assert self.driver.has_recovered(), "the last driver did not recover"
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


class _Control:
    """The machine that runs the Spark master: the control host, on which this process runs too."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.address = network.control_address
        self.directory = directory / self.address

    def command(self, command: Sequence[str | Path]) -> list[str]:
        return [str(part) for part in command]


class Driver:
    """The process that runs the apps, on one host."""

    def __init__(self, trials: ClusterTrials, host: Host) -> None:
        self.host = host
        environment = {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "MILLSTREAM_CRASH_DIR": str(host.directory / "data"),
            "MILLSTREAM_CRASH_APPS": ",".join(APPS),
            "MILLSTREAM_CRASH_MASTER": trials.spark.url,
            "MILLSTREAM_BROKER": trials.kafka.url,
        }
        self.process = host.start([sys.executable, "-m", "tests.crash.victim", "spark"], environment)
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def has_recovered(self) -> bool:
        """Wait until it has processed everything; False if it died before."""
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "recovered\n"

    def kill(self) -> None:
        """Kill the process and its JVM, as if they had run out of memory."""
        for process in [*descendants(self.process.pid), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

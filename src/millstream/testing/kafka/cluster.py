"""A cluster of one or more brokers on the loopback interface, with free ports."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from millstream.testing.kafka.class_archive import record_archive
from millstream.testing.kafka.node import Machine, Node, free_port, new_uuid

_LOOPBACK = "127.0.0.1"
_MACHINE_PORT = 9092


class Cluster:
    """A Kafka cluster that runs until the end of its ``with`` block; its records are deleted then.

    ``listeners`` adds listeners by name and protocol, for example ``{"SECURE": "SASL_SSL"}``, which ``properties``
    configure. ``ports`` has the ports of all listeners, ``advertised`` the ports that clients use instead, for example
    those of a proxy. ``long_running`` lets the JVM optimise, which makes the start slower. ``machines`` runs one broker
    on each of them instead of on the loopback interface.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        properties: Mapping[str, object] | None = None,
        listeners: Mapping[str, str] | None = None,
        advertised: Mapping[str, int] | None = None,
        format_arguments: Sequence[str] = (),
        directory: Path | None = None,
        port: int | None = None,
        long_running: bool = False,
        machines: Sequence[Machine] = (),
    ) -> None:
        self.id = new_uuid()
        self._is_temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="millstream-kafka-"))
        self._format_arguments = format_arguments
        self._long_running = long_running
        names = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        nodes = len(machines) or nodes
        ids = range(1, nodes + 1)
        self._addresses = {number: machines[number - 1].address if machines else _LOOPBACK for number in ids}
        self.ports = {
            number: {name: _MACHINE_PORT + offset if machines else free_port() for offset, name in enumerate(names)}
            for number in ids
        }
        if port is not None:
            self.ports[1]["PLAINTEXT"] = port
        voters = ",".join(f"{number}@{self._addresses[number]}:{self.ports[number]['CONTROLLER']}" for number in ids)
        common = {**_cluster_properties(nodes, names), "controller.quorum.voters": voters, **(properties or {})}
        self.nodes = [
            Node(
                number,
                (machines[number - 1].directory if machines else self.directory) / f"kafka-{number}",
                {**_node_properties(number, self._addresses[number], ports, advertised or {}), **common},
                long_running=long_running,
                machine=machines[number - 1] if machines else None,
            )
            for number, ports in self.ports.items()
        ]

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers, for ``bootstrap.servers``."""
        return self.addresses("PLAINTEXT")

    @property
    def url(self) -> str:
        """The URL of the cluster, for ``broker=``."""
        return f"kafka://{self.bootstrap}"

    def addresses(self, listener: str) -> str:
        """Return the addresses of one listener."""
        return ",".join(f"{self._addresses[number]}:{ports[listener]}" for number, ports in self.ports.items())

    def start(self, *, detached: bool = False) -> Self:
        """Format and start all brokers and wait until they are ready."""
        if not self._long_running:
            record_archive(_start_and_stop)
        try:
            first, *others = self.nodes
            first.format(self.id, self._format_arguments)
            self._formatted = first.formatted()
            for node in others:
                node.format_as(self._formatted)
            for node in self.nodes:
                node.start(detached=detached)
            for node in self.nodes:
                node.wait_until_started()
        except BaseException:
            self.stop()
            raise
        return self

    def replace(self, node: Node) -> None:
        """Start a broker whose directory was lost; it copies its partitions from the others."""
        node.format_as(self._formatted)
        node.start()
        node.wait_until_started()

    def stop(self) -> None:
        """Stop all brokers and delete their records."""
        for node in self.nodes:
            node.kill()
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _start_and_stop(option: str) -> None:
    """Start a broker with an option for Java, and stop it as soon as it is ready."""
    cluster = Cluster()
    (node,) = cluster.nodes
    try:
        node.format(cluster.id)
        node.start(options=[option])
        node.wait_until_started()
        node.stop()
    finally:
        cluster.stop()


def _node_properties(id: int, host: str, ports: Mapping[str, int], advertised: Mapping[str, int]) -> dict[str, object]:
    public = {**ports, **advertised}
    del public["CONTROLLER"]
    return {
        "node.id": id,
        "listeners": ",".join(f"{name}://{host}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://{host}:{port}" for name, port in public.items()),
    }


def _cluster_properties(nodes: int, listeners: Mapping[str, str]) -> dict[str, object]:
    replicas, in_sync = min(nodes, 3), 2 if nodes > 2 else 1
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in listeners.items()),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 4,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        "group.initial.rebalance.delay.ms": 0,
        "num.io.threads": 4,
        "num.network.threads": 2,
        "log.cleaner.dedupe.buffer.size": 4_194_304,
        "log.cleaner.backoff.ms": 200,
        "controlled.shutdown.enable": "false",
        "metadata.max.idle.interval.ms": 0,  # otherwise an idle controller writes a record twice a second
    }

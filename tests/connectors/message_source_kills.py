"""Sources that are killed again and again while messages are sent to them, and the comparison at the end."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import msgspec
from tests.connectors.sending_systems import SERVERS, SendingSystem, message, sending_system

from millstream.broker import Broker
from millstream.broker_urls import open_broker
from millstream.foundation.storage import close_environments

_LOOK_SECONDS = 0.02
_WARM_UP_SECONDS = 1.0
"""How often a message with a negative number is sent until one arrives: a session of MQTT has to be known first."""


class SourceComparison(msgspec.Struct):
    """What the topic of a source has, compared with what was sent."""

    kills: int
    sent: int
    lost: int
    doubled: int

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.doubled)


class ConnectProcess:
    """``millstream connect run`` with some sources, each of which fills a topic of its name."""

    def __init__(
        self,
        directory: Path,
        name: str,
        systems: Mapping[str, SendingSystem],
        broker: str | None,
        durability: str = "os",
    ) -> None:
        self.data, self._broker = directory / "data", broker
        self.topics = {source: f"{name}.{source}" for source in systems}
        self._file = directory / f"{name}.toml"
        lines = [f'name = "{name}"', f'broker = "{broker}"' if broker else f'[config]\ndurability = "{durability}"']
        for source, system in systems.items():
            lines += [f"[sources.{source}]", f'kind = "{system.kind}"', f'topic = "{self.topics[source]}"']
            lines += [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in system.settings.items()]
        self._file.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        program = "from millstream.cli.main import root; root()"
        command = [sys.executable, "-c", program, "--data-dir", str(self.data), "connect", "run", str(self._file)]
        self._process = subprocess.Popen([*command, *options], env={**_AWS, **os.environ})
        return self._process

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check_alive(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, "the process ended by itself"

    def open(self) -> Broker:
        return open_broker(self._broker, self.data, durability="os")


_AWS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class Sender(threading.Thread):
    """Sends messages with growing numbers until it is stopped."""

    def __init__(self, system: SendingSystem, rate: float) -> None:
        super().__init__(daemon=True)
        self.system = system
        self.stopping = Event()
        self.sent = 0
        self.error: BaseException | None = None
        self._rate = rate

    def run(self) -> None:
        began = monotonic()
        try:
            while not self.stopping.wait(max(0.0, began + self.sent / self._rate - monotonic())):
                self.system.send(self.sent, message(self.sent))
                self.sent += 1
        except BaseException as error:
            self.error = error

    def finish(self, seconds: float) -> None:
        self.stopping.set()
        self.join(seconds)
        assert not self.is_alive(), "a message was not taken"
        if self.error is not None:
            raise self.error


def kill_systems(directory: Path, names: Sequence[str], **options: Any) -> dict[str, SourceComparison]:
    """Start the servers that some systems need, and kill the sources of all of them; options as of kill_sources."""
    with ExitStack() as stack:
        systems = {}
        for name in names:
            server = SERVERS[name](directory / f"{name}-server") if name in SERVERS else None
            if server is not None:
                server.start()
                stack.callback(server.kill)
            systems[name] = stack.enter_context(sending_system(name, directory / name, server))
        return kill_sources(directory, systems, **options)


def kill_sources(
    directory: Path,
    systems: Mapping[str, SendingSystem],
    *,
    seed: int,
    kills: int,
    name: str = "kills",
    broker: str | None = None,
    rate: float = 200.0,
    pause: float = 0.2,
    seconds: float = 60.0,
    report: Callable[[str], None] = print,
) -> dict[str, SourceComparison]:
    """Send messages to sources of one process that is killed, let it catch up, and compare.

    A kill comes up to ``pause`` seconds after every source has stored something. On Kafka, every second kill takes the
    disk too: journals are topics there.
    """
    chance = random.Random(seed)
    process = ConnectProcess(directory, name, systems, broker)
    process.start()
    log = process.open()
    senders = {source: Sender(system, rate) for source, system in systems.items()}
    try:
        for source, system in systems.items():
            _warm_up(process, log, process.topics[source], system, seconds)
        for sender in senders.values():
            sender.start()
        for number in range(kills):
            _wait_for_progress(process, log, senders, seconds)
            Event().wait(chance.uniform(0, pause))
            process.kill()
            if broker is not None and number % 2 == 0:
                shutil.rmtree(process.data)
            process.start()
            report(f"kill {number + 1} of {kills}, {[sender.sent for sender in senders.values()]} messages")
        _wait_for_progress(process, log, senders, seconds)
        for sender in senders.values():
            sender.finish(seconds)
        for source, sender in senders.items():
            _wait_for_all(process, log, process.topics[source], sender.sent, seconds)
        process.kill()
        assert process.start("--until", "caught-up").wait(seconds) == 0
        return {source: _compare(log, process.topics[source], senders[source], kills) for source in systems}
    finally:
        for sender in senders.values():
            sender.stopping.set()
        process.kill()
        log.close()
        close_environments(process.data)


def _warm_up(process: ConnectProcess, log: Broker, topic: str, system: SendingSystem, seconds: float) -> None:
    """Send messages until one has arrived."""
    attempts: list[float] = []

    def has_arrived() -> bool:
        if not attempts or monotonic() - attempts[-1] > _WARM_UP_SECONDS:
            attempts.append(monotonic())
            number = -len(attempts)
            threading.Thread(target=system.send, args=(number, message(number)), daemon=True).start()
        return any(True for _ in _numbers(log, topic))

    _wait_until(has_arrived, process, seconds)


def _wait_for_progress(process: ConnectProcess, log: Broker, senders: Mapping[str, Sender], seconds: float) -> None:
    before = {source: _end(log, process.topics[source]) for source in senders}
    idle = dict(before)

    def has_progressed() -> bool:
        for source in [source for source, end in idle.items() if _end(log, process.topics[source]) > end]:
            del idle[source]
        return not idle

    _wait_until(has_progressed, process, seconds, lambda: f"no record of {', '.join(idle)}")


def _wait_for_all(process: ConnectProcess, log: Broker, topic: str, count: int, seconds: float) -> None:
    missing = set(range(count))

    def has_all() -> bool:
        missing.difference_update(_numbers(log, topic))
        return not missing

    _wait_until(has_all, process, seconds, lambda: f"{topic} has no message {sorted(missing)[:5]}")


def _wait_until(
    condition: Callable[[], bool], process: ConnectProcess, seconds: float, what: Callable[[], str] = lambda: "not"
) -> None:
    deadline = monotonic() + seconds
    while not condition():
        process.check_alive()
        assert monotonic() < deadline, f"{what()} within {seconds} s"
        Event().wait(_LOOK_SECONDS)


def _end(log: Broker, topic: str) -> int:
    return sum(part.end for part in log.offsets(topic)) if topic in log.topic_names() else 0


def _numbers(log: Broker, topic: str) -> Iterator[int]:
    """Yield the numbers of all messages in a topic."""
    if topic not in log.topic_names():
        return
    for partition, bounds in enumerate(log.offsets(topic)):
        for chunk in log.read(topic, partition, bounds.begin, bounds.end):
            values: list[Any] = chunk.block.column(1).to_pylist()
            yield from (msgspec.json.decode(value)["number"] for value in values)


def _compare(log: Broker, topic: str, sender: Sender, kills: int) -> SourceComparison:
    stored = Counter(number for number in _numbers(log, topic) if number >= 0)
    return SourceComparison(
        kills=kills,
        sent=sender.sent,
        lost=len(set(range(sender.sent)) - stored.keys()),
        doubled=stored.total() - len(stored) + len(stored.keys() - set(range(sender.sent))),
    )

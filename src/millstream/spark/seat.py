"""The worker's side of seats: a Spark task that stays on its host and runs a slot of each level, batch after batch.

What one level sends to the next goes from seat to seat, after the sender has committed it. Nothing is acknowledged: if
a seat is lost, all seats end, and the batch is run again as a Spark job, in which tasks that have committed serve what
they have committed.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

import msgspec

from millstream.batch.batch import Batch
from millstream.batch.execute import ShuffleInputs
from millstream.spark.failures import RemoteFailure
from millstream.spark.header import AppHeader, JobHeader
from millstream.spark.peer_sockets import Address, Peer, PeerServer, connect
from millstream.spark.placement import seats_of
from millstream.spark.worker import FAILURE, REPORT, Item, assembly_of, decode_input, run_slot
from millstream.state.task import StateVersion
from millstream.task.environment import TaskEnvironment


class SeatHeader(msgspec.Struct, frozen=True):
    """What a seat is given when it starts."""

    app: AppHeader
    driver: Address
    secret: bytes


class SeatHello(msgspec.Struct, frozen=True):
    """How a seat introduces itself to the driver."""

    seat: int
    address: Address
    """Where other seats reach it."""


class SeatRun(msgspec.Struct, frozen=True):
    """A batch that all seats run."""

    number: int
    batch: Batch
    versions: dict[str, StateVersion]


class SeatData(msgspec.Struct, frozen=True):
    """What one seat sends to another after a level, also if it is nothing."""

    run: int
    level: int
    sender: int
    items: list[Item]


_ENVIRONMENT_SECONDS = 60.0  # then it is renewed, since it remembers the partitions of topics
encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(SeatHeader).decode
_decode_addresses = msgspec.msgpack.Decoder(list[Address]).decode
_decode_run = msgspec.msgpack.Decoder(SeatRun).decode
_decode_data = msgspec.msgpack.Decoder(SeatData).decode


class ClosedError(Exception):
    """The driver has closed the seats, or another seat is lost."""


def take_seat(header: bytes, seat: int, payloads: Iterable[bytes]) -> Iterator[Item]:
    """Run batches in a seat until the driver closes it; results go to the driver over a connection."""
    for _ in payloads:
        settings = _decode_header(header)
        try:
            with SeatExchange(settings.driver, settings.secret, seat) as exchange:
                _run_batches(settings.app, seat, exchange)
        except (ClosedError, EOFError, OSError):
            pass  # the driver runs the batch as a job
    yield from ()


def _run_batches(app: AppHeader, seat: int, exchange: SeatExchange) -> None:
    assembly = assembly_of(app)
    env, renew_at = assembly.environment(), time.monotonic() + _ENVIRONMENT_SECONDS
    seats = seats_of(app.slots)
    seat_of = {
        task: number
        for number, own in enumerate(seats)
        for level, slot in enumerate(own.slots)
        if slot is not None
        for task in app.slots[level][slot].tasks
    }
    senders = [
        {n for n, other in enumerate(seats) if other.slots[level] is not None} for level in range(len(app.slots))
    ]
    while True:
        run = exchange.next_run()
        if time.monotonic() > renew_at:
            env, renew_at = assembly.environment(), time.monotonic() + _ENVIRONMENT_SECONDS
        job = JobHeader(app=app, batch=run.batch, versions=run.versions)
        try:
            items = _run_levels(env, job, seats[seat].slots, seat_of, senders, exchange)
        except ClosedError:
            raise
        except Exception as error:
            items = [(FAILURE, encode(RemoteFailure.of(error)))]
        exchange.report(items)


def _run_levels(
    env: TaskEnvironment,
    job: JobHeader,
    slots: tuple[int | None, ...],
    seat_of: Mapping[int, int],
    senders: list[set[int]],
    exchange: SeatExchange,
) -> list[Item]:
    """Run the slots of a seat and return their reports."""
    reports: list[Item] = []
    inputs: ShuffleInputs = defaultdict(list)
    for level, slot in enumerate(slots):
        sent: dict[int, list[Item]] = defaultdict(list)
        for item in run_slot(env, job, level, slot, inputs) if slot is not None else ():
            if item[0] == REPORT:
                reports.append(item)
            else:
                sent[seat_of[item[0]]].append(item)
        if level + 1 < len(slots):
            if slot is not None:
                exchange.send(level, sent)
            for receiver, data in exchange.receive(level, senders[level]):
                inputs[receiver].append(decode_input(data))
    return reports


class SeatExchange:
    """The connections of a seat: to the driver, and to the other seats."""

    def __init__(self, driver: Address, secret: bytes, seat: int) -> None:
        self._secret = secret
        self._seat = seat
        self._number = 0
        self._events: queue.SimpleQueue[SeatRun | SeatData | None] = queue.SimpleQueue()
        """Messages; None if a connection has ended."""
        self._arrived: dict[tuple[int, int], dict[int, list[Item]]] = defaultdict(dict)
        """By run and level, what each seat has sent."""
        self._peers: dict[int, Peer] = {}
        self._driver = connect(driver, secret, b"")
        self._server = PeerServer(self._driver.own_host, secret, self._serve)
        try:
            self._driver.send(encode(SeatHello(seat, (self._driver.own_host, self._server.port))))
            self._addresses = _decode_addresses(self._driver.receive())
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._read_runs, name="millstream-seat", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._driver.close()
        self._server.close()
        for peer in self._peers.values():
            peer.close()

    def _read_runs(self) -> None:
        try:
            while True:
                self._events.put(_decode_run(self._driver.receive()))
        except EOFError:
            self._events.put(None)

    def _serve(self, peer: Peer, _hello: bytes) -> None:
        try:
            while True:
                self._events.put(_decode_data(peer.receive()))
        except EOFError:
            self._events.put(None)

    def next_run(self) -> SeatRun:
        """Wait for the next batch."""
        while True:
            event = self._event()
            if isinstance(event, SeatRun):
                self._number = event.number
                return event

    def send(self, level: int, sent: Mapping[int, list[Item]]) -> None:
        """Send what a level has for other seats to all of them; each needs to know when it has everything."""
        for seat, address in enumerate(self._addresses):
            data = SeatData(self._number, level, self._seat, sent.get(seat, []))
            if seat == self._seat:
                self._keep(data)
                continue
            try:
                if seat not in self._peers:
                    self._peers[seat] = connect(address, self._secret, b"")
                self._peers[seat].send(encode(data))
            except (EOFError, PermissionError) as error:
                raise ClosedError from error

    def receive(self, level: int, senders: set[int]) -> Iterator[Item]:
        """Wait until all seats that run a level have sent, and yield what they have sent here, in their order."""
        key = (self._number, level)
        while not senders <= self._arrived[key].keys():
            self._event()
        arrived = self._arrived.pop(key)
        for sender in sorted(arrived):
            yield from arrived[sender]

    def _event(self) -> SeatRun | SeatData:
        event = self._events.get()
        if event is None:
            raise ClosedError
        if isinstance(event, SeatData):
            self._keep(event)
        return event

    def _keep(self, data: SeatData) -> None:
        self._arrived[data.run, data.level][data.sender] = data.items

    def report(self, items: list[Item]) -> None:
        """Send the results of the run to the driver."""
        self._driver.send(encode((self._number, items)))

"""The driver's side of seats: Spark tasks that stay on their hosts, so that a small batch needs no Spark job.

Seats occupy their cores. They are left if another job waits for cores, or if there are no batches for a while.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import secrets
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark import InheritableThread, SparkContext

from millstream.batch.batch import Batch
from millstream.spark.header import AppHeader
from millstream.spark.hosts import driver_addresses
from millstream.spark.level_jobs import located
from millstream.spark.peer_sockets import Address, Peer, PeerServer
from millstream.spark.placement import Slot, seats_of
from millstream.spark.seat import SeatHeader, SeatHello, SeatRun, encode, take_seat
from millstream.spark.worker import FAILURE, Item
from millstream.state.task import StateVersion

_START_SECONDS = 20.0
_END_SECONDS = 5.0
_WATCH_SECONDS = 0.5
_IDLE_SECONDS = 60.0
_decode_hello = msgspec.msgpack.Decoder(SeatHello).decode
_decode_results = msgspec.msgpack.Decoder(tuple[int, list[Item]]).decode


class SeatsLostError(Exception):
    """A seat did not start, or has ended; the batch has to be run as a job."""


class Seats:
    """One seat per slot, which are all taken when this is created."""

    def __init__(self, context: SparkContext, header: AppHeader) -> None:
        self._context = context
        self._seats = seats_of(header.slots)
        self._events: queue.SimpleQueue[tuple[int, list[Item]] | SeatHello | None] = queue.SimpleQueue()
        """Results with the number of the run, seats that have started, and None for a connection that has ended."""
        self._peers: dict[int, Peer] = {}
        self._number = 0
        self._last_run = time.monotonic()
        self._lock = threading.Lock()
        """Held while a batch runs, so that seats are not left then."""
        self._ended = threading.Event()
        host, listening_host = driver_addresses(context)
        secret = secrets.token_bytes(32)
        try:
            self._server = PeerServer(listening_host, secret, self._serve)
        except OSError as error:
            raise SeatsLostError(f"the driver cannot listen: {error}") from error
        self._tag = f"millstream-seats-{uuid.uuid4().hex}"
        settings = encode(SeatHeader(header, (host, self._server.port), secret))
        locations = tuple(Slot(seat.host, ()) for seat in self._seats)
        rdd: Any = located(context, locations).mapPartitionsWithIndex(functools.partial(take_seat, settings))
        self._job = InheritableThread(target=self._collect, args=(rdd,), name="millstream-seats", daemon=True)
        self._job.start()
        try:
            self._wait_for_seats()
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._watch, name="millstream-seats-watch", daemon=True).start()

    def _collect(self, rdd: Any) -> None:
        with contextlib.suppress(Exception):  # whatever the reason, the batch is run as a job
            self._context.addJobTag(self._tag)
            rdd.collect()
        self._events.put(None)

    def _serve(self, peer: Peer, _hello: bytes) -> None:
        """Read what a seat sends; a second attempt of a Spark task means that the first one is lost."""
        with contextlib.suppress(EOFError):
            hello = _decode_hello(peer.receive())
            if self._peers.setdefault(hello.seat, peer) is peer:
                self._events.put(hello)
                while True:
                    self._events.put(_decode_results(peer.receive()))
        self._events.put(None)

    def _wait_for_seats(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        addresses: dict[int, Address] = {}
        while len(addresses) < len(self._seats):
            try:
                event = self._events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise SeatsLostError("not all seats have started") from None
            if not isinstance(event, SeatHello):
                raise SeatsLostError("a seat has ended")
            addresses[event.seat] = event.address
        self._send(encode([addresses[seat] for seat in range(len(self._seats))]))

    def _send(self, message: bytes) -> None:
        try:
            for peer in self._peers.values():
                peer.send(message)
        except EOFError as error:
            raise SeatsLostError("a seat has ended") from error

    @property
    def are_left(self) -> bool:
        """Whether the seats have ended."""
        return self._ended.is_set()

    def run(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[Item]:
        """Run a batch and return its reports and failures; seats are left after a failure."""
        with self._lock:
            try:
                if self.are_left:
                    raise SeatsLostError("the seats were left")
                return self._run(batch, versions)
            except SeatsLostError:
                self._close()
                raise

    def _run(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[Item]:
        self._number += 1
        self._send(encode(SeatRun(self._number, batch, dict(versions))))
        items: list[Item] = []
        for _ in self._seats:
            event = self._events.get()
            if not isinstance(event, tuple) or event[0] != self._number:
                raise SeatsLostError("a seat has ended")
            items += event[1]
            if any(number == FAILURE for number, _ in event[1]):
                self._close()  # other seats wait for what the failed one would have sent
                return items
        self._last_run = time.monotonic()
        return items

    def close(self) -> None:
        """Leave the seats after the current batch, and wait until their Spark tasks have ended."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self._ended.set()
        self._server.close()
        self._job.join(_END_SECONDS)
        if self._job.is_alive():
            with contextlib.suppress(Exception):  # Spark may have stopped
                self._context.cancelJobsWithTag(self._tag)
            self._job.join(_END_SECONDS)

    def _watch(self) -> None:
        """Leave the seats if other jobs wait for cores twice in a row, or after a time without batches."""
        waiting = 0
        while not self._ended.wait(_WATCH_SECONDS):
            waiting = waiting + 1 if self._has_waiting_tasks() else 0
            if waiting > 1 or time.monotonic() - self._last_run > _IDLE_SECONDS:
                self.close()

    def _has_waiting_tasks(self) -> bool:
        try:
            tracker = self._context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # Spark has stopped
            return False
        return any(
            stage is not None and stage.numActiveTasks + stage.numCompletedTasks < stage.numTasks for stage in stages
        )

"""What seats send to each other, over real connections; the driver is played by the test."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from millstream.batch.batch import Batch
from millstream.spark.peer_sockets import Peer, PeerServer
from millstream.spark.seat import ClosedError, SeatExchange, SeatHello, SeatRun, encode

HOST = "127.0.0.1"
SECRET = b"s" * 32
SEATS = 3


class PlayedDriver:
    """Lets seats start, and collects their results."""

    def __init__(self) -> None:
        self.results: queue.SimpleQueue[tuple[int, list[tuple[int, bytes]]]] = queue.SimpleQueue()
        self._seats: dict[int, tuple[Peer, SeatHello]] = {}
        self._started = threading.Barrier(SEATS)
        self._ready = threading.Semaphore(0)
        self.server = PeerServer(HOST, SECRET, self._serve)

    def _serve(self, peer: Peer, _hello: bytes) -> None:
        hello = msgspec.msgpack.decode(peer.receive(), type=SeatHello)
        self._seats[hello.seat] = (peer, hello)
        self._started.wait(10)
        peer.send(encode([self._seats[seat][1].address for seat in range(SEATS)]))
        self._ready.release()
        try:
            while True:
                self.results.put(msgspec.msgpack.decode(peer.receive(), type=tuple[int, list[tuple[int, bytes]]]))
        except EOFError:
            return

    def wait_for_seats(self) -> None:
        for _ in range(SEATS):
            assert self._ready.acquire(timeout=30)

    def run(self, number: int) -> None:
        for peer, _ in self._seats.values():
            peer.send(encode(SeatRun(number, Batch(number=number, ranges=(), wall_time=0), {})))


@pytest.fixture
def driver() -> Iterator[PlayedDriver]:
    driver = PlayedDriver()
    yield driver
    driver.server.close()


def in_seats(driver: PlayedDriver, work: Callable[[int, SeatExchange], None]) -> ThreadPoolExecutor:
    def sit(seat: int) -> None:
        with SeatExchange((HOST, driver.server.port), SECRET, seat) as exchange:
            work(seat, exchange)

    pool = ThreadPoolExecutor(SEATS)
    for seat in range(SEATS):
        pool.submit(sit, seat)
    return pool


def test_each_seat_gets_what_all_senders_of_a_level_have_sent_to_it(driver: PlayedDriver) -> None:
    def work(seat: int, exchange: SeatExchange) -> None:
        for _ in range(2):
            run = exchange.next_run()
            if seat != 2:  # the last seat has no slot on the first level
                exchange.send(0, {receiver: [(10 * seat + receiver, b"x" * 300_000)] for receiver in range(SEATS)})
            received = [number for number, _ in exchange.receive(0, {0, 1})]
            exchange.report([(number, b"%d" % run.number) for number in received])
        with pytest.raises(ClosedError):
            exchange.next_run()  # a seat that left now would end those that still wait

    seats = in_seats(driver, work)
    results = []
    driver.wait_for_seats()
    for number in (1, 2):
        driver.run(number)
        results += [driver.results.get(timeout=30) for _ in range(SEATS)]
    driver.server.close()
    seats.shutdown()
    assert sorted([number, *(item for item, _ in items)] for number, items in results) == [
        [1, 0, 10], [1, 1, 11], [1, 2, 12], [2, 0, 10], [2, 1, 11], [2, 2, 12],
    ]  # fmt: skip


def test_a_seat_that_waits_ends_when_another_is_lost(driver: PlayedDriver) -> None:
    sent = threading.Barrier(SEATS)
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()

    def work(seat: int, exchange: SeatExchange) -> None:
        exchange.next_run()
        exchange.send(0, {})
        sent.wait(10)
        if seat == 0:
            return  # its connections are closed
        with pytest.raises(ClosedError):
            list(exchange.receive(1, {0, 1, 2}))
        ended.put(seat)

    seats = in_seats(driver, work)
    driver.wait_for_seats()
    driver.run(1)
    assert {ended.get(timeout=30), ended.get(timeout=30)} == {1, 2}
    seats.shutdown()


def test_a_seat_ends_with_the_driver(driver: PlayedDriver) -> None:
    ended = threading.Semaphore(0)

    def work(_seat: int, exchange: SeatExchange) -> None:
        exchange.next_run()
        with pytest.raises(ClosedError):
            exchange.next_run()
        ended.release()

    seats = in_seats(driver, work)
    driver.wait_for_seats()
    driver.run(1)
    driver.server.close()
    for _ in range(SEATS):
        assert ended.acquire(timeout=30)
    seats.shutdown()

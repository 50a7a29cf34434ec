"""Functions that get the records of a batch together, beside the same work record by record.

- calls: a request to a local HTTP server that answers after 20 ms, from ``map_async`` with 200 calls in flight and from
  ``map_values`` one by one.
- frames: a linear model over 100,000 records, from ``map_batches`` in Arrow and from ``map_values``.

Both run in the task runner alone, in one process; the server has a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pyarrow.compute as pc
from benchmarks.operators import FIRST

from millstream import App
from millstream.testing import TestDriver

LATENCY_SECONDS = 0.02
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def serve(ready: Connection) -> None:
    """Answer each request after the latency, on as many connections as clients open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(len(REQUEST)):
            await asyncio.sleep(LATENCY_SECONDS)
            writer.write(ANSWER)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Client:
    """Keeps connections open and uses each for one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def request(self, n: int) -> int:
        """Ask the server and return the number of the record."""
        reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(REQUEST)
        await reader.readexactly(len(ANSWER))
        self._idle.append((reader, writer))
        return n


def seconds(define: Callable[[App], Any], values: list[Any]) -> float:
    """Return the seconds that one batch with all values takes, after a small batch that opens connections."""
    app = App("batched")
    define(app)
    with TestDriver(app) as driver:
        for batch in (values[:200], values):
            with driver.holding():
                driver.topic("n").pipe(*batch, timestamp=FIRST)
                started_at = time.perf_counter()
        return time.perf_counter() - started_at


def calls(records: int) -> dict[str, float]:
    """Return calls per second with ``map_async`` and with ``map_values``."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve, args=(sender,), daemon=True)
    server.start()
    port = receiver.recv()
    client = Client(port)
    with socket.create_connection(("127.0.0.1", port)) as connection:

        def request(n: int) -> int:
            connection.sendall(REQUEST)
            connection.recv(len(ANSWER))
            return n

        together = seconds(
            lambda app: app.stream("n", value=int).map_async(client.request, concurrency=200).to("out"),
            list(range(records)),
        )
        few = max(10, records // 200)
        singly = seconds(lambda app: app.stream("n", value=int).map_values(request).to("out"), list(range(few)))
    server.terminate()
    return {"map_async": records / together, "map_values": few / singly}


def frames(records: int) -> dict[str, float]:
    """Return records per second of a linear model with ``map_batches`` and with ``map_values``."""
    values = [float(n) for n in range(records)]
    together = seconds(
        lambda app: (
            app.stream("n", value=float)
            .map_batches(lambda table: pc.add(pc.multiply(table["value"], 2.5), 1.0), max_records=10_000)
            .to("out")
        ),
        values,
    )
    singly = seconds(lambda app: app.stream("n", value=float).map_values(lambda n: n * 2.5 + 1.0).to("out"), values)
    return {"map_batches": records / together, "map_values": records / singly}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    records = parser.parse_args().records
    for title, rates in (("calls", calls(records)), ("frames", frames(records))):
        for verb, rate in rates.items():
            print(f"{title:7} {verb:12} {rate:12,.0f} records/s")


if __name__ == "__main__":
    main()

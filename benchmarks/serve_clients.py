"""Clients of the dashboard for benchmarks/serve.py, in a process of their own.

They stand for programs on other hosts. On a machine with few processors they would take time from the app that they do
not take in reality, so this process has the lowest priority (nice 19): it uses what the app and the server leave.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from millstream.foundation.open_files import raise_open_file_limit

PATHS = ("/api/apps", "/api/topics", "/api/tables/counts/key-7", "/api/topics/in/records?limit=20", "/", "/topology")


def run_clients(url: str, token: str, seconds: float, **numbers: int) -> dict[str, Any]:
    """Run clients in another process; return what became of their requests and connections."""
    order = {"url": url, "token": token, "seconds": seconds, "numbers": numbers}
    command = [sys.executable, "-m", "benchmarks.serve_clients"]
    done = subprocess.run(command, input=json.dumps(order), stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class Load:
    """Clients of the dashboard; ``counts`` has what became of their requests and connections."""

    def __init__(self, url: str, token: str, seconds: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._token = token
        self._end = time.perf_counter() + seconds
        self.counts: Counter[str] = Counter()
        self.longest_abuse = 0.0

    async def run(self, readers: int, writers: int, idle: int, slow: int) -> None:
        """Run all clients until the time is over."""
        clients = [
            *(self._requests("reader", path) for path in _repeat(PATHS, readers)),
            *(
                self._requests("writer", "/api/topics/written/records", b'{"key": "k", "value": 1}')
                for _ in range(writers)
            ),
            *(self._abuse("idle", b"") for _ in range(idle)),
            *(self._abuse("slow", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ") for _ in range(slow)),
        ]
        await asyncio.gather(*clients)

    async def _requests(self, kind: str, path: str, body: bytes | None = None) -> None:
        while time.perf_counter() < self._end:
            try:
                status = await asyncio.wait_for(self._request(path, body), 30)
                self.counts[f"{kind} {status}"] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.counts[f"{kind} {type(error).__name__}"] += 1
            await asyncio.sleep(0.2)

    async def _request(self, path: str, body: bytes | None) -> int:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            method = b"GET" if body is None else b"POST"
            length = b"" if body is None else b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(body)
            host = f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {self._token}\r\n".encode()
            writer.write(
                method + b" " + path.encode() + b" HTTP/1.1\r\nConnection: close\r\n" + host + length + b"\r\n"
            )
            writer.write(body or b"")
            status = int((await reader.readline()).split()[1])
            await reader.read()
            return status
        except IndexError:
            return 0  # closed without an answer
        finally:
            writer.close()

    async def _abuse(self, kind: str, start: bytes) -> None:
        """Hold a connection, sending a byte each second if it began to send; count whether the server cuts it."""
        while time.perf_counter() < self._end:
            try:
                reader, writer = await asyncio.open_connection(self._host, self._port)
            except OSError:
                self.counts[f"{kind} refused"] += 1
                await asyncio.sleep(1)
                continue
            opened = time.perf_counter()
            try:
                writer.write(start)
                while time.perf_counter() < self._end:
                    try:
                        await asyncio.wait_for(reader.read(1), 1)
                        self.counts[f"{kind} cut"] += 1
                        break
                    except TimeoutError:
                        if start:
                            writer.write(b"x")
                else:
                    self.counts[f"{kind} open at the end"] += 1
            except OSError:
                self.counts[f"{kind} cut"] += 1
            finally:
                self.longest_abuse = max(self.longest_abuse, time.perf_counter() - opened)
                writer.close()
            await asyncio.sleep(0.5)


def _repeat(items: tuple[str, ...], count: int) -> list[str]:
    return [items[number % len(items)] for number in range(count)]


def main() -> None:
    """Run the clients that standard input describes, and print their counts."""
    os.nice(19)
    raise_open_file_limit()
    order = json.load(sys.stdin)
    load = Load(order["url"], order["token"], order["seconds"])
    asyncio.run(load.run(**order["numbers"]))
    print(json.dumps({"counts": load.counts, "longest_abuse": load.longest_abuse}))


if __name__ == "__main__":
    main()

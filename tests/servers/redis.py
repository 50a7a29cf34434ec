"""A real Redis from Debian packages, which syncs every write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import redis
from tests.servers.debian import libraries, unpacked
from tests.servers.process import ServerProcess

from millstream.testing.kafka.node import free_port

_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


class RedisServer(ServerProcess):
    """Redis with an append-only file, or with ``cluster`` the first node of a cluster."""

    def __init__(self, directory: Path, *, cluster: bool = False) -> None:
        super().__init__(directory)
        self._files = unpacked("redis", _PACKAGES)
        bus = str(free_port())  # by default the port plus 10,000, which may be too high
        self._options = ("--cluster-enabled", "yes", "--cluster-port", bus) if cluster else ()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str | Path]:
        storage = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
        address = ("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory))
        return (self._files / "usr/bin/redis-server", *address, *storage, *self._options)

    def environment(self) -> Mapping[str, str]:
        return libraries(self._files)

    def is_ready(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:  # also while it loads its data
            return False

"""A real RabbitMQ from Debian packages, with its Erlang."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pika
from tests.servers.debian import libraries, unpacked
from tests.servers.process import ServerProcess

from millstream.testing.kafka.node import free_port

_PACKAGES = (
    "rabbitmq-server",
    "libsctp1",
    *(
        f"erlang-{name}"
        for name in (
            *("base", "asn1", "crypto", "public-key", "mnesia", "runtime-tools", "ssl", "eldap", "ftp", "tftp"),
            *("inets", "snmp", "os-mon", "parsetools", "syntax-tools", "tools", "xmerl"),
        )
    ),
)
_NO_BUSY_WAITING = ("-sbwt", "none", "-sbwtdcpu", "none", "-sbwtdio", "none")
"""Threads that wait for work in a loop made it start in 60 s instead of 18 where other programs use the cores."""


class _PortMapper(ServerProcess):
    """The process of Erlang that knows the ports of its nodes."""

    def __init__(self, directory: Path, files: Path) -> None:
        super().__init__(directory)
        self._files = files

    def command(self) -> Sequence[str | Path]:
        program = next((self._files / "usr/lib/erlang").glob("erts-*/bin/epmd"))
        return (program, "-address", "127.0.0.1", "-port", str(self.port))


class RabbitMqServer(ServerProcess):
    """RabbitMQ without plugins, run by Erlang itself: its scripts want to be installed."""

    start_seconds = 120.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._files = unpacked("rabbitmq", _PACKAGES)
        self._distribution = free_port()
        self._mapper = _PortMapper(directory / "epmd", self._files)

    def start(self) -> None:
        self._mapper.start()
        super().start()

    def stop(self) -> None:
        super().stop()
        self._mapper.stop()

    def kill(self) -> None:
        super().kill()
        self._mapper.kill()

    @property
    def _home(self) -> Path:
        return next((self._files / "usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        erlang = self._files / "usr/lib/erlang"
        programs = next(erlang.glob("erts-*/bin"))
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nlog.console = true\nlog.file = false\n"
            "vm_memory_high_watermark.absolute = 512MB\n"
            "disk_free_limit.absolute = 10MB\n"
        )
        (self.directory / "enabled_plugins").write_text("[].\n")
        return (
            *(programs / "beam.smp", *_NO_BUSY_WAITING, "--", "-root", erlang, "-progname", "erl", "-bindir", programs),
            *("-home", self.directory, "--", "-noshell", "-noinput", "-epmd_port", str(self._mapper.port)),
            *("-s", "rabbit", "boot", "-boot", "start_sasl", "-lager", "crash_log", "false"),
            *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
        )

    def environment(self) -> Mapping[str, str]:
        folder = str(self.directory)
        return {
            **libraries(self._files),
            "ERL_LIBS": str(self._home / "plugins"),
            "HOME": folder,
            "ROOTDIR": str(self._files / "usr/lib/erlang"),
            "BINDIR": str(next((self._files / "usr/lib/erlang").glob("erts-*/bin"))),
            "EMU": "beam",
            "RABBITMQ_BASE": folder,
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_NODENAME": f"rabbit{os.getpid()}@localhost",
            "ERL_MAX_PORTS": "1024",
        }

    def is_ready(self) -> bool:
        if not super().is_ready():
            return False
        try:
            self.connect().close()
        except (pika.exceptions.AMQPError, OSError):
            return False
        return True

    def connect(self) -> Any:
        """Return a connection."""
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, socket_timeout=10)
        return pika.BlockingConnection(parameters)

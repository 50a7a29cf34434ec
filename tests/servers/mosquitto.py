"""A real MQTT broker from Debian packages: Mosquitto."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.debian import libraries, unpacked
from tests.servers.process import ServerProcess

_PACKAGES = ("mosquitto", "libmosquitto1", "libwebsockets17", "libcjson1", "libdlt2", "libuv1", "libev4", "libwrap0")


class MosquittoServer(ServerProcess):
    """Mosquitto that keeps sessions on disk, and lets anyone in."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._files = unpacked("mosquitto", _PACKAGES)

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        settings = self.directory / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\nmax_queued_messages 0\n"
            f"persistence_location {self.directory}/\nautosave_on_changes true\nautosave_interval 1\nuser root\n"
        )
        return (self._files / "usr/sbin/mosquitto", "-c", settings)

    def environment(self) -> Mapping[str, str]:
        return libraries(self._files)

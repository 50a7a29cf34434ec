"""A real Alertmanager from its Debian package."""

from __future__ import annotations

import re
import shutil
import urllib.request
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.servers.debian import unpacked
from tests.servers.process import ServerProcess

_PACKAGES = ("prometheus-alertmanager",)
_SHARE = b"/usr/share/prometheus/alertmanager"
"""Where Debian's program looks for its templates, whether it is installed or not."""
_LOOK = re.compile(r'ts=(\S+) .*aggrGroup="(.*?[^\\])" msg=flushing alerts=(.*)')
_SENT = re.compile(r'ts=(\S+) .*msg="Notify success" attempts=1$')
_LOOKED_AT = re.compile(r"\[([0-9a-f]{7})\]\[(active|resolved)\]")


class Look(NamedTuple):
    """Alertmanager looks at a group that has alerts; the notification, if there is one, follows."""

    at: float
    """In seconds."""
    group_key: str
    alerts: dict[str, str]
    """``active`` or ``resolved`` by the first seven characters of the fingerprint."""


class Alertmanager(ServerProcess):
    """Alertmanager with a configuration, alone and without a cluster."""

    def __init__(self, directory: Path, config: str) -> None:
        super().__init__(directory)
        self._files = unpacked("alertmanager", _PACKAGES)
        self._config = config

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        config = self.directory / "alertmanager.yml"
        config.write_text(self._config)
        for template in (self._files / "usr/share/prometheus/alertmanager").glob("*.tmpl"):
            shutil.copy(template, self.directory)
        return (
            self._program(),
            f"--config.file={config}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--cluster.listen-address=",
            "--log.level=debug",
        )

    def _program(self) -> Path:
        """Return a copy of the program that looks for its templates in the directory in which it runs."""
        program = self.directory / "alertmanager"
        here = b"./".ljust(len(_SHARE), b"/")
        code = (self._files / "usr/bin/prometheus-alertmanager").read_bytes()
        program.write_bytes(code.replace(_SHARE, here))
        program.chmod(0o755)
        return program

    def post(self, path: str, body: bytes) -> bytes:
        """Send JSON to its API and return the answer."""
        return self._call("POST", path, body)

    def delete(self, path: str) -> None:
        """Delete something by its API."""
        self._call("DELETE", path, None)

    def looks(self) -> list[Look]:
        """Return the looks so far, which are in its log; it does not log a look at a group without alerts."""
        matches = [match for line in self._log_lines() if (match := _LOOK.search(line))]
        return [
            Look(_seconds(time), group.replace('\\"', '"'), dict(_LOOKED_AT.findall(alerts)))
            for time, group, alerts in (match.groups() for match in matches)
        ]

    def sent_at(self) -> list[float]:
        """Return when notifications were sent with the first attempt and marked as sent."""
        return [_seconds(match[1]) for line in self._log_lines() if (match := _SENT.search(line))]

    def failed_sends(self) -> list[str]:
        """Return the lines of its log about notifications that it could not send, or not with the first attempt."""
        return [line for line in self._log_lines() if "Notify" in line and "failed" in line]

    def _log_lines(self) -> list[str]:
        lines = (self.directory / "server.log").read_text().split("\n")
        return lines[:-1]  # the last one may not be complete

    def _call(self, method: str, path: str, body: bytes | None) -> bytes:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v2/{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return bytes(response.read())


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()

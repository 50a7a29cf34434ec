"""A real Alertmanager from its Debian package."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.servers.debian import unpacked
from tests.servers.process import ServerProcess

_PACKAGES = ("prometheus-alertmanager",)
_SHARE = b"/usr/share/prometheus/alertmanager"
"""Where Debian's program looks for its templates, whether it is installed or not."""


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
        request = urllib.request.Request(
            f"{self.url}/api/v2/{path}", body, {"Content-Type": "application/json"}, method="POST"
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return bytes(response.read())

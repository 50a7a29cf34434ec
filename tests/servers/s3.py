"""An S3 server: moto."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.servers.process import ServerProcess


class S3Server(ServerProcess):
    """An S3 server that keeps its buckets in memory: they are gone when it stops."""

    def command(self) -> Sequence[str | Path]:
        program = "import sys; from moto.server import main; main(sys.argv[1:])"
        return (sys.executable, "-c", program, "-H", "127.0.0.1", "-p", str(self.port))

    def uri(self, path: str) -> str:
        """Return the URI of a path such as ``bucket/folder``."""
        return f"s3://{path}?scheme=http&endpoint_override=127.0.0.1:{self.port}&region=us-east-1"

    def create_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{name}", method="PUT")
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).close()

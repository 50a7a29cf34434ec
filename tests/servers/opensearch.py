"""A real OpenSearch, assembled from its jars on Maven Central."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.servers.debian import NoServerError
from tests.servers.process import ServerProcess

from millstream.testing.kafka.artifacts import NoKafkaError, java_program, maven_jars

VERSION = "2.19.3"
_ARTIFACTS = (
    f"org.opensearch:opensearch:{VERSION}",
    f"org.opensearch.plugin:transport-netty4-client:{VERSION}",
    "org.apache.logging.log4j:log4j-core:2.21.0",
)
_PROGRAM = Path(__file__).parent / "java" / "OpenSearchNode.java"


class OpenSearchServer(ServerProcess):
    """One node, which keeps its indexes in its directory."""

    start_seconds = 120.0

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        try:
            self._java = java_program()
            self._jars = maven_jars(f"opensearch-{VERSION}", _ARTIFACTS)
        except NoKafkaError as reason:
            raise NoServerError(str(reason)) from reason

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str | Path]:
        options = ("-Xms400m", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dopensearch.path.conf=.")
        classes = os.pathsep.join([f"{self._jars}/*"])
        return (self._java, *options, "-cp", classes, _PROGRAM, self.directory, str(self.port))

    def is_ready(self) -> bool:
        request = urllib.request.Request(f"{self.url}/_cluster/health?wait_for_status=yellow&timeout=30s")
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=40).close()
        except (OSError, urllib.error.URLError):
            return False
        return True

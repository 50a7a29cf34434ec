"""The process of a web server: ``WebProcess`` starts it and writes its settings to standard input."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from pathlib import Path

from millstream.foundation.open_files import raise_open_file_limit
from millstream.foundation.typed_decoding import decode_json
from millstream.serve.credentials import Credentials
from millstream.serve.endpoint import Endpoint
from millstream.serve.process import Settings
from millstream.serve.server import WebServer
from millstream.serve.stalls import end_when_stalled

NICENESS = 10
"""Where the server and an app want the same processor, the server gets a tenth of the share of the app."""


def main() -> None:
    """Serve until standard input ends; signals are meant for the process that started this one."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    if not line:
        return
    os.nice(NICENESS)
    raise_open_file_limit()
    settings = decode_json(line, Settings)
    limit_memory(settings.max_memory)
    credentials = Credentials(
        settings.token, csrf=settings.csrf, cookie=settings.cookie, login_code=settings.login_code
    )
    endpoint = Endpoint(socket.socket(fileno=settings.descriptor), credentials, None, settings.hosts)
    server = WebServer(Path(settings.data_dir), settings.broker_url, endpoint=endpoint)
    end_when_stalled(server.work, settings.stall_seconds)
    sys.stdin.buffer.read()
    server.close()


def limit_memory(size: int) -> None:
    """Bound what this process can allocate; without this, one request could make the host kill other processes."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size if most == resource.RLIM_INFINITY else min(size, most), most))


if __name__ == "__main__":
    main()

"""The process of a web server: ``WebProcess`` starts it and writes its settings to standard input."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

import msgspec

from millstream.foundation.open_files import raise_open_file_limit
from millstream.serve.credentials import Credentials
from millstream.serve.endpoint import Endpoint
from millstream.serve.process import Settings
from millstream.serve.server import WebServer

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
    settings = msgspec.json.decode(line, type=Settings)
    credentials = Credentials(
        settings.token, csrf=settings.csrf, cookie=settings.cookie, login_code=settings.login_code
    )
    endpoint = Endpoint(socket.socket(fileno=settings.descriptor), credentials, None, settings.hosts)
    server = WebServer(Path(settings.data_dir), settings.broker_url, endpoint=endpoint)
    sys.stdin.buffer.read()
    server.close()


if __name__ == "__main__":
    main()

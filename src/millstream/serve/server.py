"""The web server, in a thread; its socket is bound before the thread starts, so that a used port fails at once."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import uvicorn

from millstream.errors import DefinitionError, StateError
from millstream.foundation.storage import translate_storage_errors
from millstream.operations.alert_watch import AlertWatch
from millstream.operations.data_directory import DataDirectory
from millstream.serve.connections import MAX_CONNECTIONS, LimitedProtocol
from millstream.serve.guard import Credentials
from millstream.serve.rates import Rates
from millstream.serve.site import Site
from millstream.serve.web import site_app

LOOPBACK = "127.0.0.1"
FIRST_PORT = 8484
_PORT_ATTEMPTS = 20
TOKEN_FILE = "web-token"  # noqa: S105  a name
TOKEN_VARIABLE = "MILLSTREAM_WEB_TOKEN"  # noqa: S105  a name
_MIN_TOKEN_LENGTH = 32
_HEADER_BYTES = 32_768


class WebAddress(NamedTuple):
    """Where to listen; ``port`` None means the first free port from ``FIRST_PORT`` on."""

    host: str = LOOPBACK
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> WebAddress:
        """Read ``HOST:PORT``, ``HOST`` or ``:PORT``.

        >>> WebAddress.parse("0.0.0.0:8080"), WebAddress.parse("[::1]:80")
        (WebAddress(host='0.0.0.0', port=8080), WebAddress(host='::1', port=80))
        """
        host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
        if not colon:
            host, port = text, ""
        if (port and not (port.isdigit() and int(port) < 65536)) or (colon and not port):
            raise DefinitionError(f"{text!r} is not a valid address", hint="use HOST:PORT, for example 127.0.0.1:8484")
        return cls(host.strip("[]") or LOOPBACK, int(port) if port else None)

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can connect."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_access(self, *, requires_token: bool) -> None:
        """Raise if the dashboard would be open to the network without a token, or with one that can be guessed."""
        token = os.environ.get(TOKEN_VARIABLE)
        if self.is_loopback:
            return
        if token and len(token) < _MIN_TOKEN_LENGTH:
            raise DefinitionError(
                f"the token in {TOKEN_VARIABLE} has {len(token)} characters, and {self.host} is open to the network",
                hint=f"use at least {_MIN_TOKEN_LENGTH}, for example the output of: openssl rand -hex 32",
            )
        if not token and not requires_token:
            raise DefinitionError(
                f"{self.host} is open to the network and requires a token", hint="leave out --no-token"
            )


class WebServer:
    """The dashboard and API of one data directory, served by a thread until ``close``."""

    def __init__(
        self,
        data_dir: Path,
        broker_url: str | None = None,
        address: WebAddress | None = None,
        *,
        hosts: Sequence[str] = (),
        requires_token: bool = True,
    ) -> None:
        address = address or WebAddress()
        self._requires_token = requires_token
        self._directory = DataDirectory(data_dir, broker_url)
        self.token_file: Path | None = None
        token = self._token(address)
        self._socket = _bind(address)
        self._watch = AlertWatch(self._directory)
        site = Site(self._directory, Rates(), self._watch)
        self._credentials = credentials = Credentials(token)
        names = [*hosts, *([] if _is_ip_address(address.host) else [address.host])]
        self._server = uvicorn.Server(
            uvicorn.Config(
                site_app(site, credentials, names),
                access_log=False,
                log_config=None,
                lifespan="off",
                h11_max_incomplete_event_size=_HEADER_BYTES,
                http=LimitedProtocol,
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="millstream-web", daemon=True)
        self._thread.start()
        self._watch.start()

    def _token(self, address: WebAddress) -> str | None:
        """Return the required token: from the environment, else a new one in a file; None if all users have access."""
        address.check_access(requires_token=self._requires_token)
        token = os.environ.get(TOKEN_VARIABLE)
        if token:
            return token
        if not self._requires_token:
            return None
        self.token_file = self._directory.path / TOKEN_FILE
        with translate_storage_errors(self.token_file.parent):
            return _token_in(self.token_file)

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    @property
    def url(self) -> str:
        """The URL for a browser on this host."""
        host, port = self._socket.getsockname()[:2]
        if ipaddress.ip_address(host).is_unspecified:
            host = "::1" if ":" in host else LOOPBACK
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def login_url(self) -> str:
        """The URL that logs a browser in, once; the same as ``url`` if no token is required."""
        code = self._credentials.login_code
        return self.url if code is None else f"{self.url}/login?code={code}"

    def close(self) -> None:
        """Stop listening, end open streams and close the broker."""
        self._watch.stop()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        self._directory.close()

    def wait(self) -> None:
        """Wait until the server has stopped."""
        self._thread.join()


def _token_in(path: Path) -> str:
    """Return the token in a file of this user; create it if there is none.

    It is kept, so that programs survive a restart, and shared by the servers of a data directory.
    """
    with suppress(OSError):
        status = path.lstat()
        is_private = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
        token = path.read_text(errors="replace").strip()
        if is_private and status.st_uid == os.geteuid() and len(token) >= _MIN_TOKEN_LENGTH:
            return token
        path.unlink()
    token = secrets.token_urlsafe(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token


def _bind(address: WebAddress) -> socket.socket:
    ports = [address.port] if address.port is not None else range(FIRST_PORT, FIRST_PORT + _PORT_ATTEMPTS)
    last_error: OSError | None = None
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            # asyncio disables Nagle's algorithm only if the protocol is given; with it a response needs 40 ms
            bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.bind((address.host, port))
                bound.listen(MAX_CONNECTIONS)
            except OSError:
                bound.close()
                raise
            return bound
        except OSError as error:
            last_error = error
    name = f"{address.host}:{address.port}" if address.port is not None else f"any port of {address.host}"
    raise StateError(
        f"cannot listen on {name}: {last_error}", hint="choose another address with --web HOST:PORT, or use --no-web"
    ) from last_error


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

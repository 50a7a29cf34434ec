"""A server in a thread: bound before it is started, so that a port that cannot be had is known at once."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import uvicorn

from millstream.errors import DefinitionError, StateError
from millstream.serve.guard import Keys
from millstream.serve.place import Place
from millstream.serve.rates import Rates
from millstream.serve.site import Site
from millstream.serve.watch import Watch
from millstream.serve.web import site_app

LOOPBACK = "127.0.0.1"
FIRST_PORT = 8484
_PORTS_TRIED = 20
TOKEN_FILE = "web-token"  # noqa: S105  a name
TOKEN_VARIABLE = "MILLSTREAM_WEB_TOKEN"  # noqa: S105  a name
_HEADER_BYTES = 32_768
_MOST_CONNECTIONS = 256


class Address(NamedTuple):
    """Where to listen; ``port`` None means the first free one from ``FIRST_PORT`` on."""

    host: str = LOOPBACK
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``HOST:PORT``, ``HOST`` or ``:PORT``.

        >>> Address.parse("0.0.0.0:8080"), Address.parse(":9000"), Address.parse("[::1]:80")
        (Address(host='0.0.0.0', port=8080), Address(host='127.0.0.1', port=9000), Address(host='::1', port=80))
        """
        host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
        if not colon:
            host, port = text, ""
        if (port and not (port.isdigit() and int(port) < 65536)) or (colon and not port):
            raise DefinitionError(f"{text!r} is no address", hint="write HOST:PORT, such as 127.0.0.1:8484")
        return cls(host.strip("[]") or LOOPBACK, int(port) if port else None)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class WebServer:
    """The dashboard and API of one data directory, served by a thread until ``close``."""

    def __init__(
        self,
        data_dir: Path,
        broker_url: str | None = None,
        address: Address | None = None,
        *,
        hosts: Sequence[str] = (),
    ) -> None:
        address = address or Address()
        self._place = Place(data_dir, broker_url)
        self._socket = _bound(address)
        self.token_file: Path | None = None
        self._watch = Watch(self._place)
        site = Site(self._place, Rates(), self._watch)
        keys = Keys(self._token(address))
        names = [*hosts, *([] if _is_number(address.host) else [address.host])]
        self._server = uvicorn.Server(
            uvicorn.Config(
                site_app(site, keys, names),
                access_log=False,
                log_config=None,
                lifespan="off",
                limit_concurrency=_MOST_CONNECTIONS,
                h11_max_incomplete_event_size=_HEADER_BYTES,
                http="h11",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="millstream-web", daemon=True)
        self._thread.start()
        self._watch.start()

    def _token(self, address: Address) -> str | None:
        """Return the token that is asked for: the one of the environment, a new one, or none on loopback."""
        given = os.environ.get(TOKEN_VARIABLE)
        if given:
            return given
        if address.is_loopback:
            return None
        token = secrets.token_urlsafe(32)
        self.token_file = self._place.data_dir / TOKEN_FILE
        file = os.open(self.token_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w") as written:
            os.fchmod(written.fileno(), 0o600)
            written.write(f"{token}\n")
        return token

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host, port = self._socket.getsockname()[:2]
        if ipaddress.ip_address(host).is_unspecified:
            host = "::1" if ":" in host else LOOPBACK
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def close(self) -> None:
        """Stop to listen, end open streams and give back what was opened."""
        self._watch.stop()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()
        self._place.close()

    def wait(self) -> None:
        """Wait until the server has ended."""
        self._thread.join()


def _bound(address: Address) -> socket.socket:
    ports = [address.port] if address.port is not None else range(FIRST_PORT, FIRST_PORT + _PORTS_TRIED)
    problem: OSError | None = None
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            # asyncio turns Nagle's algorithm off only where the protocol is named; with it an answer takes 40 ms
            found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                found.bind((address.host, port))
                found.listen(_MOST_CONNECTIONS)
            except OSError:
                found.close()
                raise
            return found
        except OSError as error:
            problem = error
    wanted = f"{address.host}:{address.port}" if address.port is not None else f"a port of {address.host}"
    raise StateError(
        f"cannot listen on {wanted}: {problem}", hint="choose another with --web HOST:PORT, or leave it out: --no-web"
    ) from problem


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

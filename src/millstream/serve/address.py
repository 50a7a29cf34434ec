"""The address of the web server, and its socket, which is bound at once, so that a used port is an error."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import NamedTuple

from millstream.errors import DefinitionError, StateError

LOOPBACK = "127.0.0.1"
FIRST_PORT = 8484
BACKLOG = 256
_PORT_ATTEMPTS = 20
TOKEN_VARIABLE = "MILLSTREAM_WEB_TOKEN"  # noqa: S105  a name
MIN_TOKEN_LENGTH = 32


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
        if token and len(token) < MIN_TOKEN_LENGTH:
            raise DefinitionError(
                f"the token in {TOKEN_VARIABLE} has {len(token)} characters, and {self.host} is open to the network",
                hint=f"use at least {MIN_TOKEN_LENGTH}, for example the output of: openssl rand -hex 32",
            )
        if not token and not requires_token:
            raise DefinitionError(
                f"{self.host} is open to the network and requires a token", hint="leave out --no-token"
            )


def bind(address: WebAddress) -> socket.socket:
    """Return a socket that listens on an address."""
    ports = [address.port] if address.port is not None else range(FIRST_PORT, FIRST_PORT + _PORT_ATTEMPTS)
    last_error = OSError()
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            # asyncio disables Nagle's algorithm only if the protocol is given; with it a response needs 40 ms
            bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            try:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.bind((address.host, port))
                bound.listen(BACKLOG)
            except OSError:
                bound.close()
                raise
            return bound
        except OSError as error:
            last_error = error
    name = f"{address.host}:{address.port}" if address.port is not None else f"any port of {address.host}"
    raise StateError(
        f"cannot listen on {name}: {last_error.strerror or last_error}",
        hint="choose another address with --web HOST:PORT",
    ) from last_error


def url_of(listening: socket.socket) -> str:
    """Return the URL for a browser on this host."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = "::1" if ":" in host else LOOPBACK
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_ip_address(host: str) -> bool:
    """Whether a host is given by its address, not by a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True

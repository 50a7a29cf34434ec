"""Where a web server listens and what it requires: all that is decided before the first request."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from millstream.foundation.storage import translate_storage_errors
from millstream.serve.address import TOKEN_VARIABLE, WebAddress, bind, is_ip_address, url_of
from millstream.serve.credentials import TOKEN_FILE, Credentials, token_in


@dataclass(frozen=True)
class Endpoint:
    """A socket that listens, the credentials of its clients and the names under which browsers reach it."""

    socket: socket.socket
    credentials: Credentials
    token_file: Path | None
    hosts: tuple[str, ...]

    @classmethod
    def open(
        cls, data_dir: Path, address: WebAddress | None, *, hosts: Sequence[str] = (), requires_token: bool = True
    ) -> Endpoint:
        """Bind an address; the token is that of the environment, else one in a file, None if all users have access."""
        address = address or WebAddress()
        address.check_access(requires_token=requires_token)
        token, token_file = os.environ.get(TOKEN_VARIABLE) or None, None
        if token is None and requires_token:
            token_file = data_dir / TOKEN_FILE
            with translate_storage_errors(data_dir):
                token = token_in(token_file)
        names = (*hosts, *(() if is_ip_address(address.host) else (address.host,)))
        return cls(bind(address), Credentials.new(token), token_file, names)

    @property
    def url(self) -> str:
        """The URL for a browser on this host."""
        return url_of(self.socket)

    @property
    def login_url(self) -> str:
        """The URL that logs a browser in, once; the same as ``url`` if no token is required."""
        code = self.credentials.login_code
        return self.url if code is None else f"{self.url}/login?code={code}"

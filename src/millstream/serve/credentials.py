"""The secrets of a web server, and how a request carries them."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from millstream.serve.address import MIN_TOKEN_LENGTH

TOKEN_FILE = "web-token"  # noqa: S105  a name
COOKIE = "millstream"
PORT = re.compile(r":\d{1,5}$")


class Credentials:
    """The secrets of one server: the access token, if one is required, and random ones for forms and cookies.

    Forms and cookies must not be derived from the token: a login page would then let anyone test guesses offline.
    """

    def __init__(self, token: str | None, *, csrf: str = "", cookie: str = "", login_code: str | None = None) -> None:
        self.token = token
        self.csrf = csrf or secrets.token_hex(32)
        self.cookie = cookie or secrets.token_hex(32)
        self.login_code = login_code
        """What a link contains instead of the token, which would stay in the history of a browser; valid once."""

    @classmethod
    def new(cls, token: str | None) -> Credentials:
        """Return credentials with a link that logs in once, if a token is required."""
        return cls(token, login_code=None if token is None else secrets.token_urlsafe(32))

    def is_authorized(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token or the cookie that the login set."""
        if self.token is None:
            return True
        bearer = bearer_token(headers)
        if bearer is not None:
            return hmac.compare_digest(bearer.encode(), self.token.encode())
        return hmac.compare_digest(_cookie(headers).encode(), self.cookie.encode())

    def redeem(self, code: str) -> bool:
        """Whether a login code is valid; from then on it is not."""
        if self.login_code is None or not hmac.compare_digest(code.encode(), self.login_code.encode()):
            return False
        self.login_code = None
        return True

    def is_bearer(self, headers: Mapping[str, str]) -> bool:
        """Whether a request carries the token itself, which no other site can make a browser send."""
        return self.token is not None and bearer_token(headers) is not None and self.is_authorized(headers)


def token_in(path: Path) -> str:
    """Return the token in a file of this user; create it if there is none.

    It is kept, so that programs survive a restart, and shared by the servers of a data directory.
    """
    with suppress(OSError):
        status = path.lstat()
        is_private = stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
        token = path.read_text(errors="replace").strip()
        if is_private and status.st_uid == os.geteuid() and len(token) >= MIN_TOKEN_LENGTH:
            return token
        path.unlink()
    token = secrets.token_urlsafe(32)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{token}\n")
    return token


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token of an Authorization header, None without one or with another scheme."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def cookie_name(headers: Mapping[str, str]) -> str:
    """Return the name of the cookie: browsers share cookies between ports, and each port may be another server."""
    port = PORT.search(headers.get("host", ""))
    return COOKIE if port is None else f"{COOKIE}-{port[0][1:]}"


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers))
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value

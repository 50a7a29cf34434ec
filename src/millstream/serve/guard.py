"""The guard at the door: who may come in, from where, and what every answer tells a browser to refuse.

Nothing behind it is reached by a request with a foreign ``Host`` (DNS rebinding), without the token where one is
needed, or, if it changes something, from a page that is not ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import time
from collections import deque
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.serve.answers import failure
from millstream.serve.login import login_page

COOKIE = "millstream"
CSRF_HEADER = "x-csrf-token"
MAX_BODY_BYTES = 2 * 1024 * 1024
_MAX_ADDRESS_BYTES = 16_384
_LOGIN_TRIES, _LOGIN_SECONDS = 5, 60.0
_PORT = re.compile(r":\d{1,5}$")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" a browser would not tell the origin of our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Keys:
    """The secrets of one server: the token to come in with, if one is needed, and what is derived from it."""

    def __init__(self, token: str | None) -> None:
        self.token = token
        self._secret = (token or secrets.token_urlsafe(32)).encode()

    def derived(self, purpose: str) -> str:
        """Return a secret for one purpose, from which the token cannot be computed."""
        return hmac.new(self._secret, purpose.encode(), sha256).hexdigest()

    @property
    def csrf(self) -> str:
        return self.derived("csrf")

    @property
    def cookie(self) -> str:
        return self.derived("cookie")

    def opens(self, headers: Headers) -> bool:
        """Whether a request carries the token or the cookie that was given for it."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(given.strip().encode(), self.token.encode())
        return hmac.compare_digest(_cookie(headers).encode(), self.cookie.encode())

    def is_bearer(self, headers: Headers) -> bool:
        """Whether a program came in with the token itself, which no foreign page can make a browser send."""
        return self.token is not None and "authorization" in headers and self.opens(headers)


class LoginLimit:
    """Refuses to look at more tokens than a person would type."""

    def __init__(self) -> None:
        self._failures: deque[float] = deque(maxlen=_LOGIN_TRIES)

    def is_reached(self) -> bool:
        return len(self._failures) == _LOGIN_TRIES and time.monotonic() - self._failures[0] < _LOGIN_SECONDS

    def note_failure(self) -> None:
        self._failures.append(time.monotonic())


class Guard:
    """Middleware around the whole site."""

    def __init__(self, app: ASGIApp, *, keys: Keys, hosts: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._keys = keys
        self._hosts = hosts | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # there are no websockets here
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        style = "" if refused is None else refused.headers.get("x-style", "")
        if refused is not None and style:
            del refused.headers["x-style"]
        guarded = _guarded(send, scope["path"], style)
        if refused is not None:
            await refused(scope, receive, guarded)
            return
        await self._app(scope, _Limited(receive), guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if not self._knows_host(headers.get("host", "")):
            return failure(400, "host", "this server does not answer to that name", "use its address, or --allow-host")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > _MAX_ADDRESS_BYTES:
            return failure(
                414, "too_large", f"an address may have {_MAX_ADDRESS_BYTES} bytes", "ask for less at a time"
            )
        if _content_length(headers) > MAX_BODY_BYTES:
            return failure(413, "too_large", f"a request may have {MAX_BODY_BYTES} bytes", "send less at a time")
        is_login = scope["path"] == "/login" and scope["method"] == "POST"
        if not is_login and not self._keys.opens(headers):
            if scope["path"].startswith("/api/") or scope["method"] != "GET":
                return failure(401, "token", "this server wants its token", "send Authorization: Bearer TOKEN")
            return login_page(self._keys.csrf)
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            return self._write_refusal(scope, headers, is_login)
        return None

    def _write_refusal(self, scope: Scope, headers: Headers, is_login: bool) -> Response | None:
        origin = headers.get("origin")
        own = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        if origin is not None and origin != own:
            return failure(403, "origin", "a page from elsewhere may not change anything", "use the dashboard itself")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return failure(403, "origin", "a page from elsewhere may not change anything", "use the dashboard itself")
        if is_login or self._keys.is_bearer(headers):  # the form of the login carries its token in the body
            return None
        given = headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(given.encode(), self._keys.csrf.encode()):
            return failure(403, "csrf", f"the header {CSRF_HEADER} is missing or wrong", "get it from /api/csrf")
        return None

    def _knows_host(self, host: str) -> bool:
        """Whether a Host is ours: a name must be known, while an address cannot be rebound by anybody's DNS."""
        name = _PORT.sub("", host).lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


class _Limited:
    """Ends a request whose body turns out larger than it may be."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._bytes = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._bytes > MAX_BODY_BYTES else message


def _guarded(send: Send, path: str, style: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            headers["content-security-policy"] = _POLICY.format(style=f" '{style}'" if style else "")
            if not path.startswith("/static/") or message["status"] != 200:
                headers["cache-control"] = "no-store"
        await send(message)

    return guarded


def _content_length(headers: Headers) -> int:
    told = headers.get("content-length", "0")
    return int(told) if told.isascii() and told.isdigit() else 0  # the body itself is counted too


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value

"""The security middleware: checks every request, and sets the security headers of every response.

It rejects a request with an unknown ``Host`` (DNS rebinding), a request without the token where one is required, and a
write that does not come from our own pages (CSRF).
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections import OrderedDict, deque

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millstream.serve.credentials import PORT, Credentials, bearer_token
from millstream.serve.embedding import Embedding, embedding_of
from millstream.serve.login import login_page
from millstream.serve.read_tokens import ReadTokens
from millstream.serve.responses import error_response

CSRF_HEADER = "x-csrf-token"
MAX_BODY_BYTES = 2 * 1024 * 1024
_MAX_URL_BYTES = 16_384
_LOGIN_TRIES, _LOGIN_SECONDS = 5, 60.0
_MAX_ADDRESSES = 10_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{style}; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with "no-referrer" a browser would not send the origin of our own forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class LoginLimit:
    """Limits how many wrong tokens can be tried per minute from an address; other addresses are not affected."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def is_reached(self, scope: Scope) -> bool:
        """Whether the client has to wait."""
        failures = self._failures.get(_client_address(scope))
        if failures is None or len(failures) < _LOGIN_TRIES:
            return False
        return time.monotonic() - failures[0] < _LOGIN_SECONDS

    def record_failure(self, scope: Scope) -> None:
        """Count a wrong token."""
        address = _client_address(scope)
        self._failures.setdefault(address, deque(maxlen=_LOGIN_TRIES)).append(time.monotonic())
        self._failures.move_to_end(address)
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)


class Guard:
    """Middleware around the complete site."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        credentials: Credentials,
        read_tokens: ReadTokens,
        limit: LoginLimit,
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        self._app = app
        self._credentials = credentials
        self._read_tokens = read_tokens
        self._limit = limit
        self._hosts = hosts | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # websockets are not supported
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        embedding = embedding_of(scope, headers, self._read_tokens)
        rejection = self._rejection(scope, headers, embedding)
        style = "" if rejection is None else rejection.headers.get("x-style", "")
        if rejection is not None and style:
            del rejection.headers["x-style"]
        secured_send = _with_security_headers(send, scope["path"], style, embedding)
        if rejection is not None:
            await rejection(scope, receive, secured_send)
            return
        await self._app(scope, _BodyLimit(receive), secured_send)

    def _rejection(self, scope: Scope, headers: Headers, embedding: Embedding | None) -> Response | None:
        if not self._is_allowed_host(headers.get("host", "")):
            return error_response(400, "host", "unknown host name", "use the IP address, or --allow-host NAME")
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > _MAX_URL_BYTES:
            return error_response(414, "too_large", f"a URL can have {_MAX_URL_BYTES} bytes", "shorten the query")
        if _content_length(headers) > MAX_BODY_BYTES:
            return error_response(
                413, "too_large", f"a request body can have {MAX_BODY_BYTES} bytes", "send smaller requests"
            )
        if embedding is not None:
            return self._embedding_rejection(scope, embedding)
        is_login = scope["path"] == "/login" and scope["method"] in ("GET", "POST")
        rejection = None if is_login else self._token_rejection(scope, headers)
        if rejection is not None:
            return rejection
        if _is_cross_site_read(scope, headers):
            return error_response(403, "origin", "cross-site requests are not allowed", "use the dashboard itself")
        if scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            return self._write_rejection(scope, headers, is_login)
        return None

    def _embedding_rejection(self, scope: Scope, embedding: Embedding) -> Response | None:
        """Return why a request with a read token is refused; wrong tokens count as failed attempts."""
        if embedding.rejection is None or embedding.rejection.status_code != 401:
            return embedding.rejection
        if self._limit.is_reached(scope):
            return error_response(429, "token", "too many failed attempts", "wait a minute")
        self._limit.record_failure(scope)
        return embedding.rejection

    def _token_rejection(self, scope: Scope, headers: Headers) -> Response | None:
        has_bearer = self._credentials.token is not None and bearer_token(headers) is not None
        if has_bearer and self._limit.is_reached(scope):
            return error_response(429, "token", "too many failed attempts", "wait a minute")
        if not self._credentials.is_authorized(headers):
            if has_bearer:
                self._limit.record_failure(scope)
            if scope["path"].startswith("/api/") or scope["method"] != "GET":
                return error_response(401, "token", "a token is required", "send Authorization: Bearer TOKEN")
            return login_page(self._credentials.csrf)
        return None

    def _write_rejection(self, scope: Scope, headers: Headers, is_login: bool) -> Response | None:
        origin = headers.get("origin")
        own_origin = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
        is_foreign = origin is not None and origin != own_origin
        if is_foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return error_response(403, "origin", "cross-site requests cannot make changes", "use the dashboard itself")
        if is_login or self._credentials.is_bearer(headers):  # the login form carries its CSRF token in the body
            return None
        csrf = headers.get(CSRF_HEADER, "")
        if not hmac.compare_digest(csrf.encode(), self._credentials.csrf.encode()):
            return error_response(403, "csrf", f"the header {CSRF_HEADER} is missing or wrong", "get it from /api/csrf")
        return None

    def _is_allowed_host(self, host: str) -> bool:
        """Whether a Host is ours: a name must be listed, while an IP address cannot be rebound through DNS."""
        name = PORT.sub("", host).lower()
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True


class _BodyLimit:
    """Disconnects a request whose body exceeds the limit while it is read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._bytes = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if self._bytes > MAX_BODY_BYTES else message


def _with_security_headers(send: Send, path: str, style: str, embedding: Embedding | None) -> Send:
    async def secured_send(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            headers["content-security-policy"] = _POLICY.format(style=f" '{style}'" if style else "")
            if not path.startswith("/static/") or message["status"] != 200:
                headers["cache-control"] = "no-store"
            if embedding is not None:
                embedding.apply(headers)
        await send(message)

    return secured_send


def _is_cross_site_read(scope: Scope, headers: Headers) -> bool:
    """Whether another site makes a browser read from us; it may only link to our pages."""
    is_link = headers.get("sec-fetch-dest", "document") == "document" and not scope["path"].startswith("/api/")
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link


def _client_address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _content_length(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() else 0  # _BodyLimit counts the body itself

"""The site as an ASGI app: the security middleware around pages, static files and the API."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from millstream.serve.admission import Admission
from millstream.serve.api import (
    alerts,
    apps,
    connectors,
    dead_letters,
    groups,
    live,
    records,
    sql,
    tables,
    timing,
    topics,
    topology,
)
from millstream.serve.credentials import Credentials, cookie_name
from millstream.serve.embedding import SCRIPT
from millstream.serve.guard import Guard, LoginLimit
from millstream.serve.login import login_page
from millstream.serve.openapi import openapi_document
from millstream.serve.operations import Operation, internal_error
from millstream.serve.pages.routes import page_routes
from millstream.serve.read_tokens import ReadTokens
from millstream.serve.responses import error_response, json_response
from millstream.serve.site import Site
from millstream.serve.static import embedded_route, static_routes

OPERATIONS: tuple[Operation, ...] = (
    *apps.OPERATIONS,
    *topology.OPERATIONS,
    *topics.OPERATIONS,
    *records.OPERATIONS,
    *tables.OPERATIONS,
    *timing.OPERATIONS,
    *groups.OPERATIONS,
    *connectors.OPERATIONS,
    *dead_letters.OPERATIONS,
    *alerts.OPERATIONS,
    *live.OPERATIONS,
    *sql.OPERATIONS,
)
_LOGIN_BYTES = 4096


def site_app(site: Site, credentials: Credentials, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the complete site behind the security middleware."""

    async def openapi(_: Request) -> Response:
        return json_response(_document())

    async def csrf(_: Request) -> Response:
        return PlainTextResponse(credentials.csrf)

    limit = LoginLimit()
    routes = [
        Route("/api/openapi.json", openapi, methods=["GET"]),
        Route("/api/csrf", csrf, methods=["GET"]),
        *(operation.route(site) for operation in OPERATIONS),
        *_login_routes(credentials, limit),
        *static_routes(),
        embedded_route(SCRIPT, SCRIPT.rpartition("/")[2]),
        *page_routes(site, credentials),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _internal_error})
    return Guard(
        Admission(inner),
        credentials=credentials,
        read_tokens=ReadTokens(site.directory.path),
        limit=limit,
        hosts=frozenset(host.lower() for host in hosts),
    )


@cache
def _document() -> dict[str, Any]:
    return openapi_document(OPERATIONS)


def _login_routes(credentials: Credentials, limit: LoginLimit) -> list[Route]:
    async def login(request: Request) -> Response:
        """Exchange the token, or the code of the link that the server has printed, for the cookie."""
        if credentials.is_authorized(request.headers):
            return RedirectResponse("/", 303)
        if limit.is_reached(request.scope):
            return login_page(credentials.csrf, "Too many failed attempts; wait a minute.", 429)
        return await _login_by_token(request) if request.method == "POST" else _login_by_link(request)

    async def _login_by_token(request: Request) -> Response:
        body = await request.body()
        form = parse_qs(body[:_LOGIN_BYTES].decode("utf-8", "replace"))
        token, csrf = form.get("token", [""])[0], form.get("csrf", [""])[0]
        if not hmac.compare_digest(csrf.encode(), credentials.csrf.encode()):
            return login_page(credentials.csrf, "The server has restarted since this form was loaded; try again.", 403)
        if not hmac.compare_digest(token.strip().encode(), (credentials.token or "").encode()):
            limit.record_failure(request.scope)
            return login_page(credentials.csrf, "The token is wrong.", 401)
        return _logged_in(request, credentials)

    def _login_by_link(request: Request) -> Response:
        code = request.query_params.get("code", "")
        if credentials.redeem(code):
            return _logged_in(request, credentials)
        if code:
            limit.record_failure(request.scope)
        return login_page(credentials.csrf, "The link is valid once; log in with the token." if code else "", 401)

    return [Route("/login", login, methods=["GET", "POST"])]


def _logged_in(request: Request, credentials: Credentials) -> Response:
    response = RedirectResponse("/", 303)
    name, is_secure = cookie_name(request.headers), request.url.scheme == "https"
    response.set_cookie(name, credentials.cookie, httponly=True, samesite="strict", secure=is_secure, path="/")
    return response


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "see /api/openapi.json" if error.status_code != 405 else "use POST for changes and GET for everything else"
    response = error_response(error.status_code, "http", error.detail.lower(), hint)
    response.headers.update(error.headers or {})
    return response


async def _internal_error(_: Request, error: Exception) -> Response:
    return internal_error(error)

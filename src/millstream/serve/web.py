"""The site as an ASGI app: the guard, then pages, static files and the API."""

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

from millstream.serve.answers import failure, success
from millstream.serve.api import alerts, apps, groups, letters, live, records, tables, timing, topics, topology
from millstream.serve.guard import COOKIE, Guard, Keys, LoginLimit
from millstream.serve.login import login_page
from millstream.serve.openapi import openapi_document
from millstream.serve.operations import Operation
from millstream.serve.pages.routes import page_routes
from millstream.serve.site import Site
from millstream.serve.static import static_routes

OPERATIONS: tuple[Operation, ...] = (
    *apps.OPERATIONS,
    *topology.OPERATIONS,
    *topics.OPERATIONS,
    *records.OPERATIONS,
    *tables.OPERATIONS,
    *timing.OPERATIONS,
    *groups.OPERATIONS,
    *letters.OPERATIONS,
    *alerts.OPERATIONS,
    *live.OPERATIONS,
)
_LOGIN_BYTES = 4096


def site_app(site: Site, keys: Keys, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the whole site, guarded."""

    async def openapi(_: Request) -> Response:
        return success(_document())

    async def csrf(_: Request) -> Response:
        return PlainTextResponse(keys.csrf)

    routes = [
        Route("/api/openapi.json", openapi, methods=["GET"]),
        Route("/api/csrf", csrf, methods=["GET"]),
        *(operation.route(site) for operation in OPERATIONS),
        *_login_routes(keys),
        *static_routes(),
        *page_routes(site, keys),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _broken})
    return Guard(inner, keys=keys, hosts=frozenset(host.lower() for host in hosts))


@cache
def _document() -> dict[str, Any]:
    return openapi_document(OPERATIONS)


def _login_routes(keys: Keys) -> list[Route]:
    limit = LoginLimit()

    async def login(request: Request) -> Response:
        if keys.token is None:
            return RedirectResponse("/", 303)
        body = await request.body()
        form = parse_qs(body[:_LOGIN_BYTES].decode("utf-8", "replace"))
        given, csrf = form.get("token", [""])[0], form.get("csrf", [""])[0]
        if limit.is_reached():
            return login_page(keys.csrf, "Too many wrong tokens; wait a minute.", 429)
        if not hmac.compare_digest(csrf.encode(), keys.csrf.encode()):
            return login_page(keys.csrf, "This form was from before a restart; try again.", 403)
        if not hmac.compare_digest(given.strip().encode(), keys.token.encode()):
            limit.note_failure()
            return login_page(keys.csrf, "That is not the token.", 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            COOKIE, keys.cookie, httponly=True, samesite="strict", secure=request.url.scheme == "https", path="/"
        )
        return response

    return [Route("/login", login, methods=["POST"])]


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "see /api/openapi.json" if error.status_code != 405 else "what changes something is POST, the rest is GET"
    answer = failure(error.status_code, "http", error.detail.lower(), hint)
    answer.headers.update(error.headers or {})
    return answer


async def _broken(_: Request, error: Exception) -> Response:
    return failure(500, "internal", f"{type(error).__name__} while answering", "this is a bug; please report it")

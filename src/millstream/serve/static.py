"""Static files: a fixed set, read once; no request path ever reaches the file system."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES = (
    *("style.css", "icon.svg", "live.js", "actions.js", "tables.js"),
    *("charts.js", "records.js", "topology.js", "sql.js"),
)


@cache
def static_file(name: str) -> bytes:
    """Return the content of a file of the fixed set."""
    return (files("millstream.serve") / "static_files" / name).read_bytes()


@cache
def static_url(name: str) -> str:
    """Return the URL of a file, with a digest, so that a browser can cache it forever."""
    return f"/static/{name}?v={sha256(static_file(name)).hexdigest()[:12]}"


def static_routes() -> list[Route]:
    """Return a route for each file."""
    return [_route(name) for name in NAMES]


def embedded_route(path: str, name: str) -> Route:
    """Return the route of a file that other sites load; it has no digest in its URL, so that it is checked again."""

    async def endpoint(_: Request) -> Response:
        return Response(static_file(name), media_type=_TYPES[name.rpartition(".")[2]])

    return Route(path, endpoint, methods=["GET"])


def _route(name: str) -> Route:
    async def endpoint(_: Request) -> Response:
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(static_file(name), media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    return Route(f"/static/{name}", endpoint, methods=["GET"])

"""Requests that carry a read token, and the script that pages of other sites load."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Scope

from millstream.serve.read_tokens import PREFIX, ReadGrant, ReadTokens
from millstream.serve.responses import error_response

SCRIPT = "/embed/millstream-table.js"
_LIVE_TABLES = "/api/live/tables/"


class Embedding(NamedTuple):
    """The outcome of a request from another site: refused, or allowed with the origin that may see the response."""

    rejection: Response | None
    origin: str | None = None

    def apply(self, headers: MutableHeaders) -> None:
        """Let the page that asked see the response."""
        headers["cross-origin-resource-policy"] = "cross-origin"
        if self.origin is not None:
            headers["access-control-allow-origin"] = self.origin
            headers["vary"] = "origin"


def embedding_of(scope: Scope, headers: Headers, tokens: ReadTokens) -> Embedding | None:
    """Return the outcome of a request with a read token, or for the script; None for any other request."""
    if scope["path"] == SCRIPT and scope["method"] in ("GET", "HEAD"):
        return Embedding(None, "*")
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    token = query.get("token") or headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not token.startswith(PREFIX):
        return None
    grant = tokens.grant(token)
    origin = headers.get("origin")
    if grant is None:
        return Embedding(error_response(401, "token", "the read token is wrong or has expired", "create a new one"))
    own = f"{scope.get('scheme', 'http')}://{headers.get('host', '')}"
    if origin is not None and origin not in (*grant.origins, own):
        return Embedding(
            error_response(403, "origin", f"the read token is not for pages of {origin}", "create one with --origin")
        )
    if not _allows(grant, scope, query):
        return Embedding(
            error_response(403, "token", "the read token does not allow this", "it reads the tables it names, live"),
            origin,
        )
    return Embedding(None, origin)


def _allows(grant: ReadGrant, scope: Scope, query: dict[str, str]) -> bool:
    """Return whether a request is for a table of the grant, and for rows that it allows."""
    if scope["method"] != "GET" or not scope["path"].startswith(_LIVE_TABLES):
        return False
    table = unquote(scope["path"].removeprefix(_LIVE_TABLES))
    has_range = "first" in query or "last" in query
    rows_are_allowed = not grant.prefix or (query.get("prefix", "").startswith(grant.prefix) and not has_range)
    return f"{query.get('app', '')}/{table}" in grant.tables and rows_are_allowed

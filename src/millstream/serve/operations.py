"""An operation of the API as data: one declaration yields its route, its input validation and its documentation."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from millstream.errors import MillstreamError
from millstream.foundation.text import printable
from millstream.foundation.typed_decoding import convert, decode_json
from millstream.serve.responses import error_response, json_response, response_to
from millstream.serve.site import Site

_log = logging.getLogger(__name__)
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


class _Key(Convertor[str]):
    """The remaining path as a key, which can contain any characters."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("key", _Key())


class Nothing(msgspec.Struct, frozen=True):
    """No parameters."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path; ``params`` are those of path and query, ``result`` is the type of the response.

    ``respond`` turns what the handler returns into a response other than JSON.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    handler: Callable[..., Any]
    params: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    result: Any = None
    media_types: tuple[str, ...] = ("application/json",)
    respond: Callable[[Any], Response] | None = None

    @property
    def path_parameters(self) -> list[str]:
        return _PARAMETER.findall(self.path)

    @property
    def name(self) -> str:
        return self.handler.__name__.strip("_")

    def route(self, site: Site) -> Route:
        """Return the route of this operation for a site."""

        async def endpoint(request: Request) -> Response:
            return await self._handle(site, request)

        return Route(self.path, endpoint, methods=[self.method], name=self.name)

    async def _handle(self, site: Site, request: Request) -> Response:
        try:
            arguments = [convert(_parameters(request), self.params, strict=False)]
            if self.body is not None:
                arguments.append(await _body(request, self.body))
        except ClientDisconnect:
            return error_response(413, "too_large", "the request is too large", "send smaller requests")
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return error_response(400, "request", f"invalid request: {error}", "see /api/openapi.json")
        except _WrongMediaTypeError:
            return error_response(415, "media_type", "a body must be JSON", "send Content-Type: application/json")
        try:
            result = await run_in_threadpool(self.handler, site, *arguments)
            return self.respond(result) if self.respond is not None else json_response(result)
        except MillstreamError as error:
            return response_to(error, is_read=self.method == "GET")
        except MemoryError:
            return error_response(413, "too_large", "the request needs too much memory", "ask for less data")
        except Exception as error:
            _log.error("%s %s failed: %s", self.method, printable(request.url.path), printable(repr(error)))
            return internal_error(error)


def internal_error(error: Exception) -> Response:
    """Return the response for an unexpected exception, without its message, which may hold data of the user."""
    return error_response(
        500, "internal", f"{type(error).__name__} while handling the request", "this is a bug; please report it"
    )


class _WrongMediaTypeError(Exception):
    """The content type of the body is not JSON; this also rejects the forms of other sites."""


def _parameters(request: Request) -> dict[str, Any]:
    """Return path and query parameters; empty query parameters, which forms send, count as missing."""
    query = {name: value for name, value in request.query_params.items() if value != ""}
    resumed = request.headers.get("last-event-id", "")
    return {**({"last_event_id": resumed} if resumed else {}), **query, **request.path_params}


async def _body(request: Request, kind: type[msgspec.Struct]) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _WrongMediaTypeError
    return decode_json(await request.body(), kind)

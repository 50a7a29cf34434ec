"""An operation of the API as data: one declaration gives its route, the check of its input and its documentation."""

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
from millstream.serve.answers import failure, failure_of, success
from millstream.serve.site import Site

_log = logging.getLogger(__name__)
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


class _Key(Convertor[str]):
    """The rest of a path as a key, whatever characters it has."""

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
    """One method of one path; ``params`` are those of path and query, ``answer`` the type of what comes back.

    ``respond`` makes another response than JSON of what the handler returns.
    """

    method: Literal["GET", "POST"]
    path: str
    summary: str
    handler: Callable[..., Any]
    params: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: Any = None
    media_types: tuple[str, ...] = ("application/json",)
    respond: Callable[[Any], Response] | None = None

    @property
    def path_parameters(self) -> list[str]:
        return _PARAMETER.findall(self.path)

    @property
    def name(self) -> str:
        return self.handler.__name__.strip("_")

    def route(self, site: Site) -> Route:
        """Return the route that answers for a site."""

        async def endpoint(request: Request) -> Response:
            return await self._answer(site, request)

        return Route(self.path, endpoint, methods=[self.method], name=self.name)

    async def _answer(self, site: Site, request: Request) -> Response:
        reading = self.method == "GET"
        try:
            arguments = [msgspec.convert(_given(request), self.params, strict=False)]
            if self.body is not None:
                arguments.append(await _body(request, self.body))
        except ClientDisconnect:
            return failure(413, "too_large", "the request is too large", "send less at a time")
        except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(400, "request", f"the request does not fit: {error}", "see /api/openapi.json")
        except _WrongMediaTypeError:
            return failure(415, "media_type", "a body must be JSON", "send Content-Type: application/json")
        try:
            result = await run_in_threadpool(self.handler, site, *arguments)
            return self.respond(result) if self.respond is not None else success(result)
        except MillstreamError as error:
            return failure_of(error, reading=reading)
        except Exception as error:
            _log.error("%s %s failed: %s", self.method, printable(request.url.path), printable(repr(error)))
            return failure(
                500, "internal", f"{type(error).__name__} while answering", "this is a bug; please report it"
            )


class _WrongMediaTypeError(Exception):
    """The body is not announced as JSON, as a form of a foreign page would not be."""


def _given(request: Request) -> dict[str, Any]:
    """Return path and query parameters; empty ones of a query count as left out, as forms send them."""
    query = {name: value for name, value in request.query_params.items() if value != ""}
    return {**query, **request.path_params}


async def _body(request: Request, kind: type[msgspec.Struct]) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _WrongMediaTypeError
    return msgspec.json.decode(await request.body(), type=kind)

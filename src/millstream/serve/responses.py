"""JSON responses, and the responses for errors."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from millstream.errors import (
    BrokerUnavailableError,
    DefinitionError,
    InvalidNameError,
    MillstreamError,
    OffsetOutOfRangeError,
    QueryLimitError,
    RecordTooLargeError,
    SerdeError,
    SqlError,
    StateError,
    StorageError,
    StorageFullError,
    TopicExistsError,
    UnknownTableError,
    UnknownTopicError,
)
from millstream.foundation.text import printable_lines

_STATUS: tuple[tuple[type[MillstreamError], int], ...] = (  # the first match wins
    (UnknownTopicError, 404),
    (UnknownTableError, 404),
    (TopicExistsError, 409),
    (RecordTooLargeError, 413),
    (QueryLimitError, 413),
    (StateError, 409),
    (InvalidNameError, 400),
    (DefinitionError, 400),
    (SerdeError, 400),
    (OffsetOutOfRangeError, 400),
    (StorageFullError, 507),
    (StorageError, 503),
    (BrokerUnavailableError, 503),
)


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong and what to do about it; ``code`` is stable; ``line`` and ``column`` are those of SQL."""

    code: str
    message: str
    hint: str | None = None
    line: int | UnsetType = UNSET
    column: int | UnsetType = UNSET


class ErrorResponse(msgspec.Struct, frozen=True):
    """The response to a request that failed."""

    error: ErrorDetail


def json_response(value: object, status: int = 200) -> Response:
    """Return a value as JSON; a value that JSON cannot represent is encoded as its ``repr``."""
    return Response(msgspec.json.encode(value, enc_hook=repr), status, media_type="application/json")


def error_response(status: int, code: str, message: str, hint: str | None = None, **location: int) -> Response:
    """Return an error as JSON; ``location`` is its line and column in SQL, if known."""
    shown_hint = None if hint is None else printable_lines(hint)
    detail = ErrorDetail(code=code, message=printable_lines(message), hint=shown_hint, **location)
    return Response(msgspec.json.encode(ErrorResponse(detail)), status, media_type="application/json")


def http_status(error: MillstreamError, *, is_read: bool) -> int:
    """Return the HTTP status of an error; for a read, an invalid name is not found."""
    if is_read and isinstance(error, InvalidNameError):
        return 404
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 409)


def response_to(error: MillstreamError, *, is_read: bool) -> Response:
    """Return the response that reports an error."""
    location = error.facts if isinstance(error, SqlError) else {}
    return error_response(http_status(error, is_read=is_read), error.code, error.message, error.hint, **location)

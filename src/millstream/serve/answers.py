"""Answers in JSON, and what becomes of errors in them."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from millstream.errors import (
    BrokerUnavailableError,
    DefinitionError,
    InvalidNameError,
    MillstreamError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    SerdeError,
    StateError,
    StorageError,
    StorageFullError,
    TopicExistsError,
    UnknownTableError,
    UnknownTopicError,
)
from millstream.foundation.text import printable

_STATUS: tuple[tuple[type[MillstreamError], int], ...] = (  # the first that fits counts
    (UnknownTopicError, 404),
    (UnknownTableError, 404),
    (TopicExistsError, 409),
    (RecordTooLargeError, 413),
    (StateError, 409),
    (InvalidNameError, 400),
    (DefinitionError, 400),
    (SerdeError, 400),
    (OffsetOutOfRangeError, 400),
    (StorageFullError, 507),
    (StorageError, 503),
    (BrokerUnavailableError, 503),
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong and what to do about it; ``code`` is stable."""

    code: str
    message: str
    hint: str | None = None


class Failure(msgspec.Struct, frozen=True):
    """The answer to a request that could not be met."""

    error: Problem


def success(value: object, status: int = 200) -> Response:
    """Return a value as JSON; what has no form in JSON is shown as Python does."""
    return Response(msgspec.json.encode(value, enc_hook=repr), status, media_type="application/json")


def failure(status: int, code: str, message: str, hint: str | None = None) -> Response:
    """Return a refusal."""
    problem = Problem(code=code, message=printable(message), hint=None if hint is None else printable(hint))
    return Response(msgspec.json.encode(Failure(problem)), status, media_type="application/json")


def status_of(error: MillstreamError, *, reading: bool) -> int:
    """Return the status that an error means; a name that cannot be is not found when it is read."""
    if reading and isinstance(error, InvalidNameError):
        return 404
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 409)


def failure_of(error: MillstreamError, *, reading: bool) -> Response:
    """Return the answer that tells an error."""
    return failure(status_of(error, reading=reading), error.code, error.message, error.hint)

"""The headers of dead letters: why a record failed, and where it came from."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType

from millstream.foundation.text import error_text
from millstream.records import Headers

SOURCE_TIMESTAMP = "__millstream.errors.timestamp"

_OUR_FILES = f"{Path(__file__).parents[1]}{os.sep}"


def _from_user_code(stack: TracebackType | None) -> TracebackType | None:
    """Return a stack without the frames that lead to user code; the whole stack if no user code was called."""
    frame = stack
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(_OUR_FILES):
        frame = frame.tb_next
    return frame or stack


def error_headers(error: BaseException, topic: str, partition: int, offset: int, stage: str, node: str) -> Headers:
    """Return the headers that say why a record became a dead letter; the first six are named as in Kafka Streams."""
    cause = error.__cause__ or error
    try:
        stack = "".join(traceback.format_exception(type(cause), cause, _from_user_code(cause.__traceback__)))
    except Exception:  # user code may define what formatting calls
        stack = ""
    facts = {
        "__streams.errors.exception": f"{type(cause).__module__}.{type(cause).__qualname__}",
        "__streams.errors.message": error_text(cause),
        "__streams.errors.stacktrace": stack,
        "__streams.errors.topic": topic or None,  # a timer has no record
        "__streams.errors.partition": str(partition),
        "__streams.errors.offset": str(offset),
        "__millstream.errors.stage": stage,
        "__millstream.errors.node": node,
    }
    return tuple(
        (name, None if text is None else text.encode("utf-8", "backslashreplace")) for name, text in facts.items()
    )


def source_timestamp_headers(timestamp: int) -> Headers:
    """Return the header with the timestamp of the source record, if its dead letter has that of a later step."""
    return ((SOURCE_TIMESTAMP, str(timestamp).encode()),)

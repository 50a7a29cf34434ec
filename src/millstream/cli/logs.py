"""Logging to standard error, as text or as one JSON object per line."""

from __future__ import annotations

import logging
from typing import Literal

from millstream.foundation.text import json_line, printable
from millstream.foundation.times import format_timestamp

LogFormat = Literal["text", "json"]


class _Formatter(logging.Formatter):
    def __init__(self, form: LogFormat) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        at, level = format_timestamp(round(record.created * 1000)), record.levelname.lower()
        if self._form == "text":
            return f"{at} {level} {printable(record.getMessage())}"
        facts = getattr(record, "facts", {})
        event = getattr(record, "event", None) or record.getMessage()
        return json_line({"time": at, "level": level, "logger": record.name, "event": event, **facts})


def log_to_stderr(form: LogFormat) -> None:
    """Log messages of Millstream from level info on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(form))
    log = logging.getLogger("millstream")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False  # libraries may add a handler to the root, which would repeat every line

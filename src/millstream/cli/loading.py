"""Errors in the user's own file: reported with the frames of that file, without those of the command line."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from millstream.errors import MillstreamError
from millstream.foundation.text import printable

_OUR_DIRECTORIES = (Path(__file__).parents[1], Path(click.__file__).parent)
_NOT_USER_FILES = (*(f"{path}{os.sep}" for path in _OUR_DIRECTORIES), "<frozen importlib")
_IMPORTLIB = str(Path("importlib", "__init__.py"))


class LoadError(Exception):
    """A file could not be imported; ``cause`` is the exception, ``user_frames`` are the user's lines it passed."""

    def __init__(self, target: str, cause: Exception, user_frames: str) -> None:
        super().__init__(f"cannot load {target}: {type(cause).__name__}: {cause}".removesuffix(": "))
        self.cause = cause
        self.user_frames = user_frames


@contextmanager
def reporting_load_errors(target: str) -> Iterator[None]:
    """Turn an exception of the user's file into a ``LoadError``; a Millstream error from elsewhere stays unchanged."""
    try:
        yield
    except Exception as error:
        user_frames = "" if target.endswith(".sql") else _user_frames(error)  # SQL names its own lines
        if isinstance(error, MillstreamError) and not user_frames:
            raise
        raise LoadError(target, error, user_frames) from error


def _user_frames(error: Exception) -> str:
    """Return the frames of the user's files in a traceback, formatted as Python does."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_file(frame.filename)]
    lines = traceback.format_list(frames)
    if isinstance(error, SyntaxError):
        lines += traceback.format_exception_only(error)[:-1]  # the invalid line
    return "\n".join(map(printable, "".join(lines).splitlines()))


def _is_user_file(file: str) -> bool:
    return not file.startswith(_NOT_USER_FILES) and not file.endswith(_IMPORTLIB)

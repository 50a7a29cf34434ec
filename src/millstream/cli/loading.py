"""What is told of an error in the user's own file: where in it, without the way of the command line to it."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from millstream.errors import MillstreamError
from millstream.foundation.text import printable

_OURS = (Path(__file__).parents[1], Path(click.__file__).parent)
_NOT_THEIRS = (*(f"{path}{os.sep}" for path in _OURS), "<frozen importlib")
_IMPORTLIB = str(Path("importlib", "__init__.py"))


class LoadError(Exception):
    """A file could not be imported; ``cause`` is what it raised, and ``place`` shows where."""

    def __init__(self, target: str, cause: Exception, place: str) -> None:
        super().__init__(f"cannot load {target}: {type(cause).__name__}: {cause}".removesuffix(": "))
        self.cause = cause
        self.place = place


@contextmanager
def being_loaded(target: str) -> Iterator[None]:
    """Turn what the user's file raises into a ``LoadError``; errors of ours outside of it stay as they are."""
    try:
        yield
    except Exception as error:
        place = _lines_of_user(error)
        if isinstance(error, MillstreamError) and not place:
            raise
        raise LoadError(target, error, place) from error


def _lines_of_user(error: Exception) -> str:
    """Return the lines of the user's files that an error passed, as Python shows them."""
    passed = [one for one in traceback.extract_tb(error.__traceback__) if _is_theirs(one.filename)]
    lines = traceback.format_list(passed)
    if isinstance(error, SyntaxError):
        lines += traceback.format_exception_only(error)[:-1]  # the place that cannot be read
    return "\n".join(map(printable, "".join(lines).splitlines()))


def _is_theirs(file: str) -> bool:
    return not file.startswith(_NOT_THEIRS) and not file.endswith(_IMPORTLIB)

"""Secrets: known by where they are kept, read only where they are used, printed never."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from millstream.errors import DefinitionError

_SOURCES = ("env", "file", "call")
_MASK = "***"


class Secret:
    """A password, key or token that is kept elsewhere: in the environment, in a file, or behind a function.

    Only the place travels, into settings, plans and workers; the value is read by the process that uses it, each time
    anew, so that a changed secret needs no restart. Whatever prints a secret prints ``***``.

    >>> password = Secret.env("KAFKA_PASSWORD")
    >>> password, f"{password}", password.reference
    (***, '***', 'env:KAFKA_PASSWORD')
    """

    __slots__ = ("reference",)

    def __init__(self, reference: str) -> None:
        kind, _, place = reference.partition(":")
        if kind not in _SOURCES or not place:
            raise DefinitionError(  # what was given may be the secret itself, so it is not repeated
                "a secret is named by where it is kept, not by its value",
                hint="write env:NAME, file:PATH or call:MODULE:FUNCTION",
            )
        self.reference = reference

    @classmethod
    def env(cls, name: str) -> Secret:
        """A secret in an environment variable."""
        return cls(f"env:{name}")

    @classmethod
    def file(cls, path: str | Path) -> Secret:
        """A secret in a file, without its last line break."""
        return cls(f"file:{path}")

    @classmethod
    def call(cls, function: str) -> Secret:
        """A secret that a function without arguments returns; named ``"module:function"`` so that workers find it."""
        return cls(f"call:{function}")

    def reveal(self) -> str:
        """Read the value now."""
        kind, _, place = self.reference.partition(":")
        try:
            value = {"env": _from_environment, "file": _from_file, "call": _from_function}[kind](place)
        except Exception as error:
            raise DefinitionError(
                f"the secret {self.reference!r} cannot be read: {type(error).__name__}",
                hint="it must be there for every process that uses it, Spark's workers included",
            ) from None  # the cause could hold what the function was working with
        if not isinstance(value, str) or not value:
            raise DefinitionError(f"the secret {self.reference!r} is empty or not text", hint="set it")
        return value

    def __repr__(self) -> str:
        return _MASK

    def __format__(self, spec: str) -> str:
        return _MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reference == self.reference

    def __hash__(self) -> int:
        return hash(self.reference)

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self.reference,)


def _from_environment(name: str) -> Any:
    return os.environ[name]


def _from_file(path: str) -> Any:
    return Path(path).read_text().rstrip("\r\n")


def _from_function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)()

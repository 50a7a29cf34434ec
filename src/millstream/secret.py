"""Secrets: references to where a secret is stored. They are read only where they are used and never printed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from millstream.errors import DefinitionError

_SOURCES = ("env", "file", "call")
_MASK = "***"


class Secret:
    """A password, key or token in an environment variable, in a file, or returned by a function.

    Settings, plans and workers hold only the reference. The process that uses the secret reads its value each time,
    so that a changed secret needs no restart. A secret always prints as ``***``.

    >>> password = Secret.env("KAFKA_PASSWORD")
    >>> password, f"{password}", password.reference
    (***, '***', 'env:KAFKA_PASSWORD')
    """

    __slots__ = ("reference",)

    def __init__(self, reference: str) -> None:
        source, _, location = reference.partition(":")
        if source not in _SOURCES or not location:
            raise DefinitionError(  # the argument may be the secret itself, so the message does not repeat it
                "a secret must be a reference to where it is stored, not its value",
                hint="write env:NAME, file:PATH or call:MODULE:FUNCTION",
            )
        self.reference = reference

    @classmethod
    def env(cls, name: str) -> Secret:
        """Reference an environment variable."""
        return cls(f"env:{name}")

    @classmethod
    def file(cls, path: str | Path) -> Secret:
        """Reference a file; a trailing line break is removed."""
        return cls(f"file:{path}")

    @classmethod
    def call(cls, function: str) -> Secret:
        """Reference a function without arguments as ``"module:function"``, so that workers can import it."""
        return cls(f"call:{function}")

    def reveal(self) -> str:
        """Read the value now."""
        source, _, location = self.reference.partition(":")
        try:
            value = {"env": _read_environment, "file": _read_file, "call": _call_function}[source](location)
        except Exception as error:
            raise DefinitionError(
                f"the secret {self.reference!r} cannot be read: {type(error).__name__}",
                hint="it must be available to every process that uses it, including Spark's workers",
            ) from None  # the cause could contain the secret
        if not isinstance(value, str) or not value:
            raise DefinitionError(f"the secret {self.reference!r} is empty or not text", hint="set it to a text")
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


def revealed(settings: Mapping[str, str | Secret]) -> dict[str, str]:
    """Return settings of another system with the values of their secrets.

    >>> revealed({"region": "eu-west-1"})
    {'region': 'eu-west-1'}
    """
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in settings.items()}


def is_reference(text: str) -> bool:
    """Return whether a text that may be a plain value or a secret refers to a secret; a ``file://`` URI does not."""
    source, _, location = text.partition(":")
    return source in _SOURCES and not location.startswith("//")


def _read_environment(name: str) -> Any:
    return os.environ[name]


def _read_file(path: str) -> Any:
    return Path(path).read_text().rstrip("\r\n")


def _call_function(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)()

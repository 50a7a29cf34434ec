"""Targets that remember the last batch refuse batches of another lineage, whose numbers mean other records."""

from __future__ import annotations

from typing import Literal, TypeAlias

from millstream.errors import ConnectorError, DefinitionError

OtherLineage: TypeAlias = Literal["refuse", "adopt"]
"""After a reset or a restored savepoint: stop, or let the target continue with the new numbers."""


def check_choice(setting: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        raise DefinitionError(f"{setting}={value!r} is not valid", hint=f"use {' or '.join(map(repr, choices))}")


def other_lineage(sink: str, stored: str, given: str) -> ConnectorError:
    """Return the error for a target that was last written by another lineage."""
    return ConnectorError(
        f"the target of sink {sink!r} was written by lineage {stored!r}, and this batch is of {given!r}",
        hint='the app was reset or restored: empty the target, or set on_other_lineage="adopt" to continue with it',
        sink=sink,
        stored=stored,
        given=given,
    )

"""Silences: alerts whose labels match are not notified for some time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from millstream.errors import DefinitionError

_MATCHER = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts that match all ``matchers`` are silent from ``starts`` to ``ends``, wall-clock milliseconds since 1970.

    A matcher is written as in Alertmanager: ``hall=A``, ``hall!=A``, ``hall=~"A|B"`` or ``hall!~"A.*"``. An alert
    without the label is compared as if it were empty.
    """

    id: str
    matchers: tuple[str, ...]
    starts: int
    ends: int
    author: str = ""
    comment: str = ""

    def __post_init__(self) -> None:
        if not self.matchers:
            raise DefinitionError("a silence without matchers would silence all alerts", hint="add one: alertname=NAME")
        for matcher in self.matchers:
            parsed(matcher)

    def is_active(self, now: int) -> bool:
        """Whether it applies now."""
        return self.starts <= now < self.ends

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether all matchers hold for the labels of an alert."""
        return all(_holds(*parsed(matcher), labels) for matcher in self.matchers)


def is_silenced(labels: Mapping[str, str], silences: Iterable[Silence], now: int) -> bool:
    """Whether one of the silences applies to an alert now."""
    return any(silence.is_active(now) and silence.matches(labels) for silence in silences)


@lru_cache(maxsize=1000)
def parsed(matcher: str) -> tuple[str, str, str]:
    """Return the label, the operator and the value of a matcher.

    >>> parsed('hall=~"A|B"')
    ('hall', '=~', 'A|B')
    """
    match = _MATCHER.fullmatch(matcher)
    if match is None:
        raise DefinitionError(f"{matcher!r} is not a matcher", hint="write LABEL=VALUE, LABEL!=VALUE or LABEL=~PATTERN")
    label, operator, value = match.groups()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    if "~" in operator:
        try:
            re.compile(value)
        except re.error as error:
            raise DefinitionError(f"{matcher!r} has a pattern that is not valid: {error}") from error
    return label, operator, value


def _holds(label: str, operator: str, value: str, labels: Mapping[str, str]) -> bool:
    actual = labels.get(label, "")
    is_equal = actual == value if "~" not in operator else re.fullmatch(value, actual) is not None
    return is_equal != operator.startswith("!")

"""Values of records as other systems want them: as named fields, or filled into templates."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from typing import Any

import msgspec

from millstream.connect.protocols import Rejected
from millstream.errors import DefinitionError, SerdeError
from millstream.foundation.json_text import key_text
from millstream.foundation.text import error_text, shown
from millstream.records import Record


def fields_of(value: Any, *, keep: tuple[type, ...] = ()) -> dict[str, Any]:
    """Return the named fields of a mapping, struct or dataclass; all types but ``keep`` become those of JSON."""
    try:
        fields = msgspec.to_builtins(value, str_keys=True, builtin_types=keep)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise SerdeError(f"{shown(value):.80} has no named fields: {error_text(error)}") from error
    if not isinstance(fields, dict):
        raise SerdeError(f"{shown(value):.80} has no named fields", hint="map it to a dict or a struct first")
    return fields


class _Escaping(Formatter):
    """Escapes what is filled into a template, but not the template."""

    def __init__(self, escape: Callable[[str], str]) -> None:
        self._escape = escape

    def format_field(self, value: Any, format_spec: str) -> str:
        return self._escape(format(value, format_spec))


def fill(template: str, record: Record[Any, Any], escape: Callable[[str], str] = str) -> str:
    """Fill a template such as ``"total:{key}"`` or ``"{value[city]} has {value[celsius]} °C"``.

    It knows ``key`` as text, ``value``, ``topic``, ``partition``, ``offset`` and ``timestamp``.

    >>> import html
    >>> record = Record(topic="t", partition=0, offset=1, key="a", value={"city": "<Rome>"}, timestamp=0)
    >>> fill("{topic}:{key} {value[city]}", record), fill("<b>{value[city]}</b>", record, html.escape)
    ('t:a <Rome>', '<b>&lt;Rome&gt;</b>')
    """
    known = msgspec.structs.asdict(record) | {"key": key_text(record.key)}
    try:
        return template.format_map(known) if escape is str else _Escaping(escape).vformat(template, (), known)
    except Exception as error:  # of the template, or of a format method of the value
        reason = f"{type(error).__name__}: {error_text(error)}"
        raise SerdeError(f"the template {template!r} cannot be filled: {reason}") from error


def check_template(setting: str, template: str) -> str:
    """Return a template if its braces are balanced."""
    try:
        list(Formatter().parse(template))
    except ValueError as error:
        reason = f"{setting}={template!r} is not a template: {error}"
        raise DefinitionError(reason, hint='write for example "total:{key}"') from error
    return template


def rejected(record: Record[Any, Any], error: Exception) -> Rejected:
    """Reject a record because of an error of its own."""
    return Rejected(record, error_text(error))

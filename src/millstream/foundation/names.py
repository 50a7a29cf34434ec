"""The rule for names of topics, apps, stores, stages and groups."""

from __future__ import annotations

import re

from millstream.errors import InvalidNameError

_ALLOWED = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}")


def is_valid_name(name: object) -> bool:
    """Whether ``name`` is a valid name.

    >>> is_valid_name("rides"), is_valid_name("../rides")
    (True, False)
    """
    return isinstance(name, str) and _ALLOWED.fullmatch(name) is not None


def check_name(kind: str, name: object) -> str:
    """Return ``name`` if it is valid as part of a path, a topic or a metric.

    >>> check_name("topic", "rides.high-amount_2")
    'rides.high-amount_2'
    """
    if not isinstance(name, str) or not is_valid_name(name):
        raise InvalidNameError(
            f"{kind} name {name!r} is not allowed",
            hint="use 1 to 200 of the characters A-Z a-z 0-9 . _ - and no leading dot",
            name=name,
        )
    return name


def snake_case(name: str) -> str:
    """Convert a class name to snake case.

    >>> snake_case("MapValues")
    'map_values'
    """
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def producer_prefix(app: str, stage: str) -> str:
    """Return the prefix of the producer names of a stage's tasks; the partition number follows."""
    return f"{app}.{stage}."

"""LIKE patterns."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache


def like_matcher(pattern: str | None, escape: str | None) -> Callable[[str, str], bool]:
    """Return what matches a text with a pattern; ``pattern`` is given if it is constant.

    >>> like_matcher(None, None)("barber", "bar%"), like_matcher("b_r", None)("bar", "b_r")
    (True, True)
    """
    if pattern is not None:
        match = _expression(pattern, escape).fullmatch
        return lambda text, _pattern: match(text) is not None
    return lambda text, changing: _expression(changing, escape).fullmatch(text) is not None


@lru_cache(1000)
def _expression(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Return the regular expression of a pattern.

    A part between two wildcards is matched where it first occurs, and never elsewhere: that is enough, and without it
    the time would grow with a power of the number of wildcards.
    """
    parts, is_escaped = [""], False
    for character in pattern:
        if character == escape and not is_escaped:
            is_escaped = True
        elif character == "%" and not is_escaped:
            parts.append("")
        else:
            parts[-1] += "." if character == "_" and not is_escaped else re.escape(character)
            is_escaped = False
    first, *others = parts
    if not others:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
    return re.compile(f"{first}{middle}.*{others[-1]}", re.DOTALL)

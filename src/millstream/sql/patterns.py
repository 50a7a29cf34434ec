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
    parts, is_escaped = [], False
    for character in pattern:
        if character == escape and not is_escaped:
            is_escaped = True
            continue
        wildcard = {"%": ".*", "_": "."}.get(character)
        parts.append(re.escape(character) if is_escaped or wildcard is None else wildcard)
        is_escaped = False
    return re.compile("".join(parts), re.DOTALL)

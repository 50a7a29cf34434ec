"""LIKE patterns: what they match, and in which time."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from millstream.sql.patterns import like_matcher


def backtracking(text: str, pattern: str) -> bool:
    """Match as the definition says, with every way to divide the text."""
    expression = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


@given(text=st.text("ab\n%_", max_size=8), pattern=st.text("ab\n%_", max_size=8))
def test_a_pattern_matches_what_its_definition_says(text: str, pattern: str) -> None:
    assert like_matcher(pattern, None)(text, pattern) == backtracking(text, pattern)
    assert like_matcher(None, None)(text, pattern) == backtracking(text, pattern)


@given(text=st.text("ab%_!", max_size=8))
def test_an_escaped_text_matches_itself_only(text: str) -> None:
    escaped = re.sub("[%_!]", r"!\g<0>", text)
    assert like_matcher(escaped, "!")(text, escaped)
    assert not like_matcher(escaped, "!")(text + "a", escaped)


def test_many_wildcards_take_no_longer_than_one() -> None:
    began = time.process_time()
    assert not like_matcher("%a" * 20 + "%b", None)("a" * 2_000, "")
    assert time.process_time() - began < 1.0  # with backtracking, a power of the number of wildcards

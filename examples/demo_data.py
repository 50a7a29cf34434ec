"""Data for the demo: endless lines of text, made up from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

_WORDS = [
    "the",
    "mill",
    "turns",
    "while",
    "water",
    "runs",
    "and",
    "the",
    "stream",
    "carries",
    "every",
    "grain",
    "of",
    "truth",
    "to",
    "the",
    "wheel",
    "a",
    "log",
    "remembers",
    "what",
    "happened",
    "a",
    "table",
    "knows",
    "what",
    "is",
    "true",
    "a",
    "window",
    "waits",
    "for",
    "the",
    "late",
]  # easier to read than a list


def lines(seed: int) -> Iterator[str]:
    """Yield lines of a few words each."""
    pick = random.Random(seed)
    while True:
        yield " ".join(pick.choices(_WORDS, k=pick.randrange(3, 9)))

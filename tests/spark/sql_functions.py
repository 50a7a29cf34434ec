"""Functions of SQL that workers import."""

from __future__ import annotations

from collections.abc import Iterator


def shout(text: str, times: int) -> str:
    return text.upper() + "!" * times


def letters(word: str) -> Iterator[str]:
    yield from word


class Product:
    """The product of numbers."""

    def start(self) -> int:
        return 1

    def add(self, state: int, number: int) -> int:
        return state * number

    def merge(self, earlier: int, later: int) -> int:
        return earlier * later

    def finish(self, state: int) -> int:
        return state

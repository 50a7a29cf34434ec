"""Converts lines to keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from millstream.errors import SerdeError
from millstream.foundation.text import bytes_to_text

Pair: TypeAlias = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class LineFormat:
    r"""The format of lines: the key or its separator, the value that means null, and whether values are JSON.

    >>> LineFormat.of(None, ":", "-").parse(1, [b"a:1", b"b:-", b"c"])[0]
    [(b'a', b'1'), (b'b', None)]
    """

    key: bytes | None
    separator: bytes | None
    null: bytes | None
    is_json: bool

    @classmethod
    def of(cls, key: str | None, separator: str | None, null: str | None, *, is_json: bool = False) -> LineFormat:
        """Build a format from options."""
        return cls(_bytes(key), _bytes(separator), _bytes(null), is_json)

    def parse(self, number: int, lines: list[bytes]) -> tuple[list[Pair], SerdeError | None]:
        """Return the records of lines, numbered from ``number``, up to the first invalid line, and its error."""
        pairs: list[Pair] = []
        try:
            for line in lines:
                pairs.append(self._pair(number + len(pairs), line))
        except SerdeError as error:
            return pairs, error
        return pairs, None

    def _pair(self, number: int, line: bytes) -> Pair:
        key, value = self.key, line
        if self.separator is not None:
            key, separator, value = line.partition(self.separator)
            if not separator:
                raise SerdeError(
                    f"line {number} has no key: {bytes_to_text(line)!r:.80}",
                    hint=f"separate key and value with {bytes_to_text(self.separator)!r}",
                )
        if value == self.null:
            return key, None
        if self.is_json:
            _check_json(number, value)
        return key, value


def _check_json(number: int, value: bytes) -> None:
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SerdeError(
            f"line {number} is not JSON: {error}", hint="use --value text to write lines unchanged"
        ) from error


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")

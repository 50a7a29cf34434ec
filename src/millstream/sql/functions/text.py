"""Functions of text."""

from __future__ import annotations

import binascii
import hashlib
import re
import uuid
from typing import Any

from millstream.sql.functions.registry import function
from millstream.sql.java_patterns import MAX_LENGTH, java_expression, replaced


@function("UCASE UPPER", "STRING -> STRING")
def _upper(text: str) -> str:
    return text.upper()


@function("LCASE LOWER", "STRING -> STRING")
def _lower(text: str) -> str:
    return text.lower()


@function("TRIM", "STRING -> STRING")
def _trim(text: str) -> str:
    return text.strip()


@function("LEN LENGTH CHAR_LENGTH", "STRING -> INTEGER", "BYTES -> INTEGER")
def _length(text: str | bytes) -> int:
    return len(text)


@function("INITCAP", "STRING -> STRING")
def _initcap(text: str) -> str:
    return re.sub(r"(\S)(\S*)", lambda match: match[1].upper() + match[2].lower(), text)


@function("REVERSE", "STRING -> STRING")
def _reverse(text: str) -> str:
    return text[::-1]


@function("CONCAT", "STRING, STRING... -> STRING", "BYTES, BYTES... -> BYTES", nulls=True)
def _concat(*parts: Any) -> Any:
    given = [part for part in parts if part is not None]
    return (b"" if given and isinstance(given[0], bytes) else "").join(given)


@function("CONCAT_WS", "STRING, STRING, STRING... -> STRING", "BYTES, BYTES, BYTES... -> BYTES", nulls=True)
def _concat_ws(separator: Any, *parts: Any) -> Any:
    return None if separator is None else separator.join([part for part in parts if part is not None])


@function("SUBSTRING SUBSTR", "STRING, INTEGER -> STRING", "STRING, INTEGER, INTEGER -> STRING")
@function("SUBSTRING SUBSTR", "BYTES, INTEGER -> BYTES", "BYTES, INTEGER, INTEGER -> BYTES")
def _substring(text: Any, position: int, length: int | None = None) -> Any:
    start = min(position - 1, len(text)) if position > 0 else max(len(text) + position, 0) if position else 0
    if length is None:
        return text[start:]
    return text[start : max(start, min(start + length, len(text)))]


@function("LPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def _lpad(text: Any, length: int, padding: Any) -> Any:
    missing = _missing(text, length, padding)
    return (padding * missing)[:missing] + text[:length]


@function("RPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def _rpad(text: Any, length: int, padding: Any) -> Any:
    missing = _missing(text, length, padding)
    return text[:length] + (padding * missing)[:missing]


def _missing(text: Any, length: int, padding: Any) -> int:
    if not padding or not 0 <= length <= MAX_LENGTH:
        raise ValueError(f"a text cannot be padded to {length} with {padding!r}")
    return max(0, length - len(text))


@function("REPEAT", "STRING, INTEGER -> STRING")
def _repeat(text: str, count: int) -> str:
    _check_length(len(text) * count)
    return text * count


def _check_length(length: int) -> None:
    if length > MAX_LENGTH:
        raise ValueError(f"the result would have more than {MAX_LENGTH:,} characters")


@function("REPLACE", "STRING, STRING, STRING -> STRING")
def _replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    if len(text) * len(new) > MAX_LENGTH:
        _check_length(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


@function("INSTR", "STRING, STRING -> INTEGER", "STRING, STRING, INTEGER -> INTEGER")
@function("INSTR", "STRING, STRING, INTEGER, INTEGER -> INTEGER")
def _instr(text: str, part: str, position: int = 1, occurrence: int = 1) -> int:
    if not part or not text or position == 0:
        return 0
    index = position - 2 if position > 0 else len(text) + position + 1
    for _ in range(occurrence):
        index = text.find(part, index + 1) if position > 0 else text.rfind(part, 0, max(0, index - 1 + len(part)))
        if index < 0:
            return 0
    return index + 1


@function("SPLIT", "STRING, STRING -> ARRAY<STRING>", "BYTES, BYTES -> ARRAY<BYTES>")
def _split(text: Any, separator: Any) -> list[Any]:
    if separator:
        return text.split(separator)  # type: ignore[no-any-return]
    return [text[position : position + 1] for position in range(len(text))] or [text]


@function("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING, STRING>")
def _split_to_map(text: str, entries: str, pairs: str) -> dict[str, str] | None:
    if not entries or not pairs:
        return None
    parts = (entry.split(pairs) for entry in text.split(entries))
    return {part[0]: part[1] for part in parts if len(part) > 1}


@function("CHR CHAR", "INTEGER -> STRING")
def _chr(code: int) -> str:
    if 0xD800 <= code < 0xE000:
        raise ValueError(f"{code} is half of a character, which UTF-8 cannot represent")
    return chr(code)


@function("CHR CHAR", "STRING -> STRING")
def _chr_text(code: str) -> str | None:
    if not re.fullmatch(r"(\\u[0-9a-fA-F]{4})+", code):
        return None
    return (
        code.encode("latin-1", "backslashreplace")
        .decode("unicode_escape")
        .encode("utf-16", "surrogatepass")
        .decode("utf-16")
    )


@function("ASCII", "STRING -> INTEGER")
def _ascii(text: str) -> int | None:
    return ord(text[0]) if text else None


@function("UUID", "-> STRING")
def _uuid() -> str:
    return str(uuid.uuid4())


@function("UUID", "BYTES -> STRING")
def _uuid_of(data: bytes) -> str | None:
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else None


@function("MD5", "STRING -> STRING", "BYTES -> STRING")
def _md5(data: str | bytes) -> str:
    return hashlib.md5(_bytes(data), usedforsecurity=False).hexdigest()


@function("SHA1 SHA", "STRING -> STRING", "BYTES -> STRING")
def _sha1(data: str | bytes) -> str:
    return hashlib.sha1(_bytes(data), usedforsecurity=False).hexdigest()


@function("SHA256", "STRING -> STRING", "BYTES -> STRING")
def _sha256(data: str | bytes) -> str:
    return hashlib.sha256(_bytes(data)).hexdigest()


@function("CRC32", "STRING -> BIGINT", "BYTES -> BIGINT")
def _crc32(data: str | bytes) -> int:
    return binascii.crc32(_bytes(data))


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


# Regular expressions


@function("REGEXP_EXTRACT", "STRING, STRING -> STRING", "STRING, STRING, INTEGER -> STRING")
def _regexp_extract(pattern: str, text: str, group: int = 0) -> str | None:
    match = java_expression(pattern).search(text)
    return None if match is None or group > len(match.groups()) else match[group]


@function("REGEXP_EXTRACT_ALL", "STRING, STRING -> ARRAY<STRING>", "STRING, STRING, INTEGER -> ARRAY<STRING>")
def _regexp_extract_all(pattern: str, text: str, group: int = 0) -> list[str] | None:
    expression = java_expression(pattern)
    if group > expression.groups:
        return None
    return [match[group] for match in expression.finditer(text)]


@function("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def _regexp_replace(text: str, pattern: str, new: str) -> str:
    return replaced(pattern, new, text)


@function("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def _regexp_split(text: str, pattern: str) -> list[str]:
    if not pattern:
        return list(text)
    parts, start = [], 0
    for match in java_expression(pattern).finditer(text):
        if match.end() > match.start():
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


# Masks


def _masked(text: str, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str:
    def mask(character: str) -> str:
        kinds = (
            (character.isupper(), upper),
            (character.islower(), lower),
            (character.isdigit(), digit),
            (True, other),
        )
        replacement = next(replacement for matches, replacement in kinds if matches)
        return character if replacement is None else replacement

    return "".join(map(mask, text))


_MASKS = ("X", "x", "n", "-")
_FOUR = "STRING, STRING, STRING, STRING"


def _first(text: str | None) -> str | None:
    return text[0] if text else None


def _split_at(text: str, count: int, *, from_end: bool) -> tuple[str, str]:
    if count < 0:
        raise ValueError(f"{count} characters cannot be masked or kept")
    position = max(0, len(text) - count) if from_end else count
    return text[:position], text[position:]


@function("MASK", "STRING -> STRING", f"STRING, {_FOUR} -> STRING", nulls=True)
def _mask(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _masked(text, *map(_first, masks or _MASKS))


@function("MASK_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def _mask_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    left, right = _split_at(text, count, from_end=False)
    return _masked(left, *map(_first, masks or _MASKS)) + right


@function("MASK_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def _mask_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    left, right = _split_at(text, count, from_end=True)
    return left + _masked(right, *map(_first, masks or _MASKS))


@function("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def _mask_keep_left(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    left, right = _split_at(text, count, from_end=False)
    return left + _masked(right, *map(_first, masks or _MASKS))


@function("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", f"STRING, INTEGER, {_FOUR} -> STRING", nulls=True)
def _mask_keep_right(text: str | None, count: int | None, *masks: str | None) -> str | None:
    if text is None or count is None:
        return None
    left, right = _split_at(text, count, from_end=True)
    return _masked(left, *map(_first, masks or _MASKS)) + right

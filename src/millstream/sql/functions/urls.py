"""Functions of URLs."""

from __future__ import annotations

from urllib.parse import SplitResult, quote_plus, unquote, unquote_plus, urlsplit

from millstream.sql.functions.registry import function


def _parsed(url: str) -> SplitResult:
    if any(character.isspace() for character in url.strip()) or url.count("#") > 1:
        raise ValueError(f"{url!r} is not a valid URL")
    return urlsplit(url)


@function("URL_ENCODE_PARAM", "STRING -> STRING")
def _encode_param(text: str) -> str:
    return quote_plus(text, safe="*-._").replace("~", "%7E")


@function("URL_DECODE_PARAM", "STRING -> STRING")
def _decode_param(text: str) -> str:
    return unquote_plus(text, errors="strict")


@function("URL_EXTRACT_FRAGMENT", "STRING -> STRING")
def _fragment(url: str) -> str | None:
    return unquote(_parsed(url).fragment) if "#" in url else None


@function("URL_EXTRACT_HOST", "STRING -> STRING")
def _host(url: str) -> str | None:
    authority = _parsed(url).netloc.rpartition("@")[2]
    host = authority.rpartition(":")[0] if ":" in authority.rpartition("]")[2] else authority
    return host or None


@function("URL_EXTRACT_PORT", "STRING -> INTEGER")
def _port(url: str) -> int | None:
    return _parsed(url).port


@function("URL_EXTRACT_PROTOCOL", "STRING -> STRING")
def _protocol(url: str) -> str | None:
    return url.partition(":")[0] if _parsed(url).scheme else None


@function("URL_EXTRACT_PATH", "STRING -> STRING")
def _path(url: str) -> str:
    return unquote(_parsed(url).path)


@function("URL_EXTRACT_QUERY", "STRING -> STRING")
def _query(url: str) -> str | None:
    return unquote(_parsed(url).query) if "?" in url else None


@function("URL_EXTRACT_PARAMETER", "STRING, STRING -> STRING")
def _parameter(url: str, name: str) -> str | None:
    for part in _parsed(url).query.split("&"):
        key, has_value, value = part.partition("=")
        if unquote(key) == name:
            return unquote(value) if has_value else ""
    return None

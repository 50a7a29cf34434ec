"""HTML by construction: everything that is not ``Markup`` is escaped, so that no record can inject code into a page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

from millstream.foundation.text import UNSAFE_CHARACTERS, printable_lines

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int | float | Iterable[Content] | None"
Attribute: TypeAlias = str | int | float | bool | None


def element(tag: str, *content: Content, **attributes: Attribute) -> Markup:
    """Return an element; ``class_`` and ``for_`` stand for Python's keywords, ``data_x`` for ``data-x``.

    >>> element("a", "<b>", href="/t?a=1&b=2", hidden=True, title=None)
    '<a href="/t?a=1&amp;b=2" hidden>&lt;b&gt;</a>'
    """
    opened = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Markup(opened if tag in _VOID else f"{opened}{joined(*content)}</{tag}>")


def joined(*content: Content) -> Markup:
    """Concatenate contents; None is skipped."""
    return Markup("".join(_text(item) for item in content))


def page_text(head: Iterable[Markup], *body: Content, **attributes: Attribute) -> str:
    """Return a complete page."""
    first = joined(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        *head,
    )
    return f'<!doctype html>\n<html lang="en">{element("head", first)}{element("body", *body, **attributes)}</html>\n'


def _text(content: Content) -> str:
    if isinstance(content, Markup):
        return content
    if content is None:
        return ""
    if isinstance(content, str):
        return escape(printable_lines(content), quote=False)
    if isinstance(content, int | float):
        return str(content)
    return "".join(_text(item) for item in content)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    shown = name.rstrip("_").replace("_", "-")
    return f" {shown}" if value is True else f' {shown}="{_referenced(escape(str(value)))}"'


def _referenced(text: str) -> str:
    """Write invisible characters as references: a form must send back exactly what was typed."""
    return UNSAFE_CHARACTERS.sub(lambda match: f"&#x{ord(match[0]):x};", text)

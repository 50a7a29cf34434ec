"""The width of text in a drawing, estimated on the server: SVG neither wraps nor truncates text.

The widths are those of DejaVu Sans Bold, the widest of the common system fonts, so that a label that fits there fits
everywhere.
"""

from __future__ import annotations

_WIDE = 1.11
_REGULAR = 0.94  # regular weight, relative to bold
_WIDTHS = {
    **dict.fromkeys("' ijlI|/\\,.J:;", 0.4),
    **dict.fromkeys("-f!()[]tr_`", 0.5),
    **dict.fromkeys('"*?zcs', 0.6),
    **dict.fromkeys("LxvykaeEFTo$0123456789", 0.7),
    **dict.fromkeys("bdghnpqu{}SYZCPB", 0.77),
    **dict.fromkeys("AKRVXUG#+<=>DHN^~OQ&·…", 0.88),
}


def text_width(text: str, font_size: float, *, is_bold: bool = True) -> float:
    """Return an upper bound for the width of a text in pixels."""
    return font_size * (1 if is_bold else _REGULAR) * sum(_WIDTHS.get(character, _WIDE) for character in text)


def fitted(text: str, font_size: float, width: float) -> str:
    """Shorten a text in its middle until it fits: the end of a generated name tells it from others.

    >>> fitted("trades.windowed_aggregate.sink-2", 13, 160)
    'trades.wi…te.sink-2'
    """
    if text_width(text, font_size) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        shortened = f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"
        if text_width(shortened, font_size) <= width:
            return shortened
    return "…"

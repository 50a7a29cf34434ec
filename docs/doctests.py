"""Show the doctests of docstrings as code in the API reference.

A griffe extension, which mkdocs.yml names. Markdown reads ``>>>`` as a quotation, so each doctest gets a fence.
"""

from __future__ import annotations

import re

import griffe

_DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Put each doctest of a docstring, from ``>>>`` up to the next blank line, into a fence."""
    return _DOCTEST.sub(lambda match: f"\n```pycon\n{match[0]}\n```\n", text)


class Doctests(griffe.Extension):
    """Fence the doctests of every docstring that griffe loads."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of ``obj``."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

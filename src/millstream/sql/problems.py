"""A refusal inside a statement; where the whole text is known, it becomes an error with line and column."""

from __future__ import annotations


class Problem(Exception):  # noqa: N818  # it never leaves this package
    """Something in a statement is not valid; ``offset`` says where."""

    def __init__(self, offset: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message
        self.hint = hint

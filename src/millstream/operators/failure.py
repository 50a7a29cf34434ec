"""The outcome of a call that failed, beside the results of others."""

from __future__ import annotations

from typing import NamedTuple


class Failure(NamedTuple):
    """What a function raised for one record."""

    error: Exception

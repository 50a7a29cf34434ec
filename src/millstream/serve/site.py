"""What all answers of one server share."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.serve.place import Place
from millstream.serve.rates import Rates
from millstream.serve.watch import Watch


@dataclass(frozen=True)
class Site:
    """The place that is looked at, and what has been seen of it lately."""

    place: Place
    rates: Rates
    watch: Watch

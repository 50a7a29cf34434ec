"""The objects that all requests of one server share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from millstream.operations.alert_watch import AlertWatch
from millstream.operations.data_directory import DataDirectory
from millstream.serve.progress import ProgressWatch
from millstream.serve.rates import Rates
from millstream.serve.stalls import BoundedWork
from millstream.serve.table_feed import TableFeeds


@dataclass(frozen=True)
class Site:
    """The data directory of a server, and recent measurements of it."""

    directory: DataDirectory
    rates: Rates
    watch: AlertWatch
    work: BoundedWork = field(default_factory=BoundedWork)

    @cached_property
    def progress(self) -> ProgressWatch:
        """The source of progress events for all open pages."""
        return ProgressWatch(self.directory, self.rates)

    @cached_property
    def feeds(self) -> TableFeeds:
        """What the viewers of live tables share."""
        return TableFeeds()

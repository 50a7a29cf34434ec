"""Changes of a table for all viewers of the same rows: one look at a time, however many there are.

A feed numbers the states that it has seen, and keeps in which of them each row changed last. A viewer that reconnects,
or is slow, gets what changed since the state it has, each row once; if rows have disappeared since then that the feed
no longer knows, it gets all rows.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

_LOOK_SECONDS = 0.4
_LOOK_FACTOR = 4
_REMEMBERED = 10_000
"""How many rows that are gone a feed keeps."""
_KEEP_SECONDS = 120.0
"""How long a feed without viewers is kept for those that reconnect."""
_MAX_FEEDS = 256


class FedRow(Protocol):
    """What a feed needs to know of a row."""

    @property
    def key(self) -> Any: ...
    @property
    def start(self) -> int | None: ...
    @property
    def end(self) -> int | None: ...


class FedPage(Protocol):
    """The rows that a look returns."""

    @property
    def rows(self) -> Sequence[FedRow]: ...
    @property
    def has_more(self) -> bool: ...


class FeedUpdate(NamedTuple):
    """What a viewer has to learn, and the id of the state that it has then."""

    id: str
    event: str
    """``state``: all rows, which replace those that the viewer has; ``rows``: what changed."""
    data: Any


class TableFeed:
    """The states of one selection of rows."""

    def __init__(self, look: Callable[[], FedPage], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._epoch = secrets.token_hex(6)
        """Ids of another process, or of a feed that was forgotten, are not taken for ours."""
        self._number = 0
        self._rows: dict[bytes, FedRow] = {}
        self._has_more = False
        self._changed: dict[bytes, int] = {}
        """By row: the number of the state in which it changed last."""
        self._gone: dict[bytes, tuple[int, Mapping[str, Any]]] = {}
        """Rows that are gone, oldest first: the number of the first state without them, and what names them."""
        self._oldest = 1
        """The first state of which all later changes are known."""
        self._failure: Exception | None = None
        """Why the last look has failed; all viewers get it until the next one."""
        self._next = 0.0
        self._looking = threading.Lock()
        self.used = clock()

    def update(self, last_id: str | None) -> FeedUpdate | None:
        """Return what changed since the state of an id, all rows without a known id, or None if nothing changed."""
        self.used = self._clock()
        self._refresh()
        with self._looking:
            if self._failure is not None:
                raise self._failure
            known = self._known(last_id)
            if known == self._number:
                return None
            current = f"{self._epoch}-{self._number}"
            if known is None:
                rows = {"rows": list(self._rows.values()), "has_more": self._has_more}
                return FeedUpdate(current, "state", rows)
            return FeedUpdate(current, "rows", self._difference(known))

    def _known(self, last_id: str | None) -> int | None:
        """Return the number of a state whose later changes are all kept."""
        epoch, _, number = (last_id or "").partition("-")
        if epoch != self._epoch or not (number.isascii() and number.isdigit() and len(number) < 19):
            return None
        return int(number) if self._oldest <= int(number) <= self._number else None

    def _difference(self, known: int) -> dict[str, Any]:
        changed = [row for row_id, row in self._rows.items() if self._changed[row_id] > known]
        gone = [name for number, name in self._gone.values() if number > known]
        return {"changed": changed, "gone": gone, "has_more": self._has_more}

    def _refresh(self) -> None:
        """Look at the table, unless another viewer does it now or has just done it."""
        if self._clock() < self._next or not self._looking.acquire(blocking=self._number == 0):
            return
        try:
            if self._clock() < self._next:
                return
            began = self._clock()
            try:
                self._take(self._look())
                self._failure = None
            except Exception as error:
                self._failure = error
            ended = self._clock()
            self._next = ended + max(_LOOK_SECONDS, _LOOK_FACTOR * (ended - began))
        finally:
            self._looking.release()

    def _take(self, page: FedPage) -> None:
        rows = {_row_id(row): row for row in page.rows}
        before = self._rows
        changed = [row_id for row_id, row in rows.items() if before.get(row_id) != row]
        gone = before.keys() - rows.keys()
        if self._number and not changed and not gone and page.has_more == self._has_more:
            return
        self._number += 1
        self._rows, self._has_more = rows, page.has_more
        for row_id in changed:
            self._changed[row_id] = self._number
            self._gone.pop(row_id, None)
        for row_id in gone:
            del self._changed[row_id]
            self._gone[row_id] = self._number, {"key": before[row_id].key, "start": before[row_id].start}
        while len(self._gone) > _REMEMBERED:
            self._oldest, _ = self._gone.pop(next(iter(self._gone)))


class TableFeeds:
    """The feeds of a server, by what they select."""

    def __init__(self) -> None:
        self._feeds: dict[Any, TableFeed] = {}
        self._lock = threading.Lock()

    def feed(self, selection: Any, look: Callable[[], FedPage]) -> TableFeed:
        """Return the feed of a selection; those that were not used for a while are forgotten."""
        with self._lock:
            feed = self._feeds.pop(selection, None) or TableFeed(look)
            feed.used = now = time.monotonic()
            for name in [name for name, each in self._feeds.items() if now - each.used > _KEEP_SECONDS]:
                del self._feeds[name]
            while len(self._feeds) >= _MAX_FEEDS:  # its viewers get all rows again
                del self._feeds[next(iter(self._feeds))]
            self._feeds[selection] = feed
            return feed

    def __len__(self) -> int:
        return len(self._feeds)


def _row_id(row: FedRow) -> bytes:
    return msgspec.json.encode((row.key, row.start, row.end), enc_hook=repr)

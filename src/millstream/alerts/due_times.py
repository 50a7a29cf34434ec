"""The earliest due time of keys, in a store of a processor, with one timer for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.foundation.object_codec import encode_key
from millstream.processors import Clock, ProcessorContext

_NEVER = "36500 d"
_LATEST = 10**15


class DueTimes:
    """Orders keys by the time at which they are due, and sets the timer of a processor to the first of them.

    The store has at most one entry for each key. An entry may be earlier than the key is due; its owner then sets it
    again, so that a key whose time moves with every record is not written with every record.
    """

    def __init__(self, context: ProcessorContext, store: str, method: Callable[[int], Any], clock: Clock) -> None:
        self._context = context
        self._store = context.store(store)
        self._method = method
        self._clock = clock
        self._first: int | None = None

    def set(self, key: Any, entry: int, due: int) -> int:
        """Make a key due at a time, 0 for never, if its ``entry`` is not earlier; return the entry, to be kept."""
        if not due or (entry and entry <= due):
            return entry
        earliest = self._earliest()
        if entry:
            self._store.delete(_name(entry, key))
        self._store.put(_name(due, key), [key])
        if due < earliest:
            self._schedule(due)
        return due

    def take(self, now: int) -> Iterator[Any]:
        """Remove and yield the keys that are due, the earliest first, and set the timer to the next one.

        What the caller sets meanwhile and is due as well is yielded too.
        """
        while True:
            entries = list(self._store.items(stop=_bound(now + 1)))
            if not entries:
                break
            for name, [key] in entries:
                self._store.delete(name)
                yield key
        self._schedule(self._first_entry())

    def _earliest(self) -> int:
        if self._first is None:  # in the first call of a batch; the timer is that of an earlier batch
            self._first = self._first_entry()
        return self._first

    def _first_entry(self) -> int:
        name, _ = next(iter(self._store.items()), (None, None))
        return _LATEST if name is None else int(name.partition("/")[0])

    def _schedule(self, due: int) -> None:
        self._first = due
        if due == _LATEST:
            self._context.cancel(self._method)
        else:
            self._context.schedule(self._method, every=_NEVER, on=self._clock, start=due)


def _bound(due: int) -> str:
    return f"{due:016d}"


def _name(due: int, key: Any) -> str:
    return f"{_bound(due)}/{encode_key(key).hex()}"

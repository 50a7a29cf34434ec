"""Group commit: threads that change an environment at the same time share a transaction, and its flush to disk.

While one thread flushes, the changes of the others queue up; the next one commits all of them. Each call returns when
its own change is on disk, so that nothing is less durable than with a transaction for each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from millstream.foundation.storage import Environment
    from millstream.foundation.transactions import WriteTransaction

T = TypeVar("T")
_MOST = 256


class _Request:
    """A change that waits to be committed, and then its result."""

    __slots__ = ("change", "error", "is_done", "result")

    def __init__(self, change: Callable[[WriteTransaction], Any]) -> None:
        self.change = change
        self.result: Any = None
        self.error: Exception | None = None
        self.is_done = False

    def finish(self, result: Any, error: Exception | None = None) -> None:
        self.result, self.error, self.is_done = result, error, True


class GroupCommit:
    """Runs changes of the threads of this process."""

    def __init__(self, environment: Callable[[], Environment]) -> None:
        self._environment = environment
        self._waiting: deque[_Request] = deque()
        self._turn = threading.Lock()

    def run(self, change: Callable[[WriteTransaction], T]) -> T:
        """Commit a change and return its result; it runs again if another change of its transaction fails."""
        request = _Request(change)
        self._waiting.append(request)
        try:
            with self._turn:
                while not request.is_done:
                    self._commit()
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(request)  # so that no other thread commits it later
            raise
        if request.error is not None:
            raise request.error
        result: T = request.result
        return result

    def _commit(self) -> None:
        requests: list[_Request] = []
        try:
            while self._waiting and len(requests) < _MOST:
                requests.append(self._waiting.popleft())
            self._commit_together(requests)
        except BaseException:  # this thread is interrupted; the others commit their changes themselves
            self._waiting.extendleft(request for request in reversed(requests) if not request.is_done)
            raise

    def _commit_together(self, requests: list[_Request]) -> None:
        environment = self._environment()
        try:
            results = environment.update(lambda txn: [request.change(txn) for request in requests])
        except Exception as error:
            if len(requests) == 1:
                requests[0].finish(None, error)
                return
            for request in requests:  # one of them has failed, and the transaction with it
                self._commit_together([request])
        else:
            for request, result in zip(requests, results, strict=True):
                request.finish(result)

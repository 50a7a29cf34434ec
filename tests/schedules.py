"""Schedules of several drivers in one process, each in its own thread: one runs at a time, and any of them can die."""

from __future__ import annotations

import threading
from collections.abc import Callable

from millstream.errors import FencedError


class DiedError(BaseException):
    """The driver is killed."""


class Schedule:
    """Lets one thread run at a time; ``choose`` picks the next one whenever a thread is about to send a request."""

    def __init__(self, choose: Callable[[list[int]], tuple[int, bool]]) -> None:
        self._choose = choose
        self._turn = threading.Semaphore(0)
        self._threads: dict[int, threading.Semaphore] = {}
        self._dying: set[int] = set()
        self.errors: list[BaseException] = []

    def run(self, *drivers: Callable[[int], None]) -> None:
        for number, driver in enumerate(drivers):
            self._threads[number] = threading.Semaphore(0)
            threading.Thread(target=self._work, args=(number, driver), daemon=True).start()
        while self._threads:
            number, dies = self._choose(sorted(self._threads))
            if dies:
                self._dying.add(number)
            self._threads[number].release()
            assert self._turn.acquire(timeout=60), "a driver waits for another one"
        for error in self.errors:
            raise error

    def step(self, number: int) -> None:
        """Wait for the next turn."""
        self._turn.release()
        self._threads[number].acquire()
        if number in self._dying:
            raise DiedError

    def _work(self, number: int, driver: Callable[[int], None]) -> None:
        self._threads[number].acquire()
        try:
            driver(number)
        except (DiedError, FencedError):
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            del self._threads[number]
            self._turn.release()

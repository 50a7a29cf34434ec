"""Call a coroutine function for many records at the same time.

A process has one event loop, in a thread of its own, for as long as it lives: connections that a function opens belong
to a loop, and the next batch uses them again.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from typing import Any

from millstream.functions import Function
from millstream.operators.failure import Failure
from millstream.plan.batched import MapAsync


class AsyncCalls:
    """Calls a function with limited concurrency and rate, a timeout, and retries with growing pauses."""

    def __init__(
        self, function: Function, *, concurrency: int, timeout: float, retries: int, backoff: float, rate: float | None
    ) -> None:
        self._function = function
        self._concurrency = concurrency
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._interval = 0.0 if rate is None else 1 / rate
        self._next_start = 0.0

    @classmethod
    def of(cls, node: MapAsync) -> AsyncCalls:
        """Return the calls of a step."""
        return cls(
            node.mapper,
            concurrency=node.concurrency,
            timeout=node.timeout_ms / 1000,
            retries=node.retries,
            backoff=node.backoff_ms / 1000,
            rate=node.rate,
        )

    def __call__(self, keys: list[Any], values: list[Any]) -> list[Any]:
        """Return the results in the order of the records."""
        arguments = (
            [(value,) for value in values] if self._function.arity == 1 else list(zip(keys, values, strict=True))
        )
        return asyncio.run_coroutine_threadsafe(self._call_all(arguments), _event_loop(os.getpid())).result()

    async def _call_all(self, arguments: list[tuple[Any, ...]]) -> list[Any]:
        results: list[Any] = [None] * len(arguments)
        waiting = iter(enumerate(arguments))
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(arguments))):
                group.create_task(self._work(waiting, results))
        return results

    async def _work(self, waiting: Iterator[tuple[int, tuple[Any, ...]]], results: list[Any]) -> None:
        """Take one record after the other until none is left."""
        for number, arguments in waiting:
            results[number] = await self._attempts(arguments)

    async def _attempts(self, arguments: tuple[Any, ...]) -> Any:
        call: Callable[..., Awaitable[Any]] = self._function.call
        for attempt in range(self._retries + 1):
            await self._take_turn()
            timeout = asyncio.timeout(self._timeout)
            try:
                async with timeout:
                    return await call(*arguments)
            except BaseException as error:
                if _is_cancelled(error):
                    raise
                if attempt == self._retries:
                    no_result = TimeoutError(f"no result after {self._timeout:g} s")
                    return Failure(no_result if timeout.expired() else _as_exception(error))
            # random, so that calls that failed together are not repeated together
            await asyncio.sleep(self._backoff * 2**attempt * random.uniform(0.5, 1.0))
        raise AssertionError("the last attempt returns")

    async def _take_turn(self) -> None:
        """Wait until the rate allows another call."""
        if self._interval:
            now = asyncio.get_running_loop().time()
            start = max(now, self._next_start)
            self._next_start = start + self._interval
            await asyncio.sleep(start - now)


def _is_cancelled(error: BaseException) -> bool:
    """Whether an error ends all calls; a function may also raise ``CancelledError`` because of a task of its own."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _as_exception(error: BaseException) -> Exception:
    """Return an error of a record: one such as ``SystemExit`` would end the event loop, and with it all later calls."""
    if isinstance(error, Exception):
        return error
    exception = RuntimeError(f"the function raised {type(error).__name__}: {error}")
    exception.__cause__ = error
    return exception


@cache
def _event_loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; a forked process has no thread of its parent and gets another."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="millstream-async", daemon=True).start()
    return loop

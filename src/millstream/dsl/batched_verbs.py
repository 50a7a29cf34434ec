"""Verbs of a stream whose functions get the records of a batch together."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, overload

from millstream.dsl.handle import Handle
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.type_variables import K, R, V
from millstream.functions import AnyFunction, PairFunction, ValueFunction, by_arity
from millstream.plan.batched import FrameKind, MapAsync, MapBatches
from millstream.serdes import SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream

_ASYNC_FORMS = {1: "(value)", 2: "(key, value)"}
_FRAME_FORMS = {1: "(frame)", 2: "(keys, frame)"}

FrameFunction: TypeAlias = Callable[[Any], Any] | Callable[[list[Any], Any], Any]


class BatchedVerbs(Handle[K, V]):
    """Verbs of a stream whose functions get the records of a batch together."""

    @overload
    def map_async(
        self,
        mapper: ValueFunction[V, Awaitable[R]],
        *,
        value: SerdeLike[R] = None,
        concurrency: int = ...,
        timeout: Duration = ...,
        retries: int = ...,
        backoff: Duration = ...,
        rate: float | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    @overload
    def map_async(
        self,
        mapper: PairFunction[K, V, Awaitable[R]],
        *,
        value: SerdeLike[R] = None,
        concurrency: int = ...,
        timeout: Duration = ...,
        retries: int = ...,
        backoff: Duration = ...,
        rate: float | None = None,
        name: str | None = None,
    ) -> Stream[K, R]: ...
    def map_async(
        self,
        mapper: AnyFunction,
        *,
        value: SerdeLike = None,
        concurrency: int = 100,
        timeout: Duration = "30 s",
        retries: int = 3,
        backoff: Duration = "100 ms",
        rate: float | None = None,
        name: str | None = None,
    ) -> Stream:
        """Replace the value by what an ``async`` function returns, for example the answer of a service.

        Up to ``concurrency`` records of a task wait at the same time; results keep the order of their records and are
        forwarded at the end of the batch. A call that raises or takes longer than ``timeout`` is repeated ``retries``
        times; then the error policy applies. A batch that is run again after a crash calls the function again.

        >>> async def shout(word: str) -> str:
        ...     return word.upper()
        >>> app = App("doc")
        >>> app.stream("w", value=str).map_async(shout, rate=1000).to("out")
        >>> outputs(app, w=["mill", "stream"])
        [(None, 'MILL'), (None, 'STREAM')]
        """
        _check_is_async(mapper)
        _check_positive("map_async", concurrency=concurrency, rate=1 if rate is None else rate)
        if retries < 0:
            raise DefinitionError(f"map_async(retries={retries}) is not valid", hint="use 0 or more")
        node = MapAsync(
            source=self._node,
            mapper=by_arity("map_async", mapper, _ASYNC_FORMS),
            value=serde_for(value),
            concurrency=concurrency,
            timeout_ms=milliseconds(timeout),
            retries=retries,
            backoff_ms=milliseconds(backoff),
            rate=rate,
            name=name,
        )
        return self._stream(self._draft, node)

    def map_batches(
        self,
        mapper: FrameFunction,
        *,
        frame: FrameKind = "arrow",
        value: SerdeLike[R] = None,
        max_records: int = 1000,
        name: str | None = None,
    ) -> Stream[K, R]:
        """Replace the values of many records in one call, for example by the predictions of a model.

        The function gets a ``pyarrow.Table``, or a pandas or polars data frame, with a column per field of the values
        (``value`` if they have no fields), and returns one row per record: a frame, a series, an array or a list. With
        two parameters it gets the list of keys first. A record for which it raises goes to the error policy alone.

        >>> app = App("doc")
        >>> prices = app.stream("price", value=float)
        >>> prices.map_batches(lambda table: [price * 2 for price in table["value"].to_pylist()]).to("out")
        >>> outputs(app, price=[1.0, 2.5])
        [(None, 2.0), (None, 5.0)]
        """
        if frame not in get_args(FrameKind):
            raise DefinitionError(f"map_batches(frame={frame!r}) is not valid", hint="use arrow, pandas or polars")
        _check_positive("map_batches", max_records=max_records)
        node = MapBatches(
            source=self._node,
            mapper=by_arity("map_batches", mapper, _FRAME_FORMS),
            value=serde_for(value),
            frame=frame,
            max_records=max_records,
            name=name,
        )
        return self._stream(self._draft, node)


def _check_is_async(mapper: AnyFunction) -> None:
    if not any(map(inspect.iscoroutinefunction, (mapper, getattr(type(mapper), "__call__", None)))):  # noqa: B004
        name = getattr(mapper, "__qualname__", repr(mapper))
        raise DefinitionError(
            f"map_async() expects an async function, not {name}",
            hint="define it with async def, or use map_values for a function that returns at once",
        )


def _check_positive(verb: str, **options: float) -> None:
    for option, given in options.items():
        if given <= 0:
            raise DefinitionError(f"{verb}({option}={given}) is not valid", hint="use a number above 0")

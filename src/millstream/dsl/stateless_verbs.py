"""Verbs of a stream that look at one record at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

from millstream.dsl.handle import Handle
from millstream.foundation.type_variables import K2, V2, K, R, V
from millstream.functions import AnyFunction, ContextFunction, PairFunction, ValueFunction, by_arity
from millstream.plan.stateless import Filter, FlatMap, FlatMapValues, Foreach, Map, MapValues, Merge, Peek, SelectKey
from millstream.serdes import SerdeLike, serde_for

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream


class StatelessVerbs(Handle[K, V]):
    """Verbs of a stream that need no state. Each has one overload per form of function."""

    @overload
    def filter(self, predicate: ValueFunction[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: PairFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter(self, predicate: ContextFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    def filter(self, predicate: AnyFunction, *, name: str | None = None) -> Stream[K, V]:
        """Keep the records for which ``predicate`` holds.

        >>> app = App("doc")
        >>> app.stream("n", value=int).filter(lambda n: n > 1).to("out")
        >>> outputs(app, n=[1, 2, 3])
        [(None, 2), (None, 3)]
        """
        return self._stream(self._draft, Filter(source=self._node, predicate=by_arity("filter", predicate), name=name))

    @overload
    def filter_not(self, predicate: ValueFunction[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: PairFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def filter_not(self, predicate: ContextFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    def filter_not(self, predicate: AnyFunction, *, name: str | None = None) -> Stream[K, V]:
        """Drop the records for which ``predicate`` holds.

        >>> app = App("doc")
        >>> app.stream("n", value=int).filter_not(lambda n: n > 1).to("out")
        >>> outputs(app, n=[1, 2, 3])
        [(None, 1)]
        """
        function = by_arity("filter_not", predicate)
        return self._stream(self._draft, Filter(source=self._node, predicate=function, negate=True, name=name))

    @overload
    def map(
        self,
        mapper: ValueFunction[V, tuple[K2, V2]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def map(
        self,
        mapper: PairFunction[K, V, tuple[K2, V2]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def map(
        self,
        mapper: ContextFunction[K, V, tuple[K2, V2]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    def map(
        self, mapper: AnyFunction, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> Stream:
        """Replace key and value by the pair that ``mapper`` returns.

        Marks the stream as re-keyed: the next grouping, join or table repartitions it by the new key.

        >>> app = App("doc")
        >>> app.stream("w", value=str).map(lambda w: (w, len(w))).to("out")
        >>> outputs(app, w=["mill"])
        [('mill', 4)]
        """
        function = by_arity("map", mapper)
        return self._stream(
            self._draft, Map(source=self._node, mapper=function, key=serde_for(key), value=serde_for(value), name=name)
        )

    @overload
    def map_values(
        self, mapper: ValueFunction[V, R], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    @overload
    def map_values(
        self, mapper: PairFunction[K, V, R], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    @overload
    def map_values(
        self, mapper: ContextFunction[K, V, R], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    def map_values(self, mapper: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Stream:
        """Replace the value; the key stays.

        >>> app = App("doc")
        >>> app.stream("n", value=int).map_values(lambda n: n * 10).to("out")
        >>> outputs(app, n=[1, 2])
        [(None, 10), (None, 20)]
        """
        function = by_arity("map_values", mapper)
        return self._stream(
            self._draft, MapValues(source=self._node, mapper=function, value=serde_for(value), name=name)
        )

    @overload
    def flat_map(
        self,
        mapper: ValueFunction[V, list[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: ValueFunction[V, Iterable[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: PairFunction[K, V, list[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: PairFunction[K, V, Iterable[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    @overload
    def flat_map(
        self,
        mapper: ContextFunction[K, V, Iterable[tuple[K2, V2]]],
        *,
        key: SerdeLike[K2] = None,
        value: SerdeLike[V2] = None,
        name: str | None = None,
    ) -> Stream[K2, V2]: ...
    def flat_map(  # lists have overloads of their own, since pyright infers Literal[1] from an Iterable of (word, 1)
        self, mapper: AnyFunction, *, key: SerdeLike = None, value: SerdeLike = None, name: str | None = None
    ) -> Stream:
        """Replace each record by any number of key-value pairs that ``mapper`` returns.

        Marks the stream as re-keyed, as ``map`` does. If the function raises, none of its pairs is passed on.

        >>> app = App("doc")
        >>> app.stream("line", value=str).flat_map(lambda line: [(w, 1) for w in line.split()]).to("out")
        >>> outputs(app, line=["a b"])
        [('a', 1), ('b', 1)]
        """
        function = by_arity("flat_map", mapper)
        return self._stream(
            self._draft,
            FlatMap(source=self._node, mapper=function, key=serde_for(key), value=serde_for(value), name=name),
        )

    @overload
    def flat_map_values(
        self, mapper: ValueFunction[V, Iterable[R]], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    @overload
    def flat_map_values(
        self, mapper: PairFunction[K, V, Iterable[R]], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    @overload
    def flat_map_values(
        self, mapper: ContextFunction[K, V, Iterable[R]], *, value: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[K, R]: ...
    def flat_map_values(self, mapper: AnyFunction, *, value: SerdeLike = None, name: str | None = None) -> Stream:
        """Replace each value by any number of values that ``mapper`` returns; the key stays.

        >>> app = App("doc")
        >>> app.stream("line", value=str).flat_map_values(str.split).to("out")
        >>> outputs(app, line=["a b"])
        [(None, 'a'), (None, 'b')]
        """
        function = by_arity("flat_map_values", mapper)
        return self._stream(
            self._draft, FlatMapValues(source=self._node, mapper=function, value=serde_for(value), name=name)
        )

    @overload
    def select_key(
        self, mapper: ValueFunction[V, R], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[R, V]: ...
    @overload
    def select_key(
        self, mapper: PairFunction[K, V, R], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[R, V]: ...
    @overload
    def select_key(
        self, mapper: ContextFunction[K, V, R], *, key: SerdeLike[R] = None, name: str | None = None
    ) -> Stream[R, V]: ...
    def select_key(self, mapper: AnyFunction, *, key: SerdeLike = None, name: str | None = None) -> Stream:
        """Replace the key by what ``mapper`` returns; marks the stream as re-keyed, as ``map`` does.

        >>> app = App("doc")
        >>> app.stream("w", value=str).select_key(lambda w: w[0]).to("out")
        >>> outputs(app, w=["mill"])
        [('m', 'mill')]
        """
        function = by_arity("select_key", mapper)
        return self._stream(self._draft, SelectKey(source=self._node, mapper=function, key=serde_for(key), name=name))

    @overload
    def peek(self, action: ValueFunction[V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: PairFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    @overload
    def peek(self, action: ContextFunction[K, V, object], *, name: str | None = None) -> Stream[K, V]: ...
    def peek(self, action: AnyFunction, *, name: str | None = None) -> Stream[K, V]:
        """Call ``action`` with each record and pass the record on unchanged.

        Side effects are not exactly-once: after a failure a batch runs again.

        >>> app = App("doc")
        >>> seen = []
        >>> app.stream("n", value=int).peek(seen.append).to("out")
        >>> outputs(app, n=[1]), seen
        ([(None, 1)], [1])
        """
        return self._stream(self._draft, Peek(source=self._node, action=by_arity("peek", action), name=name))

    @overload
    def foreach(self, action: ValueFunction[V, object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: PairFunction[K, V, object], *, name: str | None = None) -> None: ...
    @overload
    def foreach(self, action: ContextFunction[K, V, object], *, name: str | None = None) -> None: ...
    def foreach(self, action: AnyFunction, *, name: str | None = None) -> None:
        """Call ``action`` with each record and end the stream here. Not exactly-once, see ``peek``."""
        self._draft.add(Foreach(source=self._node, action=by_arity("foreach", action), name=name))

    def print(self, label: str | None = None) -> None:
        """Print each record in the process that runs its task."""
        prefix = "" if label is None else f"[{label}] "

        def show(key: object, value: object) -> None:
            print(f"{prefix}{key!r}: {value!r}")  # noqa: T201

        self.foreach(show)

    def merge(self, *others: Stream[K2, V2], name: str | None = None) -> Stream[K | K2, V | V2]:
        """Merge streams into one; each keeps its order, and a stream merged with itself counts once.

        >>> app = App("doc")
        >>> app.stream("a", value=int).merge(app.stream("b", value=int)).to("out")
        >>> outputs(app, a=[1], b=[2])
        [(None, 1), (None, 2)]
        """
        return self._stream(self._draft, Merge(sources=(self._node, *(other._node for other in others)), name=name))

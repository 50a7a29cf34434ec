"""The handle of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from millstream.dsl.handle import Handle
from millstream.functions import AnyFunction
from millstream.plan.stateful import ToStream

if TYPE_CHECKING:
    from millstream.dsl.stream import Stream


class Table(Handle):
    """The newest row of each key; a change of it is a new row, and a tombstone deletes it."""

    _stream: ClassVar[type[Stream]]
    """Set by the module of streams: the two turn into each other, and imports must not run in a circle."""

    def to_stream(self, key: AnyFunction | None = None) -> Stream:
        """Return the changes of the table as records; a deleted row is a null value.

        ``key`` gives the records another key. With caching on there is one change per key and batch, with caching off
        one per update.

        >>> app = App("doc")
        >>> app.table("users", value=str).to_stream().to("out")
        >>> outputs(app, users=[("u1", "Ada"), ("u1", None)])
        [('u1', 'Ada'), ('u1', None)]
        """
        stream = self._stream(self._draft, ToStream(source=self._node))
        return stream if key is None else stream.select_key(key)

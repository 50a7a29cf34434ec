"""The work of foreign-key joins: subscribe, answer, and take the newest answer.

Every change of a left row has a version, which grows. Answers carry the version that they answer, so that one to an
older left row, which another task may send later in the same batch, is not taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from millstream.foundation.object_codec import decode_key, encode_key, value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.histories import newest_only
from millstream.operators.missing import checked_lookup
from millstream.operators.runtime import Process, Runtime, operator
from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyMissing, ForeignKeyResult, ForeignKeySubscribe

Answer: TypeAlias = list[Any]
"""[version of the left row, encoded joined row or None]."""

# what a left row asks of the owner of the right row
_SUBSCRIBE, _SUBSCRIBE_AND_ALWAYS_ANSWER, _LEAVE, _LEAVE_AND_ANSWER = range(4)


@operator.register(ForeignKeySubscribe)
def _subscribe(node: ForeignKeySubscribe, forward: Process, runtime: Runtime) -> Process:
    codec, key_of = value_codec(runtime.plan.declared[node.source].value), node.foreign_key.bind(runtime.context)
    asks = _asked_of_kept_rows if node.keeps_left else _asked
    failed, dropped, next_version = runtime.failed, runtime.dropped, runtime.next_version

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if new is None and old is None:
            return None
        try:
            before = None if old is None else key_of(key, old)
            now = None if new is None else key_of(key, new)
        except Exception as error:
            return failed(node, error, key)
        if new is not None and now is None and not node.keeps_left:
            dropped(node, "null_foreign_key")
        version, name = next_version(), encode_key(key)
        for target, what in asks(before, now):
            row = None if new is None or target is not now else codec.encode(new)
            forward(target, [what, name, row, version], timestamp)
        return None

    return newest_only(node.source, process, runtime, node, counted=True)


def _asked(before: Any, now: Any) -> list[tuple[Any, int]]:
    """A left row without partner is not in the result: one that goes or moves is answered with a tombstone."""
    if now is None:
        return [] if before is None else [(before, _LEAVE_AND_ANSWER)]
    if before is None or before == now:
        return [(now, _SUBSCRIBE)]
    return [(before, _LEAVE), (now, _SUBSCRIBE_AND_ALWAYS_ANSWER)]


def _asked_of_kept_rows(before: Any, now: Any) -> list[tuple[Any, int]]:
    """A left row that is kept in any case is always answered; without foreign key it answers itself."""
    asked = [(before, _LEAVE)] if before is not None and before != now else []
    return asked if now is None else [*asked, (now, _SUBSCRIBE_AND_ALWAYS_ANSWER)]


@operator.register(ForeignKeyMissing)
def _missing(node: ForeignKeyMissing, forward: Process, runtime: Runtime) -> Process:
    key_of, joined = node.foreign_key.bind(runtime.context), _joining(node)
    failed, next_version = runtime.failed, runtime.next_version

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if new is None and old is None:
            return None
        try:
            if new is not None and key_of(key, new) is not None:
                return None
            row = None if new is None else joined(key, new, None)
        except Exception as error:
            return failed(node, error, key)
        return forward(key, [next_version(), row], timestamp)

    return newest_only(node.source, process, runtime, node, counted=False)


def _joining(node: ForeignKeyMissing | ForeignKeyAnswer) -> Callable[[Any, Any, Any], bytes | None]:
    """Return what joins two rows and encodes the result."""
    joiner, encode = with_key(node.joiner), value_codec(node.value).encode

    def joined(key: Any, left: Any, right: Any) -> bytes | None:
        row = joiner(key, left, right)
        return None if row is None else encode(row)

    return joined


@operator.register(ForeignKeyAnswer)
def _answer(node: ForeignKeyAnswer, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    subscribers, find = runtime.member_store(node, "subscriptions"), checked_lookup(node.right, runtime)
    decode, joined, keeps_left = value_codec(node.left_value).decode, _joining(node), node.keeps_left

    def answer(name: bytes, row: bytes | None, version: Any, right: Any, timestamp: int) -> None:
        key = decode_key(name)
        try:
            result = None
            if row is not None and (right is not None or keeps_left):
                result = joined(key, decode(row), right)
        except Exception as error:
            return runtime.failed(node, error, key)
        return forward(key, [version, result], timestamp)

    def from_left(foreign_key: Any, asked: list[Any], timestamp: int) -> None:
        what, name, row, version = asked
        leaves = what in (_LEAVE, _LEAVE_AND_ANSWER)
        subscribers.put(foreign_key, name, None if leaves else [row, version])
        if what == _LEAVE:
            return None
        try:
            right, right_timestamp = find(foreign_key)
        except Exception as error:
            return runtime.failed(node, error, decode_key(name))
        if right is not None or what != _SUBSCRIBE:
            answer(name, row, version, right, max(timestamp, right_timestamp))
        return None

    def from_right(key: Any, new: Any, _old: Any, timestamp: int) -> None:
        for name, (row, version) in subscribers.members(key):
            answer(name, row, version, new, timestamp)

    return from_left, newest_only(node.right, from_right, runtime, node, counted=True)


@operator.register(ForeignKeyResult)
def _result(node: ForeignKeyResult, forward: Process, runtime: Runtime) -> Process:
    """Answers of earlier batches have all arrived, so the newest version need only be known within a batch."""
    store, decode = store_of(node, runtime), value_codec(node.value).decode
    emit, context = Emitter(node, store, forward, runtime).at_once, runtime.context
    newest: dict[Any, Any] = {}

    def process(key: Any, answer: Answer, timestamp: int) -> None:
        version, data = answer
        row = store.row(key)
        name = row.name
        if version < newest.get(name, version):
            return
        newest[name] = version
        old, row.value, row.timestamp = row.value, None if data is None else decode(data), timestamp
        if not row.changed:
            store.mark(row)
        if emit is not None:
            emit(key, row.value, old, timestamp)
        elif context.has_headers or row.headers:
            row.headers = context.headers

    return process

"""Foreign-key joins: left rows subscribe to right rows, subscriptions are answered, the newest answer wins.

Every change of a left row has an increasing version. An answer has the version of the left row that it is for, so that
an answer for an older left row, which another task may send later in the same batch, is ignored.

If one record changes a left row several times, only answers for the row that remains are wanted: Kafka Streams ignores
the others when they arrive, since the left row is another one by then. Here they are not requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

from millstream.foundation.object_codec import decode_key, encode_key, value_codec
from millstream.operators.aggregation import with_key
from millstream.operators.emitting import Emitter, store_of
from millstream.operators.held_changes import HeldChange, HeldChanges
from millstream.operators.histories import newest_only
from millstream.operators.missing import checked_lookup
from millstream.operators.runtime import Process, Runtime, operator
from millstream.operators.suppress import forwarded_before
from millstream.plan.foreign_keys import ForeignKeyAnswer, ForeignKeyMissing, ForeignKeyResult, ForeignKeySubscribe
from millstream.plan.suppress import Suppress

Answer: TypeAlias = list[Any]
"""[version of the left row, encoded joined row or None]."""

# the requests of a left row to the task that owns the right row
_SUBSCRIBE, _SUBSCRIBE_AND_ALWAYS_ANSWER, _UNSUBSCRIBE, _UNSUBSCRIBE_AND_ANSWER = range(4)


class _Requests(NamedTuple):
    """The requests of one change of a left row, by foreign key."""

    requests: list[tuple[Any, int]]
    now: Any
    """The foreign key of the new left row."""
    version: list[int]
    timestamp: int


@operator.register(ForeignKeySubscribe)
def _subscribe(node: ForeignKeySubscribe, forward: Process, runtime: Runtime) -> Process:
    codec, key_of = value_codec(runtime.plan.declared[node.source].value), node.foreign_key.bind(runtime.context)
    requests_of = _requests_of_kept_rows if node.keeps_left else _requests
    handle_error, drop, next_version = runtime.handle_error, runtime.drop, runtime.next_version
    last_seen = forwarded_before(node.source, runtime) if isinstance(node.source, Suppress) else None

    def send(left_key: bytes, row: bytes | None, change: _Requests) -> None:
        for foreign_key, request in change.requests:
            data = row if foreign_key is change.now else None
            forward(foreign_key, [request, left_key, data, change.version], change.timestamp)

    def send_wanted(changes: list[HeldChange[_Requests]]) -> None:
        for bookmark, left_key, row, change in _wanted(changes):
            runtime.context.return_to(bookmark)
            send(left_key, row, change)

    is_repeating = node.source in runtime.plan.repeating
    submit = HeldChanges(node, runtime, send_wanted).add if is_repeating else send

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if new is None and old is None:
            return None
        try:
            before = None if old is None else key_of(key, old)
            now = None if new is None else key_of(key, new)
            last = None if last_seen is None else last_seen(key)
            subscribed = None if last is None else key_of(key, last)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        if new is not None and now is None and not node.keeps_left:
            drop(node, "null_foreign_key")
        requests = requests_of(before, now)
        if subscribed is not None and subscribed not in (before, now):
            # Kafka Streams keeps this subscription, and ignores its answers since they are for another left row
            requests.insert(0, (subscribed, _UNSUBSCRIBE))
        row = None if new is None else codec.encode(new)
        change = _Requests(requests, now, next_version(), timestamp)
        return submit(encode_key(key), row, change)

    return newest_only(node.source, process, runtime, node, counted=True)


def _wanted(changes: list[HeldChange[_Requests]]) -> Iterator[HeldChange[_Requests]]:
    """Yield what to request: no answer for a left row that has changed again, unless it has the same value again.

    The last request of a row is always answered if an earlier one would have been. Kafka Streams does not do that, and
    so leaves a joined row behind (docs/adr/0071-order-of-equal-timestamps.md).
    """
    newest = {change.key: change.row for change in changes}
    last = {held.key: number for number, held in enumerate(changes) if held.change.requests}
    unanswered: set[bytes] = set()
    for number, held in enumerate(changes):
        requests, is_last = held.change.requests, last.get(held.key) == number
        if is_last and held.key in unanswered:
            requests = [(key, _SUBSCRIBE_AND_ALWAYS_ANSWER if req == _SUBSCRIBE else req) for key, req in requests]
        elif not is_last and held.row != newest[held.key]:
            if any(request in _ALWAYS_ANSWERED for _, request in requests):
                unanswered.add(held.key)
            requests = [(key, _UNSUBSCRIBE) for key, request in requests if request in _UNSUBSCRIBES]
        yield held._replace(change=held.change._replace(requests=requests))


_UNSUBSCRIBES = (_UNSUBSCRIBE, _UNSUBSCRIBE_AND_ANSWER)
_ALWAYS_ANSWERED = (_SUBSCRIBE_AND_ALWAYS_ANSWER, _UNSUBSCRIBE_AND_ANSWER)


def _requests(before: Any, now: Any) -> list[tuple[Any, int]]:
    """Return the requests of an inner join, whose result has no left rows without partner.

    A left row that is deleted or changes its foreign key always gets an answer, which may be a tombstone.
    """
    if now is None:
        return [] if before is None else [(before, _UNSUBSCRIBE_AND_ANSWER)]
    if before is None or before == now:
        return [(now, _SUBSCRIBE)]
    return [(before, _UNSUBSCRIBE), (now, _SUBSCRIBE_AND_ALWAYS_ANSWER)]


def _requests_of_kept_rows(before: Any, now: Any) -> list[tuple[Any, int]]:
    """Return the requests of a left join, whose result has all left rows.

    A left row always gets an answer; for one without foreign key it comes from ``ForeignKeyMissing``.
    """
    requests = [(before, _UNSUBSCRIBE)] if before is not None and before != now else []
    return requests if now is None else [*requests, (now, _SUBSCRIBE_AND_ALWAYS_ANSWER)]


@operator.register(ForeignKeyMissing)
def _missing(node: ForeignKeyMissing, forward: Process, runtime: Runtime) -> Process:
    key_of, join, context = node.foreign_key.bind(runtime.context), _joiner(node), runtime.context
    handle_error, next_version = runtime.handle_error, runtime.next_version

    def answer(key: Any, new: Any, timestamp: int) -> None:
        try:
            if new is not None and key_of(key, new) is not None:
                return None
            row = None if new is None else join(key, new, None)
        except Exception as error:
            return handle_error(node, error, key, timestamp)
        return forward(key, [next_version(), row], timestamp)

    def answer_newest(changes: list[HeldChange[tuple[Any, Any, int]]]) -> None:
        newest = {held.key: held.row for held in changes}
        for bookmark, left_key, row, change in changes:
            if row == newest[left_key]:
                context.return_to(bookmark)
                answer(*change)

    hold = HeldChanges(node, runtime, answer_newest).add if node.source in runtime.plan.repeating else None
    encode = value_codec(runtime.plan.declared[node.source].value).encode

    def process(key: Any, new: Any, old: Any, timestamp: int) -> None:
        if new is None and old is None:
            return None
        if hold is None:
            return answer(key, new, timestamp)
        return hold(encode_key(key), None if new is None else encode(new), (key, new, timestamp))

    return newest_only(node.source, process, runtime, node, counted=False)


def _joiner(node: ForeignKeyMissing | ForeignKeyAnswer) -> Callable[[Any, Any, Any], bytes | None]:
    """Return a function that joins two rows and encodes the result."""
    joiner, encode = with_key(node.joiner), value_codec(node.value).encode

    def join(key: Any, left: Any, right: Any) -> bytes | None:
        row = joiner(key, left, right)
        return None if row is None else encode(row)

    return join


@operator.register(ForeignKeyAnswer)
def _answer(node: ForeignKeyAnswer, forward: Process, runtime: Runtime) -> tuple[Process, Process]:
    subscribers, find = runtime.member_store(node, "subscriptions"), checked_lookup(node.right, runtime)
    decode, join, keeps_left = value_codec(node.left_value).decode, _joiner(node), node.keeps_left

    def answer(left_key: bytes, row: bytes | None, version: Any, right: Any, timestamp: int) -> None:
        key = decode_key(left_key)
        try:
            result = None
            if row is not None and (right is not None or keeps_left):
                result = join(key, decode(row), right)
        except Exception as error:
            return runtime.handle_error(node, error, key)
        return forward(key, [version, result], timestamp)

    def from_left(foreign_key: Any, message: list[Any], timestamp: int) -> None:
        request, left_key, row, version = message
        unsubscribes = request in _UNSUBSCRIBES
        subscribers.put(foreign_key, left_key, None if unsubscribes else [row, version])
        if request == _UNSUBSCRIBE:
            return None
        try:
            right, right_timestamp = find(foreign_key)
        except Exception as error:
            return runtime.handle_error(node, error, decode_key(left_key))
        if right is not None or request != _SUBSCRIBE:
            answer(left_key, row, version, right, max(timestamp, right_timestamp))
        return None

    def from_right(key: Any, new: Any, _old: Any, timestamp: int) -> None:
        for left_key, (row, version) in subscribers.members(key):
            answer(left_key, row, version, new, timestamp)

    return from_left, newest_only(node.right, from_right, runtime, node, counted=True)


@operator.register(ForeignKeyResult)
def _result(node: ForeignKeyResult, forward: Process, runtime: Runtime) -> Process:
    """Keep the newest answer; all answers of earlier batches have arrived, so versions need not be stored."""
    store, decode = store_of(node, runtime), value_codec(node.value).decode
    emit, context = Emitter(node, store, forward, runtime).emit_now, runtime.context
    newest: dict[Any, Any] = {}

    def process(key: Any, answer: Answer, timestamp: int) -> None:
        version, data = answer
        row = store.row(key)
        key_bytes = row.key_bytes
        if version < newest.get(key_bytes, version):
            return
        newest[key_bytes] = version
        old, row.value, row.timestamp = row.value, None if data is None else decode(data), timestamp
        if not row.changed:
            store.mark(row)
        if emit is not None:
            emit(key, row.value, old, timestamp)
        elif context.has_headers or row.headers:
            row.headers = context.headers

    return process

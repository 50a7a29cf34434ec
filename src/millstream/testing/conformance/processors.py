"""The processors and transformers that conformance cases refer to, written as users write them.

A and B are the first and the second store; i counts the calls of a punctuation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from millstream.processors import (
    Clock,
    Processor,
    StoreSpec,
    ValueTransformer,
    key_value_store,
    punctuate,
)
from millstream.records import Record
from millstream.testing.conformance.functions import look_up, text

Step = Callable[[Any, Record, str], None]
"""(processor, record, argument): processes a record."""


def _shift_timestamp(self: Processor, record: Record, x: str) -> None:
    self.context.forward(record, timestamp=max(0, record.timestamp + int(x)))


def _dedupe_within(self: Processor, record: Record, x: str) -> None:
    times, now = self.context.store("A"), self.context.stream_time
    if record.key not in times or now - times[record.key] >= int(x):
        times.put(record.key, now)
        self.context.forward(record)


def _count(self: Processor, record: Record, _x: str) -> None:
    counts = self.context.store("A")
    counts.put(record.key, counts.get(record.key, 0) + 1)


def _buffer_last_n(self: Processor, record: Record, x: str) -> None:
    values = self.context.store("A")
    previous = [] if values.get(record.key) is None else [values.get(record.key)]
    parts = ",".join([*previous, text(record.value)]).split(",")  # a value with commas counts as several
    values.put(record.key, ",".join(parts[-int(x) :]))
    self.context.forward(record, value=values.get(record.key))


def _store_put(self: Processor, record: Record, _x: str) -> None:
    self.context.store("A").put(record.key, record.value)


def _store_get(self: Processor, record: Record, _x: str) -> None:
    self.context.forward(record, value=f"{text(record.value)}+{text(self.context.store('A').get(record.key))}")


def _stamp_time(self: Processor, record: Record, _x: str) -> None:
    self.context.forward(record, value=f"{text(record.value)}@{record.timestamp}/{self.context.stream_time}")


def _number_values(self: Processor, record: Record, x: str) -> None:
    _count(self, record, x)
    self.context.forward(record, value=f"{text(record.value)}#{self.context.store('A').get(record.key)}")


def _add_header(self: Processor, record: Record, x: str) -> None:
    self.context.forward(record, headers=(*record.headers, (x, text(record.value).encode())))


def _remove_header(self: Processor, record: Record, x: str) -> None:
    self.context.forward(record, headers=tuple(header for header in record.headers if header[0] != x))


def _header_to_value(self: Processor, record: Record, x: str) -> None:
    values = [value for name, value in record.headers if name == x]
    last = "null" if not values or values[-1] is None else values[-1].decode()
    self.context.forward(record, value=f"{text(record.value)}+{last}")


def _drop_headers(self: Processor, record: Record, _x: str) -> None:
    self.context.forward(key=record.key, value=record.value, timestamp=record.timestamp)


def _forward_named(self: Processor, record: Record, x: str) -> None:
    for rule in x.split(","):
        part, _, child = rule.partition("=")
        if part == "*" or part in text(record.value):
            return self.context.forward(record, to=child or None)
    return None


def _count_and_last(self: Processor, record: Record, _x: str) -> None:
    counts, values = self.context.store("A"), self.context.store("B")
    count, last = counts.get(record.key, 0) + 1, values.get(record.key)
    counts.put(record.key, count)
    values.put(record.key, record.value)
    self.context.forward(record, value=f"{text(record.value)}#{count}<{text(last)}")


def _owner_index(self: Processor, record: Record, _x: str) -> None:
    by_key, by_value = self.context.store("A"), self.context.store("B")
    key, value = record.key, record.value
    old, before = by_key.get(key), None
    if old is not None:
        by_value.delete(text(old))
    by_key.put(key, value)
    if value is not None:
        before = by_value.put_if_absent(text(value), key)  # keys are text
    self.context.forward(record, value=f"{text(old)}>{text(value)}@{text(before)}")


def _swap_last(self: Processor, record: Record, _x: str) -> None:
    values = self.context.store("A")
    last = values.get(record.key)
    values.put(record.key, record.value)
    self.context.forward(record, value=f"{text(record.value)}<{text(last)}")


def _global_get(self: Processor, record: Record, _x: str) -> None:
    self.context.forward(record, value=f"{text(record.value)}+{text(_global_table(self).get(record.key))}")


def _global_all(self: Processor, record: Record, _x: str) -> None:
    rows = (f",{key}={text(value)}" for key, value in _global_table(self).items())
    self.context.forward(record, value=text(record.value) + "".join(rows))


def _global_put(self: Processor, record: Record, _x: str) -> None:
    _global_table(self).put(record.key or "key", record.value)


def _global_table(self: Any) -> Any:
    return self.context.store(self.global_table)


def _nothing(_self: Processor, _record: Record, _x: str) -> None:
    pass


def _pass_on(self: Processor, record: Record, _x: str) -> None:
    self.context.forward(record)


def _with_key(step: Step) -> Step:
    """Skip records without a key."""
    return lambda self, record, x: None if record.key is None else step(self, record, x)


STEPS: dict[str, Step] = {
    "shift_timestamp": _shift_timestamp,
    "dedupe_within": _with_key(_dedupe_within),
    "buffer_last_n": _with_key(_buffer_last_n),
    "store_put": _with_key(_store_put),
    "store_get": _with_key(_store_get),
    "store_write": _with_key(_store_put),
    "stamp_time": _stamp_time,
    "number_values": _with_key(_number_values),
    "add_header": _add_header,
    "remove_header": _remove_header,
    "header_to_value": _header_to_value,
    "drop_headers": _drop_headers,
    "forward_named": _forward_named,
    "count_and_last": _with_key(_count_and_last),
    "owner_index": _with_key(_owner_index),
    "swap_last": _with_key(_swap_last),
    "global_get": _with_key(_global_get),
    "global_all": _global_all,
    "global_put": _global_put,
}
"""Processors without timers."""


def _punctuated_count(on: Clock, every: str) -> type[Processor]:
    class Counts(Processor):
        def process(self, record: Record) -> None:
            _with_key(_count)(self, record, "")

        @punctuate(every=_ms(every), on=on)
        def forward_counts(self, now: int) -> None:
            for key, count in self.context.store("A").items():
                self.context.forward(key=key, value=count, timestamp=now)

    return Counts


class _Ticking(Processor):
    """Forwards the number of each call; a store keeps the number, because a processor exists for one batch."""

    def tick(self, now: int) -> None:
        self.context.forward(key="tick", value=self.count(), timestamp=now)

    def count(self) -> int:
        fires = self.context.store("fires")
        fires.put("i", fires.get("i", 0) + 1)
        return int(fires.get("i"))

    def process(self, record: Record) -> None:
        pass


def _ticks(on: Clock, every: str, limit: str) -> type[Processor]:
    class Ticks(_Ticking):
        @punctuate(every=_ms(every), on=on)
        def tick(self, now: int) -> None:
            super().tick(now)
            if self.context.store("fires").get("i") == int(limit):
                self.context.cancel(self.tick)

    return Ticks


def _anchored_ticks(on: Clock, start: str, every: str) -> type[Processor]:
    class AnchoredTicks(_Ticking):
        @punctuate(every=_ms(every), on=on, start=int(start))
        def tick(self, now: int) -> None:
            super().tick(now)

    return AnchoredTicks


def _switchable_ticks(on: Clock, every: str) -> type[Processor]:
    class SwitchableTicks(_Ticking):
        def process(self, record: Record) -> None:
            if "start" in text(record.value):
                self.context.schedule(self.tick, every=_ms(every), on=on)
            if "stop" in text(record.value):
                self.context.cancel(self.tick)

    return SwitchableTicks


def _fail_on_punctuate(on: Clock, every: str) -> type[Processor]:
    class FailingTicks(_Ticking):
        def process(self, record: Record) -> None:
            self.context.forward(record)

        @punctuate(every=_ms(every), on=on)
        def tick(self, now: int) -> None:
            number = self.count()
            if number % 2 == 0:
                raise ValueError("the case makes this call fail")
            self.context.forward(key="tick", value=number, timestamp=now)

    return FailingTicks


TIMED: dict[str, Callable[..., type[Processor]]] = {
    "count_and_punctuate_stream_time": lambda every: _punctuated_count("stream", every),
    "count_and_punctuate_wall_clock": lambda every: _punctuated_count("wall", every),
    "ticks": _ticks,
    "anchored_ticks": _anchored_ticks,
    "switchable_ticks": _switchable_ticks,
    "fail_on_punctuate": _fail_on_punctuate,
}
"""Processors with timers, created from the parts of their argument."""


def processor(reference: str, stores: Sequence[StoreSpec], global_table: str = "") -> type[Processor]:
    """Return the processor class that a case refers to, with its stores and global table."""
    name, _, argument = reference.partition(":")
    attached = dict(zip("AB", stores, strict=False))
    if name in TIMED:
        timed = TIMED[name](*argument.split(":"))
        fires = {"fires": key_value_store()} if issubclass(timed, _Ticking) else {}
        timed.stores = {**attached, **fires}
        return timed
    step = look_up(STEPS, reference)[0]
    body = {
        "stores": attached,
        "global_table": global_table,
        "process": lambda self, record: step(self, record, argument),
    }
    return cast(type[Processor], type("Stepping", (Processor,), body))


def _count_calls(self: ValueTransformer, key: Any, value: Any) -> Any:
    calls = self.context.store("A")
    calls.put(key, calls.get(key, 0) + 1)
    return None if value is None else f"{text(value)}#{calls.get(key)}"


def _with_other(self: ValueTransformer, key: Any, value: Any) -> Any:
    return None if value is None else f"{text(value)}/{text(self.context.store('A').get(key))}"


def _remember_max(self: ValueTransformer, key: Any, value: Any) -> Any:
    if value is None:
        return None
    highest = self.context.store("A")
    if highest.get(key) is None or text(value) > highest.get(key):
        highest.put(key, text(value))
    return f"{text(value)}^{highest.get(key)}"


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "describe": lambda _, key, value: f"{text(key)}={text(value)}",
    "shout": lambda _, _key, value: None if value is None else f"{text(value)}!",
    "count_calls": _count_calls,
    "with_other": _with_other,
    "remember_max": _remember_max,
}


def transformer(reference: str, stores: Sequence[StoreSpec]) -> type[ValueTransformer]:
    """Return the transformer class that a case refers to, with its stores."""
    body = {"stores": dict(zip("AB", stores, strict=False)), "transform": look_up(TRANSFORMS, reference)[0]}
    return cast(type[ValueTransformer], type("Transforming", (ValueTransformer,), body))


def _ms(number: str) -> timedelta:
    return timedelta(milliseconds=int(number))

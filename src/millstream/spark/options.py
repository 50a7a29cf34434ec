"""Check the options of the data source ``millstream``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from millstream.broker import Broker, Offsets
from millstream.broker_urls import open_broker
from millstream.errors import DefinitionError
from millstream.foundation.paths import DEFAULT_DATA_DIR
from millstream.foundation.times import parse_timestamp
from millstream.foundation.typed_decoding import decode_json
from millstream.task.task_input import Range

NAMES = {
    *("topic", "app", "table", "data_dir", "broker", "on_error", "max_records"),
    *("start_offset", "stop_offset", "start_time", "stop_time", "durability", "checkpointlocation", "path"),
}


class Options:
    """The options of ``spark.read``, ``readStream``, ``write`` or ``writeStream``."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        unknown = sorted(self._given.keys() - NAMES)
        if unknown:
            raise DefinitionError(
                f"the data source has no option {unknown[0]!r}",
                hint=f"it has {', '.join(sorted(NAMES - {'path', 'checkpointlocation'}))}",
            )
        self.topic = self._given.get("topic")
        self.app = self._given.get("app")
        self.table = self._given.get("table")
        self.on_error = self._choice("on_error", "fail", "skip")
        if (self.topic is None) == (self.table is None) or (self.table is not None and self.app is None):
            raise DefinitionError(
                "the data source needs a topic or a table",
                hint='give option("topic", NAME), or option("app", ID) and option("table", NAME)',
            )

    def _choice(self, name: str, *choices: str) -> str:
        value = self._given.get(name, choices[0])
        if value not in choices:
            raise DefinitionError(f"{name}={value!r} is not valid", hint=f"use {' or '.join(map(repr, choices))}")
        return value

    @property
    def data_dir(self) -> Path:
        return Path(self._given.get("data_dir", DEFAULT_DATA_DIR)).absolute()

    def broker(self) -> Broker:
        """Open the broker in this process."""
        sync = self._choice("durability", "sync", "os") == "sync"
        return open_broker(self._given.get("broker"), self.data_dir, durability="sync" if sync else "os")

    @property
    def max_records(self) -> int | None:
        """The most records that a micro-batch takes."""
        return None if "max_records" not in self._given else self._number("max_records")

    @property
    def checkpoint(self) -> str | None:
        return self._given.get("checkpointlocation")

    def _number(self, name: str) -> int:
        try:
            return int(self._given[name])
        except ValueError as error:
            raise DefinitionError(f"{name}={self._given[name]!r} is not a number") from error

    def ranges(self, broker: Broker) -> list[Range]:
        """Return the ranges of the topic to read: all of it, or between offsets or times."""
        assert self.topic is not None
        ranges: list[Range] = []
        for partition, bounds in enumerate(broker.offsets(self.topic)):
            start = self._bound("start", partition, bounds, broker, bounds.begin)
            stop = self._bound("stop", partition, bounds, broker, bounds.end)
            ranges.append(Range(self.topic, partition, start, max(start, stop)))
        return ranges

    def _bound(self, which: str, partition: int, bounds: Offsets, broker: Broker, default: int) -> int:
        offset, time_text = self._given.get(f"{which}_offset"), self._given.get(f"{which}_time")
        if offset is not None and time_text is not None:
            raise DefinitionError(f"{which}_offset and {which}_time exclude each other", hint="choose one")
        if offset is not None:
            default = _offset_for(f"{which}_offset", offset, partition, default)
        elif time_text is not None:
            timestamp = int(time_text) if time_text.isdigit() else parse_timestamp(time_text)
            if timestamp is None:
                raise DefinitionError(
                    f"{which}_time={time_text!r} is not a time",
                    hint='write "2025-01-31T12:00", milliseconds since 1970 or, for a time ago, "10 min"',
                )
            assert self.topic is not None
            first = broker.offset_at(self.topic, partition, timestamp)
            default = bounds.end if first is None else first
        return min(max(default, bounds.begin), bounds.end)


def _offset_for(name: str, text: str, partition: int, default: int) -> int:
    """Return the offset of a partition: one number for all, or a JSON object by partition."""
    try:
        offsets = decode_json(text, int | dict[int, int])
    except msgspec.DecodeError as error:
        raise DefinitionError(
            f"{name}={text!r} is not an offset", hint='write 100 for all partitions, or {"0": 100, "1": 250}'
        ) from error
    return offsets if isinstance(offsets, int) else offsets.get(partition, default)

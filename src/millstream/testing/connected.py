"""What stands for sources and sinks in the test driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.connect.protocols import SinkBatch
from millstream.dsl.sources import ConnectedSource
from millstream.errors import DefinitionError
from millstream.plan.topology import SinkStep
from millstream.testing.topic import TestTopic

if TYPE_CHECKING:
    from millstream.testing.driver import TestDriver


class TestSink(TestTopic[Any, Any]):
    """The records that an app sends to a sink, which is not called; each record is read once."""

    __test__ = False

    def __init__(self, driver: TestDriver, name: str) -> None:
        topics = {step.name: topic for topic, step in driver.app.deliveries.items() if isinstance(step, SinkStep)}
        if name not in topics:
            raise DefinitionError(f"app {driver.app.id!r} has no sink {name!r}", hint=_names("sinks", topics))
        super().__init__(driver, topics[name])
        self._batches = driver._sink_batches.setdefault(name, [])

    @property
    def batches(self) -> list[SinkBatch]:
        """All batches so far: what arrived since the last look is one more."""
        if records := self.read():
            wall_time, number = self._driver.wall_clock, len(self._batches) + 1
            self._batches.append(SinkBatch(lineage="test", number=number, wall_time=wall_time, records=records))
        return self._batches


class TestSource:
    """Makes the records that a source of the app would make of changes in its system."""

    __test__ = False

    def __init__(self, driver: TestDriver, name: str) -> None:
        sources = driver.app._draft.sources
        if name not in sources:
            raise DefinitionError(f"app {driver.app.id!r} has no source {name!r}", hint=_names("sources", sources))
        self._driver = driver
        self._source = ConnectedSource(driver.app, name, sources[name])

    def insert(self, table: str, row: Any, *, key: Any, timestamp: int | None = None) -> None:
        """Add a row to a table of the source."""
        self._driver.topic(self._source.topic(table)).pipe(row, key=key, timestamp=timestamp)

    update = insert

    def delete(self, table: str, *, key: Any, timestamp: int | None = None) -> None:
        """Delete a row from a table of the source."""
        self.insert(table, None, key=key, timestamp=timestamp)


def _names(kind: str, names: Any) -> str:
    return f"its {kind}: {', '.join(names) or 'none'}"

"""The step that groups alerts and decides when they are notified, with state and timers on the wall clock."""

from __future__ import annotations

from typing import Any

from millstream.alerts.due_times import DueTimes
from millstream.alerts.events import AlertEvent, silences_topic
from millstream.alerts.groups import Group, Route, flush, insert, silences_in
from millstream.alerts.notifications import Notification
from millstream.processors import Processor, key_value_store
from millstream.records import Record
from millstream.serdes import MessagePack


class NotifyStep(Processor[str, AlertEvent, str, Notification]):
    """Gets alerts by the key of their group, and forwards its notifications."""

    stores = {  # noqa: RUF012 - a declaration, as in processors of users
        "groups": key_value_store(value=MessagePack(Group)),
        "due": key_value_store(value=MessagePack(list[Any])),
    }

    def __init__(self, route: Route) -> None:
        self.route = route

    @property
    def _due(self) -> DueTimes:
        times: DueTimes | None = getattr(self, "_times", None)
        if times is None:
            times = self._times = DueTimes(self.context, "due", self.look, "wall")
        return times

    def process(self, record: Record[str, AlertEvent]) -> None:
        """Add an alert to its group."""
        now = self.context.wall_time
        before: Group | None = self.context.store("groups").get(record.key)
        group = insert(before, record.value, self.route, now)
        if group.due <= now:
            self._notify(record.key, group, now)  # an entry of the group in the due times is found to be too early
        else:
            self._keep(record.key, group, 0 if before is None else before.due)

    def look(self, now: int) -> None:
        """Notify the groups that are due."""
        for key in self._due.take(now):
            group: Group | None = self.context.store("groups").get(key)
            if group is not None and group.due <= now:
                self._notify(key, group, now)
            elif group is not None:
                self._keep(key, group, 0)

    def _notify(self, key: str, group: Group, now: int) -> None:
        silences = silences_in(self.context.store(silences_topic(self.context.app)).items())
        left, message = flush(group, self.route, now, silences)
        if left is None:
            self.context.store("groups").put(key, None)
        else:
            self._keep(key, left, 0)
        if message is not None:
            self.context.forward(key=message.group_key, value=message, timestamp=now)

    def _keep(self, key: str, group: Group, entry: int) -> None:
        self.context.store("groups").put(key, group)
        self._due.set(key, entry, group.due)

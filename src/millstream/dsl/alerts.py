"""The handle of alerts: who is notified, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from millstream.alerts.events import AlertEvent, silences_topic
from millstream.alerts.groups import Route
from millstream.alerts.notifications import Notification, group_key
from millstream.alerts.notify_step import NotifyStep
from millstream.alerts.silences import Silence
from millstream.dsl.handle import Handle
from millstream.dsl.stream import Stream
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.plan.alerts import Alert, Notify
from millstream.plan.sources import GlobalTableSource
from millstream.plan.stateless import Merge
from millstream.processors import checked
from millstream.serdes import READABLE, TEXT, Json

if TYPE_CHECKING:
    from millstream.connect.protocols import Sink


class Alerts(Handle[str, AlertEvent]):
    """The alerts of one condition, or of several that were merged."""

    def to_stream(self) -> Stream[str, AlertEvent | None]:
        """Return the events as records: one for each change of status, null if a pending alert did not last."""
        return Stream(self._draft, self._node)

    def merge(self, *others: Alerts) -> Alerts:
        """Return these alerts and others, so that they can be notified together."""
        return Alerts(self._draft, Merge(sources=(self._node, *(other._node for other in others))))

    def notify(
        self,
        *sinks: Sink,
        name: str | None = None,
        group_by: Sequence[str] = ("alertname",),
        group_wait: Duration = "30 s",
        group_interval: Duration = "5 min",
        repeat_interval: Duration = "4 h",
        send_resolved: bool = True,
    ) -> Alerts:
        """Send notifications of firing and resolved alerts to sinks, grouped and repeated as in Alertmanager.

        Alerts with the same labels of ``group_by`` (``["..."]``: all labels) are one group. ``group_wait`` after its
        first alert it is notified, then every ``group_interval`` if it has changed, and if it has not, after
        ``repeat_interval``. Times are on the wall clock. Silences (``millstream alerts silence``) are left out. What
        was notified is state of the app: a restart neither forgets nor repeats it.

        >>> from millstream.testing import TestDriver
        >>> from millstream.testing.connectors import MemorySink
        >>> app = App("doc")
        >>> hot = app.stream("heat", value=int).alert("hot", when=lambda c: c > 90, clock="wall")
        >>> hot.notify(MemorySink(), name="people", group_wait="10 s")
        <Alerts hot.alert>
        >>> with TestDriver(app) as driver:
        ...     driver.topic("heat").pipe(95, key="s1")
        ...     driver.advance_wall_clock("10 s")
        ...     [notification.title for notification in driver.sink("people").read_values()]
        ['[FIRING:1] hot']
        """
        if name is None and isinstance(self._node, Alert):
            name = f"{self._node.alert}-notify"
        if name is None:
            raise DefinitionError("the notifications of merged alerts have no name", hint="give notify() a name=")
        if not sinks:
            raise DefinitionError("notify() has no sink", hint='for example Slack(Secret.env("SLACK_URL"))')
        route = Route(
            receiver=check_name("notification", name),
            group_by=_names(group_by),
            group_wait=milliseconds(group_wait),
            group_interval=_positive("group_interval", group_interval),
            repeat_interval=_positive("repeat_interval", repeat_interval),
            send_resolved=send_resolved,
        )
        notifications = self._grouped(route)
        for number, sink in enumerate(sinks, 1):
            notifications.sink(sink, name=name if number == 1 else f"{name}-{number}")
        return self

    def _grouped(self, route: Route) -> Stream[str, Notification]:
        """Return the notifications of a route."""
        self._add_silences()
        audible = self.to_stream().filter(_is_notified)
        grouped = audible.select_key(lambda event: "" if event is None else group_key(route.labels_of(event)), key=str)
        node = Notify(
            source=grouped._node,
            name=f"{route.receiver}.groups",
            group_by=route.group_by,
            group_wait=route.group_wait,
            group_interval=route.group_interval,
            repeat_interval=route.repeat_interval,
            key=TEXT,
            value=Json(Notification),
            **checked("notify", partial(NotifyStep, route), NotifyStep),
        )
        return Stream(self._draft, node)

    def _add_silences(self) -> None:
        topic = silences_topic(self._draft.app)
        if not any(isinstance(node, GlobalTableSource) and topic in node.topics for node in self._draft.nodes):
            self._draft.add(GlobalTableSource(topics=(topic,), name=topic, key=READABLE, value=Json(Silence)))


def _is_notified(event: AlertEvent | None) -> bool:
    return event is not None and event.status != "pending"


def _names(group_by: Sequence[str]) -> tuple[str, ...]:
    if isinstance(group_by, str):
        raise DefinitionError(f"group_by={group_by!r} is text", hint=f"give a list: group_by=[{group_by!r}]")
    return tuple(group_by)


def _positive(option: str, duration: Duration) -> int:
    length = milliseconds(duration)
    if length < 1:
        raise DefinitionError(f"{option}={duration!r} is not valid", hint='use 1 s or more, such as "5 min"')
    return length


Handle._alerts = Alerts

"""Alert rules as a source: what changes becomes events of alerts, and notifications for the targets of the rules.

The position of the source is the state of all alerts and groups, so that one commit stores it with the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from millstream.alerts.events import AlertEvent, alerts_topic
from millstream.alerts.groups import Group, Route, flush, insert
from millstream.alerts.notifications import Notification
from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee, Intake
from millstream.errors import BrokerUnavailableError
from millstream.foundation.blocks import Block, block_of
from millstream.foundation.typed_decoding import decode_json
from millstream.operations.alert_topics import COMPACTED, silences_of
from millstream.operations.conditions import is_met, rule_value
from millstream.operations.data_directory import DataDirectory
from millstream.operations.rules import Rule, RuleStore

NOTIFICATIONS = "millstream.notifications"
_WEEK_MS = 7 * 86_400_000


class Addressed(msgspec.Struct, frozen=True, kw_only=True):
    """A notification and where to send it."""

    to: str
    notification: Notification


class RuleState(msgspec.Struct, kw_only=True):
    """The firing alerts and the groups of all rules, by the name of the rule."""

    firing: dict[str, AlertEvent] = {}
    groups: dict[str, Group] = {}


def decoded_state(position: bytes | None) -> RuleState:
    """Return the state that a position is."""
    return RuleState() if position is None else decode_json(position, RuleState)


class RuleSource:
    """A source that evaluates the rules of a data directory whenever it is read."""

    guarantee: Guarantee = "exactly once"

    def __init__(self, directory: DataDirectory, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._store = RuleStore(directory.path)
        self._clock = clock

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the topic of notifications, and those of the apps of rules."""
        apps = {alerts_topic(rule.app): COMPACTED for rule in self._store.rules()}
        return {**apps, NOTIFICATIONS: TopicConfig(partitions=1, retention_ms=_WEEK_MS)}

    def open(self, position: bytes | None, _context: ConnectorContext, /) -> RuleReader:
        """Continue with the alerts that were firing."""
        return RuleReader(self._directory, self._store, decoded_state(position), self._clock)


class RuleReader:
    """Evaluates rules and looks at the groups that are due."""

    def __init__(
        self, directory: DataDirectory, store: RuleStore, state: RuleState, clock: Callable[[], float]
    ) -> None:
        self._directory = directory
        self._store = store
        self._state = state
        self._clock = clock

    def read(self, _timeout: float) -> Intake | None:
        """Evaluate all rules; return None if nothing has changed."""
        now, state = round(self._clock() * 1000), self._state
        state = RuleState(firing=dict(state.firing), groups=dict(state.groups))
        rules = {rule.name: rule for rule in self._store.rules()}
        events = [event for rule in rules.values() if (event := self._evaluate(rule, state, now)) is not None]
        events += [self._ended(name, state, now) for name in list(state.firing) if name not in rules]
        for event in events:
            rule = rules.get(event.alert)
            if rule is not None and rule.to is not None:
                group = insert(state.groups.get(rule.name), event, _route(rule), now)
                state.groups[rule.name] = group
        sent = self._look(rules, state, now)
        is_changed = (state.firing, state.groups) != (self._state.firing, self._state.groups)
        if not events and not sent and not is_changed:
            return None
        records: dict[str, Block] = {}
        for topic in {alerts_topic(event.app) for event in events}:
            own = [event for event in events if alerts_topic(event.app) == topic]
            records[topic] = block_of(
                [event.id.encode() for event in own], [msgspec.json.encode(event) for event in own], [now] * len(own)
            )
        if sent:
            keys: list[bytes | None] = [item.to.encode() for item in sent]
            records[NOTIFICATIONS] = block_of(keys, [msgspec.json.encode(item) for item in sent], [now] * len(sent))
        self._state = state
        return Intake(records=records, position=msgspec.json.encode(state))

    def committed(self, position: bytes) -> None:
        """Do nothing: the state is the position."""

    def close(self) -> None:
        """Do nothing."""

    def _evaluate(self, rule: Rule, state: RuleState, now: int) -> AlertEvent | None:
        value, message = rule_value(self._directory, rule)
        firing = state.firing.get(rule.name)
        if is_met(rule, value):
            if firing is not None and firing.app == rule.app:
                return None
            labels = {"alertname": rule.name, "app": rule.app, "rule": rule.what}
            event = AlertEvent(
                alert=rule.name, app=rule.app, key=None, status="firing", labels=labels, since=now, fired=now,
                summary=message, value=value,
            )  # fmt: skip
            state.firing[rule.name] = event
            return event
        if firing is None:
            return None
        del state.firing[rule.name]
        return msgspec.structs.replace(firing, status="resolved", resolved=now, summary=message, value=value)

    def _ended(self, name: str, state: RuleState, now: int) -> AlertEvent:
        """Resolve the alert of a rule that was deleted, without a notification."""
        event = state.firing.pop(name)
        state.groups.pop(name, None)
        return msgspec.structs.replace(event, status="resolved", resolved=now, reason="deleted")

    def _look(self, rules: Mapping[str, Rule], state: RuleState, now: int) -> list[Addressed]:
        sent: list[Addressed] = []
        for name, group in list(state.groups.items()):
            rule = rules.get(name)
            if rule is None or rule.to is None:
                del state.groups[name]
            elif group.due <= now:
                try:
                    silences = silences_of(self._directory.broker, rule.app)
                except BrokerUnavailableError:
                    continue
                left, message = flush(group, _route(rule), now, silences)
                if left is None:
                    del state.groups[name]
                else:
                    state.groups[name] = left
                if message is not None:
                    sent.append(Addressed(to=rule.to, notification=message))
        return sent


def _route(rule: Rule) -> Route:
    """Return how a rule is notified: at once, and again every four hours; each rule is a group."""
    return Route(receiver=rule.name, group_by=("alertname", "app"), group_wait=0, group_interval=10_000)

"""The step that evaluates the condition of an alert: for each key ok, pending, firing, resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from millstream.alerts.due_times import DueTimes
from millstream.alerts.events import AlertEvent, AlertStatus, Reason, event_key
from millstream.foundation.json_text import key_text
from millstream.functions import Function
from millstream.processors import Clock, Processor, key_value_store
from millstream.records import Record
from millstream.serdes import MessagePack


@dataclass(frozen=True, kw_only=True)
class AlertDefinition:
    """When an alert of a key is pending, firing and resolved; times are in milliseconds, 0 means that there is none."""

    alert: str
    when: Function
    until: Function | None
    lasting: int
    count: int
    """The condition holds while this many records within ``within`` fulfil ``when``; 0: while the last one does."""
    within: int
    missing_after: int
    on_missing: Literal["resolve", "fire"]
    severity: str | None
    labels: Function | Mapping[str, str]
    summary: Function | str
    clock: Clock

    def __call__(self) -> AlertStep:
        """Create the step of one batch."""
        return AlertStep(self)


class AlertState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The alert of one key."""

    last: int
    """The time of its last record."""
    status: Literal["ok", "pending", "firing"] = "ok"
    since: int = 0
    fired: int = 0
    is_missing: bool = False
    """Whether it fires because there was no record."""
    matches: list[int] = []
    """The times of the last records that fulfil the condition, as many as are needed."""
    labels: dict[str, str] = {}
    summary: str = ""
    value: Any = None
    entry: int = 0
    """Its time in ``DueTimes``."""


class AlertStep(Processor[Any, Any, str, AlertEvent | None]):
    """Evaluates the condition for each record, and when time has passed."""

    stores = {  # noqa: RUF012 - a declaration, as in processors of users
        "keys": key_value_store(value=MessagePack(AlertState)),
        "due": key_value_store(),
    }

    def __init__(self, definition: AlertDefinition) -> None:
        self.definition = definition

    def process(self, record: Record[Any, Any]) -> None:
        """Evaluate the condition for a record."""
        definition, states = self.definition, self.context.store("keys")
        now = record.timestamp if definition.clock == "stream" else self.context.wall_time
        state: AlertState | None = states.get(record.key)
        if state is None:
            state = AlertState(last=now)
        elif now < state.last and definition.clock == "wall":
            now = state.last  # the clock of a host was set back, and no record is late
        elif now < state.last and not definition.count:
            return  # the state after a later record is known
        self._pass_time(record.key, state, now - 1)
        try:
            matches = self._matches_with(record, state, now)
            state.last = max(state.last, now)
            is_active = self._is_active(record, state, matches)
            if is_active or definition.on_missing == "fire":
                self._describe(record, state)
        except Exception:
            self._keep(record.key, state)  # what time has changed is forwarded already
            raise
        state.matches = matches
        if is_active:
            self._activate(record.key, state, state.last)
        elif state.status != "ok":
            self._end(record.key, state, state.last, "condition" if record.value is not None else "deleted")
        self._keep(record.key, state, is_deleted=record.value is None)

    def due(self, now: int) -> None:
        """Let time pass for the keys for which something is due."""
        states = self.context.store("keys")
        for key in self._times.take(now):
            state: AlertState | None = states.get(key)
            if state is not None:
                state.entry = 0
                self._pass_time(key, state, now)
                self._keep(key, state)

    @property
    def _times(self) -> DueTimes:
        times: DueTimes | None = getattr(self, "_due_times", None)
        if times is None:
            times = self._due_times = DueTimes(self.context, "due", self.due, self.definition.clock)
        return times

    def _is_active(self, record: Record[Any, Any], state: AlertState, matches: list[int]) -> bool:
        definition = self.definition
        if record.value is None:
            return False
        if definition.count:
            return self._expiry(matches) > state.last
        if self._can_end(state):
            return not self._call(definition.until, record)
        return bool(self._call(definition.when, record))

    def _matches_with(self, record: Record[Any, Any], state: AlertState, now: int) -> list[int]:
        """Return the times of the last records that fulfil the condition, the current one included."""
        definition = self.definition
        if not definition.count:
            return []
        if record.value is None or (self._can_end(state) and self._call(definition.until, record)):
            return []
        return (
            sorted([*state.matches, now])[-definition.count :] if self._call(definition.when, record) else state.matches
        )

    def _can_end(self, state: AlertState) -> bool:
        """Whether ``until`` decides about the end."""
        return state.status == "firing" and not state.is_missing and self.definition.until is not None

    def _expiry(self, matches: list[int]) -> int:
        """Return when the records that fulfil the condition become too few, 0 if they are too few now."""
        is_full = len(matches) == self.definition.count
        return matches[0] + self.definition.within if is_full else 0

    def _pass_time(self, key: Any, state: AlertState, now: int) -> None:
        """Do what is due up to now, in the order of its time."""
        while (due := self._next_due(state)) and due <= now:
            definition = self.definition
            if state.status == "pending" and due == state.since + definition.lasting:
                self._fire(key, state, due)
            elif definition.count and state.status != "ok" and due == self._expiry(state.matches):
                self._end(key, state, due, "condition")
                state.matches = []
            elif state.status == "ok" and state.matches and due == state.matches[-1] + definition.within:
                state.matches = []
            elif definition.on_missing == "resolve":
                self._end(key, state, due, "missing data")
            else:
                state.is_missing, state.since = True, state.last if state.status == "ok" else state.since
                self._fire(key, state, due)

    def _next_due(self, state: AlertState) -> int:
        """Return the next time at which the state changes without a record, 0 if there is none."""
        definition, times = self.definition, list[int]()
        if state.status == "pending":
            times.append(state.since + definition.lasting)
        if definition.count and state.status != "ok" and not state.is_missing:
            times.append(self._expiry(state.matches))
        if state.status == "ok" and state.matches:  # too few, and then none that is young enough
            times.append(state.matches[-1] + definition.within)
        can_miss = state.status != "ok" if definition.on_missing == "resolve" else state.status != "firing"
        if definition.missing_after and can_miss:
            times.append(state.last + definition.missing_after)
        return min(times, default=0)

    def _activate(self, key: Any, state: AlertState, now: int) -> None:
        definition = self.definition
        state.is_missing = False
        if state.status == "ok":
            state.since = now
            if definition.lasting:
                state.status = "pending"
                self._forward(key, state, "pending", now)
        if state.status != "firing" and now >= state.since + definition.lasting:
            self._fire(key, state, now)

    def _fire(self, key: Any, state: AlertState, now: int) -> None:
        state.status, state.fired = "firing", now
        self._forward(key, state, "firing", now)

    def _end(self, key: Any, state: AlertState, now: int, reason: Reason) -> None:
        if state.status == "firing":
            self._forward(key, state, "resolved", now, reason)
        else:
            self.context.forward(key=event_key(self.definition.alert, key_text(key)), value=None, timestamp=now)
        state.status, state.is_missing = "ok", False

    def _forward(
        self, key: Any, state: AlertState, status: AlertStatus, now: int, reason: Reason = "condition"
    ) -> None:
        text, definition = key_text(key), self.definition
        named = {"alertname": definition.alert, "app": self.context.app, "key": text}
        severity = {} if definition.severity is None else {"severity": definition.severity}
        event = AlertEvent(
            alert=definition.alert,
            app=self.context.app,
            key=text,
            status=status,
            labels={**named, **severity, **state.labels},
            since=state.since,
            fired=None if status == "pending" else state.fired,
            resolved=now if status == "resolved" else None,
            reason="missing data" if state.is_missing and status == "firing" else reason,
            summary=f"no data from {text}" if state.is_missing else state.summary,
            value=state.value,
        )
        self.context.forward(key=event.id, value=event, timestamp=now)

    def _keep(self, key: Any, state: AlertState, *, is_deleted: bool = False) -> None:
        """Store the state; of keys that are ok only what is needed for late or missing records."""
        due = 0 if is_deleted else self._next_due(state)
        state.entry = self._times.set(key, state.entry, due)
        is_needed = not self.definition.count or state.status != "ok" or bool(state.matches) or due
        self.context.store("keys").put(key, state if is_needed and not is_deleted else None)

    def _describe(self, record: Record[Any, Any], state: AlertState) -> None:
        """Keep what events say about the record; an alert keeps the labels with which it began."""
        definition, labels = self.definition, state.labels
        if state.status == "ok":
            given = definition.labels
            given = self._call(given, record) if isinstance(given, Function) else given
            labels = {str(name): str(value) for name, value in given.items()}
        value = msgspec.to_builtins(record.value, str_keys=True)
        summary = definition.summary
        if isinstance(summary, Function):
            text = str(self._call(summary, record))
        else:
            text = summary.format(key=key_text(record.key), value=record.value, labels=labels)
        state.labels, state.value, state.summary = labels, value, text

    def _call(self, function: Function | None, record: Record[Any, Any]) -> Any:
        assert function is not None
        return function.call(record.value) if function.arity == 1 else function.call(record.key, record.value)

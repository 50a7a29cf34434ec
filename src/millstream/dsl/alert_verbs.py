"""The verb of alerts, for streams and tables."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

from millstream.alerts.alert_step import AlertDefinition, AlertStep
from millstream.alerts.events import AlertEvent, alerts_topic
from millstream.dsl.handle import Handle
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.foundation.type_variables import K, V
from millstream.functions import AnyFunction, Function, PairFunction, ValueFunction, by_arity
from millstream.plan.alerts import Alert
from millstream.plan.node import Node
from millstream.plan.sinks import Sink
from millstream.processors import Clock, checked
from millstream.serdes import TEXT, Json

if TYPE_CHECKING:
    from millstream.dsl.alerts import Alerts

_FORMS = {1: "(value)", 2: "(key, value)"}


class AlertOptions(TypedDict, total=False):
    """Options of ``alert`` beside its conditions."""

    lasting: Duration | None
    count: int | None
    within: Duration | None
    severity: str | None
    labels: Mapping[str, str] | AnyFunction
    summary: str | AnyFunction
    missing_after: Duration | None
    on_missing: Literal["resolve", "fire"]
    clock: Clock


class AlertVerbs(Handle[K, V]):
    """What streams and tables have in common."""

    def _changes(self) -> Node:
        """Return the node whose records are evaluated."""
        raise NotImplementedError

    @overload
    def alert(
        self,
        name: str,
        *,
        when: ValueFunction[V, object],
        until: ValueFunction[V, object] | None = None,
        **options: Unpack[AlertOptions],
    ) -> Alerts: ...
    @overload
    def alert(
        self,
        name: str,
        *,
        when: PairFunction[K, V, object],
        until: PairFunction[K, V, object] | None = None,
        **options: Unpack[AlertOptions],
    ) -> Alerts: ...
    def alert(
        self, name: str, *, when: AnyFunction, until: AnyFunction | None = None, **options: Unpack[AlertOptions]
    ) -> Alerts:
        """Raise an alert for each key whose condition holds; events go to the compacted topic ``APP.alerts``.

        With ``lasting`` it is pending until ``when`` has held for that long. It is resolved when ``when`` no longer
        holds, or with ``until`` when that does. With ``count`` and ``within`` the condition is that as many records
        fulfil ``when``. ``missing_after`` without a record resolves or, by ``on_missing``, fires. Time is event time,
        or that of ``clock="wall"``. Null keys are dropped, a null value resolves, records out of order are ignored.

        >>> app = App("doc")
        >>> hot = app.stream("heat", value=int).alert("hot", when=lambda c: c > 90, until=lambda c: c < 85)
        >>> hot.to_stream().map_values(lambda event: event.status).to("out")
        >>> outputs(app, heat=[("s1", 95), ("s1", 88), ("s1", 80)])
        [('hot/s1', 'firing'), ('hot/s1', 'resolved')]
        """
        definition = _definition(check_name("alert", name), when, until, options)
        facts = checked("alert", definition, AlertStep)
        node = Alert(
            source=self._changes(),
            name=f"{name}.alert",
            alert=name,
            severity=definition.severity,
            lasting=definition.lasting or None,
            key=TEXT,
            value=Json(AlertEvent),
            **facts,
        )
        alerts = self._alerts(self._draft, node)
        self._draft.add(Sink(source=node, topic=alerts_topic(self._draft.app), compact=True))
        return alerts


def _definition(name: str, when: AnyFunction, until: AnyFunction | None, options: AlertOptions) -> AlertDefinition:
    count, within = options.get("count"), options.get("within")
    if (count is None) != (within is None):
        raise DefinitionError(
            f"alert({name!r}) has only one of count= and within=", hint='give both: count=10, within="5 min"'
        )
    if count is not None and not 1 <= count <= 10_000:
        raise DefinitionError(f"alert({name!r}, count={count}) is not valid", hint="use 1 to 10,000")
    on_missing, clock = options.get("on_missing", "resolve"), options.get("clock", "stream")
    if on_missing not in ("resolve", "fire"):
        raise DefinitionError(f"on_missing={on_missing!r} is unknown", hint='use "resolve" or "fire"')
    if clock not in ("stream", "wall"):
        raise DefinitionError(f"clock {clock!r} is unknown", hint='use "stream" or "wall"')
    if on_missing == "fire" and options.get("missing_after") is None:
        raise DefinitionError(f'alert({name!r}) has on_missing="fire", but no missing_after=', hint="give both")
    return AlertDefinition(
        alert=name,
        when=by_arity("alert", when, _FORMS),
        until=None if until is None else by_arity("alert", until, _FORMS),
        lasting=_length("lasting", options.get("lasting")),
        count=count or 0,
        within=_length("within", within),
        missing_after=_length("missing_after", options.get("missing_after")),
        on_missing=on_missing,
        severity=options.get("severity"),
        labels=_labels(options.get("labels", {})),
        summary=_summary(options.get("summary", "")),
        clock=clock,
    )


def _length(option: str, duration: Duration | None) -> int:
    length = 0 if duration is None else milliseconds(duration)
    if duration is not None and length < 1:
        raise DefinitionError(f"{option}={duration!r} is not valid", hint='use 1 ms or more, such as "5 min"')
    return length


def _labels(labels: Mapping[str, str] | AnyFunction) -> Mapping[str, str] | Function:
    if not isinstance(labels, Mapping):
        return by_arity("alert", labels, _FORMS)
    return {str(name): str(value) for name, value in labels.items()}


def _summary(summary: str | AnyFunction) -> str | Function:
    if not isinstance(summary, str):
        return by_arity("alert", summary, _FORMS)
    try:
        list(Formatter().parse(summary))
    except ValueError as error:
        raise DefinitionError(
            f"summary={summary!r} is not a template: {error}", hint='write for example "{key} has {value[celsius]} °C"'
        ) from error
    return summary

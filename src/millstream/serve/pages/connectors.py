"""Sources and sinks: what they do, how far they are, why they failed; and what can be asked of them."""

from __future__ import annotations

from millstream.batch.connector_status import ConnectorStatus
from millstream.serve.api.connectors import (
    ConnectorDetail,
    ConnectorParams,
    ConnectorSummary,
    get_connector,
    list_connectors,
)
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NOTHING,
    action,
    ago,
    badge,
    by,
    card,
    command,
    duration,
    empty,
    facts,
    field,
    identifier,
    link,
    moment,
    number,
    table,
    url,
)
from millstream.serve.site import Site

_TONES = {"running": "good", "failed": "bad", "no heartbeat": "bad"}


def connectors_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    connectors = list_connectors(site)
    if not connectors:
        return (card("", _no_connectors(), live="connectors", wide=True),)
    heads = ("Name", "App", "Direction", "System", "Guarantee", "State", "Waiting", "Records", "Rejected", "Last error")
    listed = table(heads, map(_row, connectors), numeric=(6, 7, 8), sortable="connectors")
    return (card("", listed, live="connectors", wide=True),)


def _row(connector: ConnectorSummary) -> tuple[Content, ...]:
    status = connector.status
    return (
        link(status.name, "connectors", connector.app, status.name),
        connector.app,
        status.direction,
        status.system,
        status.guarantee,
        _state(connector.state, connector.paused),
        by(status.waiting, number(status.waiting)),
        by(status.records, number(status.records)),
        by(status.rejected, number(status.rejected)),
        NOTHING if status.failure is None else status.failure.message,
    )


def _state(state: str, paused: bool) -> Content:
    """Return the state; a request that it does not follow yet is shown beside it."""
    shown = badge(state, _TONES.get(state, "plain"))
    return joined(shown, " ", badge("pausing", "busy")) if paused and state in ("running", "failed") else shown


def _no_connectors() -> Markup:
    return empty(
        "There are no connectors yet",
        element("p", "A source reads from another system into topics, and a sink writes topics to one."),
        command("millstream connect run FILE.toml"),
    )


def connector_page(site: Site, params: ConnectorParams) -> tuple[Content, ...]:
    """Return the content of the page of one source or sink."""
    detail = get_connector(site, params)
    return (
        card("State", _facts(detail), live="connector", wide=True),
        card("Position", _positions(detail), live="positions"),
        card("Actions", _actions(detail), live="actions"),
        card("Read a table again", _snapshot(detail)) if detail.status.direction == "source" else None,
    )


def _facts(detail: ConnectorDetail) -> Content:
    status = detail.status
    listed = facts(
        ("State", _state(detail.state, detail.paused)),
        ("Direction", status.direction),
        ("System", status.system),
        ("Guarantee", status.guarantee),
        ("Last batch", identifier(status.batch)),
        ("Waiting", number(status.waiting)),
        ("Behind", duration(status.behind_ms)),
        ("Records since the start", number(status.records)),
        ("Rejected since the start", number(status.rejected)),
        ("Reported", ago(status.at)),
        *((name, number(value)) for name, value in sorted(status.gauges.items())),
    )
    return joined(listed, _failure(status))


def _failure(status: ConnectorStatus) -> Content:
    failure = status.failure
    if failure is None:
        return None
    return element(
        "p",
        element("b", f"Attempt {failure.attempts} at batch {failure.batch} failed"),
        " ",
        moment(failure.at),
        ": ",
        failure.message,
        f"; {failure.hint}" if failure.hint else None,
        class_="banner",
        id="failure",
    )


def _positions(detail: ConnectorDetail) -> Content:
    if not detail.positions:
        return empty("Nothing has been read yet")
    return table(("Position", "Value"), detail.positions.items())


def _actions(detail: ConnectorDetail) -> Content:
    name = detail.status.name
    path = ("api", "connectors", detail.app, name)
    if detail.paused:
        steer = action(url(*path, "resume"), button="Resume")
    else:
        steer = action(
            url(*path, "pause"), button="Pause", confirm=f"Pause {name}? It stays paused until it is resumed."
        )
    again = action(
        url(*path, "restart"),
        button="Restart",
        confirm=f"Restart {name}? It continues where it is, with a new connection.",
        tone="quiet",
    )
    waiting = element("p", "Waits to be read again: ", ", ".join(detail.snapshots)) if detail.snapshots else None
    return joined(steer, again, waiting)


def _snapshot(detail: ConnectorDetail) -> Content:
    return action(
        url("api", "connectors", detail.app, detail.status.name, "snapshot"),
        field("Table", "table", required=True, autocomplete="off", hint="with its schema: public.orders"),
        button="Read again",
        confirm="Read the whole table again, while changes go on?",
        tone="quiet",
    )

"""Dead letters and late records: what went wrong, where and why, and how to send letters back."""

from __future__ import annotations

from millstream.serve.api.letters import Letter, LetterParams, Letters, list_letters
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    action,
    badge,
    card,
    command,
    empty,
    link,
    moment,
    number,
    table,
    url,
    value_of,
)
from millstream.serve.site import Site


def letters_page(site: Site, app: str) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    found = list_letters(site, LetterParams(app=app))
    shown: Content = [_letter(app, one) for one in found.letters] if found.letters else _nothing(found)
    return (
        card("Dead letters", _told(found), element("div", shown, class_="letters"), live="letters", wide=True),
        card("Late records", _late(found), live="late"),
        card("Other records that were dropped", _dropped(found), live="dropped"),
    )


def _told(found: Letters) -> Content:
    if not found.letters:
        return None
    return joined(
        element(
            "p",
            f"{len(found.letters):,} newest of topic ",
            link(found.topic, "topics", found.topic),
            f". {found.waiting:,} were not sent back yet.",
        ),
        action(
            url("api", "apps", found.app, "letters", "replay"),
            element("input", type="hidden", name="all", value="true", data_type="json"),
            button="Send all back that were not yet",
            confirm="Send all dead letters back to the topics they came from?",
        ),
    )


def _nothing(found: Letters) -> Markup:
    return empty(
        "No dead letters",
        element(
            "p",
            "A record that cannot be decoded, or on which a function raises, is kept here with its error, if the app "
            "says so; others go on meanwhile:",
        ),
        command('App("orders", config=Config(on_error="dead_letter"))'),
        element("p", "They go to topic ", element("code", found.topic), "."),
    )


def _letter(app: str, one: Letter) -> Markup:
    error = one.error.rpartition(".")[2] or "error"
    replay = action(
        url("api", "apps", app, "letters", "replay"),
        element("input", type="hidden", name="places", value=one.place, data_type="list"),
        button="Send back",
        confirm=f"Send letter {one.place} back to {one.topic}?",
        tone="quiet",
    )
    head = element(
        "summary",
        badge(error, "bad"),
        element("span", one.message[:200], class_="message"),
        element(
            "span", f"{one.origin} at ", element("code", one.node or "?"), " ", moment(one.timestamp), class_="told"
        ),
    )
    inside = joined(
        element("h4", "Key"),
        value_of(one.record.key, 400),
        element("h4", "Value"),
        value_of(one.record.value, 2000),
        element("h4", "Where it failed"),
        element("pre", one.stacktrace or "no stack was kept"),
        replay,
    )
    return element("details", head, inside, class_="letter", id=f"letter-{one.place}")


def _late(found: Letters) -> Content:
    if not found.late:
        return empty(
            "Nothing was late",
            element("p", "A record is late when its window has closed. A longer grace waits for it:"),
            command('.windowed_by(tumbling("1 min", grace="30 s"))'),
        )
    rows = ((element("code", name.rpartition(": ")[0]), number(count)) for name, count in sorted(found.late.items()))
    topics: Content = None
    if found.late_topics:
        links = [joined(link(topic, "topics", topic), " ") for topic in found.late_topics]
        topics = element("p", "They are kept in ", links)
    return joined(
        table(("Node", "Records"), rows, numeric=(1,)),
        topics,
        element("p", "Ask ", link("why a record was late", "time", app=found.app), "."),
    )


def _dropped(found: Letters) -> Content:
    if not found.dropped:
        return element("p", "None.", class_="none")
    rows = (
        (element("code", node), reason.replace("_", " "), number(count))
        for name, count in sorted(found.dropped.items())
        for node, _, reason in [name.rpartition(": ")]
    )
    told = element("p", "“error” counts the dead letters, and the records that were skipped.", class_="told")
    return joined(table(("Node", "Reason", "Records"), rows, numeric=(2,)), told)

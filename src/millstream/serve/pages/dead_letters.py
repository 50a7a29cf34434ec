"""Dead letters and late records: what failed, where and why, and how to replay dead letters."""

from __future__ import annotations

from millstream.serve.api.dead_letters import DeadLetterDetail, DeadLetterOverview, DeadLetterParams, list_dead_letters
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    action,
    badge,
    by,
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


def dead_letters_page(site: Site, app: str) -> tuple[Content, ...]:
    """Return the content of the page for one app."""
    listing = list_dead_letters(site, DeadLetterParams(app=app))
    letters = [_letter(app, letter) for letter in listing.dead_letters]
    problem = site.directory.broker_problem()
    none = _no_letters(listing) if problem is None else empty("They cannot be read now", element("p", problem.message))
    listed = element("div", letters or none, class_="dead-letters")
    return (
        card("Dead letters", _replay_all(listing), listed, live="dead-letters", wide=True),
        card("Late records", _late(listing), live="late"),
        card("Other dropped records", _dropped(listing), live="dropped"),
    )


def _replay_all(listing: DeadLetterOverview) -> Content:
    if not listing.dead_letters:
        return None
    return joined(
        element(
            "p",
            f"The {len(listing.dead_letters):,} newest of topic ",
            link(listing.topic, "topics", listing.topic),
            f". {listing.waiting:,} were not replayed yet.",
        ),
        action(
            url("api", "apps", listing.app, "dead-letters", "replay"),
            element("input", type="hidden", name="all", value="true", data_type="json"),
            button="Replay all remaining",
            confirm="Send all dead letters back to the topics they came from?",
        ),
    )


def _no_letters(listing: DeadLetterOverview) -> Markup:
    return empty(
        "No dead letters",
        element(
            "p",
            "With the error policy below, a record that cannot be decoded, or on which a function raises, is stored "
            "here with its error, and the app continues:",
        ),
        command('App("orders", config=Config(on_error="dead_letter"))'),
        element("p", "The dead letter topic is ", element("code", listing.topic), "."),
    )


def _letter(app: str, letter: DeadLetterDetail) -> Markup:
    error = letter.error.rpartition(".")[2] or "error"
    replay = action(
        url("api", "apps", app, "dead-letters", "replay"),
        element("input", type="hidden", name="positions", value=letter.position, data_type="list"),
        button="Replay",
        confirm=f"Send dead letter {letter.position} back to {letter.topic}?",
        tone="quiet",
    )
    node = element("code", letter.node or "?")
    head = element(
        "summary",
        badge(error, "bad"),
        element("span", letter.message[:200], class_="message"),
        element("span", f"{letter.origin} at ", node, " ", moment(letter.timestamp), " UTC", class_="note"),
    )
    body = joined(
        element("h4", "Key"),
        value_of(letter.record.key, 400),
        element("h4", "Value"),
        value_of(letter.record.value, 2000),
        element("h4", "Stack trace"),
        element("pre", letter.stacktrace or "no stack trace was stored"),
        replay,
    )
    return element("details", head, body, class_="dead-letter", id=f"dead-letter-{letter.position}")


def _late(listing: DeadLetterOverview) -> Content:
    if not listing.late:
        return empty(
            "No late records",
            element("p", "A record is late if its window has closed. A longer grace period keeps windows open:"),
            command('.windowed_by(tumbling("1 min", grace="30 s"))'),
        )
    rows = (
        (element("code", name.rpartition(": ")[0]), by(count, number(count)))
        for name, count in sorted(listing.late.items())
    )
    topics: Content = None
    if listing.late_topics:
        links = [joined(link(topic, "topics", topic), " ") for topic in listing.late_topics]
        topics = element("p", "They are stored in ", links)
    return joined(
        table(("Node", "Records"), rows, numeric=(1,), sortable="late"),
        topics,
        element("p", "See ", link("why a record is late", "time", app=listing.app), "."),
    )


def _dropped(listing: DeadLetterOverview) -> Content:
    if not listing.dropped:
        return element("p", "None.", class_="none")
    rows = (
        (element("code", node), reason.replace("_", " "), by(count, number(count)))
        for name, count in sorted(listing.dropped.items())
        for node, _, reason in [name.rpartition(": ")]
    )
    note = element("p", "“error” counts dead letters and skipped records.", class_="note")
    return joined(table(("Node", "Reason", "Records"), rows, numeric=(2,), sortable="dropped"), note)

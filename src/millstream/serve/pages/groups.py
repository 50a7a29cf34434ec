"""Groups: who reads what and how far, and how to move a group."""

from __future__ import annotations

from millstream.serve.api.groups import GroupDetail, GroupParams, get_group, list_groups
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NOTHING,
    action,
    badge,
    card,
    choice,
    command,
    empty,
    field,
    link,
    more,
    number,
    table,
    url,
)
from millstream.serve.site import Site


def groups_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    found = list_groups(site)
    if not found:
        return (card("", _nothing(), live="groups", wide=True),)
    rows = (
        (
            link(one.group, "groups", one.group),
            badge("app", "good") if one.is_app else badge("consumers"),
            number(one.members),
            [joined(link(topic, "topics", topic), " ") for topic in one.topics],
            number(one.lag),
        )
        for one in found
    )
    listed = table(("Group", "Kind", "Members", "Topics", "Lag"), rows, numeric=(2, 4))
    return (card("", listed, live="groups", wide=True),)


def _nothing() -> Markup:
    return empty(
        "There are no groups yet",
        element("p", "A group remembers how far its consumers have read. An app is one; a consumer can join one:"),
        command("millstream consume TOPIC --group audit"),
    )


def group_page(site: Site, params: GroupParams) -> tuple[Content, ...]:
    """Return the content of the page of one group."""
    detail = get_group(site, params)
    rows = (
        (
            link(one.topic, "topics", one.topic),
            number(one.partition),
            number(one.committed) if one.committed is not None else NOTHING,
            number(one.end),
            number(one.lag),
            one.member or NOTHING,
        )
        for one in detail.partitions
    )
    heads = ("Topic", "Partition", "Committed", "End", "Lag", "Member")
    return (
        card("Offsets", table(heads, rows, numeric=(1, 2, 3, 4)), live="offsets", wide=True),
        card("Members", _members(detail), live="members"),
        card("Move the group", _reset(detail)),
    )


def _members(detail: GroupDetail) -> Content:
    if detail.is_app:
        return element(
            "p", "This group shows how far the app ", link(detail.group, "topology", app=detail.group),
            " has read. The app goes on from its own journal.",
        )  # fmt: skip
    if not detail.members:
        return empty("Nobody is in it now", element("p", "Its offsets are kept until it is forgotten."))
    rows = ((one.id, number(one.process), ", ".join(one.topics), number(one.partitions)) for one in detail.members)
    return table(("Member", "Process", "Topics", "Partitions"), rows, numeric=(1, 3))


def _reset(detail: GroupDetail) -> Content:
    if detail.is_app:
        return element("p", "An app cannot be moved: its state belongs to what it has read. Run it under another id.")
    reset = action(
        url("api", "groups", detail.group, "reset"),
        field("To", "to", required=True, hint="earliest, latest, an offset, 2026-01-31T12:00, 10 min"),
        choice("Do", "execute", (("false", "only show what would change"), ("true", "move it")), data_type="json"),
        button="Go",
        then="moves",
    )
    forget = action(
        url("api", "groups", detail.group, "delete"),
        field("Name of the group", "confirm", required=True, autocomplete="off", hint="type it to confirm"),
        button="Forget the group",
        then="/groups",
        tone="danger",
    )
    told = element(
        "p", "Only a group without live members can be moved. Look first: nothing changes unless you say so."
    )
    return joined(told, reset, more("Forget it", forget, id="forget"))

"""Consumer groups: their members, offsets and lag, and a form to reset offsets."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.serve.api.groups import GroupDetail, GroupParams, get_group, list_groups
from millstream.serve.html import Content, Markup, element, joined
from millstream.serve.pages.parts import (
    NOTHING,
    action,
    ago,
    badge,
    by,
    card,
    choice,
    command,
    empty,
    field,
    identifier,
    link,
    more,
    number,
    table,
    url,
)
from millstream.serve.site import Site
from millstream.views.share_groups import ShareGroupSummary


def groups_page(site: Site) -> tuple[Content, ...]:
    """Return the content of the list."""
    groups = list_groups(site)
    if not groups:
        return (card("", _no_groups(), live="groups", wide=True),)
    rows = (
        (
            link(group.group, "groups", group.group),
            badge("app", "good") if group.is_app else badge("consumers" if group.share is None else "queue"),
            by(group.members, number(group.members)),
            [element("span", link(topic, "topics", topic), class_="item") for topic in group.topics],
            by(group.lag, number(group.lag)),
        )
        for group in groups
    )
    listed = table(("Group", "Kind", "Members", "Topics", "Lag"), rows, numeric=(2, 4), sortable="groups")
    shared = [group.share for group in groups if group.share is not None]
    queues = (card("Queues", _queues(shared), live="queues", wide=True),) if shared else ()
    return (card("", listed, live="groups", wide=True), *queues)


def _queues(groups: Sequence[ShareGroupSummary]) -> Markup:
    rows = (
        (
            link(group.group, "groups", group.group),
            by(group.waiting, number(group.waiting)),
            by(group.in_flight, number(group.in_flight)),
            by(group.redelivered, number(group.redelivered)),
            by(group.oldest, ago(group.oldest)),
            by(group.dead, number(group.dead)),
        )
        for group in groups
    )
    heads = ("Share group", "Waiting", "In flight", "Redelivered", "Oldest", "Dead")
    return table(heads, rows, numeric=(1, 2, 3, 5), sortable="queues")


def _no_groups() -> Markup:
    return empty(
        "There are no groups yet",
        element("p", "A group stores the offsets of its consumers. Every app has one; a consumer can join one:"),
        command("millstream consume TOPIC --group audit"),
    )


def group_page(site: Site, params: GroupParams) -> tuple[Content, ...]:
    """Return the content of the page of one group."""
    detail = get_group(site, params)
    offsets = _shared_offsets(detail) if detail.is_share else _offsets(detail)
    return (
        card("Offsets", offsets, live="offsets", wide=True),
        card("Members", _members(detail), live="members"),
        card("Reset offsets", _reset(detail)),
    )


def _shared_offsets(detail: GroupDetail) -> Markup:
    rows = (
        (
            link(partition.topic, "topics", partition.topic),
            by(partition.partition, identifier(partition.partition)),
            by(partition.start, identifier(partition.start)),
            by(partition.end, identifier(partition.end)),
            by(partition.waiting, number(partition.waiting)),
            by(partition.in_flight, number(partition.in_flight)),
            by(partition.redelivered, number(partition.redelivered)),
            by(partition.oldest, ago(partition.oldest)),
            by(partition.dead, number(partition.dead)),
            by(partition.expired, number(partition.expired)),
        )
        for partition in detail.shared_partitions
    )
    heads = ("Topic", "Partition", "Start", "End", "Waiting", "In flight", "Redelivered", "Oldest", "Dead", "Expired")
    return table(heads, rows, numeric=(1, 2, 3, 4, 5, 6, 8, 9), sortable="offsets")


def _offsets(detail: GroupDetail) -> Markup:
    rows = (
        (
            link(partition.topic, "topics", partition.topic),
            by(partition.partition, identifier(partition.partition)),
            by(partition.committed, identifier(partition.committed)),
            by(partition.end, identifier(partition.end)),
            by(partition.lag, number(partition.lag)),
            partition.member or NOTHING,
        )
        for partition in detail.partitions
    )
    heads = ("Topic", "Partition", "Committed", "End", "Lag", "Member")
    return table(heads, rows, numeric=(1, 2, 3, 4), sortable="offsets")


def _members(detail: GroupDetail) -> Content:
    if detail.is_app:
        return element(
            "p", "This group shows the position of the app ", link(detail.group, "topology", app=detail.group),
            ". The app itself continues from its journal.",
        )  # fmt: skip
    if not detail.members:
        return empty("No live members", element("p", "Its offsets are kept until the group is deleted."))
    rows = (
        (member.id, identifier(member.process), ", ".join(member.topics), number(member.partitions))
        for member in detail.members
    )
    return table(("Member", "Process", "Topics", "Partitions"), rows, numeric=(1, 3))


def _reset(detail: GroupDetail) -> Content:
    if detail.is_app:
        return element(
            "p", "The offsets of an app cannot be reset, since its state depends on them. Use: millstream reset"
        )
    reset = action(
        url("api", "groups", detail.group, "reset"),
        field("To", "to", required=True, hint="earliest, latest, an offset, 2026-01-31T12:00, 10 min"),
        choice("Mode", "execute", (("false", "show what would change"), ("true", "reset")), data_type="json"),
        button="Run",
        then="moves",
    )
    delete = action(
        url("api", "groups", detail.group, "delete"),
        field("Name of the group", "confirm", required=True, autocomplete="off", hint="type it to confirm"),
        button="Delete the group",
        then="/groups",
        tone="danger",
    )
    note = element("p", "Only a group without live members can be reset. By default, the changes are only shown.")
    return joined(note, reset, more("Delete the group", delete, id="delete"))

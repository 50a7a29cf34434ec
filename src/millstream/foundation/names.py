"""The rule for names of topics, apps, stores, stages and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence

from millstream.errors import InvalidNameError

_ALLOWED = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,200}")


def is_valid_name(name: object) -> bool:
    """Whether ``name`` is a valid name.

    >>> is_valid_name("rides"), is_valid_name("../rides")
    (True, False)
    """
    return isinstance(name, str) and _ALLOWED.fullmatch(name) is not None


def check_name(kind: str, name: object) -> str:
    """Return ``name`` if it is valid as part of a path, a topic or a metric.

    >>> check_name("topic", "rides.high-amount_2")
    'rides.high-amount_2'
    """
    if not isinstance(name, str) or not is_valid_name(name):
        raise InvalidNameError(
            f"{kind} name {name!r} is not allowed",
            hint="use 1 to 200 of the characters A-Z a-z 0-9 . _ - and no leading dot",
            name=name,
        )
    return name


def check_app_on_kafka(app: str) -> None:
    """Refuse an app id with a dot on Kafka.

    A dot ends the id in the names of groups, transactional ids and topics of an app: those of ``orders.eu`` could be
    those of a stage ``eu`` of ``orders``, whose ACLs would cover them.
    """
    if "." in app:
        raise InvalidNameError(
            f"app id {app!r} has a dot, which is not allowed on Kafka",
            hint=f"the ACLs and transactional ids of app {app.partition('.')[0]!r} would cover it; "
            f"use {app.replace('.', '-')!r}",
            name=app,
        )


def snake_case(name: str) -> str:
    """Convert a class name to snake case.

    >>> snake_case("MapValues")
    'map_values'
    """
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def producer_prefix(app: str, stage: str) -> str:
    """Return the prefix of the producer names of a stage's tasks; the partition number follows."""
    return f"{app}.{stage}."


def journal_topic_name(app: str) -> str:
    """Return the name of the topic with the journal of an app."""
    return f"{app}.journal"


def changelog_topic_name(app: str, stage: str) -> str:
    """Return the name of the topic with the state of a stage."""
    return f"{app}.{stage}.changelog"


def kafka_streams_changelog_name(app: str, stage: str, stores: Sequence[str]) -> str:
    """Return the name of a changelog as Kafka Streams would call it: by the store, by the stage if it has several.

    >>> kafka_streams_changelog_name("orders", "by-user", ["totals"])
    'orders-totals-changelog'
    """
    return f"{app}-{stores[0] if len(stores) == 1 else stage}-changelog"


def is_own_topic(app: str, topic: str) -> bool:
    """Whether a topic can only be a journal or a changelog of an app, or the journal of its source or sink.

    >>> is_own_topic("rides", "rides.zones.changelog"), is_own_topic("rides", "rides")
    (True, False)
    """
    is_connector = topic.startswith((f"{app}.sink.", f"{app}.source.", f"{app}.to-spark.")) and topic.endswith(
        ".journal"
    )
    is_changelog = topic.startswith(f"{app}.") and topic.endswith(".changelog")
    return is_changelog or is_connector or topic == journal_topic_name(app)

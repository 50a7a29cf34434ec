"""Names of tables and of their topics."""

from __future__ import annotations

from collections.abc import Mapping

from millstream.errors import DefinitionError


def qualified(table: str, schema: str) -> str:
    """Return the name of a table with its schema.

    >>> qualified("orders", "public"), qualified("sales.orders", "public")
    ('public.orders', 'sales.orders')
    """
    return table if "." in table else f"{schema}.{table}"


def topic_of(table: str, topic: str) -> str:
    """Return the topic of a table with its schema."""
    schema, _, name = table.partition(".")
    return topic.format(schema=schema, table=name)


def check_topics(topics: Mapping[str, str]) -> None:
    """Refuse two tables with the same topic; topics are given by table."""
    owners: dict[str, str] = {}
    for table, topic in topics.items():
        other = owners.setdefault(topic, table)
        if other != table:
            raise DefinitionError(
                f"tables {other} and {table} have the same topic {topic!r}",
                hint="their rows would replace each other; set topic='{schema}.{table}'",
            )

"""``millstream topics``: list, create, change and delete topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from millstream.broker import Broker, TopicConfig, TopicInfo
from millstream.cli.command import CommandGroup
from millstream.cli.connection import complete_topic, connected
from millstream.cli.option_types import UNLIMITED, parse_duration, parse_size
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count
from millstream.foundation.times import format_duration
from millstream.foundation.typed_decoding import convert

F = TypeVar("F", bound=Callable[..., Any])
UNKNOWN = "?"
_SETTINGS = (
    click.option(
        "--partitions", type=click.IntRange(min=1), metavar="N", help="Number of partitions; can only be increased."
    ),
    click.option(
        "--retention",
        "retention_ms",
        type=parse_duration,
        metavar="DURATION",
        help='How long records are kept, for example "7 d"; the default, "none", keeps all.',
    ),
    click.option(
        "--retention-bytes",
        type=parse_size,
        metavar="SIZE",
        help='How much is kept per partition, for example "512MB"; the default, "none", keeps all.',
    ),
    click.option("--compact/--no-compact", default=None, help="Keep the last record of each key."),
    click.option(
        "--timestamps",
        type=click.Choice(["create", "append"]),
        help="Who sets the time of records: the producer (create) or the log (append).",
    ),
    click.option("--max-record-bytes", type=parse_size, metavar="SIZE", help="Maximum size of a record."),
)
names_argument = click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topic)


def topic_settings(command: F) -> F:
    """Add the options for all settings of a topic."""
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


def given_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, with None for unlimited."""
    given = {name: options[name] for name in TopicConfig.__struct_fields__ if options.get(name) is not None}
    return {name: None if value == UNLIMITED else value for name, value in given.items()}


@click.group(cls=CommandGroup)
def topics() -> None:
    """List, create, change and delete topics."""


@topics.command("list", examples=["millstream topics list", "millstream topics list --json"])
@json_option
@pass_settings
def list_(settings: CommonOptions, as_json: bool) -> None:
    """List all topics with their partitions, records and bytes."""
    with connected(settings) as broker:
        infos = [broker.topic(name) for name in broker.topic_names()]
    if as_json:
        show_json([_summary(topic) for topic in infos])
    elif infos:
        rows = [
            [topic.name, topic.partitions, _records(topic), _bytes_text(topic), _retention(topic.config)]
            for topic in infos
        ]
        show_table(["topic", "partitions", "records", "bytes", "retention"], rows)
    else:
        show_message("there are no topics yet")


@topics.command(
    examples=[
        "millstream topics create lines",
        'millstream topics create clicks --partitions 8 --retention "7 d"',
        "millstream topics create profiles --compact",
    ]
)
@names_argument
@topic_settings
@pass_settings
def create(settings: CommonOptions, /, names: tuple[str, ...], **options: Any) -> None:
    """Create topics. An app creates its topics itself; use this for other settings.

    Without --retention, --retention-bytes and --compact a topic keeps all of its records forever.
    """
    try:
        config = convert(given_settings(options), TopicConfig)
    except msgspec.ValidationError as error:
        raise click.UsageError(str(error)) from error
    with connected(settings, create=True) as broker:
        for name in names:
            broker.create_topic(name, config)
            show_message(f"created {name} with {format_count(config.partitions, 'partition')}")


@topics.command(examples=["millstream topics describe lines", "millstream topics describe lines clicks --json"])
@names_argument
@json_option
@pass_settings
def describe(settings: CommonOptions, names: tuple[str, ...], as_json: bool) -> None:
    """Show the settings of topics, and the offsets and size of each partition."""
    with connected(settings) as broker:
        infos = [broker.topic(name) for name in names]
    if as_json:
        show_json(infos)
        return
    for topic in infos:
        click.echo(f"{topic.name}: {_settings_text(msgspec.structs.asdict(topic.config))}")
        rows = [
            [partition, offsets.begin, offsets.end, topic.bytes[partition] if topic.bytes else UNKNOWN]
            for partition, offsets in enumerate(topic.offsets)
        ]
        show_table(["partition", "begin", "end", "bytes"], rows)


@topics.command(
    examples=[
        'millstream topics alter lines --retention "30 d"',
        "millstream topics alter lines --partitions 8 --retention-bytes none",
    ]
)
@names_argument
@topic_settings
@pass_settings
def alter(settings: CommonOptions, /, names: tuple[str, ...], **options: Any) -> None:
    """Change the settings of topics; settings that are not given stay unchanged.

    New partitions change the partition of keys: add them before an app has state from the topic.
    """
    changes = given_settings(options)
    if not changes:
        raise click.UsageError("give at least one setting to change, for example --retention")
    with connected(settings) as broker:
        for name in names:
            broker.alter_topic(name, **changes)
            show_message(f"changed {name}: {_settings_text(changes)}")


@topics.command(examples=["millstream topics delete lines --dry-run", "millstream topics delete lines --yes"])
@names_argument
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_settings
def delete(settings: CommonOptions, names: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete topics with all their records, after showing what would be lost and asking for confirmation."""
    with connected(settings) as broker:
        for name in names:
            show_message(_loss(broker, broker.topic(name)))
        if dry_run:
            return
        if not yes and not click.confirm("Delete?", err=True):
            show_message("nothing was deleted")
            return
        for name in names:
            broker.delete_topic(name)
            show_message(f"deleted {name}")


def _summary(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "records": _records(topic),
        "bytes": sum(topic.bytes) if topic.bytes else None,
        "compact": topic.config.compact,
        "retention_ms": topic.config.retention_ms,
        "retention_bytes": topic.config.retention_bytes,
    }


def _retention(config: TopicConfig) -> str:
    limits = [
        "compacted" if config.compact else "",
        "" if config.retention_ms is None else format_duration(config.retention_ms),
        "" if config.retention_bytes is None else f"{config.retention_bytes} bytes per partition",
    ]
    return ", ".join(filter(None, limits)) or "unlimited"


def _records(topic: TopicInfo) -> int:
    """Return an upper bound for the number of records, since offsets can have gaps."""
    return sum(offsets.end - offsets.begin for offsets in topic.offsets)


def _loss(broker: Broker, topic: TopicInfo) -> str:
    readers = [
        group
        for group in broker.group_names()
        if any(topic_partition.topic == topic.name for topic_partition in broker.committed(group))
    ]
    used = f", read by {', '.join(readers)}" if readers else ""
    size = f", {format_count(sum(topic.bytes), 'byte')}" if topic.bytes else ""
    return f"would delete {topic.name}: {format_count(_records(topic), 'record')}{size}{used}"


def _bytes_text(topic: TopicInfo) -> int | str:
    return sum(topic.bytes) if topic.bytes else UNKNOWN


def _settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_setting_text(value)}" for name, value in settings.items())


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNLIMITED if value is None else str(value)

"""``millstream adopt``: continue where a Kafka Streams application has stopped."""

from __future__ import annotations

from collections.abc import Sequence

import click

from millstream.admin.adopted_stores import Formats
from millstream.admin.adoption import Adoption, Choices, execute_adoption, planned_adoption
from millstream.batch.app_spec import AppSpec
from millstream.cli.command import TARGET, Command
from millstream.cli.output import json_option, show_json, show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.foundation.text import format_count
from millstream.serdes import Serde
from millstream.windowed_serdes import serde_named


@click.command(
    cls=Command,
    examples=[
        "millstream adopt word_count.py --application-id java-words --broker kafka://localhost:9092",
        "millstream adopt word_count.py --application-id java-words --store words=counts-store --execute",
        "millstream adopt orders.py --application-id orders --value totals=float64 --empty per_minute",
    ],
)
@click.argument(TARGET)
@click.option("--application-id", required=True, metavar="ID", help="The application.id, which is also its group.")
@click.option(
    "--store", "stores", multiple=True, metavar="TABLE=STORE", help="The store of a table that has another name there."
)
@click.option(
    "--key", "keys", multiple=True, metavar="TABLE=FORMAT", help="How its keys are written: str, int32, int64, json…"
)
@click.option("--value", "values", multiple=True, metavar="TABLE=FORMAT", help="How its values are written.")
@click.option("--empty", multiple=True, metavar="TABLE", help="Let the table start without rows.")
@click.option("--execute", is_flag=True, help="Take it over instead of showing what would be taken over.")
@json_option
@pass_settings
def adopt(
    settings: CommonOptions,
    /,
    application_id: str,
    stores: tuple[str, ...],
    keys: tuple[str, ...],
    values: tuple[str, ...],
    empty: tuple[str, ...],
    execute: bool,
    as_json: bool,
    target: str | None = None,
) -> None:
    """Continue a Kafka Streams application that has stopped: at its offsets, with the rows of its stores.

    TARGET is the app that replaces it. Stores are matched by name and read from their changelogs; a table of a topic is
    read from the topic if it has none. The app is refused if the group has live members, if records wait in repartition
    topics, or if a store cannot be read. Topics and offsets of the application stay unchanged, so that it can go on if
    you decide against the move. Without --execute nothing is changed.
    """
    app = settings.load(target)
    choices = Choices(
        application=application_id,
        stores=_pairs("--store", stores),
        empty=empty,
        formats=Formats(_serdes("--key", keys), _serdes("--value", values)),
    )
    spec = AppSpec(
        id=app.id,
        config=app.config,
        data_dir=app.data_dir,
        broker_url=app.broker_url,
        plan=app.plan,
        deliveries=app.deliveries,
    )
    broker = app.broker
    rows: dict[str, int] = {}
    try:
        if execute:
            adoption, rows = execute_adoption(broker, spec, choices)
        else:
            adoption = planned_adoption(broker, spec, choices)
    finally:
        broker.close()
    if as_json:
        show_json({"executed": execute, "adoption": adoption, "rows": rows})
    else:
        _show(adoption, rows, executed=execute)
    show_message(
        "done; start it: millstream run TARGET" if execute else "nothing was changed; add --execute to continue"
    )


def _show(adoption: Adoption, rows: dict[str, int], *, executed: bool) -> None:
    click.echo(f"app      {adoption.app}, from Kafka Streams application {adoption.application}")
    for partition, offset in adoption.positions.items():
        lost = adoption.expired.get(partition)
        note = f", {format_count(lost, 'record')} before it were deleted by retention" if lost else ""
        click.echo(f"reads    {partition} from {offset}{note}")
    for partition in adoption.unread:
        click.echo(f"reads    {partition} from the beginning; nothing is committed there")
    for store in adoption.stores:
        amount = (
            format_count(rows[store.store], "row") if executed else f"up to {format_count(store.records, 'record')}"
        )
        click.echo(f"state    {store.store} ← {store.topic}: {store.kind}, {amount}")
    for name in adoption.empty:
        click.echo(f"empty    {name}")
    for name in adoption.unused:
        click.echo(f"unused   {name}, a store of the application that no table of the app has")


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        table, separator, value = text.partition("=")
        if not (table and separator and value):
            raise click.BadParameter(f"{text!r} is not a pair; write {option} TABLE=…")
        pairs[table] = value
    return pairs


def _serdes(option: str, given: Sequence[str]) -> dict[str, Serde]:
    serdes: dict[str, Serde] = {}
    for table, name in _pairs(option, given).items():
        serde = serde_named(name)
        if serde is None:
            raise click.BadParameter(
                f"{name!r} is not a format; use str, bytes, json, msgpack, int32, int64 or float64"
            )
        serdes[table] = serde
    return serdes

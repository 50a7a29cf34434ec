"""``millstream replay``: run a new version of an app beside the old one until it has caught up."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from millstream.admin.reset import resolve_positions, store_positions
from millstream.app import App
from millstream.batch.journal import Journal
from millstream.cli.command import TARGET, Command
from millstream.cli.connection import connected
from millstream.cli.output import show_message
from millstream.cli.progress import RunTotals, Style, show_progress
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import DefinitionError
from millstream.foundation.names import check_name
from millstream.foundation.paths import app_names, journal_dir
from millstream.foundation.text import format_count
from millstream.task.policy import Policies


@click.command(
    cls=Command,
    examples=[
        "millstream replay word_count.py --as word-count-2",
        'millstream replay word_count.py --as word-count-2 --from "7 d"',
        "millstream replay word_count.py --as word-count-2 --same-topics",
    ],
)
@click.argument(TARGET)
@click.option(
    "--as", "name", required=True, metavar="NEW_NAME", help="The id of the new version, for its run and its state."
)
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="OFFSET",
    help="Where to start: earliest, latest, an offset, a time, or a duration ago.",
)
@click.option("--same-topics", is_flag=True, help="Write to the old topics instead of NEW_NAME.TOPIC.")
@click.option("--no-progress", is_flag=True, help="Print progress as lines, at most one per second.")
@pass_settings
def replay(
    settings: CommonOptions, /, name: str, start: str, same_topics: bool, no_progress: bool, target: str | None = None
) -> None:
    """Run a new version of an app beside the old one until it has caught up.

    TARGET is the file or module of the new version. It reads the same topics from an earlier position, has its own
    state under NEW_NAME, and writes to topics with the prefix "NEW_NAME.", so that both versions can be compared. Its
    sources and sinks are left out, since the old version runs them. A repeated call continues from the last position.
    To switch over, stop the old version and use: millstream run TARGET --as NEW_NAME
    """
    app = settings.load(target)
    old, app.id = app.id, check_name("app", name)
    if old == app.id:
        raise DefinitionError(f"{name!r} is the name of the old version", hint="choose another name with --as")
    if not same_topics:
        app.config = msgspec.structs.replace(app.config, output_prefix=f"{name}.")
    if left_out := leave_connectors_out(app):
        show_message(f"without {', '.join(left_out)}: sources and sinks stay with {old}")
    has_past = name in app_names(app.data_dir)
    if not has_past:
        with connected(settings, create=True) as broker:
            store_positions(app.data_dir, name, resolve_positions(broker, sorted(app.plan.source_topics), start))
    style: Style = "lines" if no_progress or not sys.stdout.isatty() else "live"
    letters = Policies.of(app.id, app.config).dead_letter_topic
    show_message(f"replaying {old} as {name} from {'its last position' if has_past else start}")
    started = time.monotonic()
    totals = RunTotals(name, has_past=has_past, dead_letter_topic=letters)
    with show_progress(totals, style) as callbacks:
        running = app.start("caught-up", on_batch=callbacks.on_batch)
        callbacks.on_start()
        running.wait(handle_signals=True)
    seconds = time.monotonic() - started
    behind = _behind(app, old)
    caught_up = "has caught up" if behind == 0 else f"is {format_count(behind, 'record')} behind {old}"
    show_message(f"{name} {caught_up} after {format_count(totals.records_in, 'record')} and {seconds:.1f} s")


def leave_connectors_out(app: App) -> list[str]:
    """Remove sources and sinks, and return their names.

    Both versions would fill the same topics, take records from the same queue and write to the same targets.
    """
    draft = app._draft
    names = [*draft.sources, *(step.name for step in draft.deliveries.values())]
    draft.sources.clear()
    draft.deliveries.clear()
    return sorted(names)


def _behind(app: App, old: str) -> int:
    """Return how many records the old app has read that the new one has not."""
    if old not in app_names(app.data_dir):
        return 0
    old_positions, new_positions = (
        Journal(journal_dir(app.data_dir, name), readonly=True).read()[0].positions for name in (old, app.id)
    )
    return sum(max(0, offset - new_positions.get(name, 0)) for name, offset in old_positions.items())

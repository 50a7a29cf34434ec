"""``millstream replay``: run a new version of an app beside the old one, from the past until it has caught up."""

from __future__ import annotations

import sys
import time

import click
import msgspec

from millstream.admin.reset import begin_at, positions_at
from millstream.app import App
from millstream.batch.journal import Journal
from millstream.cli.command import TARGET, Command
from millstream.cli.connection import connected
from millstream.cli.output import say
from millstream.cli.progress import Style, Tally, shown
from millstream.cli.settings import Settings, pass_settings
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
@click.option("--as", "name", required=True, metavar="NEW_NAME", help="The name under which it runs and keeps state.")
@click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    metavar="WHERE",
    help="Where to begin: earliest, latest, an offset, a time, or a duration ago.",
)
@click.option("--same-topics", is_flag=True, help="Write to the topics of the old one, not to NEW_NAME.TOPIC.")
@click.option("--no-progress", is_flag=True, help="Tell in lines, not more than one per second, also on a terminal.")
@pass_settings
def replay(
    settings: Settings, /, name: str, start: str, same_topics: bool, no_progress: bool, target: str | None = None
) -> None:
    """Run a new version of an app beside the old one until it has caught up, and tell when.

    TARGET is the file or module of the new version. It reads the same topics from the past on, keeps state of its own
    under NEW_NAME, and writes to topics that begin with "NEW_NAME.", so that both can be compared. Called again, it
    goes on where it stood. To switch over, stop the old one and use: millstream run TARGET --as NEW_NAME
    """
    app = settings.load(target)
    old, app.id = app.id, check_name("app", name)
    if old == app.id:
        raise DefinitionError(f"{name!r} is the name of the app itself", hint="give the new version a name of its own")
    if not same_topics:
        app.config = msgspec.structs.replace(app.config, output_prefix=f"{name}.")
    has_past = name in app_names(app.data_dir)
    if not has_past:
        with connected(settings, create=True) as broker:
            begin_at(app.data_dir, name, positions_at(broker, sorted(app.plan.source_topics), start))
    style: Style = "lines" if no_progress or not sys.stdout.isatty() else "live"
    letters = Policies.of(app.id, app.config).dead_letter_topic
    say(f"replaying {old} as {name} from {'where it stood' if has_past else start}")
    began = time.monotonic()
    tally = Tally(name, has_past=has_past, dead_letter_topic=letters)
    with shown(tally, style) as view:
        running = app.start("caught-up", on_batch=view.on_batch)
        view.on_start()
        running.wait(handle_signals=True)
    seconds = time.monotonic() - began
    behind = _behind(app, old)
    caught_up = "has caught up" if behind == 0 else f"is {format_count(behind, 'record')} behind {old}"
    say(f"{name} {caught_up} after {format_count(tally.records_in, 'record')} and {seconds:.1f} s")


def _behind(app: App, old: str) -> int:
    """Return how many records the old app has read that the new one has not."""
    if old not in app_names(app.data_dir):
        return 0
    theirs, ours = (Journal(journal_dir(app.data_dir, one), readonly=True).read()[0] for one in (old, app.id))
    return sum(max(0, at - ours.positions.get(place, 0)) for place, at in theirs.positions.items())

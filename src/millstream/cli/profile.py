"""``millstream profile``: where the time of a running app goes."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from millstream.cli.command import Command
from millstream.cli.connection import require_data_dir
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import StateError
from millstream.foundation.text import format_count
from millstream.views.flame_graph import flame_graph
from millstream.views.profile import Profile, take_profile
from millstream.views.status import AppStatus, status_of

_SHOWN_ROWS = 15


@click.command(
    cls=Command,
    examples=[
        "millstream profile",
        "millstream profile word-count --seconds 30 --svg word-count.svg",
        "millstream profile word-count --stacks stacks.txt",
    ],
)
@click.argument("app_id", metavar="[APP]", required=False)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1, max=3600),
    default=10.0,
    show_default=True,
    help="How long to sample the app.",
)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a flame graph to this file.")
@click.option(
    "--stacks",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the sampled stacks to this file, one per line with its count, for speedscope or flamegraph.pl.",
)
@json_option
@pass_settings
def profile(
    settings: CommonOptions, app_id: str | None, seconds: float, svg: Path | None, stacks: Path | None, as_json: bool
) -> None:
    """Show where the time of a running app goes: by kind of work, by step, and in the app's own functions.

    The processes on this host that run the app's batches are sampled 200 times a second, while they run a batch. This
    neither stops nor changes the app. APP is optional if only one has run.
    """
    require_data_dir(settings)
    status = status_of(settings.data_dir, settings.app_id(app_id))
    if status.process is None:
        raise StateError(
            f"app {status.app!r} is not running", hint="start it with: millstream run FILE, and profile it meanwhile"
        )
    if not as_json:
        show_message(f"sampling {status.app} for {seconds:g} s")
    result = take_profile(settings.data_dir, status.app, seconds)
    if stacks is not None:
        stacks.write_text(result.collapsed())
    if svg is not None:
        svg.write_text(flame_graph(result.stacks, f"{result.app}: {format_count(result.in_batches, 'sample')}"))
    if as_json:
        fields = {**msgspec.to_builtins(result), "kinds": result.kinds, "in_batches": result.in_batches}
        show_json({**fields, "functions": msgspec.to_builtins(result.functions)})
        return
    _show(result, status_of(settings.data_dir, result.app))


def _show(result: Profile, status: AppStatus) -> None:
    if not result.in_batches:
        click.echo("no batch ran on this host in that time; profile the app while it processes records")
        return
    click.echo(
        f"{format_count(result.in_batches, 'sample')} in batches of {format_count(result.processes, 'worker')}, "
        f"{_percent(result.in_batches, result.samples)} of the time"
    )
    click.echo("")
    show_table(["work", "share"], [[kind, _percent(count, result.in_batches)] for kind, count in result.kinds.items()])
    if result.functions:
        rows = [
            [function.function, _percent(function.own, result.in_batches), _percent(function.total, result.in_batches)]
            for function in result.functions[:_SHOWN_ROWS]
        ]
        click.echo("")
        show_table(["function of the app", "own", "with calls"], rows)
    if all_seconds := sum(result.steps.values()):
        click.echo("")
        show_table(
            ["step", "share"],
            [[step, _percent(spent, all_seconds)] for step, spent in [*result.steps.items()][:_SHOWN_ROWS]],
        )
    phases = msgspec.structs.asdict(status.phases)
    click.echo("")
    show_table(["phase of a batch", "ms"], [[name, f"{1000 * spent:.1f}"] for name, spent in phases.items()])


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0.0 %"

"""``millstream doctor``: check the files of a data directory."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import asdict

from millstream.admin.doctor import examine
from millstream.cli.command import Command
from millstream.cli.output import json_option, show_json, show_message, show_table
from millstream.cli.settings import CommonOptions, pass_settings

_DAMAGED = 1


@click.command(cls=Command, examples=["millstream doctor", "millstream doctor /srv/orders --json"])
@click.argument("directory", metavar="[DATA_DIR]", required=False)
@click.option("--checkpoint", metavar="URI", help="Also check the checkpoint of the apps, as in Config(checkpoint=…).")
@json_option
@click.pass_context
@pass_settings
def doctor(
    settings: CommonOptions, ctx: click.Context, directory: str | None, checkpoint: str | None, as_json: bool
) -> None:
    """Check which parts of a data directory are whole: log, topics, journals, states and savepoints.

    Files are read completely, and compared with each other: a file that is older than the others is reported too.
    Nothing is changed, and apps may run meanwhile. The exit code is 1 if something is damaged.
    """
    findings = examine(settings.data_dir if directory is None else Path(directory).absolute(), checkpoint)
    damaged = [finding for finding in findings if finding.problem is not None]
    if as_json:
        show_json([{**asdict(finding), "is_whole": finding.problem is None} for finding in findings])
    else:
        show_table(["kind", "path", "result"], [[part.kind, part.path, part.problem or "whole"] for part in findings])
        show_message(f"{len(findings)} checked, {len(damaged)} damaged")
    if damaged:
        ctx.exit(_DAMAGED)

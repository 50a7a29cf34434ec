"""``millstream read-token``: let pages of other sites read tables live."""

from __future__ import annotations

import click

from millstream.cli.command import Command
from millstream.cli.connection import require_data_dir
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.durations import milliseconds
from millstream.errors import DefinitionError
from millstream.serve.read_tokens import ReadTokens, new_grant


def parse_lifetime(value: str) -> float:
    """Parse an option that is a duration, in seconds."""
    try:
        return milliseconds(value) / 1000
    except DefinitionError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    cls=Command,
    examples=["millstream read-token shop/orders_by_city --origin https://shop.example --expires '7 d'"],
)
@click.argument("tables", nargs=-1, required=True, metavar="APP/TABLE...")
@click.option(
    "--origin", "origins", multiple=True, metavar="URL", help="A site whose pages may use it; can be repeated."
)
@click.option("--prefix", default="", metavar="TEXT", help="Only rows whose keys begin with this.")
@click.option("--expires", "seconds", type=parse_lifetime, default="30 d", show_default=True, help="Its lifetime.")
@pass_settings
def read_token(
    settings: CommonOptions, tables: tuple[str, ...], origins: tuple[str, ...], prefix: str, seconds: float
) -> None:
    """Print a token that reads the named tables live, and nothing else.

    It is for `<millstream-table>` and other readers of `/api/live/tables/TABLE?app=APP&token=TOKEN`. Delete the file
    web-read-key of the data directory to revoke all of them.
    """
    require_data_dir(settings)
    click.echo(ReadTokens(settings.data_dir).sign(new_grant(tables, seconds, origins, prefix)))
    if not origins:
        show_message("without --origin, browsers use it in pages of the dashboard's own origin only")

"""``millstream test``: run tests of SQL that are written in SQL."""

from __future__ import annotations

from pathlib import Path

import click

from millstream.cli.command import TARGET, Command
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import MillstreamError
from millstream.foundation.text import printable, printable_lines
from millstream.testing.sql_tests import read_sql_tests


@click.command(
    "test",
    cls=Command,
    examples=["millstream test shop.sql shop_test.sql", "millstream test shop.sql tests/*.sql --only refunds"],
)
@click.argument(TARGET, metavar="FILE")
@click.argument("tests", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--only", metavar="TEXT", default="", help="Run the tests whose names contain a text.")
@pass_settings
def run_tests(settings: CommonOptions, tests: tuple[Path, ...], only: str, target: str | None = None) -> None:
    """Run the tests of SQL files with the app of FILE, a file of SQL statements or of Python.

    Each test has an app of its own, without Spark and without a broker: it inserts records and compares what the app
    writes (docs/sql/testing.md). The exit code is 1 if a test fails.
    """
    app = settings.load(target)
    passed, failed = 0, 0
    for path in tests:
        for sql_test in read_sql_tests(path):
            if only not in sql_test.name:
                continue
            try:
                sql_test.run(app)
            except MillstreamError as error:
                failed += 1
                click.echo(f"FAILED  {printable(sql_test.name)}\n{path}: {printable_lines(str(error))}")
            else:
                passed += 1
                click.echo(f"passed  {printable(sql_test.name)}")
    show_message(f"{passed} passed, {failed} failed")
    if failed or not passed:
        raise SystemExit(1)

"""``millstream ui``: the dashboard for apps that run in other processes of this host, or have stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from millstream.batch.journal import Journal
from millstream.cli.command import Command
from millstream.cli.connection import require_data_dir
from millstream.cli.output import show_message
from millstream.cli.settings import CommonOptions, pass_settings
from millstream.errors import DefinitionError
from millstream.foundation.paths import app_names, journal_dir
from millstream.serve.address import WebAddress
from millstream.serve.process import WebProcess


def parse_address(value: str) -> WebAddress:
    """Parse an option that is an address."""
    try:
        return WebAddress.parse(value)
    except DefinitionError as error:
        raise click.BadParameter(str(error)) from error


web_option = click.option(
    "--web",
    "address",
    type=parse_address,
    metavar="HOST:PORT",
    help="Address of the dashboard.  [default: 127.0.0.1, the first free port from 8484]",
)
host_option = click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Another name under which browsers reach the dashboard; can be repeated.",
)

token_option = click.option(
    "--no-token", is_flag=True, help="Let all users of this host use the dashboard; for loopback only."
)


def show_server(server: WebProcess, address: WebAddress | None) -> None:
    """Print the URL of a dashboard and the path of its token."""
    show_message(f"dashboard: {server.login_url}")
    if server.token_file is not None:
        show_message(f"the link logs in once; the token is in {server.token_file}, readable only by you")
    if address is not None and not address.is_loopback:
        show_message("warning: open to the network without TLS; use a TLS proxy or an SSH tunnel")


def last_broker_url(data_dir: Path) -> str | None:
    """Return the broker that all apps of a data directory used last, None for the embedded log or if they differ."""
    urls = set()
    for app in app_names(data_dir):
        with closing(Journal(journal_dir(data_dir, app), readonly=True)) as journal:
            urls.add(journal.catalog().get("broker"))
    return urls.pop() if len(urls) == 1 else None


@click.command(
    cls=Command,
    examples=["millstream ui", "millstream ui --data-dir /srv/orders --web 127.0.0.1:9000"],
)
@web_option
@host_option
@token_option
@pass_settings
def ui(settings: CommonOptions, address: WebAddress | None, hosts: tuple[str, ...], no_token: bool) -> None:
    """Serve the dashboard and the REST API until Ctrl-C.

    The apps can run in other processes of this host, or be stopped. `millstream run` serves the same dashboard. The
    default broker is the one that the apps of the data directory used last. The link that is printed logs a browser in,
    once. Other browsers and programs need the token, which is written to a file in the data directory, or taken from
    MILLSTREAM_WEB_TOKEN.
    """
    require_data_dir(settings)
    broker_url = settings.broker_url or last_broker_url(settings.data_dir)
    server = WebProcess(settings.data_dir, broker_url, address, hosts=hosts, requires_token=not no_token)
    stop = threading.Event()

    def on_signal(*_: Any) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        show_server(server, address)
        stop.wait()
    finally:
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)

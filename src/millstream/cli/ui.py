"""``millstream ui``: the dashboard for apps that run elsewhere on this host, or have stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from millstream.batch.journal import Journal
from millstream.cli.command import Command
from millstream.cli.connection import check_there
from millstream.cli.output import say
from millstream.cli.settings import Settings, pass_settings
from millstream.errors import DefinitionError
from millstream.foundation.paths import app_names, journal_dir
from millstream.serve.server import Address, WebServer


def as_address(value: str) -> Address:
    """Read an option that is an address."""
    try:
        return Address.parse(value)
    except DefinitionError as error:
        raise click.BadParameter(str(error)) from error


web_option = click.option(
    "--web",
    "address",
    type=as_address,
    metavar="HOST:PORT",
    help="Where to serve the dashboard.  [default: 127.0.0.1, the first free port from 8484]",
)
host_option = click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="Another name of this host; can be repeated."
)


def tell(server: WebServer, address: Address | None) -> None:
    """Say where a dashboard is, and where its token is."""
    say(f"dashboard: {server.url}")
    if server.token_file is not None:
        say(f"its token is in {server.token_file}, readable by you alone")
    if address is not None and not address.is_loopback:
        say("warning: it is open to the network without TLS; put a proxy with TLS before it, or use an SSH tunnel")


def remembered(data_dir: Path) -> str | None:
    """Return the broker on which all apps of a data directory ran last, if it is not the log in there."""
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
@pass_settings
def ui(settings: Settings, address: Address | None, hosts: tuple[str, ...]) -> None:
    """Serve the dashboard and the REST API until Ctrl-C.

    Apps are looked at from outside: they may run in other processes of this host, or have stopped. `millstream run`
    serves the same by itself. Without a broker it is the one on which the apps of the data directory have run. Another
    address than loopback needs a token, which is written to a file in the data directory, or taken from
    MILLSTREAM_WEB_TOKEN.
    """
    check_there(settings)
    server = WebServer(settings.data_dir, settings.broker_url or remembered(settings.data_dir), address, hosts=hosts)
    stop = threading.Event()

    def end(*_: Any) -> None:
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        tell(server, address)
        stop.wait()
    finally:
        server.close()
        for number, handler in before.items():
            signal.signal(number, handler)

"""The broker of a command, open while the command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.shell_completion import CompletionItem

from millstream.broker import Broker
from millstream.broker_urls import EMBEDDED, open_broker
from millstream.cli.settings import CommonOptions, settings_of
from millstream.errors import MillstreamError, StorageError
from millstream.foundation.storage import make_private_directory, translate_storage_errors


@contextmanager
def connected(settings: CommonOptions, *, create: bool = False) -> Iterator[Broker]:
    """Open the broker; a new embedded log is created only with ``create``."""
    if not create:
        require_data_dir(settings)
    broker = open_broker(settings.broker_url, settings.data_dir)
    try:
        yield broker
    finally:
        broker.close()


def require_data_dir(settings: CommonOptions) -> None:
    """Raise an error if the data directory does not exist or belongs to another user."""
    url = settings.broker_url
    if url is not None and not url.startswith(EMBEDDED):
        return
    with translate_storage_errors(settings.data_dir):
        exists = settings.data_dir.exists()
        if exists and url is None:
            make_private_directory(settings.data_dir)
    if not exists:
        raise StorageError(
            f"there is no data directory {str(settings.data_dir)!r}",
            hint="choose one with --data-dir, or create it: millstream run FILE, millstream topics create NAME",
            path=str(settings.data_dir),
        )


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics whose names start with the typed text."""
    try:
        with connected(settings_of(ctx)) as broker:
            return [CompletionItem(name) for name in broker.topic_names() if name.startswith(incomplete)]
    except MillstreamError:
        return []


def complete_group(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups whose names start with the typed text."""
    try:
        with connected(settings_of(ctx)) as broker:
            return [CompletionItem(name) for name in broker.group_names() if name.startswith(incomplete)]
    except MillstreamError:
        return []

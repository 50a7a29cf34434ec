"""Post each record to a chat: Slack, and others that take its messages (Mattermost, Rocket.Chat, Discord's /slack)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.connect.protocols import ConnectorContext, Guarantee, SinkBatch
from millstream.connectors.checking import connection_problems
from millstream.connectors.network import checked_url
from millstream.connectors.rendering import check_template, fill
from millstream.connectors.sending import MessageWriter, OutgoingMessage
from millstream.errors import SerdeError
from millstream.foundation.json_text import json_bytes
from millstream.records import Record
from millstream.secret import Secret

_MAX_CHARACTERS = 40_000
"""Slack cuts longer texts."""


class Slack:
    """A sink that posts a text for each record to an incoming webhook; tombstones are posted too.

    What is filled into the text is escaped, so that a value cannot mention a channel or forge a link. The chat's limit
    of messages (429 and ``Retry-After``) is respected. At least once.

    >>> Slack(Secret.env("SLACK_URL"), text="*{key}* has {value[celsius]} °C")
    Slack(text='*{key}* has {value[celsius]} °C')
    """

    guarantee: Guarantee = "at least once"

    def __init__(self, url: Secret | str, *, text: str = "{key}: {value}", ca_file: str | None = None) -> None:
        if isinstance(url, str):
            checked_url(url, ("https", "http"))
        self.url = url
        self.text = check_template("text", text)
        self.ca_file = ca_file

    def __repr__(self) -> str:
        return f"Slack(text={self.text!r})"

    def open(self, context: ConnectorContext) -> MessageWriter:
        """Read the URL; nothing is sent before the first batch."""
        url = self.url.reveal() if isinstance(self.url, Secret) else self.url
        host = checked_url(url, ("https", "http")).hostname or ""

        def render(record: Record[Any, Any], _batch: SinkBatch) -> OutgoingMessage:
            text = fill(self.text, record, _escape)
            if not text.strip() or len(text) > _MAX_CHARACTERS:
                raise SerdeError(f"the text has {len(text)} characters", hint=f"a chat takes 1 to {_MAX_CHARACTERS}")
            return OutgoingMessage(url, json_bytes({"text": text}), {"Content-Type": "application/json"})

        return MessageWriter(context, host, render, max_bytes=8 * _MAX_CHARACTERS, ca_file=self.ca_file)

    def check(self) -> Sequence[str]:
        """Connect without posting anything, and return what would stop the sink."""
        url = self.url.reveal() if isinstance(self.url, Secret) else self.url
        return connection_problems(checked_url(url, ("https", "http")), self.ca_file)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

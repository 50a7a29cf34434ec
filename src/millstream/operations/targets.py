"""The targets of alert rules as sinks: a webhook, a chat, or a mail address."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from millstream.alerts.notifications import Notification
from millstream.batch.app_spec import AppSettings
from millstream.broker import Broker
from millstream.connect.connector import Connector
from millstream.connect.protocols import ConnectorContext, Sink, SinkBatch
from millstream.connect.sinks import SinkInput, sink_connector
from millstream.connectors.email import Email
from millstream.connectors.slack import Slack
from millstream.connectors.smtp import mail_server
from millstream.connectors.webhook import Webhook
from millstream.errors import ConnectorError, MillstreamError
from millstream.foundation.text import printable
from millstream.operations.rule_source import NOTIFICATIONS, Addressed
from millstream.records import Record
from millstream.secret import Secret
from millstream.serdes import Json

SMTP_VARIABLE = "MILLSTREAM_SMTP"
_CHAT = "hooks.slack.com"


def sink_for(to: str) -> Sink:
    """Return the sink of a target: ``https://…`` for a webhook or Slack, ``mailto:NAME@HOST`` for a mail."""
    if not to.startswith("mailto:"):
        return Slack(to, text="{value}") if _host(to) == _CHAT else Webhook(to, body="value")
    server = mail_server(os.environ.get(SMTP_VARIABLE) or "smtp://localhost:25")
    if server is None:
        raise ConnectorError(f"{SMTP_VARIABLE} is not a valid URL", hint="use smtp://USER:PASSWORD@HOST:PORT")
    return Email(
        f"{server.scheme}://{server.hostname}" + ("" if server.port is None else f":{server.port}"),
        sender=f"millstream@{os.uname().nodename}",
        to=to.removeprefix("mailto:").replace("{", "{{").replace("}", "}}"),
        subject="{value.title}",
        text="{value}",
        user=unquote(server.username) if server.username else None,
        password=Secret.call(f"{__name__}:smtp_password") if server.password else None,
    )


def smtp_password() -> str:
    """Return the password of the mail server."""
    server = mail_server(os.environ.get(SMTP_VARIABLE) or "")
    return unquote(server.password or "") if server is not None else ""


def target_name(to: str) -> str:
    """Return the name of a target's connector, which must not show a URL that is a secret."""
    kind = "mail" if to.startswith("mailto:") else _host(to) or "webhook"
    safe = "".join(character if character.isalnum() or character in ".-" else "-" for character in kind)
    return f"{safe.lstrip('.')[:100]}-{sha256(to.encode()).hexdigest()[:8]}"


def _host(to: str) -> str | None:
    """Return the host of a web address; None of one that an earlier version has stored without a check."""
    try:
        return urlsplit(to).hostname
    except ValueError:
        return None


def target_connector(settings: AppSettings, broker: Broker, to: str) -> Connector:
    """Return the connector that sends the notifications of a target, in order, until it takes them."""
    source = SinkInput(topics=[NOTIFICATIONS], value=Json(Addressed), transform=_addressed_to(to))
    return sink_connector(settings, broker, target_name(to), sink_for(to), source)


def _addressed_to(to: str) -> Callable[[Record[Any, Any]], Record[Any, Any] | None]:
    def transform(record: Record[Any, Addressed | None]) -> Record[Any, Any] | None:
        if record.value is None or record.value.to != to:
            return None
        notification = record.value.notification
        return msgspec.structs.replace(record, key=notification.group_key, value=notification)

    return transform


def send_once(to: str, notification: Notification) -> str:
    """Send a notification now, without another attempt, and return the outcome; never raises."""
    with tempfile.TemporaryDirectory() as directory:
        context = ConnectorContext(
            name="test", app="test", directory=Path(directory), stopping=_STOPPED, report=lambda _name, _value: None
        )
        record: Record[Any, Any] = Record("test", 0, 0, notification.group_key, notification, 0)
        batch = SinkBatch(lineage="test", number=1, wall_time=0, records=[record])
        try:
            writer = sink_for(to).open(context)
            rejected = writer.write(batch)
            writer.close()
        except MillstreamError as error:
            return printable(f"could not be sent: {error.message}")[:300]
        except Exception as error:  # of a sink or its network
            return printable(f"could not be sent: {type(error).__name__}: {error}")[:300]
    name = to.removeprefix("mailto:") if to.startswith("mailto:") else _host(to)
    return printable(f"could not be sent: {rejected[0].error}" if rejected else f"sent to {name}")[:300]


_STOPPED = threading.Event()
_STOPPED.set()  # a target that asks to wait is not waited for

"""Sends alerts: JSON to a webhook, or a mail."""

from __future__ import annotations

import os
from email.message import EmailMessage
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from millstream.connectors.http_requests import send
from millstream.connectors.smtp import connect, mail_server
from millstream.foundation.text import printable
from millstream.serve.alert_rules import AlertEvent

SMTP_VARIABLE = "MILLSTREAM_SMTP"
_TIMEOUT_SECONDS = 5.0


class Sending(NamedTuple):
    """Whether an event was sent, and where to or why not."""

    is_sent: bool
    text: str


def notify(to: str, event: AlertEvent) -> Sending:
    """Send an event to the target of its rule, and return the outcome; never raises."""
    try:
        if to.startswith("mailto:"):
            return _send_mail(to.removeprefix("mailto:"), event)
        return _call_webhook(to, event)
    except Exception as error:  # a failed attempt must not lose the alert
        return Sending(False, printable(f"could not be sent: {type(error).__name__}: {error}")[:300])


def _call_webhook(url: str, event: AlertEvent) -> Sending:
    host = urlsplit(url).hostname or ""
    headers = {"Content-Type": "application/json"}
    answer = send(host, url, msgspec.json.encode(event), headers, timeout=_TIMEOUT_SECONDS)
    if not answer.is_success:
        return Sending(False, f"could not be sent: {host} responded with {answer.text}")
    return Sending(True, printable(f"{host} responded with {answer.status}"))


def _send_mail(address: str, event: AlertEvent) -> Sending:
    """Send a mail through the server named in the environment: ``smtp://USER:PASSWORD@HOST:PORT``."""
    server = mail_server(os.environ.get(SMTP_VARIABLE) or "smtp://localhost:25")
    if server is None:
        reason = f"could not be sent: {SMTP_VARIABLE} is not a valid URL; use smtp://USER:PASSWORD@HOST:PORT"
        return Sending(False, reason)
    message = EmailMessage()
    message["From"] = f"millstream@{os.uname().nodename}"
    message["To"] = printable(address)
    message["Subject"] = printable(f"{'alert' if event.is_raised else 'resolved'}: {event.rule} ({event.app})")
    message.set_content(event.message)
    user, password = unquote(server.username or ""), unquote(server.password or "")
    with connect(server, user, password, timeout=_TIMEOUT_SECONDS) as connection:
        connection.send_message(message)
    return Sending(True, printable(f"mailed to {address}"))

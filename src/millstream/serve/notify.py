"""Sends alerts: JSON to a webhook, or a mail."""

from __future__ import annotations

import os
import smtplib
import urllib.request
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from millstream.foundation.text import printable
from millstream.serve.alert_rules import AlertEvent

SMTP_VARIABLE = "MILLSTREAM_SMTP"
_TIMEOUT_SECONDS = 5.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow the redirects of a webhook."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def notify(to: str | None, event: AlertEvent) -> str:
    """Send an event to the target of its rule, and return the outcome; never raises."""
    if to is None:
        return "shown in the dashboard only"
    try:
        if to.startswith("mailto:"):
            return _send_mail(to.removeprefix("mailto:"), event)
        return _call_webhook(to, event)
    except Exception as error:  # a failed delivery must not lose the alert
        return printable(f"could not be sent: {type(error).__name__}: {error}")[:300]


def _call_webhook(url: str, event: AlertEvent) -> str:
    request = urllib.request.Request(  # noqa: S310  a rule allows https and http only
        url, msgspec.json.encode(event), {"Content-Type": "application/json", "User-Agent": "millstream"}
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as response:
        return printable(f"{urlsplit(url).hostname} responded with {response.status}")


def _send_mail(address: str, event: AlertEvent) -> str:
    """Send a mail through the server named in the environment: ``smtp://USER:PASSWORD@HOST:PORT``."""
    server = urlsplit(os.environ.get(SMTP_VARIABLE) or "smtp://localhost:25")
    message = EmailMessage()
    message["From"] = f"millstream@{os.uname().nodename}"
    message["To"] = printable(address)
    message["Subject"] = printable(f"{'alert' if event.is_raised else 'resolved'}: {event.rule} ({event.app})")
    message.set_content(event.message)
    kind = smtplib.SMTP_SSL if server.scheme == "smtps" else smtplib.SMTP
    with kind(server.hostname or "localhost", server.port or 0, timeout=_TIMEOUT_SECONDS) as connection:
        if server.scheme == "smtp" and connection.has_extn("starttls"):
            connection.starttls()
        if server.username:
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(message)
    return printable(f"mailed to {address}")

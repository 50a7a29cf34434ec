"""Tell somebody: a webhook gets JSON, a mailbox gets a mail."""

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
_SECONDS = 5.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A webhook that answers with another address is not followed there."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def tell(to: str | None, event: AlertEvent) -> str:
    """Send an event where its rule says, and return what became of it; never raises."""
    if to is None:
        return "shown here only"
    try:
        if to.startswith("mailto:"):
            return _mail(to.removeprefix("mailto:"), event)
        return _webhook(to, event)
    except Exception as error:  # whatever the other side does, the alert itself stands
        return printable(f"could not be sent: {type(error).__name__}: {error}")[:300]


def _webhook(url: str, event: AlertEvent) -> str:
    request = urllib.request.Request(  # noqa: S310  a rule takes https and http only
        url, msgspec.json.encode(event), {"Content-Type": "application/json", "User-Agent": "millstream"}
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_SECONDS) as response:
        return printable(f"{urlsplit(url).hostname} answered {response.status}")


def _mail(address: str, event: AlertEvent) -> str:
    """Send a mail by the server that the environment names: ``smtp://USER:PASSWORD@HOST:PORT``."""
    server = urlsplit(os.environ.get(SMTP_VARIABLE) or "smtp://localhost:25")
    message = EmailMessage()
    message["From"] = f"millstream@{os.uname().nodename}"
    message["To"] = printable(address)
    message["Subject"] = printable(f"{'alert' if event.is_raised else 'over'}: {event.rule} ({event.app})")
    message.set_content(event.message)
    kind = smtplib.SMTP_SSL if server.scheme == "smtps" else smtplib.SMTP
    with kind(server.hostname or "localhost", server.port or 0, timeout=_SECONDS) as connection:
        if server.scheme == "smtp" and connection.has_extn("starttls"):
            connection.starttls()
        if server.username:
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(message)
    return printable(f"mailed to {address}")

"""Sends alerts: JSON to a webhook, or a mail."""

from __future__ import annotations

import ipaddress
import os
import smtplib
import ssl
import urllib.request
from email.message import EmailMessage
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from millstream.foundation.text import printable
from millstream.serve.alert_rules import AlertEvent

SMTP_VARIABLE = "MILLSTREAM_SMTP"
_TIMEOUT_SECONDS = 5.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Does not follow the redirects of a webhook."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


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
    request = urllib.request.Request(  # noqa: S310  a rule allows https and http only
        url, msgspec.json.encode(event), {"Content-Type": "application/json", "User-Agent": "millstream"}
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_SECONDS) as response:
        return Sending(True, printable(f"{urlsplit(url).hostname} responded with {response.status}"))


def _send_mail(address: str, event: AlertEvent) -> Sending:
    """Send a mail through the server named in the environment: ``smtp://USER:PASSWORD@HOST:PORT``."""
    server = _mail_server()
    if server is None:
        reason = f"could not be sent: {SMTP_VARIABLE} is not a valid URL; use smtp://USER:PASSWORD@HOST:PORT"
        return Sending(False, reason)
    message = EmailMessage()
    message["From"] = f"millstream@{os.uname().nodename}"
    message["To"] = printable(address)
    message["Subject"] = printable(f"{'alert' if event.is_raised else 'resolved'}: {event.rule} ({event.app})")
    message.set_content(event.message)
    with _connect(server) as connection:
        if server.username:
            if not isinstance(connection.sock, ssl.SSLSocket) and not _is_loopback(connection):
                reason = f"could not be sent: {server.hostname} does not offer TLS, so the password was not sent"
                return Sending(False, reason)
            connection.login(unquote(server.username), unquote(server.password or ""))
        connection.send_message(message)
    return Sending(True, printable(f"mailed to {address}"))


def _mail_server() -> SplitResult | None:
    """Parse the URL of the mail server; an error of the parser could show parts of the password, so None instead."""
    try:
        server = urlsplit(os.environ.get(SMTP_VARIABLE) or "smtp://localhost:25")
        is_valid = server.port != 0 and server.scheme in ("smtp", "smtps") and bool(server.hostname)
    except ValueError:
        return None
    has_more = server.path not in ("", "/") or server.query or server.fragment  # such as a "/" in the password
    return server if is_valid and not has_more else None


def _connect(server: SplitResult) -> smtplib.SMTP:
    """Connect with TLS if the server offers it; its certificate must be valid."""
    context = ssl.create_default_context()
    host, port = server.hostname or "", server.port or 0
    if server.scheme == "smtps":
        return smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT_SECONDS, context=context)
    connection = smtplib.SMTP(host, port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.ehlo()
        if connection.has_extn("starttls"):
            connection.starttls(context=context)
            connection.ehlo()
    except Exception:
        connection.close()
        raise
    return connection


def _is_loopback(connection: smtplib.SMTP) -> bool:
    return connection.sock is not None and ipaddress.ip_address(connection.sock.getpeername()[0]).is_loopback

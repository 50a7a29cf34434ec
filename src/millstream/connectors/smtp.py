"""Connections to mail servers: with TLS if it is offered, and without a password otherwise."""

from __future__ import annotations

import smtplib
import ssl
from urllib.parse import SplitResult, urlsplit

from millstream.connectors.network import is_loopback
from millstream.errors import ConnectorError

SCHEMES = ("smtp", "smtps")


def mail_server(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it is not valid: an error of the parser could show parts of a password."""
    try:
        server = urlsplit(url)
        is_valid = server.port != 0 and server.scheme in SCHEMES and bool(server.hostname)
    except ValueError:
        return None
    has_more = server.path not in ("", "/") or server.query or server.fragment  # such as a "/" in the password
    return server if is_valid and not has_more else None


def connect(server: SplitResult, user: str | None, password: str, *, timeout: float) -> smtplib.SMTP:
    """Connect and log in; the certificate must be valid, and a password is not sent to another host without TLS."""
    connection = _connect(server, timeout)
    try:
        if user:
            if not isinstance(connection.sock, ssl.SSLSocket) and not _is_local(connection):
                raise ConnectorError(f"{server.hostname} does not offer TLS, so the password was not sent")
            connection.login(user, password)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(server: SplitResult, timeout: float) -> smtplib.SMTP:
    context = ssl.create_default_context()
    host, port = server.hostname or "", server.port or 0
    if server.scheme == "smtps":
        return smtplib.SMTP_SSL(host, port, timeout=timeout, context=context)
    connection = smtplib.SMTP(host, port, timeout=timeout)
    try:
        connection.ehlo()
        if connection.has_extn("starttls"):
            connection.starttls(context=context)
            connection.ehlo()
    except Exception:
        connection.close()
        raise
    return connection


def _is_local(connection: smtplib.SMTP) -> bool:
    return connection.sock is not None and is_loopback(connection.sock.getpeername()[0])

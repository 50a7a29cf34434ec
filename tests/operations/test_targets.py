"""Mail: the password is only sent over TLS with a valid certificate, and never shown."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from tests.alerts.sample_events import sample_event

from millstream.alerts.notifications import notification
from millstream.connectors import smtp
from millstream.operations.targets import SMTP_VARIABLE, send_once

MESSAGE = notification("behind", {"alertname": "behind"}, [sample_event("a", fired=0)])


@contextmanager
def mail_server(certificate: trustme.LeafCert | None) -> Iterator[tuple[int, list[str]]]:
    """Speak SMTP on a port, with STARTTLS if there is a certificate; yield what was received, marked if encrypted."""
    received: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(30)

    def serve() -> None:
        connection, _ = listener.accept()
        mark = "plain "
        connection.sendall(b"220 here\r\n")
        while line := _line(connection):
            received.append(mark + line)
            word = line[:4].upper()
            if line == "STARTTLS" and certificate is not None:
                connection.sendall(b"220 ready\r\n")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                certificate.configure_cert(context)
                try:
                    connection = context.wrap_socket(connection, server_side=True)
                except (ssl.SSLError, OSError):
                    break
                mark = "tls "
            elif word == "EHLO":
                offer = b"250-STARTTLS\r\n" if certificate is not None and mark == "plain " else b""
                connection.sendall(b"250-here\r\n" + offer + b"250 AUTH PLAIN\r\n")
            elif word == "DATA":
                connection.sendall(b"354 go on\r\n")
                while _line(connection) != ".":
                    pass
                connection.sendall(b"250 ok\r\n")
            else:
                connection.sendall({"AUTH": b"235 ok\r\n", "QUIT": b"221 bye\r\n"}.get(word, b"250 ok\r\n"))
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1], received
    thread.join(30)
    listener.close()


def _line(connection: socket.socket) -> str:
    data = b""
    while not data.endswith(b"\r\n"):
        try:
            byte = connection.recv(1)
        except OSError:
            return ""
        if not byte:
            return ""
        data += byte
    return data.decode().strip()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def test_the_password_is_sent_over_tls_if_the_server_offers_it(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with mail_server(authority.issue_cert("127.0.0.1")) as (port, received):
        monkeypatch.setenv(SMTP_VARIABLE, f"smtp://me:secret@127.0.0.1:{port}")
        assert send_once("mailto:ops@example.test", MESSAGE) == "sent to ops@example.test"
    assert [line.split()[:2] for line in received if "AUTH" in line] == [["tls", "AUTH"]]


def test_a_certificate_that_is_not_trusted_ends_the_delivery(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mail_server(authority.issue_cert("127.0.0.1")) as (port, received):
        monkeypatch.setenv(SMTP_VARIABLE, f"smtp://me:secret@127.0.0.1:{port}")
        assert "CERTIFICATE_VERIFY_FAILED" in send_once("mailto:ops@example.test", MESSAGE)
    assert not [line for line in received if "AUTH" in line]


def test_the_password_is_not_sent_to_another_host_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtp, "is_loopback", lambda _: False)
    with mail_server(None) as (port, received):
        monkeypatch.setenv(SMTP_VARIABLE, f"smtp://me:secret@127.0.0.1:{port}")
        assert "does not offer TLS" in send_once("mailto:ops@example.test", MESSAGE)
    assert not [line for line in received if "AUTH" in line]


@pytest.mark.parametrize("url", ["smtp://me:pa/ss@host:25", "smtp://me:12/ss@host:25", "smtp://me:pa#ss@host", "pass"])
def test_no_part_of_a_password_is_shown(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv(SMTP_VARIABLE, url)
    outcome = send_once("mailto:ops@example.test", MESSAGE)
    assert outcome.startswith("could not be sent: MILLSTREAM_SMTP is not a valid URL")
    assert "pa/" not in outcome
    assert "'pa'" not in outcome

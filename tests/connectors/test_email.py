"""Mail: each mail is noted before it is sent, so that a crash sends none twice unless it has to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from tests.connectors.batches import batch, context

from millstream.connectors.email import Email
from millstream.connectors.progress import SinkProgress
from millstream.errors import DefinitionError, TargetUnavailableError
from millstream.testing.kafka.node import free_port

OPTIONS: dict[str, Any] = {
    "sender": "Shop <shop@example.test>",
    "to": "{value[email]}",
    "subject": "Order {key}",
    "text": "Thanks, {value[name]}!",
    "html": "<p>Thanks, {value[name]}!</p>",
}
ANN = {"email": "ann@example.test", "name": "Ann <b>"}


class Mailbox:
    """Keeps mails; `replies` are the answers to the next ones."""

    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.replies: list[str] = []

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd calls
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address.startswith("unknown@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 ok"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.mails.append(message_from_bytes(envelope.content))
        reply = self.replies.pop(0) if self.replies else "250 ok"
        if reply == "end":
            assert server.transport is not None
            server.transport.close()
        return reply


@contextmanager
def serve(mailbox: Mailbox, port: int) -> Iterator[None]:
    controller = Controller(mailbox, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield
    finally:
        controller.stop()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def url(mailbox: Mailbox) -> Iterator[str]:
    port = free_port()
    with serve(mailbox, port):
        yield f"smtp://127.0.0.1:{port}"


def test_a_mail_has_both_texts_and_escapes_html_only(url: str, mailbox: Mailbox, tmp_path: Path) -> None:
    sink = Email(url, **OPTIONS, unsubscribe="https://example.test/leave/{key}")
    assert not sink.open(context(tmp_path)).write(batch(1, [("7", ANN)]))
    (mail,) = mailbox.mails
    parts = mail.get_payload()
    assert isinstance(parts, list)
    plain, html = parts
    assert plain.get_payload().strip() == "Thanks, Ann <b>!"  # type: ignore[union-attr]
    assert html.get_payload().strip() == "<p>Thanks, Ann &lt;b&gt;!</p>"  # type: ignore[union-attr]
    assert (mail["To"], mail["Subject"]) == ("ann@example.test", "Order 7")
    assert mail["List-Unsubscribe"] == "<https://example.test/leave/7>"
    assert mail["Message-ID"].endswith("@example.test>")


def test_records_that_make_no_mail_are_rejected(url: str, mailbox: Mailbox, tmp_path: Path) -> None:
    rows = [
        ("1", ANN),
        ("2", None),
        ("3", {"email": "x@example.test\nBcc: all@example.test", "name": ""}),
        ("4", {"name": "without address"}),
        ("5", {**ANN, "email": "unknown@example.test"}),
        ("6", {**ANN, "email": "no-address"}),
        ("7", ANN),
    ]
    problems = Email(url, **OPTIONS).open(context(tmp_path)).write(batch(1, rows))
    assert [problem.record.key for problem in problems] == ["2", "3", "4", "5", "6"]
    assert "550" in problems[3].error
    assert [mail["Subject"] for mail in mailbox.mails] == ["Order 1", "Order 7"]


def test_a_recipient_that_is_refused_among_others_is_reported(url: str, mailbox: Mailbox, tmp_path: Path) -> None:
    two = {**ANN, "email": "ann@example.test, unknown@example.test"}
    problems = Email(url, **OPTIONS).open(context(tmp_path)).write(batch(1, [("1", two)]))
    assert len(mailbox.mails) == 1
    assert [problem.error for problem in problems] == [
        "the mail server refused unknown@example.test, and took the mail for the others"
    ]


def test_a_temporary_refusal_sends_the_rest_later(url: str, mailbox: Mailbox, tmp_path: Path) -> None:
    mailbox.replies = ["250 ok", "451 later"]
    rows = [(str(n), ANN) for n in range(3)]
    with pytest.raises(TargetUnavailableError, match="451"):
        Email(url, **OPTIONS, on_doubt="skip").open(context(tmp_path)).write(batch(1, rows))
    assert not Email(url, **OPTIONS, on_doubt="skip").open(context(tmp_path)).write(batch(1, rows))
    assert [mail["Subject"] for mail in mailbox.mails] == ["Order 0", "Order 1", "Order 1", "Order 2"]


@pytest.mark.parametrize("on_doubt", ["again", "skip"])
def test_a_mail_without_an_answer_is_sent_again_or_rejected(
    url: str, mailbox: Mailbox, tmp_path: Path, on_doubt: Any
) -> None:
    mailbox.replies = ["end"]
    sink = Email(url, **OPTIONS, on_doubt=on_doubt)
    with pytest.raises(TargetUnavailableError, match="cannot be reached"):
        sink.open(context(tmp_path)).write(batch(1, [("1", ANN), ("2", ANN)]))
    problems = sink.open(context(tmp_path)).write(batch(1, [("1", ANN), ("2", ANN)]))
    subjects = [mail["Subject"] for mail in mailbox.mails]
    if on_doubt == "again":
        assert (sink.guarantee, subjects, problems) == ("at least once", ["Order 1", "Order 1", "Order 2"], [])
        assert mailbox.mails[0]["Message-ID"] == mailbox.mails[1]["Message-ID"]
    else:
        assert (sink.guarantee, subjects) == ("at most once", ["Order 1", "Order 2"])
        assert "may have been sent" in problems[0].error


def test_an_outage_sends_nothing_twice(mailbox: Mailbox, tmp_path: Path) -> None:
    port = free_port()
    sink = Email(f"smtp://127.0.0.1:{port}", **OPTIONS, on_doubt="skip")
    with pytest.raises(TargetUnavailableError, match="cannot be reached"):
        sink.open(context(tmp_path)).write(batch(1, [("1", ANN)]))
    assert not SinkProgress(tmp_path).is_in_doubt
    with serve(mailbox, port):
        assert not sink.open(context(tmp_path)).write(batch(1, [("1", ANN)]))
        assert not sink.open(context(tmp_path)).write(batch(1, [("1", ANN)]))
    assert len(mailbox.mails) == 1


def test_settings_are_checked() -> None:
    with pytest.raises(DefinitionError, match="URL of the mail server is not valid"):
        Email("smtp://me:secret@localhost", **OPTIONS)
    with pytest.raises(DefinitionError, match="'shop' is not a valid address"):
        Email("smtp://localhost", **{**OPTIONS, "sender": "shop"})

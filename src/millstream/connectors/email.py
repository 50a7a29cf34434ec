"""Send a mail for each record."""

from __future__ import annotations

import html as html_text
import smtplib
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import Any, Literal
from urllib.parse import SplitResult

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.lineage import check_choice
from millstream.connectors.progress import SinkProgress
from millstream.connectors.rendering import check_template, fill
from millstream.connectors.smtp import connect, mail_server
from millstream.connectors.webhook import message_id
from millstream.errors import ConnectorError, DefinitionError, SerdeError, TargetUnavailableError
from millstream.foundation.text import error_text, printable
from millstream.records import Record
from millstream.secret import Secret

OnDoubt = Literal["again", "skip"]
_TIMEOUT_SECONDS = 30.0
_IN_DOUBT = "the mail may have been sent when the connection or the process ended, and is not sent again"


class Email:
    """A sink that sends a mail for each record; tombstones are rejected.

    ``to``, ``subject``, ``text`` and ``html`` are templates; what is filled into ``html`` is escaped. A mail is noted
    before it is handed to the server: if the process ends before the answer, it is sent again with the same
    ``Message-ID`` (at least once), or with ``on_doubt="skip"`` rejected (at most once).

    >>> Email("smtp://localhost", sender="me@example.org", to="{value[email]}", subject="Order {key}", text="Thanks!")
    Email(to='{value[email]}', subject='Order {key}')
    """

    def __init__(
        self,
        server: str,
        *,
        sender: str,
        to: str,
        subject: str,
        text: str,
        html: str | None = None,
        user: str | None = None,
        password: Secret | None = None,
        on_doubt: OnDoubt = "again",
        unsubscribe: str | None = None,
    ) -> None:
        parts = mail_server(server)
        if parts is None or parts.username is not None:
            raise DefinitionError(
                "the URL of the mail server is not valid", hint="write smtp://HOST:PORT, and user= and password="
            )
        check_choice("on_doubt", on_doubt, ("again", "skip"))
        if "@" not in parseaddr(sender)[1]:
            raise DefinitionError(f"sender={sender!r} is not a valid address", hint="write NAME <NAME@HOST>")
        self.guarantee: Guarantee = "at least once" if on_doubt == "again" else "at most once"
        self.server = server
        self.sender = sender
        self.to = check_template("to", to)
        self.subject = check_template("subject", subject)
        self.text = check_template("text", text)
        self.html = None if html is None else check_template("html", html)
        self.user = user
        self.password = password
        self.on_doubt = on_doubt
        self.unsubscribe = None if unsubscribe is None else check_template("unsubscribe", unsubscribe)

    def __repr__(self) -> str:
        return f"Email(to={self.to!r}, subject={self.subject!r})"

    def open(self, context: ConnectorContext) -> EmailWriter:
        """Prepare; the server is called by the first batch."""
        parts = mail_server(self.server)
        assert parts is not None
        return EmailWriter(self, parts, context)

    def check(self) -> Sequence[str]:
        """Connect and log in without sending a mail, and return what would stop the sink."""
        parts = mail_server(self.server)
        assert parts is not None
        try:
            connection = connected(parts, self)
        except ConnectorError as error:
            return [str(error)]
        with suppress(smtplib.SMTPException, OSError):
            connection.quit()
        return []

    def message(self, record: Record[Any, Any], id: str) -> EmailMessage:
        """Return the mail for a record, or raise a SerdeError."""
        if record.value is None:
            raise SerdeError("the record is a tombstone, for which there is no mail")
        message = EmailMessage()
        domain = parseaddr(self.sender)[1].rpartition("@")[2]
        try:
            message["From"] = self.sender
            message["To"] = fill(self.to, record)
            message["Subject"] = fill(self.subject, record)
            message["Date"] = format_datetime(datetime.fromtimestamp(record.timestamp / 1000, UTC))
            message["Message-ID"] = f"<{id}@{domain}>"
            if self.unsubscribe is not None:
                message["List-Unsubscribe"] = f"<{fill(self.unsubscribe, record)}>"
                message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
            message.set_content(fill(self.text, record))
            if self.html is not None:
                message.add_alternative(fill(self.html, record, html_text.escape), subtype="html")
        except ValueError as error:  # a line break in a header, or an address that is not valid
            raise SerdeError(f"the mail is not valid: {error_text(error)}") from error
        if "@" not in parseaddr(str(message["To"]))[1]:
            raise SerdeError(f"{message['To']!r} is not a valid address")
        return message


class EmailWriter:
    """Sends the mails of a batch in order, over one connection."""

    def __init__(self, sink: Email, server: SplitResult, context: ConnectorContext) -> None:
        self._sink = sink
        self._server = server
        self._name = context.name
        self._progress = SinkProgress(context.directory)
        self._connection: smtplib.SMTP | None = None

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Send the mails of a batch that are not sent yet; servers end idle connections, so it is closed then."""
        try:
            self._send_all(batch)
        finally:
            self.close()
        return self._progress.rejections(batch)

    def _send_all(self, batch: SinkBatch) -> None:
        for record in batch.records[self._progress.begin(batch) :]:
            if self._progress.is_in_doubt and self._sink.on_doubt == "skip":
                self._progress.done(rejected=_IN_DOUBT)
                continue
            try:
                message = self._sink.message(record, message_id(batch, record))
            except SerdeError as error:
                self._progress.done(rejected=error_text(error))
            else:
                self._progress.done(rejected=self._send(message))

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(smtplib.SMTPException, OSError):
                connection.quit()

    def _send(self, message: EmailMessage) -> str | None:
        """Return None if the server has taken a mail, or why it never will."""
        try:
            connection = self._connected()
            self._progress.sending()
            refused = connection.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            return self._refused(*next(iter(error.recipients.values())))
        except smtplib.SMTPServerDisconnected as error:  # whether the mail was taken is not known
            raise self._unavailable(error) from error
        except smtplib.SMTPResponseException as error:
            return self._refused(error.smtp_code, error.smtp_error)
        except (smtplib.SMTPException, UnicodeError) as error:  # for example an address that needs SMTPUTF8
            self._progress.not_sent()
            return error_text(error)
        except OSError as error:
            raise self._unavailable(error) from error
        if refused:  # it has gone to the other recipients, and is not sent to these again
            return f"the mail server refused {', '.join(sorted(refused))}, and took the mail for the others"
        return None

    def _connected(self) -> smtplib.SMTP:
        if self._connection is None:
            self._connection = connected(self._server, self._sink)
        return self._connection

    def _refused(self, code: int, reply: bytes | str) -> str:
        """Return why a mail will never be taken, or raise if it may be later."""
        self._progress.not_sent()
        text = reply.decode(errors="replace") if isinstance(reply, bytes) else reply
        answer = f"{self._server.hostname!r} responded with {code}: {printable(text)[:200]}"
        if 400 <= code < 500:
            raise TargetUnavailableError(answer, sink=self._name)
        return answer

    def _unavailable(self, error: Exception) -> TargetUnavailableError:
        return _unreachable(self._server, error)


def connected(server: SplitResult, sink: Email) -> smtplib.SMTP:
    """Return a connection to the server of a sink, logged in."""
    password = "" if sink.password is None else sink.password.reveal()
    try:
        return connect(server, sink.user, password, timeout=_TIMEOUT_SECONDS)
    except (smtplib.SMTPAuthenticationError, ssl.SSLCertVerificationError) as error:
        text = f"{server.hostname!r} cannot be used: {printable(error_text(error))[:300]}"
        raise ConnectorError(text, hint="check user=, password= and the certificate") from error
    except (smtplib.SMTPException, OSError) as error:
        raise _unreachable(server, error) from error


def _unreachable(server: SplitResult, error: Exception) -> TargetUnavailableError:
    reason = printable(error_text(error))[:300]
    return TargetUnavailableError(f"{server.hostname!r} cannot be reached: {reason}")

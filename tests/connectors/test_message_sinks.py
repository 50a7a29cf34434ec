"""Sinks that send messages to people pass the kit: each record arrives, in the order of its key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.test_email import Mailbox, serve
from tests.servers.receiver import Receiver, receiver

from millstream.connect.protocols import Sink
from millstream.connectors.email import Email
from millstream.connectors.slack import Slack
from millstream.testing.connectors import SINK_CASES, SinkTarget, check_sink
from millstream.testing.kafka.node import free_port


def row_of(text: str) -> tuple[str, dict[str, int] | None]:
    """Return the key and the value of a message."""
    key, _, number = text.partition(" ")
    return key, None if number == "None" else {"n": int(number)}


class SlackTarget(SinkTarget):
    is_keyed = False

    def __init__(self, target: Receiver) -> None:
        self.target = target

    def sink(self) -> Sink:
        return Slack(self.target.url, text="{key} {value[n]}")

    def rows(self) -> list[tuple[Any, Any]]:
        return [row_of(json.loads(received.body)["text"]) for received in self.target.received]


class EmailTarget(SinkTarget):
    is_keyed = False

    def __init__(self, stack: ExitStack) -> None:
        self.mailbox, self.port = Mailbox(), free_port()
        self._running = stack.enter_context(ExitStack())
        self._running.enter_context(serve(self.mailbox, self.port))

    def sink(self) -> Sink:
        return Email(
            f"smtp://127.0.0.1:{self.port}",
            sender="shop@example.test",
            to="ann@example.test",
            subject="{key} {value[n]}",
            text="-",
        )

    def rows(self) -> list[tuple[Any, Any]]:
        return [row_of(mail["Subject"]) for mail in self.mailbox.mails]

    @contextmanager
    def outage(self) -> Iterator[None]:
        self._running.close()
        yield
        self._running.enter_context(serve(self.mailbox, self.port))


@pytest.mark.parametrize("case", SINK_CASES)
def test_slack_passes_the_kit(case: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        check_sink(case, lambda: SlackTarget(stack.enter_context(receiver())), tmp_path)


@pytest.mark.parametrize("case", SINK_CASES)
def test_mail_passes_the_kit(case: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        check_sink(case, lambda: EmailTarget(stack), tmp_path)

"""The presence of a run: its membership in a group, by which others see whether it is alive.

The brokers remove a member that sends no heartbeats.
"""

from __future__ import annotations

import contextlib
import logging
import threading

from millstream.broker import Broker, GroupMember, SupportsMembership
from millstream.errors import MillstreamError
from millstream.foundation.names import journal_topic_name
from millstream.foundation.text import printable

_log = logging.getLogger(__name__)
_SESSION = "6 s"
_POLL_SECONDS = 0.25


def presence_group(app: str) -> str:
    """Return the group whose member is the run of an app."""
    return f"{app}.running"


def live_runs(broker: Broker, app: str) -> tuple[GroupMember, ...]:
    """Return the members that are runs of an app, on any host; normally there is at most one.

    Only the coordinator of the group is asked: a list of all groups, or of committed offsets, needs an answer of
    every broker, and one of them may have been lost together with the run. Errors never mean that there is none.
    """
    return broker.members(presence_group(app))


class Presence:
    """The membership of a run in the group of its app, kept up by a thread."""

    def __init__(self, app: str, broker: SupportsMembership) -> None:
        self._app = app
        self._member = broker.join_group(presence_group(app), [journal_topic_name(app)], session_timeout=_SESSION)
        self._closing = threading.Event()
        self._problem = ""
        self._thread = threading.Thread(target=self._refresh, name="millstream-presence", daemon=True)
        self._thread.start()

    def _refresh(self) -> None:
        while not self._closing.wait(_POLL_SECONDS):
            try:
                self._member.refresh(lambda _: None)
                self._problem = ""
            except MillstreamError as error:
                if not error.retryable:  # an outage is reported by the run itself
                    self._report(str(error))

    def _report(self, problem: str) -> None:
        """Log a problem once: without a member in the group, a standby takes the app over."""
        if problem != self._problem:
            _log.warning("presence.lost app=%s: standbys will take over; %s", self._app, printable(problem))
        self._problem = problem

    def close(self) -> None:
        """Leave the group, so that a standby takes over at once."""
        self._closing.set()
        self._thread.join()
        with contextlib.suppress(MillstreamError):
            self._member.leave()

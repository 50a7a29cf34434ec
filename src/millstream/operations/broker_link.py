"""The connection to the broker: opened on first use, and checked before each use, so that no request waits for a broker
that is gone.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from millstream.broker import Broker
from millstream.errors import BrokerUnavailableError

_PATIENCE_SECONDS = 1.0  # a broker that needs longer to list its topics cannot be reached
_FRESH_SECONDS = 1.0
_RETRY_SECONDS = 3.0
_CREDENTIALS_AND_SETTINGS = re.compile(r"^[^@]*@|[/?].*$")


class BrokerLink:
    """Opens a broker in the background and checks that it responds.

    A request waits for a check for a second at most. A check that fails or takes longer makes the broker unavailable;
    it is repeated in the background until one succeeds.
    """

    def __init__(self, open_broker: Callable[[], Broker], url: str, *, is_remote: bool) -> None:
        self._open_broker = open_broker
        self._name = _CREDENTIALS_AND_SETTINGS.sub("", url.partition("://")[2]) or url
        self._lock = threading.Lock()
        self._broker: Broker | None = None
        self._check: Future[None] | None = None
        self._checked_at = float("-inf")
        self._is_available = True
        self._is_remote = is_remote
        self._closed = False

    @property
    def broker(self) -> Broker:
        """The broker; raises at once if it cannot be reached."""
        if not self._is_remote:
            with self._lock:
                self._broker = self._broker or self._open_broker()
                return self._broker
        self.check()
        if self._broker is None:
            raise self._unavailable()
        return self._broker

    def check(self) -> None:
        """Raise if a remote broker cannot be reached; a log in the data directory always can."""
        if not self._is_remote:
            return
        with self._lock:
            age = time.monotonic() - self._checked_at
            if self._check is None and age > (_FRESH_SECONDS if self._is_available else _RETRY_SECONDS):
                self._start_check()
            check, is_available = self._check, self._is_available
        if check is not None and is_available:
            try:
                check.result(_PATIENCE_SECONDS)
            except TimeoutError:
                self._is_available = False
        if not self._is_available:
            raise self._unavailable()

    def _unavailable(self) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"the broker {self._name} cannot be reached", hint="check that it is running; the dashboard tries it again"
        )

    def _start_check(self) -> None:
        self._check = Future()
        threading.Thread(target=self._run_check, args=(self._check,), name="millstream-web-broker", daemon=True).start()

    def _run_check(self, check: Future[None]) -> None:
        """Open the broker if necessary, and list its topics; an error other than its absence is left to the caller."""
        is_available = True
        try:
            if self._broker is None:
                self._broker = self._open_broker()
            self._broker.topic_names()
        except BrokerUnavailableError:
            is_available = False
        except Exception as error:  # a request must not wait for the outcome of this thread
            check.set_exception(error)
        with self._lock:
            self._is_available, self._checked_at, self._check = is_available, time.monotonic(), None
        if not check.done():
            check.set_result(None)
        if self._closed:
            self._close_broker()

    def close(self) -> None:
        """Close the broker; a check that is still running closes it when it ends."""
        self._closed = True
        with self._lock:
            is_checked = self._check is None
        if is_checked:
            self._close_broker()

    def _close_broker(self) -> None:
        with self._lock:
            broker, self._broker = self._broker, None
        if broker is not None:
            broker.close()

"""Calls of the Kafka client that may not return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from millstream.errors import BrokerUnavailableError


def returning(call: Callable[[], None], *, within: float) -> None:
    """Make a call in a thread, and give it up with a BrokerUnavailableError if it does not return in time.

    librdkafka 2.16 ignores the timeout of ``send_offsets_to_transaction`` if the coordinator of the group dies at the
    wrong moment, and waits forever. The thread and its client stay behind then; the next client fences them.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call()
        except BaseException as error:
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    threading.Thread(target=run, name="millstream-kafka-call", daemon=True).start()
    try:
        outcome.result(within)
    except FutureTimeoutError as error:
        raise BrokerUnavailableError(
            f"a call of the Kafka client did not return within {within:g} s", hint="the call is repeated"
        ) from error

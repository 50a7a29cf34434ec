"""Calls of the Kafka client that may not return."""

from __future__ import annotations

import threading

import pytest

from millstream.errors import BrokerUnavailableError
from millstream.kafka.client_calls import returning


def test_a_call_that_does_not_return_is_given_up() -> None:
    released = threading.Event()
    with pytest.raises(BrokerUnavailableError, match=r"did not return within 0\.05 s"):
        returning(lambda: void(released.wait()), within=0.05)
    released.set()


def test_a_call_that_returns_has_its_effect_and_its_error() -> None:
    calls: list[int] = []
    returning(lambda: calls.append(1), within=30)
    assert calls == [1]
    with pytest.raises(ZeroDivisionError):
        returning(lambda: void(1 // 0), within=30)


def void(_: object) -> None:
    """Ignore a value."""

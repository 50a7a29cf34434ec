"""The control socket between a driver and its resident task."""

from __future__ import annotations

import threading

from millstream.batch.control_socket import DriverSocket, TaskSocket


def test_a_task_that_returns_ends_its_listener_without_an_exception() -> None:
    with DriverSocket() as driver:
        for _ in range(20):  # the listener may be about to read, or reading
            with TaskSocket(driver.address) as task:
                task.send_waiting()
            assert task.stop_requested.is_set()
            assert "millstream-control" not in {thread.name for thread in threading.enumerate()}
            while driver.receive_report(0.1) is not None:
                pass


def test_a_driver_that_ends_stops_its_task() -> None:
    driver = DriverSocket()
    with TaskSocket(driver.address) as task:
        assert driver.receive_report(0.1) is None
        driver.close()
        assert task.stop_requested.wait(10)


def test_the_driver_can_ask_the_task_to_stop() -> None:
    with DriverSocket() as driver, TaskSocket(driver.address) as task:
        assert driver.receive_report(0.1) is None
        assert not task.stop_requested.is_set()
        driver.request_stop()
        assert task.stop_requested.wait(10)


def test_a_task_says_at_most_once_a_second_that_it_waits() -> None:
    waits: list[int] = []
    with DriverSocket() as driver, TaskSocket(driver.address) as task:
        driver.on_waiting = lambda: waits.append(1)
        for _ in range(100):
            task.send_waiting()
        while not waits:
            driver.receive_report(0.1)
        assert driver.receive_report(0.0) is None
    assert waits == [1]

"""Threads that change an environment at the same time share a commit, and a failure is that of its own thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from millstream.foundation.storage import Environment, open_environment
from millstream.foundation.transactions import WriteTransaction
from millstream.log.group_commit import GroupCommit

THREADS = 8
Change = Callable[[WriteTransaction], int]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return open_environment(tmp_path, ("numbers",), sync=False)


def put(environment: Environment, number: int) -> Change:
    def change(txn: WriteTransaction) -> int:
        txn.put(b"%d" % number, b"", db=environment.databases["numbers"])
        return number

    return change


def run_together(environment: Environment, changes: list[Change]) -> list[Future[int]]:
    """Let one change wait in its transaction until all others wait behind it."""
    commits, has_begun, may_end = GroupCommit(lambda: environment), Event(), Event()

    def first(_txn: WriteTransaction) -> int:
        has_begun.set()
        assert may_end.wait(20)
        return -1

    with ThreadPoolExecutor(len(changes) + 1) as pool:
        futures = [pool.submit(commits.run, first)]
        assert has_begun.wait(20)
        futures += [pool.submit(commits.run, change) for change in changes]
        while len(commits._waiting) < len(changes):
            Event().wait(0.001)
        may_end.set()
    return futures[1:]


def stored(environment: Environment) -> set[int]:
    with environment.read() as txn:
        return {int(key) for key, _ in txn.cursor(environment.databases["numbers"])}


def test_changes_that_wait_are_one_commit(environment: Environment) -> None:
    before = environment.last_commit()
    results = run_together(environment, [put(environment, number) for number in range(THREADS)])
    assert [result.result() for result in results] == list(range(THREADS))
    assert stored(environment) == set(range(THREADS))
    assert environment.last_commit() - before <= 2, "the change that came first, and all others"


def test_a_change_that_fails_leaves_no_trace_and_does_not_stop_the_others(environment: Environment) -> None:
    def fail(txn: WriteTransaction) -> int:
        txn.put(b"99", b"", db=environment.databases["numbers"])
        raise ValueError("no")

    results = run_together(environment, [put(environment, 1), fail, put(environment, 2)])
    assert (results[0].result(), results[2].result()) == (1, 2)
    with pytest.raises(ValueError, match="no"):
        results[1].result()
    assert stored(environment) == {1, 2}


def test_a_thread_that_is_interrupted_does_not_stop_the_others(environment: Environment) -> None:
    interrupts = [KeyboardInterrupt()]

    def interrupted_once(txn: WriteTransaction) -> int:
        if interrupts:
            raise interrupts.pop()
        return put(environment, 3)(txn)

    results = run_together(environment, [put(environment, 1), interrupted_once, put(environment, 2)])
    failed = [number for number, result in zip((1, 3, 2), results, strict=True) if result.exception()]
    assert len(failed) == 1, "the thread that was committing"
    assert stored(environment) == {1, 2, 3} - set(failed)

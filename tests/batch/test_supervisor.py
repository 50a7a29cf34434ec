from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from millstream.batch import supervisor as supervisor_module
from millstream.batch.activity import Activity
from millstream.batch.batch import Batch
from millstream.batch.journal import Journal
from millstream.batch.loop import BatchLoop, LoopOptions
from millstream.batch.planner import BatchSize, Planner
from millstream.batch.supervisor import Supervisor, kind_of
from millstream.errors import (
    BrokerUnavailableError,
    DeliveryFunctionError,
    EngineError,
    InternalError,
    MillstreamError,
    ProcessingError,
    SerdeError,
    StateError,
    StorageFullError,
)
from millstream.foundation.storage import close_environments
from millstream.log import EmbeddedLog
from millstream.state.task import StateVersion
from millstream.task.report import TaskReport

Topic = Callable[..., str]


class Engine:
    """Fails with each of the given errors first, then runs batches."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.ran: list[int] = []

    def __call__(self, batch: Batch, versions: Mapping[str, StateVersion]) -> list[TaskReport]:
        if self.failures:
            raise self.failures.pop(0)
        self.ran.append(batch.number)
        return []


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def supervise(
    log: EmbeddedLog, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopping: threading.Event
) -> Iterator[Callable[[Engine], Supervisor]]:
    """Supervise a loop over three batches of one record each."""
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 0.0)
    topic([0, 1, 2])
    journal = Journal(tmp_path / "journal", durable=False)
    activity = Activity()

    def supervise(engine: Engine) -> Supervisor:
        def loop() -> BatchLoop:
            options = LoopOptions(
                stopping=stopping,
                activity=activity,
                on_batch=lambda report: stopping.set() if report.plan.number == 3 else None,
            )
            return BatchLoop("test", journal, Planner(log, ["n"], BatchSize(1, 1.0)), engine, [], options)

        return Supervisor("test", journal, loop, stopping=stopping, activity=activity)

    yield supervise
    close_environments(tmp_path)


def test_failures_are_classified() -> None:
    kinds = [kind_of(kind("…")) for kind in (EngineError, BrokerUnavailableError, StorageFullError)]
    assert kinds == ["infrastructure"] * 3
    assert [kind_of(kind("…")) for kind in (ProcessingError, SerdeError, DeliveryFunctionError)] == ["user code"] * 3
    assert [kind_of(error) for error in (StateError("…"), ValueError("…"))] == ["state"] * 2


def test_a_failure_of_the_infrastructure_is_retried_and_no_batch_is_left_out(
    supervise: Callable[[Engine], Supervisor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(EngineError("a worker died"), EngineError("a worker died"))
    supervise(engine).run("caught-up")
    assert engine.ran == [1, 2, 3]
    assert [
        record.getMessage().partition(" app=")[0] for record in caplog.records if record.levelname == "WARNING"
    ] == ["failed, retrying"] * 2
    assert Journal(tmp_path / "journal").history.failure() is None  # a batch was done since


def test_the_same_error_on_the_same_batch_three_times_ends_the_run_with_one_report(
    supervise: Callable[[Engine], Supervisor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(*(EngineError(f"task {number} lost") for number in range(9)))
    with pytest.raises(EngineError, match="batch 1 failed 3 times with the same error, so the app was stopped: task 2"):
        supervise(engine).run()
    assert len(engine.failures) == 6
    failure = Journal(tmp_path / "journal").history.failure()
    assert failure is not None
    assert (failure.attempts, failure.goes_on, "EngineError: task 2 lost" in failure.stack) == (3, False, True)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "ERROR"]
    assert "failed, stopping app=test batch=1 kind=infrastructure attempt=3" in caplog.records[-1].getMessage()


def test_other_errors_and_progress_reset_the_count_of_attempts(supervise: Callable[[Engine], Supervisor]) -> None:
    engine = Engine(*(EngineError(text) for text in ("a", "a", "b", "b")))
    supervise(engine).run("caught-up")
    assert engine.ran == [1, 2, 3]


@pytest.mark.parametrize("error", [ProcessingError("node 'x' failed"), StateError("not ours")])
def test_an_error_that_no_attempt_can_fix_ends_the_run_at_once(
    supervise: Callable[[Engine], Supervisor], error: MillstreamError
) -> None:
    engine = Engine(error, EngineError("never raised"))
    with pytest.raises(type(error), match=error.message):
        supervise(engine).run()
    assert len(engine.failures) == 1


def test_an_unexpected_exception_ends_the_run_with_one_report(
    supervise: Callable[[Engine], Supervisor], tmp_path: Path
) -> None:
    engine = Engine(UnboundLocalError("variable 'sock'"), EngineError("never raised"))
    with pytest.raises(InternalError, match="an unexpected error ended the run: UnboundLocalError: variable 'sock'"):
        supervise(engine).run()
    failure = Journal(tmp_path / "journal").history.failure()
    assert failure is not None
    assert (failure.kind, failure.code, failure.goes_on) == ("state", "internal", False)
    assert "UnboundLocalError" in failure.stack


def test_a_lack_of_file_descriptors_is_retried(supervise: Callable[[Engine], Supervisor]) -> None:
    engine = Engine(OSError(errno.EMFILE, "Too many open files"), OSError(errno.EMFILE, "Too many open files"))
    supervise(engine).run("caught-up")
    assert engine.ran == [1, 2, 3]


@pytest.mark.parametrize("kind", [BrokerUnavailableError, StorageFullError, DeliveryFunctionError])
def test_a_run_waits_for_the_end_of_an_outage_however_long_it_takes(
    supervise: Callable[[Engine], Supervisor], monkeypatch: pytest.MonkeyPatch, kind: type[MillstreamError]
) -> None:
    monkeypatch.setattr("millstream.batch.loop._FIRST_PAUSE_SECONDS", 0.0)
    engine = Engine(*(kind("gone") for _ in range(50)))
    supervise(engine).run()
    assert engine.ran == [1, 2, 3]


def test_a_mistake_in_the_function_of_a_delivery_is_tried_again_less_and_less_often(
    supervise: Callable[[Engine], Supervisor], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr("random.uniform", lambda _low, high: high)
    monkeypatch.setattr(Supervisor, "_ends_within", lambda _self, pause: pauses.append(pause))
    supervise(Engine(*(DeliveryFunctionError("KeyError") for _ in range(40)))).run()
    assert pauses[:9] == [1, 2, 4, 8, 16, 32, 64, 120, 120]
    assert len(pauses) == 40


def test_stop_ends_the_pause_before_the_next_attempt(
    supervise: Callable[[Engine], Supervisor], stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "_FIRST_PAUSE_SECONDS", 60.0)
    failed = threading.Event()
    supervisor = supervise(Engine(EngineError("a worker died")))
    monkeypatch.setattr(supervisor._activity, "set", lambda what, *_: failed.set() if "retrying" in what else None)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    assert failed.wait(30)
    stopping.set()
    thread.join(10)
    assert not thread.is_alive()

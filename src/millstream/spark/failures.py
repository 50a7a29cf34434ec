"""Send errors from workers to the driver as data, so that nothing is lost and Spark does not retry the task."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from millstream import errors
from millstream.errors import EngineError, EngineStoppedError, MillstreamError

_KINDS = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MillstreamError)
}


_MISSING = re.compile(r"No module named '(millstream|lmdb|msgspec|pyarrow|numpy)'|Cannot run program \"([^\"]+)\"")
"""What an executor says on which Millstream, a package that it needs, or the driver's Python is not installed."""


class RemoteFailure(msgspec.Struct, frozen=True):
    """An error as data."""

    code: str
    message: str
    hint: str | None
    facts: dict[str, Any]
    stack: str

    @classmethod
    def of(cls, error: Exception) -> RemoteFailure:
        """Describe an error; any other than a MillstreamError comes from the engine or from the user's imports."""
        stack = "".join(traceback.format_exception(error))
        if isinstance(error, MillstreamError):
            facts = {name: value for name, value in error.facts.items() if isinstance(value, str | int | None)}
            return cls(error.code, error.message, error.hint, facts, stack)
        return cls(EngineError.code, f"a worker failed: {type(error).__name__}: {error}", None, {}, stack)

    def error(self) -> MillstreamError:
        """Return the error, with the worker's stack as its cause."""
        error = _KINDS[self.code](self.message, hint=self.hint, **self.facts)
        error.__cause__ = WorkerStackError(self.stack)
        return error


class WorkerStackError(Exception):
    """The stack of an error in a worker."""


def explained(error: Exception) -> EngineError:
    """Return an error that says in one sentence why Spark could not run a job."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    reason = next(
        (line.strip() for line in text.splitlines() if re.search(r"(Error|Exception|exited|killed)", line)), ""
    )
    if isinstance(error, ConnectionError | Py4JError) and not isinstance(error, Py4JJavaError):
        return EngineStoppedError(
            "Spark has stopped: its JVM does not respond, for example because it was killed or out of memory",
            hint="Spark is started again, and then the batch is run again",
        )
    if "SPARK_JOB_CANCELLED" in text:
        reason = "it took longer than stuck_after and was cancelled"
    elif missing := _MISSING.search(text):
        return EngineError(
            f"the executors cannot run Millstream: they have no {missing[1] or missing[2]!r}",
            hint="install Python and Millstream on all hosts and set spark.pyspark.python to that Python, or send an "
            "environment with spark.archives",
        )
    return EngineError(
        f"Spark could not run a batch: {reason[:300] or f'{type(error).__name__}: {error}'[:300]}",
        hint="the batch is run again",
    )


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of PySpark, Py4J and the system into an EngineError."""
    try:
        yield
    except MillstreamError:
        raise
    except (Py4JError, PySparkException, OSError, EOFError, UnboundLocalError) as error:
        # PySpark raises UnboundLocalError if it cannot open a socket to the JVM
        raise explained(error) from error
    except Exception as error:
        if not _has_stopped():
            raise
        raise EngineStoppedError(
            "Spark was stopped while a batch ran", hint="Spark is started again, and then the batch is run again"
        ) from error


def _has_stopped() -> bool:
    """Whether another thread has stopped Spark; PySpark then fails where it happens to use what is gone."""
    context = SparkContext._active_spark_context
    return context is None or context._jsc is None

"""Hide what Spark prints when it starts and when it ends a worker; everything else on standard error passes."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_STARTUP_MESSAGES = re.compile(
    rb"Using incubator modules|Using Spark's default log4j profile|Setting default log level|To adjust logging level"
    rb"|NativeCodeLoader|Setting Spark log level|^\s*$"
)
_FRAME = re.compile(rb'^  File "(.*)"')
_LOST_CONNECTION = (b"BrokenPipeError", b"ConnectionResetError")


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Filter the standard error of processes that are started in the block, for as long as they live."""
    original = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_copy_lines, args=(reading, original), name="millstream-stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)


def _copy_lines(reading: int, original: int) -> None:
    with open(reading, "rb") as lines, open(original, "wb", buffering=0) as out:  # these are descriptors
        out.writelines(relevant_lines(lines))


def relevant_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines that concern a user.

    A worker that Spark has ended, because it needed only some of the rows or because it stops, finds its connection
    closed. PySpark's daemon then prints a stack trace, in which there are no frames but its own.
    """
    trace: list[bytes] = []
    for line in lines:
        if line.startswith(b"Traceback (most recent call last):"):
            yield from trace
            trace = [line]
        elif trace and line.startswith(b" "):
            trace.append(line)
        elif trace:
            if not (line.startswith(_LOST_CONNECTION) and _is_of_daemon(trace)):
                yield from (*trace, line)
            trace = []
        elif not _STARTUP_MESSAGES.search(line):
            yield line
    yield from trace


def _is_of_daemon(trace: list[bytes]) -> bool:
    frames = [match[1] for line in trace if (match := _FRAME.match(line))]
    return bool(frames) and all(path.endswith(b"pyspark/daemon.py") for path in frames)

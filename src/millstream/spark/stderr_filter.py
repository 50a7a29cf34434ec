"""Hide the messages that Spark prints when it starts; everything else on standard error passes."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STARTUP_MESSAGES = re.compile(
    rb"Using incubator modules|Using Spark's default log4j profile|Setting default log level|To adjust logging level"
    rb"|NativeCodeLoader|Setting Spark log level|^\s*$"
)


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
        for line in lines:
            if not _STARTUP_MESSAGES.search(line):
                out.write(line)

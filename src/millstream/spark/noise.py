"""Keep Spark's small talk at start from the user's terminal; whatever else it says, and what tasks print, passes."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SMALL_TALK = re.compile(
    rb"Using incubator modules|Using Spark's default log4j profile|Setting default log level|To adjust logging level"
    rb"|NativeCodeLoader|Setting Spark log level|^\s*$"
)


@contextmanager
def filtered_stderr() -> Iterator[None]:
    """Let processes that are started in the block write their errors through a filter, for as long as they live."""
    own = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_pass_on, args=(reading, own), name="millstream-stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)


def _pass_on(reading: int, own: int) -> None:
    with open(reading, "rb") as lines, open(own, "wb", buffering=0) as out:  # these are descriptors
        for line in lines:
            if not _SMALL_TALK.search(line):
                out.write(line)

"""Turn stored bytes that cannot be decoded into an error that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from millstream.foundation.damage import damaged


@contextmanager
def decoding(directory: Path) -> Iterator[None]:
    """Translate errors of decoding entries of the environment in ``directory``; must not contain user code."""
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise damaged(directory / "data.mdb", f"an entry cannot be decoded ({error})") from error

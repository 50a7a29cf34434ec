"""The limit of open files of this process."""

from __future__ import annotations

import contextlib
import resource


def raise_open_file_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return the limit; child processes inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower limit than the hard limit says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft

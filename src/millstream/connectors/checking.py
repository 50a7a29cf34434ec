"""What several sinks check before they run; a problem is one sentence that says what to do."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult

import pyarrow as pa

from millstream.foundation.text import error_text, printable

_TIMEOUT_SECONDS = 10.0


def directory_problems(path: Path) -> list[str]:
    """Return what stops files from being written to a directory, which need not exist yet."""
    existing = path.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        return [f"{str(existing)!r} is not a directory; choose another path"]
    if not os.access(existing, os.W_OK | os.X_OK):
        return [f"{str(existing)!r} cannot be written to; change its permissions or choose another path"]
    return []


def connection_problems(parts: SplitResult, ca_file: str | None) -> list[str]:
    """Return what stops a connection to the host of a URL; nothing is sent but what TLS needs."""
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    try:
        port = parts.port or (443 if is_secure else 80)
        with socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection:
            if is_secure:
                context = ssl.create_default_context(cafile=ca_file)
                context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        reason = printable(error_text(error))[:300]
        return [f"the certificate of {host!r} is not valid: {reason}; ca_file= adds an authority"]
    except OSError as error:
        reason = printable(error_text(error))[:300]
        return [f"{host!r} cannot be reached: {reason}; check the URL, and whether the service runs"]
    return []


def column_problems(
    table: str, held: Mapping[str, pa.DataType], declared: Mapping[str, pa.DataType], needed: Sequence[str]
) -> list[str]:
    """Return which columns of an existing table do not fit what is declared, or are missing."""
    problems = [
        f"column {name!r} of {table} has type {held[name]}, and columns= says {declared[name]}; change columns="
        for name in declared
        if name in held and held[name] != declared[name]
    ]
    missing = [name for name in needed if name not in held]
    problems += [f"{table} has no column {name!r}, which this sink needs; use another table" for name in missing]
    return problems

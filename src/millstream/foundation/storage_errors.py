"""What errors of LMDB and the file system mean."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import lmdb

from millstream.errors import MillstreamError, StorageError, StorageFullError
from millstream.foundation.damage import damaged

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DAMAGE = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.PanicError)
_MIN_FREE_BYTES = 1 << 20  # a disk with less free space is full


def storage_error(error: Exception, path: Path) -> MillstreamError | None:
    """Return the error to raise instead of one of LMDB or the file system; None for a full map and our own errors."""
    if isinstance(error, lmdb.MapFullError | StorageError):
        return None
    if isinstance(error, _DAMAGE):
        return damaged(path / "data.mdb", str(error))
    if _is_full(error, path):
        return StorageFullError(
            f"no space left for {str(path)!r}", hint="free some disk space; nothing was lost", path=str(path)
        )
    return StorageError(
        f"cannot use {str(path)!r}: {_reason(error, path)}",
        hint="check that it is a local directory that you own, or choose another with data_dir=",
        path=str(path),
    )


def _reason(error: Exception, path: Path) -> str:
    """Return what the system reports, without its number and without a path that the message has named already."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error).removeprefix(f"{path}: ")
    other = "" if error.filename is None or Path(error.filename) == path else f": {str(error.filename)!r}"
    return f"{error.strerror}{other}"


def _is_full(error: Exception, path: Path) -> bool:
    """Whether an error means that the disk is full: LMDB reports a short write as an input/output error."""
    codes = {getattr(error, "errno", None), *(code for code in _FULL if os.strerror(code) in str(error))}
    if codes & _FULL:
        return True
    if errno.EIO not in codes and os.strerror(errno.EIO) not in str(error):
        return False
    try:
        status = os.statvfs(path)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < _MIN_FREE_BYTES

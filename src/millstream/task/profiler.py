"""Sample what batches do while a profile is requested.

``millstream profile`` writes a request beside the state of an app. A process looks for it when it begins a batch, and
then samples its batches in a thread until the request ends or is deleted. Without a request, a batch costs one look for
a file.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import msgspec

from millstream.foundation.small_file import read_file, replace_file

USER_MARK = " [user]"
"""The end of the label of a frame that is neither Millstream's nor a library's."""
_REQUEST = "request.json"
_WRITE_SECONDS = 0.5
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name))) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_CELLS = "<ipython"


class ProfileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to sample batches."""

    id: str
    until: float
    """Wall-clock time in seconds."""
    interval: float
    """Seconds between two samples."""


class ProcessProfile(msgspec.Struct, kw_only=True):
    """The samples of one process so far."""

    process: int
    samples: int = 0
    """How often the process was sampled, between batches too."""
    stacks: dict[str, int] = {}
    """How often each stack of a batch was seen; its frames from the outermost on, separated by semicolons."""
    is_complete: bool = False


def request_profile(directory: Path, request: ProfileRequest) -> None:
    """Ask all processes that run batches of an app to sample them."""
    replace_file(directory / _REQUEST, msgspec.json.encode(request))


def end_request(directory: Path, request_id: str) -> None:
    """Delete a request and what processes have written for it."""
    (directory / _REQUEST).unlink(missing_ok=True)
    for path in directory.glob(f"{request_id}.*"):
        path.unlink(missing_ok=True)


def process_profiles(directory: Path, request_id: str) -> list[ProcessProfile]:
    """Return what each process has sampled so far."""
    profiles = (read_file(path, ProcessProfile) for path in sorted(directory.glob(f"{request_id}.*.json")))
    return [profile for profile in profiles if profile is not None]


@contextmanager
def profiled(directory: Path) -> Iterator[None]:
    """Sample the block, which runs a batch, if a profile is requested in ``directory``."""
    sampler = _sampler_for(directory) if os.path.exists(directory) else None  # noqa: PTH110, faster than Path.exists
    if sampler is None:
        yield
        return
    sampler.thread = threading.get_ident()
    try:
        yield
    finally:
        sampler.thread = None


_current: Sampler | None = None


def _sampler_for(directory: Path) -> Sampler | None:
    """Return the sampler of the current request, if there is one; a forked process starts its own."""
    global _current  # noqa: PLW0603, a process has one sampler
    request = read_file(directory / _REQUEST, ProfileRequest)
    if request is None or request.until <= time.time():
        return None
    if _current is None or _current.request != request or _current.process != os.getpid():
        _current = Sampler(directory, request)
    return _current


class Sampler:
    """Samples the thread that runs batches until the request ends."""

    def __init__(self, directory: Path, request: ProfileRequest) -> None:
        self.request = request
        self.process = os.getpid()
        self.thread: int | None = None
        """The thread that runs a batch now."""
        self._is_requested = True
        self._request_file = directory / _REQUEST
        self._file = directory / f"{request.id}.{self.process}.json"
        self._samples = 0
        self._stacks: Counter[str] = Counter()
        self._labels: dict[CodeType, str] = {}
        threading.Thread(target=self._run, name="millstream-profiler", daemon=True).start()

    def _run(self) -> None:
        written_at = time.monotonic()
        while time.time() < self.request.until and self._is_requested:
            time.sleep(self.request.interval)
            self._samples += 1
            frame = None if self.thread is None else sys._current_frames().get(self.thread)
            if frame is not None:
                self._stacks[self._stack(frame)] += 1
            del frame  # a frame keeps all its variables alive
            if time.monotonic() >= written_at + _WRITE_SECONDS:
                self._write(is_complete=False)
                self._is_requested = self._request_file.exists()
                written_at = time.monotonic()
        self._write(is_complete=True)

    def _stack(self, frame: FrameType | None) -> str:
        """Return the frames of a batch, without those of the process that runs it."""
        labels: list[str] = []
        while frame is not None:
            code = frame.f_code
            label = self._labels.get(code)
            if label is None:
                label = self._labels[code] = frame_label(code.co_filename, code.co_firstlineno, code.co_qualname)
            labels.append(label)
            if label.startswith("millstream/batch/execute.py:") and code.co_name.startswith("run_"):
                break
            frame = frame.f_back
        return ";".join(reversed(labels))

    def _write(self, *, is_complete: bool) -> None:
        profile = ProcessProfile(
            process=self.process, samples=self._samples, stacks=dict(self._stacks), is_complete=is_complete
        )
        try:
            if self._file.parent.is_dir():
                replace_file(self._file, msgspec.json.encode(profile))
        except OSError:
            return  # a profile must not disturb the app


def frame_label(path: str, line: int, name: str) -> str:
    """Return how a frame is shown: its file, the first line of its function, and the function.

    >>> frame_label("/home/ann/shop/orders.py", 12, "clean")
    'shop/orders.py:12 clean [user]'
    """
    name = name.replace(";", ",").replace(".<locals>", "")
    if path.startswith(_PACKAGE):
        return f"millstream/{path.removeprefix(_PACKAGE)}:{line} {name}"
    is_user = not path.startswith((*_LIBRARIES, "<")) or path.startswith(_CELLS)
    short = "/".join(Path(path).parts[-2:]).replace(";", ",")
    return f"{short}:{line} {name}{USER_MARK if is_user else ''}"

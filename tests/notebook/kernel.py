"""A real Jupyter kernel in which tests run cells."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jupyter_client.manager import KernelManager


class CellError(Exception):
    """A cell raised an exception; the message is what the notebook shows."""


class Kernel:
    """Runs cells and collects what they show."""

    def __init__(self, client: Any, manager: Any) -> None:
        self._client = client
        self.interrupt: Callable[[], None] = manager.interrupt_kernel
        self.displays: dict[str, dict[str, str]] = {}
        """The latest data of each display by its id."""

    def run(self, code: str, *, timeout: float = 120) -> dict[str, str]:
        """Run a cell and return the data of its result and under ``"stdout"`` what it printed."""
        self.start(code)
        return self.finish(timeout)

    def start(self, code: str, *, printing: str | None = None, timeout: float = 120) -> None:
        """Start a cell, and wait until it prints a text if one is given."""
        self._request = self._client.execute(code, stop_on_error=False)
        deadline = time.monotonic() + timeout
        while printing is not None:
            kind, content, is_own = self._next_message(deadline)
            if is_own and kind == "stream" and printing in content["text"]:
                return

    def finish(self, timeout: float = 120) -> dict[str, str]:
        """Wait for the end of the cell that was started, and return what ``run`` returns."""
        shown: dict[str, str] = {}
        error = ""
        deadline = time.monotonic() + timeout
        while True:
            kind, content, is_own = self._next_message(deadline)
            if is_own and kind == "execute_result":
                shown.update(content["data"])
            elif is_own and kind == "stream":
                shown[content["name"]] = shown.get(content["name"], "") + content["text"]
            elif is_own and kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
            elif is_own and kind == "status" and content["execution_state"] == "idle":
                break
        if error:
            raise CellError(error)
        return shown

    def wait_for_display(self, text: str, *, timeout: float = 60) -> None:
        """Wait until a display shows a text, with no cell running."""
        deadline = time.monotonic() + timeout
        while not any(text in shown for data in self.displays.values() for shown in data.values()):
            self._next_message(deadline)

    def _next_message(self, deadline: float) -> tuple[str, dict[str, Any], bool]:
        try:
            message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise TimeoutError(f"the kernel sends nothing; displays: {self.displays}") from None
        kind, content = message["msg_type"], message["content"]
        if kind in ("display_data", "update_display_data"):
            self.displays[content["transient"]["display_id"]] = content["data"]
        return kind, content, message["parent_header"].get("msg_id") == self._request


@contextmanager
def running_kernel(directory: Path) -> Iterator[Kernel]:
    """Start a kernel in a directory, on sockets that only this user can open."""
    with TemporaryDirectory(prefix="kernel-") as sockets:  # paths of sockets must be short
        manager = KernelManager(transport="ipc", ip=f"{sockets}/k")
        manager.start_kernel(cwd=str(directory))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield Kernel(client, manager)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            manager.cleanup_resources()

"""Views of a table that follow a running app: a thread replaces what a cell shows whenever it has changed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError, MillstreamError
from millstream.notebook.charts import chart
from millstream.notebook.tables import SHOWN_ROWS, first_rows
from millstream.serve.html import element
from millstream.tables.rows import TableReader

_CHART_KEYS = 8
_views: dict[tuple[str, str], LiveView] = {}
"""The running view of each kind and table: a cell that runs again replaces its view."""


class LiveView:
    """A view in a cell; it is updated until ``stop()``, until it is opened again, or until the kernel ends."""

    def __init__(self, name: str, draw: Callable[[], Any], every_seconds: float) -> None:
        self.name = name
        self._draw = draw
        self._every_seconds = every_seconds
        self._stopping = threading.Event()
        self._shown, content = self._content()
        self._handle = _ipython().display(content, display_id=True)
        self._thread = threading.Thread(target=self._follow, name=f"millstream-view-{name}", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        state = "updated until .stop()" if self.is_running else "stopped"
        return f"<live view of table {self.name}, {state}>"

    @property
    def is_running(self) -> bool:
        """Whether the view is still updated."""
        return self._thread.is_alive() and not self._stopping.is_set()

    def stop(self) -> None:
        """Stop updating; what is shown stays."""
        self._stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stopping.wait(self._every_seconds):
            shown, content = self._content()
            if shown != self._shown:  # an idle table sends nothing to the notebook
                self._shown = shown
                self._handle.update(content)

    def _content(self) -> tuple[str, Any]:
        """Return what to show; an error is shown in place of the table and may go away, as a missing file does."""
        try:
            content = self._draw()
        except MillstreamError as error:
            content = _ipython().HTML(element("p", f"{type(error).__name__}: {error}"))
        return content.data, content


def live_table(table: TableReader, *, rows: int = SHOWN_ROWS, every: Duration = "1 s") -> LiveView:
    """Show the first rows of a table, or its latest windows, and update them while the app runs.

    The table is read at this interval, and the cell changes when the rows have changed. Running the cell again replaces
    the view; ``stop()`` of the returned view ends it.
    """
    return _open("table", table, lambda: _ipython().HTML(first_rows(table, rows)), every)


def live_chart(
    table: TableReader, *, y: str | None = None, keys: int = _CHART_KEYS, every: Duration = "1 s"
) -> LiveView:
    """Show a table as a chart and update it while the app runs: windows as lines over time, other tables as bars.

    ``y`` names the field of the value to show, by default the first with numbers. Only the ``keys`` with the largest
    numbers are shown.
    """
    chart(table, y, keys)  # an unknown column is an error of the cell
    return _open("chart", table, lambda: _ipython().SVG(chart(table, y, keys)), every)


def _open(kind: str, table: TableReader, draw: Callable[[], Any], every: Duration) -> LiveView:
    seconds = milliseconds(every) / 1000
    if seconds <= 0:
        raise DefinitionError(f"every={every!r} is not an interval", hint='use "1 s", for example')
    previous = _views.pop((kind, table.location), None)
    if previous is not None:
        previous.stop()
    view = _views[kind, table.location] = LiveView(table.name, draw, seconds)
    return view


def _ipython() -> Any:
    """Return IPython's displays, or say what is missing."""
    try:
        shell = importlib.import_module("IPython").get_ipython()
        displays = importlib.import_module("IPython.display")
    except ModuleNotFoundError:
        shell = displays = None
    if shell is None:
        raise DefinitionError("a live view needs a notebook", hint="open it in Jupyter, or use `millstream tables`")
    return displays

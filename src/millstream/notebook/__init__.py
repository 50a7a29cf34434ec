"""What a notebook shows: topologies as pictures, tables as HTML, and views of tables that follow a running app.

Handles, apps and tables call this package when Jupyter asks them how they look; ``live_table`` and ``live_chart`` are
called by users.
"""

from __future__ import annotations

from millstream.notebook.live import LiveView, live_chart, live_table

__all__ = ["LiveView", "live_chart", "live_table"]

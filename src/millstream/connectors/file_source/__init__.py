"""Follow files: lines, JSON lines, CSV and Parquet, as they are written and rotated."""

from __future__ import annotations

from millstream.connectors.file_source.source import FollowFiles

__all__ = ["FollowFiles"]

"""The source that follows files."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee
from millstream.connectors.file_source.formats import Csv, CsvType, Format, Lines, TextFormat
from millstream.connectors.file_source.reader import FilesReader, Following
from millstream.connectors.file_source.tracked import FilesPosition
from millstream.connectors.lineage import check_choice
from millstream.connectors.payloads import RecordFields, decoded_position
from millstream.durations import Duration, milliseconds
from millstream.errors import DefinitionError


class FollowFiles:
    """Read files as they are written, exactly once: lines, JSON lines, CSV or Parquet.

    ``path`` is a file, a directory or a pattern such as ``logs/*.jsonl``. A file is known by its inode and by what was
    read of it, so that a rotated file is not read twice, and one that was truncated is read again from its start. A
    last line without a line feed waits for it, for as long as ``settled`` says. Parquet files are read when they are
    complete. ``key``, ``timestamp`` and ``deleted`` are paths of fields, such as ``order.id``.

    >>> source = FollowFiles("logs/*.jsonl", topic="logs", key="host")
    >>> list(source.topics()), source.guarantee
    (['logs'], 'exactly once')
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        path: str | Path,
        *,
        topic: str,
        format: Format = "jsonl",
        key: str | None = None,
        timestamp: str | None = None,
        deleted: str | None = None,
        partitions: int = 4,
        delimiter: str = ",",
        types: Mapping[str, CsvType] | None = None,
        settled: Duration | None = None,
        max_record_bytes: int = 1 << 20,
    ) -> None:
        check_choice("format", format, ("lines", "jsonl", "csv", "parquet"))
        if (types or delimiter != ",") and format != "csv":
            raise DefinitionError(f"types= and delimiter= are for CSV, and the format is {format!r}")
        for name, kind in (types or {}).items():
            check_choice(f"types[{name!r}]", kind, ("str", "int", "float", "bool"))
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise DefinitionError(f"delimiter={delimiter!r} is not valid", hint="use one character such as ';'")
        if format == "lines" and (key or timestamp or deleted):
            raise DefinitionError("lines have no fields", hint="use format='jsonl', or leave key= and timestamp= out")
        csv.field_size_limit(max(csv.field_size_limit(), max_record_bytes))
        self._topic, self._partitions = topic, partitions
        lines: TextFormat | None = {"csv": Csv(delimiter, types or {}), "parquet": None}.get(format, Lines())
        self._following = Following(
            path=Path(path).absolute(),
            topic=topic,
            lines=lines,
            fields=RecordFields(key=key, timestamp=timestamp, deleted=deleted),
            settled=None if settled is None else milliseconds(settled) / 1000,
            max_record_bytes=max_record_bytes,
        )

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the one topic."""
        return {self._topic: TopicConfig(partitions=self._partitions)}

    def check(self) -> Sequence[str]:
        """Return whether the directory can be read; files may come later."""
        directory = self._following.directory
        return [] if directory.is_dir() else [f"{str(directory)!r} is not a directory; create it or correct path="]

    def open(self, position: bytes | None, context: ConnectorContext, /) -> FilesReader:
        """Continue in all files that the position knows, and read those that are new from their start."""
        stored = decoded_position(position, FilesPosition, "files") if position else FilesPosition()
        return FilesReader(self._following, stored, context)

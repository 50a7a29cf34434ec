"""Write each batch as one file, Parquet or JSON lines, to a directory or to S3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.arrow_rows import declared_columns, row_of, to_table
from millstream.connectors.checking import directory_problems
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.rendering import rejected
from millstream.errors import ConnectorError, DefinitionError, SerdeError, TargetUnavailableError
from millstream.foundation.file_systems import open_file_system, write_whole_file
from millstream.foundation.json_text import json_bytes
from millstream.foundation.text import error_text, printable

Format = Literal["parquet", "jsonl"]
_MARKER = "_millstream.json"
_PERMANENT = (
    "ACCESS_DENIED",
    "NO_SUCH_BUCKET",
    "INVALID_ACCESS_KEY",
    "SIGNATURE_DOES_NOT_MATCH",
    "allow_bucket_creation",
)
_MODE = 0o644


class Files:
    """A sink that writes each batch as one file, whose name is the lineage and the number of the batch.

    A file appears as a whole, so that listing the directory shows complete batches only, and a repeated batch replaces
    its file by the same rows: exactly once. Rows have the fields of the value, and ``_key``, ``_topic``,
    ``_partition``, ``_offset``, ``_timestamp`` and ``_deleted``, which is true for tombstones. Declared ``columns``
    have the same types in all Parquet files. Credentials for S3 come from the environment, as for the tools of AWS.

    >>> Files("s3://lake/orders", format="parquet", columns={"id": "int64", "total": "double"})
    Files('s3://lake/orders', format='parquet')
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        uri: str,
        *,
        format: Format = "parquet",
        columns: Mapping[str, str] | None = None,
        on_other_lineage: OtherLineage = "refuse",
    ) -> None:
        check_choice("format", format, ("parquet", "jsonl"))
        check_choice("on_other_lineage", on_other_lineage, ("refuse", "adopt"))
        if "@" in uri.partition("://")[2].partition("/")[0]:
            raise DefinitionError("the URI contains credentials", hint="set AWS_ACCESS_KEY_ID or use a profile or role")
        if columns and format == "jsonl":
            raise DefinitionError("columns= is for Parquet, and the format is 'jsonl'", hint="leave columns= out")
        declared_columns(columns)
        self.uri = uri
        self.format = format
        self.columns = dict(columns or {})
        self.on_other_lineage = on_other_lineage

    def __repr__(self) -> str:
        return f"Files({self.uri!r}, format={self.format!r})"

    def open(self, context: ConnectorContext) -> FilesWriter:
        """Open the file system; the directory is created by the first batch."""
        return FilesWriter(self, context.name)

    def check(self) -> Sequence[str]:
        """Look at the directory without writing to it, and return what would stop the sink."""
        try:
            return FilesWriter(self, "check").problems()
        except ConnectorError as error:
            return [str(error)]


class FilesWriter:
    """Writes the batches of one sink."""

    def __init__(self, sink: Files, name: str) -> None:
        self._sink = sink
        self._name = name
        self._columns = declared_columns(sink.columns)
        self._file_system, root = open_file_system("uri", sink.uri)
        self._root = root.rstrip("/")
        self._lineage: str | None = None

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Write the file of a batch, or replace it by the same rows."""
        data, problems = self._encode(batch)
        try:
            if self._lineage != batch.lineage:
                self._claim(batch.lineage)
            if data is not None:
                name = f"{batch.lineage}-{batch.number:012d}.{self._sink.format}"
                write_whole_file(self._file_system, f"{self._root}/{name}", data, mode=_MODE)
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error
        return problems

    def problems(self) -> list[str]:
        """Return what would stop a first batch; of a remote directory, whether it can be read."""
        if self._file_system.type_name == "local":
            return directory_problems(Path(self._root))
        try:
            kind = self._file_system.get_file_info(self._root).type
            bucket = self._file_system.get_file_info(self._root.partition("/")[0]).type
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error
        if kind == fs.FileType.File:
            return [f"{self._sink.uri!r} is a file; choose another path"]
        if self._file_system.type_name == "s3" and bucket == fs.FileType.NotFound:
            return [f"the bucket of {self._sink.uri!r} does not exist; create it"]
        return []

    def close(self) -> None:
        """There is nothing to close: no file is open between batches."""

    def _claim(self, lineage: str) -> None:
        """Let the directory belong to a lineage, if it belongs to none or may be adopted."""
        path = f"{self._root}/{_MARKER}"
        try:
            with self._file_system.open_input_stream(path, compression=None) as stream:
                stored = str(msgspec.json.decode(stream.read())["lineage"])
        except FileNotFoundError:
            stored = None
        if stored not in (None, lineage) and self._sink.on_other_lineage == "refuse":
            raise other_lineage(self._name, str(stored), lineage)
        if stored != lineage:
            write_whole_file(self._file_system, path, json_bytes({"lineage": lineage}), mode=_MODE)
        self._lineage = lineage

    def _encode(self, batch: SinkBatch) -> tuple[bytes | None, list[Rejected]]:
        """Return the content of a file, None without rows, and the records that it cannot hold."""
        if self._sink.format == "jsonl":
            return _json_lines(batch)
        table, problems = to_table(batch.records, self._columns)
        if table.num_rows == 0:
            return None, problems
        stream = pa.BufferOutputStream()
        pq.write_table(table, stream, compression="zstd")
        return stream.getvalue().to_pybytes(), problems

    def _failed(self, error: Exception) -> ConnectorError:
        reason = printable(error_text(error))[:300]
        text = f"sink {self._name!r} cannot write to {self._sink.uri!r}: {reason}"
        if isinstance(error, PermissionError | NotADirectoryError) or any(word in reason for word in _PERMANENT):
            return ConnectorError(text, hint="check the URI and its permissions", sink=self._name)
        return TargetUnavailableError(text, sink=self._name)


def _json_lines(batch: SinkBatch) -> tuple[bytes | None, list[Rejected]]:
    lines, problems = [], []
    for record in batch.records:
        try:
            lines.append(json_bytes(row_of(record)) + b"\n")
        except SerdeError as error:
            problems.append(rejected(record, error))
    return b"".join(lines) or None, problems

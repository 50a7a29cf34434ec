"""Write batches to a Delta table; its log stores the number of the last batch with the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.arrow_rows import DELETED, KEY, OWN_COLUMNS, declared_columns, to_table
from millstream.connectors.checking import column_problems, directory_problems
from millstream.connectors.extras import missing_package
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.upserts import latest_rows
from millstream.errors import ConnectorError, TargetUnavailableError
from millstream.foundation.text import error_text, printable
from millstream.secret import Secret, revealed

if TYPE_CHECKING:
    import deltalake

TableMode = Literal["append", "upsert"]


class Delta:
    """A sink that appends each batch to a Delta table, or with ``mode="upsert"`` keeps one row for each key.

    The number of a batch is an application transaction of the same commit, so that a repeated batch changes nothing:
    exactly once. Rows have the fields of the value and the columns of ``Files``. The table is created by the first
    batch, with declared ``columns`` and those of its rows; new fields become new columns. ``storage`` has the options
    of the object store, such as ``{"AWS_REGION": "eu-west-1"}``.

    >>> Delta("s3://lake/totals", mode="upsert", columns={"total": "double"})
    Delta('s3://lake/totals', mode='upsert')
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        uri: str,
        *,
        mode: TableMode = "append",
        columns: Mapping[str, str] | None = None,
        storage: Mapping[str, str | Secret] | None = None,
        on_other_lineage: OtherLineage = "refuse",
    ) -> None:
        check_choice("mode", mode, ("append", "upsert"))
        check_choice("on_other_lineage", on_other_lineage, ("refuse", "adopt"))
        declared_columns(columns)
        self.uri = uri
        self.mode = mode
        self.columns = dict(columns or {})
        self.storage = dict(storage or {})
        self.on_other_lineage = on_other_lineage

    def __repr__(self) -> str:
        return f"Delta({self.uri!r}, mode={self.mode!r})"

    def open(self, context: ConnectorContext) -> DeltaWriter:
        """Prepare; the table is opened by the first batch."""
        return DeltaWriter(self, context.app, context.name)

    def check(self) -> Sequence[str]:
        """Read the table, if it exists, and return what would stop the sink."""
        try:
            return DeltaWriter(self, "check", "check").problems()
        except ConnectorError as error:
            return [str(error)]


class DeltaWriter:
    """Writes the batches of one sink."""

    def __init__(self, sink: Delta, app: str, name: str) -> None:
        try:
            import deltalake
            import deltalake.exceptions
        except ModuleNotFoundError as error:
            raise missing_package("deltalake", "delta") from error
        self._delta = deltalake
        self._sink = sink
        self._name = name
        self._id = f"millstream/{app}/{name}"
        self._storage = revealed(sink.storage)

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Commit the rows of a batch, unless the table has them."""
        with self._translated():
            return self._write(batch)

    def problems(self) -> list[str]:
        """Return what would stop a first batch."""
        with self._translated():
            table = self._table()
        if table is not None:
            needed = (KEY, DELETED) if self._sink.mode == "upsert" else ()
            declared = declared_columns(self._sink.columns)
            return column_problems(f"table {self._sink.uri!r}", _columns_of(table), declared, needed)
        return [] if "://" in self._sink.uri else directory_problems(Path(self._sink.uri))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._delta.exceptions
        try:
            yield
        except errors.CommitFailedError as error:  # another writer was faster
            raise TargetUnavailableError(self._text(error), sink=self._name) from error
        except (errors.DeltaError, pa.ArrowException, ValueError) as error:
            raise ConnectorError(
                self._text(error), hint="check that the columns of the table fit columns= and the values"
            ) from error
        except OSError as error:
            if isinstance(error, PermissionError):
                raise ConnectorError(self._text(error), hint="check its permissions") from error
            raise TargetUnavailableError(self._text(error), sink=self._name) from error

    def close(self) -> None:
        """There is nothing to close: the table is opened for each batch, since others may write to it too."""

    def _write(self, batch: SinkBatch) -> list[Rejected]:
        table = self._table()
        known = declared_columns(self._sink.columns) | ({} if table is None else _columns_of(table))
        make_rows = latest_rows if self._sink.mode == "upsert" else to_table
        rows, problems = make_rows(batch.records, {name: known[name] for name in known if name not in OWN_COLUMNS})
        if table is not None and self._is_written(table, batch):
            return problems
        properties = self._commit_properties(batch)
        if table is None or self._sink.mode == "append":
            created = rows if table is not None or self._sink.mode == "append" else _without_tombstones(rows)
            self._delta.write_deltalake(
                self._sink.uri,
                created,
                mode="append",
                schema_mode="merge",
                storage_options=self._storage,
                commit_properties=properties,
            )
        else:
            self._merge(table, rows, properties)
        return problems

    def _table(self) -> deltalake.DeltaTable | None:
        try:
            return self._delta.DeltaTable(self._sink.uri, storage_options=self._storage)
        except self._delta.exceptions.TableNotFoundError:
            return None

    def _is_written(self, table: deltalake.DeltaTable, batch: SinkBatch) -> bool:
        stored = table.transaction_version(f"{self._id}/lineage")
        if stored is not None and stored != crc32(batch.lineage.encode()):
            if self._sink.on_other_lineage == "refuse":
                raise other_lineage(self._name, f"crc32 {stored}", batch.lineage)
            return False
        number = table.transaction_version(self._id)
        return stored is not None and number is not None and number >= batch.number

    def _commit_properties(self, batch: SinkBatch) -> deltalake.CommitProperties:
        transaction = self._delta.Transaction
        return self._delta.CommitProperties(
            custom_metadata={"millstream.lineage": batch.lineage, "millstream.batch": str(batch.number)},
            app_transactions=[
                transaction(self._id, batch.number),
                transaction(f"{self._id}/lineage", crc32(batch.lineage.encode())),
            ],
        )

    def _merge(self, table: deltalake.DeltaTable, rows: pa.Table, properties: deltalake.CommitProperties) -> None:
        (
            table.merge(
                rows,
                f"target.{KEY} = source.{KEY}",
                source_alias="source",
                target_alias="target",
                merge_schema=True,
                commit_properties=properties,
            )
            .when_matched_delete(f"source.{DELETED}")
            .when_matched_update_all(f"not source.{DELETED}")
            .when_not_matched_insert_all(f"not source.{DELETED}")
            .execute()
        )

    def _text(self, error: Exception) -> str:
        return f"sink {self._name!r} cannot write to {self._sink.uri!r}: {printable(error_text(error))[:500]}"


def _columns_of(table: deltalake.DeltaTable) -> dict[str, pa.DataType]:
    schema = pa.schema(table.schema().to_arrow())
    return {field.name: field.type for field in schema}


def _without_tombstones(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows[DELETED]))

"""Write batches to an Iceberg table; a property of the table stores the number of the last batch with the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from millstream.connect.protocols import ConnectorContext, Guarantee, Rejected, SinkBatch
from millstream.connectors.arrow_rows import DELETED, KEY, OWN_COLUMNS, declared_columns, to_table
from millstream.connectors.checking import column_problems
from millstream.connectors.extras import missing_package
from millstream.connectors.lineage import OtherLineage, check_choice, other_lineage
from millstream.connectors.upserts import latest_rows
from millstream.errors import ConnectorError, DefinitionError, TargetUnavailableError
from millstream.foundation.text import error_text, printable
from millstream.secret import Secret, revealed

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction

TableMode = Literal["append", "upsert"]


class Iceberg:
    """A sink that appends each batch to an Iceberg table, or with ``mode="upsert"`` keeps one row for each key.

    Rows and the number of their batch, a property of the table, are one commit, so that a repeated batch changes
    nothing: exactly once. Rows have the fields of the value and the columns of ``Files``. ``catalog`` has the
    properties of the catalog as pyiceberg names them. The table is created by the first batch, and new fields become
    new columns.

    >>> Iceberg("shop.totals", catalog={"type": "rest", "uri": "https://catalog"}, mode="upsert")
    Iceberg('shop.totals', mode='upsert')
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        table: str,
        *,
        catalog: Mapping[str, str | Secret],
        catalog_name: str = "default",
        mode: TableMode = "append",
        columns: Mapping[str, str] | None = None,
        on_other_lineage: OtherLineage = "refuse",
    ) -> None:
        check_choice("mode", mode, ("append", "upsert"))
        check_choice("on_other_lineage", on_other_lineage, ("refuse", "adopt"))
        declared_columns(columns)
        if "." not in table:
            raise DefinitionError(f"table={table!r} has no namespace", hint="write NAMESPACE.TABLE")
        self.table = table
        self.catalog = dict(catalog)
        self.catalog_name = catalog_name
        self.mode = mode
        self.columns = dict(columns or {})
        self.on_other_lineage = on_other_lineage

    def __repr__(self) -> str:
        return f"Iceberg({self.table!r}, mode={self.mode!r})"

    def open(self, context: ConnectorContext) -> IcebergWriter:
        """Prepare; the catalog is called by the first batch."""
        return IcebergWriter(self, context.app, context.name)

    def check(self) -> Sequence[str]:
        """Ask the catalog for the table, and return what would stop the sink."""
        try:
            return IcebergWriter(self, "check", "check").problems()
        except ConnectorError as error:
            return [str(error)]


class IcebergWriter:
    """Writes the batches of one sink."""

    def __init__(self, sink: Iceberg, app: str, name: str) -> None:
        try:
            import pyiceberg.catalog
            import pyiceberg.exceptions
            import pyiceberg.expressions
        except ModuleNotFoundError as error:
            raise missing_package("pyiceberg", "iceberg") from error
        warnings.filterwarnings("ignore", "Delete operation did not match any records")  # as the first of each key does
        self._errors = pyiceberg.exceptions
        self._load_catalog = pyiceberg.catalog.load_catalog
        self._is_in: Any = pyiceberg.expressions.In
        self._sink = sink
        self._name = name
        self._marker = f"millstream.{app}.{name}"
        self._table: Table | None = None

    def write(self, batch: SinkBatch) -> Sequence[Rejected]:
        """Commit the rows of a batch, unless the table has them."""
        with self._translated():
            return self._write(batch)

    def problems(self) -> list[str]:
        """Return what would stop a first batch."""
        with self._translated():
            table = self._opened()
        if table is None:
            return []
        needed = (KEY, DELETED) if self._sink.mode == "upsert" else ()
        declared = declared_columns(self._sink.columns)
        return column_problems(f"table {self._sink.table!r}", _columns_of(table), declared, needed)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        errors = self._errors
        temporary = (
            *(errors.CommitFailedException, errors.CommitStateUnknownException, errors.ServerError),
            *(errors.ServiceUnavailableError, errors.TooManyRequestsError, errors.WaitingForLockException, OSError),
        )
        try:
            yield
        except temporary as error:
            if isinstance(error, PermissionError):
                raise ConnectorError(self._text(error), hint="check its permissions") from error
            raise TargetUnavailableError(self._text(error), sink=self._name) from error
        except ConnectorError:
            raise
        except Exception as error:  # each catalog has errors of its own, such as those of its database
            hint = "check catalog=, and that the columns of the table fit columns= and the values"
            raise ConnectorError(self._text(error), hint=hint, sink=self._name) from error

    def close(self) -> None:
        """Forget the table; the catalog has no connection to close."""
        self._table = None

    def _write(self, batch: SinkBatch) -> list[Rejected]:
        table = self._opened()
        known = declared_columns(self._sink.columns) | ({} if table is None else _columns_of(table))
        is_upsert = self._sink.mode == "upsert"
        make_rows = latest_rows if is_upsert else to_table
        rows, problems = make_rows(batch.records, {name: known[name] for name in known if name not in OWN_COLUMNS})
        if table is None:
            table = self._created(rows.schema)
        if self._is_written(table, batch):
            return problems
        with table.transaction() as transaction:
            with transaction.update_schema() as update:
                update.union_by_name(rows.schema)
            if is_upsert:
                self._upsert(transaction, rows)
            else:
                transaction.append(rows)
            transaction.set_properties({self._marker: f"{batch.lineage} {batch.number}"})
        return problems

    def _upsert(self, transaction: Transaction, rows: pa.Table) -> None:
        """Replace the rows of all keys: delete them, and append the values of those that have one."""
        if rows.num_rows:
            transaction.delete(self._is_in(KEY, rows[KEY].to_pylist()))
        kept = rows.filter(pc.invert(rows[DELETED]))
        if kept.num_rows:
            transaction.append(kept)

    def _opened(self) -> Table | None:
        """Return the table as it is now, or None if it does not exist."""
        if self._table is not None:
            self._table.refresh()
            return self._table
        try:
            self._table = self._catalog().load_table(self._sink.table)
        except (self._errors.NoSuchTableError, self._errors.NoSuchNamespaceError):
            return None
        return self._table

    def _created(self, schema: pa.Schema) -> Table:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._sink.table.rpartition(".")[0])
        self._table = catalog.create_table_if_not_exists(self._sink.table, schema)
        return self._table

    def _catalog(self) -> Any:
        return self._load_catalog(self._sink.catalog_name, **revealed(self._sink.catalog))

    def _is_written(self, table: Table, batch: SinkBatch) -> bool:
        lineage, _, number = table.properties.get(self._marker, "").rpartition(" ")
        if lineage and lineage != batch.lineage:
            if self._sink.on_other_lineage == "refuse":
                raise other_lineage(self._name, lineage, batch.lineage)
            return False
        return bool(lineage) and int(number) >= batch.number

    def _text(self, error: Exception) -> str:
        reason = f"{type(error).__name__}: {printable(error_text(error))[:500]}"
        return f"sink {self._name!r} cannot write to table {self._sink.table!r}: {reason}"


def _columns_of(table: Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema().as_arrow()}

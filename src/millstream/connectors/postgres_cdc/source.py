"""The source that reads the changes of Postgres tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee
from millstream.connectors.change_data.debezium import DebeziumFormat
from millstream.connectors.change_data.format import ChangeFormat
from millstream.connectors.change_data.row_format import RowFormat
from millstream.connectors.change_data.schema_digests import OnSchemaChange
from millstream.connectors.change_data.table_topics import check_topics, qualified, topic_of
from millstream.connectors.postgres_cdc.catalog import DatabaseCatalog, refuse
from millstream.connectors.postgres_cdc.chunks import ChunkReader
from millstream.connectors.postgres_cdc.completion import Completion, KeepRows
from millstream.connectors.postgres_cdc.connection import Address, ReplicationStream
from millstream.connectors.postgres_cdc.envelope_source import envelope_source
from millstream.connectors.postgres_cdc.opening import (
    ServerNames,
    check_position,
    first_position,
    recovered,
    rows_directory,
    with_snapshots,
)
from millstream.connectors.postgres_cdc.outbox import OutboxTable
from millstream.connectors.postgres_cdc.position import Position, parse_lsn, parse_position
from millstream.connectors.postgres_cdc.reader import Parts, PostgresReader
from millstream.connectors.postgres_cdc.row_store import RowStore
from millstream.connectors.postgres_cdc.schemas import Schemas
from millstream.connectors.postgres_cdc.slot_gauges import SlotGauges
from millstream.connectors.postgres_cdc.stream_state import StreamState
from millstream.connectors.postgres_cdc.visibility import SNAPSHOT_QUERY, StreamedTransactions, parse_snapshot
from millstream.connectors.postgres_cdc.writing import OnTruncate, RecordWriting
from millstream.errors import DefinitionError
from millstream.secret import Secret

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_]")
_MAX_NAME = 63
_SCHEMA = "public"


class PostgresCdc:
    """Read the changes of tables from a Postgres database, exactly once, after a snapshot of their rows.

    Each table has a topic, by default ``{table}``. A record has the key of the row and the row as JSON; a delete is a
    tombstone. The user needs the right to replicate and to read the tables, and the server ``wal_level = logical``.

    >>> source = PostgresCdc("postgresql://cdc@127.0.0.1/shop", tables=["orders", "sales.customers"])
    >>> sorted(source.topics())
    ['customers', 'orders']
    """

    guarantee: Guarantee = "exactly once"

    def __init__(
        self,
        url: str,
        *,
        tables: Sequence[str],
        password: Secret | None = None,
        topic: str = "{table}",
        partitions: int = 4,
        format: Literal["row", "debezium"] = "row",
        snapshot: Literal["initial", "never"] = "initial",
        chunk_rows: int = 10_000,
        keep_rows: KeepRows | None = None,
        on_truncate: OnTruncate | None = None,
        on_schema_change: OnSchemaChange = "follow",
        messages: Sequence[str] = (),
        outbox: OutboxTable | None = None,
        slot: str | None = None,
        publication: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        self._address = Address(url, password, allow_plain_text=allow_plain_text)
        self._outbox = outbox and msgspec.structs.replace(outbox, table=qualified(outbox.table, _SCHEMA))
        self._row_tables = [qualified(table, _SCHEMA) for table in tables]
        self._tables = [*self._row_tables, *([self._outbox.table] if self._outbox else [])]
        self._topics = {table: topic_of(table, topic) for table in self._tables}
        self._partitions = partitions
        self._format = format
        self._reads_rows = snapshot == "initial"
        self._chunk_rows = chunk_rows
        self._keep: KeepRows = keep_rows or ("all" if format == "debezium" else "needed")
        self._on_truncate: OnTruncate = on_truncate or ("tombstones" if self._keep == "all" else "stop")
        self._on_schema_change = on_schema_change
        self._messages = frozenset(messages)
        self._slot, self._publication = slot, publication
        if self._on_truncate == "tombstones" and self._keep != "all":
            raise DefinitionError(
                "on_truncate='tombstones' needs the keys of all rows", hint="set keep_rows='all' as well"
            )
        if format == "debezium" and self._keep != "all":
            raise DefinitionError(
                "format='debezium' needs all rows, for the rows before changes", hint="leave out keep_rows"
            )
        check_topics({table: self._topics[table] for table in self._row_tables})
        if not self._tables and not messages:
            raise DefinitionError("a source without tables reads nothing", hint="name tables, or messages to read")

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the topics of tables, which are compacted, and those of messages."""
        compacted = TopicConfig(partitions=self._partitions, compact=True)
        plain = TopicConfig(partitions=self._partitions)
        topics = {self._topics[table]: compacted for table in self._row_tables}
        topics.update(dict.fromkeys(sorted(self._messages), plain))
        if self._outbox is not None:
            topics.update((self._outbox.topic.format(type=kind), plain) for kind in self._outbox.types)
        return topics

    def check(self) -> Sequence[str]:
        """Connect, change nothing, and return what is missing, a sentence each."""
        names = self._names("app", "source")
        with self._address.connect() as connection:
            return DatabaseCatalog(connection).problems(self._tables, names.slot, names.publication)

    def open(self, position: bytes | None, context: ConnectorContext) -> PostgresReader:
        """Continue from a position, or create a slot and begin with a snapshot of all tables."""
        names = self._names(context.app, context.name)
        chunks = ChunkReader(self._address, names.publication, self._chunk_rows)
        try:
            stream = ReplicationStream(self._address)
            try:
                return self._opened(position, context, names, chunks, stream)
            except BaseException:
                stream.close()
                raise
        except BaseException:
            chunks.close()
            raise

    def _opened(
        self,
        data: bytes | None,
        context: ConnectorContext,
        names: ServerNames,
        chunks: ChunkReader,
        stream: ReplicationStream,
    ) -> PostgresReader:
        catalog = chunks.catalog
        for table in self._tables:
            refuse(catalog.table_problems(table))
        if data is not None:
            check_position(parse_position(data), stream, catalog, names)
        catalog.publish(names.publication, self._tables)
        start, is_new_slot = (parse_position(data), False) if data else first_position(stream, catalog, names)
        store = rows_directory(context, self._keep)
        try:
            position = recovered(start, store, reads_rows=self._reads_rows)
            position = with_snapshots(
                position, self._row_tables, catalog, is_new_slot=is_new_slot, reads_rows=self._reads_rows
            )
            parts = self._parts(position, context, names, chunks, stream, store)
            stream.start(names.slot, parse_lsn(position.lsn), names.publication)
        except BaseException:
            store.close()
            raise
        return PostgresReader(position, context, parts, is_durable=data is not None and position == start)

    def _parts(
        self,
        position: Position,
        context: ConnectorContext,
        names: ServerNames,
        chunks: ChunkReader,
        stream: ReplicationStream,
        store: RowStore,
    ) -> Parts:
        newest = parse_snapshot(chunks.catalog.rows(SNAPSHOT_QUERY)[0][0]).end
        schemas = Schemas(position.schemas, chunks.catalog, self._on_schema_change)
        state = StreamState(
            parse_lsn(position.lsn),
            StreamedTransactions(position.streamed, newest),
            self._topics.get,
            schemas.described,
            self._messages,
            (position.transaction, position.taken),
        )
        completion = Completion(store, self._keep)
        records: ChangeFormat = RowFormat()
        if self._format == "debezium":
            records = DebeziumFormat(envelope_source(context.name, names.database))
        return Parts(
            stream=stream,
            state=state,
            chunks=chunks,
            writing=RecordWriting(records, completion, self._outbox, self._on_truncate),
            store=store,
            completion=completion,
            schemas=schemas,
            gauges=SlotGauges(chunks.catalog, names.slot, context.report),
            topics=self._topics,
        )

    def _names(self, app: str, name: str) -> ServerNames:
        default = _NOT_IN_NAMES.sub("_", f"millstream_{app}_{name}".lower())[:_MAX_NAME]
        return ServerNames(self._slot or default, self._publication or default, self._address.database)

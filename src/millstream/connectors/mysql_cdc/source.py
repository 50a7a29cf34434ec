"""The source that reads the changes of tables of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec

from millstream.broker import TopicConfig
from millstream.connect.protocols import ConnectorContext, Guarantee
from millstream.connectors.change_data.debezium import DebeziumFormat
from millstream.connectors.change_data.format import ChangeFormat
from millstream.connectors.change_data.row_format import RowFormat
from millstream.connectors.change_data.schema_digests import OnSchemaChange, SchemaDigests
from millstream.connectors.change_data.snapshot_progress import with_tables
from millstream.connectors.change_data.table_topics import check_topics, qualified, topic_of
from millstream.connectors.mysql_cdc.binlog_stream import BinlogStream
from millstream.connectors.mysql_cdc.charsets import Charsets
from millstream.connectors.mysql_cdc.chunks import PlacedChunkReader
from millstream.connectors.mysql_cdc.connection import MysqlSession
from millstream.connectors.mysql_cdc.envelope_source import envelope_source
from millstream.connectors.mysql_cdc.events import HEADER_BYTES
from millstream.connectors.mysql_cdc.position import BinlogPosition, log_location, parse_position
from millstream.connectors.mysql_cdc.reader import MysqlParts, MysqlReader
from millstream.connectors.mysql_cdc.row_events import LoggedTable
from millstream.connectors.mysql_cdc.server import START_OVER, Server, refuse
from millstream.connectors.mysql_cdc.stream_state import BinlogState, OnTruncate
from millstream.connectors.mysql_cdc.table_maps import parse_table_map
from millstream.connectors.mysql_server import MysqlAddress
from millstream.errors import ConnectorError, DefinitionError
from millstream.secret import Secret


class MysqlCdc:
    """Read the changes of tables from MySQL or MariaDB, exactly once, after a snapshot of their rows.

    Each table has a topic, by default ``{table}``. A record has the key of the row and the row as JSON; a delete is a
    tombstone. The user needs REPLICATION SLAVE, REPLICATION CLIENT and SELECT (on MySQL LOCK TABLES too), and the
    server ``binlog_format = ROW``, ``binlog_row_image = FULL`` and ``binlog_row_metadata = FULL``.

    >>> source = MysqlCdc("mysql://cdc@127.0.0.1/shop", tables=["orders", "sales.customers"])
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
        on_truncate: OnTruncate = "stop",
        on_schema_change: OnSchemaChange = "follow",
        server_id: int | None = None,
        ca_file: str | None = None,
        allow_plain_text: bool = False,
    ) -> None:
        self._address = MysqlAddress(url, password, ca_file=ca_file, allow_plain_text=allow_plain_text)
        self._tables = [qualified(table, self._address.database) for table in tables]
        self._topics = {table: topic_of(table, topic) for table in self._tables}
        self._partitions = partitions
        self._format = format
        self._reads_rows = snapshot == "initial"
        self._chunk_rows = chunk_rows
        self._on_truncate = on_truncate
        self._on_schema_change = on_schema_change
        self._server_id = server_id
        check_topics(self._topics)
        if not self._tables:
            raise DefinitionError("a source without tables reads nothing", hint="name tables")

    def topics(self) -> Mapping[str, TopicConfig]:
        """Return the topics of tables, which are compacted."""
        return dict.fromkeys(self._topics.values(), TopicConfig(partitions=self._partitions, compact=True))

    def check(self) -> Sequence[str]:
        """Connect, change nothing, and return what is missing, a sentence each."""
        statements = MysqlSession(self._address)
        try:
            return Server(statements).problems(self._tables, reads_rows=self._reads_rows)
        finally:
            statements.close()

    def open(self, position: bytes | None, context: ConnectorContext) -> MysqlReader:
        """Continue from a position, or begin at the end of the log with a snapshot of all tables."""
        statements = MysqlSession(self._address)
        try:
            chunks = PlacedChunkReader(self._address, self._chunk_rows)
            try:
                stream = BinlogStream(self._address)
                try:
                    return self._opened(position, context, Server(statements), chunks, stream)
                except BaseException:
                    stream.close()
                    raise
            except BaseException:
                chunks.close()
                raise
        except BaseException:
            statements.close()
            raise

    def _opened(
        self,
        data: bytes | None,
        context: ConnectorContext,
        server: Server,
        chunks: PlacedChunkReader,
        stream: BinlogStream,
    ) -> MysqlReader:
        refuse(server.problems(self._tables, reads_rows=self._reads_rows))
        if data is None:
            file, offset = server.end_of_log()
            start = BinlogPosition(server=server.identity(), file=file, offset=offset)
        else:
            start = parse_position(data)
            check_position(start, server)
        done, progress = with_tables(start.tables, start.snapshot, self._tables, reads_rows=self._reads_rows)
        position = msgspec.structs.replace(start, tables=done, snapshot=progress)
        charsets = Charsets(server.statements)
        known: dict[bytes, LoggedTable] = {}

        def table_of(event: bytes) -> LoggedTable:
            body = event[HEADER_BYTES + 6 :]  # without the number, which changes when the table is opened again
            table = known.get(body)
            if table is None:
                table_map = parse_table_map(event, is_mariadb=server.is_mariadb)
                table = known[body] = LoggedTable(table_map, charsets)
            return table

        state = BinlogState(
            (position.file, position.offset), position.gtid, position.taken, self._topics, table_of, self._on_truncate
        )
        records: ChangeFormat = RowFormat()
        if self._format == "debezium":
            records = DebeziumFormat(envelope_source(context.name, state, is_mariadb=server.is_mariadb))
        parts = MysqlParts(
            stream=stream,
            state=state,
            chunks=chunks,
            server=server,
            format=records,
            schemas=SchemaDigests(position.schemas, self._on_schema_change),
            topics=self._topics,
            database=self._address.database,
        )
        stream.start(position.file, position.offset, self._server_id or _server_id(context))
        return MysqlReader(position, context, parts, is_durable=data is not None and position == start)


def check_position(position: BinlogPosition, server: Server) -> None:
    """Refuse a position from which the server cannot continue without a gap."""
    identity = server.identity()
    if identity != position.server:
        raise ConnectorError(
            f"the server has the identifier {identity!r}, but the position is one of {position.server!r}",
            hint=f"connect to the server that was read before, or {START_OVER}",
        )
    logs = server.logs()
    if position.file not in logs:
        oldest = min(logs, key=lambda file: log_location(file, 0), default="none")
        raise ConnectorError(
            f"the server has no binary log {position.file!r} any longer; its oldest is {oldest!r}",
            hint=f"the changes in it are lost; let the server keep its logs for longer, and {START_OVER}",
        )
    if position.offset > logs[position.file]:
        raise ConnectorError(
            f"{position.file!r} has {logs[position.file]} bytes, but {position.offset} is the last place that was read",
            hint=f"the server has lost the end of its log, or begun a new one; {START_OVER}",
        )
    if position.gtid and not server.has_gtid(position.gtid, position.file, position.offset):
        raise ConnectorError(
            f"transaction {position.gtid} is not in the binary log at {position.file}:{position.offset}",
            hint=f"the server has begun a new log, or its data is that of another; {START_OVER}",
        )


def _server_id(context: ConnectorContext) -> int:
    """Return the number of this source as a replica, always the same, so that the server ends an old connection."""
    digest = blake2b(f"{context.app}/{context.name}".encode(), digest_size=4).digest()
    return max(1 << 16, int.from_bytes(digest, "big"))

"""Millstream: Kafka Streams for Python, on Spark."""

from __future__ import annotations

from millstream.app import App
from millstream.config import Config
from millstream.dsl.alerts import Alerts
from millstream.dsl.grouped import GroupedStream
from millstream.dsl.measures import (
    collect_of,
    collect_set_of,
    count_distinct_of,
    count_of,
    first_of,
    last_of,
    max_of,
    mean_of,
    min_of,
    quantile_of,
    sum_of,
    top_of,
)
from millstream.dsl.stream import Stream
from millstream.dsl.table import Table
from millstream.errors import MillstreamError
from millstream.processors import (
    Processor,
    ProcessorContext,
    ValueTransformer,
    key_value_store,
    punctuate,
    session_store,
    table_store,
    versioned_store,
    window_store,
)
from millstream.queues.worker import Reject
from millstream.records import Record, Windowed
from millstream.secret import Secret
from millstream.sql.columns import Expr, col, row
from millstream.suppression import until_time_limit, until_window_closes
from millstream.timestamps import device_clock
from millstream.windowed_serdes import session_windowed, time_windowed
from millstream.windows import JoinWindow, hopping, join_window, session, sliding, tumbling, unlimited

__all__ = [
    "Alerts",
    "App",
    "Config",
    "Expr",
    "GroupedStream",
    "JoinWindow",
    "MillstreamError",
    "Processor",
    "ProcessorContext",
    "Record",
    "Reject",
    "Secret",
    "Stream",
    "Table",
    "ValueTransformer",
    "Windowed",
    "col",
    "collect_of",
    "collect_set_of",
    "count_distinct_of",
    "count_of",
    "device_clock",
    "first_of",
    "hopping",
    "join_window",
    "key_value_store",
    "last_of",
    "max_of",
    "mean_of",
    "min_of",
    "punctuate",
    "quantile_of",
    "row",
    "session",
    "session_store",
    "session_windowed",
    "sliding",
    "sum_of",
    "table_store",
    "time_windowed",
    "top_of",
    "tumbling",
    "unlimited",
    "until_time_limit",
    "until_window_closes",
    "versioned_store",
    "window_store",
]

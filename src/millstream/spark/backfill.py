"""Append the rows of a DataFrame to a topic."""

from __future__ import annotations

import contextlib

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import NumericType

from millstream.batch.app_spec import AppSettings
from millstream.broker import TopicConfig
from millstream.broker_urls import open_broker
from millstream.errors import DefinitionError, TopicExistsError
from millstream.spark.datasource import FORMAT, register
from millstream.spark.failures import explained
from millstream.spark.session import source_options


def backfill(app: AppSettings, dataframe: DataFrame, *, topic: str, key: str | None, timestamp: str | None) -> None:
    """Append the rows of a DataFrame to a topic; see ``App.backfill``."""
    for column in filter(None, (key, timestamp)):
        if column not in dataframe.columns:
            raise DefinitionError(
                f"the DataFrame has no column {column!r}", hint=f"it has {', '.join(map(repr, dataframe.columns))}"
            )
    broker = open_broker(app.broker_url, app.data_dir, durability=app.config.durability)
    try:
        if app.config.create_topics:
            with contextlib.suppress(TopicExistsError):
                broker.create_topic(topic, TopicConfig(partitions=app.config.partitions))
        broker.topic(topic)
    finally:
        broker.close()
    register(dataframe.sparkSession)
    writer = _records(dataframe, key, timestamp).write.format(FORMAT).options(**source_options(app))
    try:
        writer.option("topic", topic).mode("append").save()
    except PySparkException as error:
        raise explained(error) from error


def _records(dataframe: DataFrame, key: str | None, timestamp: str | None) -> DataFrame:
    if key is not None:
        dataframe = dataframe.withColumn("_key", f.col(key).cast("string"))
    if timestamp is None:
        return dataframe
    is_number = isinstance(dataframe.schema[timestamp].dataType, NumericType)
    column = f.timestamp_millis(f.col(timestamp).cast("bigint")) if is_number else f.col(timestamp).cast("timestamp")
    # a single task writes all rows, so that each partition of the topic is ordered by time
    return dataframe.withColumn("_timestamp", column).coalesce(1).sortWithinPartitions("_timestamp")

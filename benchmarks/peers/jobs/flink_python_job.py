"""Rides per zone and minute with PyFlink's DataStream API: rides are processed in Python.

PyFlink's sink for Kafka makes the key from the whole record, so that the counts of a zone would not stay in order; a
table with ``key.fields`` does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Row, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from pyflink.datastream.state import MapStateDescriptor
from pyflink.table import StreamTableEnvironment

settings = os.environ
MINUTE = 60_000
GRACE = int(settings["GRACE_MS"])


def zone_and_minute(line: str) -> Iterator[tuple[int, int]]:
    """Yield what is counted of a ride, if its amount is more than 1."""
    ride = json.loads(line)
    if ride["amount"] > 1.0:
        yield ride["zone"], ride["pickup"] // MINUTE * MINUTE


class EveryUpdate(KeyedProcessFunction):
    """Count by minute and emit each update at once."""

    def open(self, context: Any) -> None:
        self.counts = context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, ride: tuple[int, int], context: Any) -> Iterator[Any]:
        zone, start = ride
        if start + MINUTE + GRACE <= context.timer_service().current_watermark():
            return  # late
        before = self.counts.get(start)
        if before is None:
            context.timer_service().register_event_time_timer(start + MINUTE + GRACE)
        count = (before or 0) + 1
        self.counts.put(start, count)
        yield Row(zone, start, count)

    def on_timer(self, timestamp: int, _: Any) -> tuple[()]:
        self.counts.remove(timestamp - MINUTE - GRACE)
        return ()  # None would end the job, because the result is iterated over


def main() -> None:
    """Run the job until it is stopped."""
    conf = Configuration()
    for name, value in {
        "pipeline.jars": f"file://{settings['CONNECTOR']}",
        "parallelism.default": "2",
        "execution.checkpointing.interval": f"{settings['CHECKPOINT_MS']} ms",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": f"file://{settings['STATE_DIR']}/checkpoints",
        "execution.buffer-timeout.interval": "10 ms",
        "restart-strategy.type": "none",
        "python.fn-execution.bundle.size": "10000",
        "python.fn-execution.bundle.time": "20",
    }.items():
        conf.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(conf)
    tables = StreamTableEnvironment.create(environment)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(settings["BOOTSTRAP"])
        .set_group_id(settings["GROUP"])
        .set_topics(settings["SOURCE"])
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    count = Types.ROW_NAMED(["zone", "start", "count"], [Types.INT(), Types.LONG(), Types.LONG()])
    counts = (
        environment.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "rides")
        .flat_map(zone_and_minute, output_type=Types.TUPLE([Types.INT(), Types.LONG()]))
        .key_by(lambda ride: ride[0], key_type=Types.INT())
        .process(EveryUpdate(), output_type=count)
    )
    tables.execute_sql(f"""
        CREATE TABLE counts (zone INT, `start` BIGINT, `count` BIGINT) WITH (
            'connector' = 'kafka', 'topic' = '{settings["TARGET"]}', 'key.format' = 'json', 'key.fields' = 'zone',
            'value.format' = 'json', 'properties.bootstrap.servers' = '{settings["BOOTSTRAP"]}',
            'properties.transaction.timeout.ms' = '600000', 'sink.transaction-naming-strategy' = 'pooling',
            'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{settings["GROUP"]}'
        )""")
    tables.from_data_stream(counts).execute_insert("counts").wait()


if __name__ == "__main__":
    main()

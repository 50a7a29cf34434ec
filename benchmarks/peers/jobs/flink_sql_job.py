"""Rides per zone and minute with Flink SQL, started from Python; nothing but the start runs in Python.

With MERGE, Flink's mini-batches merge the updates of a count; without, every update is written.
"""

from __future__ import annotations

import os

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

settings = os.environ
conf = Configuration()
for name, value in {
    "pipeline.jars": f"file://{settings['CONNECTOR']}",
    "parallelism.default": "2",
    "execution.checkpointing.interval": f"{settings['CHECKPOINT_MS']} ms",
    "execution.checkpointing.storage": "filesystem",
    "execution.checkpointing.dir": f"file://{settings['STATE_DIR']}/checkpoints",
    "execution.buffer-timeout.interval": "10 ms",
    "pipeline.object-reuse": "true",
    "restart-strategy.type": "none",
    "table.local-time-zone": "UTC",
    "table.exec.state.ttl": "1 h",
    "table.exec.mini-batch.enabled": "true" if "MERGE" in settings else "false",
    "table.exec.mini-batch.allow-latency": "100 ms",
    "table.exec.mini-batch.size": "5000",
}.items():
    conf.set_string(name, value)
table = TableEnvironment.create(EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(conf).build())

if __name__ == "__main__":
    table.execute_sql(f"""
        CREATE TABLE rides (ride_id STRING, vendor_id INT, zone INT, amount DOUBLE, pickup BIGINT) WITH (
            'connector' = 'kafka', 'topic' = '{settings["SOURCE"]}', 'format' = 'json',
            'properties.bootstrap.servers' = '{settings["BOOTSTRAP"]}', 'properties.group.id' = '{settings["GROUP"]}',
            'scan.startup.mode' = 'earliest-offset'
        )""")
    table.execute_sql(f"""
        CREATE TABLE counts (zone INT, `start` BIGINT, `count` BIGINT, PRIMARY KEY (zone, `start`) NOT ENFORCED) WITH (
            'connector' = 'upsert-kafka', 'topic' = '{settings["TARGET"]}', 'key.format' = 'json',
            'value.format' = 'json', 'properties.bootstrap.servers' = '{settings["BOOTSTRAP"]}',
            'properties.transaction.timeout.ms' = '600000', 'sink.transaction-naming-strategy' = 'pooling',
            'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{settings["GROUP"]}'
        )""")
    table.execute_sql("""
        INSERT INTO counts SELECT zone, minute_start, COUNT(*)
        FROM (SELECT zone, pickup - MOD(pickup, 60000) AS minute_start FROM rides WHERE amount > 1.0)
        GROUP BY zone, minute_start""").wait()

-- Batch meets stream: revenue per product. The same table as in examples/batch_meets_stream.py; a sink of DataFrames
-- is Python.

CREATE STREAM orders (id STRING KEY, product STRING, cents BIGINT) WITH (KAFKA_TOPIC = 'orders', VALUE_FORMAT = 'JSON');

CREATE TABLE revenue AS SELECT id, SUM(cents) AS cents FROM orders GROUP BY id;

-- The events of benchmarks/nexmark/model.py, for all queries.

CREATE STREAM bid (
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, time BIGINT, extra STRING
    ) WITH (KAFKA_TOPIC = 'bid', VALUE_FORMAT = 'JSON');
CREATE TABLE auction (
        id BIGINT PRIMARY KEY, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, time BIGINT,
        expires BIGINT, seller BIGINT, category BIGINT, extra STRING
    ) WITH (KAFKA_TOPIC = 'auction', FORMAT = 'JSON');
CREATE TABLE person (
        id BIGINT PRIMARY KEY, name STRING, email STRING, card STRING, city STRING, state STRING, time BIGINT,
        extra STRING
    ) WITH (KAFKA_TOPIC = 'person', FORMAT = 'JSON');


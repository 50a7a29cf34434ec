-- The events of benchmarks/nexmark/model.py, for all queries: a directory for each topic, a file for each partition.

CREATE TABLE bid (
        auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `time` BIGINT, extra STRING,
        event_time AS TO_TIMESTAMP_LTZ(`time`, 3), WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '${events}/bid', 'format' = 'json');
CREATE TABLE auction (
        id BIGINT, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, `time` BIGINT, expires BIGINT,
        seller BIGINT, category BIGINT, extra STRING,
        event_time AS TO_TIMESTAMP_LTZ(`time`, 3), WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '${events}/auction', 'format' = 'json');
CREATE TABLE person (
        id BIGINT, name STRING, email STRING, card STRING, city STRING, state STRING, `time` BIGINT, extra STRING,
        event_time AS TO_TIMESTAMP_LTZ(`time`, 3), WATERMARK FOR event_time AS event_time - INTERVAL '4' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = '${events}/person', 'format' = 'json');

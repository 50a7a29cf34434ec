CREATE TABLE target (
        id BIGINT, `start` BIGINT, `count` BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT bidder, MIN(`time`), COUNT(*)
    FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
    GROUP BY bidder, window_start, window_end;

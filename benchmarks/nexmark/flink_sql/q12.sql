CREATE TABLE target (
        id BIGINT, `start` BIGINT, `count` BIGINT, PRIMARY KEY (id, `start`) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
-- Not a window of PROCTIME(): Flink does not fire timers of processing time that are pending when its input ends.
INSERT INTO target
    SELECT bidder, ten_seconds * 10000, COUNT(*)
    FROM (SELECT bidder, UNIX_TIMESTAMP() / 10 AS ten_seconds FROM bid)
    GROUP BY bidder, ten_seconds;

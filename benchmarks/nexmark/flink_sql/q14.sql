CREATE TABLE target (
        auction BIGINT, price DOUBLE, `time` STRING, c BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, 0.908E0 * price,
        CASE WHEN HOUR(event_time) BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN HOUR(event_time) <= 6 OR HOUR(event_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
        count_char(extra, 'c')
    FROM bid WHERE 0.908E0 * price > 1000000 AND 0.908E0 * price < 50000000;

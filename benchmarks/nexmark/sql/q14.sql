CREATE STREAM q14 WITH (KAFKA_TOPIC = 'out') AS
    SELECT auction, CAST(0.908 AS DOUBLE) * price AS price,
        CASE WHEN time / 3600000 % 24 BETWEEN 8 AND 18 THEN 'dayTime'
             WHEN time / 3600000 % 24 BETWEEN 7 AND 19 THEN 'otherTime' ELSE 'nightTime' END AS time,
        LEN(extra) - LEN(REPLACE(extra, 'c', '')) AS c
    FROM bid WHERE CAST(0.908 AS DOUBLE) * price > 1000000 AND CAST(0.908 AS DOUBLE) * price < 50000000;

CREATE TABLE target (
        auction BIGINT, `day` STRING,
        bids BIGINT, bids_low BIGINT, bids_middle BIGINT, bids_high BIGINT,
        low BIGINT, high BIGINT, average DOUBLE, total BIGINT,
        PRIMARY KEY (auction, `day`) NOT ENFORCED
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT auction, DATE_FORMAT(event_time, 'yyyy-MM-dd'),
        COUNT(*),
        COUNT(*) FILTER (WHERE price < 10000),
        COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000),
        COUNT(*) FILTER (WHERE price >= 1000000),
        MIN(price), MAX(price), AVG(CAST(price AS DOUBLE)), SUM(price)
    FROM bid GROUP BY auction, DATE_FORMAT(event_time, 'yyyy-MM-dd');

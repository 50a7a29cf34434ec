CREATE TABLE target (
        `start` BIGINT, number BIGINT, auction BIGINT, bidder BIGINT, `time` BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
INSERT INTO target
    SELECT CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', h.window_start) AS BIGINT) * 1000, b.price,
        b.auction, b.bidder, b.`time`
    FROM bid b JOIN (
        SELECT MAX(price) AS highest, window_start, window_time AS ended_at
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end, window_time
    ) h ON b.price = h.highest AND b.event_time BETWEEN h.ended_at - INTERVAL '9.999' SECOND AND h.ended_at;

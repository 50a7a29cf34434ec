CREATE TABLE target (
        `start` BIGINT, number BIGINT, name BIGINT
    ) WITH ('connector' = 'changelog-files', 'path' = '${results}');
CREATE TEMPORARY VIEW counts AS
    SELECT auction, COUNT(*) AS number, window_start, window_end
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(event_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end;
INSERT INTO target
    SELECT CAST(TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', c.window_start) AS BIGINT) * 1000, c.number,
        c.auction
    FROM counts c JOIN (
        SELECT MAX(number) AS highest, window_start, window_end FROM counts GROUP BY window_start, window_end
    ) m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.number >= m.highest;
